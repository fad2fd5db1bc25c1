"""What holds of every API: where it takes a key and how it refuses, order, values that JSON is bad at, retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.api.answers import json_bytes
from dragoman.api.compat import exchange
from dragoman.service.planner import Planner, TextJob
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, Settings
from dragoman.storage.keys import Keys
from dragoman.types import Account, TranslationRequest
from tests.serving import HeldPipeline, echoing, keyed_service, served, service_over
from tests.waiting import until

ACCOUNTS = (
    Account("", "good"),
    Account("", "revoked"),
    Account("", "used up", characters_per_month=10),
    Account("", "fast", requests_per_s=0.001),
    Account("", "korean", languages=frozenset({"ko"})),
)
REQUESTS: dict[str, Any] = {
    "/v1/translate": {"text": "Good morning.", "source": "en", "target": "ja"},
    "/v1/chat/completions": {"model": "dragoman/ja", "messages": [{"role": "user", "content": "Good morning."}]},
    "/v1/completions": {"model": "dragoman/ja", "prompt": "Good morning."},
    "/v1/responses": {"model": "dragoman/ja", "input": "Good morning."},
    "/v2/translate": {"text": ["Good morning."], "source_lang": "EN", "target_lang": "JA"},
    "/translate": {"q": "Good morning.", "source": "en", "target": "ja"},
    "/language/translate/v2": {"q": "Good morning.", "source": "en", "target": "ja"},
    "/deeplx/translate": {"text": "Good morning.", "source_lang": "en", "target_lang": "ja"},
    "/immersive/translate": {"text_list": ["Good morning."], "source_lang": "en", "target_lang": "ja"},
    "/kiss/translate": {"text": "Good morning.", "from": "en", "to": "ja"},
    "/translate/batch": {"texts": ["Good morning."], "from": "en", "to": "ja"},
    "/chat/completions": {"model": "dragoman/ja", "messages": [{"role": "user", "content": "Good morning."}]},
    "/deeplx": {"text": "Good morning.", "source_lang": "en", "target_lang": "ja"},
    "/imme": {"text_list": ["Good morning."], "source_lang": "en", "target_lang": "ja"},
    "/kiss": {"text": "Good morning.", "from": "en", "to": "ja"},
    "/api/chat": {"model": "dragoman/ja", "messages": [{"role": "user", "content": "Good morning."}], "stream": False},
    "/api/generate": {"model": "dragoman/ja", "prompt": "Good morning.", "stream": False},
    "/translate?api-version=3.0&from=en&to=ja": [{"Text": "Good morning."}],
    "/translate?api-version=2026-06-06": {
        "inputs": [{"text": "Good morning.", "language": "en", "targets": [{"language": "ja"}]}]
    },
}
_AS_A_CHAT = ("/v1/", "/chat/", "/api/")
"""Whose calls end with the client's connection."""
RETRYING = tuple(path for path in REQUESTS if not path.startswith(_AS_A_CHAT))
STATUSES = {
    #                         none wrong revoked used up, too fast, another language
    "/v1/translate": (401, 401, 401, 403, 429, 403),
    "/v1/chat/completions": (401, 401, 401, 429, 429, 403),
    "/v1/completions": (401, 401, 401, 429, 429, 403),
    "/v1/responses": (401, 401, 401, 429, 429, 403),
    "/v2/translate": (403, 403, 403, 456, 429, 403),
    "/translate": (400, 403, 403, 429, 429, 403),
    "/language/translate/v2": (403, 400, 400, 403, 429, 403),
    "/deeplx/translate": (401, 401, 401, 429, 429, 403),
    "/immersive/translate": (401, 401, 401, 403, 429, 403),
    "/kiss/translate": (401, 401, 401, 403, 429, 403),
    "/translate/batch": (400, 403, 403, 429, 429, 403),
    "/chat/completions": (401, 401, 401, 429, 429, 403),
    "/deeplx": (401, 401, 401, 429, 429, 403),
    "/imme": (401, 401, 401, 403, 429, 403),
    "/kiss": (401, 401, 401, 403, 429, 403),
    "/api/chat": (401, 401, 401, 429, 429, 403),
    "/api/generate": (401, 401, 401, 429, 429, 403),
    "/translate?api-version=3.0&from=en&to=ja": (401, 401, 401, 403, 429, 403),
    "/translate?api-version=2026-06-06": (401, 401, 401, 403, 429, 403),
}


