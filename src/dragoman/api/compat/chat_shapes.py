"""The forms in which programs put several texts into one message, and in which they read the translations from the answer.

A form is data, a `[shape.NAME]` of `chat_templates.toml`: where the texts are (between markers, or in JSON), and what is
written for each of them. Each text is translated apart, so an answer has an item for every one of the message, with its id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from textwrap import dedent
from typing import Any, cast

from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, InvalidRequest, TooManyTexts, UntranslatableText
from dragoman.types import Formality, Options, Translation

_MAX_ID = 100  # characters of a text's id
_TONES: dict[str, Formality] = {"formal": "prefer_more", "casual": "prefer_less"}
_PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w+))?\}")
_NOT_PLAIN = re.compile(
    r"[-+.~=\d?:,\[\]{}#&*!|>'\"%@`\s]|(?:true|false|null|yes|no|on|off|y|n)\Z"
    r"|.*(?:[\x00-\x1f\x7f-\x9f\u2028\u2029]|:\s|:\Z|\s#|\s\Z)|\Z",
    re.DOTALL | re.IGNORECASE,
)
"""What YAML would not read as this string without quotes."""
_YAML_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Control characters and line ends that JSON has as they are, and YAML has not."""


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _as_yaml(value: object) -> str:
    return _as_json(value).translate(_YAML_ESCAPES) if _NOT_PLAIN.match(str(value)) else str(value)


