"""Reads docx and its variants: body, headers, footers, notes, text boxes, SmartArt, charts, alternative texts, comments.

Results of fields that Word computes, hidden and deleted text are left.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from wholetext.files.boxes import word_fitting
from wholetext.files.content import Content, Part, ReadOptions, Region, keep_nothing
from wholetext.files.drawingml import (
    LINKS,
    SYMBOL_FONTS,
    PartReader,
    cut_to,
    read_drawings,
    read_properties,
)
from wholetext.files.opc import Package, insert_attribute, office_tag, replace_attribute
from wholetext.files.runs import Leaf, RunRules
from wholetext.files.values import reason_to_leave
from wholetext.files.xmlpart import Element, written_prefix
from wholetext.languages import is_cjk, is_right_to_left
from wholetext.markup import html
from wholetext.markup.marks import Verbatim

_TRANSLATED_FIELDS = frozenset({"HYPERLINK", "FORMTEXT", "TOC"})
"""Fields whose result is text of people; of all others Word computes it."""

_STORIES = (".header+xml", ".footer+xml", ".footnotes+xml", ".endnotes+xml")
_STYLES = (".styles+xml", ".stylesWithEffects+xml", ".settings+xml", ".numbering+xml")
_LANGUAGES = frozenset({"w:lang", "w:themeFontLang"})
_DIRECTIONS = frozenset({"w:bidi", "w:rtl", "w:bidiVisual"})
_HAS_LANGUAGE = re.compile(rb"lang|bidi|rtl")
_BEFORE_BIDI_VISUAL = frozenset({"w:tblStyle", "w:tblpPr", "w:tblOverlap"})
_BEFORE_BIDI = frozenset(
    f"w:{name}"
    for name in re.findall(
        r"\w+",
        "pStyle keepNext keepLines pageBreakBefore framePr widowControl numPr suppressLineNumbers pBdr shd tabs "
        "suppressAutoHyphens kinsoku wordWrap overflowPunct topLinePunct autoSpaceDE autoSpaceDN",
    )
)
"""What comes before the direction in the properties of a paragraph, as the schema has it."""
_BEFORE_RTL = frozenset(
    f"w:{name}"
    for name in re.findall(
        r"\w+",
        "rStyle rFonts b bCs i iCs caps smallCaps strike dstrike outline shadow emboss imprint noProof snapToGrid vanish "
        "webHidden color spacing w kern position sz szCs highlight u effect bdr shd fitText vertAlign",
    )
)

_BINDINGS = ("w:dataBinding", "w15:dataBinding")
"""Where Word takes the text of a content control from, instead of from the document: properties, or data in the package."""

_OF_FORM_FIELDS = {"w:helpText": 255, "w:statusText": 138, "w:listEntry": 50, "w:default": 255}
"""What form fields show, with the most characters that Word reads."""
_WORDS_OF_CODE = re.compile(
    r"\s*(?i:(?:HYPERLINK\b.*\\o|(?:ASK|FILLIN|IF|TC|XE)\b)(.*)|MACROBUTTON\s+\S+\s+(.*?)\s*)", re.DOTALL
)
_QUOTED = re.compile(r"[\"\u201c\u201d]([^\"\u201c\u201d]+)[\"\u201c\u201d]")
_WORD = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NUMBER = re.compile(r"%\d")
"""Of the text of a numbering: where the number of a level comes."""

_OFF = frozenset({"0", "false", "off"})


def _opaque(properties: Element) -> str:
    hidden = properties.child("w:vanish")
    if hidden is not None and hidden.get("w:val") not in _OFF:
        return "hidden"
    fonts = properties.child("w:rFonts")
    if fonts is not None and fonts.get("w:ascii").lower() in SYMBOL_FONTS:
        return "symbol"
    return ""


RULES = RunRules(
    run="w:r",
    properties="w:rPr",
    text="w:t",
    pairs={
        **dict.fromkeys(("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:customXml"), ""),
        **dict.fromkeys(("w:dir", "w:bdo", "w:fldSimple"), ""),
        "w:sdt": "w:sdtContent",
    },
    breaks={"w:br", "w:cr"},
    cuts={"w:tab", "w:ptab"},
    invisible={"w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen", "w:smartTagPr", "w:customXmlPr"},
    shown={"w:noBreakHyphen": "\u2011"},
    ignored={"w:lang", "w:noProof", "w:rsid", "w:webHidden", "w:rtl"},
    ignored_attributes={"w:hint"},
    opaque=_opaque,
)


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the package. Raises `InvalidFile` with the place for one that is no docx."""
    package = Package(data, "docx")
    content = Content()
    read_properties(package, content, options.target)
    _Story(package, package.main, content, options.target, "").read()
    for name in [name for ending in _STORIES for name in package.typed(ending)]:
        _Story(package, name, content, options.target, f"{_stem(name)} ").read()
    for name in package.typed(".comments+xml"):
        if options.comments:
            _Story(package, name, content, options.target, "comment ").read()
        else:
            for comment in package.elements(name, "w:comment"):
                content.leave("comments", "comment", comment.text)
    read_drawings(package, content, options.target, {})
    _read_html(package, content)
    for name in [name for ending in _STYLES for name in package.typed(ending)]:
        for element in package.elements(name, *_LANGUAGES, *_DIRECTIONS):
            _set_language(package.part(name), element, options.target)
    for name in package.typed(".numbering+xml"):
        _read_numbering(PartReader(package, name, content, options.target))
    return package.finish(content)


