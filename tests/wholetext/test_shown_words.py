"""No shown word is left without a word: each text that a program shows of a file is a unit, or is reported as left.

The files have a text in each place that programs show, written here by hand: `Seen` and what the place is. What is no text
says `Kept`. A place that the reader does not know is found by its text alone, which is neither a unit nor among `left`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.wholetext.office import A, R, X, office
from tests.wholetext.test_epub import NCX, XHTML, book, opf, xhtml
from tests.wholetext.test_odf import package
from wholetext.files import formats
from wholetext.files.content import Content, ReadOptions
from wholetext.markup.marks import MARK

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_MORE = (
    f'{_W} {R} {A} xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
)


def _p(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def _field(instruction: str, result: str) -> str:
    return (
        f'<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>{result}</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    )


def _chart() -> str:
    def rich(text: str) -> str:
        return f"<c:title><c:tx><c:rich><a:p><a:r><a:t>{text}</a:t></a:r></a:p></c:rich></c:tx></c:title>"

    def cached(text: str) -> str:
        return (
            f'<c:strRef><c:f>Kept!$A$1</c:f><c:strCache><c:pt idx="0"><c:v>{text}</c:v></c:pt></c:strCache></c:strRef>'
        )

    return (
        f"<c:chartSpace {_MORE}><c:chart>{rich('Seen chart')}<c:plotArea><c:barChart><c:ser><c:tx>{cached('Seen series')}</c:tx>"
        f"<c:cat>{cached('Seen category')}</c:cat></c:ser></c:barChart><c:valAx>{rich('Seen axis')}"
        "</c:valAx></c:plotArea></c:chart></c:chartSpace>"
    )


def _diagram() -> str:
    return (
        f'<dgm:dataModel xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" {A}><dgm:ptLst><dgm:pt modelId="1">'
        "<dgm:t><a:p><a:r><a:t>Seen diagram</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"
    )


def _docx() -> bytes:
    body = (
        _p("Seen body")
        + f"<w:tbl><w:tblPr><w:tblCaption w:val='Seen tablecaption'/></w:tblPr><w:tr><w:tc>{_p('Seen cell')}</w:tc></w:tr></w:tbl>"
        "<w:p><w:ins><w:r><w:t>Seen insertion</w:t></w:r></w:ins><w:del><w:r><w:delText>Kept deletion</w:delText></w:r></w:del></w:p>"
        + _field("DATE \\@ Kept", "Seen date")
        + _field("TOC \\o Kept", "Seen contents")
        + _field("REF Kept", "Seen reference")
        + _field('HYPERLINK "Kept" \\o "Seen screentip"', "Seen linked")
        + _field('IF Kept = 1 "Seen iftrue" "Seen iffalse"', "")
        + _field('XE "Seen entry"', "")
        + _field("MACROBUTTON Kept Seen button", "")
        + '<w:p><w:fldSimple w:instr="AUTHOR Kept"><w:r><w:t>Seen author</w:t></w:r></w:fldSimple></w:p>'
        '<w:p><w:hyperlink r:id="x" w:tooltip="Seen tip"><w:r><w:t>Seen link</w:t></w:r></w:hyperlink></w:p>'
        '<w:p><w:r><w:drawing><wp:inline><wp:docPr id="1" name="Kept name" descr="Seen alternative" title="Seen imagetitle"/></wp:inline></w:drawing></w:r></w:p>'
        '<w:p><w:r><w:pict><v:shape><v:textpath string="Seen watermark"/></v:shape></w:pict></w:r></w:p>'
        f"<w:p><w:r><w:pict><v:shape><v:textbox><w:txbxContent>{_p('Seen vmlbox')}</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
        f'<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent>{_p("Seen textbox")}'
        f"</w:txbxContent></wps:txbx></w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent>{_p('Seen textbox')}"
        "</w:txbxContent></v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        '<w:p><w:sdt><w:sdtPr><w:alias w:val="Seen control"/><w:dropDownList><w:listItem w:displayText="Seen choice" w:value="Kept value"/></w:dropDownList>'
        "</w:sdtPr><w:sdtContent><w:r><w:t>Seen chosen</w:t></w:r></w:sdtContent></w:sdt></w:p>"
        '<w:p><w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:helpText w:type="text" w:val="Seen help"/><w:statusText w:type="text" w:val="Seen status"/>'
        '<w:ddList><w:listEntry w:val="Seen entry"/></w:ddList></w:ffData></w:fldChar></w:r><w:r><w:instrText>FORMDROPDOWN</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
        "<w:p><m:oMath><m:r><m:rPr><m:nor/></m:rPr><m:t>Seen mathtext</m:t></m:r></m:oMath></w:p>"
        "<w:p><w:r><w:ruby><w:rt><w:r><w:t>Kept reading</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>Seen base</w:t></w:r></w:rubyBase></w:ruby></w:r></w:p>"
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>Seen hidden</w:t></w:r></w:p>"
    )
    word = "wordprocessingml."
    parts = {
        "w/document.xml": (f"{word}document.main", f"<w:document {_MORE}><w:body>{body}</w:body></w:document>"),
        **{
            f"w/{name}.xml": (word + name, f"<w:{root} {_MORE}>{xml}</w:{root}>")
            for name, root, xml in (
                ("header", "hdr", _p("Seen header")),
                ("footer", "ftr", _p("Seen footer")),
                ("footnotes", "footnotes", f"<w:footnote w:id='2'>{_p('Seen footnote')}</w:footnote>"),
                ("endnotes", "endnotes", f"<w:endnote w:id='2'>{_p('Seen endnote')}</w:endnote>"),
                ("comments", "comments", f"<w:comment w:id='0' w:author='Kept author'>{_p('Seen comment')}</w:comment>"),
                ("numbering", "numbering", "<w:abstractNum><w:lvl><w:lvlText w:val='Seen level %1'/></w:lvl></w:abstractNum>"),
            )
        },
        "w/chart.xml": ("drawingml.chart", _chart()),
        "w/data.xml": ("drawingml.diagramData", _diagram()),
    }  # fmt: skip
    names = ("header", "footer", "footnotes", "endnotes", "comments", "numbering", "chart")
    targets = {**{f"{name}1": f"w/{name}.xml" for name in names}, "diagramData1": "w/data.xml"}
    return office(parts, {"w/document.xml": targets})


def _a(text: str) -> str:
    return f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"


def _shape(text: str, properties: str = "", kind: str = "") -> str:
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="Kept name" {properties}/><p:cNvSpPr/><p:nvPr>{kind}</p:nvPr></p:nvSpPr>'
        f"<p:spPr/><p:txBody><a:bodyPr/>{_a(text)}</p:txBody></p:sp>"
    )


def _pptx() -> bytes:
    def part(root: str, *shapes: str) -> str:
        return f"<p:{root} {_MORE}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:{root}>"

    table = (
        "<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id='3' name='Kept' title='Seen frametitle'/></p:nvGraphicFramePr><a:graphic>"
        f"<a:graphicData><a:tbl><a:tr><a:tc><a:txBody>{_a('Seen cell')}</a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )
    link = "<a:p><a:r><a:rPr><a:hlinkClick r:id='x' tooltip='Seen tip'/></a:rPr><a:t>Seen link</a:t></a:r></a:p>"
    field = "<a:p><a:fld id='1' type='datetime1'><a:t>Seen date</a:t></a:fld></a:p>"
    shapes = (
        _shape("Seen box", "descr='Seen alternative'"),
        f"<p:grpSp>{_shape('Seen group')}</p:grpSp>",
        _shape("Seen slidefooter", kind="<p:ph type='ftr'/>"),
        table,
        _shape("x").replace(_a("x"), link + field),
    )
    slides = (
        f"<p:presentation {_MORE}><p:sldMasterIdLst><p:sldMasterId r:id='slideMaster1'/></p:sldMasterIdLst>"
        "<p:sldIdLst><p:sldId id='256' r:id='slide1'/></p:sldIdLst></p:presentation>"
    )
    kind = "presentationml."
    comment = f"<p:cmLst {_MORE}><p:cm><p:text>Seen comment</p:text></p:cm></p:cmLst>"
    return office(
        {
            "p/presentation.xml": (f"{kind}presentation.main", slides),
            "p/slide.xml": (f"{kind}slide", part("sld", *shapes)),
            "p/notes.xml": (f"{kind}notesSlide", part("notes", _shape("Seen notes", kind="<p:ph type='body'/>"))),
            "p/layout.xml": (f"{kind}slideLayout", part("sldLayout", _shape("Seen layout"))),
            "p/master.xml": (f"{kind}slideMaster", part("sldMaster", _shape("Seen master"))),
            "p/handout.xml": (f"{kind}handoutMaster", part("handoutMaster", _shape("Seen handout"))),
            "p/comments.xml": (f"{kind}comments", comment),
            "p/chart.xml": ("drawingml.chart", _chart()),
            "p/data.xml": ("drawingml.diagramData", _diagram()),
        },
        {
            "p/presentation.xml": {"slide1": "p/slide.xml", "slideMaster1": "p/master.xml", "handoutMaster1": "p/handout.xml"},
            "p/slide.xml": {
                "notesSlide1": "p/notes.xml", "slideLayout1": "p/layout.xml", "comments1": "p/comments.xml",
                "chart1": "p/chart.xml", "diagramData1": "p/data.xml",
            },
            "p/layout.xml": {"slideMaster1": "p/master.xml"},
            "p/master.xml": {"slideLayout1": "p/layout.xml"},
        },
    )  # fmt: skip


def _xlsx() -> bytes:
    rows = (
        '<row><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Seen inline</t></is></c><c r="C1" t="s"><v>1</v></c>'
        '<c r="D1" t="str"><f>Kept()&amp;"Seen literal"&amp;A1</f><v>Kept result</v></c><c r="E1"><v>1</v></c><c r="F1" t="s"><v>3</v></c></row>'
    )
    sheet = (
        f'<worksheet {X} {R}><sheetData>{rows}</sheetData><dataValidations><dataValidation sqref="A1" promptTitle="Seen prompttitle" '
        'prompt="Seen prompt" errorTitle="Seen errortitle" error="Seen error" type="list"><formula1>"Seen listed,Kept2"</formula1>'
        '</dataValidation></dataValidations><hyperlinks><hyperlink ref="A1" tooltip="Seen tip"/></hyperlinks>'
        "<headerFooter><oddHeader>&amp;LSeen header</oddHeader><evenFooter>Seen evenfooter</evenFooter></headerFooter></worksheet>"
    )
    drawing = (
        f'<xdr:wsDr xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" {A}><xdr:sp><xdr:nvSpPr>'
        f'<xdr:cNvPr id="1" name="Kept" descr="Seen alternative"/></xdr:nvSpPr><xdr:txBody>{_a("Seen shape")}</xdr:txBody></xdr:sp></xdr:wsDr>'
    )
    kind = "spreadsheetml."
    return office(
        {
            "x/book.xml": (f"{kind}sheet.main", f'<workbook {X} {R}><sheets><sheet name="Seen sheet" r:id="worksheet1"/></sheets></workbook>'),
            "x/sheet.xml": (f"{kind}worksheet", sheet),
            "x/strings.xml": (
                f"{kind}sharedStrings",
                f"<sst {X}><si><t>Seen string</t></si><si><r><t>Seen </t></r><r><rPr><b/></rPr><t>rich</t></r></si>"
                "<si><t>Seen unused</t></si><si><t>Seen tableheader</t></si></sst>",
            ),
            "x/styles.xml": (
                f"{kind}styles",
                f'<styleSheet {X}><numFmts><numFmt numFmtId="165" formatCode="0&quot; Seen unit&quot;;[Red]\\-0"/></numFmts></styleSheet>',
            ),
            "x/table.xml": (
                f"{kind}table",
                f'<table {X} name="Kept" totalsRowLabel="Kept"><tableColumns><tableColumn id="1" name="Seen tableheader" '
                'totalsRowLabel="Kept"/></tableColumns></table>',
            ),
            "x/comments.xml": (f"{kind}comments", f'<comments {X}><commentList><comment ref="A1"><text><t>Seen comment</t></text></comment></commentList></comments>'),
            "x/drawing.xml": ("drawing", drawing),
            "x/chart.xml": ("drawingml.chart", _chart()),
            "x/pivot.xml": (
                f"{kind}pivotTable",
                f'<pivotTableDefinition {X} name="Kept" dataCaption="Seen caption" grandTotalCaption="Seen grandtotal">'
                '<dataFields><dataField name="Seen sum" fld="0"/></dataFields></pivotTableDefinition>',
            ),
            "x/slicer.xml": ("slicer", '<slicers xmlns="http://schemas.microsoft.com/office/spreadsheetml/2009/9/main"><slicer name="Kept" caption="Seen slicer"/></slicers>'),
        },
        {
            "x/book.xml": {"worksheet1": "x/sheet.xml", "sharedStrings1": "x/strings.xml", "styles1": "x/styles.xml"},
            "x/sheet.xml": {
                "table1": "x/table.xml", "comments1": "x/comments.xml", "drawing1": "x/drawing.xml", "pivotTable1": "x/pivot.xml",
                "slicer1": "x/slicer.xml",
            },
            "x/drawing.xml": {"chart1": "x/chart.xml"},
        },
    )  # fmt: skip


def _odt() -> bytes:
    body = (
        "<text:p>Seen body</text:p><text:h>Seen heading</text:h><text:list><text:list-item><text:p>Seen item</text:p></text:list-item></text:list>"
        "<text:p>a<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Seen note</text:p></text:note-body></text:note></text:p>"
        "<text:p><office:annotation><text:p>Seen annotation</text:p></office:annotation></text:p>"
        "<text:p><draw:frame draw:name='Kept'><draw:text-box><text:p>Seen textbox</text:p></draw:text-box><svg:title>Seen imagetitle</svg:title><svg:desc>Seen alternative</svg:desc></draw:frame></text:p>"
        "<text:p><text:date>Seen date</text:date> <text:placeholder>Seen placeholder</text:placeholder> <text:conditional-text "
        "text:string-value-if-true='Seen iftrue' text:string-value-if-false='Seen iffalse'>Seen iftrue</text:conditional-text></text:p>"
        "<text:p><text:drop-down text:name='Kept'><text:label text:value='Seen choice'/>Seen chosen</text:drop-down></text:p>"
        "<text:p><text:a office:title='Seen tip'>Seen link</text:a></text:p>"
        "<text:p><text:text-input text:description='Seen prompt'>Seen input</text:text-input></text:p>"
        "<text:p><text:alphabetical-index-mark text:string-value='Seen entry'/>a</text:p>"
        "<text:table-of-content-entry-template><text:index-entry-span>Seen entryspan</text:index-entry-span></text:table-of-content-entry-template>"
        "<text:p><text:ruby><text:ruby-base>Seen base</text:ruby-base><text:ruby-text>Kept reading</text:ruby-text></text:ruby></text:p>"
        "<text:table-of-content><text:index-body><text:p>Seen contents</text:p></text:index-body></text:table-of-content>"
        "<office:forms><form:form><form:button form:label='Seen button' form:title='Seen buttontip'/></form:form></office:forms>"
        "<table:table><table:title>Seen tabletitle</table:title><table:table-row><table:table-cell><text:p>Seen cell</text:p></table:table-cell></table:table-row></table:table>"
    )
    styles = (
        "<office:document-styles xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' xmlns:style='urn:oasis:names:tc:opendocument:xmlns:style:1.0' "
        "xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0' xmlns:number='urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0'><office:styles>"
        "<text:list-style><text:list-level-style-number text:level='1' style:num-prefix='Seen prefix ' style:num-format='1'/></text:list-style>"
        "<number:date-style style:name='N1'><number:text> Seen dateword</number:text></number:date-style></office:styles>"
        "<office:master-styles><style:master-page><style:header><text:p>Seen header</text:p></style:header><style:footer><text:p>Seen footer</text:p></style:footer>"
        "</style:master-page></office:master-styles></office:document-styles>"
    )
    return package(body, styles=styles)


def _ods() -> bytes:
    return package(
        "<table:content-validations><table:content-validation><table:help-message table:title='Seen helptitle'><text:p>Seen help</text:p></table:help-message>"
        "<table:error-message table:title='Seen errortitle'><text:p>Seen error</text:p></table:error-message></table:content-validation></table:content-validations>"
        "<table:table table:name='Seen sheet'><table:table-row><table:table-cell office:value-type='string'><text:p>Seen cell</text:p></table:table-cell>"
        "<table:table-cell office:value-type='string' table:formula='of:=Kept'><text:p>Seen result</text:p></table:table-cell>"
        "</table:table-row></table:table>",
        "spreadsheet",
    )  # fmt: skip


def _odp() -> bytes:
    return package(
        "<presentation:footer-decl presentation:name='f'>Seen footer</presentation:footer-decl><presentation:header-decl presentation:name='h'>Seen header</presentation:header-decl>"
        "<presentation:date-time-decl presentation:name='d' presentation:source='fixed'>Seen date</presentation:date-time-decl>"
        "<draw:page draw:name='Kept'><draw:frame><draw:text-box><text:p>Seen box</text:p></draw:text-box></draw:frame><draw:custom-shape><text:p>Seen shape</text:p></draw:custom-shape>"
        "<presentation:notes><draw:frame><draw:text-box><text:p>Seen notes</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>",
        "presentation",
    )  # fmt: skip


_PAGE = (
    "<p>Seen paragraph <b title='Seen tip'>Seen bold</b></p><img alt='Seen alternative' src='kept'/>"
    "<table><caption>Seen caption</caption><tr><th abbr='Seen abbreviation'>Seen head</th><td>Seen cell</td></tr></table>"
    "<form><label>Seen label</label><input type='text' placeholder='Seen placeholder' value='Kept value'/>"
    "<input type='submit' value='Seen submit'/><input type='hidden' value='Kept value'/><button>Seen button</button>"
    "<textarea>Seen area</textarea><select><optgroup label='Seen group'><option>Seen option</option></optgroup></select></form>"
    "<details><summary>Seen summary</summary>Seen details</details><div aria-label='Seen aria' aria-description='Seen described' "
    "aria-roledescription='Seen role' aria-valuetext='Seen valuetext' aria-placeholder='Seen ariaplaceholder'>x</div>"
    "<svg><title>Seen svgtitle</title><desc>Seen svgdesc</desc><text>Seen svgtext</text></svg>"
    "<math><mtext>Seen mathtext</mtext></math><video><track label='Seen track' kind='captions' src='kept'/>Seen fallback</video>"
    "<figure><figcaption>Seen figure</figcaption></figure><ruby>Seen base<rt>Kept reading</rt></ruby>"
    "<pre>Kept preformatted</pre><code>Kept code</code><p translate='no'>Kept untranslated</p><noscript><p>Seen noscript</p></noscript>"
    '<script type=\'application/ld+json\'>{"@type": "Kept", "name": "Seen linked", "a": [{"b": "Seen nested"}]}</script>'
    "<iframe srcdoc='&lt;p>Seen embedded &lt;b>Seen embeddedbold&lt;/b>&lt;/p>&lt;p>Seen second&lt;/p>'></iframe>"
    "<script>var x = 'Kept script';</script><style>a::after { content: 'Kept style' }</style>"
)

_HTML = (
    "<!DOCTYPE html><html lang='en'><head><title>Seen title</title><meta name='description' content='Seen description'>"
    "<meta property='og:title' content='Seen ogtitle'><meta name='twitter:description' content='Seen twitter'><meta itemprop='headline' content='Seen headline'>"
    "<meta property='og:image:alt' content='Seen ogalt'><meta name='generator' content='Kept generator'>"
    f"</head><body>{_PAGE}</body></html>"
)  # fmt: skip


def _epub() -> bytes:
    ncx = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>Seen doctitle</text></docTitle><navMap><navPoint><navLabel>'
        "<text>Seen navpoint</text></navLabel></navPoint></navMap></ncx>"
    )
    nav = xhtml(
        "<nav xmlns:epub='http://www.idpf.org/2007/ops' epub:type='toc'><ol><li><a href='a.html'>Seen nav</a></li></ol></nav>"
    )
    metadata = (
        "<dc:language>en</dc:language><dc:title>Seen book</dc:title><dc:description>Seen description</dc:description>"
    )
    return book(
        {
            "book/p.opf": opf(metadata, ("a.html", XHTML), ("nav.html", XHTML), ("b.ncx", NCX)).replace(
                "</package>", "<guide><reference type='cover' title='Seen guide' href='a.html'/></guide></package>"
            ),
            "book/a.html": xhtml(_PAGE),
            "book/nav.html": nav,
            "book/b.ncx": ncx,
        }
    )


_MARKDOWN = """---
title: Seen title
description: Seen description
layout: Kept layout
---

