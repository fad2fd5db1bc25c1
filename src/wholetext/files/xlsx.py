"""Reads xlsx and its variants: each shared string once, strings in cells, print headers, prompts, shapes, charts, comments.

What the workbook compares or looks up by name stays in the source's language, and is reported: headers of tables and of pivot
tables, texts in formulas, lists of validations, filters. So do names of sheets, which formulas use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from functools import partial
from html import unescape

from wholetext.files.content import Compose, Content, ReadOptions, Region
from wholetext.files.drawingml import ESCAPES, PartReader, read_drawings, read_properties, read_shapes
from wholetext.files.opc import Package
from wholetext.files.runs import RunRules, xml_notation
from wholetext.files.xmlpart import Element
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Piece
from wholetext.markup.notation import Place, decoded

MOST_CHARACTERS_OF_CELL = 32_767
RULES = RunRules(
    run="x:r",
    properties="x:rPr",
    text="x:t",
    invisible={"x:rPh"},
    escapes=re.compile(rf"{ESCAPES.pattern}|(?:\r?\n|&#10;)+"),
)
_WORD = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LITERAL = re.compile(r'"((?:[^"]|"")+)"')
_OPERATOR = re.compile(r"[<>=]+")
_CODE = re.compile(
    r"&amp;(?:(?P<section>[LCR])|(?:\"|&quot;).*?(?:\"|&quot;)|K(?:\w{6}|\d\d[+-]\d{3})|\d+|[A-Z]|&amp;)"
)
_PROMPTS = {"promptTitle": 32, "prompt": 255, "errorTitle": 32, "error": 255}
"""With the most characters that Excel reads: it calls a workbook with more of them damaged."""
_MOST_CHARACTERS_OF_HEADER = 255
_CHARACTER = re.compile(r"&[#\w]+;|.", re.DOTALL)
_IN_SHEET = ("x:c", "x:dataValidation", "x:cfRule", "x:autoFilter", "x:headerFooter", "xm:f")


@dataclass(slots=True)
class _Compared:
    """Texts that the workbook compares with cells, folded, each with the reason why it stays; and patterns with wildcards."""

    reasons: dict[str, str] = field(default_factory=dict[str, str])
    patterns: list[re.Pattern[str]] = field(default_factory=lambda: list[re.Pattern[str]]())

    def add(self, texts: Iterable[str], reason: str) -> None:
        for text in texts:
            self.reasons.setdefault(_folded(text), reason)

    def add_formula(self, formula: str) -> None:
        for literal in _LITERAL.findall(formula):
            text = _OPERATOR.sub("", literal.replace('""', '"'), count=1)
            self.add((text, *text.split(",")), "compared")
            if ("*" in text or "?" in text) and _WORD.search(text) and len(self.patterns) < 100:
                self.patterns.append(re.compile(translate(_folded(text).replace("[", "[[]"))))

    def reason(self, text: str) -> str:
        folded = _folded(text)
        found = self.reasons.get(folded)
        return found or ("compared" if any(one.fullmatch(folded) for one in self.patterns) else "")


def _folded(text: str) -> str:
    return " ".join(re.sub("_x000[aAdD]_", " ", text).split()).casefold()


@dataclass(slots=True)
class _Uses:
    """Where shared strings are used first, by their index, and the index of the string at the head of that column."""

    places: dict[int, str] = field(default_factory=dict[int, str])
    heads: dict[int, int] = field(default_factory=dict[int, int])


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the package. Raises `InvalidFile` with the place for one that is no xlsx."""
    package = Package(data, "xlsx")
    content = Content()
    read_properties(package, content, options.target)
    compared, uses = _Compared(), _Uses()
    _read_names(package, compared)
    targets = {one.id: one.target for one in package.relationships(package.main)}
    sheets: dict[str, str] = {}
    for element in package.elements(package.main, "x:sheet"):
        content.leave("workbook", "sheet_name", element.get("name"))
        if element.get("r:id") in targets:
            sheets[targets[element.get("r:id")]] = element.get("name")
    inline: list[tuple[PartReader, Element, str, str]] = []
    for part, sheet in sheets.items():
        inline += _read_sheet(PartReader(package, part, content, options.target, RULES), sheet, compared, uses)
    for name in package.typed(".sharedStrings+xml"):
        _read_strings(PartReader(package, name, content, options.target, RULES), compared, uses)
    for reader, element, place, context in inline:
        _add_string(reader, element, place, context, compared)
    _read_around(package, content, options, sheets)
    _leave_captions(package, content, sheets)
    for reason, what in (("table_header", "headers of tables"), ("compared", "texts that formulas or filters compare")):
        if count := content.left_counts[reason]:
            content.warnings.append(f"{count} {what} were not translated")
    return package.finish(content)


