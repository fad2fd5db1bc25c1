"""The requests of Weblate 5.14.3's DeepL and LibreTranslate back ends, as `weblate/machinery` has them."""

from __future__ import annotations

from typing import Any

import httpx
from cells import EXPECTED, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused

HEADERS = {"Authorization": f"DeepL-Auth-Key {KEY}"}
deepl = httpx.Client(base_url=f"{URL}/v2/", headers=HEADERS, timeout=5)
libretranslate = httpx.Client(base_url=f"{URL}/", timeout=20)
SHAPE = {"source_lang": "EN", "target_lang": "JA", "formality": "default", "tag_handling": "xml", "ignore_tags": ["x"]}


def answered(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json() if response.content else None


@cell("languages", "DeepL: sources and targets, formality")
def languages_of_deepl() -> None:
    sources = {one["language"] for one in answered(deepl.get("languages", params={"type": "source"}))}
    targets = {one["language"].upper() for one in answered(deepl.get("languages", params={"type": "target"}))}
    assert "EN" in sources and "JA" in targets, (sources, targets)


@cell("batch", "DeepL: texts as JSON, in order")
def texts_of_deepl() -> None:
    found = answered(deepl.post("translate", json={**SHAPE, "text": TEXTS}))["translations"]
    equal([one["text"] for one in found], EXPECTED["ja"])


@cell("tags", "DeepL: placeholders as <x id>, kept")
def placeholders_of_deepl() -> None:
    text = 'Where is the train station, <x id="28"></x>?'
    [found] = answered(deepl.post("translate", json={**SHAPE, "text": [text]}))["translations"]
    equal(found["text"].count('<x id="28"></x>'), 1)
    japanese(found["text"])


@cell("glossaries", "DeepL: pairs, create, list, use, delete")
def glossaries_of_deepl() -> None:
    pairs = answered(deepl.get("glossary-language-pairs"))["supported_languages"]
    assert ("EN", "JA") in {(one["source_lang"].upper(), one["target_lang"].upper()) for one in pairs}
    name = "weblate:1:en:ja:0f"
    entries = {"entries": "train station\tターミナル", "entries_format": "tsv"}
    made = answered(deepl.post("glossaries", json={"name": name, "source_lang": "EN", "target_lang": "JA", **entries}))
    try:
        listed = {one["name"]: one["glossary_id"] for one in answered(deepl.get("glossaries"))["glossaries"]}
        equal(listed[name], made["glossary_id"])
        body = {**SHAPE, "text": [TEXT], "glossary_id": listed[name]}
        assert "ターミナル" in answered(deepl.post("translate", json=body))["translations"][0]["text"]
    finally:
        answered(deepl.delete(f"glossaries/{made['glossary_id']}"))


@cell("languages", "LibreTranslate: codes")
def languages_of_libretranslate() -> None:
    assert {"en", "ja", "ko"} <= {one["code"] for one in answered(libretranslate.get("languages"))}


@cell("batch", "LibreTranslate: an array of 20 texts, in order")
def texts_of_libretranslate() -> None:
    texts = [TEXTS[number % len(TEXTS)] for number in range(20)]
    body = {"api_key": KEY, "q": texts, "source": "en", "target": "ja"}
    found = answered(libretranslate.post("translate", json=body))["translatedText"]
    equal(found, [EXPECTED["ja"][number % len(TEXTS)] for number in range(20)])


@refused
def translate(key: str) -> str:
    """Weblate shows the message of a status from 400 on."""
    headers = {"Authorization": f"DeepL-Auth-Key {key}"}
    answer = deepl.post("translate", json={**SHAPE, "text": [TEXT]}, headers=headers)
    return f"status {answer.status_code}"


main()
