"""The strategy of mutations: files of all formats, changed inside a part of a package, in the package, or in a text.

Most changed parts are well-formed XML, because a parser refuses the others at once.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import docx as python_docx
import openpyxl
import pptx as python_pptx
from hypothesis import strategies as st
from openpyxl.comments import Comment
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.hostile_files.attacks import (
    ODF,
    WP,
    A,
    M,
    P,
    R,
    W,
    X,
    document_types,
    epub,
    flat_opendocument,
    opendocument,
    package,
    pdf,
    relationships,
    stream,
)

# ---- seeds

_SENTENCES = (
    "The train to the coast leaves at nine.",
    "Please send the signed contract before Friday & call us.",
    "Nobody told me about it.",
    "A single ticket costs less than two tickets <of last year>.",
)


def _saved(save: Callable[[io.BytesIO], Any]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _docx() -> bytes:
    """A docx as python-docx writes it."""
    made = python_docx.Document()
    made.add_heading("About trains", 0)
    for sentence in _SENTENCES:
        paragraph = made.add_paragraph(sentence)
        paragraph.add_run(" Bold words").bold = True
        paragraph.add_run(" and plain ones.")
    table = made.add_table(2, 2)
    for cell in (cell for row in table.rows for cell in row.cells):
        cell.text = "In a cell"
    made.sections[0].header.paragraphs[0].text = "In the header"
    made.sections[0].footer.paragraphs[0].text = "In the footer"
    made.core_properties.title = "A title"
    return _saved(made.save)


_DOCX_BODY = """
<w:p><w:pPr><w:pStyle w:val="Title"/><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="1" w:name="a"/><w:r w:rsidR="00A1"><w:t>About </w:t></w:r>
<w:proofErr w:type="spellStart"/><w:r><w:rPr><w:b/><w:lang w:val="en-US"/></w:rPr><w:t xml:space="preserve">bold words </w:t></w:r><w:bookmarkEnd w:id="1"/>
<w:r><w:t>and others</w:t><w:br/><w:t>on a line</w:t></w:r></w:p>
<w:p><w:r><w:t>See </w:t></w:r><w:hyperlink r:id="rId1" w:tooltip="A tip"><w:r><w:rPr><w:u w:val="single"/></w:rPr><w:t>our site</w:t></w:r></w:hyperlink>
<w:r><w:t> or </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "x"</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>
<w:r><w:t>this page</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r><w:fldSimple w:instr=" PAGE "><w:r><w:t>3</w:t></w:r></w:fldSimple></w:p>
<w:p><w:ins w:id="2" w:author="A"><w:r><w:t>New words</w:t></w:r></w:ins><w:del w:id="3"><w:r><w:delText>old words</w:delText></w:r></w:del>
<w:r><w:t> with a note</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r><w:commentRangeStart w:id="0"/><w:r><w:t> and more</w:t></w:r><w:commentRangeEnd w:id="0"/></w:p>
<w:tbl><w:tblPr><w:tblCaption w:val="A table"/></w:tblPr><w:tr><w:tc><w:p><w:r><w:t>In a cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>A control</w:t></w:r></w:p></w:sdtContent></w:sdt>
<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><wp:docPr id="1" name="n" descr="A dog"/><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></wp:inline></w:drawing></mc:Choice>
<mc:Fallback><w:pict><v:shape alt="A dog"><v:textpath string="Art of words"/><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r><w:r><w:t>after it</w:t></w:r></w:p>
<w:p><w:r><w:ruby><w:rt><w:r><w:t>kana</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>base words</w:t></w:r></w:rubyBase></w:ruby></w:r><m:oMath><m:r><m:t>E</m:t></m:r></m:oMath><w:r><w:t>is energy</w:t></w:r></w:p>
<w:sectPr><w:headerReference r:id="header1"/></w:sectPr>"""


def _docx_of_many_elements() -> bytes:
    kind = "wordprocessingml."
    names = f'{W} {R} {M} {WP} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml"'
    parts = {
        "word/document.xml": (f"{kind}document.main", f"<w:document {names}><w:body>{_DOCX_BODY}</w:body></w:document>"),
        "word/header1.xml": (f"{kind}header", f"<w:hdr {names}><w:p><w:r><w:t>In the header</w:t></w:r></w:p></w:hdr>"),
        "word/footnotes.xml": (
            f"{kind}footnotes", f'<w:footnotes {names}><w:footnote w:id="2"><w:p><w:r><w:t>A note</w:t></w:r></w:p></w:footnote></w:footnotes>'
        ),
        "word/comments.xml": (
            f"{kind}comments", f'<w:comments {names}><w:comment w:id="0"><w:p><w:r><w:t>A remark</w:t></w:r></w:p></w:comment></w:comments>'
        ),
        "word/styles.xml": (
            f"{kind}styles", f'<w:styles {names}><w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="en-US" w:eastAsia="en-US" w:bidi="ar-SA"/></w:rPr></w:rPrDefault></w:docDefaults></w:styles>'
        ),
        "word/diagrams/data1.xml": (
            "drawingml.diagramData",
            f'<dgm:dataModel xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" {A}><dgm:t><a:p><a:r><a:rPr lang="en-US"/><a:t>A step</a:t></a:r></a:p></dgm:t></dgm:dataModel>',
        ),
    }  # fmt: skip
    links = {name.rpartition("/")[2].partition(".")[0]: f"/{name}" for name in parts}
    return _office(parts, {"word/document.xml": links})


def _office(parts: Mapping[str, tuple[str, str]], links: Mapping[str, Mapping[str, str]]) -> bytes:
    main = next(iter(parts))
    entries = {"[Content_Types].xml": document_types({name: kind for name, (kind, _) in parts.items()})}
    for name, targets in {"": {"officeDocument": f"/{main}"}, **links}.items():
        folder, _, base = name.rpartition("/")
        entries[f"{folder}/_rels/{base}.rels".lstrip("/")] = relationships(targets)
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    return package({**entries, **{name: head + xml for name, (_, xml) in parts.items()}})


def _pptx() -> bytes:
    deck = python_pptx.Presentation()
    for number, sentence in enumerate(_SENTENCES[:2]):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Title {number}"
        paragraph = slide.shapes.add_textbox(0, 0, Inches(3), Inches(1)).text_frame.paragraphs[0]
        paragraph.add_run().text = sentence
        bold = paragraph.add_run()
        bold.text, bold.font.bold = " In bold", True
    slide.notes_slide.notes_text_frame.text = "Say this"
    slide.shapes.add_table(1, 2, 0, 0, Inches(3), Inches(1)).table.cell(0, 0).text = "In a cell"
    data = CategoryChartData()
    data.categories = ["North"]
    data.add_series("Sales", (1,))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(3), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Of the chart"
    return _saved(deck.save)


def _small_pptx() -> bytes:
    kind = "presentationml."
    text = '<a:p><a:pPr/><a:r><a:rPr lang="en-US" altLang="de-DE" dirty="0"/><a:t>Quarter</a:t></a:r><a:r><a:rPr lang="en-GB" b="1"/><a:t>ly report</a:t></a:r><a:br><a:rPr/></a:br><a:r><a:t>of us_x000B_all</a:t></a:r><a:fld type="datetime"><a:t>May</a:t></a:fld><a:endParaRPr lang="en-US"/></a:p>'
    shape = f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="a" descr="A dog"/></p:nvSpPr><p:txBody>{text}</p:txBody></p:sp>'
    ids = '<p:sldIdLst><p:sldId id="256" r:id="slide1"/><p:sldId id="257" r:id="slide2"/></p:sldIdLst>'
    return _office(
        {
            "ppt/presentation.xml": (f"{kind}presentation.main", f"<p:presentation {P} {R}>{ids}</p:presentation>"),
            **{f"ppt/slides/slide{n}.xml": (f"{kind}slide", f"<p:sld {P} {A} {R}><p:cSld><p:spTree>{shape}</p:spTree></p:cSld></p:sld>") for n in (1, 2)},
        },
        {"ppt/presentation.xml": {f"slide{n}": f"/ppt/slides/slide{n}.xml" for n in (1, 2)}},
    )  # fmt: skip


def _xlsx() -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Cities"
    for row in (["City", "Note"], ["Rome", "It is old"], ["Oslo", "It is cold & far"], ["A-17", 12]):
        sheet.append(row)
    sheet["E1"] = '=IF(A2="Rome",VLOOKUP("Oslo",A1:B4,2),0)'
    sheet["D1"].comment = Comment("A remark", "me")
    sheet.oddHeader.left.text = "Report of &P"
    validation = DataValidation(type="list", formula1='"Open,Closed"', promptTitle="Choose", prompt="One of two")
    sheet.add_data_validation(validation)
    validation.add("F1")
    sheet.add_table(Table(displayName="T", ref="A1:B4"))
    return _saved(book.save)


def _small_xlsx() -> bytes:
    kind = "spreadsheetml."
    strings = '<si><r><t>Some </t></r><r><rPr><b/></rPr><t>bold</t></r><r><t xml:space="preserve"> text</t></r></si><si><t>First line.\nSecond line_x000D_\nof words</t></si><si><t>base</t><rPh sb="0" eb="2"><t>reading</t></rPh></si>'
    cells = "".join(f'<c r="{column}1" t="s"><v>{n}</v></c>' for n, column in enumerate("ABC"))
    cells += '<c r="D1" t="inlineStr"><is><t>In a cell</t></is></c><c r="E1"><f>COUNTIF(A:A,"*fee*")</f></c>'
    return _office(
        {
            "xl/workbook.xml": (
                f"{kind}sheet.main", f'<workbook {X}><sheets><sheet name="A" sheetId="1" r:id="worksheet1"/></sheets><definedNames><definedName name="n">"Page"</definedName></definedNames></workbook>'
            ),
            "xl/one.xml": (
                f"{kind}worksheet", f'<worksheet {X}><sheetData><row r="1">{cells}</row></sheetData><autoFilter ref="A1:C1"><filterColumn colId="0"><filters><filter val="Some"/></filters></filterColumn></autoFilter><headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"Left &amp;CPage &amp;P</oddHeader></headerFooter></worksheet>'
            ),
            "xl/strings.xml": (f"{kind}sharedStrings", f"<sst {X}>{strings}</sst>"),
        },
        {"xl/workbook.xml": {"worksheet1": "/xl/one.xml", "sharedStrings1": "/xl/strings.xml"}},
    )  # fmt: skip


_ODF_TEXT = """<text:h text:outline-level="1">About trains</text:h><text:p>The <text:span text:style-name="T1">train to</text:span> the coast<text:line-break/>leaves
at <text:s text:c="2"/>nine.<text:note text:id="n1"><text:note-citation>1</text:note-citation><text:note-body><text:p>A note</text:p></text:note-body></text:note></text:p>
<text:p><text:a href="x">A link</text:a> to <text:page-number>3</text:page-number>.<text:tab/>More words<office:annotation><text:p>A remark</text:p></office:annotation></text:p>
<table:table table:name="A"><table:table-row><table:table-cell office:value-type="string"><text:p>In a cell</text:p></table:table-cell>
<table:table-cell office:value-type="string" table:number-columns-repeated="3" office:string-value="Old words"><text:p>Old words</text:p></table:table-cell>
<table:table-cell office:value-type="float" office:value="3" table:formula="of:=IF([.A1]=&quot;words&quot;;1;2)"><text:p>3</text:p></table:table-cell></table:table-row></table:table>"""


def _odf(kind: str) -> bytes:
    body = _ODF_TEXT
    if kind == "presentation":
        body = f'<draw:page draw:name="a"><draw:frame><draw:text-box>{_ODF_TEXT}</draw:text-box><svg:title>A dog</svg:title></draw:frame><presentation:notes><text:p>Say this</text:p></presentation:notes></draw:page>'
    elif kind == "spreadsheet":
        body = _ODF_TEXT[_ODF_TEXT.index("<table:") :]
    styles = (
        f'<office:document-styles {ODF}><office:styles><style:default-style style:family="paragraph"><style:text-properties fo:language="en"'
        ' fo:country="US"/></style:default-style></office:styles><office:master-styles><style:master-page style:name="A"><style:header>'
        "<text:p>In the header</text:p></style:header></style:master-page></office:master-styles></office:document-styles>"
    )
    return opendocument(body, kind, **{"styles.xml": styles})


_XHTML = '<?xml version="1.0"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><head><title>A &amp; b</title><style>p > b {}</style></head><body><h1 id="x">One</h1><p class="a">It&#8217;s <b>bold</b> &amp; <a href="two.html" title="Go there">far</a><br/>end</p><pre>x = 1</pre><ul><li>An item</li></ul><svg><text>Label</text></svg></body></html>'
_NCX = '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" xml:lang="en"><docTitle><text>A book</text></docTitle><navMap><navPoint id="n"><navLabel><text>One</text></navLabel><content src="one.html"/></navPoint></navMap></ncx>'


def _packages() -> dict[str, list[bytes]]:
    docx, pptx, xlsx = [_docx(), _docx_of_many_elements()], [_pptx(), _small_pptx()], [_xlsx(), _small_xlsx()]
    return {
        "docx": docx,
        "docm": [_retyped(one, b"wordprocessingml.document.main", b"x.ms-word.document.macroEnabled.main") for one in docx],
        "pptx": pptx,
        "xlsx": xlsx,
        "odt": [_odf("text")],
        "ods": [_odf("spreadsheet")],
        "odp": [_odf("presentation")],
        "epub": [epub({"one.html": _XHTML, "two.html": _XHTML}, toc=_NCX)],
    }  # fmt: skip


def _retyped(data: bytes, old: bytes, new: bytes) -> bytes:
    entries = _read(data)
    entries["[Content_Types].xml"] = entries["[Content_Types].xml"].replace(old, new)
    return package(entries)


_MARKDOWN = """---
title: "About trains"
description: a page
---

