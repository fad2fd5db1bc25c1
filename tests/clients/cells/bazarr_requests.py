"""The requests of Bazarr's OpenAI-compatible translator, as `openai_compatible_translator.py` has them."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from cells import EXPECTED, KEY, TEXTS, URL, cell, equal, main, refused

PROMPT = (
    "Translate subtitle cues from English to Japanese. Return only a JSON array of strings, exactly one translated string for "
    "each input cue, in the same order. Preserve meaning, names, line breaks where useful, and do not add commentary."
)


def posted(cues: list[str], key: str = KEY) -> httpx.Response:
    body: dict[str, Any] = {
        "model": "dragoman",
        "messages": [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": json.dumps(cues, ensure_ascii=False)},
        ],
        "temperature": 0.1,
        "max_tokens": max(512, len(cues) * 128),
        "chat_template_kwargs": {"enable_thinking": False},
    }
    return httpx.post(f"{URL}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=180)


def translated(cues: list[str]) -> list[str]:
    """As Bazarr reads the answer."""
    choice = posted(cues).raise_for_status().json()["choices"][0]
    equal(choice["finish_reason"], "stop")
    found = json.loads(re.search(r"\[[\s\S]*\]", choice["message"]["content"]).group())
    equal((len(found), {type(one) for one in found}), (len(cues), {str}))
    return found


@cell("batch", "cues in batches, each one back in its place")
def batch() -> None:
    equal(translated(TEXTS), EXPECTED["ja"])


@cell("batch", "line breaks of subtitles in a cue")
def breaks() -> None:
    [first, second] = translated([r"Good morning.\NThank you very much.", r"{\i1}Good morning.{\i0}"])
    assert first.count(r"\N") == 1 and r"{\i1}" in second and r"{\i0}" in second, (first, second)


@refused
def translate(key: str) -> str:
    return f"status {posted(TEXTS[:1], key).status_code}"


main()
