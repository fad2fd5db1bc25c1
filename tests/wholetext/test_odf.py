"""odt, ods, odp: sentences are whole, only their letters change, and what is no text of people stays."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable

import odf.opendocument
import pytest
from odf import teletype
from odf import text as odf_text
from odf.style import Style, TextProperties

from tests.wholetext.rewriting import changed, read, texts
from wholetext.errors import InvalidFile
from wholetext.files.archive import Archive, rewrite
from wholetext.files.content import Content, replaced_parts, single_part

_NAMESPACES = "".join(
    f' xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        **{name: name for name in ("office", "style", "text", "table", "chart", "presentation", "form")},
        "draw": "drawing",
        "fo": "xsl-fo-compatible",
        "svg": "svg-compatible",
    }.items()
)
STYLES = """<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>
<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold" fo:language="fr"/></style:style>
<style:style style:name="T3" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>
<style:style style:name="T4" style:family="text"><style:text-properties fo:language="fr"/></style:style>
<style:style style:name="T5" style:family="text"><style:text-properties text:display="none"/></style:style>"""


def content_xml(body: str, kind: str = "text", root: str = "document-content") -> str:
    return (
        f"<office:{root}{_NAMESPACES}><office:automatic-styles>{STYLES}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:{root}>"
    )


def package(body: str, kind: str = "text", **others: str) -> bytes:
    """A package with `body`; `others` are parts by name, without `.xml` and with `__` for a slash."""
    entries = {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content_xml(body, kind)}
    entries |= {f"{name.replace('__', '/')}.xml": xml for name, xml in others.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for name, text in entries.items():
            out.writestr(name, text, zipfile.ZIP_DEFLATED if name.endswith("xml") else zipfile.ZIP_STORED)
    return buffer.getvalue()


def translated(content: Content, data: bytes, model: Callable[[str], str] = changed) -> Archive:
    parts, _ = replaced_parts(content, [model(unit.block.text) for unit in content.units])
    return Archive(rewrite(data, parts, content.dropped))


def p(content: str) -> str:
    return f"<text:p>{content}</text:p>"


def span(style: str, text: str) -> str:
    return f'<text:span text:style-name="{style}">{text}</text:span>'


NOTE = (
    "<text:note><text:note-citation>a</text:note-citation><text:note-body>"
    + p("Of <text:a>old</text:a>")
    + "</text:note-body></text:note>"
)


@pytest.mark.parametrize(
    "content, sources",
    [
        ("Read " + span("T1", "this") + " first.", ["Read <g1>this</g1> first."]),
        # Spans that look alike are one, those without a look are none.
        (span("T1", "Bold ") + span("T2", "words") + span("T4", " here"), ["<g1>Bold words</g1> here"]),
        # Text that is in spans throughout: the look at its ends carries no mark.
        (span("T1", "A ") + span("T3", "B") + span("T1", " C"), ["A <g1>B</g1> C"]),
        ('See <text:a>our <text:s text:c="2"/>site</text:a>.', ["See <g1>our <x2/>site</g1>."]),
        ("One<text:tab/>two<text:line-break/>three", ["One", "two<x1/>three"]),
        ("<text:a>Chapter<text:tab/>12</text:a>", ["Chapter"]),
        ("Long <text:soft-page-break/>word", ["Long word"]),
        ("On <text:page-number>3</text:page-number> of us", ["On <x1/> of us"]),
        ("By" + NOTE + " hand", ["Of <g1>old</g1>", "By<x1/> hand"]),
        ("Two &amp; <![CDATA[<four>]]>", ["Two & <four>"]),
        (
            "<draw:frame><svg:title>A cat</svg:title><draw:text-box><text:p>In box</text:p></draw:text-box></draw:frame>",
            ["A cat", "In box"],
        ),
        ("", []),
        ("<text:s/>12", []),
    ],
)
def test_a_paragraph_is_a_block_and_its_inline_elements_are_marks(content: str, sources: list[str]) -> None:
    data = package(p(content))
    found = read(data, "odt")
    assert texts(found) == sources
    xml = translated(found, data, str).read("content.xml").decode()
    expected = content_xml(p(content))
    for changed_on_purpose in ("<text:soft-page-break/>", "</text:span>" + span("T2", "").removesuffix("</text:span>")):
        expected = expected.replace(changed_on_purpose, "")
    expected = expected.replace(span("T4", " here"), " here").replace("<![CDATA[<four>]]>", "&lt;four&gt;")
    assert xml == expected
    assert "e" not in "".join(
        texts(read(rewrite(data, {"content.xml": translated(found, data).read("content.xml")}), "odt"))
    )


def test_what_is_no_text_of_people_stays_and_is_reported() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>Old words</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        + p("Today <text:date>12 May</text:date><office:annotation><text:p>Why?</text:p></office:annotation> is fine")
        + p("Seen" + span("T5", "unseen"))
    )
    found = read(package(body), "odt")
    assert texts(found) == ["Today <x1/> is fine", "Seen"]
    assert {(one.reason, one.text) for one in found.left} == {
        *(("deleted", "Old words"), ("field", "12 May"), ("comment", "Why?"), ("hidden", "unseen"))
    }
    assert "Why?" in texts(read(package(body), "odt", comments=True))


def test_headers_alternative_texts_and_charts_are_text_and_placeholders_are_not() -> None:
    styles = (
        f'<office:document-styles{_NAMESPACES}><office:master-styles><style:master-page style:name="A"><style:header>'
        f'{p("Our report")}</style:header><draw:frame presentation:class="title">{p("Click to edit")}</draw:frame>'
        "</style:master-page></office:master-styles></office:document-styles>"
    )
    chart = content_xml(f"<chart:chart><chart:title>{p('Sales')}</chart:title></chart:chart>", "chart")
    slides = (
        f"<draw:page>{p('One')}</draw:page><draw:page>{p('Two')}<presentation:notes>{p('Say')}</presentation:notes>"
    )
    found = read(package(slides + "</draw:page>", "presentation", styles=styles, **{"Object 1__content": chart}), "odp")
    assert [(unit.block.text, unit.place) for unit in found.units] == [
        ("One", "slide 1"),
        ("Two", "slide 2"),
        ("Say", "slide 2, notes"),
        ("Our report", "header, paragraph 1"),
        ("Sales", "Object 1, paragraph 1"),
    ]
    assert [(one.reason, one.text) for one in found.left] == [("placeholder", "Click to edit")]


STRING = 'office:value-type="string"'


def _cell(text: str, attributes: str = STRING) -> str:
    return f"<table:table-cell {attributes}>{p(text)}</table:table-cell>"


def test_of_a_sheet_only_texts_that_no_formula_compares_are_translated() -> None:
    rows = [
        _cell("City") + '<table:table-cell table:number-columns-repeated="2"/>' + _cell("Open"),
        _cell("Rome", 'office:value-type="string" office:string-value="Rome" ')
        + _cell("3 pieces", "office:value-type='float'"),
        _cell("Yes")
        + _cell("A-17")
        + _cell("done", 'table:formula="of:=IF([.A3]=&quot;yes&quot;;1;2)" office:value-type="string"'),
    ]
    body = (
        '<table:table table:name="Data 1">'
        + f'<table:table-row table:number-rows-repeated="4">{rows[0]}</table:table-row>'
        + "".join(f"<table:table-row>{row}</table:table-row>" for row in rows[1:])
        + "</table:table>"
    )
    data = package(body, "spreadsheet")
    found = read(data, "ods")
    assert [(unit.block.text, unit.place, unit.context) for unit in found.units] == [
        ("City", "Data 1!A1", ""),
        ("Open", "Data 1!D1", ""),
        ("Rome", "Data 1!A5", "City"),
    ]
    left = [(one.place, one.reason, one.text) for one in found.left]
    assert left.pop(0) == ("workbook", "sheet_name", "Data 1")
    assert left == [("Data 1!A6", "compared", "Yes"), ("Data 1!B6", "code", "A-17"), ("Data 1!C6", "formula", "done")]
    assert translated(found, data, str).data == data
    xml = translated(found, data, lambda text: text + ' "&').read("content.xml").decode()
    assert 'office:string-value="Rome &quot;&amp;" ><text:p>Rome "&amp;</text:p>' in xml


def test_the_language_of_the_document_becomes_the_target() -> None:
    tag = '<style:text-properties fo:language="fr" fo:country="FR" style:language-asian="zh" style:country-asian="CN"/>'
    default = f'<style:default-style style:family="paragraph">{tag}</style:default-style>'
    styles = f"<office:document-styles{_NAMESPACES}><office:styles>{default}</office:styles></office:document-styles>"
    data = package(p("Un mot"), styles=styles)
    german = translated(read(data, "odt", "de"), data)
    assert 'fo:language="de" fo:country="DE" style:language-asian="zh"' in german.read("styles.xml").decode()
    assert german.read("content.xml").count(b'fo:language="de"') == 2
    japanese = translated(read(data, "odt", "ja"), data).read("styles.xml").decode()
    assert 'fo:language="fr" fo:country="FR" style:language-asian="ja" style:country-asian="JP"' in japanese
    assert translated(read(data, "odt", "fr"), data, str).data == data


def test_direction_follows_the_language() -> None:
    def said(package: Archive) -> list[str]:
        return re.findall('(?:writing-mode|text-align)="(.*?)"', package.read("styles.xml").decode())

    def style(name: str, properties: str) -> str:
        return f"<style:{name}><style:paragraph-properties {properties}/></style:{name}>"

    styles = style("default-style", 'style:writing-mode="page"') + style("style", 'style:writing-mode="tb-rl"')
    styles += style("style", 'fo:text-align="start" style:writing-mode="lr-tb"') + style(
        "style", 'fo:text-align="center"'
    )
    layout = '<style:page-layout><style:page-layout-properties style:writing-mode="lr-tb"/></style:page-layout>'
    body = f"<office:styles>{styles}</office:styles><office:automatic-styles>{layout}</office:automatic-styles>"
    data = package(p("One"), styles=f"<office:document-styles{_NAMESPACES}>{body}</office:document-styles>")
    from_right = translated(read(data, "odt", "ar"), data)
    assert said(from_right) == ["end", "page", "tb-rl", "end", "rl-tb", "center", "rl-tb"]
    assert translated(read(from_right.data, "odt", "he"), from_right.data, str).data == from_right.data
    back = translated(read(from_right.data, "odt", "de"), from_right.data)
    assert said(back) == ["start", "page", "tb-rl", "start", "lr-tb", "center", "lr-tb"]


def test_a_flat_document_is_one_part() -> None:
    data = content_xml(p("One") + p("Two"), root="document").encode()
    found = read(data, "fodt")
    assert texts(found) == ["One", "Two"]
    assert single_part(found, ["One", "Two"])[0] == data


def test_a_document_of_another_library_comes_back_with_its_paragraphs_and_looks() -> None:
    document = odf.opendocument.OpenDocumentText()
    bold = Style(name="Bold", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    paragraph = odf_text.P(text="The quick ")
    paragraph.addElement(odf_text.Span(stylename=bold, text="brown"))
    paragraph.addText(" fox")
    document.text.addElement(paragraph)
    buffer = io.BytesIO()
    document.save(buffer)
    data = buffer.getvalue()
    result = odf.opendocument.load(io.BytesIO(translated(read(data, "odt"), data).data))
    (found,) = result.getElementsByType(odf_text.P)
    assert teletype.extractText(found) == changed("The quick brown fox")
    assert [teletype.extractText(one) for one in found.getElementsByType(odf_text.Span)] == [changed("brown")]


def test_characters_that_xml_cannot_have_are_not_written() -> None:
    data = package(p("One"))
    xml = translated(read(data, "odt"), data, lambda _: "a\0\x0b\ud800b<c>&").read("content.xml").decode()
    assert p("a b&lt;c>&amp;") in xml


def test_a_signature_goes_with_its_entry_in_the_manifest() -> None:
    entry = '<manifest:file-entry manifest:full-path="{}"/>'
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{}</manifest:manifest>'
    )
    listed = entry.format("content.xml"), entry.format("META-INF/documentsignatures.xml")
    parts = {"META-INF__manifest": manifest.format("".join(listed)), "META-INF__documentsignatures": "<a/>"}
    data = package(p("One"), **parts)
    content = read(data, "odt")
    result = translated(content, data, str)
    assert "META-INF/documentsignatures.xml" not in result.names and content.warnings
    assert result.read("META-INF/manifest.xml").decode() == manifest.format(listed[0])


_ENCRYPTED = (
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry>'
    "<manifest:encryption-data/></manifest:file-entry></manifest:manifest>"
)
_DEEP = "<text:span>" * 900 + "deep" + "</text:span>" * 900


@pytest.mark.parametrize(
    "data, extension",
    [
        (package(p("One"), "spreadsheet"), "odt"),
        (package(p("One"), **{"META-INF__manifest": _ENCRYPTED}), "odt"),
        (package("<text:p>One"), "odt"),
        (package("&undefined;"), "odt"),
        (package("<text:span>" * 1000 + "</text:span>" * 1000), "odt"),
        (package("").replace(b"content.xml", b"contant.xml"), "odt"),
        (b"<html/>", "fodt"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + content_xml("&b;", root="document").encode(), "fodt"),
        (b"", "odt"),
    ],
)
def test_what_is_no_such_document_is_refused(data: bytes, extension: str) -> None:
    with pytest.raises(InvalidFile):
        read(data, extension)


@pytest.mark.parametrize("content", [_DEEP, "<text:p>" * 400 + "deep" + "</text:p>" * 400])
def test_what_is_nested_too_deeply_stays(content: str) -> None:
    data = package(p(content))
    found = read(data, "odt")
    assert [one.reason for one in found.left] == ["nested"]
    assert translated(found, data, str).data == data


def test_the_address_of_a_charts_cell_is_no_text() -> None:
    address = "<draw:g><svg:desc>Fares.A2</svg:desc></draw:g>"
    cell = f"<table:table-cell office:value-type='string'>{p('Boats')}{address}</table:table-cell>"
    shape = f"<draw:g><svg:desc>A drawing</svg:desc><draw:custom-shape>{p('Drawn words')}</draw:custom-shape></draw:g>"
    table = f"<table:table><table:shapes>{shape}</table:shapes><table:table-row>{cell}</table:table-row></table:table>"
    chart = content_xml(f"<chart:chart>{table}</chart:chart>", "chart")
    found = read(package("", "spreadsheet", **{"Object 1__content": chart}), "ods")
    assert texts(found) == ["A drawing", "Drawn words", "Boats"]


def test_names_of_series_and_categories_of_charts_and_tips_of_links_are_text() -> None:
    def cell(text: str) -> str:
        return f'<table:table-cell office:value-type="string">{p(text)}</table:table-cell>'

    value = '<table:table-cell office:value-type="float" office:value="9.1"><text:p>9.1</text:p></table:table-cell>'
    table = (
        '<table:table table:name="local-table"><table:table-header-rows><table:table-row><table:table-cell/>'
        f"{cell('Sales of apples')}</table:table-row></table:table-header-rows><table:table-rows><table:table-row>"
        f"{cell('First quarter')}{value}</table:table-row></table:table-rows></table:table>"
    )
    chart = content_xml(f"<chart:chart>{table}</chart:chart>", "chart")
    link = p('See <text:a office:title="A tip here">our site</text:a> now') + p(
        '<text:a office:title="Another tip">Link</text:a>'
    )
    for kind, extension in (("text", "odt"), ("presentation", "odp")):
        data = package(
            link if kind == "text" else f"<draw:page>{link}</draw:page>", kind, **{"Object 1__content": chart}
        )
        assert sorted(texts(read(data, extension))) == sorted(
            ["A tip here", "See <g1>our site</g1> now", "Another tip", "Link", "Sales of apples", "First quarter"]
        )
