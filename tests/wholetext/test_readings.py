"""Readings (ruby) of every format that has them: a text is the base alone, its own text comes back with the readings, and a
translation has none."""

from __future__ import annotations

import pytest

from tests.wholetext.every_format import between_marks, parts
from tests.wholetext.office import docx
from tests.wholetext.reading import texts as texts_of
from tests.wholetext.reading import written
from tests.wholetext.test_epub import XHTML, book, opf, xhtml
from tests.wholetext.test_odf import p, package
from tests.wholetext.test_xlsx import cells, strings, workbook
from wholetext.files import formats
from wholetext.files.content import ReadOptions
from wholetext.markup import TextFormat, document

RUBY = "その<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>が好き"
ODF = "その<text:ruby><text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text></text:ruby>が好き"
WORD = (
    "<w:p><w:r><w:t>その</w:t></w:r><w:r><w:ruby><w:rt><w:r><w:t>かんじ</w:t></w:r></w:rt>"
    "<w:rubyBase><w:r><w:t>漢字</w:t></w:r></w:rubyBase></w:ruby></w:r><w:r><w:t>が好き</w:t></w:r></w:p>"
)
EXCEL = "その漢字が好き</t><rPh sb='2' eb='4'><t>かんじ</t></rPh><phoneticPr fontId='1'/><t>"

FILES = {
    "html": f"<p>{RUBY}</p>".encode(),
    "xhtml": xhtml(f"<p>{RUBY}</p>").encode(),
    "epub": book(
        {"book/p.opf": opf("<dc:language>ja</dc:language>", ("a.html", XHTML)), "book/a.html": xhtml(f"<p>{RUBY}</p>")}
    ),
    "md": f"{RUBY}\n\n<div>{RUBY}</div>\n".encode(),
    "txt": f"{RUBY}\n".encode(),
    "srt": f"1\n00:00:01,000 --> 00:00:02,000\n{RUBY}\n".encode(),
    "vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{RUBY.replace('<rp>(</rp>', '').replace('<rp>)</rp>', '')}\n".encode(),
    "json": f'{{"a": "{RUBY}"}}'.encode(),
    "csv": f"a,b\n1,{RUBY}\n".encode(),
    "po": f'msgid "{RUBY}"\nmsgstr ""\n'.encode(),
    "odt": package(p(ODF) + p(f"{ODF}。{ODF}")),
    "docx": docx(WORD),
    "xlsx": workbook(cells(0), strings(EXCEL)),
}
"""Files with one word that has a reading, by extension."""


@pytest.mark.parametrize("extension", FILES)
def test_a_text_is_the_base_alone(extension: str) -> None:
    content = formats.read(FILES[extension], ReadOptions(extension, "en"))
    assert content.units
    for unit in content.units:
        assert unit.block.text.removesuffix("。その漢字が好き") == "その漢字が好き"
    assert not any("かんじ" in one.text for one in content.left)


@pytest.mark.parametrize("extension", sorted(FILES.keys() - {"po"}))  # a catalogue keeps its source
def test_readings_come_back_with_their_text_and_go_with_a_translation(extension: str) -> None:
    options = ReadOptions(extension, "ja")
    units = formats.read(FILES[extension], options).units
    own, _ = formats.write(FILES[extension], options, [unit.block.text for unit in units])
    assert extension == "docx" or [part.count("かんじ".encode()) for part in parts(own)] == [
        part.count("かんじ".encode()) for part in parts(FILES[extension])
    ]
    other, _ = formats.write(FILES[extension], options, ["Kanji"] * len(units))
    assert b"Kanji" in b"".join(parts(other))
    for sign in ("かんじ", "漢字", "ruby", "<rt", "<rp"):
        assert sign.encode() not in b"".join(parts(other))


MIXED = {
    "end tags that are optional": ("<ruby>漢<rt>kan<rb>字<rt>ji</ruby>だ", ["漢字だ"], "{}"),
    "a second reading": ("<ruby>漢字<rtc><rt>かんじ</rt></rtc><rtc>kanji</rtc></ruby>だ", ["漢字だ"], "{}"),
    "tags in the base": ("その<ruby><b>漢</b>字<rt>かんじ</rt></ruby>だ", ["その<g1>漢</g1>字だ"], "{}"),
    "a tag around": ("<b><ruby>漢字<rt>かんじ</rt></ruby></b>", ["漢字"], "<b>{}</b>"),
    "space beside tags": ("<b> <ruby> 漢字 <rt>かんじ</rt> </ruby> </b>", ["漢字"], "<b> {} </b>"),
    "twice in two ways": ("<ruby>私<rt>わたし</rt></ruby>と<i>私</i>", ["私と<g1>私</g1>"], "{}"),
    "an entity": ("R&amp;<ruby>漢<rt>D</rt></ruby> &lt;", ["R&漢 <"], "{}"),
    "a picture before it": (
        "<img alt='絵'> <ruby>漢字<rt>かんじ</rt></ruby>",
        ["絵", "漢字"],
        None,
    ),
}


@pytest.mark.parametrize("source, found, around", MIXED.values(), ids=list(MIXED))
def test_in_html(source: str, found: list[str], around: str | None) -> None:
    assert texts_of(document.pieces(source, "html")) == found
    assert written(document.pieces(source, "html")) == source
    if around is not None and "<g1>" not in found[0]:
        assert written(document.pieces(source, "html"), lambda _: "ab") == around.format("ab")
    others = written(document.pieces(source, "html"), lambda text: between_marks(text, lambda part: "ab"))
    assert "<r" not in others and "</r" not in others


@pytest.mark.parametrize(
    "format, source",
    [
        ("html", "<p>a &lt;ruby&gt;漢字&lt;rt&gt;かんじ&lt;/rt&gt;&lt;/ruby&gt; b</p>"),  # a page about ruby
        ("html", "<p><ruby>漢字<rt>and all the rest</p>"),  # a reading that does not end
        ("html", "<p>The <rt>words</rt> here</p>"),
        ("text", "The <rt>words</rt> here"),
        ("html", "<ruby>漢字<p>a paragraph</p></ruby>"),
    ],
)
def test_what_is_no_reading_stays_text(format: TextFormat, source: str) -> None:
    shown = " ".join(texts_of(document.pieces(source, format)))
    assert written(document.pieces(source, format)) == source
    for word in ("words", "rest", "paragraph", "かんじ"):
        assert (word in shown) == (word in source)


@pytest.mark.parametrize(
    "part", ["<ruby>漢<rt>かん</rt></ruby>", "<ruby>漢<rt>かん", "<ruby>", "</ruby><rt>", "<ruby>a</ruby>", "<rt>a"]
)
@pytest.mark.parametrize("format", ["html", "text", "markdown"])
def test_any_number_of_them_comes_back(part: str, format: TextFormat) -> None:
    for source in (part * 2_000, f"a {part} b " * 700):
        assert written(document.pieces(source, format)) == source
