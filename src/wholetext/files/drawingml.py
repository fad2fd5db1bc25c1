"""What docx, pptx and xlsx share: paragraphs and attributes of a part become units; slides, charts, SmartArt and shapes.

`PartReader` adds regions to one part. Its texts of one part follow each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from wholetext.files.boxes import Boxes
from wholetext.files.content import Compose, Content, Part, Region
from wholetext.files.opc import Package, insert_attribute, office_tag, replace_attribute
from wholetext.files.runs import Blocks, Leaf, Paragraph, RunRules, xml_notation
from wholetext.files.xmlpart import Element, attribute_spans, written_prefix
from wholetext.languages import is_right_to_left
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Block, Piece, Verbatim
from wholetext.markup.notation import Place, decoded

SYMBOL_FONTS = frozenset({"symbol", "webdings", "wingdings", "wingdings 2", "wingdings 3", "mt extra", "zapfdingbats"})
ESCAPES = re.compile(r"_x[0-9A-Fa-f]{4}_")
_LEVELS = ("a:defPPr", *(f"a:lvl{level}pPr" for level in range(1, 10)))
"""Properties of the paragraphs of a level, in lists of styles."""
_DIRECTED = frozenset({"a:tblPr", *_LEVELS})
_MIRRORED = {"l": "r", "r": "l"}
_ON = frozenset({"1", "true"})
_SHAPES = ("p:sp", "xdr:sp")
_ALTERNATIVES = "mc:AlternateContent"
LINKS = frozenset({"a:hlinkClick", "a:hlinkHover", "a:hlinkMouseOver"})
_FILE_NAME = re.compile(r"\S+\.\w{2,4}|\w+://\S+|[A-Z]:\\.+")


def _opaque(properties: Element) -> str:
    font = properties.child("a:latin")
    return "symbol" if font and font.get("typeface").lower() in SYMBOL_FONTS else ""


RULES = RunRules(
    run="a:r",
    properties="a:rPr",
    text="a:t",
    breaks={"a:br"},
    ignored_attributes={"lang", "altLang", "dirty", "err", "smtClean", "kumimoji", "noProof", "bmk"},
    opaque=_opaque,
    escapes=ESCAPES,
    space_attribute=False,
)
"""Paragraphs of shapes, tables, charts and SmartArt. `a:fld` is a computed value, and a mark."""


@dataclass(slots=True)
class PartReader:
    """Adds the texts of one part to a content. `copies` of an element with two versions: numbers of units by their text."""

    package: Package
    name: str
    content: Content
    target: str
    rules: RunRules = RULES
    looks: dict[bytes, tuple[Hashable, str]] = field(default_factory=lambda: dict[bytes, tuple[Hashable, str]]())
    last: int = -1  # number of units after the last one of this part

    @property
    def part(self) -> Part:
        return self.package.part(self.name)

    def add_paragraph(
        self,
        element: Element,
        place: str,
        *,
        context: str = "",
        copies: dict[str, int] | None = None,
        change: Callable[[list[Leaf]], Iterable[Leaf]] = iter,
        limit: int = 0,
    ) -> list[Leaf]:
        """Make a region of a paragraph that has text, after `change`; return its leaves as they were."""
        if not element.children:
            return []
        part = self.part
        leaves = list(Paragraph(part.data, self.rules, self.looks).leaves(element))
        blocks = Blocks(part.data, self.rules)
        pieces = blocks.pieces(change(leaves))
        if any(isinstance(piece, Block) for piece in pieces):
            composer = blocks.composer
            composer.limit = limit
            self._add(Region(element.content, element.elements[-1].end, (), composer), pieces, place, context, copies)
        return leaves

    def add_text(self, element: Element, place: str, context: str = "") -> None:
        """Make a region of an element that has only characters."""
        source = self.part.data[element.content : element.close].decode("utf-8")
        pieces = build(list(decoded(source, Place(xml=True))), notation=xml_notation) if "<" not in source else []
        self._add(Region(element.content, element.close, ()), pieces, place, context, None)

    def add_attribute(
        self,
        element: Element,
        name: str,
        place: str,
        copies: dict[str, int] | None = None,
        compose: Compose | None = None,
        codes: re.Pattern[str] | None = None,
    ) -> None:
        """Make a region of an attribute's value, if the element has it and it is not the name of a file. `codes` are marks."""
        if not any(map(str.isalpha, element.get(name))) or _FILE_NAME.fullmatch(element.get(name)):
            return
        data = self.part.data
        span = attribute_spans(data, element)[name]
        where = Place(xml=True, quote=data[span.stop : span.end].decode())
        source = data[span.value : span.stop].decode("utf-8")

        notation = partial(xml_notation, entities={where.quote or "": "&quot;" if where.quote == '"' else "&apos;"})
        pieces = build(_with_codes(source, where, codes), notation=notation)
        self._add(Region(span.value, span.stop, (), compose), pieces, place, "", copies)

    def add_tips(self, element: Element, place: str, copies: dict[str, int] | None = None) -> None:
        """Make regions of the tips of links that an element or its runs have."""
        for one in element.walk("a:p"):
            if one.name in LINKS:
                self.add_attribute(one, "tooltip", f"{place}, tip of a link", copies)

    def add_alternative_text(self, element: Element, place: str, copies: dict[str, int] | None = None) -> None:
        for name in ("descr", "title"):
            self.add_attribute(element, name, f"{place}, alternative text", copies)

    def set_languages(self, element: Element) -> None:
        """Set the language of all runs in a paragraph of DrawingML."""
        part = self.part
        if b"ang=" not in part.data[element.start : element.end]:
            return
        for one in element.walk():
            if one.name.startswith("a:") and "lang" in one.attributes:
                replace_attribute(part, one, "lang", office_tag(self.target))
                if "altLang" in one.attributes:
                    span = attribute_spans(part.data, one)["altLang"]
                    part.regions.append(Region(span.start, span.end, ()))

    def set_direction(self, properties: Element) -> None:
        """Mirror what the properties of paragraphs or of a table say of the direction, if it is not the target's."""
        from_right, said = is_right_to_left(self.target), properties.get("rtl")
        if (said in _ON) == from_right and (said or not from_right):
            return
        if said:
            replace_attribute(self.part, properties, "rtl", "1" if from_right else "0")
        elif properties.name in ("a:pPr", "a:tblPr"):
            insert_attribute(self.part, properties, "rtl", "1")
        align = properties.get("algn")
        if align in _MIRRORED and (said or (align == "l" and properties.name == "a:pPr")):
            replace_attribute(self.part, properties, "algn", _MIRRORED[align])

    def set_direction_of(self, paragraph: Element) -> None:
        """Write a paragraph in the target's direction."""
        properties = paragraph.child("a:pPr")
        if properties is not None:
            self.set_direction(properties)
        elif is_right_to_left(self.target):
            added = f'><{written_prefix(self.part.data, paragraph)}pPr rtl="1"/>'
            self.part.regions.append(Region(paragraph.content - 1, paragraph.content, (Verbatim(added),)))

    def _add(
        self, region: Region, pieces: Iterable[Piece], place: str, context: str, copies: dict[str, int] | None
    ) -> None:
        follows = self.last == len(self.content.units)
        found = self.content.add(pieces, place, context, follows=follows, copies=copies)
        self.last = len(self.content.units)
        self.part.regions.append(Region(region.start, region.stop, found, region.compose))