@pytest.fixture(scope="module")
async def keys() -> dict[str, str]:
    return {"wrong": "drg_wrong"}


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]) -> TranslationService:
    """One that needs keys."""
    service, database, made = await keyed_service(tmp_path_factory.mktemp("database"), *ACCOUNTS)
    keys.update(made)
    await Keys(database).revoke("revoked")
    return service


@pytest.fixture(scope="module")
async def client(service: TranslationService) -> AsyncIterator[httpx.AsyncClient]:
    async with served(service) as client:
        yield client


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/dragoman"])
async def test_the_models_refuse_a_wrong_key_as_openai_does(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Authorization": "Bearer drg_wrong"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("path", list(REQUESTS))
async def test_refusals(client: httpx.AsyncClient, keys: dict[str, str], path: str) -> None:
    async def status(name: str | None) -> int:
        headers = {"Authorization": f"Bearer {keys[name]}"} if name else {}
        return (await client.post(path, json=REQUESTS[path], headers=headers)).status_code

    assert await status("good") == 200
    await status("fast")
    names = (None, "wrong", "revoked", "used up", "fast", "korean")
    assert tuple([await status(name) for name in names]) == STATUSES[path]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/v2/translate", ["auth_key"]),
        ("/translate", ["api_key"]),
        ("/language/translate/v2", ["key"]),
        ("/deeplx/translate", ["token", "key", "api_key"]),
        ("/immersive/translate", ["token", "key", "api_key"]),
        ("/kiss/translate", ["token", "key", "api_key"]),
        ("/translate/batch", ["token", "key", "api_key"]),
    ],
)
async def test_a_key_in_the_query_or_the_body(
    client: httpx.AsyncClient, keys: dict[str, str], path: str, names: list[str]
) -> None:
    for name in names:
        for good, wrong in (({"params": {name: keys["good"]}}, {"params": {name: "x"}}), ({}, {})):
            body = REQUESTS[path] | ({} if good else {name: keys["good"]})
            assert (await client.post(path, json=body, **good)).status_code == 200
            body = REQUESTS[path] | ({} if wrong else {name: "x"})
            assert (await client.post(path, json=body, **wrong)).status_code in (400, 401, 403)


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/v1/translate", {"text": ["Hello.", "Bye."]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello.\n\n%%\n\nBye."}]}),
        ("/v2/translate", {"text": ["Hello.", "Bye."]}),
        ("/translate", {"q": ["Hello.", "Bye."]}),
        ("/language/translate/v2", {"q": ["Hello.", "Bye."]}),
        ("/immersive/translate", {"text_list": ["Hello.", "Bye."]}),
        ("/kiss/translate", {"texts": ["Hello.", "Bye."]}),
    ],
)
async def test_texts_that_follow_each_other(
    client: httpx.AsyncClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch, path: str, texts: dict[str, Any]
) -> None:
    planned: list[TranslationRequest] = []
    plan = Planner.plan

    async def noting(self: Planner, request: TranslationRequest, *rest: Any) -> list[TextJob]:
        planned.append(request)
        return await plan(self, request, *rest)

    monkeypatch.setattr(Planner, "plan", noting)
    for more in ({}, {"consecutive": True}):
        answer = await client.post(path, json=REQUESTS[path] | texts | more, headers={"X-API-Key": keys["good"]})
        assert answer.status_code == 200, answer.text
    assert [request.follows for request in planned] == [(), (False, True)]
    answer = await client.post(path, json=REQUESTS[path] | {"consecutive": "x"}, headers={"X-API-Key": keys["good"]})
    assert answer.status_code in (400, 422)


