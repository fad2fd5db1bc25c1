"""Whatever a model writes, a file stays what it is: it is read again, has no new element, cue, key, row or message, and no
control that its source does not have."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.wholetext.office import docx, run
from tests.wholetext.rewriting import MARKS
from tests.wholetext.test_epub import XHTML, book, opf, xhtml
from tests.wholetext.test_odf import content_xml, p, package, span
from tests.wholetext.test_pptx import deck, shape, slide
from tests.wholetext.test_xlsx import cells, strings, workbook
from wholetext.files import formats
from wholetext.files.archive import Archive
from wholetext.files.content import ReadOptions
from wholetext.files.exports import BilingualSegment, ExportFormat, export
from wholetext.markup.marks import CONTROL

TEXT = "Qzq"
"""Stands for a text of the source."""

XML_FILES: Mapping[str, bytes] = {
    "docx": docx(
        f"<w:p>{run(f'{TEXT} ')}{run(TEXT, '<w:b/>')}{run(f' {TEXT}')}</w:p><w:p>{run(TEXT)}<w:r><w:br/></w:r>{run(TEXT)}</w:p>"
        f"<w:p><w:r><w:drawing><wp:docPr id='1' descr='{TEXT}'/></w:drawing></w:r>{run(TEXT)}</w:p>"
    ),
    "pptx": deck(slide(shape(f"<a:p><a:r><a:t>{TEXT}</a:t></a:r></a:p>"))),
    "xlsx": workbook(
        cells(0, 1),
        strings(f"{TEXT} of {TEXT}", f"Other {TEXT}"),
        sheet=f"<headerFooter><oddHeader>&amp;L{TEXT} x</oddHeader></headerFooter>",
    ),
    "odt": package(p(f"{TEXT} {span('T1', TEXT)} {TEXT}") + p(TEXT)),
    "ods": package(
        f"<table:table><table:table-row><table:table-cell>{p(TEXT)}</table:table-cell></table:table-row></table:table>",
        "spreadsheet",
    ),
    "odp": package(f"<draw:page>{p(TEXT)}</draw:page>", "presentation"),
    "fodt": content_xml(p(f"{TEXT} <![CDATA[{TEXT}]]>"), root="document")
    .replace("<office:document ", '<office:document office:mimetype="application/vnd.oasis.opendocument.text" ', 1)
    .encode(),
    "xhtml": xhtml(
        f"<p>{TEXT} <b title='{TEXT}'>{TEXT}</b></p><p>{TEXT} &gt; {TEXT}</p><p><img alt=\"{TEXT}\" src='a'/></p>"
    ).encode(),
    "epub": book(
        {
            "book/p.opf": opf(
                f"<dc:language>en</dc:language><dc:title>{TEXT}</dc:title>", ("a.html", XHTML), ("b.html", XHTML)
            ),
            "book/a.html": xhtml(f"<p>{TEXT} <i>{TEXT}</i></p>"),
            "book/b.html": xhtml(f"<h1>{TEXT}</h1>"),
        }
    ),
    "xliff": f"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>
<trans-unit id="1"><source>{TEXT} <g id="1">{TEXT}</g></source></trans-unit>
<trans-unit id="2"><source><![CDATA[{TEXT}]]></source></trans-unit></body></file></xliff>""".encode(),
    "xml": f"""<resources><string name="a">{TEXT} <b>{TEXT}</b></string>
<string name="b"><![CDATA[{TEXT} <i>{TEXT}</i>]]></string>
<plurals name="c"><item quantity="other">{TEXT}</item></plurals></resources>""".encode(),
}
OTHER_FILES: Mapping[str, bytes] = {
    "txt": f"{TEXT}\n\n- {TEXT}\n- {TEXT}\n".encode(),
    "md": f"# {TEXT}\n\n{TEXT} *{TEXT}*\n\n| {TEXT} | {TEXT} |\n|---|---|\n| {TEXT} | {TEXT} |\n".encode(),
    "html": f"<!DOCTYPE html><html><body><p>{TEXT} <b title='{TEXT}'>{TEXT}</b></p><p>{TEXT}</p></body></html>".encode(),
    "srt": f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT} <i>{TEXT}</i>\n\n2\n00:00:03,000 --> 00:00:04,000\n{TEXT}\n".encode(),
    "vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{TEXT} <i>{TEXT}</i>\n\n00:03.000 --> 00:04.000\n{TEXT}\n".encode(),
    "ass": b"[Events]\nFormat: Layer, Start, End, Style, Text\n"
    + f"Dialogue: 0,0:00:01.00,0:00:02.00,Default,{TEXT}\nDialogue: 0,0:00:03.00,0:00:04.00,Default,{TEXT}\n".encode(),
    "po": b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    + f'msgid "{TEXT}"\nmsgstr ""\n\nmsgid "{TEXT} {TEXT}"\nmsgstr ""\n'.encode(),
    "json": json.dumps({"a": f"{TEXT} x", "b": [f"{TEXT} y"]}).encode(),
    "arb": json.dumps({"a": f"{TEXT} x", "@a": {"description": "of a"}}).encode(),
    "csv": f"id,{TEXT} x\n1,{TEXT} y\n2,\"{TEXT} z\"\n".encode(),
    "tsv": f"id\t{TEXT} x\n1\t{TEXT} y\n2\t\"{TEXT} z\"\n".encode(),
}  # fmt: skip

