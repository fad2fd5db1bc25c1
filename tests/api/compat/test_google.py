"""Google's version 2 over the fake pipeline: requests as google-cloud-translate and others send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.serving import fake_service, served

PATH = "/language/translate/v2"
KOREAN = "도서관은 어디에 있나요?"
CLIENT_BODY: dict[str, Any] = {
    "target": "ja",
    "q": ["Good morning."],
    "cid": [],
    "format": None,
    "source": None,
    "model": None,
}
"""What google-cloud-translate sends."""


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service()) as client:
        yield client


async def test_the_request_of_google_cloud_translate(client: httpx.AsyncClient) -> None:
    answer = await client.post(PATH, params={"prettyPrint": "false"}, json=CLIENT_BODY)
    assert answer.json() == {
        "data": {"translations": [{"translatedText": "~Good morning.", "detectedSourceLanguage": "en"}]}
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_parameters_in_a_query_or_a_form(client: httpx.AsyncClient, method: str) -> None:
    sent = {
        "q": ["One day.", "A word."],
        "source": "en",
        "target": "zh-CN",
        "key": "x",
        "format": "text",
        "model": "nmt",
    }
    answer = await client.request(method, PATH, **{"params" if method == "GET" else "data": sent})  # type: ignore[arg-type]
    assert answer.json()["data"]["translations"] == [
        {"translatedText": "~One day.", "model": "nmt"},
        {"translatedText": "~A word.", "model": "nmt"},
    ]


async def test_texts_are_html_by_default(client: httpx.AsyncClient) -> None:
    html = '<p title="1">Good &amp; fine morning.</p>'
    answer = (await client.post(PATH, json=CLIENT_BODY | {"q": html})).json()
    assert answer["data"]["translations"][0]["translatedText"] == '<p title="1">~Good &amp; fine morning.</p>'


async def test_languages(client: httpx.AsyncClient) -> None:
    answer = (await client.get(f"{PATH}/languages")).json()
    assert answer["data"]["languages"] == [{"language": code} for code in ("en", "ja", "ko", "zh-CN")]
    answer = (await client.get(f"{PATH}/languages", params={"target": "de"})).json()
    assert answer["data"]["languages"][1] == {"language": "ja", "name": "Japanisch"}


async def test_detect(client: httpx.AsyncClient) -> None:
    answer = (await client.post(f"{PATH}/detect", json={"q": [KOREAN, "你好，我的朋友们", "12"]})).json()
    found = answer["data"]["detections"]
    assert [[one["language"] for one in each] for each in found] == [["ko"], ["zh-CN"], ["und"]]
    assert found[0][0]["confidence"] == 1.0
    assert (await client.post(f"{PATH}/detect", json={"q": ["a"] * 1_001})).status_code == 400


@pytest.mark.parametrize(
    "sent",
    [
        {"q": None},
        {"target": None},
        {"target": "zz"},
        {"source": "zz"},
        {"format": "pdf"},
        {"q": 3},
        {"q": []},
        {"model": 3},
    ],
)
async def test_errors_are_googles(client: httpx.AsyncClient, sent: dict[str, Any]) -> None:
    answer = await client.post(PATH, json=CLIENT_BODY | sent)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["errors"] == [{"message": error["message"], "domain": "global", "reason": "invalid"}]


async def test_a_bad_language_for_names_is_400(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{PATH}/languages", params={"target": "zz"})).status_code == 400