def _read_names(package: Package, compared: _Compared) -> None:
    """Collect what tables and pivot tables name, and literals in the names of the workbook."""
    for name in package.typed(".table+xml"):
        for element in package.elements(name, "x:tableColumn", "x:autoFilter"):
            compared.add((element.get("name"), element.get("totalsRowLabel")), "table_header")
            for one in element.walk():
                compared.add_formula(one.text)
                compared.add((one.get("val"),), "compared")
    for one in package.relationships(package.main):
        if one.type == "pivotCacheDefinition":
            for element in package.elements(one.target, "x:cacheField"):
                compared.add((element.get("name"),), "pivot_field")
    for element in package.elements(package.main, "x:definedName"):
        compared.add_formula(element.text)


def _read_sheet(
    reader: PartReader, sheet: str, compared: _Compared, uses: _Uses
) -> Iterator[tuple[PartReader, Element, str, str]]:
    """Read a sheet but for its strings, and yield those that are in its cells, with place and context."""
    heads: dict[str, int] = {}
    inline_heads: dict[str, str] = {}
    for element in reader.package.elements(reader.name, *_IN_SHEET):
        if element.name == "x:c":
            reference = element.get("r")
            place, column = f"{sheet}!{reference}", reference.rstrip("0123456789")
            if (formula := element.child("x:f")) is not None:
                compared.add_formula(formula.text)
            kind = element.get("t")
            if kind == "inlineStr" and (string := element.child("x:is")) is not None:
                head = inline_heads.setdefault(column, string.text[:100])
                yield reader, string, place, head if head != string.text else ""
            elif kind == "s" and (value := element.child("x:v")) is not None and value.text.strip()[:9].isdecimal():
                index = int(value.text.strip()[:9])
                head = heads.setdefault(column, index)
                if index not in uses.places:
                    uses.places[index], uses.heads[index] = place, head
        elif element.name == "x:headerFooter":
            for one in element.elements:
                _add_print_header(reader, one, f"{sheet}, {'header' if one.name.endswith('Header') else 'footer'}")
        else:
            _read_rule(reader, element, sheet, compared)


def _read_rule(reader: PartReader, element: Element, sheet: str, compared: _Compared) -> None:
    """Read a validation, a conditional format or a filter: what it compares, and what it says to people."""
    if element.name == "xm:f":
        compared.add_formula(element.text)
    for one in (element, *element.walk()):
        if one.name in ("x:formula", "x:formula1", "x:formula2"):
            compared.add_formula(one.text)
        compared.add((one.get("val"), one.get("text")), "compared")
    if element.name == "x:dataValidation":
        for name, most in _PROMPTS.items():
            place = f"{sheet}!{element.get('sqref')[:20]}, prompt"
            reader.add_attribute(element, name, place, compose=_cut_to(most, place))


def _read_strings(reader: PartReader, compared: _Compared, uses: _Uses) -> None:
    texts: dict[int, str] = {}  # of heads of columns
    heads = set(uses.heads.values())
    for index, element in enumerate(reader.package.elements(reader.name, "x:si")):
        if index in heads:
            texts[index] = element.text[:100]
        if index in uses.places:
            head = uses.heads[index]
            _add_string(reader, element, uses.places[index], texts.get(head, "") if head != index else "", compared)
        elif _WORD.search(element.text):
            reader.content.leave("shared strings", "unused", element.text)


