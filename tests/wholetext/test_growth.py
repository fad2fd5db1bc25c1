"""Text that grows: a box of fixed size is shrunk to what it has room for and reported, whatever it takes its size from."""

from __future__ import annotations

import io
import re

import pptx as python_pptx
import pytest
from pptx.enum.text import MSO_AUTO_SIZE, MSO_VERTICAL_ANCHOR
from pptx.util import Inches, Pt

from tests.wholetext.office import docx, run
from tests.wholetext.test_odf import package
from tests.wholetext.test_xlsx import workbook
from wholetext.files import formats
from wholetext.files.archive import Archive, rewrite
from wholetext.files.content import TEXT_GREW, ReadOptions
from wholetext.files.growth import SCALES, Portion, Room, Widths, needed_height

WORDS = "The quick brown fox jumps over the lazy dog and runs home"
OPTIONS = ReadOptions("pptx", "de")


def deck(text: str = WORDS, *, height: float = 1.0, auto_size: MSO_AUTO_SIZE | None = MSO_AUTO_SIZE.NONE) -> bytes:
    presentation = python_pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    frame = slide.shapes.add_textbox(0, 0, Inches(3), Inches(height)).text_frame
    frame.word_wrap = True
    frame.auto_size = auto_size
    frame.text = text
    frame.paragraphs[0].runs[0].font.size = Pt(18)
    buffer = io.BytesIO()
    presentation.save(buffer)
    return buffer.getvalue()


def grown(data: bytes, times: float) -> tuple[str, list[str]]:
    """The first slide with each text so many times as long, and what the report says of it."""
    units = formats.read(data, OPTIONS).units
    texts = [(f"{unit.block.text} " * 9)[: int(times * (len(unit.block.text) + 1)) - 1] for unit in units]
    result, warnings = formats.write(data, OPTIONS, texts)
    python_pptx.Presentation(io.BytesIO(result))
    return Archive(result).read("ppt/slides/slide1.xml").decode(), warnings


def scale_of(slide: str) -> float:
    found = re.findall(r'<a:normAutofit fontScale="(\d+)" lnSpcReduction="\d+"/>', slide)
    return int(found[0]) / 1000 if found else 100.0


def test_text_that_has_room_changes_no_box() -> None:
    for times in (1, 1.3):
        slide, warnings = grown(deck(height=2), times)
        assert '<a:bodyPr wrap="square"><a:noAutofit/></a:bodyPr>' in slide and not warnings


def test_text_that_grows_out_of_its_box_is_shrunk_and_reported() -> None:
    scales: list[float] = []
    for times in (1.4, 2, 3, 8):
        slide, warnings = grown(deck(), times)
        scales.append(scale_of(slide))
        assert len(warnings) == 1 and warnings[0].startswith(f"{TEXT_GREW}slide 1: ")
        assert "noAutofit" not in slide
    assert scales == sorted(scales, reverse=True) and scales[0] > scales[-1] and set(scales) <= set(SCALES[1:])


@pytest.mark.parametrize("auto_size", [None, MSO_AUTO_SIZE.NONE, MSO_AUTO_SIZE.TEXT_TO_FIT_SHAPE])
def test_whatever_the_box_says_of_its_text(auto_size: MSO_AUTO_SIZE | None) -> None:
    slide, warnings = grown(deck(auto_size=auto_size), 3)
    assert warnings and slide.count("Autofit") == 1 and scale_of(slide) < 100


def test_a_box_that_grows_with_its_text_stays() -> None:
    slide, warnings = grown(deck(auto_size=MSO_AUTO_SIZE.SHAPE_TO_FIT_TEXT), 3)
    assert "<a:spAutoFit/>" in slide and scale_of(slide) == 100 and not warnings


def test_a_source_that_has_no_room_itself_is_measured_by_what_it_takes() -> None:
    data = deck(WORDS * 4)
    assert not grown(data, 1)[1]
    assert scale_of(grown(data, 2)[0]) in SCALES[2:5]  # of twice as much text, not of what its box has room for


def test_text_that_was_shrunk_is_shrunk_further() -> None:
    once = formats.write(deck(), OPTIONS, [f"{WORDS} {WORDS}"])[0]
    assert scale_of(grown(once, 1)[0]) == scale_of(Archive(once).read("ppt/slides/slide1.xml").decode())
    assert scale_of(grown(once, 2)[0]) < scale_of(grown(once, 1)[0])


