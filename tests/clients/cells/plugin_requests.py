"""The requests of browsers' plug-ins: Immersive Translate, KISS Translator, DeepLX."""

from __future__ import annotations

from typing import Any

import httpx
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused, same_tags

client = httpx.Client(base_url=URL, timeout=20, headers={"Authorization": f"Bearer {KEY}"})


def post(path: str, body: dict[str, Any], **options: Any) -> Any:
    return client.post(path, json=body, **options).raise_for_status().json()


@cell("batch", "Immersive Translate: text_list, in order")
def immersive() -> None:
    found = post("/immersive/translate", {"source_lang": "auto", "target_lang": "ja", "text_list": TEXTS})
    equal([one["text"] for one in found["translations"]], EXPECTED["ja"])
    equal({one["detected_source_lang"] for one in found["translations"]}, {"en"})


@cell("tags", "Immersive Translate: {0} and <b0></b0> are kept")
def immersive_placeholders() -> None:
    sources = ["Where is the <b0>train station</b0>?", "Where is the train station, {0}?"]
    found = post("/immersive/translate", {"source_lang": "en", "target_lang": "ja", "text_list": sources})
    tags, braces = (one["text"] for one in found["translations"])
    same_tags(tags, sources[0])
    equal(braces.count("{0}"), 1)
    japanese(tags)


@cell("text", "KISS Translator: one text")
def kiss() -> None:
    equal(post("/kiss/translate", {"text": TEXT, "from": "auto", "to": "ja"}), {"text": JA, "src": "en"})


@cell("batch", "KISS Translator: a batch, in order")
def kiss_batch() -> None:
    found = post("/kiss/translate", {"texts": TEXTS, "from": "en", "to": "ja"})
    equal([one["text"] for one in found], EXPECTED["ja"])


@cell("text", "DeepLX: text, at /translate and /deeplx/translate; the key in the address")
def deeplx() -> None:
    for path in ("/translate", "/deeplx/translate"):
        body = {"text": TEXT, "source_lang": "EN", "target_lang": "JA"}
        found = post(path, body, params={"token": KEY}, headers={"Authorization": ""})
        equal((found["code"], found["data"], found["source_lang"], found["target_lang"]), (200, JA, "EN", "JA"))


@refused
def translate(key: str) -> str:
    """A plug-in shows the status and the message."""
    body = {"text": TEXT, "source_lang": "EN", "target_lang": "JA"}
    answer = client.post("/deeplx/translate", json=body, headers={"Authorization": f"Bearer {key}"})
    return f"status {answer.status_code}"


main()
