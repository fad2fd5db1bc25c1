"""What a reader finds in a file: blocks to translate, each with its place, and the regions of the file that they are in.

A reader (`read` of each format's module) parses a file and changes nothing: it returns a `Content`. `written` puts translations
in place of the blocks and copies all else. Reading the same bytes with the same options gives the same units in the same order,
so a file is read again when it is written, and nothing but the units' translations is kept in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wholetext.files.encodings import UTF_8, Encoding
from wholetext.markup.marks import (
    Block,
    Mark,
    Piece,
    Verbatim,
    restore,
    with_translated_pieces,
    without_invented_controls,
)

TEXT_GREW = "text_grew: "
"""How a warning begins that says where a translation has no room; the place follows."""
MOST_LEFT = 100
"""Texts that are reported of those that are left on purpose."""


def keep_nothing(text: str) -> Iterable[tuple[int, int]]:
    """For the parsers of `text/`: what is kept in a sentence (placeholders, URLs) is found where the unit is translated, so
    that a model can read it."""
    return ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader is told besides the bytes. Languages are BCP-47 tags.

    `extension` is the file's own, `output` that of the file to write, both as in `formats.FORMATS`. `source` is None while
    the language is not known yet: it may decide what is written, never what is found.
    """

    extension: str
    target: str
    source: str | None = None
    output: str = ""  # empty: the same as `extension`
    comments: bool = False  # translate reviewers' comments
    columns: tuple[str, ...] = ()  # of csv and tsv: names or numbers; empty: all that hold text
    dialect: str = ""  # of Markdown: one of `dialects.DIALECTS`; empty: it is guessed


@dataclass(frozen=True, slots=True)
class Unit:
    """A block of a file, with what the model and people are told of it.

    `place` says where it is, for people: `paragraph 12`, `Sheet1!B3`, `slide 4`, `cue 17`, `menu.title`. `context` is said
    around it and not translated: a column's header, a translator's comment. `follows`: it continues the unit before it
    (the next paragraph, the next cue), so that the units around it are context.
    """

    block: Block
    place: str
    context: str = ""
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """Text that is not translated on purpose. `reason` is a code such as `field`, `formula`, `hidden`, `compared`."""

    place: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class UnitReference:
    """In a region, the place of unit `number`'s translation, written as `block` is: the unit's own, or an equal one that
    another notation surrounds (the second copy of a text box)."""

    number: int
    block: Block


RegionPiece: TypeAlias = Verbatim | UnitReference