def test_a_placeholder_has_the_box_of_its_layout() -> None:
    presentation = python_pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[0])
    slide.shapes.title.text = WORDS[:19]  # pyright: ignore
    buffer = io.BytesIO()
    presentation.save(buffer)
    result, warnings = grown(buffer.getvalue(), 9)
    assert scale_of(result) < 100 and len(warnings) == 1
    assert not grown(buffer.getvalue(), 1.2)[1]


def test_the_text_of_a_shape_on_a_sheet_is_reported_and_not_shrunk() -> None:
    drawing = (
        '<xdr:wsDr xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><xdr:sp><xdr:spPr><a:xfrm>'
        '<a:ext cx="914400" cy="457200"/></a:xfrm></xdr:spPr><xdr:txBody>'
        f"<a:bodyPr/><a:p><a:r><a:t>{WORDS[:20]}</a:t></a:r></a:p>"
        "</xdr:txBody></xdr:sp></xdr:wsDr>"
    )
    data = workbook("", "", drawing=("drawing", drawing))
    result, warnings = formats.write(data, ReadOptions("xlsx", "de"), [WORDS])
    assert [one.startswith(f"{TEXT_GREW}Data, shape: ") for one in warnings] == [True]
    assert b"<a:bodyPr/>" in Archive(result).read("xl/drawing.xml")


@pytest.mark.parametrize("autofit, is_reported", [("", True), ("<a:noAutofit/>", True), ("<a:spAutoFit/>", False)])
def test_the_text_of_a_box_of_word_is_reported(autofit: str, is_reported: bool) -> None:
    box = (
        '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:wsp xmlns:wps='
        '"http://schemas.microsoft.com/office/word/2010/wordprocessingShape"><wps:spPr><a:xfrm><a:ext cx="914400" cy="457200"/>'
        f"</a:xfrm></wps:spPr><wps:txbx><w:txbxContent><w:p>{run(WORDS[:20])}</w:p></w:txbxContent></wps:txbx>"
        f"<wps:bodyPr>{autofit}</wps:bodyPr></wps:wsp></w:drawing></mc:Choice></mc:AlternateContent></w:r>"
    )
    data = docx(f"<w:p>{run('Words ')}{box}</w:p>")
    for times, is_too_long in ((1, False), (3, is_reported)):
        texts = [" ".join([unit.block.text] * times) for unit in formats.read(data, ReadOptions("docx", "de")).units]
        result, warnings = formats.write(data, ReadOptions("docx", "de"), texts)
        assert [one.startswith(f"{TEXT_GREW}paragraph 1: ") for one in warnings] == [True] * is_too_long
        assert f"<wps:bodyPr>{autofit}</wps:bodyPr>".encode() in Archive(result).read("odd/name.xml")


@pytest.mark.parametrize("kind", ["upright", "columns", "no width", "nonsense"])
def test_any_box_comes_back(kind: str) -> None:
    presentation = python_pptx.Presentation(io.BytesIO(deck()))
    frame = presentation.slides[0].shapes[0].text_frame  # pyright: ignore
    frame.vertical_anchor = MSO_VERTICAL_ANCHOR.MIDDLE
    changes = {
        "upright": ("vert", "vert"),
        "columns": ("numCol", "2"),
        "no width": ("lIns", "9" * 9),
        "nonsense": ("tIns", "x"),
    }
    frame._txBody.bodyPr.set(*changes[kind])
    buffer = io.BytesIO()
    presentation.save(buffer)
    slide, warnings = grown(buffer.getvalue(), 4)
    assert (scale_of(slide) < 100) == bool(warnings) == (kind != "no width")


def test_lines_are_broken_between_words_and_wide_letters() -> None:
    widths, room = Widths(), Room(100, 100)
    one = needed_height([[Portion("word", 10)]], room, widths, 100)
    assert needed_height([[Portion("word", 10, breaks=True), Portion("word", 10)]], room, widths, 100) == 2 * one
    assert needed_height([[Portion("漢" * 25, 10)]], room, widths, 100) == 3 * one
    assert needed_height([[Portion("m" * 40, 10)]], room, widths, 100) == 4 * one
    small, large = (needed_height([[Portion("word " * 8, size)]], room, widths, 100) for size in (10, 20))
    assert large > 2 * small


ODF_STYLES = """<style:style style:name="gr1" style:family="graphic"><style:graphic-properties draw:auto-grow-height="false"/>
<style:text-properties fo:font-size="18pt" style:font-name="Arial"/></style:style>
<style:style style:name="gr2" style:family="graphic" style:parent-style-name="gr1"><style:graphic-properties
 draw:auto-grow-height="true"/></style:style>
<style:style style:name="gr3" style:family="graphic" style:parent-style-name="gr1"><style:graphic-properties
 draw:fit-to-size="shrink-to-fit"/></style:style>
<style:style style:name="gr4" style:family="graphic" style:parent-style-name="gr1"/>
<style:style style:name="P9" style:family="paragraph"><style:text-properties fo:font-size="9pt"/></style:style>"""
SIZE = 'svg:width="7.62cm" svg:height="2.54cm"'


