"""Browser plug-ins over the fake pipeline: each on its own path, and recognised by its fields on `/translate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.serving import fake_service, served

DEEPLX = {"text": "Good morning.", "source_lang": "EN", "target_lang": "JA"}
IMMERSIVE = {"text_list": ["Good morning.", ""], "source_lang": "auto", "target_lang": "zh-CN"}
KISS = {"text": "Good morning, my friend.", "from": "auto", "to": "zh-CN"}


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service()) as client:
        yield client


@pytest.mark.parametrize("path", ["/deeplx/translate", "/translate", "/translate?token=x"])
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


@pytest.mark.parametrize("path", ["/deeplx/translate", "/translate"])
@pytest.mark.parametrize(
    "sent",
    [{"text": ""}, {"target_lang": "ZZ"}, {"target_lang": ""}, {"tag_handling": "rtf"}, {"text": 3}, {"text": ["a"]}],
)
async def test_errors_are_deeplxs(client: httpx.AsyncClient, path: str, sent: dict[str, Any]) -> None:
    answer = await client.post(path, json=DEEPLX | sent)
    assert answer.status_code == 400
    assert answer.json()["code"] == 400
    assert answer.json()["message"]


@pytest.mark.parametrize("path", ["/immersive/translate", "/translate"])
async def test_immersive_translate(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.post(path, json=IMMERSIVE)).json() == {
        "translations": [
            {"detected_source_lang": "en", "text": "~Good morning."},
            {"detected_source_lang": "auto", "text": ""},
        ]
    }
    answer = await client.post(path, json=IMMERSIVE | {"target_lang": "zz"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_language")


@pytest.mark.parametrize("path", ["/kiss/translate", "/translate"])
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
