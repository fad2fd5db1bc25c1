"""Microsoft Translator's API over the fake pipeline: version 3.0 and its successor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.api import answers
from dragoman.api.compat import microsoft
from dragoman.settings import ServerSettings
from tests.openapi import validator
from tests.serving import HeldPipeline, echoing, fake_service, served, service_over
from tests.waiting import until

V3, BY_DATE = "3.0", "2026-06-06"
ELEMENTS = [{"Text": "Good morning."}]
TARGET = {"language": "ja"}


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service()) as client:
        yield client


async def translate(
    client: httpx.AsyncClient, body: Any = ELEMENTS, *, version: str = V3, **query: Any
) -> httpx.Response:
    return await client.post("/translate", params={"api-version": version} | query, json=body)


async def by_date(client: httpx.AsyncClient, *inputs: Any) -> httpx.Response:
    return await translate(client, {"inputs": list(inputs)}, version=BY_DATE)


def code(answer: httpx.Response) -> tuple[int, int]:
    validator("microsoft", "MicrosoftError").validate(answer.json())
    return answer.status_code, answer.json()["error"]["code"]


# ---- texts


async def test_a_text_into_several_languages(client: httpx.AsyncClient) -> None:
    answer = await translate(client, [{"Text": "Good morning."}, {"text": ""}], to=["ja", "zh-Hans"])
    validator("microsoft", "Translations").validate(answer.json())
    first, second = answer.json()
    assert first["detectedLanguage"]["language"] == "en"
    assert 0 < first["detectedLanguage"]["score"] <= 1
    assert first["translations"] == [
        {"text": "~Good morning.", "to": "ja"},
        {"text": "~Good morning.", "to": "zh-Hans"},
    ]
    assert second["detectedLanguage"] == {"language": "en", "score": 0.0}
    assert [one["text"] for one in second["translations"]] == ["", ""]
    assert answer.headers["X-Metered-Usage"] == str(2 * len("Good morning."))


async def test_a_given_source_is_not_detected(client: httpx.AsyncClient) -> None:
    answer = await translate(client, to="ja", **{"from": "en"})
    assert answer.json() == [{"translations": [{"text": "~Good morning.", "to": "ja"}]}]


async def test_html(client: httpx.AsyncClient) -> None:
    body = [{"Text": "<p title='a b'>Good morning.</p>"}]
    plain, html = [
        (await translate(client, body, to="ja", textType=kind)).json()[0]["translations"][0]["text"]
        for kind in ("plain", "html")
    ]
    assert html == "<p title='~a b'>~Good morning.</p>" != plain


async def test_the_successor_has_all_in_its_body(client: httpx.AsyncClient) -> None:
    answer = await by_date(
        client,
        {"text": "Good morning.", "language": "en", "targets": [{"language": "ja"}, {"language": "ko"}]},
        {"text": "<p>Good morning.</p>", "textType": "Html", "targets": [{"language": "ja"}]},
        {"Text": "A day.", "Targets": [{"Language": "ja", "profanityAction": "NoAction", "deploymentName": "general"}]},
    )
    validator("microsoft", "Translations").validate(answer.json())
    first, second, third = answer.json()["value"]
    assert first == {
        "translations": [{"text": "~Good morning.", "language": "ja"}, {"text": "~Good morning.", "language": "ko"}]
    }
    assert second["translations"] == [{"text": "<p>~Good morning.</p>", "language": "ja"}]
    assert second["detectedLanguage"]["language"] == "en"
    assert third["translations"][0]["text"] == "~A day."


@pytest.mark.parametrize("version", [V3, BY_DATE])
async def test_a_thousand_texts_keep_their_order(client: httpx.AsyncClient, version: str) -> None:
    texts = [f"Sentence number {number}." for number in range(1_000)]
    if version == V3:
        answer = (await translate(client, [{"Text": text} for text in texts], to=["ja", "ko"])).json()
    else:
        targets = [[{"language": "ja"}, {"language": "ko"}], [{"language": "ko"}, {"language": "ja"}]]
        inputs = [{"text": text, "targets": targets[number % 2]} for number, text in enumerate(texts)]
        answer = (await by_date(client, *inputs)).json()["value"]
    for place in (0, 1):
        assert [one["translations"][place]["text"] for one in answer] == [f"~{text}" for text in texts]


@pytest.mark.parametrize(
    "query",
    [
        {"category": "general"},
        {"category": "my-system"},
        {"profanityAction": "NoAction", "profanityMarker": "Asterisk"},
        {"includeAlignment": "true"},
        {"includeSentenceLength": "false"},
        {"suggestedFrom": "en"},
        {"from": ""},
    ],
)
async def test_parameters_that_are_accepted(client: httpx.AsyncClient, query: dict[str, str]) -> None:
    answer = await translate(client, to="ja", **query)
    assert answer.json()[0]["translations"] == [{"text": "~Good morning.", "to": "ja"}]


# ---- errors


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ({}, ELEMENTS, 400036),
        ({"to": ""}, ELEMENTS, 400036),
        ({"to": "zz"}, ELEMENTS, 400036),
        ({"to": ["ja", "x" * 2_000]}, ELEMENTS, 400036),
        ({"to": "ja", "from": "zz"}, ELEMENTS, 400035),
        ({"to": "ja", "textType": "markdown"}, ELEMENTS, 400071),
        ({"to": "ja", "category": "mine", "allowFallback": "false"}, ELEMENTS, 400002),
        ({"to": "ja", "profanityAction": "Deleted"}, ELEMENTS, 400042),
        ({"to": "ja", "includeSentenceLength": "true"}, ELEMENTS, 400042),
        ({"to": "ja", "toScript": "Latn"}, ELEMENTS, 400004),
        ({"to": "ja", "fromScript": "Latn"}, ELEMENTS, 400018),
        ({"to": "ja"}, [], 400005),
        ({"to": "ja"}, {"Text": "a"}, 400005),
        ({"to": "ja"}, ["a"], 400005),
        ({"to": "ja"}, [{"Text": None}], 400005),
        ({"to": "ja"}, [{"Text": "x" * 1_000_001}], 400050),
        ({"to": "ja"}, [{"Text": "a"}] * 10_001, 400072),
        ({"to": ["ja", "ko"]}, [{"Text": "a"}] * 5_001, 400072),
        ({"to": ["ja"] * 9}, [{"Text": "x" * 900_000}], 400077),
    ],
)
async def test_errors_have_microsofts_codes(
    client: httpx.AsyncClient, query: dict[str, Any], body: Any, expected: int
) -> None:
    assert code(await translate(client, body, **query)) == (400, expected)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"text": "a"}, 400036),
        ({"text": "a", "targets": []}, 400036),
        ({"text": "a", "targets": [{}]}, 400036),
        ({"text": "a", "targets": [{"language": "zz"}]}, 400036),
        ({"text": "a", "targets": [{"language": 3}]}, 400003),
        ({"text": "a", "language": "zz", "targets": [TARGET]}, 400003),
        ({"text": "a", "targets": [TARGET | {"tone": "formal"}]}, 400000),
        ({"targets": [TARGET]}, 400005),
        ("a", 400000),
    ],
)
async def test_errors_of_the_successor(client: httpx.AsyncClient, inputs: Any, expected: int) -> None:
    assert code(await by_date(client, inputs)) == (400, expected)


async def test_errors_of_bodies_and_versions(client: httpx.AsyncClient) -> None:
    for content, expected in ((b"[", 400074), (b"[" + b'"a",' * 3_000_000 + b"1]", 400077)):
        answer = await client.post("/translate", params={"api-version": V3, "to": "ja"}, content=content)
        assert code(answer) == (400, expected)
    for path in ("/translate", "/detect"):
        assert code(await client.post(path, params={"api-version": "2.0", "to": "ja"}, json=ELEMENTS)) == (400, 400021)
    assert code(await client.get("/languages", params={"api-version": ""})) == (400, 400021)
    answer = await client.put("/detect", params={"api-version": V3})
    assert code(answer) == (405, 405000)


async def test_over_many_pairs_of_languages_are_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microsoft, "MAX_DIRECTIONS", 1)
    assert (await translate(client, to=["ja", "ja"])).status_code == 200
    assert code(await translate(client, to=["ja", "ko"])) == (400, 400000)


# ---- headers


async def test_ids_of_a_request(client: httpx.AsyncClient) -> None:
    headers = {"X-ClientTraceId": "2c8ba1a2-9e11-4dd1-9f3c-4a4b5f1a6d2e"}
    for path, method, body in (
        ("/translate", "POST", ELEMENTS),
        ("/detect", "POST", ELEMENTS),
        ("/languages", "GET", None),
    ):
        params = {"api-version": V3, "to": "ja"}
        answer = await client.request(method, path, params=params, json=body, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["X-ClientTraceId"] == headers["X-ClientTraceId"]
        assert "X-RequestId" in answer.headers


# ---- detection, languages


async def test_detection(client: httpx.AsyncClient) -> None:
    body = [
        {"Text": "Good morning, my friend."},
        {"Text": "도서관은 어디에 있나요?"},
        {"Text": "Où est la gare ?"},
        {"Text": "12"},
    ]
    answer = await client.post("/detect", params={"api-version": V3}, json=body)
    validator("microsoft", "Detections").validate(answer.json())
    assert [(one["language"], one["isTranslationSupported"]) for one in answer.json()] == [
        ("en", True),
        ("ko", True),
        ("fr", False),
        ("en", False),
    ]
    answer = await client.post("/detect", params={"api-version": V3}, json=[{"Text": "a"}] * 1_001)
    assert answer.status_code == 400


async def test_languages(client: httpx.AsyncClient) -> None:
    found = (await client.get("/languages", params={"api-version": V3})).json()
    validator("microsoft", "Languages").validate(found)
    assert found.keys() == {"translation", "transliteration", "dictionary"}
    assert found["translation"]["ja"] == {"name": "Japanese", "nativeName": "日本語", "dir": "ltr"}
    assert "zh-Hans" in found["translation"]
    headers = {"Accept-Language": "fr-FR,fr;q=0.9,en;q=0.8"}
    params = {"api-version": V3, "scope": "translation"}
    found = (await client.get("/languages", params=params, headers=headers)).json()
    assert found.keys() == {"translation"}
    assert found["translation"]["ja"]["name"] == "japonais"
    found = (await client.get("/languages", params={"api-version": BY_DATE})).json()
    assert found["translation"]["ja"]["models"] == found["models"] == []
    assert code(await client.get("/languages", params=params | {"scope": "verbs"})) == (400, 400001)


async def test_without_a_version_the_routes_are_libretranslates(client: httpx.AsyncClient) -> None:
    answer = await client.post("/translate", json={"q": "api-version=3.0", "source": "en", "target": "ja"})
    assert "translatedText" in answer.json()
    assert isinstance((await client.get("/languages")).json(), list)
    assert isinstance((await client.post("/detect", data={"q": "Good morning."})).json(), list)
    query = {"from": "en", "to": "ja", "text": "What is api-version=3.0?"}
    assert (await client.get("/translate", params=query)).text == "~What is api-version=3.0?"


# ---- clients that wait


async def test_there_is_no_heartbeat_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after a heartbeat would have no status, by which Microsoft's clients decide to try again."""
    monkeypatch.setattr(answers, "FIRST_AFTER_S", 0.0)
    pipeline = HeldPipeline(echoing())
    async with served(service_over(pipeline)) as client:
        pipeline.hold()
        sent = asyncio.create_task(translate(client, to=["ja", "ko"], **{"from": "en"}))
        await until(lambda: pipeline.generations == 2, "both sequences")
        pipeline.failure = RuntimeError("the engine failed")
        pipeline.release.set()
        answer = await sent
    assert answer.status_code == 500
    assert code(answer) == (500, 500000)


async def test_nothing_runs_where_one_language_is_not_served() -> None:
    pipeline = HeldPipeline(echoing())
    service = service_over(pipeline)
    async with served(service) as client:
        before = pipeline.generations
        assert code(await translate(client, to=["ja", "ko", "zz"])) == (400, 400036)
        assert pipeline.generations == before
        await until(lambda: service.admission.calls == 0, "no call")


async def test_the_server_answers_below_a_root_path() -> None:
    async with served(fake_service(server=ServerSettings(root_path="/mt"))) as client:
        answer = await client.post("/mt/translate", params={"api-version": V3, "to": "ja"}, json=ELEMENTS)
        assert answer.json()[0]["translations"][0]["text"] == "~Good morning."
