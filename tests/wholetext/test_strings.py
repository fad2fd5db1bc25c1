"""Files of text, subtitles and strings: nothing but texts changes, and the readers that people use agree."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from itertools import chain

import polib
import pysubs2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from tests.wholetext.rewriting import changed, read, rewritten, texts
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files.content import single_part
from wholetext.markup.marks import CONTROL

TXT = "\ufeffA heading\r\n\r\nOne paragraph\rof two lines.\r\n\r\n- an item\r\n- 42\r\n\r\nno end"
MD = """---
title: A page, and more # not text
description: "Says \\"hello\\" & co"
slug: a-page
tags: [one, two]
---

# A *heading* here

Text with `code`, a [link](https://example.com "its title") and

| one | two |
|-----|-----|
| red | 3   |
"""
HTML = """<!-- <html lang="fr"> --><!DOCTYPE html>
<html class=x><head><meta charset="utf-8"><title>The title</title><style>p { color: red }</style></head>
<body><p>Read <b>this</b> &amp; that.<br>Next <img src="a.png" alt="a picture"></p><pre>keep  it</pre></body></html>
"""
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:100 X2:200
<i>I don't know what</i>
<i>you want from me.</i>

2
00:00:03,000 --> 00:00:04,500
- Where are you?
- {\\an8}Over <b>there</b>!

3
00:00:05,000 --> 00:00:06,500
42

4
00:00:07,000 --> 00:00:08,000
{\\an8}
A line without an end"""
VTT = """WEBVTT - a header
X-TIMESTAMP: 0

NOTE a note --> not a cue
of two lines

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Fred>Salt &amp; pepper,
my <c.loud>old</c> friend

00:03.000 --> 00:04.000
<00:03.500>One <00:03.700>two
"""
ASS = """[Script Info]
; A comment
Title: not text

[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial

[Fonts]
fontname: a.ttf
!!Dialogue-like data,,,

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\an8}Hello, {\\i1}my{\\i0}\\Nold friend, and all
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Not shown
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0{\\p0}A sign\\hhere
Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\k10}Ka{\\k20}ra
"""
PO = """# A title
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#. Said first
#: a.c:12
msgctxt "menu"
msgid "Say \\"hello\\" & go"
msgstr ""

#, c-format
msgid ""
"\\n"
"Two lines of %.*sMB\\n"
"in one "
"string\\n"
msgstr ""

#, fuzzy
#| msgid "%d old file"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "alt"
msgstr[1] ""

msgid "Done"
msgstr "Fertig"

msgid "translator-credits"
msgstr ""

#~ msgid "Old text"
#~ msgstr "Alt"
"""
JSON = """{
  "menu" : { "open": "Open \\"it\\" now\\u2026", "icon": "https://example.com/a.png", "color": "#ff0000" },
  "list": [ "One thing", 3, true, null, { "a": "Two\\nlines\\/more" } ],
  "key": "menu.open", "date": "2024-01-31", "format": "MM/DD/YYYY", "same": "Twice", "same": "Twice",
  "icu": "{n, plural, one {# file} other {# files}} here",   "empty": ""
}
"""
ARB = '{"@@locale": "de", "hello": "Hello {name}!",\n "@hello": {"description": "A greeting", "placeholders": {"name": {}}}}'
ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- A greeting -->
    <string name="hello">Don\\'t <b>go</b>, <xliff:g id="n" example="Bob">%1$s</xliff:g>!</string>
    <string name="kept" translatable="false">Not text</string>
    <string name="same">@string/hello</string>
    <string name="page"><![CDATA[Visit <a href="x">our site</a> now]]></string>
    <string name="quoted">"  It's   quoted "</string>
    <string name="long">One
        two &amp; three\\u2026 \\@me</string>
    <plurals name="files"><item quantity="one">%d file</item><item quantity="other">%d files</item></plurals>
    <string-array name="colours"><item>Bright red</item><item>#fff</item></string-array>
    <string name="empty"/>
</resources>
"""
CSV = 'id;Name;A note\r\nA-17;"A ""red"" car";  Two words \r\n2;=SUM(A1);"two\nlines"\r\n3;https://example.com;'

SINGLE = {
    "txt": (TXT, ["A heading", "One paragraph\nof two lines.", "an item", "no end"]),
    "srt": (SRT, None),
    "vtt": (VTT, None),
    "ass": (ASS, ["Hello, <g1>my</g1> old friend, and all", "A sign<x1/>here"]),
    "json": (JSON, None),
    "arb": (ARB, ["Hello {name}!"]),
    "xml": (ANDROID, None),
    "csv": (CSV, ["id", "Name", "A note", 'A "red" car', "Two words", "two\nlines"]),
    "tsv": ('id\tA name\n1\tsome "text"\n', ["id", "A name", 'some "text"']),
    "md": (MD, None),
    "html": (HTML.replace("<html", '<html lang="de-AT"'), None),
}


@pytest.mark.parametrize("extension", SINGLE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_identity_gives_the_same_bytes(extension: str, encoding: str) -> None:
    data = SINGLE[extension][0].encode(encoding)
    assert rewritten(data, extension) == data
    wanted = SINGLE[extension][1]
    assert wanted is None or texts(read(data, extension)) == wanted


@pytest.mark.parametrize("extension", SINGLE)
def test_nothing_but_letters_of_texts_changes(extension: str) -> None:
    source = SINGLE[extension][0]
    data = source.encode()
    content = read(data, extension)
    result = rewritten(data, extension, changed)
    again = read(result, extension)
    assert [(unit.place, " ".join(unit.block.text.split())) for unit in again.units] == [
        (unit.place, " ".join(changed(unit.block.text).split())) for unit in content.units
    ]
    assert again.left == content.left
    assert [len(unit.block.marks) for unit in again.units] == [len(unit.block.marks) for unit in content.units]


# ---- encodings


def test_a_file_without_a_known_encoding_is_windows_1252_with_a_warning() -> None:
    data = "Déjà vu – it’s “naïve” \x81.".encode("latin-1", "ignore") + b"\x93\x81"
    content = read(data, "txt")
    assert content.warnings
    assert rewritten(data, "txt") == data
    assert single_part(content, ["日本"])[1]  # a warning: UTF-8 now


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp932", "明日は映画を見に行きましょう。天気がよければいいですね。"),
        ("cp1251", "Привет, я не знаю, что сказать тебе."),
        ("cp1250", "Wszystko w porządku? Dziękuję bardzo, proszę pana."),
        ("iso8859-2", "Wszystko w porządku? Świetnie, dziękuję bardzo."),
        ("cp1250", "Příliš pozdě, děkuji. Kde je můj kůň?"),
        ("cp1250", "Köszönöm szépen, nagyon örülök, őrült ötlet."),
        ("cp1250", "Čeprav je že pozno, še vedno čakamo."),
        ("cp1250", "Îmi pare rău că am întârziat. Aş vrea să ştiu."),
        ("cp1254", "Çok teşekkür ederim, iyi günler. Hava güzel, değil mi? İyi."),
        ("cp1257", "Ačiū, viskas gerai. Šiandien šviečia saulė."),
        ("cp1252", "Ça va très bien, où êtes-vous déjà allés ? À Noël."),
        ("cp1252", "Não sei o que você está fazendo aí, põe isso lá."),
        ("cp1252", "Perché non c’è più nessuno? La città è già così."),
        ("cp1252", "Søren; Thérèse\n" + "London is a large town with many people in it.\n" * 9 + "Yes"),
        ("cp1252", "It costs £5, and it is 3 m³ “large”."),
    ],
)
def test_other_scripts_and_languages_are_detected(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    assert texts(read(data, "txt")) == [text]
    assert rewritten(data, "txt") == data


def test_what_an_encoding_lacks_is_a_reference_in_html_and_utf_8_elsewhere() -> None:
    page = '<html lang="de"><meta charset="iso-8859-1"><p>Caf\xe9 noir</p></html>'.encode("latin-1")
    assert b"<p>&#26085;</p>" in rewritten(page, "html", lambda _: "日")
    assert "\u2019".encode("cp1252") in rewritten(page, "html", lambda _: "\u2019")  # as browsers read it
    po = PO.replace("UTF-8", "ISO-8859-1").encode()
    result = rewritten(po, "po", lambda _: "日")
    assert b"charset=UTF-8" in result
    assert "日" in result.decode()


@pytest.mark.parametrize(
    "data", [b"", b"\xef\xbb\xbf \n", b"MZ\x90\x00\x03\x00", "Größe, schön, Äpfel".encode() + b"\xff"]
)
def test_what_is_not_text_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidFile):
        read(data, "txt")


# ---- text


def test_front_matter() -> None:
    assert texts(read(MD.encode(), "md"))[:3] == ["A page, and more", 'Says "hello" & co', "A <g1>heading</g1> here"]
    result = rewritten(MD.encode(), "md", lambda text: f"yes: {text}").decode()
    assert (
        'title: "yes: A page, and more" # not text\ndescription: "yes: Says \\"hello\\" & co"\nslug: a-page' in result
    )


def test_a_page_has_the_target_language() -> None:
    german = rewritten(HTML.encode(), "html").decode()
    assert german == HTML.replace("<html class", '<html lang="de" class')
    arabic = rewritten(german.encode(), "html", target="ar").decode()
    assert '<html dir="rtl" lang="ar" class=x>' in arabic
    assert rewritten(arabic.encode(), "html", target="de").decode() == german.replace(
        '<html lang="de"', '<html dir="ltr" lang="de"'
    )


def test_xhtml_ends_any_element_with_a_slash() -> None:
    page = '<html lang="de"><head><title/><script src="a.js"/></head><body><div/>Some text</body></html>'
    assert texts(read(page.encode(), "xhtml")) == ["Some text"]


def test_a_root_that_is_not_closed_is_read_once() -> None:
    page = b"<html " * 40_000  # a minute if each were read up to the end
    assert rewritten(page, "html") == page


# ---- subtitles


def test_a_cue_is_one_text_and_keeps_its_lines() -> None:
    content = read(SRT.encode(), "srt")
    assert texts(content) == [
        "I don't know what you want from me.",
        "- Where are you?\n- <x1/>Over <g2>there</g2>!",
        "A line without an end",
    ]
    assert [unit.place for unit in content.units] == [f"cue {n} (00:00:0{t},000)" for n, t in ((1, 1), (2, 3), (4, 7))]
    assert [unit.follows for unit in content.units] == [False, True, True]
    result = single_part(
        content, ["Ich weiß einfach nicht, was du willst.", "- Wo?\n- <x1/>Da --> <g2>dort</g2>!", "Eins"]
    )
    cues = result[0].decode().split("\n\n")
    assert cues[0].split("\n")[2:] == ["<i>Ich weiß einfach</i>", "<i>nicht, was du willst.</i>"]
    assert cues[1].split("\n")[2:] == ["- Wo?", "- {\\an8}Da -> <b>dort</b>!"]


@pytest.mark.parametrize(
    ("cue", "text", "result"),
    [
        (
            "I thought --maybe we could\ngo --you know-- home.",
            "I thought —maybe we could go —you know— home.",
            "--MAYBE",
        ),
        ("- No --\n- Wait--", "- No —\n- Wait—", "WAIT--"),
        ("<i>Well --no</i> — yes", "<g1>Well —no</g1> — yes", "— YES"),
        ('Run it with --dry-run and "--all" --> now', 'Run it with --dry-run and "--all" --> now', '"--ALL"'),
    ],
)
def test_two_hyphens_are_a_dash_of_speech_and_no_option(cue: str, text: str, result: str) -> None:
    data = f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n".encode()
    assert texts(read(data, "srt")) == [text]
    assert rewritten(data, "srt") == data
    upper = rewritten(
        data,
        "srt",
        lambda one: re.sub(r"</?g1>|[^<>]+", lambda part: part[0] if part[0][0] == "<" else part[0].upper(), one),
    )
    assert result in upper.decode()


def test_lost_line_breaks_are_made_again() -> None:
    lines = [
        line.text
        for line in pysubs2.SSAFile.from_string(
            rewritten(SRT.encode(), "srt", lambda text: text.replace("\n", " ")).decode()
        )
    ]
    assert [line.count("\\N") for line in lines] == [1, 1, 0, 1]


@pytest.mark.parametrize("extension", ["srt", "vtt", "ass"])
@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_cues_are_found_whatever_ends_the_lines(extension: str, end: str) -> None:
    source = SINGLE[extension][0]
    data = source.replace("\n", end).encode()
    assert texts(read(data, extension)) == texts(read(source.encode(), extension))
    assert rewritten(data, extension, changed).count(end.encode()) == source.count("\n")


@pytest.mark.parametrize("blank", [" ", "\t", "  \t", "\N{NO-BREAK SPACE}"])
@pytest.mark.parametrize("cue", ["{}\nwords here", "words\n{}\nhere", "words here\n{}", "{}\n{}\nwords here\n{}\n{}"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_an_empty_line_ends_a_cue(blank: str, cue: str, end: str) -> None:
    lines = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue.format(*[blank] * 4)}\n\nNOTE no cue\n\n00:02.000 --> 00:03.000\nmore\n"
    data = lines.replace("\n", end).encode()
    assert texts(read(data, "vtt")) == ["words here", "more"]
    assert rewritten(data, "vtt") == data
    result = rewritten(data, "vtt", changed).decode()
    assert "words" not in result and "here" not in result and "NOTE no cue" in result
    assert result.count(f"{end}{end}") == lines.count("\n\n")


@pytest.mark.parametrize("extension", ["srt", "ass"])
def test_pysubs2_reads_the_same_events(extension: str) -> None:
    source = SINGLE[extension][0]
    events = pysubs2.SSAFile.from_string(source)
    result = pysubs2.SSAFile.from_string(rewritten(source.encode(), extension, changed).decode())
    assert [(e.start, e.end, e.style, e.type) for e in result] == [(e.start, e.end, e.style, e.type) for e in events]
    tags = re.compile(r"\{[^}]*\}")
    assert [tags.findall(e.text) for e in result] == [tags.findall(e.text) for e in events]
    assert [e.text.count("\\N") for e in result] == [e.text.count("\\N") for e in events]


@example(["--->"], "srt")
@given(
    st.lists(st.text("ab .\n,-<>&{}日本", min_size=1).filter(str.strip), min_size=1, max_size=4),
    st.sampled_from(["srt", "vtt"]),
)
def test_no_translation_makes_or_loses_a_cue(translations: list[str], extension: str) -> None:
    cues = "\n\n".join(f"00:00:0{n}.000 --> 00:00:0{n}.500\nSome text\nof two lines" for n in range(len(translations)))
    data = (("WEBVTT\n\n" if extension == "vtt" else "") + cues + "\n").encode()
    result = single_part(read(data, extension), translations)[0].decode()
    assert result.count("-->") == len(translations)
    assert len(re.findall(r"\n[ \t]*\n", result.strip())) == len(translations) - (extension == "srt")
    assert [line for line in result.split("\n") if "-->" in line] == [
        line for line in data.decode().split("\n") if "-->" in line
    ]


# ---- po


def test_po_is_filled_as_polib_reads_it() -> None:
    result = rewritten(PO.encode(), "po", changed)
    before, after = polib.pofile(PO), polib.pofile(result.decode())
    assert [(e.msgid, e.msgid_plural, e.msgctxt, e.comment, e.flags) for e in after] == [
        (e.msgid, e.msgid_plural, e.msgctxt, e.comment, e.flags) for e in before
    ]
    assert after.metadata == before.metadata
    assert after[0].msgstr == changed('Say "hello" & go')
    assert after[1].msgstr == f"\n{changed('Two lines of ')}%.*s{changed('MB')}\n{changed('in one string')}\n"
    assert after[2].msgstr_plural == {0: f"%d {changed('file')}", 1: f"%d {changed('files')}"}
    assert [e.msgstr for e in after[3:]] == ["Fertig", "", "Alt"]
    assert rewritten(result, "po").decode().count("Alt") == 1
    assert read(PO.encode(), "po").units[0].context == "menu\nSaid first"


@pytest.mark.parametrize(("target", "forms"), [("ja", 1), ("fr", 2), ("ru", 3), ("ar", 6)])
def test_a_template_gets_the_plural_forms_of_the_target(target: str, forms: int) -> None:
    template = PO.replace("Language: de", "Language: ").replace(
        "nplurals=2; plural=(n != 1);", "nplurals=INTEGER; plural=E;"
    )
    template = template.replace('"Fertig"', '""').replace("# A title", "# A title\n#, fuzzy")
    result = rewritten(template.encode(), "pot", changed, target)
    entries = polib.pofile(result.decode())
    assert len(entries[2].msgstr_plural) == forms
    assert entries.metadata["Language"] == target
    assert entries.metadata["Plural-Forms"].startswith(f"nplurals={forms};")
    if shutil.which("msgfmt"):
        subprocess.run(["msgfmt", "-c", "-o", "-", "-"], input=result, check=True, capture_output=True)


def test_a_po_file_of_another_language_is_refused() -> None:
    with pytest.raises(InvalidFile, match="de"):
        read(PO.encode(), "po", "fr")


# ---- xliff

XLIFF_1 = """<?xml version="1.0" encoding="windows-1252"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file source-language="en" datatype="plaintext" original="x">
    <body>
      <trans-unit id="1">
        <source>Hello <g id="1">world</g> &amp; <x id="2"/> caf\xe9</source>
        <note>A note</note>
        <alt-trans><source>Hi</source><target>Hallo</target></alt-trans>
      </trans-unit>
      <trans-unit id="2"><source>A copy</source><target state="new">A copy</target></trans-unit>
      <trans-unit id="3"><source>It is done</source><target>Fertig</target></trans-unit>
      <group translate="no"><trans-unit id="4"><source>Not this</source></trans-unit></group>
      <trans-unit id="5"><source>One two. Three four.</source><seg-source><mrk mtype="seg" mid="1">One two.</mrk> <mrk
 mtype="seg" mid="2">Three <ph id="1">&lt;b></ph> four.</mrk></seg-source><target/></trans-unit>
      <trans-unit id="6"><source>See <mrk mtype="protected">foo bar</mrk> here</source></trans-unit>
    </body>
  </file>
</xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en-US">
 <file id="f1" translate="no">
  <unit id="u1" translate="yes">
   <notes><note>A note</note></notes>
   <originalData><data id="d1">&lt;b></data></originalData>
   <segment state="initial"><source>A <pc id="1" dataRefStart="d1">bold</pc> word</source></segment>
   <ignorable><source> </source></ignorable>
   <segment><source>Two words<ph id="3"/></source><target>Zwei</target></segment>
  </unit>
  <unit id="u2"><segment><source>Not this</source></segment></unit>
 </file>
</xliff>
"""


def test_xliff_targets_follow_their_sources() -> None:
    data = XLIFF_1.encode("cp1252")
    content = read(data, "xlf")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("1", "Hello <g1>world</g1> & <x2/> café"),
        ("2", "A copy"),
        ("5", "One two."),
        ("5", "Three <x1/> four."),
        ("6", "See <x1/> here"),
    ]
    assert content.units[0].context == "A note"
    result = rewritten(data, "xlf")
    assert 'target-language="de"' in result.decode("cp1252")
    assert rewritten(result, "xlf") == result
    root = etree.fromstring(rewritten(data, "xlf", changed))
    names = {"x": "urn:oasis:names:tc:xliff:document:1.2"}
    for unit in root.iterfind(".//x:trans-unit", names):
        source = unit.find("x:seg-source", names)
        source = unit.find("x:source", names) if source is None else source
        target = unit.find("x:target", names)
        if unit.get("id") not in ("3", "4"):
            assert unit.index(target) == unit.index(source) + 1
            assert [(e.tag, dict(e.attrib)) for e in target.iter()][1:] == [
                (e.tag, dict(e.attrib)) for e in source.iter()
            ][1:]
    assert [t.text for t in root.iterfind(".//x:alt-trans/x:target", names)] == ["Hallo"]
    assert root.find(".//x:trans-unit[@id='2']/x:target", names).get("state") == "needs-review-translation"


def test_xliff_2() -> None:
    result = rewritten(XLIFF_2.encode(), "xliff").decode()
    assert result == XLIFF_2.replace("<xliff", '<xliff trgLang="de"').replace('"initial"', '"translated"').replace(
        "word</source>", 'word</source><target>A <pc id="1" dataRefStart="d1">bold</pc> word</target>'
    )


@pytest.mark.parametrize(
    "source",
    [
        XLIFF_2.replace("srcLang", 'trgLang="fr" srcLang'),
        XLIFF_2.replace("</file>", ""),
        XLIFF_2.replace("xliff", "other"),
        f"<!DOCTYPE xliff>{XLIFF_2}",
        f"<xliff>{'<a>' * 5000}",
    ],
)
def test_xliff_that_is_refused(source: str) -> None:
    with pytest.raises(InvalidFile):
        read(source.encode(), "xliff")


def segmented(target: str) -> str:
    marks = ("One word.", 'Two <x id="4"/> words.', "3.")
    inner = " ".join(f'<mrk mtype="seg" mid="{mid}">{mark}</mrk>' for mid, mark in enumerate(marks, 1))
    unit = f'<source><g id="3">One word.</g></source><seg-source><g id="3">{inner}</g></seg-source>{target}'
    return (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        f'<trans-unit id="1">{unit}</trans-unit></body></file></xliff>'
    )


FIRST = '<mrk mtype="seg" mid="1">EINS</mrk>'
SECOND = '<mrk mtype="seg" mid="2">TWO <x id="4"/> WORDS.</mrk>'
THIRD = '<mrk mtype="seg" mid="3">3.</mrk>'


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (  # empty
            '<target><g id="3"><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"></mrk> '
            '<mrk mid="3" mtype="seg" /></g></target>',
            f'<target><g id="3">{FIRST.replace("EINS", "ONE WORD.")} {SECOND} <mrk mid="3" mtype="seg">3.</mrk></g></target>',
        ),
        (  # half filled
            f'<target state="translated"><g id="3">{FIRST} <mrk mtype="seg" mid="2"/> {THIRD}</g></target>',
            f'<target state="translated"><g id="3">{FIRST} {SECOND} {THIRD}</g></target>',
        ),
        (  # one is missing
            f'<target state="new"><g id="3">{FIRST.replace("EINS", "One word.")} {THIRD}</g></target>',
            '<target state="needs-review-translation">'
            f'<g id="3">{FIRST.replace("EINS", "ONE WORD.")} {SECOND} {THIRD}</g></target>',
        ),
        (f'<target><g id="3">{FIRST} {SECOND} {THIRD}</g></target>', None),
        ("<target>Ganz ohne Segmente</target>", None),
    ],
)
def test_each_empty_segment_is_filled_from_that_of_its_mid(target: str, wanted: str | None) -> None:
    source = segmented(target)
    found = rewritten(source.encode(), "xlf", lambda text: text.upper().replace("<X1/>", "<x1/>")).decode()
    assert re.sub(r"\s+", " ", found) == re.sub(r"\s+", " ", segmented(wanted or target))


@pytest.mark.parametrize(
    ("version", "state", "kept"),
    [
        (1, "translated", True),
        (1, "final", True),
        (1, "signed-off", True),
        (1, "new", False),
        (1, "needs-translation", False),
        (1, "needs-review-translation", False),
        (2, "translated", True),
        (2, "reviewed", True),
        (2, "final", True),
        (2, "initial", False),
    ],
)
def test_a_target_that_equals_its_source_is_kept_by_its_state(version: int, state: str, kept: bool) -> None:
    if version == 1:
        unit = f'<trans-unit id="1"><source>Radio Star</source><target state="{state}">Radio Star</target></trans-unit>'
        source = XLIFF_1[: XLIFF_1.index("<trans-unit")] + f"{unit}</body></file></xliff>"
    else:
        unit = f'<unit id="1"><segment state="{state}"><source>Radio Star</source><target>Radio Star</target></segment></unit>'
        source = XLIFF_2[: XLIFF_2.index(" <file")] + f'<file id="f">{unit}</file></xliff>'
    content = read(source.encode("cp1252"), "xlf")
    assert texts(content) == ([] if kept else ["Radio Star"])
    assert not content.left


@pytest.mark.parametrize("target", ["", "<target/>", "<target></target>", "<target> </target>"])
def test_an_approved_unit_without_a_translation_gets_one_and_is_approved_no_longer(target: str) -> None:
    unit = f'<trans-unit id="1" approved="yes"><source>Some words</source>{target}</trans-unit>'
    source = f'<xliff version="1.2"><file source-language="en" target-language="de"><body>{unit}</body></file></xliff>'
    result = rewritten(source.encode(), "xlf", changed).decode()
    assert 'approved="no"' in result
    assert f"<target>{changed('Some words')}</target>" in result


def test_an_approved_unit_stays() -> None:
    unit = '<trans-unit id="1" approved="yes"><source>Some words</source><target>Some words</target></trans-unit>'
    source = f'<xliff version="1.2"><file source-language="en" target-language="de"><body>{unit}</body></file></xliff>'
    content = read(source.encode(), "xlf")
    assert (texts(content), content.left) == ([], [])


# ---- json, android, csv


def test_json_values_by_key() -> None:
    content = read(JSON.encode(), "json", "pl")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("menu.open", 'Open "it" now…'),
        ("list[0]", "One thing"),
        ("list[4].a", "Two\nlines/more"),
        ("same", "Twice"),
        ("same", "Twice"),
        ("icu", "<x1/> file"),
        ("icu", "<x1/> files"),
        ("icu", "here"),
    ]
    assert [(left.place, left.reason) for left in content.left] == [
        ("menu.icon", "address"),
        ("menu.color", "colour"),
        ("key", "key"),
        ("format", "date"),
    ]
    assert any("few" in warning for warning in content.warnings)


@given(st.dictionaries(st.text(max_size=5), st.text(min_size=1)), st.booleans())
def test_json_is_json_for_any_text(values: dict[str, str], ascii_only: bool) -> None:
    data = json.dumps(values, ensure_ascii=ascii_only).encode("utf-8", "replace")
    assert rewritten(data, "json") == data
    result = json.loads(rewritten(data, "json", lambda text: f'{text}"\\\n\u2028é'))
    assert list(result) == list(json.loads(data))


@pytest.mark.parametrize(
    "source", ["[" * 100_000, '{"a":' * 100_000, '{"a" 1}', '{"a": "b\n"}', "[1] 2", '"' + "\\" * 9_999]
)
def test_what_is_not_json_is_refused(source: str) -> None:
    with pytest.raises(InvalidFile, match="line 1"):
        read(source.encode(), "json")


def test_descriptions_are_context() -> None:
    chrome = {"a": {"message": "Open it", "description": "A button", "placeholders": {"x": {"content": "Some text"}}}}
    for data, extension in ((ARB.encode(), "arb"), (json.dumps(chrome).encode(), "json")):
        assert len(read(data, extension).units) == 1
        assert read(data, extension).units[0].context in ("A greeting", "A button")
    assert b'"@@locale": "pt_BR"' in rewritten(ARB.encode(), "arb", target="pt-BR")


def test_android_strings() -> None:
    content = read(ANDROID.encode(), "xml", "ru")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("hello", "Don't <g1>go</g1>, <x2/>!"),
        ("page", "Visit <g1>our site</g1> now"),
        ("quoted", "It's quoted"),
        ("long", "One two & three… @me"),
        ("files[one]", "%d file"),
        ("files[other]", "%d files"),
        ("colours[0]", "Bright red"),
    ]
    assert content.units[0].context == "A greeting"
    assert any("few" in warning for warning in content.warnings)
    result = etree.fromstring(rewritten(ANDROID.encode(), "xml", lambda text: f"@l'a \"&<]]>\n{text}"))
    assert result.findtext("string[@name='hello']") == "\\@l\\'a \\\"&<]]>\\nDon\\'t "
    assert result.findtext("string[@name='page']") == '\\@l\\\'a \\"&<]]>\\nVisit <a href="x">our site</a> now'
    with pytest.raises(UnsupportedFile):
        read(b"<manifest/>", "xml")


@given(
    st.lists(st.lists(st.text("ab,;\"\n\r =+@'\t|<x1/>", max_size=8), min_size=2, max_size=3), min_size=1, max_size=4)
)
def test_csv_has_the_same_cells_for_any_text(rows: list[list[str]]) -> None:
    source = io.StringIO()
    csv.writer(source).writerows([["word, one", "word, two"], *rows])
    data = source.getvalue().encode()
    assert rewritten(data, "csv") == data
    result = rewritten(data, "csv", lambda text: f'=1,"{text}').decode()
    before, after = (list(csv.reader(io.StringIO(text, newline=""))) for text in (data.decode(), result))
    assert [len(row) for row in after] == [len(row) for row in before]
    for old, new in zip(chain(*before), chain(*after), strict=True):
        assert new == old or new.lstrip()[:1] != "=" or old.lstrip()[:1] == "="


@pytest.mark.parametrize(
    "row",
    ['"some words" and more,1', '"some, words" and more,1', 'one word,"some words', 'the cell,"a=""b"" and "c"d"'],
)
def test_a_row_of_a_csv_with_malformed_quotes_stays_and_is_reported(row: str) -> None:
    data = f'the head,"the note"\n{row}\n'.encode()
    content = read(data, "csv")
    assert texts(content) == ["the head", "the note"]
    assert {left.reason for left in content.left} == {"quotes"}
    assert [warning.rpartition(" ")[2] for warning in content.warnings] == ["2"]
    assert rewritten(data, "csv", changed).decode().partition("\n")[2] == f"{row}\n"


def test_quotes_in_a_tsv_are_signs_like_others() -> None:
    data = b'"some words" and more\t"of, it\n'
    assert texts(read(data, "tsv")) == ['"some words" and more', '"of, it']
    assert rewritten(data, "tsv") == data


@given(
    rows=st.lists(
        st.lists(st.sampled_from(["one", '"two"', '"a ""three"""', "four\\", "5"]), min_size=2, max_size=3), min_size=1
    ),
    text=st.text(st.characters(codec="utf-8") | st.sampled_from("\"\t\r\n'=\\"), min_size=1),
)
def test_a_tsv_is_read_by_others_with_the_same_cells(rows: list[list[str]], text: str) -> None:
    """Each cell is what was written into it, and those that were not translated have the same bytes."""
    data = "".join("\t".join(row) + "\n" for row in rows).encode()
    source, result = (
        list(csv.reader(io.StringIO(one.decode(), newline=""), csv.excel_tab, strict=True))
        for one in (data, rewritten(data, "tsv", lambda unit: f"{text}{unit}" if "one" in unit else unit))
    )
    assert [[cell for cell in row if "one" not in cell] for row in result] == [
        [cell for cell in row if "one" not in cell] for row in source
    ]
    written = re.sub(r"[\t\r\n]+", " ", CONTROL.sub(lambda found: " " if found[0].isspace() else "", text))
    for row, before in zip(result, source, strict=True):
        for cell, one in zip(row, before, strict=True):
            assert one != "one" or re.sub("[\t\r\n]+", " ", cell).removeprefix("'") == f"{written}one".removeprefix("'")


