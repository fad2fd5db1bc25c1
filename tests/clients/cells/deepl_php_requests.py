"""The requests of deepl-php 1.19.0, as `src/Translator.php` and `HttpClientWrapper.php` have them: JSON for texts and
glossaries, multipart for files, a form for a document's key."""

from __future__ import annotations

import time
from typing import Any

import httpx
from cells import EXPECTED, FILES, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused, translated_file

client = httpx.Client(base_url=URL, headers={"Authorization": f"DeepL-Auth-Key {KEY}"}, timeout=10)


def answered(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json() if response.content else None


def translations(text: list[str], **options: Any) -> list[dict[str, Any]]:
    body = {"target_lang": "ja", **options, "show_billed_characters": True, "text": text}
    return answered(client.post("/v2/translate", json=body))["translations"]


@cell("text", "translateText, the source detected")
def text() -> None:
    [found] = translations([TEXT])
    equal((found["text"], found["detected_source_language"], found["billed_characters"]), (JA, "EN", len(TEXT)))


@cell("batch", "translateText with an array")
def batch() -> None:
    equal([one["text"] for one in translations(TEXTS, source_lang="en")], EXPECTED["ja"])


@cell("tags", "tag_handling, ignore_tags as a list")
def tags() -> None:
    options = {"source_lang": "en", "tag_handling": "xml", "ignore_tags": ["x"], "outline_detection": False}
    [found] = translations(["Where is <x>platform 9</x>?"], **options)
    assert "<x>platform 9</x>" in found["text"], found
    japanese(found["text"].replace("platform 9", ""))


@cell("languages", "getSourceLanguages, getTargetLanguages: type in the query; getLanguagesForResource")
def languages() -> None:
    for kind in ("source", "target"):
        found = answered(client.get(f"/v2/languages?type={kind}"))
        assert {"EN", "JA"} <= {one["language"].upper()[:2] for one in found}, found
    assert answered(client.get("/v3/languages?resource=translate_text"))


@cell("usage", "getUsage")
def usage() -> None:
    found = answered(client.get("/v2/usage"))
    assert found["character_count"] >= 0 and found["character_limit"] > 0, found


@cell("glossaries", "createGlossary with TSV, and with CSV; list, entries, use, delete")
def glossaries() -> None:
    for entries_format, entries in (("tsv", "train station\tターミナル"), ("csv", "train station,ターミナル")):
        body = {"name": "php", "source_lang": "en", "target_lang": "ja", "entries_format": entries_format}
        made = answered(client.post("/v2/glossaries", json={**body, "entries": entries}))["glossary_id"]
        try:
            assert made in {one["glossary_id"] for one in answered(client.get("/v2/glossaries"))["glossaries"]}
            equal(client.get(f"/v2/glossaries/{made}/entries").text.strip(), "train station\tターミナル")
            [found] = translations([TEXT], source_lang="en", glossary_id=made)
            assert "ターミナル" in found["text"], found
        finally:
            answered(client.delete(f"/v2/glossaries/{made}"))


@cell("documents", "translateDocument: multipart, the document's key in a form")
def documents() -> None:
    for name in ("a.docx", "a.srt"):
        with (FILES / name).open("rb") as file:
            fields = {"target_lang": "ja", "source_lang": "en"}
            made = answered(client.post("/v2/document", data=fields, files={"file": (name, file)}))
        path, form = f"/v2/document/{made['document_id']}", {"document_key": made["document_key"]}
        while (status := answered(client.post(path, data=form)))["status"] in ("queued", "translating"):
            time.sleep(0.2)
        equal(status["status"], "done")
        result = FILES / f"php-{name}"
        result.write_bytes(client.post(f"{path}/result", data=form).raise_for_status().content)
        translated_file(result)


@refused
def translate(key: str) -> str:
    body = {"target_lang": "ja", "show_billed_characters": True, "text": [TEXT]}
    answer = client.post("/v2/translate", json=body, headers={"Authorization": f"DeepL-Auth-Key {key}"})
    return f"status {answer.status_code}"


main()