def _add_string(reader: PartReader, element: Element, place: str, context: str, compared: _Compared) -> None:
    text = "".join(child.text for child in element.elements if child.name in ("x:t", "x:r"))
    if not _WORD.search(text):
        return
    reason = compared.reason(text)
    if reason:
        reader.content.leave(place, reason, text)
        return
    reader.last = -1  # cells do not follow each other
    reader.add_paragraph(element, place, context=context, limit=max(MOST_CHARACTERS_OF_CELL, len(text)))


def _add_print_header(reader: PartReader, element: Element, place: str) -> None:
    """Make a region of a print header, whose codes (`&P`, `&"Arial,Bold"`) are marks, and which `&L`, `&C`, `&R` divide."""
    source = reader.part.data[element.content : element.close].decode("utf-8")
    pieces: list[Piece] = []
    items: list[InlineItem] = []
    notation = partial(xml_notation, entities={"&amp;": "&amp;&amp;"})
    at = 0
    for found in _CODE.finditer(source):
        items += decoded(source[at : found.start()], Place(xml=True))
        items.append(InlineItem("single", found[0]))
        if found["section"]:
            pieces += build(items, notation=notation)
            items = []
        at = found.end()
    items += decoded(source[at:], Place(xml=True))
    pieces += build(items, notation=notation)
    found, compose = reader.content.add(pieces, place), _cut_to(_MOST_CHARACTERS_OF_HEADER, place)
    reader.part.regions.append(Region(element.content, element.close, found, compose))


def _cut_to(most: int, place: str) -> Compose:
    """Write at most so many characters, in the notation of XML."""

    def compose(text: str, _: object, warn: Callable[[str], None]) -> str:
        found = _CHARACTER.findall(text)
        if len(found) <= most:
            return text
        warn(f"{place}: a translation of {len(found)} characters was cut to the {most} that Excel reads")
        return "".join(found[:most])

    return compose


_TEXT_BOX = re.compile(r"<(?:\w+:)?textbox\b(?P<text>[^<]*+(?:<(?!/(?:\w+:)?textbox\b)[^<]*+)*+)")
_TAGS = re.compile(r"^[^<>]*+>|<[^<>]*+>")


def _leave_captions(package: Package, content: Content, sheets: dict[str, str]) -> None:
    """Report the captions of buttons and other controls, which are in VML: it is not always XML."""
    for part, sheet in sheets.items():
        for name in (one.target for one in package.relationships(part) if one.type == "vmlDrawing"):
            for box in _TEXT_BOX.finditer(package.archive.read(name).decode("utf-8", "replace")):
                caption = " ".join(unescape(_TAGS.sub(" ", box["text"])).split())
                if any(map(str.isalpha, caption)):
                    content.leave(f"{sheet}, control", "caption", caption)


def _read_around(package: Package, content: Content, options: ReadOptions, sheets: dict[str, str]) -> None:
    """Read what lies on sheets: shapes, charts, comments."""
    places: dict[str, str] = {}
    for part, sheet in sheets.items():
        for one in package.relationships(part):
            places.setdefault(one.target, sheet)
            for chart in package.relationships(one.target) if one.type == "drawing" else ():
                places.setdefault(chart.target, f"{sheet}, chart")
    for name in package.typed(".drawing+xml"):
        read_shapes(PartReader(package, name, content, options.target), f"{places.get(name, 'sheet')}, shape")
    read_drawings(package, content, options.target, places)
    for name in (*package.typed(".comments+xml"), *package.typed(".threadedcomments+xml")):
        reader = PartReader(package, name, content, options.target, RULES)
        for element in package.elements(name, "x:comment", "tc:threadedComment"):
            text = element.child("x:text") or element.child("tc:text")
            place = f"{places.get(name, 'sheet')}!{element.get('ref')}, comment"
            if text is None or text.text.startswith("[Threaded comment]"):  # a notice of Excel's own
                continue
            if not options.comments:
                content.leave(place, "comment", text.text)
            elif text.name == "x:text":
                reader.add_paragraph(text, place)
            else:
                reader.add_text(text, place)
