"""OpenAI's chat completions through the unmodified `openai` package, over the fake pipeline."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from dragoman.api.compat import chat
from dragoman.api.compat.openai import ERROR_FORMATS
from dragoman.api.errors import Fault
from dragoman.errors import (
    DragomanError,
    EngineDead,
    InvalidKey,
    InvalidRequest,
    QueueFull,
    QuotaExceeded,
    RateLimited,
    Unauthenticated,
)
from dragoman.settings import ServerSettings
from tests.serving import fake_service, served

LIMITS = ServerSettings(max_text_characters=5_000, max_texts=10)
SYSTEM = {"role": "system", "content": "You are a translator. Translate to Japanese."}
TEXT = "Where is the train station?"
SCHEMA = {"type": "object", "properties": {"translation": {"type": "string"}}, "required": ["translation"]}
TOOL = {"type": "function", "function": {"name": "a", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service(server=LIMITS, step_s=0.001)) as client:
        yield client


@pytest.fixture
async def client(http: httpx.AsyncClient) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0) as client:
        yield client


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def ask(client: AsyncOpenAI, *messages: Any, model: str = "dragoman/ja", **options: Any) -> Any:
    return await client.chat.completions.create(model=model, messages=list(messages), **options)


@pytest.mark.parametrize(
    ("model", "messages", "headers"),
    [
        ("dragoman/ja", [user(TEXT)], {}),
        ("phrasebook/Japanese", [user(TEXT)], {}),
        ("gpt-4o-mini", [user(TEXT)], {"X-Target-Language": "ja"}),
        ("phrasebook", [SYSTEM, user(TEXT)], {}),
        ("dragoman", [{"role": "developer", "content": "Translate into 日本語"}, user(TEXT)], {}),
        ("gpt-4o", [user(f"Translate to ja:\n\n{TEXT}")], {}),
        ("gpt-4o", [SYSTEM, {"role": "user", "content": [{"type": "text", "text": TEXT}]}], {}),
    ],
)
async def test_the_target_language(
    client: AsyncOpenAI, model: str, messages: list[Any], headers: dict[str, str]
) -> None:
    answer = await ask(client, *messages, model=model, extra_headers=headers)
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", f"~{TEXT}")
    assert (choice.finish_reason, answer.object, answer.model) == ("stop", "chat.completion", "phrasebook")
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_sampling_parameters_are_accepted(client: AsyncOpenAI) -> None:
    options = {
        "temperature": 1.5,
        "top_p": 0.1,
        "presence_penalty": 1,
        "max_tokens": 1,
        "stop": ["a"],
        "seed": 1,
        "user": "a",
    }
    answer = await ask(client, user(TEXT), **options, n=1, response_format={"type": "text"})
    assert answer.choices[0].message.content == f"~{TEXT}"


async def test_texts_between_separators_are_translated_one_by_one(client: AsyncOpenAI) -> None:
    answer = await ask(client, user("Good morning.\n\n%%\n\nGood night.\n\n%%\n\n42"))
    assert answer.choices[0].message.content == "~Good morning.\n\n%%\n\n~Good night.\n\n%%\n\n42"


@pytest.mark.parametrize("with_usage", [True, False])
async def test_a_stream(client: AsyncOpenAI, with_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    text = "Good morning, my friend.\n\n%%\n\nGood night.\n\n%%\n\nThe trains are late today, again."
    whole = await ask(client, user(text))
    chunks = [chunk async for chunk in await ask(client, user(text), stream=True, **options)]
    assert {(chunk.object, chunk.id) for chunk in chunks} == {("chat.completion.chunk", chunks[0].id)}
    assert chunks[0].choices[0].delta.role == "assistant"
    if with_usage:
        last = chunks.pop()
        assert (last.choices, last.usage.prompt_tokens > 0) == ([], True)
    assert all(chunk.usage is None for chunk in chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    contents = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert len(contents) > 5
    assert "".join(contents) == whole.choices[0].message.content


async def test_a_stream_of_a_batch_has_each_item_when_it_is_translated(client: AsyncOpenAI) -> None:
    batch = '{"targetLanguage": "ja", "segments": [{"id": 0, "text": "Good morning."}, {"id": 1, "text": ""}]}'
    message = user(batch)
    whole = (await ask(client, message, model="any")).choices[0].message.content
    chunks = [chunk async for chunk in await ask(client, message, model="any", stream=True)]
    contents = [chunk.choices[0].delta.content for chunk in chunks]
    assert (contents[0], contents[-1], "".join(contents[:-1])) == ("", None, whole)
    assert len(contents) > 3


@pytest.mark.parametrize(
    ("model", "messages", "options", "param"),
    [
        ("gpt-4o", [user(TEXT)], {}, "messages"),
        ("dragoman/ja", [{"role": "system", "content": "Summarise."}, user(TEXT)], {}, "messages"),
        ("dragoman/ja", [], {}, "messages"),
        ("dragoman/ja", [{"role": "tool", "tool_call_id": "a", "content": "b"}], {}, "messages"),
        (
            "dragoman/ja",
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}],
            {},
            "messages",
        ),
        ("dragoman/zz-nonsense", [user(TEXT)], {}, "model"),
        ("dragoman/sw", [user(TEXT)], {}, "target"),
        ("dragoman/ja", [user(TEXT)], {"n": 2}, "n"),
        ("dragoman/ja", [user(TEXT)], {"tools": [TOOL], "tool_choice": {"function": {"name": "b"}}}, "tools"),
        ("dragoman/ja", [user(TEXT)], {"functions": [{"name": "a"}]}, "functions"),
        ("dragoman/ja", [user(TEXT)], {"response_format": {"type": "json_schema"}}, "response_format"),
        ("dragoman/ja", [user(TEXT)], {"response_format": {"type": "json_object"}}, "response_format"),
        ("dragoman/ja", [user(TEXT)], {"extra_headers": {"X-Target-Language": "nonsense"}}, "X-Target-Language"),
        ("dragoman/ja", [user("")], {}, "messages"),
        ("dragoman/ja", [{"role": "user"}], {"stream": "maybe"}, "stream"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_not_served_is_a_bad_request(
    client: AsyncOpenAI, model: str, messages: list[Any], options: dict[str, Any], param: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, *messages, model=model, **{"stream": stream} | options)
    error = caught.value
    assert (error.type, error.param, error.status_code) == ("invalid_request_error", param, 400)


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (Unauthenticated("no key"), 401, "invalid_request_error", "invalid_api_key"),
        (InvalidKey("unknown"), 401, "invalid_request_error", "invalid_api_key"),
        (QuotaExceeded("used up"), 429, "insufficient_quota", "insufficient_quota"),
        (RateLimited("slow down", retry_after_s=1.5), 429, "requests", "rate_limit_exceeded"),
        (QueueFull("full", retry_after_s=2), 429, "requests", "rate_limit_exceeded"),
        (InvalidRequest("bad", param="messages"), 400, "invalid_request_error", "invalid_request"),
        (EngineDead("crashed"), 503, "server_error", "engine_dead"),
    ],
)
def test_errors_have_the_status_and_code_of_openai(error: DragomanError, status: int, type_: str, code: str) -> None:
    fault = Fault.of(error)
    answer = ERROR_FORMATS["/v1/chat/"](fault)
    assert answer.status_code == status
    body = httpx.Response(status, content=bytes(answer.body)).json()["error"]
    assert body["message"].endswith(error.message)
    assert body | {"message": ""} == {"message": "", "type": type_, "param": error.param, "code": code}
    assert answer.headers.get("retry-after") == fault.headers.get("Retry-After")


def test_a_wrong_key_has_the_words_that_libraries_look_for() -> None:
    answer = ERROR_FORMATS["/v1/chat/"](Fault.of(InvalidKey("unknown")))
    assert "Incorrect API key provided" in bytes(answer.body).decode()


async def test_models_name_the_target_languages(client: AsyncOpenAI) -> None:
    ids = [model.id async for model in client.models.list()]
    assert ids[0] == "phrasebook"
    assert {"dragoman/ja", "dragoman/en"} <= set(ids[1:])
    assert (await client.models.retrieve("dragoman/ja")).id == "dragoman/ja"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-4o")
    answer = await ask(client, user(TEXT), model=ids[-1])
    assert answer.choices[0].message.content


@pytest.mark.parametrize("named", [{}, {"model": None}])
async def test_a_model_need_not_be_named(http: httpx.AsyncClient, named: dict[str, None]) -> None:
    offered = [{"type": "function", "function": {"name": "now", "parameters": None}}]
    body = {"messages": [SYSTEM, user(TEXT)], "tools": offered}
    answer = await http.post("/v1/chat/completions", json=body | named)
    assert answer.json()["choices"][0]["message"]["content"] == f"~{TEXT}"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "a"}}])
async def test_the_arguments_of_a_demanded_function_are_the_translation(client: AsyncOpenAI, choice: Any) -> None:
    answer = await ask(client, user(TEXT), tools=[TOOL], tool_choice=choice)
    [call] = answer.choices[0].message.tool_calls
    assert (answer.choices[0].finish_reason, answer.choices[0].message.content) == ("tool_calls", None)
    assert (call.function.name, json.loads(call.function.arguments)) == ("a", {"translation": f"~{TEXT}"})
    chunks = [one async for one in await ask(client, user(TEXT), tools=[TOOL], tool_choice=choice, stream=True)]
    deltas = [call for one in chunks for call in one.choices[0].delta.tool_calls or ()]
    assert (deltas[0].function.name, chunks[-1].choices[0].finish_reason) == ("a", "tool_calls")
    assert "".join(one.function.arguments for one in deltas) == call.function.arguments


async def test_a_function_that_is_not_demanded_is_not_called(client: AsyncOpenAI) -> None:
    answer = await ask(client, user(TEXT), tools=[TOOL])
    assert answer.choices[0].message.content == f"~{TEXT}"


class Line(BaseModel):
    id: int
    text: str


class Lines(BaseModel):
    lines: list[Line]


async def test_an_answer_in_json_by_a_schema(client: AsyncOpenAI) -> None:
    text = json.dumps([{"id": 7, "text": "Good morning."}, {"id": 8, "text": "Good night."}])
    expected = Lines(lines=[Line(id=7, text="~Good morning."), Line(id=8, text="~Good night.")])
    answer = await client.chat.completions.parse(
        model="dragoman/ja", messages=[{"role": "user", "content": text}], response_format=Lines
    )
    assert answer.choices[0].message.parsed == expected
    response = await client.responses.parse(model="dragoman/ja", input=text, text_format=Lines)
    assert response.output_parsed == expected


async def test_messages_parts_and_tools_have_a_number(http: httpx.AsyncClient) -> None:
    """Refused without looking at what is in them."""
    parts = [{"type": "text", "text": "a"}] * 10_001
    for path, body in (
        ("chat/completions", {"messages": [user(TEXT)] * 2_001}),
        ("chat/completions", {"messages": [{"role": "user", "content": parts}]}),
        ("chat/completions", {"messages": [user(TEXT)], "tools": [TOOL] * 1_001}),
        ("responses", {"input": [user(TEXT)] * 2_001}),
        ("responses", {"input": [{"role": "user", "content": parts}]}),
        ("responses", {"input": TEXT, "tools": [{"type": "function", "name": "a"}] * 1_001}),
    ):
        answer = await http.post(f"/v1/{path}", json={"model": "dragoman/ja", **body})
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert len(answer.content) < 500


async def test_a_large_chat_is_read_in_another_thread(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    parse = chat.parse

    def noting(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return parse(*arguments, **options)

    monkeypatch.setattr(chat, "parse", noting)
    for text in (TEXT, "x" * 100_000):
        await http.post("/v1/chat/completions", json={"model": "dragoman/ja", "messages": [user(text)]})
    small, large = threads
    assert small == threading.get_ident()
    assert large != small


async def test_completions(client: AsyncOpenAI) -> None:
    answer = await client.completions.create(model="dragoman/ja", prompt=TEXT)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (f"~{TEXT}", "stop")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    chunks = [one async for one in await client.completions.create(model="dragoman/ja", prompt=[TEXT], stream=True)]
    assert "".join(one.choices[0].text for one in chunks) == f"~{TEXT}"
    assert [one.choices[0].finish_reason for one in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    with pytest.raises(openai.BadRequestError):
        await client.completions.create(model="dragoman/ja", prompt=["One.", "Two."])


async def test_usage_of_what_the_cache_has(client: AsyncOpenAI) -> None:
    """Second attempts with other sampling are not cached: a part of the tokens is not."""
    async with served(fake_service(cache_bytes=1_000_000)) as http:
        cached = client.with_options(base_url=f"{http.base_url}/v1")
        first, second = [(await ask(cached, user(TEXT))).usage for _ in range(2)]
        assert (second.prompt_tokens, second.completion_tokens) == (first.prompt_tokens, first.completion_tokens)
        assert first.prompt_tokens_details.cached_tokens == 0 < second.prompt_tokens_details.cached_tokens
        response = (await cached.responses.create(model="dragoman/ja", input=TEXT)).usage
        assert response is not None
        assert response.input_tokens_details.cached_tokens == second.prompt_tokens_details.cached_tokens
        assert (response.input_tokens, response.output_tokens) == (first.prompt_tokens, first.completion_tokens)
        native = (await http.post("/v1/translate", json={"text": TEXT, "target": "ja"})).json()["usage"]
        assert native["prompt_tokens"] == first.prompt_tokens - second.prompt_tokens_details.cached_tokens


async def test_responses(client: AsyncOpenAI) -> None:
    answer = await client.responses.create(model="dragoman/ja", input=TEXT)
    assert (answer.output_text, answer.status, answer.error) == (f"~{TEXT}", "completed", None)
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0
    message = {"role": "user", "content": [{"type": "input_text", "text": TEXT}]}
    options: Any = {"model": "any", "instructions": "Translate to Japanese.", "input": [message]}
    async with client.responses.stream(**options) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert (kinds[-1], kinds.count("response.output_text.delta") > 3) == ("response.completed", True)
    assert final.output_text == f"~{TEXT}"
    assert final.usage == answer.usage or final.usage is not None


async def test_a_response_that_calls_a_function(client: AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "name": "a", "parameters": SCHEMA, "strict": True}
    options: Any = {"model": "dragoman/ja", "input": TEXT, "tools": [tool], "tool_choice": "required"}
    [call] = (await client.responses.create(**options)).output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("a", {"translation": f"~{TEXT}"})
    async with client.responses.stream(**options) as stream:
        [streamed] = (await stream.get_final_response()).output
    assert streamed.type == "function_call"
    assert streamed.arguments == call.arguments


@pytest.mark.parametrize(
    "options",
    [
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"input": [{"type": "function_call_output", "call_id": "a", "output": "b"}]},
        {"instructions": "Summarise the text."},
        {"text": {"format": {"type": "grammar"}}},
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_responses_do_not_serve(client: AsyncOpenAI, options: Any, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(**{"model": "dragoman/ja", "input": TEXT, "stream": stream} | options)


async def test_a_stream_that_fails_is_an_error_of_the_client() -> None:
    async with served(fake_service(lambda _: " ".join(["駅"] * 30), step_s=0.05)) as http:
        async with AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0) as client:
            stream = await ask(client, user(TEXT), stream=True, extra_headers={"X-Request-Timeout": "0.5"})
            with pytest.raises(openai.APIError) as caught:
                async for _ in stream:
                    pass
    assert caught.value.code == "deadline_exceeded"


async def test_a_streamed_response_that_fails_says_so() -> None:
    async with served(fake_service(lambda _: " ".join(["駅"] * 30), step_s=0.05)) as http:
        async with AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0) as client:
            stream = await client.responses.create(
                model="dragoman/ja", input=TEXT, stream=True, extra_headers={"X-Request-Timeout": "0.5"}
            )
            events = [event async for event in stream]
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    assert events[-2].code == "deadline_exceeded"
