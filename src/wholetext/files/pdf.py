"""Reads the text of a PDF as headings and paragraphs, to be written as docx or md: a PDF has only glyphs at places, so its
layout is not kept.

pypdfium2, an extra of this package, gives the glyphs in the order in which the file draws them. Their places and sizes tell
lines, paragraphs and headings. What stands on many pages at the same height, such as page numbers, is left.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from math import pi
from operator import sub
from statistics import median
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZipFile, ZipInfo

from wholetext import languages
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files.content import Content, Part, ReadOptions, Region, RegionPiece, keep_nothing
from wholetext.markup import markdown
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.notation import BlockBuilder, EntityNotation, Place, decoded

_HYPHEN = "\x02"  # what PDFium gives for a hyphen at the end of a line
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ue000-\uf8ff\ufffd-\uffff]")
_BULLET = re.compile(r"[•◦▪‣●○■□➢➤\uf0b7*–—-]\s+(?=\S)")
_NUMBERED = re.compile(r"(?:\(?\d{1,3}|\(?[A-Za-z])[.)]\s|\d{1,3}(?:\.\d{1,3})+\.?\s")
_LEADERS = re.compile(r"(?:\.\s?){4,}")
_SENTENCE_END = re.compile(r"[.!?:;…。！？：؟।]['\"”’»)\]]*\d{0,2}$")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_WORD = re.compile(r"\w+(?:-\w+)*")
_MOST_HEADING_CHARACTERS = 200
_FEWEST_PAGES = 3  # on which a line must stand to be a header or a footer
_PASSWORD = 4  # PDFium's error code
_DOCUMENT = "word/document.xml"


@dataclass(slots=True)
class _Line:
    """A line of text, in points from the lower left corner of its page. `size` is the height of its glyphs."""

    text: str
    left: float
    bottom: float
    right: float
    size: float
    level: bool  # horizontal, as most lines of its page
    hyphen: bool  # ends with one that PDFium takes for a word's division

    @property
    def width(self) -> float:
        return self.right - self.left


@dataclass(slots=True)
class _Page:
    number: int
    lines: list[_Line]
    has_image: bool


@dataclass(slots=True)
class _Paragraph:
    page: int
    lines: list[_Line] = field(default_factory=lambda: list[_Line]())
    level: int = 0  # of a heading

    @property
    def size(self) -> float:
        return self.lines[0].size


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the text. Raises `InvalidFile` for an encrypted, damaged or scanned file, `UnsupportedFile` without pypdfium2."""
    content = Content()
    pages = list(_pages(data))
    _check_text(pages)
    _leave_repeated(pages, content)
    words = Counter(word for page in pages for line in page.lines for word in _WORD.findall(line.text))
    paragraphs = _paragraphs(pages)
    _set_levels(paragraphs)
    for page in pages:
        if not page.lines and page.has_image:
            content.leave(f"page {page.number}", "image", "a page without text")
    as_docx = options.output != "md"
    pieces: list[RegionPiece] = []
    counts = Counter[int]()
    for paragraph in paragraphs:
        text = _text(paragraph, words)
        counts[paragraph.page] += 1
        place = f"page {paragraph.page}, paragraph {counts[paragraph.page]}"
        written = (_docx_pieces if as_docx else _markdown_pieces)(text, paragraph.level)
        pieces += content.add(written, place, follows=bool(content.units))
    content.warnings.append(
        f"the layout of the PDF is not kept: the {'docx' if as_docx else 'md'} file has its text alone"
    )
    if as_docx:
        content.new_package, document, at = _new_docx(options.target)
        content.parts.append(Part(_DOCUMENT, document, regions=[Region(at, at, tuple(pieces))]))
    else:
        content.parts.append(Part("", b"\n", regions=[Region(0, 1, tuple(pieces))]))
    return content


# ---- lines


def _pages(data: bytes) -> Iterator[_Page]:
    try:
        pdfium: Any = import_module("pypdfium2")
    except ImportError:
        raise UnsupportedFile("PDF needs the extra `pdf`: pip install pypdfium2", param="file") from None
    number = 0
    try:
        document = pdfium.PdfDocument(data)
        try:
            for number in range(1, len(document) + 1):
                page = document[number - 1]
                images = page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
                yield _Page(number, list(_lines(page, pdfium.raw)), next(images, None) is not None)
                page.close()
        finally:
            document.close()
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD:
            message = "the PDF is protected by a password: remove it and send the file again"
        else:
            message = f"page {number} of the PDF cannot be read" if number else "the file is not a PDF, or is damaged"
        raise InvalidFile(message, param="file") from None