# fmt: off
HOSTILE = (
    "a ]]> b", "]]>", "]]", ">", "> b", "]", "]>", "<![CDATA[a", "a\x00b", "\x01a", "a\x0bb", "\x1b[31mred\x1b[0m",
    "a\x7fb", "a\x85b", "a\x9b31mb", "\ufffea", "a\uffff", "\U0001fffea", "a\ud800b", "\udfff", "a\x1cb", "a\x0cb",
    "a\x023\x03b", "<b>a</b>", "</p>", "<script>alert(1)</script>", "a & b", "&amp;", "&lt;script&gt;", "&#0;",
    "&unknown;", "<!-- a", "-->", "a -- b", "<?xml a?>", "<!DOCTYPE a>", "00:00:09,000 --> 00:00:10,000",
    "a\n\n3\n00:00:09,000 --> 00:00:10,000\nb", "\\N{\\i1}", "\"", "'", "\"a", "a\"b", "a\tb\"", "a\nb", "a\r\nb",
    "a\\", "\\\"", "\",\n\"x\": \"y", "\"\n\nmsgid \"x\"\nmsgstr \"y\"", "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0",
    "-2+3", "a,b;c\td|e", "| a | b |", "# a", "- a", "1. a", "```", "[a](javascript:b)", "`a", "___", "$a$", "{a}",
    "{0, plural, other {b}}", "%s", "@string/a", "?a", "\\u0000", "&L&P", "_x0000_", "\u2028a", "\u202ea",
    "a" * 3000, " ",
)
# fmt: on


def options(extension: str) -> ReadOptions:
    return ReadOptions(extension, "de")


def written(data: bytes, extension: str, text: str) -> bytes:
    """The file with each of its texts in place of `TEXT`, and its marks as they were."""

    def translate(source: str) -> str:
        return "".join(part if MARKS.fullmatch(part) else part.replace(TEXT, text) for part in MARKS.split(source))

    units = formats.read(data, options(extension)).units
    return formats.write(data, options(extension), [translate(unit.block.text) for unit in units])[0]


def parts(data: bytes) -> Iterator[bytes]:
    """The parts of a package that are XML; or the file."""
    if not data.startswith(b"PK"):
        yield data
        return
    archive = Archive(data)
    yield from (archive.read(name) for name in archive.names if name.endswith(("ml", ".rels", ".opf")))


def outline(data: bytes) -> list[object]:
    return [[element.tag for element in etree.fromstring(part).iter()] for part in parts(data)]


