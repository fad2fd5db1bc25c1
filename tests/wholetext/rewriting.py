"""Translators for the two properties of a document: the identity, and one that changes every letter of a text."""

from __future__ import annotations

import re
from collections.abc import Callable

from wholetext.files import formats
from wholetext.files.content import Content, ReadOptions, single_part
from wholetext.markup.spans import spans

MARKS = re.compile(r"(</?[gx]\d+/?>)")


def changed(text: str) -> str:
    """The text with every letter replaced by another one, but in marks and in what a translation must keep."""
    written: list[str] = []
    for part in MARKS.split(text):
        at = 0
        for start, stop in (*(() if MARKS.fullmatch(part) else spans(part)), (len(part), len(part))):
            written += [
                part[at:start] if MARKS.fullmatch(part) else "".join(map(_other, part[at:start])),
                part[start:stop],
            ]
            at = stop
    return "".join(written)


def _other(character: str) -> str:
    """Armenian letters in the same case: of no source in the tests, and in none of their encodings but Unicode."""
    if not character.isalpha():
        return character
    return chr((0x531 if character.isupper() else 0x561) + ord(character) % 26)


def read(data: bytes, extension: str, target: str = "de", **options: object) -> Content:
    return formats.read(data, ReadOptions(formats.format_of(extension).name, target, **options))  # type: ignore[arg-type]


def rewritten(
    data: bytes, extension: str, translate: Callable[[str], str] = str, target: str = "de", **options: object
) -> bytes:
    content = read(data, extension, target, **options)
    return single_part(content, [translate(unit.block.text) for unit in content.units])[0]


def texts(content: Content) -> list[str]:
    return [unit.block.text for unit in content.units]
