"""Reads OpenDocument files: odt, ods, odp, their templates, and the flat ones that are a single XML file.

Text is in paragraphs and headings wherever they stand: in the body, tables, notes, frames, headers and footers, embedded
charts. A paragraph may hold others (notes, text boxes): these are blocks of the mark that stands for their element. Fields,
indexes' page numbers, deleted text, comments unless they are asked for, formulas and what formulas compare stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from itertools import accumulate
from pathlib import PurePosixPath
from xml.sax.saxutils import escape

from langcodes import Language

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.archive import Archive
from wholetext.files.content import Content, Part, ReadOptions, Region, UnitReference, keep_nothing
from wholetext.files.odf_boxes import SHAPES, BoxCheck, Look, Styles, boxes
from wholetext.files.xmlpart import Element, Namespaces, Text, attribute_spans, decoded, elements
from wholetext.markup.blocks import BASE, READING, RUBY, InlineItem
from wholetext.markup.marks import Block, Piece, Verbatim
from wholetext.markup.notation import MOST_ITEMS, BlockBuilder, EntityNotation, Place
from wholetext.markup.notation import decoded as decoded_text
from wholetext.markup.segments import MAX_SEGMENT_CHARACTERS, portions
from wholetext.markup.spans import has_letters

_OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
_NAMESPACES = {
    **{f"{_OASIS}{name}:1.0": name for name in ("office", "style", "text", "table", "chart", "presentation", "form")},
    f"{_OASIS}drawing:1.0": "draw",
    f"{_OASIS}datastyle:1.0": "number",
    f"{_OASIS}xsl-fo-compatible:1.0": "fo",
    f"{_OASIS}svg-compatible:1.0": "svg",
    f"{_OASIS}manifest:1.0": "manifest",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
    "http://openoffice.org/2009/office": "officeooo",
    "http://purl.org/dc/elements/1.1/": "dc",
}
_MANIFEST = "META-INF/manifest.xml"
_KINDS = {
    **dict.fromkeys(("odt", "ott", "fodt"), "text"),
    **dict.fromkeys(("ods", "ots", "fods"), "spreadsheet"),
    **dict.fromkeys(("odp", "otp", "fodp"), "presentation"),
}
_MEDIA_TYPE = "application/vnd.oasis.opendocument."

_PROPERTIES = ("dc:title", "dc:subject", "dc:description")
_PARAGRAPHS = frozenset(
    [
        "text:p",
        "text:h",
        "text:index-title-template",
        "text:index-entry-span",
        "svg:title",
        "svg:desc",
        "table:title",
        "table:desc",
        "presentation:date-time-decl",
        "presentation:footer-decl",
        "presentation:header-decl",
    ]
) | frozenset(_PROPERTIES)
_LEFT = {"text:tracked-changes": "deleted", "table:tracked-changes": "deleted"}
_FORMATS = ("number:text", "text:list-level-style-number", "text:outline-level-style")
_COLLECTED = (
    *(*_PARAGRAPHS, *_LEFT, "office:annotation", "office:forms", "table:table-row", "table:content-validations"),
    *("style:style", "style:default-style", "style:page-layout", "style:master-page", "draw:page"),
    *_FORMATS,
    "draw:frame",
    *SHAPES,
)
_OPENED = ("office:document", "office:document-content", "office:spreadsheet", "table:table")
_PAIRS = frozenset(
    {
        "text:a",
        "text:meta",
        "text:text-input",
        "text:placeholder",
        "loext:content-control",
    }
)
_RUBY = {"text:ruby": RUBY, "text:ruby-base": BASE}
_WITH_PARAGRAPHS = frozenset({"text:note", "text:p", "text:h"})  # elements in a paragraph that have others
_PREFIXES_WITH_PARAGRAPHS = ("draw", "dr3d", "table", "office", "form")
_TRANSLATED_ATTRIBUTES = ("form:label", "form:title", "table:title", "office:title", "text:description")
_SHOWN_BY_FIELDS = ("text:value", "text:string-value", "text:string-value-if-true", "text:string-value-if-false")
_NO_LOOK = re.compile(r"officeooo:.*|fo:(?:language|country|script)|style:(?:language|country|script|rfc-language)\b.*")
_FROM_LEFT, _FROM_RIGHT = ("start", "left"), ("end", "right")
_MIRRORED = {"start": "end", "left": "right", "end": "start", "right": "left"}
"""Of texts: LibreOffice reads and writes `start` as left, whatever the direction."""
_DEEPEST = 20  # paragraphs in paragraphs; beyond, text stays
_DEEPEST_PAIRS = 50
_MOST_REPEATED = 7  # digits of a number of columns or rows

_XML = Place(xml=True)


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` for one that is damaged, encrypted or of another kind."""
    content = Content()
    reader = _Reader(content, options)
    if options.extension.startswith("f"):
        reader.read("", data)
        return content
    archive = Archive(data)
    archive.check()
    _check(archive, options, content)
    by_name = {name: PurePosixPath(name).name for name in archive.names}
    names = [name for name, last in by_name.items() if last in ("content.xml", "styles.xml") or name == "meta.xml"]
    if "content.xml" not in names:
        raise InvalidFile(f"Invalid file: it is no {options.extension}: content.xml is missing", param="file")
    if "styles.xml" in names:
        reader.learn_styles("styles.xml", archive.read("styles.xml"))
    for name in sorted(names, key=lambda name: ("/" in name, not name.startswith("content"))):
        reader.read(name, archive.read(name))
    return content


