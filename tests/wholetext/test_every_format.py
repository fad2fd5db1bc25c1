"""Each format: its texts come back, and whatever a model writes, a file stays what it is: it has no new element, cue, key, row
or message, and no control that its source does not have."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.wholetext.catalogues import apple_strings, java_properties
from tests.wholetext.every_format import TEXT, FormatTests, ShownXmlTests, XmlTests, collapsed
from tests.wholetext.office import docx, run
from tests.wholetext.test_epub import XHTML, book, opf, xhtml
from tests.wholetext.test_odf import content_xml, p, package, span
from tests.wholetext.test_pptx import deck, shape, slide
from tests.wholetext.test_xlsx import cells, strings, workbook
from wholetext.files import formats
from wholetext.files.exports import BilingualSegment, ExportFormat, export


def cues(data: bytes) -> int:
    return len(re.findall(r"^\S+ --> \S+", data.decode(), re.MULTILINE))


def yaml_shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: yaml_shape(one) for key, one in value.items()}
    return [yaml_shape(one) for one in value] if isinstance(value, list) else type(value)


def lines(data: bytes) -> io.StringIO:
    return io.StringIO(data.decode(), newline="")


class TestDocx(ShownXmlTests):
    extension = "docx"
    data = docx(
        f"<w:p>{run(f'{TEXT} ')}{run(TEXT, '<w:b/>')}{run(f' {TEXT}')}</w:p><w:p>{run(TEXT)}<w:r><w:br/></w:r>{run(TEXT)}</w:p>"
        f"<w:p><w:r><w:drawing><wp:docPr id='1' descr='{TEXT}'/></w:drawing></w:r>{run(TEXT)}</w:p>"
    )


class TestPptx(ShownXmlTests):
    extension = "pptx"
    data = deck(slide(shape(f"<a:p><a:r><a:t>{TEXT}</a:t></a:r></a:p>")))


class TestXlsx(XmlTests):
    extension = "xlsx"
    data = workbook(
        cells(0, 1),
        strings(f"{TEXT} of {TEXT}", f"Other {TEXT}"),
        sheet=f"<headerFooter><oddHeader>&amp;L{TEXT} x</oddHeader></headerFooter>",
    )


class TestOdt(ShownXmlTests):
    extension = "odt"
    data = package(p(f"{TEXT} {span('T1', TEXT)} {TEXT}") + p(TEXT))


class TestOds(ShownXmlTests):
    extension = "ods"
    data = package(
        f"<table:table><table:table-row><table:table-cell>{p(TEXT)}</table:table-cell></table:table-row></table:table>",
        "spreadsheet",
    )


class TestOdp(ShownXmlTests):
    extension = "odp"
    data = package(f"<draw:page>{p(TEXT)}</draw:page>", "presentation")


class TestFodt(ShownXmlTests):
    extension = "fodt"
    data = (
        content_xml(p(f"{TEXT} <![CDATA[{TEXT}]]>"), root="document")
        .replace("<office:document ", '<office:document office:mimetype="application/vnd.oasis.opendocument.text" ', 1)
        .encode()
    )


class TestXhtml(ShownXmlTests):
    extension = "xhtml"
    data = xhtml(
        f"<p>{TEXT} <b title='{TEXT}'>{TEXT}</b></p><p>{TEXT} &gt; {TEXT}</p><p><img alt=\"{TEXT}\" src='a'/></p>"
    ).encode()


class TestEpub(ShownXmlTests):
    extension = "epub"
    data = book(
        {
            "book/p.opf": opf(
                f"<dc:language>en</dc:language><dc:title>{TEXT}</dc:title>", ("a.html", XHTML), ("b.html", XHTML)
            ),
            "book/a.html": xhtml(f"<p>{TEXT} <i>{TEXT}</i></p>"),
            "book/b.html": xhtml(f"<h1>{TEXT}</h1>"),
        }
    )


class TestXliff(ShownXmlTests):
    extension = "xliff"
    is_catalogue = True
    data = f"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>
<trans-unit id="1"><source>{TEXT} <g id="1">{TEXT}</g></source></trans-unit>
<trans-unit id="2"><source><![CDATA[{TEXT}]]></source></trans-unit></body></file></xliff>""".encode()


class TestAndroid(XmlTests):
    extension = "xml"
    data = f"""<resources><string name="a">{TEXT} <b>{TEXT}</b></string>
<string name="b"><![CDATA[{TEXT} <i>{TEXT}</i>]]></string>
<plurals name="c"><item quantity="other">{TEXT}</item></plurals></resources>""".encode()


