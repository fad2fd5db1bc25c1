"""The requests of deepl-rb 3.8.0, as `lib/deepl/requests` has them: JSON in every body, also of GET and DELETE, and multipart
for files."""

from __future__ import annotations

import time
from typing import Any

import httpx
from cells import EXPECTED, FILES, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused, same_tags, translated_file

client = httpx.Client(base_url=f"{URL}/v2/", headers={"Authorization": f"DeepL-Auth-Key {KEY}"}, timeout=60)


def answered(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json() if response.content else None


def get(path: str, options: dict[str, Any] | None = None) -> Any:
    return answered(client.request("GET", path, json=options or {}))


def translations(
    text: list[str], source: str | None = None, target: str = "JA", **options: Any
) -> list[dict[str, Any]]:
    body = {"text": text, "source_lang": source, "target_lang": target, **options}
    return answered(client.post("translate", json=body))["translations"]


@cell("text", "translate, source_lang null")
def text() -> None:
    [found] = translations([TEXT])
    equal((found["text"], found["detected_source_language"]), (JA, "EN"))


@cell("text", "split_sentences, preserve_formatting, formality, context, model_type")
def options() -> None:
    given = {"split_sentences": "1", "preserve_formatting": True, "formality": "prefer_more", "context": "A traveller."}
    [found] = translations([TEXT], "EN", **given, model_type="prefer_quality_optimized")
    equal(bool(found["text"]), True)


@cell("batch", "translate with an array")
def batch() -> None:
    equal([one["text"] for one in translations(TEXTS, "EN")], EXPECTED["ja"])


@cell("tags", "tag_handling html")
def tags() -> None:
    source = "<p>Where is the <b>train station</b>?</p>"
    same_tags(translations([source], "EN", tag_handling="html")[0]["text"], source)


@cell("languages", "languages: the type in the JSON of a GET")
def languages() -> None:
    for kind in ("source", "target"):
        found = {one["language"].upper()[:2]: one for one in get("languages", {"type": kind})}
        assert {"EN", "JA"} <= set(found), found
        equal("supports_formality" in found["JA"], kind == "target")


@cell("usage", "usage")
def usage() -> None:
    assert get("usage")["character_limit"] > 0


@cell("glossaries", "create, list, find, entries, use, destroy")
def glossaries() -> None:
    body = {"name": "ruby", "source_lang": "EN", "target_lang": "JA", "entries": "train station\tターミナル\n"}
    made = answered(client.post("glossaries", json={**body, "entries_format": "tsv"}))["glossary_id"]
    try:
        assert made in {one["glossary_id"] for one in get("glossaries")["glossaries"]}
        equal((get(f"glossaries/{made}")["name"], get(f"glossaries/{made}")["entry_count"]), ("ruby", 1))
        entries = client.request("GET", f"glossaries/{made}/entries", json={}).text
        equal([line.split("\t") for line in entries.split("\n") if line], [["train station", "ターミナル"]])
        assert "ターミナル" in translations([TEXT], "EN", glossary_id=made)[0]["text"]
        assert get("glossary-language-pairs")["supported_languages"]
    finally:
        answered(client.request("DELETE", f"glossaries/{made}", json={}))


@cell("documents", "upload, status, download: the document's key in JSON")
def documents() -> None:
    with (FILES / "a.pptx").open("rb") as file:
        fields = {"source_lang": "EN", "target_lang": "JA", "filename": "a.pptx"}
        made = answered(client.post("document", data=fields, files={"file": ("a.pptx", file)}))
    path, key = f"document/{made['document_id']}", {"document_key": made["document_key"]}
    while (status := answered(client.post(path, json=key)))["status"] in ("queued", "translating"):
        time.sleep(0.2)
    equal(status["status"], "done")
    result = FILES / "ruby.pptx"
    result.write_bytes(client.post(f"{path}/result", json=key).raise_for_status().content)
    translated_file(result)


@refused
def translate(key: str) -> str:
    body = {"text": [TEXT], "source_lang": None, "target_lang": "JA"}
    answer = client.post("translate", json=body, headers={"Authorization": f"DeepL-Auth-Key {key}"})
    return f"status {answer.status_code}"


main()
