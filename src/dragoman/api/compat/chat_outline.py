"""The outline of an answer, whatever its form: what is in it besides translations, and the gaps for these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from dragoman.errors import BodyTooLarge
from dragoman.types import Translation

PARAM = "response_format"  # what asks for an answer in a form
_MAX_COPIED = 8_000_000  # characters of the answer besides its translations
Item = TypeVar("Item")


def fields_of(value: object) -> dict[str, Any]:
    """The entries of a JSON object; {} of another value."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def dumped(value: object) -> str:
    return str(value) if type(value) is int else _JSON.encode(value)


_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def _string(translation: Translation) -> str:
    return dumped(translation.text)


@dataclass(slots=True)
class Outline:
    """An answer with gaps for translations: `literals`, each in parts, are one more than `texts`. `write`: what a gap has."""

    write: Callable[[Translation], str] = _string
    is_json: bool = True
    texts: list[str] = field(default_factory=list[str])
    literals: list[list[str]] = field(default_factory=lambda: [[]])
    copied: int = 0  # characters of the literals

    def literal(self, text: str) -> None:
        """Append JSON. Raises `BodyTooLarge` where a short schema and a short message make a long answer."""
        self.copied += len(text)
        if self.copied > _MAX_COPIED:
            raise BodyTooLarge(f"the answer has over {_MAX_COPIED:,} characters besides its translations", param=PARAM)
        self.literals[-1].append(text)

    def translated(self, text: str) -> None:
        """Append a gap for the translation of `text`."""
        self.texts.append(text)
        self.literals.append([])

    # ---- the answer

    @property
    def end(self) -> str:
        """What stands after the last translation."""
        return "".join(self.literals[-1])

    def piece(self, index: int, text: str, translation: Translation) -> str:
        """What the answer has for a text, with what stands before it."""
        return "".join(self.literals[index]) + self.write(translation)


def joined(
    items: Iterable[Item], each: Callable[[Outline, int, Item], None], begin: str, join: str, end: str, made: Outline
) -> Outline:
    """An answer of what `each` appends for the items, with their places."""
    made.literal(begin)
    for place, item in enumerate(items):
        made.literal(join if place else "")
        each(made, place, item)
    made.literal(end)
    return made


def wrapped(made: Outline, before: str, after: str) -> Outline:
    made.literals[0].insert(0, before)
    made.literals[-1].append(after)
    return made


def plain(translation: Translation) -> str:
    return translation.text


def outlined(message: str, spans: Sequence[tuple[int, int]], write: Callable[[Translation], str] = plain) -> Outline:
    """The message as it is, with gaps for its texts at these places, in order, without white space around them unless in
    quotes."""
    made, at = Outline(write, is_json=False), 0
    for start, stop in spans:
        text = message[start:stop]
        kept = text.strip() if message[max(start - 1, 0)] != '"' else text
        if kept:
            start += text.index(kept)
            made.literal(message[at:start])
            made.translated(kept)
            at = start + len(kept)
    made.literal(message[at:])
    return made


def between(heads: Sequence[re.Match[str]], stop: int) -> list[tuple[int, int]]:
    """From the end of each head to the next one."""
    ends = [*(one.start() for one in heads[1:]), stop]
    return [(head.end(), end) for head, end in zip(heads, ends, strict=True)]