# About *trains* and `code`

The train to the [coast](http://a.b "A title") leaves at **nine**.\\
A new line, ![a dog](dog.png), <b>html</b> and a note[^1].

[^1]: The note.

| City | Note |
|---|---|
| Rome | it is *old* |

- [ ] an item
  - another one

> A quote

<div title="A tip">
<p>Some words</p>
</div>

```
code
```
"""
_XLIFF = '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="ja" original="a" datatype="plaintext"><body><group id="g"><trans-unit id="1"><source>Some <g id="1">bold</g> words<x id="2"/> of <ph id="3">{0}</ph></source><note>A note</note></trans-unit><trans-unit id="2" approved="yes"><source>Done</source><target state="final">Fertig</target></trans-unit><trans-unit id="3"><source>First. Second.</source><seg-source><mrk mtype="seg" mid="1">First.</mrk> <mrk mtype="seg" mid="2">Second.</mrk></seg-source><target state="new"/></trans-unit></group></body></file></xliff>'
_XLIFF_2 = '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="ja"><file id="f"><unit id="1"><notes><note>A note</note></notes><originalData><data id="d1">b</data></originalData><segment state="initial"><source>Some <pc id="1" dataRefStart="d1">bold</pc> words</source></segment><ignorable><source> </source></ignorable><segment><source>More <ph id="2"/> words</source><target>Mehr</target></segment></unit></file></xliff>'
_ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
<!-- A remark --><string name="a">It\\'s a <b>bold</b> word, <xliff:g id="n">%1$s</xliff:g>\\n</string>
<string name="b" translatable="false">no</string><string name="c"><![CDATA[<i>Some</i> words]]></string><string name="d">@string/a</string>
<plurals name="e"><item quantity="one">%d day</item><item quantity="other">%d days</item></plurals><string-array name="f"><item>An item</item></string-array>
</resources>
"""
_PO = """# A file
msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#. A remark
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s and\\n"
"close it"
msgstr ""

#, fuzzy
msgid "One file"
msgid_plural "%d files"
msgstr[0] "x"
msgstr[1] ""

#~ msgid "old"
#~ msgstr "alt"
"""
_SRT = "1\n00:00:01,000 --> 00:00:02,000\n<i>Where were you\nat nine?</i>\n\n2\n00:00:03,000 --> 00:00:04,500\n{\\an8}- Here.\n- There.\n"
_VTT = "WEBVTT - a film\n\nNOTE a remark\n\nSTYLE\n::cue {}\n\na\n00:01.000 --> 00:02.000 line:0\n<v Ann>Where <c.x>were</c> you &amp; me?\n\n00:03.000 --> 00:04.000\n<00:03.500>Here.\n"
_ASS = "[Script Info]\nTitle: A film\n\n[V4+ Styles]\nFormat: Name, Fontname\nStyle: D,Arial\n\n[Events]\nFormat: Layer, Start, End, Style, Text\nDialogue: 0,0:00:01.00,0:00:02.00,D,{\\i1}Where were\\Nyou{\\i0}, Ann?\nDialogue: 0,0:00:03.00,0:00:04.00,D,{\\p1}m 0 0 l 1 1{\\p0}\nComment: 0,0,0,D,no\n"
_JSON = '{"menu": {"open": "Open the {{name}} file", "list": ["An item", "Another item", 3, null], "when": "{n, plural, one {# day} other {# days}}",\n "key_one": "one word", "key_other": "{{count}} words", "u": "caf\\u00e9 \\ud83d\\ude00", "url": "http://a.b"}}'
_ARB = '{"@@locale": "en", "title": "About trains", "@title": {"description": "A title", "placeholders": {"n": {}}}, "days": "{n, plural, =0 {no day} other {{n} days}}"}'
_CSV = 'id,City,Note\n1,Rome,"It is old, and ""big"""\n2,Oslo,"Two\nlines"\n3,=SUM(A1),some words\n'
_PROPERTIES = "# A remark\na.b = It''s {0}, \\\n    and more\nc: Some \\u00e9 words\\n\nd Some words\ne={0,choice,0#none|1#one} of it\n# NOI18N\nf=kept\n"
_STRINGS = '/* A remark */\n"a" = "Say \\"it\\" to %@\\n";\nb = "Two\nlines"; // of c\n"c" = "%1$#@n@ of them";\n"d";\n'
_XCSTRINGS = """{
  "sourceLanguage" : "en",
  "strings" : {
    "%lld files" : {
      "comment" : "A remark",
      "localizations" : {
        "en" : { "variations" : { "plural" : { "one" : { "stringUnit" : { "state" : "translated", "value" : "%lld file" } }, "other" : { "stringUnit" : { "state" : "translated", "value" : "%lld files" } } } } },
        "ja" : { "variations" : { "plural" : { "other" : { "stringUnit" : { "state" : "new", "value" : "" } } } } }
      }
    },
    "Some words" : {

    },
    "kept" : { "shouldTranslate" : false },
    "gone" : { "extractionState" : "stale" }
  },
  "version" : "1.0"
}"""
_RESX = '<?xml version="1.0" encoding="utf-8"?>\n<root>\n<resheader name="version"><value>2.0</value></resheader>\n<data name="a" xml:space="preserve"><value>Some &lt;b&gt;{0:N2}&lt;/b&gt; words</value><comment>A remark</comment></data>\n<data name="b.Size" type="System.Drawing.Size"><value>1, 2</value></data>\n<data name="c"><value><![CDATA[More words]]></value></data>\n</root>\n'
_QT = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" language="ja_JP">\n<context><name>Window</name>\n<message><source>&amp;Open %1</source><extracomment>A remark</extracomment><translation type="unfinished"></translation></message>\n<message numerus="yes"><source>%n file(s)</source><translation type="unfinished"><numerusform></numerusform></translation></message>\n<message><source>Gone</source><translation type="vanished">Weg</translation></message>\n<message><source>New words</source></message></context></TS>\n'
_YAML = """# A remark
en:
  title: "Hello, \\u201cyou\\u201d"  # said first
  plain: Some words and
    more
  single: 'It''s here'
  flow: {one: "One word", other: Some words, list: [a word, 3]}
  text: |
    First lines
    of it.

    - An item
  folded: >-
    Folded words
    of one line
  list:
  - An item
  - &x
    key: Of an item
  other:
    <<: *x
"""

_TEXTS: Mapping[str, Sequence[str]] = {
    "txt": ("\n\n".join(_SENTENCES) + "\n- an item\n- {0} more at http://a.b\n",),
    "md": (_MARKDOWN,),
    "html": (_XHTML.partition("\n")[2], _XHTML.replace("/>", ">").replace("</li>", "")),
    "xhtml": (_XHTML,),
    "srt": (_SRT,),
    "vtt": (_VTT,),
    "ass": (_ASS,),
    "po": (_PO,),
    "json": (_JSON,),
    "arb": (_ARB,),
    "xlf": (_XLIFF, _XLIFF_2),
    "xml": (_ANDROID,),
    "csv": (_CSV,),
    "tsv": (_CSV.replace(",", "\t"),),
    "fodt": (flat_opendocument(_ODF_TEXT),),
    "properties": (_PROPERTIES,),
    "strings": (_STRINGS,),
    "xcstrings": (_XCSTRINGS,),
    "resx": (_RESX,),
    "ts": (_QT,),
    "yaml": (_YAML,),
}  # fmt: skip


def _pdf() -> bytes:
    shown = "".join(f"BT /F 10 Tf 50 {700 - 12 * n} Td ({one}) Tj ET\n" for n, one in enumerate(_SENTENCES))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>>>>>"
    return pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 1/Kids[4 0 R]>>",
            3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            4: page,
            5: b"<</Length %d>>stream\n%b\nendstream" % (len(shown), shown.encode()),
            6: stream(b"not used"),
        }
    )