def _check(archive: Archive, options: ReadOptions, content: Content) -> None:
    """Raise `InvalidFile` for another kind of package; leave signatures out, which a translation breaks."""
    wanted = (_MEDIA_TYPE + _KINDS[options.extension]).encode()
    found = archive.read("mimetype").strip() if "mimetype" in archive.names else wanted
    if not found.startswith(wanted):
        shown = f", but {found.decode()}" if re.fullmatch(rb"[\w./+-]{3,80}", found) else ""
        raise InvalidFile(f"Invalid file: it is no {options.extension}{shown}", param="file")
    content.dropped |= {name for name in archive.names if re.fullmatch(r"META-INF/\w*signatures\.xml", name)}
    if content.dropped:
        content.warnings.append("the document was signed: the translation has no signature")
    if _MANIFEST in archive.names:
        data, encoding = decoded(archive.read(_MANIFEST), _MANIFEST)
        part = Part(_MANIFEST, data, encoding)
        for entry in elements(data, _MANIFEST, Namespaces(_NAMESPACES), ("manifest:file-entry",), doctype=True):
            if entry.child("manifest:encryption-data"):
                message = "it is protected by a password; remove the password and send it again"
                raise InvalidFile(f"Invalid file: {message}", param="file")
            if entry.get("manifest:full-path") in content.dropped:
                part.regions.append(Region(entry.start, entry.end, ()))
        content.parts.append(part)