def odf_grown(body: str, kind: str, times: float) -> list[str]:
    data = package(body, kind)
    content = (
        Archive(data)
        .read("content.xml")
        .replace(b"<office:automatic-styles>", b"<office:automatic-styles>" + ODF_STYLES.encode())
    )
    options = ReadOptions({"presentation": "odp", "text": "odt", "spreadsheet": "ods"}[kind], "de")
    data = rewrite(data, {"content.xml": content}, set())
    units = formats.read(data, options).units
    texts = [text + f" {WORDS}"[: len(text)] * int(2 * times - 2) for text in (unit.block.text for unit in units)]
    result, warnings = formats.write(data, options, texts)
    formats.read(result, options)
    assert all(one.startswith(TEXT_GREW) for one in warnings)
    return [one.removeprefix(TEXT_GREW).partition(":")[0] for one in warnings]


@pytest.mark.parametrize(
    ("style", "paragraph", "growth", "is_reported"),
    [
        *(("gr1", "", times, times > 1) for times in (1, 1.5, 4)),
        ("gr4", "", 1.5, True),  # the style's parent has a fixed height
        ("gr1", "P9", 1.5, False),  # smaller letters
        *((name, "", 4, False) for name in ("gr2", "gr3", "unknown")),
    ],
)
@pytest.mark.parametrize("shape", ["custom-shape", "text-box"])
def test_a_shape_of_a_fixed_height_is_reported_in_odp(
    shape: str, style: str, paragraph: str, growth: float, is_reported: bool
) -> None:
    text = f'<text:p text:style-name="{paragraph}">{WORDS[:30]}<text:line-break/><text:span>{WORDS[30:]}</text:span></text:p>'
    place = f'draw:style-name="{style}" {SIZE}'
    inner = f"<draw:custom-shape {place}>{text}</draw:custom-shape>"
    if shape == "text-box":
        inner = f"<draw:frame {place}><draw:text-box>{text}</draw:text-box></draw:frame>"
    other = (
        f'<draw:frame draw:style-name="gr2" {SIZE}><draw:text-box><text:p>Other</text:p></draw:text-box></draw:frame>'
    )
    body = f"<draw:page><draw:g>{other}{inner}</draw:g></draw:page>"
    assert odf_grown(body, "presentation", growth) == ["slide 1"] * is_reported


@pytest.mark.parametrize(
    "beside", ["<text:span>stray</text:span>", f"<text:p><![CDATA[<a:{'b' * 100_000}<b]]></text:p>"]
)
def test_a_shape_with_text_in_no_paragraph_or_signs_of_tags_in_its_text_is_written(beside: str) -> None:
    box = f"<draw:text-box>{beside}<text:p>{WORDS}</text:p></draw:text-box>"
    odf_grown(f'<draw:page><draw:frame draw:style-name="gr1" {SIZE}>{box}</draw:frame></draw:page>', "presentation", 4)


@pytest.mark.parametrize(("box", "is_reported"), [("", True), ('fo:min-height="2.54cm"', False)])
@pytest.mark.parametrize("around", ["paragraph", "page"])
def test_a_text_box_of_a_fixed_height_is_reported_in_odt(around: str, box: str, is_reported: bool) -> None:
    frame = (
        f"<draw:frame {SIZE}><draw:text-box {box}><text:p>{WORDS} {WORDS} {WORDS}</text:p></draw:text-box></draw:frame>"
    )
    body = f"<text:p>Before</text:p><text:p>Words {frame} here</text:p>" if around == "paragraph" else frame
    for growth, is_grown in ((1, False), (3, is_reported)):
        found = odf_grown(body, "text", growth)
        assert [one.partition(" ")[0] for one in found] == ["paragraph"] * is_grown


def test_a_shape_on_a_sheet_is_reported_in_ods() -> None:
    shape = f'<draw:custom-shape draw:style-name="gr1" {SIZE}><text:p>{WORDS}</text:p></draw:custom-shape>'
    row = f"<table:table-row><table:table-cell>{shape}</table:table-cell></table:table-row>"
    table = f'<table:table table:name="T">{row}</table:table>'
    assert odf_grown(table, "spreadsheet", 3) == ["T!A1"]
    assert odf_grown(table, "spreadsheet", 1) == []
