"""TMX files: what translators' tools write is read, what is written is read by another reader, hostile files are refused."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from lxml import etree

from wholetext.errors import InvalidFile
from wholetext.files import tmx
from wholetext.files.exports import TMX_TAIL
from wholetext.files.tmx import TmxEntry, TranslationUnit

NOW = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)


def document(body: str, head: str = '<header srclang="en-US"/>', doctype: str = "") -> bytes:
    return f'<?xml version="1.0"?>{doctype}<tmx version="1.4">{head}<body>{body}</body></tmx>'.encode()


def unit(*segments: tuple[str, str], attributes: str = "") -> str:
    variants = "".join(f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in segments)
    return f"<tu {attributes}>{variants}</tu>"


def read(data: bytes) -> tuple[list[tuple[str, str, str, str]], dict[str, int]]:
    skipped = Counter[str]()
    entries = [*tmx.read(data, skipped)]
    return [(one.source, one.target, one.text, one.translation) for one in entries], dict(skipped)


def test_each_variant_is_a_translation_of_the_one_in_the_source_language() -> None:
    body = unit(("JA", "はい"), ("en-US", "Yes &amp; no."), ("ko", "예"))
    assert read(document(body)) == (
        [("en-US", "ja", "Yes & no.", "はい"), ("en-US", "ko", "Yes & no.", "예")],
        {},
    )
    assert read(document(unit(("ja", "はい"), ("en", "Yes.")), '<header srclang="*all*"/>'))[0] == [
        ("ja", "en", "はい", "Yes.")
    ]
    assert read(document(unit(("en", "Yes."), ("ja", "はい"), attributes='srclang="ja"')))[0] == [
        ("ja", "en", "はい", "Yes.")
    ]
    older = '<tu><tuv lang="EN"><seg>Yes.</seg></tuv><tuv lang="JA"><seg>はい</seg></tuv></tu>'
    assert read(document(older, '<header srclang="EN"/>', '<!DOCTYPE tmx SYSTEM "tmx11.dtd">'))[0] == [
        ("en", "ja", "Yes.", "はい")
    ]


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        (
            '<bpt i="1" x="1">&lt;b&gt;</bpt>Press<ept i="1">&lt;/b&gt;</ept> <ph x="2">&lt;br/&gt;</ph>now',
            'いま<ph x="2"/> <bpt i="4" x="1"/>押す<ept i="4"/>',
            ("<g1>Press</g1> <x2/>now", "いま<x2/> <g1>押す</g1>"),
        ),
        # Without x: by i, or by their order.
        (
            '<bpt i="1"/>a<bpt i="2"/>b<ept i="2"/><ept i="1"/><ph/>c<ph/>',
            '<ph/><bpt i="1"/>あ<bpt i="2"/>い<ept i="2"/><ept i="1"/><ph/>う',
            ("<g1>a<g2>b</g2></g1><x3/>c<x4/>", "<x3/><g1>あ<g2>い</g2></g1><x4/>う"),
        ),
        (
            '<hi type="term">Old</hi> <it pos="begin">[</it>map<ut>]</ut>',
            "<it>[</it>古い<ut/>",
            ("Old <x1/>map<x2/>", "<x1/>古い<x2/>"),
        ),
        ("<ph><sub>not shown</sub></ph>A<!-- no --><![CDATA[ & b]]>", "<ph/>あ", ("<x1/>A & b", "<x1/>あ")),
    ],
)
def test_inline_codes_become_marks(text: str, translation: str, expected: tuple[str, str]) -> None:
    entries, skipped = read(document(unit(("en", text), ("ja", translation))))
    assert ([(one[2], one[3]) for one in entries], skipped) == ([expected], {})


def test_what_is_not_read_is_counted_by_its_reason() -> None:
    body = (
        unit(("en", "Yes."), ("ja", "はい"))
        + unit(("en", 'A<ph x="1"/>'), ("ja", "あ"))  # a code is lost
        + unit(("en", "A"), ("ja", "あ<ph/>"))  # or invented
        + unit(("en", '<bpt i="1"/>A'), ("ja", '<bpt i="1"/>あ'))  # or not closed
        + unit(("en", "A <g1>b</g1>".replace("<", "&lt;")), ("ja", "あ"))
        + unit(("en", " "), ("ja", "あ"))
        + unit(("en", "Yes."), ("xx-nothing-1", "はい"))
        + unit(("en", "Yes."))
        + unit(("en", "Colour"), ("en", "Color"), ("ja", "色"))
        + "<tu/>"
    )
    entries, skipped = read(document(body))
    assert [one[2:] for one in entries] == [("Yes.", "はい"), ("Colour", "色")]
    assert skipped == {"codes": 3, "text": 2, "language": 2, "variants": 3}


def test_encodings_and_namespaces_are_those_of_the_file() -> None:
    text = (
        document(unit(("en", "Café"), ("ja", "カフェ")))
        .decode()
        .replace('version="1.0"', 'version="1.0" encoding="utf-16"')
    )
    assert read(text.encode("utf-16"))[0] == [("en", "ja", "Café", "カフェ")]
    named = document(unit(("en", "Yes."), ("ja", "はい"))).replace(b"<tmx ", b'<tmx xmlns="http://www.lisa.org/tmx14" ')
    assert len(read(named)[0]) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not XML",
        b"<tmx><body><tu>",
        b"<html><body/></html>",
        document("", doctype='<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'),
        document("", doctype='<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>'),
        document(unit(("en", "&undefined;"), ("ja", "あ"))),
        document(unit(("en", "<hi>" * 2000 + "a" + "</hi>" * 2000), ("ja", "あ"))),
        document(unit(("en", "a"), ("ja", "あ")))[:-3],
    ],
)
def test_what_is_no_tmx_or_is_hostile_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidFile):
        read(data)


def test_what_is_written_is_read_again_and_by_another_reader() -> None:
    entries = [
        TmxEntry("en", "ja", "Press <g1>Start</g1> & <x2/>go", "<x2/><g1>開始</g1>を押す < >"),
        TmxEntry("en", "ko", "Press <g1>Start</g1> & <x2/>go", "<g1>시작</g1><x2/>"),
        TmxEntry("ja", "en", "はい", 'Yes "so"'),
    ]
    units = [TranslationUnit(one.source, one.target, one.text, one.translation, NOW, NOW) for one in entries]
    written = "".join((tmx.head(None, ("a tool", "1")), *tmx.written(units), TMX_TAIL)).encode()
    skipped = Counter[str]()
    assert [*tmx.read(written, skipped)] == entries
    assert not skipped
    root = etree.fromstring(written)
    assert root.find("header").get("srclang") == "*all*"
    assert [len(one) for one in root.iter("tu")] == [3, 2]
    assert [one.tag for one in root.find(".//seg")] == ["bpt", "ept", "ph"]
    assert root.find(".//tuv[2]").get("changedate") == "20261125T093000Z"