# Seen heading {#kept}

Seen paragraph [Seen link](kept "Seen linktitle") ![Seen alternative](kept) [Seen shortcut] and [[kept|Seen alias]].

- [ ] Seen task
- **Seen bold**

| Seen head |
|---|
| Seen cell |

> [!note] Seen callout
> Seen quote

!!! note "Seen admonition"

    Seen indented

=== "Seen tab"

    Seen tabbed

:::tip Seen container
Seen contained
:::

Seen term
:   Seen definition

*[HTML]: Seen abbreviation

Seen words[^1] and {{< figure src="kept" caption="Seen caption" >}} <span title="Seen tip">Seen span</span>

[^1]: Seen footnote

<details><summary>Seen summary</summary>

Seen details

</details>

[Seen shortcut]: kept
"""

FILES: dict[str, tuple[str, bytes]] = {
    "docx": ("docx", _docx()),
    "pptx": ("pptx", _pptx()),
    "xlsx": ("xlsx", _xlsx()),
    "odt": ("odt", _odt()),
    "ods": ("ods", _ods()),
    "odp": ("odp", _odp()),
    "html": ("html", _HTML.encode()),
    "xhtml": ("xhtml", xhtml(_PAGE).encode()),
    "epub": ("epub", _epub()),
    "md": ("md", _MARKDOWN.encode()),
    "txt": ("txt", b"Seen heading\n============\n\n- Seen item\n* Seen bullet\n1. Seen number\n\nSeen\tcolumn\n"),
    "srt": ("srt", b"1\n00:00:01,000 --> 00:00:02,000 X1:0\n<i>Seen italic</i>\n- Seen dash\n[Seen sound]\n\nSeen stray\n"),
    "vtt": (
        "vtt",
        b"WEBVTT Kept\n\nNOTE Kept note\n\nKept id\n00:01.000 --> 00:02.000\n<v Kept>Seen voice\n \nSeen after\n<ruby>Seen base<rt>Kept</rt></ruby>\n",
    ),
    "ass": (
        "ass",
        b"[Script Info]\nTitle: Kept\n\n[Events]\nFormat: Layer, Start, End, Style, Name, Text\n"
        b"Dialogue: 0,0:00:01.00,0:00:02.00,Default,Kept,{\\an8}Seen line\\NSeen second, {\\p1}m 0 0 Kept{\\p0}Seen last\n",
    ),
    "xliff": (
        "xliff",
        b'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>'
        b'<trans-unit id="1"><source>Seen source</source></trans-unit><trans-unit id="2" translate="no"><source>Seen locked</source></trans-unit>'
        b'<trans-unit id="3" approved="yes"><source>Seen approved</source><target/></trans-unit></body></file></xliff>',
    ),
    "po": ("po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "Seen one"\nmsgid_plural "Seen many"\nmsgstr[0] ""\nmsgstr[1] ""\n'),
    "json": ("json", b'{"a": "Seen text", "b": ["Seen item"], "c": {"d_one": "Seen one"}, "locale": "en", "url": "kept/kept"}'),
    "arb": ("arb", b'{"a": "Seen text {n, plural, one{Seen one} other{Seen other}}", "@a": {"description": "Kept description"}}'),
    "android": (
        "xml",
        b'<resources><string name="a">Seen text</string><string-array name="b"><item>Seen item</item></string-array>'
        b'<plurals name="c"><item quantity="other">Seen plural</item></plurals><string name="d" translatable="false">Kept text</string></resources>',
    ),
    "properties": ("properties", b"# Kept remark\na = Seen text \\\n  Seen continued\nb: Seen colon\n"),
    "strings": ("strings", b'/* Kept remark */\n"Kept key" = "Seen text";\n'),
    "xcstrings": ("xcstrings", b'{"sourceLanguage": "en", "strings": {"Seen key": {}, "k": {"localizations": {"en": {"stringUnit": {"state": "translated", "value": "Seen value"}}}}}, "version": "1.0"}'),
    "resx": ("resx", b'<root><data name="a"><value>Seen text</value><comment>Kept comment</comment></data><data name="b.Size" type="System.Drawing.Size"><value>1, 2</value></data></root>'),
    "ts": ("ts", b'<!DOCTYPE TS><TS version="2.1"><context><name>Kept</name><message><source>Seen text</source><translation type="unfinished"/></message></context></TS>'),
    "yaml": ("yml", b"en:\n  a: Seen text\n  b: >-\n    Seen folded\n    Seen second\n  c: [Seen listed, 'Seen quoted']\n"),
    "csv": ("csv", b"id,Seen column\n1,Seen cell\n2,\"Seen, quoted\"\n"),
}  # fmt: skip


def shown(data: bytes) -> list[str]:
    """The texts of the places in a file, and the places' names."""
    raw = b"".join(_parts(data)).decode()
    return sorted(set(re.findall(r"Seen(?:\s+|</t></r><r><rPr><b/></rPr><t>)([a-z]+)", raw)))