class TestResx(ShownXmlTests):
    extension = "resx"
    data = f"""<?xml version="1.0" encoding="utf-8"?><root><resheader name="version"><value>2.0</value></resheader>
<data name="a" xml:space="preserve"><value>{TEXT} &amp; {{0}} {TEXT}</value><comment>Of a</comment></data>
<data name="b.Size" type="System.Drawing.Size"><value>1, 2</value></data>
<data name="c"><value><![CDATA[{TEXT}]]></value></data></root>""".encode()


class TestTs(ShownXmlTests):
    extension = "ts"
    is_catalogue = True
    data = f"""<?xml version="1.0" encoding="utf-8"?><!DOCTYPE TS><TS version="2.1" language="de_DE"><context><name>A</name>
<message><source>{TEXT} &lt;%1</source><translation type="unfinished"></translation></message>
<message numerus="yes"><source>%n {TEXT}</source>
<translation type="unfinished"><numerusform></numerusform><numerusform/></translation></message>
<message><source>{TEXT}</source><translation type="unfinished"/></message></context></TS>""".encode()


class TestTxt(FormatTests):
    extension = "txt"
    data = f"{TEXT}\n\n- {TEXT}\n- {TEXT}\n".encode()

    def shape(self, data: bytes) -> object:
        return None  # any text is a text


class TestMd(FormatTests):
    extension = "md"
    data = f"# {TEXT}\n\n{TEXT} *{TEXT}*\n\n| {TEXT} | {TEXT} |\n|---|---|\n| {TEXT} | {TEXT} |\n".encode()

    def shape(self, data: bytes) -> object:
        return None  # other tests have what Markdown is made of


class TestMdx(TestMd):
    extension = "mdx"
    data = f'import A from "./a"\n\n# {TEXT} {{/* a */}}\n\n<A label="{TEXT}">\n  {TEXT} {{a}}\n</A>\n'.encode()


class TestQmd(TestMd):
    extension = "qmd"
    data = f'---\ntitle: "{TEXT}"\n---\n\n::: {{.callout-note title="{TEXT}"}}\n{TEXT} @fig-a\n:::\n'.encode()


class TestHtml(FormatTests):
    extension = "html"
    data = f"<!DOCTYPE html><html><body><p>{TEXT} <b title='{TEXT}'>{TEXT}</b></p><p>{TEXT}</p></body></html>".encode()

    def shape(self, data: bytes) -> object:
        return [element.tag for element in etree.HTML(data).iter()]


class TestSrt(FormatTests):
    extension = "srt"
    data = (
        f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT} <i>{TEXT}</i>\n\n2\n00:00:03,000 --> 00:00:04,000\n{TEXT}\n".encode()
    )

    def shape(self, data: bytes) -> object:
        return cues(data)


class TestVtt(FormatTests):
    extension = "vtt"
    data = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{TEXT} <i>{TEXT}</i>\n\n00:03.000 --> 00:04.000\n{TEXT}\n".encode()

    def shape(self, data: bytes) -> object:
        return cues(data)


class TestAss(FormatTests):
    extension = "ass"
    data = (
        b"[Events]\nFormat: Layer, Start, End, Style, Text\n"
        + f"Dialogue: 0,0:00:01.00,0:00:02.00,Default,{TEXT}\nDialogue: 0,0:00:03.00,0:00:04.00,Default,{TEXT}\n".encode()
    )

    def shape(self, data: bytes) -> object:
        return data.count(b"\nDialogue:")


class TestPo(FormatTests):
    extension = "po"
    is_catalogue = True
    data = (
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        + f'msgid "{TEXT}"\nmsgstr ""\n\nmsgid "{TEXT} {TEXT}"\nmsgstr ""\n'.encode()
    )

    def shape(self, data: bytes) -> object:
        return len(re.findall(rb"^msgid", data, re.MULTILINE))


class TestJson(FormatTests):
    extension = "json"
    data = json.dumps({"a": f"{TEXT} x", "b": [f"{TEXT} y"]}).encode()

    def shape(self, data: bytes) -> object:
        return [str(type(one)) for one in json.loads(data).values()]