def _read_numbering(reader: PartReader) -> None:
    """Read what lists write beside their numbers, such as `Chapter %1:`; a bullet is a sign of its font."""
    for number, level in enumerate(reader.package.elements(reader.name, "w:lvl"), 1):
        kind, text = level.child("w:numFmt"), level.child("w:lvlText")
        if text is not None and _WORD.search(text.get("w:val")) and (kind is None or kind.get("w:val") != "bullet"):
            reader.add_attribute(text, "w:val", f"numbering, level {number}", codes=_NUMBER)


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _read_html(package: Package, content: Content) -> None:
    """Read parts of HTML that Word inserts when it opens the document (`w:altChunk`)."""
    for name in (*package.typed("text/html"), *package.typed("xhtml+xml")):
        part = package.part(name)
        pieces = html.pieces(part.data.decode("utf-8"), keep_nothing)
        part.regions.append(Region(0, len(part.data), content.add(pieces, _stem(name))))


def _set_language(part: Part, element: Element, target: str) -> None:
    """Set the language of an element, or switch off the direction of a language that is written from right to left."""
    from_right = is_right_to_left(target)
    if element.name in _LANGUAGES:
        name = "w:eastAsia" if is_cjk(target) else "w:bidi" if from_right else "w:val"
        replace_attribute(part, element, name, office_tag(target))
    elif element.name in _DIRECTIONS and not from_right and element.get("w:val") not in _OFF:
        if "w:val" in element.attributes:
            replace_attribute(part, element, "w:val", "0")
        else:
            insert_attribute(part, element, f"{written_prefix(part.data, element)}val", "0")


def _add_direction(part: Part, element: Element, properties: str, direction: str, before: frozenset[str]) -> None:
    """Write a paragraph, a run or a table from right to left: `direction` comes into its properties, behind `before`."""
    found = element if element.name == properties else element.child(properties)
    prefix = written_prefix(part.data, element)
    added = f"<{prefix}{direction[2:]}/>"
    if found is None:
        added = f"<{prefix}{properties[2:]}>{added}</{prefix}{properties[2:]}>"
        part.regions.append(Region(element.content - 1, element.content, (Verbatim(f">{added}"),)))
    elif (own := found.child(direction)) is not None:
        if own.get("w:val") in _OFF:
            replace_attribute(part, own, "w:val", "1")
    elif found.content != found.end:
        following = next((child.start for child in found.elements if child.name not in before), found.close)
        part.regions.append(Region(following, following + 1, (Verbatim(f"{added}<"),)))


@dataclass(slots=True)
class _Field:
    """A field that has begun: the depth and the place among leaves of its beginning, its code, the name of its pair."""

    depth: int
    start: int
    code: str = ""
    in_code: bool = True
    pair: str = ""

    @property
    def opaque(self) -> bool:
        return self.in_code or (self.code.split() or [""])[0].upper() not in _TRANSLATED_FIELDS


