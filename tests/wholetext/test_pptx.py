"""pptx: slides in their order with their notes, tables, SmartArt and charts; fields and masters stay."""

from __future__ import annotations

import io
import re

import pptx as python_pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.wholetext.office import A, P, R, office, read, texts, translated
from wholetext.files.archive import Archive


def presentation() -> bytes:
    deck = python_pptx.Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Title {number}"  # pyright: ignore
    slide.notes_slide.notes_text_frame.text = "Say this"  # pyright: ignore
    paragraph = slide.shapes.add_textbox(0, 0, Inches(3), Inches(1)).text_frame.paragraphs[0]
    paragraph.add_run().text = "All of it is "
    bold = paragraph.add_run()
    bold.text, bold.font.bold = "bold", True
    paragraph.add_run().text = " here"
    slide.shapes.add_table(1, 1, 0, 0, Inches(3), Inches(1)).table.cell(0, 0).text = "In a cell"
    data = CategoryChartData()
    data.categories = ["North"]
    data.add_series("Sales", (1,))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(3), Inches(3), data).chart  # pyright: ignore
    chart.has_title = True
    chart.chart_title.text_frame.text = "Of the chart"
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def test_direction_follows_the_language() -> None:
    def said(package: Archive) -> list[list[str]]:
        parts = [package.read(f"ppt/{name}.xml").decode() for name in ("slides/slide2", "slideMasters/slideMaster1")]
        found = [re.findall(r"<a:(?:pPr|tblPr)[^>]*>", parts[0])]
        levels = re.search(r"<p:bodyStyle><a:lvl1pPr.*?</p:txStyles>", parts[1], re.DOTALL)
        assert levels is not None
        return [*found, re.findall(r'algn="\w+"|rtl="\d"', levels[0])]

    data = presentation()
    paragraphs, levels = said(translated(data, read(data, "pptx", "ar")))
    assert paragraphs.count('<a:pPr rtl="1"/>') == 3  # of the title, the text box and the cell
    assert [one for one in paragraphs if one.startswith("<a:tblPr")] == ['<a:tblPr rtl="1" firstRow="1" bandRow="1">']
    assert set(levels) == {'algn="r"', 'rtl="1"'}
    from_right = translated(data, read(data, "pptx", "ar"), str).data
    back = translated(from_right, read(from_right, "pptx", "de"), str)
    assert set(said(back)[1]) == {'algn="l"', 'rtl="0"'}
    assert said(back)[0].count('<a:pPr rtl="0"/>') == 3
    same = translated(from_right, read(from_right, "pptx", "he"), str)
    assert said(same) == said(Archive(from_right))


def test_a_second_reader_opens_the_result() -> None:
    data = presentation()
    content = read(data, "pptx")
    named = [(unit.place, unit.block.text) for unit in content.units if not unit.place.startswith("title of")]
    assert named == [
        ("slide 1", "Title 1"),
        ("slide 2", "Title 2"),
        ("slide 2", "All of it is <g1>bold</g1> here"),
        ("slide 2", "In a cell"),
        ("slide 2, notes", "Say this"),
        ("slide 2", "Of the chart"),
    ]
    assert {left.text for left in content.left if left.reason == "chart_data"} == {"Sales", "North"}
    result = translated(data, content)
    deck = python_pptx.Presentation(io.BytesIO(result.data))
    slide = deck.slides[1]
    assert slide.notes_slide.notes_text_frame.text == "λλλ λλλλ"  # pyright: ignore
    shapes = {shape.shape_type: shape for shape in slide.shapes}
    frames = [shape.text_frame for shape in slide.shapes if shape.has_text_frame]  # pyright: ignore
    assert [run.text for run in frames[1].paragraphs[0].runs if run.font.bold] == ["λλλλ"]
    assert next(shape for shape in shapes.values() if shape.has_table).table.cell(0, 0).text == "λλ λ λλλλ"  # pyright: ignore
    same = translated(data, read(data, "pptx", "en"), str)
    for name in Archive(data).names:
        assert same.read(name) == Archive(data).read(name), name


def test_text_boxes_of_masters_are_translated_and_their_placeholders_left() -> None:
    deck = python_pptx.Presentation(io.BytesIO(presentation()))
    for shapes in (deck.slide_master.shapes, deck.slide_layouts[5].shapes):
        box = deck.slides[0].shapes.add_textbox(0, 0, Inches(3), Inches(1))
        box.text_frame.text = "Confidential"
        shapes._spTree.append(box._element)  # pyright: ignore
    buffer = io.BytesIO()
    deck.save(buffer)
    content = read(buffer.getvalue(), "pptx")
    assert [unit.place for unit in content.units if unit.block.text == "Confidential"] == ["master 1", "layout 6"]
    left = {left.text for left in content.left if left.reason == "placeholder"}
    assert "Click to edit Master title style" in left
    assert not any(unit.block.text in left for unit in content.units)
    result = python_pptx.Presentation(io.BytesIO(translated(buffer.getvalue(), content).data))
    for shapes in (result.slide_master.shapes, result.slide_layouts[5].shapes):
        assert [one.text_frame.text for one in shapes if one.has_text_frame and not one.is_placeholder] == ["λ" * 12]
    translated(buffer.getvalue(), read(buffer.getvalue(), "pptx", "ar"))  # no two regions for one direction


def shape(text: str) -> str:
    return f"<p:sp><p:nvSpPr><p:cNvPr id='1' name='a' descr='A dog'/></p:nvSpPr><p:txBody>{text}</p:txBody></p:sp>"