class _Reader:
    """Reads the parts of one document. `_compared`: texts, in lower case, that formulas and filters look for."""

    def __init__(self, content: Content, options: ReadOptions) -> None:
        self._content = content
        self._options = options
        self._is_sheet = _KINDS[options.extension] == "spreadsheet"
        self._is_writer = _KINDS[options.extension] == "text"
        self._compared: set[str] = set()
        self._looks: dict[str, str | None] = {}  # of text styles, by name; equal for styles that look alike
        self._first: dict[object, str] = {}  # style of each look
        self._hidden: set[str] = set()  # styles
        self._language = _Language(options.target)
        self._common = Styles(Look(12.0 if self._is_writer else 18.0))
        self._styles = self._common
        self._data = b""
        self._regions: list[Region] = []
        self._counts: dict[str, int] = {}  # of paragraphs, by place
        self._sheet = _Sheet("")
        self._in_chart = False

    def learn_styles(self, name: str, data: bytes) -> None:
        """Learn from the part of common styles, which is read later, what the other parts need."""
        data, _ = decoded(data, name)
        for element in elements(data, name, Namespaces(_NAMESPACES), ("style:style", "style:default-style")):
            self._learn(element)

    def read(self, name: str, data: bytes) -> None:
        self._data, encoding = decoded(data, name)
        self._regions = []
        self._looks, self._first = {}, {}
        self._styles = Styles(self._common.default, self._common)
        self._compared |= _compared_texts(self._data) if self._is_sheet else set()
        folder = str(PurePosixPath(name).parent) if "/" in name else ""
        is_document = name not in ("", "content.xml")
        names = Namespaces(_NAMESPACES)
        slides = 0
        self._in_chart = b"<office:chart" in self._data
        in_sheet = False
        for element in elements(self._data, name, names, _COLLECTED, opened=_OPENED, doctype="/" in name):
            match element.name:
                case "office:document" | "office:document-content":
                    is_document = True
                case "office:spreadsheet":
                    in_sheet = True
                case "table:table":
                    self._begin_sheet(element.get("table:name"), is_own=folder == "" and in_sheet)
                case "style:style" | "style:default-style" | "style:page-layout":
                    self._learn(element)
                    self._put_language(element)
                    self._put_direction(element)
                case "table:table-row" if in_sheet:
                    self._row(element)
                case "draw:page":
                    slides += 1
                    self._slide(element, f"slide {slides}")
                case "style:master-page":
                    self._master(element)
                case _:
                    self._other(element, folder)
        if not is_document:
            raise InvalidFile(
                f"Invalid file: it is no {self._options.extension}: no OpenDocument element", param="file"
            )
        self._regions.sort(key=lambda region: region.start)
        self._content.parts.append(Part(name, self._data, encoding, self._regions))

    def _other(self, element: Element, folder: str) -> None:
        if element.name in _FORMATS:
            self._leave_format(element)
        else:
            self._walk(element, f"properties, {element.name[3:]}" if element.name in _PROPERTIES else folder)

    # -- styles

    def _learn(self, style: Element) -> None:
        properties = next((one for one in style.elements if one.name == "style:text-properties"), None)
        attributes = dict(properties.attributes) if properties else {}
        name = style.get("style:name")
        self._styles.learn(style)
        if name and attributes.get("text:display") == "none":
            self._hidden.add(name)
        if style.name == "style:default-style":
            self._language.learn(attributes)
        shown = frozenset((key, value) for key, value in attributes.items() if not _NO_LOOK.fullmatch(key))
        parent = style.get("style:parent-style-name")
        if style.get("style:family") == "text":
            look = name if properties and properties.elements else (parent, shown)
            self._looks[name] = self._first.setdefault(look, name) if any(look) else None

    def _leave_format(self, element: Element) -> None:
        """Report words in formats of numbers and of lists."""
        is_number = element.name == "number:text"
        for text in (element.text, element.get("style:num-prefix"), element.get("style:num-suffix")):
            if re.search(r"[^\W\d_]{2}", text):
                self._content.leave("styles", "number_format" if is_number else "numbering", text)

    def _put_language(self, style: Element) -> None:
        for properties in style.elements:
            values = self._language.values(properties, is_default=style.name == "style:default-style")
            spans = attribute_spans(self._data, properties) if values else {}
            for key, value in values.items():
                self._regions.append(Region(spans[key].value, spans[key].stop, (Verbatim(value),)))

    def _put_direction(self, style: Element) -> None:
        """Mirror the direction of pages, paragraphs and tables; a sheet's columns stay where they are."""
        from_right = languages.is_right_to_left(self._options.target)
        wanted, other = ("rl", "lr") if from_right else ("lr", "rl")
        for properties in () if self._is_sheet else style.elements:
            mode, align = properties.get("style:writing-mode"), properties.get("fo:text-align")
            is_other = mode in (other, f"{other}-tb")
            values = {"style:writing-mode": mode.replace(other, wanted)} if is_other else {}
            is_default = style.name == "style:default-style" and properties.name == "style:paragraph-properties"
            was_from_right = b"rl-tb" in self._data if is_default else mode.startswith("rl")
            if was_from_right != from_right and align in (_FROM_LEFT if from_right else _FROM_RIGHT):
                values["fo:text-align"] = _MIRRORED[align]
            spans = attribute_spans(self._data, properties) if values else {}
            for key, value in values.items():
                self._regions.append(Region(spans[key].value, spans[key].stop, (Verbatim(value),)))
            if from_right and is_default and not (was_from_right or align) and b"xmlns:fo=" in self._data:
                at = self._data.index(b"paragraph-properties", properties.start) + len(b"paragraph-properties")
                self._regions.append(Region(at, at, (Verbatim(' fo:text-align="end"'),)))

    # -- places

    def _master(self, page: Element) -> None:
        for child in page.elements:
            local = child.name.partition(":")[2]
            part = next((one for one in ("header", "footer") if local.startswith(one)), "master page")
            self._walk(child, part, is_master=True)

    def _slide(self, page: Element, place: str) -> None:
        for child in page.elements:
            self._walk(child, f"{place}, notes" if child.name == "presentation:notes" else place, is_slide=True)

    def _begin_sheet(self, name: str, *, is_own: bool) -> None:
        """Begin a sheet. The names of a workbook's own are left: formulas use them."""
        self._sheet = _Sheet(name)
        if is_own and has_letters(name):
            self._content.leave("workbook", "sheet_name", name)

    def _row(self, row: Element) -> None:
        sheet = self._sheet
        column = 0
        for cell in row.elements:
            context = sheet.headers.get(column, "")
            if cell.name in ("table:table-cell", "table:covered-table-cell"):
                self._walk(cell, f"{sheet.name}!{_letters(column)}{sheet.row + 1}", context, is_slide=True)
                text = cell.text if has_letters(cell.text) and len(cell.children) == 1 else ""
                if text and len(sheet.headers) < 1_000:
                    sheet.headers.setdefault(column, text[:200])
            column += _number(cell.get("table:number-columns-repeated"))
        sheet.row += _number(row.get("table:number-rows-repeated"))

    # -- paragraphs

    def _walk(
        self, element: Element, place: str, context: str = "", *, is_slide: bool = False, is_master: bool = False
    ) -> None:
        """Make regions of all text in the element. `is_slide`: `place` needs no number of a paragraph."""
        for start, stop, pieces in self._found(element, place, 0, is_master=is_master):
            where = place
            if not is_slide and not place.startswith("properties"):
                number = self._counts[place] = self._counts.get(place, 0) + 1
                where = f"{place}, paragraph {number}" if place else f"paragraph {number}"
            follows = not self._is_sheet and bool(self._content.units)
            self._regions.append(Region(start, stop, self._content.add(pieces, where, context, follows=follows)))
        if self._is_sheet and element.name == "table:table-cell" and element.get("office:string-value"):
            self._put_value(element)
        has_shape = self._data.find(b"<draw:", element.start, element.end) >= 0
        if has_shape and (fixed := boxes(element, self._styles, in_writer=self._is_writer)):
            where = place or f"paragraph {self._counts.get(place, 0)}"
            check = BoxCheck((element.start, element.end), self._data, fixed, self._styles, where)
            end = len(self._data) - 1  # in the last tag, which is behind all texts
            self._regions.append(Region(end, end, (), check))

    def _put_value(self, cell: Element) -> None:
        """Write the value of a cell that has it in an attribute too: the same unit, or nothing where it has several."""
        own = [region for region in self._regions[-8:] if cell.start < region.start < cell.end]
        if not own:
            return
        span = attribute_spans(self._data, cell)["office:string-value"]
        only = own[0].pieces[0] if len(own) == 1 and len(own[0].pieces) == 1 else None
        if isinstance(only, UnitReference) and only.block.text == cell.get("office:string-value"):
            notation = self._value_notation(span.value)([(only.block.text, self._slice(span.value, span.stop))])
            block = Block(only.block.text, (), notation)
            self._regions.append(Region(span.value, span.stop, (UnitReference(only.number, block),)))
        else:
            self._regions.append(Region(span.start, span.end, ()))

    def _found(
        self, element: Element, place: str, depth: int, *, is_master: bool = False
    ) -> Iterator[tuple[int, int, list[Piece]]]:
        """Yield start, stop and pieces of each text in an element, in order."""
        waiting = [element]
        while waiting:
            one = waiting.pop()
            reason = self._reason_to_leave(one, is_master=is_master)
            if reason or depth > _DEEPEST:
                self._leave(place, reason or "nested", one)
                continue
            if self._in_chart and one.name == "draw:g" and [child.name for child in one.elements] == ["svg:desc"]:
                continue  # the address of a cell of the sheet that the chart's own cell is a copy of
            if one.name in _PARAGRAPHS:
                pieces = self._paragraph(one, place, depth)
                if any(isinstance(piece, Block) for piece in pieces):
                    yield one.content, one.close, pieces
                continue
            yield from self._attributes(one)
            children = one.elements
            if one.name in ("table:table-cell", "table:covered-table-cell") and not self._is_text(one, place):
                children = [child for child in children if child.name != "text:p"]
            waiting += reversed(children)

    def _reason_to_leave(self, element: Element, *, is_master: bool = False) -> str:
        if element.name == "office:annotation" and not self._options.comments:
            return "comment"
        if is_master and element.get("presentation:class"):
            return "placeholder"
        if element.get("text:style-name") in self._hidden:
            return "hidden"
        return _LEFT.get(element.name, "")

    def _is_text(self, cell: Element, place: str) -> bool:
        texts = [child.text for child in cell.elements if child.name == "text:p"]
        has_word = re.search(r"[^\W\d_]{2}|[^\W\d_\x00-\x7f]", "".join(texts)) is not None
        kind = cell.get("office:value-type", "string")
        if kind != "string" and (self._is_sheet or kind != "float" or not has_word):  # Writer calls texts numbers
            return False
        reason = ""
        if cell.get("table:formula"):
            reason = "formula"
        elif self._is_sheet and "\n".join(texts).strip().casefold() in self._compared:
            reason = "compared"
        elif self._is_sheet and not has_word:
            reason = "code"
        for text in texts if reason else ():
            if has_letters(text):
                self._content.leave(place, reason, text)
        return not reason

    def _leave(self, place: str, reason: str, element: Element) -> None:
        text = " ".join(one.text for one in element.walk("text:p", "text:h") if one.name in _PARAGRAPHS) or element.text
        if has_letters(text):
            self._content.leave(place, reason, text)

    def _attributes(self, element: Element) -> Iterator[tuple[int, int, list[Piece]]]:
        if not any(element.get(name) for name in _TRANSLATED_ATTRIBUTES):
            return
        spans = attribute_spans(self._data, element)
        for name in sorted(_TRANSLATED_ATTRIBUTES & spans.keys(), key=lambda name: spans[name].start):
            start, stop = spans[name].value, spans[name].stop
            build = BlockBuilder(keep_nothing, self._value_notation(start))
            pieces = build(list(decoded_text(self._slice(start, stop), _XML)))
            if any(isinstance(piece, Block) for piece in pieces):
                yield start, stop, pieces

    def _tag_pieces(self, element: Element) -> Iterator[Piece]:
        """Yield the pieces of a tag within a paragraph; nothing if it has no text, as the tip of a link."""
        at = element.start
        for start, stop, pieces in self._attributes(element):
            yield Verbatim(self._slice(at, start))
            yield from pieces
            at = stop
        if at > element.start:
            yield Verbatim(self._slice(at, element.content))

    def _value_notation(self, start: int) -> Callable[[Iterable[tuple[str, str]]], EntityNotation]:
        """Return a maker of notations for an attribute's value that begins at `start`, behind its quote."""
        place = Place(xml=True, quote=self._slice(start - 1, start))
        return lambda texts: EntityNotation(place, texts)

    def _paragraph(self, element: Element, place: str, depth: int) -> list[Piece]:
        items: list[InlineItem] = []
        for item in self._items(element, place, depth, 0):
            before = items[-1] if items else None
            is_same = before and (before.kind, item.kind) == ("close", "open") and before.name == item.name
            if is_same and item.name.startswith("text:span"):
                items.pop()  # a span of the same look goes on
            else:
                items.append(item)
        return _built(items)

    def _items(self, parent: Element, place: str, depth: int, pairs: int) -> Iterator[InlineItem]:
        for child in parent.children:
            if isinstance(child, Text):
                yield from self._text_items(child)
            elif child.name == "text:ruby-text":
                yield InlineItem("single", self._slice(child.start, child.end), name=READING)
            elif child.name == "text:span" or child.name in _RUBY or child.name in _PAIRS:
                yield from self._pair(child, place, depth, pairs)
            elif child.name in _WITH_PARAGRAPHS or child.name.partition(":")[0] in _PREFIXES_WITH_PARAGRAPHS:
                nested = tuple(self._nested(child, place, depth + 1))
                yield InlineItem("single", self._slice(child.start, child.end), pieces=nested)
            elif child.name != "text:soft-page-break":  # which is the layout's, not the author's
                yield self._left_item(child, place, "field")

    def _pair(self, element: Element, place: str, depth: int, pairs: int) -> Iterator[InlineItem]:
        style = element.get("text:style-name") if element.name == "text:span" else ""
        if style in self._hidden or pairs >= _DEEPEST_PAIRS or element.content == element.close:
            yield self._left_item(element, place, "hidden" if style in self._hidden else "nested")
            return
        look = self._looks.get(style, style)
        if look is None:
            yield from self._items(element, place, depth, pairs + 1)
            return
        name = _RUBY.get(element.name, f"{element.name} {look}")
        source, tag = self._slice(element.start, element.content), tuple(self._tag_pieces(element))
        yield InlineItem("open", source, name=name, pieces=tag)
        yield from self._items(element, place, depth, pairs + 1)
        yield InlineItem("close", self._slice(element.close, element.end), name=name)

    def _left_item(self, element: Element, place: str, reason: str) -> InlineItem:
        text = element.text
        others = (one.get(name) for one in (element, *element.walk()) for name in _SHOWN_BY_FIELDS)
        for shown in dict.fromkeys((text, *others)):
            if has_letters(shown):
                self._content.leave(place, reason, shown)
        source = self._slice(element.start, element.end)
        is_word = reason == "field" and any(map(str.isalnum, text))
        return InlineItem("single", source, name=element.name, word=is_word)

    def _text_items(self, text: Text) -> Iterator[InlineItem]:
        source = self._slice(text.start, text.end)
        if "<![CDATA[" in source:
            source = escape(text.shown)
        for start, stop in portions(source, 0, len(source)):
            yield from decoded_text(source[start:stop], _XML, collapse=True)

    def _nested(self, element: Element, place: str, depth: int) -> Iterator[Piece]:
        """Yield the pieces of an element that stands in a paragraph; nothing if it has no text."""
        at = element.start
        for start, stop, pieces in self._found(element, place, depth):
            yield Verbatim(self._slice(at, start))
            yield from pieces
            at = stop
        if at > element.start:
            yield Verbatim(self._slice(at, element.end))

    def _slice(self, start: int, stop: int) -> str:
        return self._data[start:stop].decode("utf-8")


