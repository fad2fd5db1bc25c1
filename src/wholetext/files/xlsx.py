"""Reads xlsx and its variants: each shared string once, strings in cells, print headers, prompts, shapes, charts, comments.

What the workbook compares or looks up by name stays in the source's language, and is reported: headers of tables and of pivot
tables, texts that formulas compare or put together, lists of validations, filters. So do names of sheets, which formulas use.
Texts that formulas result in go: programs compute them when they open the workbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from functools import partial
from html import unescape
from typing import TypeAlias

from wholetext.files.boxes import Boxes
from wholetext.files.content import Content, ReadOptions, Region
from wholetext.files.drawingml import ESCAPES, PartReader, cut_to, read_drawings, read_properties, read_shapes
from wholetext.files.opc import Package, insert_attribute, replace_attribute
from wholetext.files.runs import RunRules, xml_notation
from wholetext.files.values import reason_to_leave
from wholetext.files.xmlpart import Element, written_prefix
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Piece, Verbatim
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
_LITERAL = re.compile(r'"((?:[^"]|"")*)"')
_MOST_BLANKS = 20  # beside an operator
_OPERATOR = re.compile(r"[<>=]+")
_CODE = re.compile(
    r"&amp;(?:(?P<section>[LCR])|(?:\"|&quot;).*?(?:\"|&quot;)|K(?:\w{6}|\d\d[+-]\d{3})|\d+|[A-Z]|&amp;)"
)
_PROMPTS = {"promptTitle": 32, "prompt": 255, "errorTitle": 32, "error": 255}
"""With the most characters that Excel reads: it calls a workbook with more of them damaged."""
_MOST_CHARACTERS_OF_HEADER = 255
_VALIDATIONS = ("x:dataValidation", "x14:dataValidation")
_IN_SHEET = ("x:c", *_VALIDATIONS, "x:cfRule", "x:autoFilter", "x:headerFooter", "x:hyperlink", "xm:f")
_BEFORE_CALCULATION = ("x:sheets", "x:functionGroups", "x:externalReferences", "x:definedNames")
"""What comes before the settings of calculation in a workbook, as the schema has it."""
_OUTSIDE = re.compile(r"\[\d+\]|\b(?:CUBE\w+|RTD|WEBSERVICE)\(|_xl[a-z]{1,4}\.", re.IGNORECASE)
"""A formula whose result comes from outside of the workbook, where it may not be found again, or has a function of newer
versions or of an add-in, which other programs do not have."""


@dataclass(slots=True)
class _Compared:
    """Texts that the workbook compares with cells, folded, each with the reason why it stays; and patterns with wildcards."""

    reasons: dict[str, str] = field(default_factory=dict[str, str])
    patterns: list[re.Pattern[str]] = field(default_factory=lambda: list[re.Pattern[str]]())

    def add(self, texts: Iterable[str], reason: str) -> None:
        for text in texts:
            self.reasons.setdefault(_folded(text), reason)

    def add_formula(self, formula: str) -> None:
        for literal in filter(None, _LITERAL.findall(formula)):
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
    has_formulas: bool = False
    literals: set[str] = field(default_factory=set[str])  # of formulas, which are reported once


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the package. Raises `InvalidFile` with the place for one that is no xlsx."""
    package = Package(data, "xlsx")
    content = Content()
    read_properties(package, content, options.target)
    compared, uses = _Compared(), _Uses()
    _read_names(package, compared)
    _read_pivot_tables(package, compared, content)
    targets = {one.id: one.target for one in package.relationships(package.main)}
    sheets: dict[str, str] = {}
    for element in package.elements(package.main, "x:sheet"):
        content.leave("workbook", "sheet_name", element.get("name"))
        if element.get("r:id") in targets:
            sheets[targets[element.get("r:id")]] = element.get("name")
    inline: list[_String] = []
    for part, sheet in sheets.items():
        inline += _read_sheet(PartReader(package, part, content, options.target, RULES), sheet, compared, uses)
    for name in package.typed(".sharedStrings+xml"):
        _read_strings(PartReader(package, name, content, options.target, RULES), compared, uses)
    for reader, element, place, context in inline:
        _add_string(reader, element, place, context, compared)
    if uses.has_formulas:
        _calculate_on_load(package)
    _read_around(package, content, options, sheets)
    _leave_captions(package, content, sheets)
    _leave_formats(package, content)
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


