"""KISS Translator's batches: the texts in a message that it sends to a chat model, and the answer with their translations.

github.com/fishjar/kiss-translator: src/config/api.js (`defaultSystemPrompt`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, cast

from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, InvalidRequest
from dragoman.types import Formality, Translation

_MAX_ID = 100  # characters of the id of a batch's segment
_TONES: dict[str, Formality] = {"formal": "prefer_more", "casual": "prefer_less"}


@dataclass(frozen=True, slots=True)
class Segments:
    """The ids of a batch's texts, and the form in which their translations go back."""

    ids: tuple[object, ...]
    form: Literal["json", "xml", "lines"] = "json"

    def write(self, translations: Sequence[Translation]) -> str:
        """The content of the chat's answer."""
        pairs = list(zip(self.ids, translations, strict=True))
        if self.form == "xml":
            lines = (f'<t id="{escape(str(i))}" sourceLanguage="{one.source}">{one.text}</t>' for i, one in pairs)
            return "\n".join(["<root>", *lines, "</root>"])
        if self.form == "lines":
            return "\n".join(f"{i} | {'<br>'.join(one.text.splitlines())}" for i, one in pairs)
        found = [{"id": i, "text": one.text, "sourceLanguage": one.source} for i, one in pairs]
        return json.dumps({"translations": found}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class KissBatch:
    """The texts of a message, and what it says of their translations."""

    texts: tuple[str, ...]
    segments: Segments
    target: str  # as the message names it
    glossary: dict[str, str] = field(default_factory=dict[str, str])
    keep: tuple[str, ...] = ()
    formality: Formality = "default"
    context: str | None = None


def read_batch(message: str, system: str) -> KissBatch | None:
    """The batch that a user message is, in the form that the system message asks for; None where it is none.

    Raises `InvalidRequest` for segments or a glossary that are not as KISS Translator's.
    """
    if not message.lstrip().startswith("{") or "targetLanguage" not in message:
        return None
    try:
        found = parse_json(message.encode(), MAX_VALUES)
    except InvalidJson:
        return None
    if not isinstance(found, dict) or not {"targetLanguage", "segments"} <= cast(dict[str, Any], found).keys():
        return None
    batch = cast(dict[str, Any], found)
    ids, texts = _read_segments(batch["segments"])
    glossary: object = batch.get("glossary") or {}
    if not isinstance(glossary, dict):
        raise InvalidRequest("glossary: it is not an object of terms and translations", param="messages")
    terms = {str(term): str(translation) for term, translation in cast(dict[object, object], glossary).items()}
    described = (batch.get(name) for name in ("title", "description"))
    return KissBatch(
        texts,
        Segments(ids, "xml" if "<root>" in system else "lines" if '"ID | Text"' in system else "json"),
        str(batch["targetLanguage"]),
        glossary={term: translation for term, translation in terms.items() if term and translation},
        keep=tuple(term for term, translation in terms.items() if term and not translation),
        formality=_TONES.get(str(batch.get("tone")), "default"),
        context="\n".join(text for text in described if isinstance(text, str) and text) or None,
    )


def _read_segments(segments: Any) -> tuple[tuple[object, ...], tuple[str, ...]]:
    try:
        ids, texts = tuple(one["id"] for one in segments), tuple(one["text"] for one in segments)
    except (TypeError, KeyError):
        raise InvalidRequest("segments: each needs an id and a text", param="messages") from None
    if not all(isinstance(text, str) for text in texts):
        raise InvalidRequest("segments: a text is not a string", param="messages")
    if not all(isinstance(one, str | int | float) and len(str(one)) <= _MAX_ID for one in ids):
        raise InvalidRequest(f"segments: an id is a number or has up to {_MAX_ID} characters", param="messages")
    return ids, texts