def shown(data: bytes) -> list[str]:
    """All texts and values of attributes that a reader of XML gets, with white space as one space."""
    return [
        _collapsed(
            "\n".join(["".join(root.itertext()), *(value for one in root.iter() for value in one.attrib.values())])
        )
        for root in map(etree.fromstring, parts(data))
    ]


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def cleaned(text: str) -> str:
    return CONTROL.sub(lambda found: " " if found[0].isspace() else "", text)


@pytest.mark.parametrize("extension", XML_FILES)
def test_a_file_of_xml_has_the_same_elements(extension: str) -> None:
    data = XML_FILES[extension]
    with_text, without = (outline(written(data, extension, text)) for text in ("Zz", ""))
    for text in HOSTILE:
        assert outline(written(data, extension, text)) == (with_text if cleaned(text) else without), ascii(text)


@pytest.mark.parametrize("extension", sorted({*XML_FILES} - {"xml", "xlsx"}))
@given(text=st.text(st.characters() | st.sampled_from("]]>><&\"'\x00\x1b\x85\ufffe\ud800"), min_size=1, max_size=8))
def test_any_text_in_a_file_of_xml_is_shown_as_it_is(extension: str, text: str) -> None:
    text = f"a{text}b"  # white space at the edges of a text is the source's
    data = XML_FILES[extension]
    wanted = [one.replace("Zz", _collapsed(cleaned(text))) for one in shown(written(data, extension, "Zz"))]
    assert shown(written(data, extension, text)) == wanted


@pytest.mark.parametrize("extension", [*XML_FILES, *OTHER_FILES])
def test_no_control_is_written(extension: str) -> None:
    data = {**XML_FILES, **OTHER_FILES}[extension]
    for text in HOSTILE:
        result = written(data, extension, text)
        for part in parts(result):
            assert not CONTROL.search(part.decode("utf-8")), ascii(text)


def _cues(data: bytes) -> int:
    return len(re.findall(r"^\S+ --> \S+", data.decode(), re.MULTILINE))


def _rows(data: bytes, extension: str) -> list[int]:
    dialect = csv.excel if extension == "csv" else csv.excel_tab
    return [len(row) for row in csv.reader(io.StringIO(data.decode(), newline=""), dialect, strict=True)]


SHAPES: Mapping[str, Callable[[bytes], object]] = {
    "srt": _cues,
    "vtt": _cues,
    "ass": lambda data: data.count(b"\nDialogue:"),
    "po": lambda data: len(re.findall(rb"^msgid", data, re.MULTILINE)),
    "json": lambda data: [str(type(one)) for one in json.loads(data).values()],
    "arb": lambda data: sorted(json.loads(data)),
    "csv": lambda data: _rows(data, "csv"),
    "tsv": lambda data: _rows(data, "tsv"),
}
"""What of a file tells whether something was added to it, as another reader sees it."""


@pytest.mark.parametrize("extension", SHAPES)
def test_nothing_is_added_to_a_file(extension: str) -> None:
    data, shape_of = OTHER_FILES[extension], SHAPES[extension]
    for text in HOSTILE:
        assert shape_of(written(data, extension, text)) == shape_of(data), ascii(text)


@pytest.mark.parametrize("format", ["tmx", "xliff"])
@given(text=st.text(st.characters() | st.sampled_from("]]>><&\"'\x00\x1b\ufffe\ud800"), max_size=12))
def test_any_text_in_an_export_is_shown_as_it_is(format: ExportFormat, text: str) -> None:
    segment = BilingualSegment(1, text, "A source", f"a{text}b", notes=(text,))
    found = "".join(export([segment], format, text, "en", "de", ("a tool", text)))
    root = etree.fromstring(found.encode())
    (*_, target) = root.iter("{*}seg", "{*}target")
    wanted = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", f"a{text}b")
    assert _collapsed("".join(target.itertext())) == _collapsed(wanted)


def test_controls_of_the_source_stay() -> None:
    data = b"Can I \x1b[1msee\x1b[0m it?\n"
    assert written(data.replace(b"see", TEXT.encode()), "txt", "see\x1b\x07") == b"Can I \x1b[1msee\x1b\x1b[0m it?\n"