async def test_headers_that_carry_a_key(client: httpx.AsyncClient, keys: dict[str, str]) -> None:
    for path, name, prefix in (
        ("/language/translate/v2", "X-Goog-Api-Key", ""),
        ("/v2/translate", "Authorization", "DeepL-Auth-Key "),
        ("/v2/translate", "Authorization", "deepl-auth-key "),
        ("/v1/translate", "X-API-Key", ""),
        ("/translate/batch", "Authorization", ""),
        ("/translate?api-version=3.0&from=en&to=ja", "Ocp-Apim-Subscription-Key", ""),
        ("/api/chat", "Authorization", "Bearer "),
    ):
        for key, is_good in ((keys["good"], True), (f"{keys['good']}:fx", True), ("drg_wrong", False)):
            answer = await client.post(path, json=REQUESTS[path], headers={name: prefix + key})
            assert (answer.status_code == 200) == is_good


async def test_google_gives_a_reason(client: httpx.AsyncClient, keys: dict[str, str]) -> None:
    path = "/language/translate/v2"
    found = []
    for name in ("wrong", "used up", "fast", "fast", "korean"):
        answer = await client.post(path, json=REQUESTS[path], headers={"X-API-Key": keys[name]})
        found.append(answer.json()["error"]["errors"][0]["reason"] if answer.status_code != 200 else None)
    assert found[:2] + found[3:] == ["badRequest", "dailyLimitExceeded", "rateLimitExceeded", "forbidden"]


async def test_plugins_on_the_shared_path_have_their_own_answer_to_a_missing_key(client: httpx.AsyncClient) -> None:
    for path in ("/deeplx/translate", "/immersive/translate", "/kiss/translate"):
        shared, own = [await client.post(one, json=REQUESTS[path]) for one in ("/translate", path)]
        assert (shared.status_code, shared.json()) == (own.status_code, own.json())


async def test_libretranslates_sentences_about_keys(client: httpx.AsyncClient) -> None:
    """By which its clients know that they need one, or that theirs is wrong."""
    for path, body in (("/translate", REQUESTS["/translate"]), ("/detect", {"q": "hello"})):
        found = [(await client.post(path, json=body | {"api_key": key})).json() for key in ("drg_wrong", "")]
        assert found == [
            {"error": "Invalid API key"},
            {"error": "Please contact the server operator to get an API key"},
        ]


async def test_what_else_needs_a_key(client: httpx.AsyncClient, keys: dict[str, str]) -> None:
    assert (await client.post("/detect", json={"q": "hello"})).status_code == 400
    assert (await client.post("/detect", data={"q": "hello", "api_key": keys["good"]})).status_code == 200
    for path in ("languages", "detect?q=hello"):
        answer = await client.get(f"/language/translate/v2/{path}")
        assert answer.status_code == 403
        answer = await client.get(f"/language/translate/v2/{path}", headers={"X-API-Key": keys["good"]})
        assert answer.status_code == 200
    assert (await client.get("/languages")).status_code == 200


@pytest.mark.parametrize(
    ("path", "refused"), [("/v1/glossaries", 401), ("/v2/glossaries", 403), ("/v3/glossaries", 403)]
)
async def test_glossaries_need_a_key(client: httpx.AsyncClient, keys: dict[str, str], path: str, refused: int) -> None:
    assert (await client.get(path)).status_code == refused
    assert (await client.post(path, json={"name": "x"})).status_code == refused
    assert (await client.get(path, headers={"Authorization": f"Bearer {keys['good']}"})).status_code == 200
    for method in ("GET", "DELETE"):
        assert (await client.request(method, f"{path}/00000000-0000-0000-0000-000000000000")).status_code == refused


