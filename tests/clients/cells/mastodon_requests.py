"""The requests of Mastodon's LibreTranslate service, as `app/lib/translation_service/libre_translate.rb` has them."""

from __future__ import annotations

import json
from typing import Any

import httpx
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused, same_tags

client = httpx.Client(base_url=URL, headers={"Content-Type": "application/json"}, timeout=10)


def posted(texts: list[str], source: str = "auto", key: str = KEY) -> httpx.Response:
    body = {"q": texts, "source": source, "target": "ja", "format": "html", "api_key": key}
    return client.post("/translate", content=json.dumps(body).encode())


def answered(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()


@cell("batch", "the parts of a post: content, spoiler text, options of a poll; each source detected")
def parts() -> None:
    found = answered(posted(TEXTS))
    equal(found["translatedText"], EXPECTED["ja"])
    equal({one["language"] for one in found["detectedLanguage"]}, {"en"})


@cell("text", "the language of the post is given")
def text() -> None:
    equal(answered(posted([TEXT], "en"))["translatedText"], [JA])


@cell("tags", "mentions, links and emoji of a post, as Mastodon writes them")
def tags() -> None:
    source = (
        '<p><span class="h-card" translate="no"><a href="https://example.org/@ann" class="u-url mention">@<span>ann</span>'
        '</a></span> Where is the train station? <span translate="no">:wave:</span></p>'
    )
    [found] = answered(posted([source], "en"))["translatedText"]
    same_tags(found, source)
    assert "<span>ann</span>" in found and ":wave:" in found, found
    japanese(found.replace("ann", "").replace("wave", ""))


@cell("languages", "GET /languages: the targets of each source")
def languages() -> None:
    found = {one["code"]: one["targets"] for one in answered(client.get("/languages"))}
    assert "ja" in found["en"], found


@refused
def translate(key: str) -> str:
    """429: too many requests; 403: no quota; anything else is an unexpected response."""
    return f"status {posted([TEXT], key=key).status_code}"


main()