class TestArb(FormatTests):
    extension = "arb"
    data = json.dumps({"a": f"{TEXT} x", "@a": {"description": "of a"}}).encode()

    def shape(self, data: bytes) -> object:
        return sorted(json.loads(data))


class TestProperties(FormatTests):
    extension = "properties"
    data = f"# of a\na.b = {TEXT} x\\n\\\n   {TEXT}\nc {TEXT} {{0}} isn''t {TEXT}\nd:{TEXT} \\u00e4\n".encode()

    def shape(self, data: bytes) -> object:
        return list(java_properties(data))


class TestStrings(FormatTests):
    extension = "strings"
    data = (
        f'/* of a */\n"a" = "{TEXT} \\"x\\"\\n{TEXT}";\nb = "{TEXT}\n{TEXT}"; // of b\n"c"="%#@n@ {TEXT}";\n'.encode()
    )

    def shape(self, data: bytes) -> object:
        return list(apple_strings(data.decode()))


class TestYaml(FormatTests):
    extension = "yml"
    data = f"""# Of it
de:
  a: {TEXT}
  b: "{TEXT} \\u00e4 {TEXT}"
  c: 'It''s {TEXT}'
  d: [{TEXT}, "{TEXT} x", {{e: {TEXT}}}]
  f:
  - {TEXT}  # of an item
  - g: {TEXT}
    h: {TEXT} and
      {TEXT}
  i: |
    {TEXT}

    - {TEXT}
  j: >-
    {TEXT}
    folded
""".encode()

    def shape(self, data: bytes) -> object:
        return yaml_shape(yaml.safe_load(data))


class TestXcstrings(FormatTests):
    extension = "xcstrings"
    is_catalogue = True
    data = f'''{{
  "sourceLanguage" : "en",
  "strings" : {{
    "{TEXT} x" : {{

    }},
    "a" : {{
      "comment" : "Of a",
      "localizations" : {{
        "en" : {{
          "variations" : {{
            "plural" : {{
              "one" : {{ "stringUnit" : {{ "state" : "translated", "value" : "{TEXT} one" }} }},
              "other" : {{ "stringUnit" : {{ "state" : "translated", "value" : "%lld {TEXT}" }} }}
            }}
          }}
        }}
      }}
    }}
  }},
  "version" : "1.0"
}}'''.encode()

    def shape(self, data: bytes) -> object:
        return [list(entry["localizations"]) for entry in json.loads(data)["strings"].values()]


class TestCsv(FormatTests):
    extension = "csv"
    data = f'id,{TEXT} x\n1,{TEXT} y\n2,"{TEXT} z"\n'.encode()

    def shape(self, data: bytes) -> object:
        return [len(row) for row in csv.reader(lines(data), csv.excel, strict=True)]


class TestTsv(FormatTests):
    extension = "tsv"
    data = f'id\t{TEXT} x\n1\t{TEXT} y\n2\t"{TEXT} z"\n'.encode()

    def shape(self, data: bytes) -> object:
        return [len(row) for row in csv.reader(lines(data), csv.excel_tab, strict=True)]


def test_each_format_has_its_class() -> None:
    """A reader's, where several formats are read alike; PDF's result is another file than its source (test_pdf.py)."""
    kinds = (FormatTests, XmlTests, ShownXmlTests)
    classes = [one for kind in kinds for one in kind.__subclasses__() if one not in kinds]
    tested = {formats.format_of(one.extension).module for one in classes}
    assert {one.module for one in formats.FORMATS} - tested == {".pdf"}


def test_controls_of_the_source_stay() -> None:
    found = TestTxt().written(b"Can I \x1b[1msee\x1b[0m it?\n", lambda part: part.replace("see", "see\x1b\x07"))
    assert found == b"Can I \x1b[1msee\x1b\x1b[0m it?\n"


@pytest.mark.parametrize("format", ["tmx", "xliff"])
@given(text=st.text(st.characters() | st.sampled_from("]]>><&\"'\x00\x1b\ufffe\ud800"), max_size=12))
def test_any_text_in_an_export_is_shown_as_it_is(format: ExportFormat, text: str) -> None:
    segment = BilingualSegment(1, text, "A source", f"a{text}b", notes=(text,))
    found = "".join(export([segment], format, text, "en", "de", ("a tool", text)))
    root = etree.fromstring(found.encode())
    (*_, target) = root.iter("{*}seg", "{*}target")
    wanted = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", f"a{text}b")
    assert collapsed("".join(target.itertext())) == collapsed(wanted)
