"""The native API over the fake pipeline: shapes, limits, errors. What depends on the engine is in tests/e2e."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.api import schemas
from dragoman.settings import ServerSettings
from dragoman.types import EngineSequence
from dragoman.wire import EngineStats, Stats
from tests.serving import fake_service, served, slow_service, source_of
from tests.waiting import until

LIMITS = ServerSettings(max_body_bytes=20_000, max_texts=4, max_text_characters=5_000)


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service(server=LIMITS)) as client:
        yield client


async def post(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/v1/translate", json=body)


async def events(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    answer = await post(client, stream=True, **body)
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_one_text(client: httpx.AsyncClient) -> None:
    answer = await post(client, text="Where is the train station?", source="en", target="ja")
    assert answer.status_code == 200
    assert answer.headers["x-request-id"]
    body = answer.json()
    assert body["model"] == "phrasebook"
    [translation] = body["translations"]
    assert translation["text"] == "~Where is the train station?"
    assert (translation["source"], translation["detected"]) == ("en", False)
    assert translation["finish_reason"] == "stop"
    assert body["usage"]["characters"] == 27
    assert body["usage"]["prompt_tokens"] > 4


async def test_answers_are_as_openapi_describes_them() -> None:
    """Of a good translation, of one with a warning and of one that failed; whole and streamed."""

    def answers(sequence: EngineSequence) -> str:
        return "" if "Evening" in source_of(sequence) else "はい"

    async with served(fake_service(answers)) as client:
        for text, strict in (("Good morning.", False), ("Evening.", False), ("Evening.", True)):
            body = {"text": text, "source": "en", "target": "ja", "strict": strict}
            answer = (await post(client, **body, confidence_inputs=True, alternatives=1)).json()
            schemas.TranslateAnswer.model_validate(answer)
            assert answer.keys() == schemas.TranslateAnswer.model_fields.keys()
            [whole] = answer["translations"]
            assert (whole["error"] is not None, bool(whole["warnings"])) == (strict, text == "Evening.")
            done = (await events(client, **body))[-1]
            schemas.UsageOut.model_validate(done["usage"])
            schemas.TranslationOut.model_validate(done["translation"])
            described = schemas.TranslationOut.model_fields.keys()
            assert whole.keys() == described
            assert done["translation"].keys() == described - {"confidence_inputs", "alternatives"}


async def test_several_texts_keep_their_order_and_are_detected_one_by_one(client: httpx.AsyncClient) -> None:
    texts = ["Good morning, my friend.", "도서관은 어디에 있나요?", "12 + 3", "駅はどこですか？"]
    answer = (await post(client, text=texts, target="zh")).json()
    assert [one["source"] for one in answer["translations"]] == ["en", "ko", "und", "ja"]
    assert all(one["detected"] for one in answer["translations"])
    assert [one["text"] for one in answer["translations"]] == [f"~{texts[0]}", f"~{texts[1]}", texts[2], f"~{texts[3]}"]


async def test_language_tags_are_normalised(client: httpx.AsyncClient) -> None:
    answer = (await post(client, text="Thank you very much.", source="EN_us", target="zh-CN")).json()
    assert answer["translations"][0]["source"] == "en"


async def test_a_text_in_the_target_language_is_left_alone(client: httpx.AsyncClient) -> None:
    [translation] = (await post(client, text="Good morning.", source="en", target="en")).json()["translations"]
    assert (translation["text"], translation["finish_reason"]) == ("Good morning.", "unchanged")


@pytest.mark.parametrize(
    ("content", "status", "code", "param"),
    [
        (b"{", 400, "invalid_json", None),
        (b"\xff", 400, "invalid_json", None),
        (b"[]", 422, "invalid_request", None),
        (b"{}", 422, "invalid_request", "text"),
        (b'{"text": 3, "target": "ja"}', 422, "invalid_request", "text"),
        (b'{"text": ["a", null], "target": "ja"}', 422, "invalid_request", "text"),
        (b'{"text": "a"}', 422, "invalid_request", "target"),
        (b'{"text": "a", "target": "ja", "stream": "yes"}', 422, "invalid_request", "stream"),
        (b'{"text": "a", "target": "ja", "taget": "ko"}', 422, "invalid_request", "taget"),
        (b'{"text": "a", "target": "xx"}', 400, "unsupported_language", "target"),
        (b'{"text": "a", "target": "de"}', 400, "unsupported_language", "target"),
        (b'{"text": "a", "target": ""}', 400, "unsupported_language", "target"),
        (b'{"text": "a", "target": "ja", "source": "klingon!"}', 400, "unsupported_language", "source"),
        (b'{"text": "", "target": "ja"}', 400, "empty_text", "text"),
        (b'{"text": [], "target": "ja"}', 400, "empty_text", "text"),
        (b'{"text": ["a", ""], "target": "ja"}', 400, "empty_text", "text.1"),
        (b'{"text": "a \\ud800 b", "target": "ja"}', 400, "untranslatable_text", "text"),
        (b'{"text": "a", "target": "ja", "context": "\\udfff"}', 400, "untranslatable_text", "context"),
        (b'{"text": ["a","a","a","a","a"], "target": "ja"}', 413, "too_many_texts", "text"),
        (b'{"text": "a", "target": "ja", "force_output_tokens": 4}', 400, "invalid_request", "force_output_tokens"),
    ],
)
async def test_bad_input_gets_its_documented_error(
    client: httpx.AsyncClient, content: bytes, status: int, code: str, param: str | None
) -> None:
    answer = await client.post("/v1/translate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error.get("param", "").startswith(param or "")
    assert error["message"]
    assert (await post(client, text="Still here.", source="en", target="ja")).status_code == 200


async def test_too_long_a_text_and_too_large_a_body_are_413(client: httpx.AsyncClient) -> None:
    answer = await post(client, text="x" * 6_000, target="ja")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    answer = await post(client, text=["x" * 4_000] * 6, target="ja")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


async def test_wrong_method_and_unknown_path(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/translate")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    answer = await client.get("/v1/nothing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_a_stream_is_deltas_then_the_translation(client: httpx.AsyncClient) -> None:
    text = "First paragraph here.\n\n  Second one. 🎉"
    said = await events(client, text=[text, "7"], source="en", target="ja")
    for index, expected in ((0, "~First paragraph here.\n\n  ~Second one. 🎉"), (1, "7")):
        mine = [event for event in said if event["index"] == index]
        *deltas, last = mine
        assert "".join(event["delta"] for event in deltas) == last["translation"]["text"] == expected


async def test_a_stream_that_cannot_begin_is_a_plain_error(client: httpx.AsyncClient) -> None:
    answer = await post(client, text="a", target="xx", stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_language")


async def test_languages_models_stats_and_probes(client: httpx.AsyncClient) -> None:
    languages = (await client.get("/v1/languages")).json()["languages"]
    assert {one["code"] for one in languages} == {"en", "ja", "ko", "zh"}
    assert next(one for one in languages if one["code"] == "ja")["native_name"] == "日本語"
    models = (await client.get("/v1/models")).json()
    assert models["object"] == "list"
    assert models["data"][0]["id"] == "phrasebook"
    stats = (await client.get("/v1/stats")).json()
    assert stats.keys() == Stats.model_fields.keys()
    assert stats["engine"].keys() == EngineStats.model_fields.keys() - {"inter_token_latency_buckets"}
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).status_code == 200
    metrics = (await client.get("/metrics")).text
    assert 'dragoman_requests_total{outcome="ok"}' in metrics
    assert "dragoman_engine_running_sequences" in metrics


async def test_openapi_documents_the_contract_with_examples(client: httpx.AsyncClient) -> None:
    openapi = (await client.get("/openapi.json")).json()
    translate = openapi["paths"]["/v1/translate"]["post"]
    assert {"200", "400", "413", "422", "429", "503"} <= set(translate["responses"])
    assert openapi["components"]["schemas"]["TranslateBody"]["examples"]
    assert openapi["components"]["schemas"]["ErrorAnswer"]
    assert "force_output_tokens" not in json.dumps(openapi)
    assert "confidence_inputs" not in json.dumps(openapi)


async def test_a_full_queue_refuses_with_retry_after_and_recovers() -> None:
    service = slow_service(characters=3 * len("slow"))
    async with served(service) as client:
        calls = [asyncio.create_task(post(client, text="slow", source="en", target="ja")) for _ in range(3)]
        await until(lambda: service.admission.calls == 3, "a full queue")
        refused = await post(client, text="one more", source="en", target="ja")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert {one.status_code for one in await asyncio.gather(*calls)} == {200}
        assert (await post(client, text="one more", source="en", target="ja")).status_code == 200