async def test_characters_are_charged_once(
    client: httpx.AsyncClient, service: TranslationService, keys: dict[str, str]
) -> None:
    account = await service.accounts.authenticate(keys["good"])
    for path, body in REQUESTS.items():
        before = service.accounts.usage(account).characters
        await client.post(path, json=body, headers={"X-API-Key": keys["good"]})
        assert service.accounts.usage(account).characters == before + len("Good morning.")


# ---- order, and values that JSON is bad at

LISTS = {
    "/v1/translate": ("text", lambda answer: [one["text"] for one in answer["translations"]]),
    "/v2/translate": ("text", lambda answer: [one["text"] for one in answer["translations"]]),
    "/translate": ("q", lambda answer: answer["translatedText"]),
    "/language/translate/v2": ("q", lambda answer: [one["translatedText"] for one in answer["data"]["translations"]]),
    "/immersive/translate": ("text_list", lambda answer: [one["text"] for one in answer["translations"]]),
    "/kiss/translate": ("texts", lambda answer: [one["text"] for one in answer]),
}


@pytest.mark.parametrize("path", LISTS)
async def test_a_thousand_texts_keep_their_order(client: httpx.AsyncClient, keys: dict[str, str], path: str) -> None:
    name, read = LISTS[path]
    texts = [f"Sentence number {number}." if number % 10 or path == "/v1/translate" else "" for number in range(1_000)]
    sent = {"json": REQUESTS[path] | {name: texts}}
    forms = [sent] if path == "/v1/translate" else [sent, {"data": sent["json"]}]
    for form in forms:
        answer = await client.post(path, **form, headers={"X-API-Key": keys["good"]})  # type: ignore[arg-type]
        assert read(answer.json()) == [text and f"~{text}" for text in texts]


async def test_a_large_number_as_the_id_of_a_segment_comes_back(
    client: httpx.AsyncClient, keys: dict[str, str]
) -> None:
    batch = {"targetLanguage": "ja", "segments": [{"id": 10**50, "text": "Good morning."}]}
    body = {"model": "any", "messages": [{"role": "user", "content": json.dumps(batch)}]}
    answer = await client.post("/v1/chat/completions", json=body, headers={"X-API-Key": keys["good"]})
    [segment] = json.loads(answer.json()["choices"][0]["message"]["content"])["translations"]
    assert (segment["id"], segment["text"]) == (10**50, "~Good morning.")


def test_json_of_values_that_orjson_refuses() -> None:
    value = {"text": "a\ud800", "id": 2**80}
    assert json.loads(json_bytes(value)) == value


# ---- clients that give up: their retry joins the generation in flight


def held() -> tuple[TranslationService, HeldPipeline]:
    pipeline = HeldPipeline(echoing())
    return service_over(pipeline, Settings(cache=CacheSettings(max_bytes=2**20))), pipeline


async def give_up(client: httpx.AsyncClient, pipeline: HeldPipeline, path: str) -> None:
    """Send a request and disconnect once its sequence runs."""
    sent = asyncio.create_task(client.post(path, json=REQUESTS[path]))
    await until(lambda: pipeline.generations > 0, "the sequence")
    sent.cancel()
    await asyncio.gather(sent, return_exceptions=True)


async def test_a_retry_joins_the_generation() -> None:
    service, pipeline = held()
    async with served(service) as client:
        for path in RETRYING:
            body = REQUESTS[path]
            service.cache.clear()
            pipeline.hold()
            await give_up(client, pipeline, path)
            pipeline.release.set()
            answer = await client.post(path, json=body)
            assert (answer.status_code, pipeline.generations) == (200, 1), path
            await until(lambda: service.admission.calls == 0, "the end of the first call")


async def test_without_a_retry_the_sequences_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RETRY_GRACE_S", 0.01)
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        await give_up(client, pipeline, "/translate")
        await until(lambda: service.admission.calls == 0, "the end of the call")
        await until(lambda: pipeline.stats().running == 0, "no running sequence")
