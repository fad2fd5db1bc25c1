"""Translation Memory eXchange (TMX 1.4): reads translation units, with inline codes as marks, and writes entries of memories.

Of each unit the variant in the source language is the text, and each other one a translation of it. The source language is the
unit's `srclang`, else the header's; where that is `*all*`, or no variant has it, the first variant is the text. What a pair of
codes (`bpt`, `ept`) and what stands alone (`ph`, `it`, `ut`) have in them is not kept: they become marks; `hi` is left out, and
its text stays. Codes of the two variants belong together by `x`, else by `i`, else by their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Literal

from wholetext import languages
from wholetext.errors import InvalidFile, UnknownLanguage
from wholetext.files.exports import DECLARATION, MEDIA_TYPES, TMX_MARKS, Tool, attribute, inline, tmx_head, tmx_time
from wholetext.files.xmlpart import Element, Namespaces, Text, decoded, elements
from wholetext.markup.marks import MARK_VARIANT, lost

MEDIA_TYPE = MEDIA_TYPES["tmx"]
MAX_LANGUAGES = 200
"""Variants of one unit."""
MAX_PARTS = 10_000
"""Codes, and texts between them, of an entry; its text with marks would be longer than any memory takes."""


@dataclass(frozen=True, slots=True)
class TmxEntry:
    """A text and its translation, with marks in the order of the text's. Languages are normalised tags."""

    source: str
    target: str
    text: str
    translation: str


def read(data: bytes, skipped: Counter[str]) -> Iterator[TmxEntry]:
    """Yield the entries of a file. What is left out is counted in `skipped`, by reason. Raises `InvalidFile`."""
    data, _ = decoded(data, "the TMX file")
    namespaces = Namespaces({"http://www.lisa.org/tmx14": "", "http://www.lisa.org/tmx14.dtd": ""})
    source, is_tmx = "", False
    for element in elements(data, "the TMX file", namespaces, ("tu",), opened=("tmx", "header"), doctype=True):
        if element.name == "tmx":
            is_tmx = True
        elif element.name == "header":
            source = element.get("srclang")
        elif not is_tmx:
            break
        else:
            yield from _entries(element, source, skipped)
    if not is_tmx:
        raise InvalidFile("Invalid file: it is no TMX: there is no element tmx", param="file")


def _entries(unit: Element, source: str, skipped: Counter[str]) -> Iterator[TmxEntry]:
    variants: list[tuple[str, Element]] = []
    for variant in unit.elements:
        segment = variant.child("seg") if variant.name == "tuv" else None
        if segment is None:
            continue
        language = languages.find(variant.get("xml:lang") or variant.get("lang"))
        if language is None:
            skipped["language"] += 1
        else:
            variants.append((language, segment))
    if len(variants) < 2 or len(variants) > MAX_LANGUAGES:
        skipped["variants"] += 1
        return
    text_language, text_segment = _text_variant(variants, unit.get("srclang") or source)
    numbers = _Numbers()
    text = _with_marks(text_segment, numbers, is_text=True)
    for language, segment in variants:
        if segment is text_segment:
            continue
        if language == text_language:
            skipped["language"] += 1
            continue
        translation = _with_marks(segment, numbers, is_text=False)
        if text is None or translation is None or not text.strip() or not translation.strip():
            skipped["text"] += 1
        elif lost(text, text) or lost(text, translation):
            skipped["codes"] += 1
        else:
            yield TmxEntry(text_language, language, text, translation)


def _text_variant(variants: list[tuple[str, Element]], source: str) -> tuple[str, Element]:
    try:
        wanted = languages.match(source, tuple(language for language, _ in variants)) if source else None
    except UnknownLanguage:  # such as *all*
        wanted = None
    return next((one for one in variants if one[0] == wanted), variants[0])


def _with_marks(segment: Element, numbers: _Numbers, *, is_text: bool) -> str | None:
    """The text of a `seg` with marks. `numbers`: of the text's codes. None: its characters read like marks, or it has over
    `MAX_PARTS`."""
    if len(segment.children) > MAX_PARTS:
        return None
    written: list[str] = []
    plain: list[str] = []
    opened: dict[str, int] = {}  # numbers of pairs, by `i`
    numbers.begin(is_text=is_text)
    waiting: list[Element | Text] = segment.children[::-1]
    while waiting:
        child = waiting.pop()
        if isinstance(child, Text):
            plain.append(child.shown)
            written.append(child.shown)
        elif child.name == "bpt":
            opened[child.get("i")] = number = numbers.of("pair", child)
            written.append(f"<g{number}>")
        elif child.name == "ept":
            written.append(f"</g{opened.get(child.get('i'), 0)}>")
        elif child.name in ("ph", "it", "ut"):
            written.append(f"<x{numbers.of('single', child)}/>")
        elif child.name == "hi":
            waiting += child.children[::-1]
    return None if MARK_VARIANT.search("".join(plain)) else "".join(written)


class _Numbers:
    """The numbers of a text's inline codes, by which those of its translations are found."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._last = 0
        self._ordinals: Counter[str] = Counter()
        self._is_text = True

    def begin(self, *, is_text: bool) -> None:
        """Begin the text, or a translation."""
        self._ordinals.clear()
        self._is_text = is_text

    def of(self, kind: Literal["pair", "single"], code: Element) -> int:
        """The number of a code: by `x`, by `i`, or by its order among those of its kind. 0: the text has none like it."""
        self._ordinals[kind] += 1
        keys = [f"{kind} {name}={code.get(name)}" for name in ("x", "i") if code.get(name)]
        keys.append(f"{kind} {self._ordinals[kind]}")
        number = next((self._known[key] for key in keys if key in self._known), 0)
        if not number and self._is_text:
            number = self._last = self._last + 1
            self._known.update(dict.fromkeys(keys, number))
        return number


# ---- writing


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """An entry to write. Times are in UTC."""

    source: str
    target: str
    text: str
    translation: str
    created_at: datetime
    changed_at: datetime


def head(source: str | None, tool: Tool) -> str:
    """Return the beginning of a file. `source`: the language of all texts; None: they have several."""
    return DECLARATION + tmx_head(source or "*all*", tool)


def written(units: Iterable[TranslationUnit]) -> Iterator[str]:
    """Yield units of a file; those of one text that follow each other are one unit with several translations."""
    for (language, text), group in groupby(units, key=lambda unit: (unit.source, unit.text)):
        yield f"<tu srclang={attribute(language)}>"
        yield f"<tuv xml:lang={attribute(language)}><seg>{inline(text, TMX_MARKS)}</seg></tuv>"
        for unit in group:
            times = f'creationdate="{tmx_time(unit.created_at)}" changedate="{tmx_time(unit.changed_at)}"'
            segment = inline(unit.translation, TMX_MARKS)
            yield f"<tuv xml:lang={attribute(unit.target)} {times}><seg>{segment}</seg></tuv>"
        yield "</tu>\n"