def _with_codes(source: str, place: Place, codes: re.Pattern[str] | None) -> Iterator[InlineItem]:
    """Yield a value's items, with its codes as singles."""
    at = 0
    for found in codes.finditer(source) if codes else ():
        yield from decoded(source[at : found.start()], place)
        yield InlineItem("single", found[0], word=True)
        at = found.end()
    yield from decoded(source[at:], place)


_CHARACTER = re.compile(r"&[#\w]+;|.", re.DOTALL)


def cut_to(most: int, place: str) -> Compose:
    """Write at most so many characters, in the notation of XML: programs of Office call a file with more damaged."""

    def compose(text: str, _: object, warn: Callable[[str], None]) -> str:
        found = _CHARACTER.findall(text)
        if len(found) <= most:
            return text
        warn(f"{place}: a translation of {len(found)} characters was cut to the {most} that Office reads")
        return "".join(found[:most])

    return compose


def read_shapes(
    reader: PartReader,
    place: str,
    copies: dict[str, int] | None = None,
    *,
    boxes: Boxes | None = None,
    is_master: bool = False,
) -> None:
    """Read a part with paragraphs of DrawingML: a slide, notes, a chart, SmartArt, the drawing of a sheet.

    `boxes`: those of fixed size are looked after. `is_master`: what its placeholders say is left, and so are its directions,
    which `set_directions` sets.
    """
    names = ("a:p", *_DIRECTED, *_SHAPES, "p:cNvPr", "xdr:cNvPr", "dsp:cNvPr", _ALTERNATIVES, "c:strCache")
    for element in reader.package.elements(reader.name, *names):
        if element.name in _SHAPES:
            _read_box(reader, element, place, copies, boxes, is_master=is_master)
        elif element.name == _ALTERNATIVES:
            _read_alternatives(reader, element, place, {} if copies is None else copies, boxes)
        elif not (is_master and element.name in _DIRECTED):
            _read_shape(reader, element, place, copies)


