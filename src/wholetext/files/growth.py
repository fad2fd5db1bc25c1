"""Whether a translation still fits into a box of fixed size, and how much smaller its letters must be if it does not.

Text is laid out as programs do it roughly: words are put on lines of the box's width, which are 1.2 times as high as their
letters. Widths are those of a font with the same metrics, if one is installed (Carlito for Calibri, Liberation for Arial, Times
New Roman and Courier New), and else averages. The room of a text is the box's, or what the source needs if that is more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wholetext.files.content import TEXT_GREW
from wholetext.files.xmlpart import Element, written_prefix

POINT = 12_700
"""EMU, the unit of DrawingML."""
_LINE_HEIGHT = 1.2
_BOLD = 1.06
_TOLERANCE = 1.02
SCALES = (100.0, 92.5, 85.0, 77.5, 70.0, 62.5, 55.0, 47.5, 40.0, 32.5, 25.0)
"""In percent: those that PowerPoint shrinks text to, the lines closer together by a tenth, then by a fifth."""

# ---- widths

_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "/Library/Fonts", "C:/Windows/Fonts")
_FILES = {
    "calibri": ("Carlito-Regular.ttf", "calibri.ttf"),
    "cambria": ("Caladea-Regular.ttf", "cambria.ttf"),
    "times new roman": ("LiberationSerif-Regular.ttf", "times.ttf"),
    "courier new": ("LiberationMono-Regular.ttf", "cour.ttf"),
    "arial": ("LiberationSans-Regular.ttf", "arial.ttf"),
    "liberation serif": ("LiberationSerif-Regular.ttf", "times.ttf"),
    "liberation sans": ("LiberationSans-Regular.ttf", "arial.ttf"),
    "carlito": ("Carlito-Regular.ttf", "calibri.ttf"),
}
"""Files of fonts with the metrics of each, the first of those that are installed."""
_AVERAGES = {"ijl.,:;'|!I": 0.25, "ftr()-[]/ \N{NO-BREAK SPACE}": 0.31, "mwMW@%": 0.86}
_DIGIT, _CAPITAL, _WIDE, _OTHER = 0.556, 0.68, 1.0, 0.53
_BY_CHARACTER = {character: width for characters, width in _AVERAGES.items() for character in characters}


def _average(character: str) -> float:
    """The width of a character in ems, as in most fonts without serifs."""
    if character in _BY_CHARACTER:
        return _BY_CHARACTER[character]
    if unicodedata.east_asian_width(character) in "WF":
        return _WIDE
    if unicodedata.combining(character):
        return 0.0
    return _DIGIT if character.isdigit() else _CAPITAL if character.isupper() else _OTHER


@dataclass(slots=True)
class Widths:
    """Widths of characters in ems. `glyphs` are those of a font file; without one they are averages."""

    glyphs: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def measured(self) -> bool:
        return bool(self.glyphs)

    def of(self, text: str) -> float:
        return sum(self.glyphs.get(ord(one)) or _average(one) for one in text)


@lru_cache(maxsize=16)
def widths_of(font: str) -> Widths:
    """Return the widths of a font by its name, of one with the same metrics if that is installed."""
    path = _file_of(font.casefold())
    if path is None or find_spec("fontTools") is None:
        return Widths()
    library: Any = import_module("fontTools.ttLib")
    try:
        with library.TTFont(path, lazy=True) as file:
            advances, units = file["hmtx"].metrics, file["head"].unitsPerEm
            glyphs = {code: advances[name][0] / units for code, name in file.getBestCmap().items() if name in advances}
    except (library.TTLibError, KeyError, OSError):
        return Widths()
    return Widths(glyphs)


def _file_of(font: str) -> Path | None:
    for name in _FILES.get(font, ()):
        for folder in _FOLDERS:
            found = next(Path(folder).rglob(name), None)
            if found is not None:
                return found
    return None


# ---- layout


@dataclass(frozen=True, slots=True)
class Portion:
    """A text of one size, in points; `breaks`: a line ends after it."""

    text: str
    size: float
    bold: bool = False
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The inside of a box in points. `scale`: the percent of their size that the source's letters are shown at."""

    width: float
    height: float
    scale: float = 100.0


