"""pdf: text comes in paragraphs and headings, in reading order, and goes into a docx or a Markdown file."""

from __future__ import annotations

import io
import sys

import docx as python_docx
import pytest

from tests.wholetext.rewriting import changed, read, texts
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files.archive import rewrite
from wholetext.files.content import Content, replaced_parts, single_part

Line = tuple[float, float, float, str]
"""Size, place from the left and from the bottom, text."""


def pdf(*pages: list[Line], image: bool = False, encrypted: bool = False) -> bytes:
    """A PDF with lines of Helvetica. `image`: each page has a picture of one dot."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {count}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"BT /F {size} Tf {left} {bottom} Td ({text}) Tj ET\n" for size, left, bottom, text in lines)
        shown += "q 600 0 0 800 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID a EI Q" * image
        stream = shown.encode("cp1252")
        resources = f"/Resources<</Font<</F 3 0 R>>>>/Contents {5 + 2 * number} 0 R"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]{resources}>>".encode())
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
    data = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj%b endobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    key = b"<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>" % (b"41" * 32, b"42" * 32)
    trailer = b"/Encrypt %b/ID[<00><00>]" % key if encrypted else b""
    return bytes(data + b"trailer<</Size %d/Root 1 0 R%b>>startxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, start))


def lines(*shown: str, size: float = 10, left: float = 50, top: float = 700) -> list[Line]:
    return [(size, left, top - number * 1.2 * size, text) for number, text in enumerate(shown)]


def markdown(content: Content) -> str:
    return single_part(content, texts(content))[0].decode()


PAGE = [
    *lines("Annual report", size=20, top=750),
    *lines("The first paragraph is long enough to go on in the next line of a", "page, and it ends there."),
    *lines("Then comes another one, which has a word that its line divi-", "des, and well-", "known words.", top=660),
    *lines("• An item", "• Another [item]", top=600),
    *lines("1. Numbered", top=560),
]


def test_lines_are_joined_to_paragraphs_headings_and_items() -> None:
    content = read(pdf(PAGE), "pdf", output="md")
    assert markdown(content).split("\n\n") == [
        "# Annual report",
        "The first paragraph is long enough to go on in the next line of a page, and it ends there.",
        "Then comes another one, which has a word that its line divides, and wellknown words.",
        "- An item",
        "- Another \\[item\\]",
        "1\\. Numbered",
        "",
    ]
    assert [unit.place for unit in content.units][:2] == ["page 1, paragraph 1", "page 1, paragraph 2"]
    assert "layout" in content.warnings[0]


def test_a_hyphen_stays_in_a_word_that_the_file_has_with_it_elsewhere() -> None:
    page = lines("A word that is well-known comes in this line and a well-", "known one goes over two lines.")
    assert texts(read(pdf(page), "pdf", output="md")) == [
        "A word that is well-known comes in this line and a well-known one goes over two lines."
    ]


def test_columns_are_read_one_after_the_other_and_a_sentence_goes_on_over_pages() -> None:
    left = lines("The left column has a sentence that goes", "on at the top of the right column, where")
    right = lines("it ends. Then the last sentence of this", "page does not end, since it has the words", left=320)
    found = read(pdf([*left, *right], lines("of the second page.")), "pdf", output="md")
    assert texts(found) == [
        "The left column has a sentence that goes on at the top of the right column, where it ends. Then the last"
        " sentence of this page does not end, since it has the words of the second page."
    ]


def test_headers_footers_and_page_numbers_are_left() -> None:
    pages = [
        [*lines("Quarterly News", top=780), *lines(f"Text of page {word}."), *lines(f"Page {number}", top=20)]
        for number, word in enumerate(("one", "two", "three", "four"), 1)
    ]
    found = read(pdf(*pages), "pdf")
    assert texts(found) == [f"Text of page {word}." for word in ("one", "two", "three", "four")]
    assert {(one.reason, one.text) for one in found.left} == {("repeated", "Quarterly News"), ("repeated", "Page 1")}


def test_the_docx_is_one_that_another_reader_opens() -> None:
    content = read(pdf(PAGE), "pdf", "ar")
    assert texts(content) == texts(read(pdf(PAGE), "pdf", "ar"))
    package = content.new_package or b""
    assert package == read(pdf(PAGE), "pdf", "ar").new_package
    parts, _ = replaced_parts(content, [changed(text) for text in texts(content)])
    document = python_docx.Document(io.BytesIO(rewrite(package, parts)))
    found = [(one.style.name if one.style else "", one.text) for one in document.paragraphs]
    assert found[0] == ("Heading 1", changed("Annual report")) and found[3] == ("Normal", "• " + changed("An item"))
    assert read(rewrite(package, parts), "docx").units


def test_markdown_and_xml_in_the_text_are_text() -> None:
    page = lines("# Not <b>a</b> *heading* & 1_000_000 of `code`")
    assert markdown(read(pdf(page), "pdf", output="md")).startswith("\\# Not \\<b\\>a\\</b\\> \\*heading\\* \\& 1")
    content = read(pdf(page), "pdf")
    parts, _ = replaced_parts(content, texts(content))
    assert "# Not &lt;b&gt;a&lt;/b&gt; *heading* &amp; 1_000_000" in parts["word/document.xml"].decode()


@pytest.mark.parametrize(
    "data, reason",
    [
        (pdf([], [], image=True), "scanned"),
        (pdf(lines("One page of text"), [], [], image=True), "scanned"),
        (pdf([]), "scanned"),
        (pdf(PAGE, encrypted=True), "password"),
        (b"%PDF-1.4 and nothing more", "damaged"),
        (b"", "not a PDF"),
    ],
)
def test_a_scanned_encrypted_or_damaged_file_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidFile, match=reason):
        read(data, "pdf")


def test_without_pdfium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(UnsupportedFile, match=r"pip install pypdfium2"):
        read(pdf(PAGE), "pdf")