def _parts(data: bytes) -> Iterator[bytes]:
    if not data.startswith(b"PK"):
        yield data
        return
    archive = formats.import_module("wholetext.files.archive").Archive(data)
    yield from (archive.read(name) for name in archive.names)


def unsaid(content: Content, data: bytes) -> list[str]:
    """The places whose text is neither a unit nor left."""
    said = " ".join([*(MARK.sub(" ", unit.block.text) for unit in content.units), *(one.text for one in content.left)])
    found = set(re.findall(r"Seen\W+([a-z]+)", said))
    return [place for place in shown(data) if place not in found]


@pytest.mark.parametrize("name", FILES)
def test_no_shown_word_is_left_without_a_word(name: str) -> None:
    extension, data = FILES[name]
    content = formats.read(data, ReadOptions(extension, "de"))
    assert len(shown(data)) > 0
    assert unsaid(content, data) == []


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_text_is_no_unit(name: str) -> None:
    extension, data = FILES[name]
    content = formats.read(data, ReadOptions(extension, "de"))
    assert [unit.block.text for unit in content.units if "Kept" in unit.block.text] == []


@pytest.mark.parametrize(
    ("markup", "left"),
    [
        ('<script type="application/ld+json; charset=utf-8">{"url": "a/b-c", "@id": "Some id", "n": 1}</script>', []),
        ("<script type=application/ld+json>{ Seen broken </SCRIPT >", [("json_ld", "{ Seen broken")]),
        ('<!-- <iframe srcdoc="Seen"> --><iframe SRCDOC=" 12 "></iframe>', []),
        ("<iframe srcdoc=Seen></iframe><iframe srcdoc></iframe>", [("srcdoc", "Seen")]),
        ("<script>'<iframe srcdoc=Kept>'</script>", []),
    ],
)
def test_what_is_embedded_in_a_page_is_reported_by_its_kind(markup: str, left: list[tuple[str, str]]) -> None:
    content = formats.read(f"<p>Seen</p>{markup}".encode(), ReadOptions("html", "de"))
    assert [(one.reason, one.text) for one in content.left] == left
    assert [unit.block.text for unit in content.units] == ["Seen"]


def test_each_reader_has_a_file() -> None:
    read = {formats.format_of(extension).module for extension, _ in FILES.values()}
    assert {one.module for one in formats.FORMATS} - read == {".pdf"}