def _read_alternatives(
    reader: PartReader, element: Element, place: str, copies: dict[str, int], boxes: Boxes | None
) -> None:
    """Read an element that is there once for newer programs and once for older ones."""
    for one in element.walk("a:p", *_SHAPES):
        if one.name in _SHAPES:
            _read_box(reader, one, place, copies, boxes, is_master=False)
        else:
            _read_shape(reader, one, place, copies)


def _read_box(
    reader: PartReader,
    shape: Element,
    place: str,
    copies: dict[str, int] | None,
    boxes: Boxes | None,
    *,
    is_master: bool,
) -> None:
    """Read a shape. That of a master is a text box, or a placeholder, which shows nothing of its own on slides."""
    below = list(shape.walk("a:p", _ALTERNATIVES))
    is_placeholder = is_master and any(one.name == "p:ph" for one in below)
    for one in below:
        if is_placeholder and one.name == "a:p" and any(map(str.isalpha, one.text)):
            reader.content.leave(place, "placeholder", one.text)
        elif is_placeholder or (is_master and one.name in _DIRECTED):
            continue
        elif one.name == _ALTERNATIVES:
            _read_alternatives(reader, one, place, {} if copies is None else copies, None)
        else:
            _read_shape(reader, one, place, copies)
    region = boxes.fitting(reader.part.data, shape, place) if boxes and not is_placeholder else None
    if region is not None:
        reader.part.regions.append(region)


def _read_shape(reader: PartReader, element: Element, place: str, copies: dict[str, int] | None) -> None:
    if element.name == "a:p":
        for leaf in reader.add_paragraph(element, place, copies=copies):
            if leaf.element.name == "a:fld" and any(map(str.isalpha, leaf.element.text)):
                reader.content.leave(place, "field", leaf.element.text)
        reader.add_tips(element, place, copies)
        reader.set_languages(element)
        if any(one.name == "a:r" for one in element.elements):
            reader.set_direction_of(element)
    elif element.name in _DIRECTED:
        reader.set_direction(element)
    elif element.name.endswith(":cNvPr"):
        reader.add_alternative_text(element, place, copies)
        reader.add_tips(element, place, copies)
    elif element.name == "c:strCache":
        for one in element.walk():
            if one.name == "c:v" and any(map(str.isalpha, one.text)):
                reader.content.leave(place, "chart_data", one.text)


def set_directions(reader: PartReader) -> None:
    """Write the styles of a part whose texts are not read, such as a master, in the target's direction."""
    if is_right_to_left(reader.target) or b"rtl=" in reader.part.data:
        for element in reader.package.elements(reader.name, *_LEVELS):
            reader.set_direction(element)


def read_drawings(package: Package, content: Content, target: str, places: Mapping[str, str]) -> None:
    """Read charts, and SmartArt, whose texts are in two parts. `places` has those of parts that slides or sheets name."""
    copies: dict[str, int] = {}
    for ending in (".diagramData+xml", ".diagramDrawing+xml", ".chart+xml", "chartex+xml", ".chartshapes+xml"):
        for name in package.typed(ending):
            place = places.get(name) or name.rpartition("/")[2].partition(".")[0]
            reader = PartReader(package, name, content, target)
            read_shapes(reader, place, copies if "diagram" in ending else None)


def read_properties(package: Package, content: Content, target: str) -> None:
    """Read the document's title, and set its language."""
    for one in package.relationships(""):
        if one.type != "core-properties":
            continue
        reader = PartReader(package, one.target, content, target)
        for element in package.elements(one.target, "dc:title", "dc:language"):
            if element.name == "dc:title":
                reader.add_text(element, "title of the document")
            elif element.text:
                part = reader.part
                part.regions.append(Region(element.content, element.close, (Verbatim(office_tag(target)),)))