_NOTATIONS: Mapping[str | None, Callable[[object], str]] = {
    None: str,
    "json": _as_json,
    "key": lambda value: _as_json(str(value)),
    "yaml": _as_yaml,
    "attribute": lambda value: escape(str(value)),
    "line": lambda value: "<br>".join(str(value).splitlines()),
}
"""How a placeholder of an answer is written: `{translation:json}`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The texts of a message with their ids, and what the message itself says of their translations."""

    texts: tuple[str, ...]
    ids: tuple[object, ...]
    target: str = ""  # as the message names it; empty: it names none
    source: str = ""
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a message holds texts, and how their translations are written.

    `item`: the text form, with `{id}` and `{text}`. Otherwise the message is JSON: a list, or an object whose field `list`
    is one, or, with `entries`, an object of items by id. An item is a string, or an object with fields `id` and `text`.
    """

    begin: str = ""
    each: str = "{translation}"
    join: str = ""
    end: str = ""
    item: str | None = None
    list: str | None = None
    entries: bool = False
    id: str | None = None
    text: str | None = None
    target: str | None = None  # the field of the object that names the target language, and so on
    source: str | None = None
    glossary: str | None = None
    tone: str | None = None
    context: tuple[str, ...] = ()

    def read(self, message: str, variables: Mapping[str, str], most: int) -> Batch | None:
        """The texts of a message; None where it is not of this form. Raises `TooManyTexts` for over `most`, and
        `InvalidRequest` for a batch with an item or a glossary that cannot be read."""
        batch = self._read_items(message, variables, most) if self.item is not None else self._read_json(message)
        if batch is not None and len(batch.texts) > most:
            raise _too_many(most)
        return batch

    def write(self, index: int, id: object, text: str, translation: Translation, variables: Mapping[str, str]) -> str:
        """What the answer has for a text, with what stands before it."""
        values = {"id": id, "text": text, "translation": translation.text, "source_language": translation.source}
        return (self.join if index else self.begin) + _fill(self.each, {**variables, **values})

    # ---- between markers

    def _read_items(self, message: str, variables: Mapping[str, str], most: int) -> Batch | None:
        before, after = (_fill(part, variables, keep=("id",)) for part in (self.item or "").split("{text}"))
        if not before and not after:
            return Batch((message,), (0,))
        heads = list(islice(_marker(before).finditer(message), most + 1))
        if not heads or message[: heads[0].start()].strip():
            return None
        if len(heads) > most:
            raise _too_many(most)
        texts, ids = list[str](), list[object]()
        for head, end in zip(heads, [*(one.start() for one in heads[1:]), len(message)], strict=True):
            text, id = message[head.end() : end].rstrip(), head.groupdict().get("id", len(ids))
            tail = _fill(after, {"id": id}).strip()
            if not text.endswith(tail):
                return None
            text = text.removesuffix(tail)
            text = text.strip() if before[-1:].isspace() else text
            texts.append(_from_yaml(text) if "{translation:yaml}" in self.each else text)
            ids.append(id)
        return Batch(tuple(texts), tuple(ids))

    # ---- JSON

    def _read_json(self, message: str) -> Batch | None:
        message = message.strip()
        if message[:1] not in ("{", "["):
            return None
        try:
            value: object = parse_json(message.encode(), MAX_VALUES)
        except (InvalidJson, UntranslatableText):
            return None
        entries = fields_of(value)
        pairs = self._pairs(value, entries)
        if not pairs or (self.target is not None and not isinstance(entries.get(self.target), str)):
            return None
        glossary, keep = _terms(entries.get(self.glossary) if self.glossary else None)
        described = (entries.get(name) for name in self.context)
        return Batch(
            tuple(text for _, text in pairs),
            tuple(id for id, _ in pairs),
            target=str(entries.get(self.target, "")) if self.target else "",
            source=str(entries.get(self.source, "")) if self.source else "",
            options=Options(
                context="\n".join(text for text in described if isinstance(text, str) and text) or None,
                keep=keep,
                glossary=glossary,
                formality=_TONES.get(str(entries.get(self.tone)), "default") if self.tone else "default",
            ),
        )

    def _pairs(self, value: object, entries: dict[str, Any]) -> list[tuple[object, str]] | None:
        """The ids and texts of all items; None where one of them is not of this form."""
        if self.entries:
            items: list[tuple[object, object]] = list(entries.items())
        else:
            found: object = entries.get(self.list) if self.list is not None else value
            items = list(enumerate(cast(list[object], found))) if isinstance(found, list) else []
        pairs: list[tuple[object, str]] = []
        for place, item in items:
            fields = fields_of(item)
            text: object = fields.get(self.text) if self.text is not None else item
            id: object = fields.get(self.id) if self.id is not None else place
            if not isinstance(text, str):
                return None
            if not isinstance(id, str | int | float) or len(str(id)) > _MAX_ID:
                message = (
                    f"the item {str(place)[:40]}: its id is neither a string of up to {_MAX_ID} characters nor a number"
                )
                raise InvalidRequest(message, param="messages")
            pairs.append((id, text))
        return pairs


def _too_many(most: int) -> TooManyTexts:
    return TooManyTexts(f"over {most} texts in one call", param="messages")


def fields_of(value: object) -> dict[str, Any]:
    """The entries of a JSON object; {} of another value."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _terms(glossary: object) -> tuple[dict[str, str], tuple[str, ...]]:
    """Terms with their translations, and those to keep: of an object, or of a list of objects with source and target."""
    if isinstance(glossary, dict):
        pairs = [(term, _string(translation)) for term, translation in cast(dict[str, object], glossary).items()]
    elif isinstance(glossary, list):
        listed = (cast(dict[str, Any], one) for one in cast(list[object], glossary) if isinstance(one, dict))
        pairs = [(_string(one.get("source")), _string(one.get("target"))) for one in listed]
    elif glossary:
        raise InvalidRequest("glossary: it is not an object of terms and translations", param="messages")
    else:
        pairs = []
    terms = {term: translation for term, translation in pairs if term and translation}
    return terms, tuple(term for term, translation in pairs if term and not translation)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _fill(form: str, values: Mapping[str, object], keep: tuple[str, ...] = ()) -> str:
    def value(found: re.Match[str]) -> str:
        return found[0] if found[1] in keep or found[1] not in values else _NOTATIONS[found[2]](values[found[1]])

    return _PLACEHOLDER.sub(value, form)


def _marker(before: str) -> re.Pattern[str]:
    """What stands before a text, at the beginning of a line."""
    pattern = ""
    for part in re.split(r"(\s+|\{id\})", before.strip()):
        if part == "{id}":
            pattern += r"(?P<id>[\w-]{1,80}?)"
        elif part.isspace():
            pattern += r"[^\S\n]{0,80}\n\s{0,80}" if "\n" in part else r"[^\S\n]{1,80}"
        else:
            pattern += re.escape(part)
    return re.compile(r"^[^\S\n]{0,80}" + pattern, re.MULTILINE)


_YAML_BLOCK = re.compile(r"([|>])[-+]?[ \t]*\n")


def _from_yaml(text: str) -> str:
    """The string that a scalar of YAML is: plain, in quotes, or a block."""
    if block := _YAML_BLOCK.match(text):
        lines = dedent(text[block.end() :])
        return lines if block[1] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", lines).replace("\n\n", "\n")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text