Compose: TypeAlias = Callable[[str, Callable[[int, int], str], Callable[[str], None]], str]
"""Returns what is written for a region. It is given the region's pieces, written one after the other; a function that returns
the part from one byte to another, with the translations of regions inside; and one that takes a warning."""


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `start` to `stop` of a part, and what is written in their place.

    With `compose`, the pieces are in a notation of the reader's own, and regions may be inside of this one.
    """

    start: int
    stop: int
    pieces: tuple[RegionPiece, ...]
    compose: Compose | None = None


@dataclass(slots=True)
class Part:
    """A file, or one of a package. `data` is what was parsed, in UTF-8 whatever `encoding` is; regions are of it."""

    name: str
    data: bytes
    encoding: Encoding = UTF_8
    regions: list[Region] = field(default_factory=lambda: list[Region]())


@dataclass(slots=True)
class Content:
    """All that a reader found. `parts` are those that change; of a package, all others are copied. `left` has the first
    `MOST_LEFT` of the texts that `left_counts` counts by their reason.

    `dropped` are entries of a package to leave out. `new_package` is the package to write into, where it is not the source's
    own (a PDF becomes a docx).
    """

    units: list[Unit] = field(default_factory=lambda: list[Unit]())
    parts: list[Part] = field(default_factory=lambda: list[Part]())
    left: list[Left] = field(default_factory=lambda: list[Left]())
    left_counts: Counter[str] = field(default_factory=Counter[str])
    warnings: list[str] = field(default_factory=lambda: list[str]())  # sentences for people, about the whole file
    dropped: set[str] = field(default_factory=lambda: set[str]())
    new_package: bytes | None = None

    def add(
        self,
        pieces: Iterable[Piece | None],
        place: str,
        context: str = "",
        *,
        follows: bool = False,
        copies: dict[str, int] | None = None,
    ) -> tuple[RegionPiece, ...]:
        """Make units of the blocks among `pieces`, and return what stands for them in a region.

        `copies` has the numbers of units by their text: a block with the text of one of them is its copy, and no unit.
        """
        found: list[RegionPiece] = []
        for piece in pieces:
            if isinstance(piece, Verbatim):
                found.append(piece)
            elif piece is not None and copies is not None and piece.text in copies:
                found.append(UnitReference(copies[piece.text], piece))
            elif piece is not None:
                for mark in piece.marks:  # values in tags are units of their own, before the block that has the tag
                    self.add(mark.pieces, place, context)
                if copies is not None:
                    copies[piece.text] = len(self.units)
                found.append(UnitReference(len(self.units), piece))
                self.units.append(Unit(piece, place, context, follows))
                follows = True
        return tuple(found)

    def leave(self, place: str, reason: str, text: str) -> None:
        """Report text that is not translated on purpose."""
        self.left_counts[reason] += 1
        if len(self.left) < MOST_LEFT:
            self.left.append(Left(place, reason, " ".join(text[:200].split())))


def written(content: Content, translations: Sequence[str]) -> Iterator[tuple[str, bytes, list[str]]]:
    """Yield name and bytes of each part with its translations, and warnings. `translations` have marks, one for each unit.

    Controls that a text of the source does not have are not written, whoever the translation is from.
    """
    if len(translations) != len(content.units):
        raise ValueError(f"{len(content.units)} units, {len(translations)} translations")
    texts = [
        without_invented_controls(unit.block.text, translation)
        for unit, translation in zip(content.units, translations, strict=True)
    ]
    for part in content.parts:
        warnings: list[str] = []
        text = _PartWriter(part, texts, warnings).text(0, len(part.data))
        data, of_encoding = part.encoding.encode(text.encode("utf-8", "replace"))
        named = f"{part.name}: " if part.name else ""
        found = [one if one.startswith(TEXT_GREW) else f"{named}{one}" for one in (*warnings, *of_encoding)]
        yield part.name, data, found


class _PartWriter:
    """Writes a part, or a range of it, with translations in its regions."""

    def __init__(self, part: Part, translations: Sequence[str], warnings: list[str]) -> None:
        self._part = part
        self._translations = translations
        self._warnings = warnings
        self._regions = sorted(part.regions, key=lambda region: (region.start, -region.stop))
        self._starts = [region.start for region in self._regions]

    def text(self, start: int, stop: int) -> str:
        """Return bytes `start` to `stop` as text, with the translations of the regions that are in them."""
        pieces: list[str] = []
        at = start
        around: Region | None = None
        for region in self._regions[bisect_left(self._starts, start) : bisect_left(self._starts, stop)]:
            if region.stop > stop or (region.start < at and around and around.compose and region.stop <= at):
                continue  # it is around these bytes, or in a region that was written
            if region.start < at:
                raise ValueError(f"{self._part.name}: regions overlap at byte {region.start}")
            pieces.append(self._part.data[at : region.start].decode("utf-8"))
            text = "".join(_written(piece, self._translations) for piece in region.pieces)
            pieces.append(region.compose(text, self.text, self._warnings.append) if region.compose else text)
            around, at = region, region.stop
        pieces.append(self._part.data[at:stop].decode("utf-8"))
        return "".join(pieces)


def _written(piece: RegionPiece, translations: Sequence[str]) -> str:
    if isinstance(piece, Verbatim):
        return piece.text
    return _restored(piece.block, piece.number, translations)[0]


def _restored(block: Block, number: int, translations: Sequence[str]) -> tuple[str, int]:
    """The unit's translation in the file's notation, and the number of the first unit that it or its marks have.

    The values in a block's marks are the units before it, in the order of `Content.add`: they are counted backwards.
    """
    text, first = translations[number], number
    own: list[Mark] = []
    for mark in reversed(block.marks):
        values: list[str] = []
        for piece in reversed(mark.pieces):
            if isinstance(piece, Block):
                value, first = _restored(piece, first - 1, translations)
                values.append(value)
        own.append(with_translated_pieces(mark, reversed(values)))
    return restore(text, own[::-1], block.writer), first


def single_part(content: Content, translations: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return a file that is one part, with its translations, and warnings."""
    (_, data, warnings), *_ = written(content, translations)
    return data, warnings


def replaced_parts(content: Content, translations: Sequence[str]) -> tuple[Mapping[str, bytes], list[str]]:
    """Return the parts of a package that change, by name, and warnings."""
    parts: dict[str, bytes] = {}
    warnings: list[str] = []
    for name, data, found in written(content, translations):
        parts[name] = data
        warnings += found
    return parts, warnings
