"""Reads and writes the characters of a markup document: entities and white space.

`decoded` makes the items of a text, `EntityNotation` writes a translation in the notation of the block's source, and
`BlockBuilder` makes pieces from which the source can be restored exactly.
"""

from __future__ import annotations

import html
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html.entities import html5

from wholetext.markup.blocks import InlineItem, Notation, Spans, build
from wholetext.markup.marks import Block, Piece, Verbatim
from wholetext.markup.plain import choice_parts, is_message, message_parts

MOST_ITEMS = 400  # of a block; one with more is cut

# ---- entities

_ENTITY = re.compile(r"&(?:#[0-9]{1,10};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]{1,31};?)")
_ENTITY_OR_SPACE = re.compile(rf"{_ENTITY.pattern}|[\t\n\f\r ]{{2,}}+|[\t\n\f\r]")

_AMOUNT = re.compile(r"\d+(?:[.,]\d+)*")
_TAG_START = re.compile("<[A-Za-z/!?]")
_XML_TAG_START = re.compile("<[A-Za-z_:/!?\u0080-\U0010ffff]")
_RUN = re.compile("[A-Za-z0-9#]*+")
_MAY_END_SECTION = re.compile(r"(?:\A|\])(?:\A|\])\Z")
"""Before a `>` that XML does not have in texts as it is: `]]`, or what may follow it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The context of characters, which decides how they may be written. `quote`: the quote around an attribute's value.

    `xhtml`: HTML that is read as XML, too.
    """

    xml: bool = False
    quote: str | None = None
    xhtml: bool = False

    def decode(self, text: str, found: re.Match[str]) -> tuple[str, int] | None:
        """Return an entity's characters and the length of its notation; None if it is text."""
        entity = found[0]
        if entity[1] == "#":
            closed = entity.endswith(";")
            return (html.unescape(entity if closed else entity + ";"), len(entity)) if closed or not self.xml else None
        if entity[1:] in html5 and (entity.endswith(";") or not self.xml):
            is_query = self.quote is not None and entity[-1] != ";" and text[found.end() : found.end() + 1] == "="
            return None if is_query else (html5[entity[1:]], len(entity))
        if self.xml:
            return ("", len(entity)) if entity.endswith(";") else None
        if self.quote is None:
            for length in range(len(entity) - 1, 2, -1):  # `&notit;` is `¬it;`
                if entity[1:length] in html5:
                    return html5[entity[1:length]], length
        return None


def is_symbol(character: str) -> bool:
    return len(character) != 1 or (character not in "<>" and unicodedata.category(character)[0] not in "LMNP")


def decoded(source: str, place: Place, *, collapse: bool = False) -> Iterator[InlineItem]:
    """Yield a text's items: entities decoded, those of symbols as singles. `collapse`: white space runs become one space."""
    pattern = _ENTITY_OR_SPACE if collapse else _ENTITY
    begin = at = 0
    shown: list[str] = []
    offsets: list[int] = []

    def text(stop: int) -> Iterator[InlineItem]:
        if stop == begin:
            return
        if not offsets:
            yield InlineItem.text(source[begin:stop])
            return
        ending = [*offsets, *range(at - begin, stop - begin + 1)]
        yield InlineItem.text(source[begin:stop], "".join((*shown, source[at:stop])), ending)

    for found in pattern.finditer(source):
        start = found.start()
        character, length = " ", found.end() - start
        if found[0][0] == "&":
            entity = place.decode(source, found)
            if entity is None:
                continue
            character, length = entity
        if character != " " and is_symbol(character):
            yield from text(start)
            end = start + length
            amount = _AMOUNT.match(source, end) if character and unicodedata.category(character[0]) == "Sc" else None
            end = amount.end() if amount else end
            yield InlineItem("single", source[start:end], word=not character or bool(amount))
            begin = at = end
            shown, offsets = [], []
            continue
        shown += source[at:start], character
        offsets.extend(range(at - begin, start - begin + 1))
        at = start + length
    yield from text(len(source))


class SourceNotation(ABC):
    """Writes texts of the source as the source does, and others with `write`.

    `faithful` is False if the source writes the same text in two ways.
    """

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self.faithful = True

    def learn(self, texts: Iterable[tuple[str, str]]) -> None:
        """Learn the source's texts, each as the model reads it and as the source writes it."""
        for shown, source in texts:
            if self._exact.setdefault(shown, source) != source:
                self.faithful = False

    def __call__(self, text: str) -> str:
        known = self._exact.get(text)
        return self.write(text) if known is None else known

    @abstractmethod
    def write(self, text: str) -> str:
        """Write a text that the source does not have."""