def _lines(page: Any, raw: Any) -> Iterator[_Line]:
    """Yield a page's lines, turned so that most of them are horizontal."""
    glyphs = page.get_textpage()
    characters = [chr(raw.FPDFText_GetUnicode(glyphs, at)) for at in range(glyphs.count_chars())]
    angles = Counter(_angle(glyphs, raw, at) for at in range(0, len(characters), 10) if not characters[at].isspace())
    turn = angles.most_common(1)[0][0] if angles else 0
    begin = 0
    for at, character in enumerate([*characters, "\n"]):
        if character not in "\r\n" and character != _HYPHEN:
            continue
        visible = [one for one in range(begin, at) if not characters[one].isspace()]
        text = "".join(characters[begin:at])
        if visible and len(_NOT_TEXT.findall(text)) * 3 <= len(visible):
            sample = sorted({visible[0], visible[-1], *visible[:: len(visible) // 8 + 1]})
            left, bottom, right, top = zip(*(_box(glyphs, raw, one, turn) for one in sample), strict=True)
            size = max(median(map(sub, top, bottom)), 0.1)
            shown = " ".join(_NOT_TEXT.sub("", text).split()) + "-" * (character == _HYPHEN)
            level = (_angle(glyphs, raw, visible[0]) - turn) % 4 == 0
            yield _Line(shown, min(left), median(bottom), max(right), size, level, character == _HYPHEN)
        begin = at + 1
    glyphs.close()


def _angle(glyphs: Any, raw: Any, at: int) -> int:
    """Return how a character is turned, in quarters of a turn, clockwise."""
    return round(raw.FPDFText_GetCharAngle(glyphs, at) / (pi / 2)) % 4


def _box(glyphs: Any, raw: Any, at: int, turn: int) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of a character when its page is turned back."""
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(glyphs, at, box)
    match turn:
        case 1:
            return -box.top, box.left, -box.bottom, box.right
        case 2:
            return -box.right, -box.top, -box.left, -box.bottom
        case 3:
            return box.bottom, -box.right, box.top, -box.left
        case _:
            return box.left, box.bottom, box.right, box.top


def _check_text(pages: Sequence[_Page]) -> None:
    """Raise `InvalidFile` unless most of the pages that show something have text."""
    with_text = sum(any(any(map(str.isalpha, line.text)) for line in page.lines) for page in pages)
    without = sum(page.has_image and not page.lines for page in pages)
    if not with_text or without > with_text:
        raise InvalidFile(
            f"the PDF has text on {with_text} of {len(pages)} pages: it is scanned or its fonts do not say which"
            " characters they show; recognise its text (OCR) and send it again",
            param="file",
        )


def _leave_repeated(pages: Sequence[_Page], content: Content) -> None:
    """Take away the highest and lowest lines that a third of the pages have at the same height, numbers apart."""
    if len(pages) < _FEWEST_PAGES:
        return
    edges: dict[tuple[str, int], list[tuple[_Page, _Line]]] = defaultdict(list)
    for page in pages:
        by_height = sorted(page.lines, key=lambda line: line.bottom)
        for line in {id(one): one for one in (*by_height[:3], *by_height[-3:])}.values():
            key = re.sub(r"\d+|\b[ivxlc]+\b", "0", line.text), round(line.bottom / 4)
            edges[key].append((page, line))
    for found in edges.values():
        if len({page.number for page, _ in found}) * 3 >= max(len(pages), _FEWEST_PAGES * 3):
            first, line = found[0]
            content.leave(f"page {first.number} and {len(found) - 1} others", "repeated", line.text)
            for page, one in found:
                page.lines = [kept for kept in page.lines if kept is not one]


# ---- paragraphs


def _paragraphs(pages: Iterable[_Page]) -> list[_Paragraph]:
    paragraphs: list[_Paragraph] = []
    for page in pages:
        columns = _Columns(page.lines)
        at_top = True
        for line in page.lines:
            before = paragraphs[-1].lines[-1] if paragraphs else None
            if before is None or not (_goes_on(before, line) if at_top else columns.continues(before, line)):
                paragraphs.append(_Paragraph(page.number))
            paragraphs[-1].lines.append(line)
            at_top = False
    return paragraphs


class _Columns:
    """Tells which of a page's lines belong to one paragraph, by their distances and by where the lines around them end."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        self._group: dict[int, int] = {}  # of a line, by its identity
        self._right: dict[int, float] = {}  # of a group
        distances: dict[int, list[float]] = defaultdict(list)
        before: _Line | None = None
        for group, line in enumerate(lines):
            self._group[id(line)], self._right[group] = group, line.right
            if before and 0.3 < (down := before.bottom - line.bottom) / line.size < 2 and _same_size(before, line):
                distances[round(line.size)].append(down)
                if abs(before.left - line.left) < 4 * line.size:
                    own = self._group[id(line)] = self._group[id(before)]
                    self._right[own] = max(self._right[own], line.right)
            before = line
        self._distance = {size: median(found) for size, found in distances.items()}

    def continues(self, before: _Line, line: _Line) -> bool:
        down = before.bottom - line.bottom
        if not (before.level and line.level) or not _same_size(before, line):
            return False
        if abs(down) < 0.3 * line.size:  # on one line
            return -0.5 * line.size < line.left - before.right < 1.5 * line.size
        if down < 0 or down > 3 * line.size:
            return _goes_on(before, line)
        if before.hyphen:
            return True
        usual = self._distance.get(round(line.size), line.size * 1.2)
        is_item = _BULLET.match(line.text) or (_NUMBERED.match(line.text) and not before.text[-1].isalpha())
        if down > 1.3 * min(usual, line.size * 1.6) or is_item:
            return False
        overlap = min(before.right, line.right) - max(before.left, line.left)
        return overlap > 0 and not self._ends(before, line)

    def _ends(self, before: _Line, line: _Line) -> bool:
        """Whether a paragraph ends with `before`: the first word of `line` had room there, or `line` is indented."""
        if abs((before.left + before.right) - (line.left + line.right)) < line.size / 2:  # centred
            return False
        first_word = len(line.text.split(" ", 1)[0]) + 2
        room = self._right[self._group[id(before)]] - before.right
        if room > first_word * line.width / max(len(line.text), 1) and not _UNSPACED.match(before.text[-1]):
            return True
        indented = line.left - before.left > 0.7 * line.size
        return _SENTENCE_END.search(before.text) is not None and (indented or room > 0.15 * before.width)


def _same_size(first: _Line, second: _Line) -> bool:
    return abs(first.size - second.size) <= 0.12 * max(first.size, second.size)


def _goes_on(before: _Line, line: _Line) -> bool:
    """Whether a sentence goes on at the top of another column or page."""
    if not (before.level and line.level and _same_size(before, line)) or _SENTENCE_END.search(before.text):
        return False
    return before.hyphen or line.text[0].islower() or bool(_UNSPACED.match(line.text) and before.width > 20 * line.size)


def _set_levels(paragraphs: Sequence[_Paragraph]) -> None:
    """Make headings of short paragraphs in sizes larger than the one that most characters have."""
    sizes = Counter[int]()
    for paragraph in paragraphs:
        sizes[round(paragraph.size)] += sum(len(line.text) for line in paragraph.lines)
    body = max(sizes.items(), key=lambda one: (one[1], -one[0]))[0] if sizes else 0
    larger = sorted((size for size in sizes if size > body * 1.1 + 0.5), reverse=True)
    for paragraph in paragraphs:
        characters = sum(len(line.text) for line in paragraph.lines)
        if round(paragraph.size) in larger and characters <= _MOST_HEADING_CHARACTERS:
            paragraph.level = min(larger.index(round(paragraph.size)) + 1, 6)


def _text(paragraph: _Paragraph, words: Counter[str]) -> str:
    """Join the lines. A hyphen at a line's end goes, unless the file has the word with it within a line and not without."""
    text = paragraph.lines[0].text
    for before, line in pairwise(paragraph.lines):
        if text.endswith(("-", "\u00ad")) and line.text[0].islower():
            first, second = re.search(r"\w*$", text[:-1]), re.match(r"\w*", line.text)
            halves = first[0] if first else "", second[0] if second else ""
            if text[-1] == "\u00ad" or not (words["-".join(halves)] and not words["".join(halves)]):
                text = text[:-1]
        elif not before.hyphen and not (_UNSPACED.match(text[-1]) and _UNSPACED.match(line.text)):
            text += " "
        text += line.text
    return _LEADERS.sub("… ", text)


# ---- writing

_MARKDOWN_SIGNS = re.compile(r"[\\`*_\[\]<>&~$|{}#]")
_MARKDOWN_START = re.compile(r"(\d*)(?=[.)]\s|[-+=:])")


def _markdown_pieces(text: str, level: int) -> Iterator[Piece | None]:
    bullet = _BULLET.match(text)
    if bullet and not level:
        text = text[bullet.end() :]
    escaped = _MARKDOWN_SIGNS.sub(r"\\\g<0>", text)
    start = _MARKDOWN_START.match(escaped)
    escaped = f"{start[0]}\\{escaped[start.end() :]}" if start else escaped
    lead = "#" * level + " " if level else "- " if bullet else ""
    yield from markdown.pieces(lead + escaped, keep_nothing, dialect="commonmark")
    yield Verbatim("\n\n")


_XML = Place(xml=True)
_build_xml = BlockBuilder(keep_nothing, lambda texts: EntityNotation(_XML, texts))


def _docx_pieces(text: str, level: int) -> Iterator[Piece | None]:
    style = f'<w:pPr><w:pStyle w:val="Heading{level}"/></w:pPr>' if level else ""
    bullet = _BULLET.match(text)
    begin = bullet.end() if bullet else 0
    yield Verbatim(f'<w:p>{style}<w:r><w:t xml:space="preserve">{escape(text[:begin])}')
    yield from _build_xml(list(decoded(escape(text[begin:]), _XML)))
    yield Verbatim("</w:t></w:r></w:p>")


_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_DOCX = {
    "[Content_Types].xml": f"""<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" \
ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" \
ContentType="{_TYPES}.document.main+xml"/><Override PartName="/word/styles.xml" ContentType="{_TYPES}.styles+xml"/></Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" \
Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>""",
    "word/_rels/document.xml.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" \
Type="{_RELATIONS}/styles" Target="styles.xml"/></Relationships>""",
    _DOCUMENT: f"""<w:document xmlns:w="{_MAIN}"><w:body><w:sectPr/></w:body></w:document>""",
}


def _styles(language: str) -> str:
    """Return styles for paragraphs and headings. Text of a script from right to left gets it as its direction."""
    is_rtl = languages.is_right_to_left(language)
    bidi, rtl = ("<w:bidi/>", "<w:rtl/>") if is_rtl else ("", "")
    headings = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/>'
        f'<w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:pPr><w:keepNext/>'
        f'<w:spacing w:before="240"/><w:outlineLvl w:val="{level - 1}"/></w:pPr>'
        f'<w:rPr><w:b/><w:sz w:val="{max(38 - 4 * level, 22)}"/></w:rPr></w:style>'
        for level in range(1, 7)
    )
    return (
        f'<w:styles xmlns:w="{_MAIN}"><w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val="22"/>{rtl}<w:lang'
        f' w:val="{language}" w:eastAsia="{language}" w:bidi="{language}"/></w:rPr></w:rPrDefault><w:pPrDefault><w:pPr>'
        f'{bidi}<w:spacing w:after="120"/></w:pPr></w:pPrDefault></w:docDefaults><w:style w:type="paragraph"'
        f' w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>{headings}</w:styles>'
    )


def _new_docx(language: str) -> tuple[bytes, bytes, int]:
    """Return a docx without text, its main part, and the byte of it before which paragraphs are written."""
    parts = {name: _DECLARATION + text for name, text in (*_DOCX.items(), ("word/styles.xml", _styles(language)))}
    package = BytesIO()
    with ZipFile(package, "w") as archive:
        for name, text in parts.items():
            archive.writestr(ZipInfo(name), text)  # of 1980: the same bytes each time
    document = parts[_DOCUMENT].encode()
    return package.getvalue(), document, document.index(b"<w:sectPr/>")
