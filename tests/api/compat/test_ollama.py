"""Ollama's API over the fake pipeline, as its clients and programs speak it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.openapi import validator
from tests.serving import fake_service, served, wordy

USER = {"role": "user", "content": "Good morning."}
SYSTEM = {"role": "system", "content": "Translate to Japanese."}
SCHEMA = {"type": "object", "properties": {"translation": {"type": "string"}}, "required": ["translation"]}


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service()) as client:
        yield client


async def chat(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/api/chat", json={"model": "dragoman/ja", "messages": [USER], "stream": False} | body)


async def generate(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    sent = {"model": "dragoman/ja", "prompt": "Good morning.", "stream": False} | body
    return await client.post("/api/generate", json=sent)


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_whole_answer(client: httpx.AsyncClient) -> None:
    for schema, answer in (("ChatAnswer", await chat(client)), ("GenerateAnswer", await generate(client))):
        found = answer.json()
        validator("ollama", schema).validate(found)
        text = found["response"] if schema == "GenerateAnswer" else found["message"]["content"]
        assert (answer.status_code, text, found["model"]) == (200, "~Good morning.", "dragoman/ja")
        assert (found["done"], found["done_reason"]) == (True, "stop")
        assert found["eval_count"] > 0 < found["prompt_eval_count"]
        assert found["total_duration"] >= found["eval_duration"] > 0 == found["load_duration"]
        assert datetime.fromisoformat(found["created_at"]).tzinfo is not None


@pytest.mark.parametrize("stream", [{}, {"stream": True}, {"stream": None}])
async def test_a_stream_is_what_clients_get_who_do_not_say(stream: dict[str, Any]) -> None:
    async with served(fake_service(wordy(30), step_s=0.01)) as client:
        body = {"model": "dragoman/ja", "messages": [USER], "prompt": "Good morning."} | stream
        for path, text_of in (
            ("/api/chat", lambda line: line["message"]["content"]),
            ("/api/generate", lambda line: line["response"]),
        ):
            *pieces, last = lines(await client.post(path, json=body))
            assert len(pieces) > 1
            assert "".join(map(text_of, pieces)) == " ".join(["word"] * 30)
            assert all(not piece["done"] and text_of(piece) and "done_reason" not in piece for piece in pieces)
            assert (last["done"], last["done_reason"], text_of(last)) == (True, "stop", "")
            assert last["eval_count"] == 30


async def test_a_failure_within_a_stream_is_its_last_line() -> None:
    async with served(fake_service(wordy(30), step_s=0.05)) as client:
        body = {"model": "dragoman/ja", "messages": [USER]}
        answer = await client.post("/api/chat", json=body, headers={"X-Request-Timeout": "0.5"})
    *pieces, last = lines(answer)
    assert answer.status_code == 200
    assert pieces
    assert list(last) == ["error"]


@pytest.mark.parametrize(
    "model",
    ["dragoman/ja", "dragoman/ja:latest", "dragoman:ja", "dragoman:ja:latest", "phrasebook/ja", "phrasebook:ja"],
)
async def test_a_models_name_has_the_target(client: httpx.AsyncClient, model: str) -> None:
    found = (await chat(client, model=model)).json()
    assert (found["message"]["content"], found["model"]) == ("~Good morning.", model)


async def test_names_of_a_model_that_name_no_language(client: httpx.AsyncClient) -> None:
    answer = await chat(client, model="dragoman:zz")
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    for model in ("llama3.2", "qwen2.5:7b", "phrasebook", "hf.co/a/b:Q4_K_M"):
        assert (await chat(client, model=model, messages=[SYSTEM, USER])).json()["message"][
            "content"
        ] == "~Good morning."
        assert (await chat(client, model=model)).status_code == 400


async def test_messages_are_read_as_those_of_openai(client: httpx.AsyncClient) -> None:
    """Whatever that reads: the same content, and the same refusals."""
    batch = {"targetLanguage": "ja", "segments": [{"id": 7, "text": "Good morning."}]}
    for messages in (
        [SYSTEM, USER],
        [{"role": "user", "content": json.dumps(batch)}],
        [{"role": "user", "content": "Hello.\n\n%%\n\nBye."}],
        [{"role": "assistant", "content": "x"}],
        [{"role": "tool", "content": "x"}],
    ):
        body = {"model": "dragoman/ja", "messages": messages, "stream": False}
        ours, theirs = await client.post("/api/chat", json=body), await client.post("/v1/chat/completions", json=body)
        assert ours.status_code == theirs.status_code
        if ours.status_code == 200:
            assert ours.json()["message"]["content"] == theirs.json()["choices"][0]["message"]["content"]
        else:
            assert ours.json()["error"] == theirs.json()["error"]["message"]


async def test_format(client: httpx.AsyncClient) -> None:
    answer = await chat(client, format=SCHEMA)
    assert json.loads(answer.json()["message"]["content"]) == {"translation": "~Good morning."}
    assert (await chat(client, format="")).json()["message"]["content"] == "~Good morning."
    pieces = lines(await chat(client, format=SCHEMA, stream=True))
    assert json.loads("".join(one["message"]["content"] for one in pieces)) == {"translation": "~Good morning."}
    answer = await generate(client, format=SCHEMA)
    assert json.loads(answer.json()["response"]) == {"translation": "~Good morning."}
    batch = json.dumps({"targetLanguage": "ja", "segments": [{"id": 7, "text": "Good morning."}]})
    answer = await generate(client, prompt=batch, format="json")
    assert "~Good morning." in json.dumps(json.loads(answer.json()["response"]))
    answer = await chat(client, format="yaml")
    assert (answer.status_code, answer.json()["error"].partition(":")[0]) == (400, "format")


@pytest.mark.parametrize(
    "more",
    [
        {"options": {"temperature": 0, "num_ctx": 8192, "num_predict": -1, "stop": ["\n"], "seed": 1}},
        {"keep_alive": "5m"},
        {"keep_alive": 0},
        {"keep_alive": -1},
        {"think": False},
        {"think": "low"},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        {"template": "{{ .Prompt }}", "context": [1, 2, 3], "logprobs": True},
        {"options": None, "images": [], "tools": None},
    ],
)
async def test_what_is_accepted_and_not_used(client: httpx.AsyncClient, more: dict[str, Any]) -> None:
    assert (await chat(client, **more)).json()["message"]["content"] == "~Good morning."
    assert (await generate(client, **more)).json()["response"] == "~Good morning."


async def test_a_prompt_with_a_system_message(client: httpx.AsyncClient) -> None:
    asked: dict[str, Any] = {"model": "any", "system": SYSTEM["content"]}
    assert (await generate(client, **asked)).json()["response"] == "~Good morning."
    assert (await generate(client, **asked, raw=True)).status_code == 400  # `raw` leaves the system message out
    assert (await generate(client, raw=True)).json()["response"] == "~Good morning."


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"suffix": "the end"}, "suffix"),
        ({"model": None}, "model"),
        ({"model": "x" * 2_000}, "model"),
        ({"prompt": 3}, "prompt"),
        ({"options": "x"}, "options"),
    ],
)
async def test_refusals_are_sentences(client: httpx.AsyncClient, more: dict[str, Any], named: str) -> None:
    answer = await generate(client, **more)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert named in answer.json()["error"]


async def test_images_are_refused_as_the_parts_of_openais_messages(client: httpx.AsyncClient) -> None:
    answer = await chat(client, messages=[{"role": "user", "content": "", "images": ["aGk="]}])
    assert answer.status_code == 400
    assert "image" in answer.json()["error"]


async def test_a_request_for_nothing_loads_the_model(client: httpx.AsyncClient) -> None:
    for path, empty, content in (
        ("/api/generate", {}, {"response": ""}),
        ("/api/generate", {"prompt": ""}, {"response": ""}),
        ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/chat", {}, {"message": {"role": "assistant", "content": ""}}),
    ):
        for keep_alive, reason in ((None, "load"), ("5m", "load"), (0, "unload"), ("0", "unload")):
            answer = (await client.post(path, json={"model": "any", "keep_alive": keep_alive} | empty)).json()
            assert answer | content == answer
            assert (answer["done"], answer["done_reason"], answer["model"]) == (True, reason, "any")


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
async def test_a_body_is_json_whatever_its_type_says(client: httpx.AsyncClient, content_type: str) -> None:
    """As `curl -d` sends it."""
    body = json.dumps({"model": "dragoman/ja", "prompt": "Good morning.", "stream": False})
    answer = await client.post("/api/generate", content=body, headers={"Content-Type": content_type})
    assert answer.json()["response"] == "~Good morning."
    answer = await client.post("/api/generate", content="model=x", headers={"Content-Type": content_type})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


async def test_models(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/api/tags")).json()["models"]
    ids = [one["id"] for one in (await client.get("/v1/models")).json()["data"]]
    assert [one["name"] for one in listed] == [one["model"] for one in listed] == [f"{id}:latest" for id in ids]
    assert len({one["digest"] for one in listed}) == len(listed)
    for one in listed:
        datetime.fromisoformat(one["modified_at"])
        shown = await client.post("/api/show", json={"model": one["name"]})
        assert shown.status_code == 200
        validator("ollama", "ShowAnswer").validate(shown.json())
    [running] = (await client.get("/api/ps")).json()["models"]
    assert running["name"] == f"{ids[0]}:latest"
    assert running["context_length"] > 0
    assert (await client.head("/api/tags")).status_code == (await client.head("/")).status_code == 200


async def test_a_models_description(client: httpx.AsyncClient) -> None:
    shown = (await client.post("/api/show", json={"name": "dragoman:ja"})).json()
    family = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{family}.context_length"] > 0
    assert shown["capabilities"] == ["completion"]
    answer = await client.post("/api/show", json={"model": "llama3.2"})
    assert answer.status_code == 404
    assert "model 'llama3.2' not found" in answer.json()["error"]
    assert (await client.post("/api/show", json={})).status_code == 400


async def test_a_pulled_model_is_there(client: httpx.AsyncClient) -> None:
    """Of any name, to which chats answer too: programs with a fixed model pull it where it is not listed."""
    for named in ({"model": "dragoman/ja"}, {"name": "mixtral:instruct", "insecure": False}):
        streamed = await client.post("/api/pull", json=named)
        assert lines(streamed) == [{"status": "success"}]
        whole = await client.post("/api/pull", json=named | {"stream": False})
        validator("ollama", "PullAnswer").validate(whole.json())
        [name] = [value for value in named.values() if isinstance(value, str)]
        assert (await chat(client, model=name, messages=[SYSTEM, USER])).status_code == 200
    answer = await client.post("/api/pull", json={})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


async def test_the_version_is_one_that_clients_can_compare(client: httpx.AsyncClient) -> None:
    version = (await client.get("/api/version")).json()["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]


async def test_what_is_not_served_is_an_error_of_ollamas(client: httpx.AsyncClient) -> None:
    for method, path, status in (
        ("POST", "/api/embed", 404),
        ("POST", "/api/push", 404),
        ("DELETE", "/api/delete", 404),
        ("GET", "/api/chat", 405),
    ):
        answer = await client.request(method, path)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