class _Story:
    """Reads the paragraphs of a part, one after the other. Fields may begin in one and end in another."""

    def __init__(self, package: Package, name: str, content: Content, target: str, label: str) -> None:
        self._reader = PartReader(package, name, content, target, RULES)
        self._label = label
        self._count = 0
        self._pairs = 0
        self._place = ""
        self._fields: list[_Field] = []
        self._boxes: deque[tuple[list[Element], str, dict[str, int]]] = deque()

    def read(self) -> None:
        reader = self._reader
        for element in reader.package.elements(reader.name, "w:p", "w:tblPr", "w:sdtPr"):
            if element.name == "w:tblPr":
                self._table(element)
                continue
            if element.name == "w:sdtPr":
                self._control(element, f"{self._label}paragraph {self._count + 1}", unbound=True)
                continue
            self._count += 1
            self._paragraph(element, f"{self._label}paragraph {self._count}", None)
        while self._boxes:
            paragraphs, place, copies = self._boxes.popleft()
            self._fields = []
            for element in paragraphs:
                if element.name == "w:p":
                    self._paragraph(element, place, copies)
                else:
                    drawing = PartReader(reader.package, reader.name, reader.content, reader.target)
                    drawing.add_paragraph(element, place, copies=copies)

    def _table(self, element: Element) -> None:
        reader = self._reader
        if is_right_to_left(reader.target):
            _add_direction(reader.part, element, "w:tblPr", "w:bidiVisual", _BEFORE_BIDI_VISUAL)
        for one in element.elements:
            if one.name in ("w:tblCaption", "w:tblDescription"):
                reader.add_attribute(one, "w:val", f"{self._label}paragraph {self._count + 1}, alternative text")
            _set_language(reader.part, one, reader.target)

    def _paragraph(self, element: Element, place: str, copies: dict[str, int] | None) -> None:
        reader = self._reader
        self._place = place
        units = len(reader.content.units)
        for leaf in reader.add_paragraph(element, place, copies=copies, change=self._changed):
            name = leaf.element.name
            if leaf.kind == "open" and name == "w:hyperlink":
                reader.add_attribute(leaf.element, "w:tooltip", place)
            elif leaf.kind == "open" and name == "w:sdt" and (properties := leaf.element.child("w:sdtPr")) is not None:
                self._control(properties, place, unbound=any(map(str.isalpha, leaf.element.text)))
            elif name == "w:fldChar" and (field := leaf.element.child("w:ffData")) is not None:
                self._form_field(field, place)
            elif leaf.kind == "single" and name in ("w:drawing", "w:pict", "w:object", "mc:AlternateContent"):
                self._embedded(leaf.element, place, copies)
            elif leaf.kind == "single" and name in ("m:oMath", "m:oMathPara"):
                self._leave_words(leaf.element, place)
        if _HAS_LANGUAGE.search(reader.part.data, element.start, element.end):
            for one in element.walk("w:p"):
                _set_language(reader.part, one, reader.target)
        if units != len(reader.content.units) and is_right_to_left(reader.target):
            self._direct_right_to_left(element)

    def _leave_words(self, formula: Element, place: str) -> None:
        """Report the words in a formula, which are not in its variables' script."""
        words = [one.text for one in formula.walk() if one.name == "m:r" and any(e.name == "m:nor" for e in one.walk())]
        if _WORD.search(text := " ".join(words)):
            self._reader.content.leave(place, "formula", text)

    def _embedded(self, element: Element, place: str, copies: dict[str, int] | None) -> None:
        """Read a drawing: its alternative text now, its text boxes after the story."""
        copies = {} if copies is None else copies
        paragraphs: list[Element] = []
        self._boxes.append((paragraphs, f"{place}, text box", copies))
        for one in element.walk("w:p", "a:p"):
            if one.name in ("w:p", "a:p"):
                paragraphs.append(one)
            elif one.name == "w:sdtPr":
                self._control(one, place, unbound=True)
            elif one.name == "wps:wsp" and (region := word_fitting(self._reader.part.data, one, place)) is not None:
                self._reader.part.regions.append(region)
            elif one.name in LINKS:
                self._reader.add_attribute(one, "tooltip", f"{place}, tip of a link", copies)
            elif one.name == "wp:docPr" or one.name.endswith(":cNvPr"):
                self._reader.add_alternative_text(one, place, copies)
            elif one.name == "v:textpath":
                self._reader.add_attribute(one, "string", f"{place}, text box", copies)
            elif one.name in ("v:shape", "v:rect", "v:roundrect", "v:oval", "v:group"):
                self._reader.add_attribute(one, "alt", f"{place}, alternative text", copies)

    def _direct_right_to_left(self, paragraph: Element) -> None:
        part = self._reader.part
        _add_direction(part, paragraph, "w:pPr", "w:bidi", _BEFORE_BIDI)
        for one in paragraph.walk("w:p"):
            if one.name == "w:r" and one.child("w:t"):
                _add_direction(part, one, "w:rPr", "w:rtl", _BEFORE_RTL)

    def _control(self, properties: Element, place: str, *, unbound: bool) -> None:
        """Read the choices of a content control. `unbound`: drop where Word takes its text from, properties or data in the
        package: it would show these, which are not translated, in place of the text."""
        for one in properties.walk():
            if one.name in _BINDINGS and unbound:
                self._reader.part.regions.append(Region(one.start, one.end, ()))
            elif one.name == "w:listItem" and "w:value" in one.attributes:
                self._reader.add_attribute(one, "w:displayText", f"{place}, choice")
            elif one.name == "w:alias" and any(map(str.isalpha, one.get("w:val"))):
                self._reader.content.leave(place, "control", one.get("w:val"))
            if one.name == "w:listItem" and not one.get("w:displayText") and any(map(str.isalpha, one.get("w:value"))):
                self._reader.content.leave(place, "value", one.get("w:value"))

    def _form_field(self, field: Element, place: str) -> None:
        """Read what a form field shows: its choices, its help, the text that it has at first."""
        for one in field.walk():
            if one.name in _OF_FORM_FIELDS and not (one.name == "w:default" and one.get("w:val").isdigit()):
                where = f"{place}, form field"
                self._reader.add_attribute(one, "w:val", where, compose=cut_to(_OF_FORM_FIELDS[one.name], where))

    # -- fields

    def _changed(self, leaves: list[Leaf]) -> Iterator[Leaf]:
        """Yield a paragraph's leaves: codes and computed results of fields as singles, tags of other fields as pairs."""
        changed: list[Leaf] = []
        for field in self._fields:
            field.start = -1  # in a paragraph before
        for leaf in leaves:
            name = leaf.element.name
            if name == "w:fldChar":
                self._field_character(leaf, changed)
                continue
            if name == "w:fldSimple" and leaf.kind == "open":
                self._fields.append(_Field(leaf.depth, -1, leaf.element.get("w:instr"), in_code=False))
            elif name == "w:fldSimple" and self._fields:
                self._leave_words_of_code(self._fields.pop().code)
            elif name == "w:instrText" and self._fields:
                self._fields[-1].code += leaf.element.text
            changed.append(self._closed(leaf))
        return iter(changed)

    def _field_character(self, leaf: Leaf, changed: list[Leaf]) -> None:
        kind = leaf.element.get("w:fldCharType")
        if kind == "begin":
            self._fields.append(_Field(leaf.depth, len(changed)))
        elif kind == "separate" and self._fields:
            field = self._fields[-1]
            field.in_code = False
            since = changed[field.start :] if field.start >= 0 else []
            if since and not field.opaque and field.depth == leaf.depth and all(one.kind == "single" for one in since):
                self._pairs += 1
                field.pair = f"field{self._pairs}"
                opening = Leaf("open", leaf.element, leaf.span, leaf.run, pair=field.pair, depth=leaf.depth)
                opening.parts = [*since, leaf]
                changed[field.start :] = [opening]
                return
        elif kind == "end" and self._fields:
            field = self._fields.pop()
            self._leave_words_of_code(field.code)
            if field.pair and field.start >= 0 and field.depth == leaf.depth:
                closing = Leaf("close", leaf.element, leaf.span, leaf.run, pair=field.pair, depth=leaf.depth)
                closing.parts = [leaf]
                changed.append(closing)
                return
        changed.append(leaf)

    def _leave_words_of_code(self, code: str) -> None:
        """Report what the code of a field has Word show: tips, prompts, entries of an index, the texts of a condition."""
        found = _WORDS_OF_CODE.fullmatch(code)
        if found is None:
            return
        for text in _QUOTED.findall(found[1]) if found[2] is None else (found[2],):
            if reason_to_leave(text) is None:
                self._reader.content.leave(self._place, "field", text)

    def _closed(self, leaf: Leaf) -> Leaf:
        """Return the leaf, as a single if it is in a field that is not translated; report what is left."""
        element = leaf.element
        reason = leaf.run.opaque if leaf.run and element.name == "w:t" else ""
        if any(field.opaque for field in self._fields):
            reason = "field" if leaf.kind == "text" else ""
            if leaf.kind in ("text", "break", "cut"):
                end = element.end if leaf.kind == "text" else leaf.span[1]
                leaf = Leaf("single", element, (leaf.span[0], end), leaf.run, depth=leaf.depth)
        if element.name in ("w:del", "w:moveFrom"):
            reason = "deleted"
        elif leaf.kind == "single" and element.name in RULES.pairs:
            reason = "nested"
        if reason and any(map(str.isalpha, element.text)):
            self._reader.content.leave(self._place, reason, element.text)
        return leaf