class EntityNotation(SourceNotation):
    """Writes characters as a block's source does: with the same entities, and with `&` and `<` unescaped if it has them so."""

    def __init__(self, place: Place, texts: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__()
        self._place = place
        self._forms: dict[str, str] = {}
        self._raw = ""
        pairs = list(texts)
        self._ending = (
            pairs[0][1] if len(pairs) == 1 else ""
        )  # what follows it in the source follows its translation too
        if any("&" in source for _, source in pairs):
            self._learn_entities(source for _, source in pairs)
        else:
            self._raw = "".join({sign for _, source in pairs for sign in "<>" if sign in source})
        quotes = {None: "", '"': '"', "'": "'", "": "\t\n\f\r \"'=`"}[place.quote]
        self._risky = re.compile(f"[{re.escape('&<>' + quotes + ''.join(self._forms))}]")
        self.learn(pairs)

    def _learn_entities(self, sources: Iterable[str]) -> None:
        raw: list[str] = []
        for source in sources:
            at = 0
            for found in _ENTITY.finditer(source):
                entity = self._place.decode(source, found)
                if entity is None:
                    continue
                raw.append(source[at : found.start()])
                at = found.start() + entity[1]
                self._forms.setdefault(entity[0], source[found.start() : at])
            raw.append(source[at:])
        self._raw = "".join(raw)
        self._forms = {sign: form for sign, form in self._forms.items() if sign not in self._raw}

    def write(self, text: str) -> str:
        return self._risky.sub(lambda found: self._written(text, found.start()), text)

    def _written(self, text: str, at: int) -> str:
        sign = text[at]
        if sign in self._forms:
            return self._forms[sign]
        if sign in "&<" and not (sign in self._raw and self._is_safe(text, at)):
            return "&amp;" if sign == "&" else "&lt;"
        if sign == ">":
            ends_section = (self._place.xml or self._place.xhtml) and _MAY_END_SECTION.search(text, 0, at)
            return "&gt;" if ends_section or self._place.quote == "" else sign
        return sign if sign in "&<" else f"&#{ord(sign)};" if sign != '"' else "&quot;"

    def _is_safe(self, text: str, at: int) -> bool:
        """Whether an unescaped `&` or `<` is read as this character."""
        if self._place.xml:
            return text[at] == "<" and at + 1 < len(text) and _XML_TAG_START.match(text, at) is None
        run = _RUN.match(text, at + 1)
        if run is not None and run.end() == len(text) and self._ending.endswith(text[at:]):
            return True
        if text[at] == "<":
            return at + 1 < len(text) and _TAG_START.match(text, at) is None
        found = _ENTITY.match(text, at)
        return run is not None and run.end() < len(text) and (found is None or self._place.decode(text, found) is None)


class BlockBuilder:
    """Builds the pieces of a block's items so that the source can be restored exactly.

    Entities are not decoded if the source writes the same text in two ways. An ICU message is split at its plural and
    select arguments, and each of their branches is a block, as each text of a choice by intervals is.
    """

    def __init__(self, keep: Spans, notation: Notation) -> None:
        self._keep = keep
        self._notation = notation

    def __call__(self, items: Sequence[InlineItem]) -> list[Piece]:
        if not items:
            return []
        if not any(sign in item.shown for item in items for sign in "{[]"):
            return self._block(items, self._keep)
        text = "".join(item.shown if item.kind == "text" else _NO_TEXT for item in items)
        parts = message_parts(text) if is_message(text) else choice_parts(text)
        if not parts:
            return self._block(items, self._keep)
        between = iter(_cut(items, [place for part in parts for place in (part.start, part.stop)]))
        pieces: list[Piece] = [_syntax(next(between))]
        for part in parts:
            pieces += self._block(next(between), partial(_with_numbers, self._keep) if part.plural else self._keep)
            pieces.append(_syntax(next(between)))
        return [piece for piece in pieces if piece.text]

    def _block(self, items: Sequence[InlineItem], keep: Spans) -> list[Piece]:
        for attempt in (items, _undecoded(items, spaces=True), _undecoded(items, spaces=False)):
            built = build(attempt, keep, notation=self._notation)
            if all(getattr(piece.writer, "faithful", True) for piece in built if isinstance(piece, Block)):
                break
        return built


_NO_TEXT = "\ufffc"


def _syntax(items: Iterable[InlineItem]) -> Verbatim:
    return Verbatim("".join(item.source for item in items))


def _with_numbers(keep: Spans, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans to keep in a branch of a plural, including `#`, which stands for the number."""
    at = 0
    for start, stop in (*keep(text), (len(text), len(text))):
        yield from (found.span() for found in re.compile("#").finditer(text, at, start))
        if start < stop:
            yield start, stop
        at = stop


def _cut(items: Iterable[InlineItem], places: Sequence[int]) -> Iterator[list[InlineItem]]:
    """Split the items at the places; an item that is not text counts as one character."""
    group: list[InlineItem] = []
    at = 0
    number = 0
    for item in items:
        length = len(item.shown) if item.kind == "text" else 1
        begin = 0
        while number < len(places) and places[number] < at + length:
            end = places[number] - at
            if end > begin:
                group.append(item.part(begin, end))
            yield group
            group, begin, number = [], end, number + 1
        if begin < length:
            group.append(item.part(begin, length) if begin else item)
        at += length
    for _ in range(len(places) - number):
        yield group
        group = []
    yield group


def _undecoded(items: Iterable[InlineItem], *, spaces: bool) -> Iterator[InlineItem]:
    """Yield the items with the source's white space; unless `spaces`, every other decoded character becomes a single."""
    for item in items:
        if item.kind != "text" or not item.offsets:
            yield item
            continue
        yield from _as_in_source(item, spaces)


def _as_in_source(item: InlineItem, spaces: bool) -> Iterator[InlineItem]:
    shown: list[str] = []
    offsets: list[int] = []
    begin = 0

    def text(stop: int) -> Iterator[InlineItem]:
        if stop > begin:
            yield InlineItem.text(item.source[begin:stop], "".join(shown), [*offsets, stop - begin])

    for at, character in enumerate(item.shown):
        start, stop = item.offsets[at], item.offsets[at + 1]
        source = item.source[start:stop]
        if source == character or source.isspace() or spaces:
            as_source = source.isspace()
            shown.append(source if as_source else character)
            offsets.extend(range(start - begin, stop - begin) if as_source else [start - begin])
            continue
        yield from text(start)
        yield InlineItem("single", source)
        begin = stop
        shown, offsets = [], []
    yield from text(len(item.source))