def slide(*shapes: str) -> tuple[str, str]:
    return "presentationml.slide", f"<p:sld {P} {A} {R}>{''.join(shapes)}</p:sld>"


def deck(*slides: tuple[str, str], **others: tuple[str, str]) -> bytes:
    """Slides in the opposite order of their parts' names."""
    ids = "".join(f'<p:sldId r:id="slide{number}"/>' for number in range(len(slides), 0, -1))
    main = f"<p:presentation {P} {R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    parts = {"ppt/p.xml": ("presentationml.presentation.main", main)}
    parts |= {f"ppt/s{number}.xml": one for number, one in enumerate(slides, 1)}
    parts |= {f"ppt/{name}.xml": one for name, one in others.items()}
    links = {f"slide{number}": f"ppt/s{number}.xml" for number in range(1, len(slides) + 1)}
    return office(parts, {"ppt/p.xml": links, "ppt/s1.xml": {f"{name}1": f"ppt/{name}.xml" for name in others}})


def test_runs_breaks_fields_and_languages() -> None:
    first = shape(
        '<a:p><a:pPr/><a:r><a:rPr lang="en-US" altLang="de-DE" dirty="0"/><a:t>Quarter</a:t></a:r>'
        '<a:r><a:rPr lang="en-GB" err="1"/><a:t>ly report</a:t></a:r><a:br><a:rPr lang="en-US"/></a:br>'
        '<a:r><a:t>of us_x000B_all</a:t></a:r><a:fld type="datetime"><a:t>May</a:t></a:fld><a:endParaRPr lang="en-US"/></a:p>'
    )
    data = deck(slide(first), slide(shape("<a:p><a:r><a:t>Last part, first slide</a:t></a:r></a:p>")))
    content = read(data, "pptx")
    assert [(unit.place, unit.block.text) for unit in content.units if "alternative" not in unit.place] == [
        ("slide 1", "Last part, first slide"),
        ("slide 2", "Quarterly report<x1/>of us<x2/>all"),
    ]
    assert [unit.block.text for unit in content.units if "alternative" in unit.place] == ["A dog", "A dog"]
    assert [(left.reason, left.text) for left in content.left] == [("field", "May")]
    result = translated(data, content).read("ppt/s1.xml").decode()
    assert result.count('lang="el-GR"') == 3  # the two runs are one
    assert "altLang" not in result
    assert "en-" not in result
    assert "λλ λλ_x000B_λλλ</a:t>" in result
    assert "<a:t>May</a:t>" in result


def test_smartart_is_translated_once_and_written_in_both_of_its_parts() -> None:
    dgm = 'xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    dsp = 'xmlns:d="http://schemas.microsoft.com/office/drawing/2008/diagram"'
    text = "<a:p><a:r><a:t>A step</a:t></a:r></a:p>"
    data = deck(
        slide(),
        diagramData=("drawingml.diagramData", f"<d:dataModel {dgm} {A}><d:t>{text}</d:t></d:dataModel>"),
        diagramDrawing=(
            "application/vnd.ms-office.drawingml.diagramDrawing",
            f"<d:drawing {dsp} {A}><d:txBody>{text}</d:txBody></d:drawing>",
        ),
    )
    content = read(data, "pptx")
    assert [(unit.place, unit.block.text) for unit in content.units] == [("slide 1", "A step")]
    result = translated(data, content)
    assert all("λ λλλλ" in result.read(f"ppt/{name}.xml").decode() for name in ("diagramData", "diagramDrawing"))


def test_comments_only_on_demand() -> None:
    comment = ("presentationml.comments", f"<p:cmLst {P}><p:cm><p:text>Why &amp; how</p:text></p:cm></p:cmLst>")
    data = deck(slide(), comments=comment)
    assert [(left.reason, left.text) for left in read(data, "pptx").left] == [("comment", "Why & how")]
    asked = read(data, "pptx", comments=True)
    assert texts(asked) == ["Why & how"]
    assert "<p:text>λλλ &amp; λλλ</p:text>" in translated(data, asked).read("ppt/comments.xml").decode()


def test_a_part_in_two_places_is_written_once() -> None:
    once = slide(shape("<a:p><a:r><a:t>Once</a:t></a:r></a:p>"))
    data = deck(once, once)
    found = Archive(data)
    main = found.read("ppt/p.xml").replace(b"slide2", b"slide1")
    notes = b'<Relationship Id="x" Type="x/notesSlide" Target="/ppt/s1.xml"/></R'
    own = found.read("ppt/_rels/s1.xml.rels").replace(b"</R", notes)
    twice = found.rewrite({"ppt/p.xml": main, "ppt/_rels/s1.xml.rels": own})
    assert translated(twice, read(twice, "pptx")).read("ppt/s1.xml").decode().count("<a:t>λλλλ</a:t>") == 1


def test_tips_of_links_are_text() -> None:
    link = '<a:hlinkClick r:id="rId7" tooltip="A tip here"/>'
    run = f"<a:p><a:r><a:rPr>{link}</a:rPr><a:t>Link words</a:t></a:r><a:r><a:t> and more of them</a:t></a:r></a:p>"
    data = deck(
        slide(shape(run).replace("<p:txBody>", f"<p:nvSpPr><p:cNvPr id='2'>{link}</p:cNvPr></p:nvSpPr><p:txBody>"))
    )
    content = read(data, "pptx")
    assert texts(content) == ["A dog", "A tip here", "<g1>Link words</g1> and more of them", "A tip here"]
    result = translated(data, content).read("ppt/s1.xml").decode()
    assert result.count('r:id="rId7" tooltip="λ λλλ λλλλ"') == 2