@cache
def seeds() -> tuple[dict[str, list[bytes]], dict[str, list[bytes]]]:
    """The files that are changed, by extension: packages, and others."""
    return _packages(), {**{name: [one.encode() for one in found] for name, found in _TEXTS.items()}, "pdf": [_pdf()]}


# ---- changes of text and XML

_TAG = re.compile(rb"<[^<>]+>")
_ATTRIBUTE = re.compile(rb"""\s([\w:.-]+)=("[^"<>]*"|'[^'<>]*')""")
_NAME = re.compile(rb"</?([\w:.-]+)")
_ID = re.compile(rb"(?<![\w&])(?:rId)?\d{1,6}(?=[\"'<])")
_VALUES = (
    b"", b"0", b"-1", b"1", b"99999999999999999999", b"true", b"NaN", b"&#0;", b"&#x10FFFF;", b"&lt;&amp;&quot;", b"\xc3\xa9\xe2\x80\xa8",
    b"../../../etc/passwd", b"http://a.b/c?d=e&amp;f", b"x" * 5_000, b"a b c", b"_x0041_", b"preserve", b"begin", b"end", b"separate", b"s",
    b"inlineStr", b"\t\n", b"\xef\xbf\xbe", b"&amp;" * 200, b"*" * 50 + b"a",
)  # fmt: skip
_INSERTED = (
    b"<![CDATA[a <b> & c]]>", b"<!-- a remark -->", b"<?a b?>", b"&amp;", b"&#x41;", b"&#xD800;", b"&undefined;", b"]]>", b"<x1/>", b"<g1>", b"</g1>",
    b"\x00", b"\x02" b"0\x03", b"\x0b", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\x8b" * 300, b"\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", b"word " * 400,
    b"<!DOCTYPE a>", b"<a/>", b"\r\n", b"\n" * 300, b"{", b"}", b'"', b"'", b"\\", b"\\u", b"{n, plural, one {", b"-->", b"00:00:01,000 --> 00:00:02,000\n", b"{\\p1}",
    b"msgid ", b"msgstr[5] ", b'msgid_plural "a"\n', b"*a* **b** `c` [d](e)", b"|a|b|\n|-|-|\n", b"<b>" * 60, b"<", b">", b"&", b"[" * 40, b"(" * 40,
)  # fmt: skip