def _read_pivot_tables(package: Package, compared: _Compared, content: Content) -> None:
    """Collect and report the captions of pivot tables and of the fields that they compute, which programs write into cells."""
    for name in package.typed(".pivottable+xml"):
        for element in package.elements(name, "x:pivotTableDefinition"):
            fields = [one.get("name") for one in element.walk() if one.name == "x:dataField"]
            compared.add(fields, "pivot_field")
            captions = [value for key, value in element.attributes.items() if key.endswith("Caption")]
            for caption in filter(_WORD.search, (*captions, *fields)):
                content.leave(f"pivot table {element.get('name')[:40]}", "pivot_field", caption)


_String: TypeAlias = tuple[PartReader, Element, str, str]
"""A string in a cell: its part, its element, its place and what is said around it."""


def _read_sheet(reader: PartReader, sheet: str, compared: _Compared, uses: _Uses) -> Iterator[_String]:
    """Read a sheet but for its strings, and yield those that are in its cells."""
    cells = _Cells(reader, sheet, compared, uses)
    for element in reader.package.elements(reader.name, *_IN_SHEET):
        if element.name == "x:c":
            yield from cells.read(element)
        elif element.name == "x:hyperlink":
            reader.add_attribute(element, "tooltip", f"{sheet}!{element.get('ref')[:20]}, tip of a link")
        elif element.name == "x:headerFooter":
            for one in element.elements:
                _add_print_header(reader, one, f"{sheet}, {'header' if one.name.endswith('Header') else 'footer'}")
        else:
            _read_rule(reader, element, sheet, compared)


@dataclass(slots=True)
class _Cells:
    """Reads the cells of one sheet, one after the other."""

    reader: PartReader
    sheet: str
    compared: _Compared
    uses: _Uses
    heads: dict[str, int] = field(default_factory=dict[str, int])  # indexes of shared strings, by column
    inline_heads: dict[str, str] = field(default_factory=dict[str, str])
    has_arrays: bool = False  # whose results are in cells without a formula, too
    from_outside: set[str] = field(default_factory=set[str])  # indexes of shared formulas, and `array` for any array

    def read(self, cell: Element) -> Iterator[_String]:
        """Note which shared string a cell shows, and what its formula compares; yield its own string."""
        reference = cell.get("r")
        place, column = f"{self.sheet}!{reference}", reference.rstrip("0123456789")
        kind, formula, value = cell.get("t"), cell.child("x:f"), cell.child("x:v")
        if formula is not None:
            self._read_formula(formula, place)
        if kind == "inlineStr" and (string := cell.child("x:is")) is not None:
            head = self.inline_heads.setdefault(column, string.text[:100])
            yield self.reader, string, place, head if head != string.text else ""
        elif kind == "str" and value is not None and (formula is not None or self.has_arrays):
            self._drop_result(value, formula, place)
        elif kind == "str" and value is not None:  # as some programs write texts
            yield self.reader, value, place, ""
        elif kind == "s" and value is not None and value.text.strip()[:9].isdecimal():
            index = int(value.text.strip()[:9])
            head = self.heads.setdefault(column, index)
            if index not in self.uses.places:
                self.uses.places[index], self.uses.heads[index] = place, head

    def _read_formula(self, formula: Element, place: str) -> None:
        self.uses.has_formulas = True
        self.compared.add_formula(formula.text)
        self.has_arrays |= formula.get("t") == "array"
        if _OUTSIDE.search(formula.text) and (shared := self._shared(formula)):
            self.from_outside.add(shared)
        for text in _shown_literals(formula.text):
            if text not in self.uses.literals and reason_to_leave(text) is None:
                self.uses.literals.add(text)
                self.reader.content.leave(place, "formula", text)

    def _shared(self, formula: Element | None) -> str:
        return "array" if formula is None or formula.get("t") == "array" else formula.get("si")

    def _drop_result(self, value: Element, formula: Element | None, place: str) -> None:
        """Drop a text that a formula results in: the program computes it anew where it is missing. What a program may not be
        able to compute is left; Excel computes it, too."""
        is_from_outside = self._shared(formula) in self.from_outside
        if not (is_from_outside or (formula is not None and _OUTSIDE.search(formula.text))):
            self.reader.part.regions.append(Region(value.start, value.end, ()))
        elif any(map(str.isalpha, value.text)):
            self.reader.content.leave(place, "formula", value.text)


def _shown_literals(formula: str) -> Iterator[str]:
    """Yield the texts in a formula that are no side of a comparison."""
    for found in _LITERAL.finditer(formula):
        before = formula[max(found.start() - _MOST_BLANKS, 0) : found.start()].rstrip()
        after = formula[found.end() : found.end() + _MOST_BLANKS].lstrip()
        if not before.endswith(("<", ">", "=")) and not after.startswith(("<", ">", "=")):
            yield found[1].replace('""', '"')


