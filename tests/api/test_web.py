"""The pages' routes, on an app made of the router alone. What the page does in a browser is tests/browser's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from dragoman import phrasebook
from dragoman.api.web import page


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI(docs_url=None, redoc_url=None)
    page.install(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


def text_of(name: str) -> str:
    return (page.STATIC / name).read_text(encoding="utf-8")


def names(suffix: str) -> list[str]:
    return sorted(path.name for path in page.STATIC.iterdir() if path.name.endswith(suffix))


@pytest.mark.parametrize("path", ["/", "/engine", "/docs"])
async def test_a_page_is_html_that_may_load_nothing_from_another_host(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert "default-src 'self'" in policy
    assert not [rule for rule in policy if "unsafe" in rule or "*" in rule or "data:" in rule]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("base.css", "text/css; charset=utf-8"),
        ("main.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("sentences.json", "application/json"),
    ],
)
async def test_files_have_the_types_that_browsers_insist_on(
    client: httpx.AsyncClient, name: str, media_type: str
) -> None:
    answer = await client.get(f"/web/{name}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, media_type)


@pytest.mark.parametrize("etags", ["{tag}", "W/{tag}", '"other", {tag}'])
async def test_a_browser_that_has_a_file_gets_304_without_its_content(client: httpx.AsyncClient, etags: str) -> None:
    first = await client.get("/web/main.js")
    again = await client.get("/web/main.js", headers={"If-None-Match": etags.format(tag=first.headers["ETag"])})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Cache-Control"] == first.headers["Cache-Control"] == "no-cache"
    for older in ('"other"', "", '""'):
        answer = await client.get("/web/main.js", headers={"If-None-Match": older})
        assert (answer.status_code, answer.content) == (200, first.content)


@pytest.mark.parametrize("path", ["/", "/web/main.js"])
async def test_head_says_what_get_would(client: httpx.AsyncClient, path: str) -> None:
    head, get = await client.head(path), await client.get(path)
    assert head.status_code == 200
    assert head.headers == get.headers


@pytest.mark.parametrize("name", ["nothing.js", "../page.py", "..%2fpage.py", "%2e%2e/page.py", "", "static"])
async def test_only_the_page_s_own_files_are_served(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"/web/{name}")).status_code in {307, 404}
    assert b"PageFiles" not in (await client.get(f"/web/{name}", follow_redirects=True)).content


async def test_the_page_is_no_part_of_the_documented_api(client: httpx.AsyncClient) -> None:
    assert (await client.get("/openapi.json")).json()["paths"] == {}


def test_the_sentences_are_in_every_language_of_the_packaged_model() -> None:
    for sentences in json.loads(text_of("sentences.json")).values():
        for sentence in sentences:
            assert tuple(sentence) == phrasebook.LANGUAGES
            assert all(words.strip() == words and words for words in sentence.values())