MOST_REPEATED_BYTES = 1_000_000
"""That a change adds: the next one may repeat what the last one has made."""


def _repeated(data: bytes, times: int) -> bytes:
    return data * max(min(times, MOST_REPEATED_BYTES // max(len(data), 1)), 1)


def _span(random: Random, data: bytes, most: int = 200) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(start + random.randrange(1, most), len(data))


def _spliced(data: bytes, start: int, stop: int, new: bytes) -> bytes:
    return data[:start] + new + data[stop:]


def _any(random: Random, pattern: re.Pattern[bytes], data: bytes) -> re.Match[bytes] | None:
    """One of the matches; from a place on, so that a large part is not searched as a whole."""
    for at in (random.randrange(len(data) + 1), 0):
        found = [one for _, one in zip(range(20), pattern.finditer(data, at), strict=False)]
        if found:
            return random.choice(found)
    return None


def _element(random: Random, data: bytes) -> tuple[int, int] | None:
    """Start and end of a small element, with its content."""
    for _ in range(8):
        opening = _any(random, _TAG, data)
        name = opening and _NAME.match(opening[0])
        if not opening or not name or opening[0][1:2] in b"/?!":
            continue
        if opening[0].endswith(b"/>"):
            return opening.span()
        depth, both = 1, re.compile(rb"<(/?)" + re.escape(name[1]) + rb"(?=[\s>/])[^<>]*?(/?)>")
        for found in both.finditer(data, opening.end(), opening.end() + 20_000):
            depth += -1 if found[1] else 0 if found[2] else 1
            if not depth:
                return opening.start(), found.end()
    return None


def _change_element(random: Random, data: bytes) -> bytes:
    """Copy, move, delete, wrap or empty an element: the part stays well-formed."""
    span = _element(random, data)
    if span is None:
        return data
    element = data[slice(*span)]
    name = _NAME.match(element)
    assert name
    match random.randrange(7):
        case 0:
            return _spliced(data, *span, _repeated(element, random.choice((2, 3, 50))))
        case 1:
            return _spliced(data, *span, b"")
        case 2:  # moved into or before another one
            rest = _spliced(data, *span, b"")
            other = _element(random, rest)
            at = random.choice(other) if other else 0
            return _spliced(rest, at, at, element) if other else data
        case 3:  # in itself
            tag = _TAG.match(element)
            assert tag
            if tag[0].endswith(b"/>"):
                return _spliced(data, *span, element[:-2] + b">" + element + b"</" + name[1] + b">")
            times = max(min(random.choice((1, 2, 20, 300, 1_100)), MOST_REPEATED_BYTES // len(tag[0])), 1)
            return _spliced(data, *span, tag[0] * times + element + (b"</" + name[1] + b">") * times)
        case 4:  # without its content
            tag = _TAG.match(element)
            assert tag
            return _spliced(data, *span, tag[0].rstrip(b"/>") + b"/>")
        case 5:  # without its tags
            return _spliced(
                data, *span, element[element.index(b">") + 1 : element.rindex(b"<")] if b"</" in element else b""
            )
        case _:  # another name
            other = _any(random, _NAME, data)
            new = other[1] if other else b"a"
            return _spliced(
                data, *span, re.sub(rb"(</?)" + re.escape(name[1]) + rb"(?=[\s>/])", rb"\g<1>" + new, element)
            )


def _change_attribute(random: Random, data: bytes) -> bytes:
    found = _any(random, _ATTRIBUTE, data)
    if found is None:
        return data
    match random.randrange(6):
        case 0:
            return _spliced(data, *found.span(), b"")
        case 1:
            return _spliced(data, *found.span(), found[0] * 2)  # twice: not well-formed
        case 2:
            other = _any(random, _ATTRIBUTE, data)
            return _spliced(data, *found.span(2), other[2] if other else b'""')
        case 3:
            other = _any(random, _ATTRIBUTE, data)
            return _spliced(data, *found.span(1), other[1] if other else b"a")
        case _:
            return _spliced(data, *found.span(2), b'"' + random.choice(_VALUES) + b'"')


def _change_id(random: Random, data: bytes) -> bytes:
    found = _any(random, _ID, data)
    if found is None:
        return _change_attribute(random, data)
    other = _any(random, _ID, data)
    new = random.choice(
        (other[0] if other else b"1", b"0", b"-5", b"4294967296", b"rId999", b"99999999999999999999999")
    )
    return _spliced(data, *found.span(), new)


def _change_text(random: Random, data: bytes) -> bytes:
    """Insert something at a place where text may be."""
    found = _any(random, re.compile(rb">[^<>]+<"), data)
    at = random.randrange(found.start() + 1, found.end()) if found else random.randrange(len(data) + 1)
    return _spliced(data, at, at, random.choice(_INSERTED))


def _change_tag(random: Random, data: bytes) -> bytes:
    """Delete, copy or cut a tag: the part is hardly well-formed any more."""
    found = _any(random, _TAG, data)
    if found is None:
        return data
    return _spliced(
        data, *found.span(), random.choice((b"", found[0] * 2, found[0][:-1], found[0][1:], b"</" + found[0][1:]))
    )


def _change_encoding(random: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    declared = re.sub(r"^\s*<\?xml.*?\?>", "", text, flags=re.DOTALL)
    name = random.choice(
        ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis", "gb18030", "utf-7", "koi8-r")
    )
    said = random.choice((name, "UTF-8", "utf-16", "ISO-8859-1", "no-such", "cp037"))
    head = f'<?xml version="1.0" encoding="{said}"?>' if text.lstrip().startswith("<") and random.random() < 0.8 else ""
    return random.choice((b"", b"\xef\xbb\xbf", b"\xff\xfe")) * (random.random() < 0.3) + (head + declared).encode(
        name, "replace"
    )


def _change_bytes(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 10))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _change_range(random: Random, data: bytes) -> bytes:
    """Delete, copy, move or repeat some bytes, or cut the end."""
    start, stop = _span(random, data)
    match random.randrange(5):
        case 0:
            return _spliced(data, start, stop, b"")
        case 1:
            return _spliced(data, start, stop, _repeated(data[start:stop], random.choice((2, 30))))
        case 2:
            at = random.randrange(len(data) + 1)
            return _spliced(data, at, at, data[start:stop])
        case 3:
            return data[:start]
        case _:
            return _spliced(data, start, start, random.choice(_INSERTED) * random.choice((1, 1, 200)))


def _change_line(random: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = lines[at].rstrip(b"\r\n")
        case _:
            lines.insert(at, _repeated(lines[other], 300))
    return b"".join(lines)


Change = Callable[[Random, bytes], bytes]
_OF_XML: Mapping[str, tuple[Change, int]] = {
    "element": (_change_element, 30),
    "attribute": (_change_attribute, 20),
    "id": (_change_id, 10),
    "text": (_change_text, 15),
    "tag": (_change_tag, 5),
    "encoding": (_change_encoding, 6),
    "bytes": (_change_bytes, 4),
    "range": (_change_range, 5),
}
_OF_TEXT: Mapping[str, tuple[Change, int]] = {
    "line": (_change_line, 25),
    "text": (_change_text, 20),
    "range": (_change_range, 25),
    "bytes": (_change_bytes, 10),
    "encoding": (_change_encoding, 8),
}


def _changed(random: Random, data: bytes, changes: Mapping[str, tuple[Change, int]]) -> bytes:
    """Bytes after one to four changes."""
    names, weights = list(changes), [weight for _, weight in changes.values()]
    for name in random.choices(names, weights, k=random.choice((1, 1, 2, 4))):
        data = changes[name][0](random, data) if data else data
    return data


# ---- changes of packages


def _read(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        return {name: found.read(name) for name in found.namelist()}


def _change_package(random: Random, data: bytes) -> bytes:
    """Change the entries or the bytes of a package: sizes and checksums may be wrong."""
    entries = _read(data)
    name = random.choice(list(entries))
    match random.randrange(8):
        case 0:
            del entries[name]
            return package(entries)
        case 1:
            entries[random.choice(("../a", "A/" * 200, "a\\b", name.upper(), "/a", "word/new.xml"))] = entries[name]
            return package(entries)
        case 2:
            other = random.choice(list(entries))
            entries[name], entries[other] = entries[other], entries[name]
            return package(entries)
        case 3:
            order = random.sample(list(entries), len(entries))
            return package({one: entries[one] for one in order})
        case 4:
            entries[name] = b""
            return package(entries)
        case 5:
            at = random.choice([found.start() for found in re.finditer(b"PK\1\2", data)])
            field = random.choice((6, 8, 10, 16, 20, 24, 28, 30, 32, 42))
            value = struct.pack("<L", random.choice((0, 1, 0xFFFF, 0xFFFFFFFF, random.getrandbits(32))))
            return _spliced(data, at + field, at + field + 4, value)
        case 6:
            return data[: random.randrange(len(data))]
        case _:
            return _change_bytes(random, data)


@st.composite
def mutants(draw: st.DrawFn, extension: str) -> bytes:
    """A changed file of a format. Of packages most are changed inside a part, and zipped again with the right sizes and
    checksum, so that its reader gets it."""
    return changed_file(draw(st.randoms(use_true_random=False)), extension)


def changed_text(random: Random, data: bytes) -> bytes:
    """A changed text, which is no XML."""
    return _changed(random, data, _OF_TEXT)


def changed_file(random: Random, extension: str) -> bytes:
    """A mutant, of any source of randomness."""
    packages, texts = seeds()
    return changed_again(random, random.choice(texts.get(extension) or packages[extension]))


def changed_again(random: Random, data: bytes) -> bytes:
    """A mutant of a file, which may be one itself."""
    if not data.startswith(b"PK"):
        is_xml = data.lstrip().startswith(b"<") and random.random() < 0.8
        return _changed(random, data, _OF_XML if is_xml else _OF_TEXT)
    try:
        entries = _read(data)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError, struct.error):
        return _change_bytes(random, data)
    if entries and random.random() < 0.1:
        return _change_package(random, data)
    parts = [name for name in entries if name.endswith((".xml", ".rels", ".html", ".opf", ".ncx"))]
    if not parts:
        return _change_bytes(random, data)
    (name,) = random.choices(parts, [min(len(entries[name]) + 1, 20_000) ** 0.5 for name in parts])
    entries[name] = _changed(random, entries[name], _OF_XML)
    return package(entries, stored=("mimetype",))
