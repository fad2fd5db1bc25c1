"""Browser plug-ins over the fake pipeline: each on its own path, and recognised by its fields on `/translate`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dragoman.api.app import create_app
from dragoman.api.transport import http_config
from dragoman.settings import ServerSettings
from tests.serving import fake_service, served

DEEPLX = {"text": "Good morning.", "source_lang": "EN", "target_lang": "JA"}
IMMERSIVE = {"text_list": ["Good morning.", ""], "source_lang": "auto", "target_lang": "zh-CN"}
KISS = {"text": "Good morning, my friend.", "from": "auto", "to": "zh-CN"}


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service()) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/deeplx/translate", "/deeplx", "/deeplx?token=x", "/translate", "/translate?token=x"]
)
async def test_deeplx(client: httpx.AsyncClient, path: str) -> None:
    answer = (await client.post(path, json=DEEPLX)).json()
    assert isinstance(answer.pop("id"), int)
    assert answer == {
        "code": 200,
        "data": "~Good morning.",
        "alternatives": [],
        "source_lang": "EN",
        "target_lang": "JA",
        "method": "Free",
    }


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        ({"source_lang": "auto", "target_lang": "ZH-HANS"}, "~Good morning."),
        ({"source_lang": "", "target_lang": "ZH"}, "~Good morning."),
        ({"text": "<p>Good morning.</p>", "tag_handling": "html"}, "<p>~Good morning.</p>"),
    ],
)
async def test_what_clients_of_deeplx_send(client: httpx.AsyncClient, sent: dict[str, Any], data: str) -> None:
    answer = (await client.post("/translate", json=DEEPLX | sent)).json()
    assert (answer["data"], answer["source_lang"]) == (data, "EN")


@pytest.mark.parametrize("path", ["/deeplx/translate", "/deeplx", "/translate"])
@pytest.mark.parametrize(
    "sent",
    [{"text": ""}, {"target_lang": "ZZ"}, {"target_lang": ""}, {"tag_handling": "rtf"}, {"text": 3}, {"text": ["a"]}],
)
async def test_errors_are_deeplxs(client: httpx.AsyncClient, path: str, sent: dict[str, Any]) -> None:
    answer = await client.post(path, json=DEEPLX | sent)
    assert answer.status_code == 400
    assert answer.json()["code"] == 400
    assert answer.json()["message"]


@pytest.mark.parametrize("path", ["/immersive/translate", "/imme", "/imme?token=x", "/translate"])
async def test_immersive_translate(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.post(path, json=IMMERSIVE)).json() == {
        "translations": [
            {"detected_source_lang": "en", "text": "~Good morning."},
            {"detected_source_lang": "auto", "text": ""},
        ]
    }
    answer = await client.post(path, json=IMMERSIVE | {"target_lang": "zz"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_language")


@pytest.mark.parametrize("path", ["/kiss/translate", "/kiss", "/translate"])
async def test_kiss_translator(client: httpx.AsyncClient, path: str) -> None:
    answer = (await client.post(path, json=KISS)).json()
    assert answer == {"text": "~Good morning, my friend.", "src": "en", "result": "~Good morning, my friend."}
    batch = {"texts": ["Good morning.", "早上好。"], "from": "auto", "to": "Korean"}
    answer = (await client.post(path, json=batch, headers={"Authorization": "Bearer"})).json()
    assert answer == [{"text": "~Good morning.", "src": "en"}, {"text": "~早上好。", "src": "zh-CN"}]
    answer = await client.post(path, json=KISS | {"to": ""})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_language")


async def test_mtranserver(client: httpx.AsyncClient) -> None:
    """As Zotero and STranslate send it."""
    sent = {"text": "Good morning.", "from": "en", "to": "zh-Hans"}
    assert (await client.post("/translate", json=sent)).json()["result"] == "~Good morning."
    html = sent | {"text": "<p title='a b'>Good morning.</p>", "html": True}
    assert (await client.post("/translate", json=html)).json()["result"] == "<p title='~a b'>~Good morning.</p>"
    batch = {"texts": ["Good morning.", "A day."], "from": "en", "to": "ja", "html": False}
    assert (await client.post("/translate/batch", json=batch)).json() == {"results": ["~Good morning.", "~A day."]}
    answer = await client.post("/translate/batch", json=batch | {"to": "zz"})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


async def test_a_list_is_answered_with_a_list_and_nothing_with_400(client: httpx.AsyncClient) -> None:
    answer = await client.post("/kiss/translate", json=KISS | {"text": ["One day.", "A word."]})
    assert [one["text"] for one in answer.json()] == ["~One day.", "~A word."]
    for path in ("/kiss/translate", "/immersive/translate", "/deeplx/translate"):
        answer = await client.post(path, json={"from": "en", "to": "ja", "source_lang": "en", "target_lang": "ja"})
        assert answer.status_code == 400


# ---- XUnity.AutoTranslator, whose text is in the query


GAME = {"from": "en", "to": "ja", "text": "Good morning & welcome, {0}!\nPress +."}


async def test_xunity_autotranslator(client: httpx.AsyncClient) -> None:
    answer = await client.get("/translate", params=GAME)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.text.startswith("~Good morning & welcome, {0}!\n")
    for source in ("auto", ""):
        answer = await client.get("/translate", params={"from": source, "to": "zh-CN", "text": "Good morning."})
        assert answer.text == "~Good morning."


@pytest.mark.parametrize("change", [{"to": "zz"}, {"to": ""}, {"from": "zz"}, {"text": ""}, {"text": ["a", "b"]}])
async def test_what_is_missing_or_wrong_is_no_translation(client: httpx.AsyncClient, change: dict[str, Any]) -> None:
    answer = await client.get("/translate", params=GAME | change)
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"], str)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://page.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_page_of_another_origin_does_not_translate_by_its_images(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    assert (await client.get("/translate", params=GAME, headers=headers)).status_code == status
    own = {"Origin": str(client.base_url).rstrip("/")}
    assert (await client.get("/translate", params=GAME, headers=own)).status_code == 200


async def test_the_text_of_a_query_is_neither_logged_nor_traced(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """uvicorn's own lines, which have the query, are off: pytest listens to them nevertheless."""
    assert http_config(create_app(fake_service()), ServerSettings()).access_log is False
    caplog.set_level(logging.DEBUG)
    for name in ("dragoman.request", "dragoman.api"):
        caplog.set_level(logging.DEBUG, name)
    secret = GAME | {"text": "Zanzibar"}
    for more in ({}, {"to": "zz"}, {"token": "wrong"}):
        await client.get("/translate", params=secret | more)
    await client.get("/translate/none", params=secret)
    ours = [record for record in caplog.records if record.name.startswith(("dragoman", "uvicorn.error"))]
    assert len([record for record in ours if record.name == "dragoman.request"]) == 4
    assert "Zanzibar" not in "".join(str(record.__dict__) for record in ours)
