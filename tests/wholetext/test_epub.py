"""epub: the documents of a book and its navigation are translated, and nothing that holds the book together changes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping

import pytest

from tests.wholetext.rewriting import changed, read, texts
from wholetext.errors import InvalidFile
from wholetext.files.archive import Archive, rewrite
from wholetext.files.content import Content, replaced_parts

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="book/p.opf"'
    ' media-type="application/oebps-package+xml"/></rootfiles></container>'
)
XHTML, NCX = "application/xhtml+xml", "application/x-dtbncx+xml"
DOCTYPE = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'


def opf(metadata: str = "<dc:language>en</dc:language>", *items: tuple[str, str]) -> str:
    manifest = "".join(
        f'<item id="i{number}" href="{href}" media-type="{kind}"/>' for number, (href, kind) in enumerate(items)
    )
    return (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:identifier>urn:one</dc:identifier>{metadata}</metadata><manifest>{manifest}</manifest>"
        '<spine><itemref idref="i1"/><itemref idref="i0"/></spine></package>'
    )


def book(entries: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    known = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    with zipfile.ZipFile(buffer, "w") as out:
        for name, text in {**known, **entries}.items():
            out.writestr(name, text, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def xhtml(body: str, attributes: str = ' xml:lang="en"') -> str:
    return (
        f'<?xml version="1.0"?>\n{DOCTYPE}\n<html xmlns="http://www.w3.org/1999/xhtml"{attributes}>\r\n<head><title/>'
        f"<style>p > b {{}}</style></head><body>{body}</body></html>"
    )


def translated(data: bytes, content: Content, model: Callable[[str], str] = changed) -> Archive:
    parts, _ = replaced_parts(content, [model(unit.block.text) for unit in content.units])
    return Archive(rewrite(data, parts, content.dropped))


ONE = xhtml(
    '<p>It&rsquo;s&nbsp;<b id="b">bold</b> &amp; <a href="two%20b.html#x" title="Go">far</a><br/>end</p><pre>x = 1</pre>'
)
TWO = xhtml("<h1>Two</h1><svg><text>Label</text></svg><p>Second.</p>")
NAV = xhtml(
    '<nav epub:type="toc"><ol><li><a href="one.html">One</a></li></ol></nav>'
    '<nav epub:type="page-list"><h2>Pages</h2><ol><li><a href="one.html#p">iv</a></li></ol></nav>'
)
TOC = (
    '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" xml:lang="en"><docTitle><text>A &lt; book</text></docTitle>'
    "<docAuthor><text>Ann Author</text></docAuthor><navMap><navPoint><navLabel><text>One</text></navLabel></navPoint>"
    "</navMap><pageList><pageTarget><navLabel><text>iv</text></navLabel></pageTarget></pageList></ncx>"
)
METADATA = (
    "<dc:title>A book</dc:title><dc:creator>Ann Author</dc:creator><dc:language>en-GB</dc:language>"
    '<dc:description>&lt;p class="d"&gt;Of &lt;b&gt;two&lt;/b&gt; &amp;amp; more&lt;/p&gt;</dc:description>'
)
ITEMS = (("two%20b.html", XHTML), ("one.html", XHTML), ("nav.html", XHTML), ("toc.ncx", NCX))
BOOK = book(
    {
        "book/p.opf": opf(METADATA, *ITEMS),
        "book/one.html": ONE,
        "book/two b.html": TWO,
        "book/nav.html": NAV,
        "book/toc.ncx": TOC,
        "book/unlisted.html": xhtml("<p>Unlisted</p>"),
    }
)


def test_the_documents_are_read_in_the_order_of_the_spine_and_come_back_as_they_were() -> None:
    found = read(BOOK, "epub", "en")
    assert [(unit.block.text, unit.place) for unit in found.units] == [
        ("A book", "book, title"),
        ("Of <g1>two</g1> & more", "book, description"),
        ("Go", "one.html, paragraph 1"),
        ("It’s<x1/><g2>bold</g2> & <g3>far</g3>", "one.html, paragraph 1"),
        ("end", "one.html, paragraph 2"),
        ("Two", "two b.html, paragraph 1"),
        ("Second.", "two b.html, paragraph 2"),
        ("One", "nav.html, paragraph 1"),
        ("Pages", "nav.html, paragraph 2"),
        ("A < book", "toc.ncx, label 1"),
        ("One", "toc.ncx, label 2"),
    ]
    assert [(one.reason, one.text) for one in found.left] == [("svg", "Label")]
    assert translated(BOOK, found, str).data == BOOK


def test_only_letters_of_text_and_the_language_change() -> None:
    result = translated(BOOK, read(BOOK, "epub", "ar"))
    one = result.read("book/one.html").decode()
    assert f'<p>{changed("It")}&rsquo;{changed("s")}&nbsp;<b id="b">{changed("bold")}</b> &amp; ' in one
    assert f'<a href="two%20b.html#x" title="{changed("Go")}">{changed("far")}</a><br/>{changed("end")}</p>' in one
    assert ' xml:lang="ar"' in one and 'dir="rtl"' in one and "<pre>x = 1</pre>" in one and "<style>p > b {}" in one
    package = result.read("book/p.opf").decode()
    for kept in (
        "<dc:identifier>urn:one<",
        "Ann Author",
        "<dc:language>ar<",
        '&lt;p class="d"&gt;',
        "&lt;/b&gt; &amp;amp; ",
    ):
        assert kept in package
    toc = result.read("book/toc.ncx").decode()
    assert 'xml:lang="ar"' in toc and "Ann Author" in toc and "<text>iv</text>" in toc
    assert f"<text>{changed('A')} &lt; {changed('book')}</text>" in toc
    assert '<a href="one.html#p">iv</a>' in result.read("book/nav.html").decode()
    assert "Unlisted" in result.read("book/unlisted.html").decode()
    assert result.data.startswith(BOOK[:58])  # the media type, first and stored


def test_a_document_without_a_language_gets_one_that_xhtml_has() -> None:
    data = book({"book/p.opf": opf("", ("one.html", XHTML)), "book/one.html": xhtml("<p>One</p>", "")})
    one = translated(data, read(data, "epub", "fr"), str).read("book/one.html").decode()
    assert one == xhtml("<p>One</p>", "").replace("<html ", '<html xml:lang="fr" ')


def test_characters_that_xml_cannot_have_are_not_written() -> None:
    data = book({"book/p.opf": opf("", ("one.html", XHTML)), "book/one.html": xhtml('<p title="a">One</p>')})
    one = translated(data, read(data, "epub", "en"), lambda _: 'a\0\ud800<b>"&').read("book/one.html").decode()
    assert '<p title="a&lt;b>&quot;&amp;">a&lt;b>"&amp;</p>' in one


def test_a_document_that_is_missing_is_reported() -> None:
    found = read(book({"book/p.opf": opf("", ("../../one.html", XHTML))}), "epub")
    assert not found.units and "one.html" in found.warnings[0]


def encryption(algorithm: str) -> str:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData'
        f' xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{algorithm}"/></EncryptedData></encryption>'
    )


def test_obfuscated_fonts_are_no_protection() -> None:
    entries = {"META-INF/encryption.xml": encryption("http://www.idpf.org/2008/embedding")}
    found = read(
        book({**entries, "book/p.opf": opf("", ("one.html", XHTML)), "book/one.html": xhtml("<p>One</p>")}), "epub"
    )
    assert texts(found) == ["One"]


@pytest.mark.parametrize(
    "entries",
    [
        {"META-INF/encryption.xml": encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc"), "book/p.opf": opf()},
        {"mimetype": "application/zip", "book/p.opf": opf()},
        {},
        {"META-INF/container.xml": "<container/>"},
        {"book/p.opf": "<package>"},
        {"book/p.opf": '<!DOCTYPE a [<!ENTITY b "c">]>' + opf()},
        {
            "book/p.opf": opf("", ("one.html", XHTML)),
            "book/one.html": '<?xml version="1.0" encoding="utf-8"?><p>\0</p>',
        },
    ],
)
def test_what_is_no_readable_book_is_refused(entries: Mapping[str, str]) -> None:
    with pytest.raises(InvalidFile):
        read(book(entries), "epub")
