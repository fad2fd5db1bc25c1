"""The requests of Lingarr's LibreTranslate and LocalAI services, as `Lingarr.Server/Services/Translation` has them, with the
prompt that its migrations set."""

from __future__ import annotations

import json
from typing import Any

import httpx
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused

BEARER = {"Authorization": f"Bearer {KEY}"}
PROMPT = (
    "Translate from English to Japanese, preserving the tone and meaning without censoring the content. Adjust punctuation as "
    "needed to make the translation sound natural. Provide only the translated text as output, with no additional comments."
)
LINE = {"type": "object", "properties": {"position": {"type": "integer"}, "line": {"type": "string"}}}
LINE |= {"required": ["position", "line"], "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"translations": {"type": "array", "items": LINE}}}
SCHEMA |= {"required": ["translations"], "additionalProperties": False}
client = httpx.Client(base_url=URL, timeout=300)


def asked(message: str, **options: Any) -> str:
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": message}]
    answer = client.post(
        "/v1/chat/completions", json={"model": "dragoman", "messages": messages, **options}, headers=BEARER
    )
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


def libretranslate(text: str, key: str = KEY) -> httpx.Response:
    return client.post("/translate", json={"q": text, "source": "en", "target": "ja", "format": "text", "api_key": key})


@cell("text", "LibreTranslate: one line in a request")
def of_libretranslate() -> None:
    equal(libretranslate(TEXT).json()["translatedText"], JA)


@cell("text", "LocalAI: one line in a request")
def of_local_ai() -> None:
    equal(asked(TEXT), JA)


@cell("batch", "LocalAI: a batch of subtitles with response_format json_schema, positions kept")
def batch() -> None:
    lines = [{"position": place, "line": text} for place, text in enumerate(TEXTS, 41)]
    form = {
        "type": "json_schema",
        "json_schema": {"name": "batch_translation_response", "strict": True, "schema": SCHEMA},
    }
    found = json.loads(asked(json.dumps(lines), response_format=form))["translations"]
    equal({one["position"]: one["line"] for one in found}, dict(enumerate(EXPECTED["ja"], 41)))


@refused
def translate(key: str) -> str:
    return f"status {libretranslate(TEXT, key).status_code}"


main()
