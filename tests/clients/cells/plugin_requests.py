"""The requests of browser plug-ins and of DeepLX's clients, as their documentation has them."""

from __future__ import annotations

from typing import Any

import httpx
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused, same_tags

client = httpx.Client(base_url=URL, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)


def answered(path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json=body).raise_for_status().json()


@cell("batch", "Immersive Translate, Custom API")
def immersive() -> None:
    body = {"source_lang": "auto", "target_lang": "ja", "text_list": TEXTS}
    equal([one["text"] for one in answered("/immersive/translate", body)["translations"]], EXPECTED["ja"])


@cell("tags", "Immersive Translate: numbered tags around what is not text")
def numbered() -> None:
    source = "Where is the <b0>train station</b0>?"
    body = {"source_lang": "en", "target_lang": "ja", "text_list": [source]}
    same_tags(answered("/immersive/translate", body)["translations"][0]["text"], source)


@cell("text", "KISS Translator, Custom")
def kiss() -> None:
    found = answered("/kiss/translate", {"text": TEXT, "from": "auto", "to": "ja"})
    equal((found["text"], found["src"]), (JA, "en"))


@cell("batch", "KISS Translator, Custom with batches")
def kiss_batch() -> None:
    found = answered("/kiss/translate", {"texts": TEXTS, "from": "auto", "to": "ja"})
    equal([one["text"] for one in found], EXPECTED["ja"])


@cell("text", "DeepLX")
def deeplx() -> None:
    found = answered("/deeplx/translate", {"text": TEXT, "source_lang": "EN", "target_lang": "JA"})
    equal((found["code"], found["data"]), (200, JA))


@refused
def translate(key: str) -> str:
    body = {"source_lang": "en", "target_lang": "ja", "text_list": [TEXT]}
    answer = client.post("/immersive/translate", json=body, headers={"Authorization": f"Bearer {key}"})
    return f"status {answer.status_code}"


main()