_WORD = re.compile(
    r"[\u3000-\u30ff\u3400-\u9fff\uf900-\uff60]|[^\s\u3000-\u30ff\u3400-\u9fff\uf900-\uff60]+[^\S\n]*|\s+"
)


def needed_height(paragraphs: Sequence[Sequence[Portion]], room: Room, widths: Widths, scale: float) -> float:
    """Return the height in points of the text in a box of this width, its letters at `scale` percent."""
    factor = scale / 100
    spacing = _LINE_HEIGHT * (1.0 if scale == 100 else 0.9 if scale > 90 else 0.8)
    return sum(_lines(one, room.width, widths, factor) * _size(one) * factor * spacing for one in paragraphs)


def _size(paragraph: Sequence[Portion]) -> float:
    return max((portion.size for portion in paragraph), default=0.0)


def _lines(paragraph: Sequence[Portion], width: float, widths: Widths, factor: float) -> int:
    lines, used = 1, 0.0
    for portion in paragraph:
        em = portion.size * factor * (_BOLD if portion.bold else 1)
        for word in _WORD.findall(portion.text):
            needed = widths.of(word.rstrip()) * em
            if used + needed > width and used > 0:
                lines, used = lines + 1, 0.0
            if needed > width > 0:  # a word that no line has room for is cut
                lines += int(needed / width)
                needed %= width
            used += needed + widths.of(word[len(word.rstrip()) :]) * em
        if portion.breaks:
            lines, used = lines + 1, 0.0
    return lines


@dataclass(frozen=True, slots=True)
class Overflow:
    """A text that needs more than its room: `share` is what it needs of it, `height` the room in points."""

    share: float
    height: float


def overflow(
    before: Sequence[Sequence[Portion]], after: Sequence[Sequence[Portion]], room: Room, widths: Widths
) -> Overflow | None:
    """Return by how much a translation needs more than its room, which is the source's need if that is more; None if not."""
    height = max(room.height, needed_height(before, room, widths, room.scale)) * _TOLERANCE
    needed = needed_height(after, room, widths, room.scale)
    return Overflow(needed / height * _TOLERANCE, height) if needed > height else None


def grown_warning(place: str, share: float, font: str, widths: Widths, what: str = "it may be cut") -> str:
    """What the report says of a box."""
    how = "" if widths.measured else f" (estimated: no font with the widths of {font[:40]} is installed)"
    return f"{TEXT_GREW}{place}: the text needs {share:.0%} of its box: {what}{how}"


# ---- DrawingML, and text boxes of Word

_TOKEN = re.compile(r"<(?:\w+:)?(p|pPr|r|fld|br|rPr|endParaRPr|t)(?=[\s/>])([^<>]*)>([^<]*)")
_SIZE, _IS_BOLD, _LEVEL = re.compile(r'\ssz="(\d{3,6})"'), re.compile(r'\sb="(?:1|true)"'), re.compile(r'\slvl="(\d)"')


def drawing_portions(xml: str, sizes: Callable[[int], float]) -> Iterator[list[Portion]]:
    """Yield the paragraphs of a text body. `sizes` returns the size of a level whose runs have none of their own."""
    paragraph: list[Portion] | None = None
    level, size, bold = 0, 0.0, False
    for name, attributes, text in _TOKEN.findall(xml):
        if name == "p":
            if paragraph is not None:
                yield paragraph
            paragraph, level = [], 0
        elif name == "pPr":
            found = _LEVEL.search(attributes)
            level = int(found[1]) if found else 0
        elif name in ("r", "fld"):
            size, bold = sizes(level), False
        elif name in ("rPr", "endParaRPr"):
            found = _SIZE.search(attributes)
            size, bold = int(found[1]) / 100 if found else sizes(level), bool(_IS_BOLD.search(attributes))
        elif paragraph is not None:
            paragraph.append(Portion(unescape(text) if name == "t" else "", size or sizes(level), bold, name == "br"))
    if paragraph is not None:
        yield paragraph


