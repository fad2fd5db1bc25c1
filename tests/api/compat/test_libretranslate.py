"""LibreTranslate's API over the fake pipeline: requests as its clients send them, its answers, its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.settings import AdmissionSettings, ServerSettings
from dragoman.types import ANONYMOUS
from tests.serving import fake_service, served

FORM = "application/x-www-form-urlencoded"
SENT: dict[str, Any] = {"q": "Good morning.", "source": "en", "target": "ja"}
KOREAN = "도서관은 어디에 있나요?"


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    limits = ServerSettings(max_body_bytes=200_000, max_texts=2_000, max_text_characters=5_000)
    async with served(fake_service(server=limits)) as client:
        yield client


@pytest.mark.parametrize(
    "sent",
    [
        {"json": SENT},
        {"data": SENT},
        {"files": {name: (None, value) for name, value in SENT.items()}},
        {"params": SENT},
        {"content": json.dumps(SENT)},  # without a content type
        {"json": SENT | {"format": None, "alternatives": 0, "api_key": ""}},
        {"params": {"api_key": "x"}, "json": SENT},
    ],
    ids=["json", "urlencoded", "multipart", "query", "untyped", "nulls", "query and json"],
)
async def test_a_text_is_answered_with_a_text_however_it_is_sent(
    client: httpx.AsyncClient, sent: dict[str, Any]
) -> None:
    answer = await client.post("/translate", **sent)
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "~Good morning."})


@pytest.mark.parametrize(
    "sent", [{"json": SENT | {"q": ["One day.", "", "🎉"]}}, {"data": SENT | {"q": ["One day.", "", "🎉"]}}]
)
async def test_an_array_is_answered_with_an_array(client: httpx.AsyncClient, sent: dict[str, Any]) -> None:
    assert (await client.post("/translate", **sent)).json() == {"translatedText": ["~One day.", "", "🎉"]}


async def test_detected_languages_come_with_auto_alone(client: httpx.AsyncClient) -> None:
    texts = ["Good morning, my friend.", KOREAN, "🎉"]
    answer = (await client.post("/translate", json={"q": texts, "source": "AUTO", "target": "zh"})).json()
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "ko", "en"]
    english, korean, emoji = (one["confidence"] for one in answer["detectedLanguage"])
    assert 50 < english <= 100
    assert (korean, emoji) == (100, 0)
    answer = (await client.post("/translate", json={"q": KOREAN, "source": "auto", "target": "en"})).json()
    assert answer == {"translatedText": f"~{KOREAN}", "detectedLanguage": {"confidence": 100, "language": "ko"}}


async def test_a_model_that_has_no_other_translation_gives_empty_lists(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/translate", json=SENT | {"alternatives": 3})).json()
    assert answer == {"translatedText": "~Good morning.", "alternatives": []}
    answer = (await client.post("/translate", json=SENT | {"q": ["a b", "c d"], "alternatives": "3"})).json()
    assert answer["alternatives"] == [[], []]


async def test_html_keeps_its_tags(client: httpx.AsyncClient) -> None:
    html = '<p class="x">Good morning.</p>'
    answer = (await client.post("/translate", json=SENT | {"q": html, "format": "html"})).json()
    assert answer == {"translatedText": '<p class="x">~Good morning.</p>'}


@pytest.mark.parametrize("code", ["zh", "ZH", "zh-Hans", "zh-CN", "zh_hans"])
async def test_codes_of_chinese(client: httpx.AsyncClient, code: str) -> None:
    assert (await client.post("/translate", json=SENT | {"target": code})).status_code == 200


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "klingon!"}, "klingon! is not supported"),
        ({"target": "zt"}, "zh-Hant is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        ({"format": "markdown"}, "Value for 'format' not supported: give one of text, html"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
    ],
)
async def test_errors_are_libretranslates(client: httpx.AsyncClient, sent: dict[str, Any], error: str) -> None:
    answer = await client.post("/translate", json=SENT | sent)
    assert (answer.status_code, answer.json()) == (400, {"error": error})


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b"\xff", "application/json"),
        (b"[" * 50_000, "application/json"),
        (b'{"q": 3, "source": "en", "target": "ja"}', "application/json"),
        (b'{"q": ["a", 3], "source": "en", "target": "ja"}', "application/json"),
        (b'{"q": "a \\ud800", "source": "en", "target": "ja"}', "application/json"),
        (b'{"q": "a b", "source": "en", "target": "j\\udfff"}', "application/json"),
        (b'{"q": "a b", "source": ["en"], "target": "ja"}', "application/json"),
        (b"no boundary", "multipart/form-data; boundary=x"),
        (b"%ff=%fe", FORM),
        (b"", FORM),
        (b"q=" + b"a" * 6_000 + b"&source=en&target=ja", FORM),
        (b"q=" + b"a" * 300_000, FORM),
    ],
)
async def test_bad_input_is_400(client: httpx.AsyncClient, content: bytes, content_type: str) -> None:
    answer = await client.post("/translate", content=content, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


async def test_a_full_queue_is_429_with_the_time_to_wait() -> None:
    released = asyncio.Event()
    service = fake_service(admission=AdmissionSettings(max_in_flight_characters=5))
    async with served(service) as client:
        with service.admission.permit(5, account_id=ANONYMOUS.id):
            answer = await client.post("/translate", json=SENT)
        released.set()
    assert answer.status_code == 429
    assert answer.json()["error"].startswith("Slowdown: ")
    assert int(answer.headers["retry-after"]) > 0


async def test_detect(client: httpx.AsyncClient) -> None:
    for sent in ({"json": {"q": KOREAN}}, {"data": {"q": KOREAN}}, {"params": {"q": KOREAN}}):
        answer = await client.post("/detect", **sent)
        assert answer.json() == [{"confidence": 100, "language": "ko"}]
    assert (await client.post("/detect", json={"q": "🎉"})).json() == [{"confidence": 0, "language": "en"}]
    answer = await client.post("/detect", json={"q": [KOREAN, f"{KOREAN} {KOREAN}", "駅はどこ", "12"]})
    assert [one["language"] for one in answer.json()] == ["ko", "ja"]
    answer = await client.post("/detect", json={})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request: missing q parameter"})
    assert (await client.post("/detect", json={"q": ["a"] * 1_000})).status_code == 200
    assert (await client.post("/detect", json={"q": ["a"] * 1_001})).status_code == 400


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_languages(client: httpx.AsyncClient, method: str) -> None:
    found = {one["code"]: one for one in (await client.request(method, "/languages")).json()}
    assert set(found) == {"en", "ja", "ko", "zh-Hans"}
    assert found["zh-Hans"]["name"] == "Chinese"
    assert set(found["en"]["targets"]) == {"en", "ja", "ko", "zh-Hans"}


@pytest.mark.parametrize(
    ("accepted", "target"),
    [
        ("de-AT, ko-KR;q=0.8, ja;q=0.9", "ja"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"),
        ("ko;q=0, ja ; q=0.1", "ja"),
        ("de, *;q=0.5", "en"),
        (", ;q=1,=;" + "x" * 5_000, "en"),
        (None, "en"),
    ],
)
async def test_front_ends_are_proposed_the_language_that_the_browser_prefers(
    client: httpx.AsyncClient, accepted: str | None, target: str
) -> None:
    headers = {} if accepted is None else {"Accept-Language": accepted}
    settings = (await client.get("/frontend/settings", headers=headers)).json()
    assert settings["language"]["target"]["code"] == target


async def test_the_specification_has_the_title_by_which_clients_recognise_the_api(client: httpx.AsyncClient) -> None:
    found = (await client.get("/spec")).json()
    assert found["info"]["title"] == "LibreTranslate"
    assert {"/translate", "/detect", "/languages", "/translate_file", "/frontend/settings"} <= found["paths"].keys()
    assert "/v1/translate" not in found["paths"]


async def test_an_address_with_a_slash_at_its_end(client: httpx.AsyncClient) -> None:
    address = str(client.base_url).rstrip("/")
    answers = [await client.post(f"{address}{path}", json=SENT) for path in ("//translate", "///translate")]
    assert [one.json() for one in answers] == [{"translatedText": "~Good morning."}] * 2
    assert [one["code"] for one in (await client.get(f"{address}//languages")).json()]
    assert (await client.get(f"{address}/frontend//settings")).status_code == 200
    answer = await client.post(f"{address}//translate", json=SENT | {"q": ""})
    assert answer.json() == {"error": "Invalid request: missing q parameter"}


async def test_what_front_ends_ask(client: httpx.AsyncClient) -> None:
    settings = (await client.get("/frontend/settings")).json()
    assert settings["charLimit"] == 5_000
    assert settings["supportedFilesFormat"] == []
    assert settings["language"]["source"]["code"] == "auto"
    assert (await client.get("/health")).json() == {"status": "ok"}


async def test_what_is_not_offered_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.post("/suggest/more", json={"q": "a"})
    assert answer.status_code == 404
    assert isinstance(answer.json()["error"], str)


async def test_a_wrong_method_is_refused_in_libretranslates_format(client: httpx.AsyncClient) -> None:
    answer = await client.put("/translate")
    assert answer.status_code == 405
    assert isinstance(answer.json()["error"], str)