@pytest.mark.parametrize("value", ["True", "Ada_Lovelace", "CHEBI:50825", json.dumps([{"text": "Stop it. " * 90}])])
def test_cells_with_data_of_programs_stay(value: str) -> None:
    content = read(f"Some text\t{value}\n".encode(), "tsv")
    assert texts(content) == ["Some text"]
    assert [left.place for left in content.left] == ["B1"]


def test_csv_columns() -> None:
    content = read(CSV.encode(), "csv")
    assert [unit.place for unit in content.units] == ["A1", "B1", "C1", "B2", "C2", "C3"]
    assert content.units[3].context == "Name"
    assert [(left.place, left.reason) for left in content.left] == [
        ("A2", "code"),
        ("B3", "formula"),
        ("B4", "address"),
    ]
    assert texts(read(CSV.encode(), "csv", columns=("a note",))) == ["Two words", "two\nlines"]
    assert texts(read(CSV.encode(), "csv", columns=("2",))) == ["Name", 'A "red" car']
    with pytest.raises(InvalidFile, match="Name"):
        read(CSV.encode(), "csv", columns=("missing",))


@pytest.mark.parametrize("extension", ["doc", "xls", "ppt", "rtf"])
def test_refused_formats_say_what_to_do(extension: str) -> None:
    with pytest.raises(UnsupportedFile, match="send that"):
        read(b"x", extension)