_WORD_TOKEN = re.compile(r"<w:(p|r|br|sz|b|t)(?=[\s/>])([^<>]*)>([^<]*)")
_WORD_VALUE = re.compile(r'\sw:val="(\w{1,6})"')
_WORD_SIZE = 11.0


def word_portions(xml: str) -> Iterator[list[Portion]]:
    """Yield the paragraphs of a text box of Word; the size of a run that has none is 11 points."""
    paragraph: list[Portion] | None = None
    size, bold = _WORD_SIZE, False
    for name, attributes, text in _WORD_TOKEN.findall(xml):
        value = _WORD_VALUE.search(attributes)
        if name == "p":
            if paragraph is not None:
                yield paragraph
            paragraph = []
        elif name == "r":
            size, bold = _WORD_SIZE, False
        elif name == "sz" and value and value[1].isdecimal():
            size = int(value[1]) / 2
        elif name == "b":
            bold = value is None or value[1] not in ("0", "false", "off")
        elif paragraph is not None and name in ("t", "br"):
            paragraph.append(Portion(unescape(text) if name == "t" else "", size, bold, name == "br"))
    if paragraph is not None:
        yield paragraph


@dataclass(frozen=True, slots=True)
class Fitting:
    """Writes the properties of a text body (`a:bodyPr`): if its translated paragraphs need more than the room, a warning says
    so, and with `shrinks` the properties shrink the text to what has room."""

    data: bytes
    properties: Element
    paragraphs: tuple[int, int]
    room: Room
    portions: Callable[[str], Iterable[list[Portion]]]
    font: str
    place: str
    shrinks: bool

    def __call__(self, _: str, source: Callable[[int, int], str], warn: Callable[[str], None]) -> str:
        own = self.data[self.properties.start : self.properties.end].decode("utf-8")
        before = self.data[slice(*self.paragraphs)].decode("utf-8")
        after = source(*self.paragraphs)
        if before == after:
            return own
        widths = widths_of(self.font)
        earlier, later = (list(self.portions(xml)) for xml in (before, after))
        grown = overflow(earlier, later, self.room, widths)
        if grown is None:
            return own
        smaller = (scale for scale in SCALES if scale < self.room.scale)
        fits = (scale for scale in smaller if needed_height(later, self.room, widths, scale) <= grown.height)
        scale = next(fits, SCALES[-1])
        what = f"its letters are written at {scale:g} % of their size" if self.shrinks else "it may be cut"
        warn(grown_warning(self.place, grown.share, self.font, widths, what))
        return self._shrunk(own, scale) if self.shrinks else own

    def _shrunk(self, own: str, scale: float) -> str:
        prefix = written_prefix(self.data, self.properties)
        reduction = 10_000 if scale > 90 else 20_000
        autofit = f'<{prefix}normAutofit fontScale="{scale * 1000:.0f}" lnSpcReduction="{reduction}"/>'
        if self.properties.content == self.properties.end:
            return f"{own[: own.rindex('/')]}>{autofit}</{prefix}bodyPr>"
        at = self.properties.content
        written = [self.data[self.properties.start : at].decode("utf-8")]
        for child in self.properties.elements:
            if child.name == "a:prstTxWarp":
                written.append(self.data[at : child.end].decode("utf-8"))
            if child.name in ("a:prstTxWarp", "a:normAutofit", "a:noAutofit"):
                at = child.end
        return "".join((*written, autofit, self.data[at : self.properties.end].decode("utf-8")))