def _calculate_on_load(package: Package) -> None:
    """Let the program compute all formulas when it opens the workbook: they may refer to texts."""
    part, before = package.part(package.main), None
    for element in package.elements(package.main, *_BEFORE_CALCULATION, "x:calcPr"):
        if element.name != "x:calcPr":
            before = element
        elif "fullCalcOnLoad" in element.attributes:
            replace_attribute(part, element, "fullCalcOnLoad", "1")
        else:
            insert_attribute(part, element, "fullCalcOnLoad", "1")
        if element.name == "x:calcPr":
            return
    if before is not None:
        added = f'<{written_prefix(part.data, before)}calcPr fullCalcOnLoad="1"/>'
        part.regions.append(Region(before.end, before.end, (Verbatim(added),)))


def _read_rule(reader: PartReader, element: Element, sheet: str, compared: _Compared) -> None:
    """Read a validation, a conditional format or a filter: what it compares, and what it says to people."""
    for one in (element, *element.walk()):
        if one.name in ("x:formula", "x:formula1", "x:formula2", "xm:f"):
            compared.add_formula(one.text)
        compared.add((one.get("val"), one.get("text")), "compared")
    if element.name in _VALIDATIONS:
        if (
            element.get("type") == "list"
            and (listed := element.child("x:formula1"))
            and _LITERAL.fullmatch(listed.text)
            and listed.text.strip('"')
        ):
            reader.content.leave(f"{sheet}!{element.get('sqref')[:20]}, list", "compared", listed.text.strip('"'))
        cells = element.get("sqref") or (one.text if (one := element.child("xm:sqref")) else "")
        for name, most in _PROMPTS.items():
            place = f"{sheet}!{cells[:20]}, prompt"
            reader.add_attribute(element, name, place, compose=cut_to(most, place))


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
    text = "".join(child.text for child in element.elements if child.name in ("x:t", "x:r")) or element.text
    if not _WORD.search(text):
        return
    reason = compared.reason(text)
    if reason:
        reader.content.leave(place, reason, text)
        return
    reader.last = -1  # cells do not follow each other
    if element.name == "x:v":
        reader.add_text(element, place, context)
        return
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
    found, compose = reader.content.add(pieces, place), cut_to(_MOST_CHARACTERS_OF_HEADER, place)
    reader.part.regions.append(Region(element.content, element.close, found, compose))


_TEXT_BOX = re.compile(r"<(?:\w+:)?textbox\b(?P<text>[^<]*+(?:<(?!/(?:\w+:)?textbox\b)[^<]*+)*+)")
_TAGS = re.compile(r"^[^<>]*+>|<[^<>]*+>")


def _leave_captions(package: Package, content: Content, sheets: dict[str, str]) -> None:
    """Report what buttons and lists show: captions are in VML, which is not always XML, and lists may be compared."""
    for part, sheet in sheets.items():
        for name in (one.target for one in package.relationships(part) if one.type == "ctrlProp"):
            for item in package.elements(name, "x14:item"):
                if any(map(str.isalpha, item.get("val"))):
                    content.leave(f"{sheet}, control", "caption", item.get("val"))
        for name in (one.target for one in package.relationships(part) if one.type == "vmlDrawing"):
            for box in _TEXT_BOX.finditer(package.archive.read(name).decode("utf-8", "replace")):
                caption = " ".join(unescape(_TAGS.sub(" ", box["text"])).split())
                if any(map(str.isalpha, caption)):
                    content.leave(f"{sheet}, control", "caption", caption)


def _leave_formats(package: Package, content: Content) -> None:
    """Report words in formats of numbers, which cells show beside the number, and captions of slicers."""
    for name in package.typed(".styles+xml"):
        for element in package.elements(name, "x:numFmt"):
            if _WORD.search(words := " ".join(_LITERAL.findall(element.get("formatCode")))):
                content.leave("styles", "number_format", words)
    for name in package.typed(".slicer+xml"):
        for element in package.elements(name, "x14:slicer"):
            if _WORD.search(element.get("caption")):
                content.leave("slicer", "caption", element.get("caption"))


def _read_around(package: Package, content: Content, options: ReadOptions, sheets: dict[str, str]) -> None:
    """Read what lies on sheets: shapes, charts, comments."""
    places: dict[str, str] = {}
    for part, sheet in sheets.items():
        for one in package.relationships(part):
            places.setdefault(one.target, sheet)
            for chart in package.relationships(one.target) if one.type == "drawing" else ():
                places.setdefault(chart.target, f"{sheet}, chart")
    for name in package.typed(".drawing+xml"):
        reader = PartReader(package, name, content, options.target)
        read_shapes(reader, f"{places.get(name, 'sheet')}, shape", boxes=Boxes(size=11.0))
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