# ---- items of a paragraph

_build = BlockBuilder(keep_nothing, lambda texts: EntityNotation(_XML, texts))


def _built(items: list[InlineItem]) -> list[Piece]:
    """Build the blocks of a paragraph. A tab ends one, since it stands between columns, unless it is within a span."""
    items = _with_base(items)
    start = _around(items)
    pieces: list[Piece] = [piece for item in items[:start] for piece in item.pieces or (Verbatim(item.source),)]
    stop = len(items) - start
    group: list[InlineItem] = []
    depth = characters = 0
    for item in items[start:stop]:
        is_tab = item.name == "text:tab" and not depth
        characters += len(item.shown)
        if not depth and (is_tab or len(group) >= MOST_ITEMS or characters > MAX_SEGMENT_CHARACTERS * 3 // 4):
            pieces += _build(group)
            group = []
            characters = len(item.shown)
        if is_tab:
            pieces.append(Verbatim(item.source))
        else:
            group.append(item)
        depth += {"open": 1, "close": -1}.get(item.kind, 0)
    return [*pieces, *_build(group), *(Verbatim(item.source) for item in items[stop:])]


def _around(items: Sequence[InlineItem]) -> int:
    """Return how many pairs are around all the items."""
    steps = [{"open": 1, "close": -1}.get(item.kind, 0) * (item.name != RUBY) for item in items]
    first = next((number for number, step in enumerate(steps) if step != 1), len(steps))
    last = next((number for number, step in enumerate(reversed(steps)) if step != -1), len(steps))
    return min(first, last, *list(accumulate(steps))[max(first - 1, 0) : len(steps) - last])


def _with_base(items: list[InlineItem]) -> list[InlineItem]:
    """Give no marks to the look that a paragraph of nothing but spans begins and ends with.

    The end of such a span and the beginning of another one become the opening mark of that, and so with its end.
    """
    if len(items) < 6 or not items[0].name.startswith("text:span") or items[0].name != items[-1].name:
        return items
    base = items[0].name
    joined: list[InlineItem] = [items[0]]
    between: list[InlineItem] = []  # the end of a span on the top level, and what follows it
    depth = 1
    for item in items[1:-1]:
        if between and item.kind == "open":
            first, second = between[0].name == base, item.name == base
            if not (first or second):
                return items
            source = "".join(one.source for one in (*between, item))
            kind = "single" if first and second else "open" if first else "close"
            joined.append(
                InlineItem(kind, source, name="" if kind == "single" else between[0].name if second else item.name)
            )
            between = []
            depth = 1
        elif between or (item.kind == "close" and depth == 1):
            if not item.name.startswith("text:span") and (item.kind != "single" or item.pieces):
                return items
            between.append(item)
        else:
            depth += {"open": 1, "close": -1}.get(item.kind, 0)
            joined.append(item)
    return [*joined, items[-1]] if not between else items


# ---- languages, sheets


class _Language:
    """The attributes that say in which language text is. Western, Asian and complex scripts have their own."""

    def __init__(self, target: str) -> None:
        script = languages.script(target)
        group = (
            "-asian" if languages.is_cjk(target) else "" if script in ("Latn", "Cyrl", "Grek", "Armn") else "-complex"
        )
        prefix = "style" if group else "fo"
        self._names = f"{prefix}:language{group}", f"{prefix}:country{group}"
        full = Language.get(languages.normalise(target)).maximize()
        self._target = full.language or "none", full.territory or "none"
        self._source = ""  # the document's own

    def learn(self, attributes: dict[str, str]) -> None:
        self._source = self._source or attributes.get(self._names[0], "")

    def values(self, properties: Element, *, is_default: bool) -> dict[str, str]:
        """Return the attributes to set, which the element has."""
        found = properties.get(self._names[0])
        if found in ("", "none", "zxx", self._target[0]) or not (is_default or found == self._source):
            return {}
        pairs = zip(self._names, self._target, strict=True)
        return {name: value for name, value in pairs if name in properties.attributes}


class _Sheet:
    """Where a reader is in a sheet, and the first text of each column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = 0
        self.headers: dict[int, str] = {}


def _letters(column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _number(repeated: str) -> int:
    return int(repeated) if repeated.isascii() and repeated.isdigit() and len(repeated) <= _MOST_REPEATED else 1


_WITH_LITERALS = re.compile(rb""":(?:formula|condition|value|expression)=(?:"([^"]*&quot;[^"]*)"|'([^']*["][^']*)')""")
_LITERAL = re.compile(r'"((?:[^"]|"")*)"')
_CRITERIA = re.compile(
    rb"<[\w.-]+:(?:filter-condition|filter-set-item|data-pilot-field|data-pilot-member|data-pilot-group-member)\s[^>]*>"
)
_CRITERION = re.compile(rb""":(?:value|name|source-field-name)=(?:"([^"]*)"|'([^']*)')""")


def _compared_texts(data: bytes) -> set[str]:
    """Return, in lower case, the texts that formulas, conditions, filters and pivot tables of a spreadsheet name."""
    found: set[str] = set()
    for one in _WITH_LITERALS.finditer(data):
        value = unescape((one[1] or one[2] or b"").decode("utf-8", "replace"))
        found |= {literal.replace('""', '"').strip().casefold() for literal in _LITERAL.findall(value)}
    for tag in _CRITERIA.finditer(data):
        for one in _CRITERION.finditer(tag[0]):
            found.add(unescape((one[1] or one[2] or b"").decode("utf-8", "replace")).strip().casefold())
    return found
