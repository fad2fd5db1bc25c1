"""xlsx: each string once, with the cell that uses it; what the workbook compares or names stays."""

from __future__ import annotations

import io
import re
from xml.sax.saxutils import unescape

import openpyxl
import pytest
from openpyxl.comments import Comment
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table

from tests.wholetext.office import R, X, office, read, texts, translated
from wholetext.files import formats
from wholetext.files.archive import Archive
from wholetext.files.content import ReadOptions, replaced_parts


def workbook(rows: str, strings: str, *, sheet: str = "", names: str = "", **others: tuple[str, str]) -> bytes:
    book = f'<workbook {X} {R}><sheets><sheet name="Data" r:id="worksheet1"/></sheets>{names}</workbook>'
    kind = "spreadsheetml."
    return office(
        {
            "xl/workbook.xml": (f"{kind}sheet.main", book),
            "xl/one.xml": (f"{kind}worksheet", f"<worksheet {X}><sheetData>{rows}</sheetData>{sheet}</worksheet>"),
            "xl/strings.xml": (f"{kind}sharedStrings", f"<sst {X}>{strings}</sst>"),
            **{f"xl/{name}.xml": one for name, one in others.items()},
        },
        {
            "xl/workbook.xml": {"worksheet1": "xl/one.xml", "sharedStrings1": "xl/strings.xml"},
            "xl/one.xml": {f"{name}1": f"xl/{name}.xml" for name in others},
        },
    )


def cells(*indexes: int | str) -> str:
    """A row of strings by index, and of formulas."""
    found = (
        f'<c r="{column}1" t="s"><v>{one}</v></c>' if isinstance(one, int) else f'<c r="{column}1"><f>{one}</f></c>'
        for column, one in zip("ABCDEFGH", indexes, strict=False)
    )
    return f"<row>{''.join(found)}</row>"


def strings(*texts: str) -> str:
    return "".join(f"<si><t>{text}</t></si>" for text in texts)


def test_a_second_reader_opens_the_result() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Cities"
    for row in (["City", "Note"], ["Rome", "It is old"], ["Oslo", "It is old"], ["A-17", 12]):
        sheet.append(row)
    sheet["E1"] = '=IF(A2="Rome",1,0)'
    sheet["D1"].comment = Comment("A remark", "me")
    sheet.oddHeader.left.text = "Report of &P"
    validation = DataValidation(type="list", formula1='"Open,Closed"', promptTitle="Choose", prompt="One of two")
    sheet.add_data_validation(validation)
    validation.add("F1")
    sheet["F1"] = "Open"
    sheet.add_table(Table(displayName="T", ref="A1:B4"))
    buffer = io.BytesIO()
    book.save(buffer)
    data = buffer.getvalue()
    content = read(data, "xlsx")
    found = [(unit.place, unit.block.text, unit.context) for unit in content.units]
    assert ("Cities!B2", "It is old", "Note") in found
    assert [text for _, text, _ in found if text not in ("It is old", "Report of")] == [
        "Choose",
        "One of two",
        "Oslo",
    ]
    assert {(left.reason, left.text) for left in content.left} == {
        ("sheet_name", "Cities"),
        ("table_header", "City"),
        ("table_header", "Note"),
        ("compared", "Rome"),
        ("compared", "Open"),
        ("compared", "Open,Closed"),
        ("comment", "A remark"),
    }
    assert len(content.warnings) == 2
    result = openpyxl.load_workbook(io.BytesIO(translated(data, content).data)).active
    assert result is not None
    assert [cell.value for cell in result["B"][:4]] == ["Note", "λλ λλ λλλ", "λλ λλ λλλ", 12]
    assert [cell.value for cell in result["A"][:4]] == ["City", "Rome", "λλλλ", "A-17"]
    assert result["E1"].value == '=IF(A2="Rome",1,0)'
    assert result.oddHeader.left.text == "λλλλλλ λλ &P"
    same = translated(data, content, str)
    for name in Archive(data).names:
        assert same.read(name) == Archive(data).read(name), name


@pytest.mark.parametrize(
    "formula, stays",
    [
        ('COUNTIF(A:A,"&lt;&gt;late fee")', "late fee"),
        ('COUNTIF(A:A,"*fee*")', "late fee"),
        ('VLOOKUP("Late Fee",A1:B2,2)', "late fee"),
        ('IF(A1="","other","late fee")', "late fee"),
        ('TEXT(A1,"yyyy")', ""),
        ("SUM(A1)", ""),
    ],
)
def test_what_formulas_compare_stays(formula: str, stays: str) -> None:
    data = workbook(cells(0, 1, formula), strings("late fee", "other words"))
    content = read(data, "xlsx")
    assert [left.text for left in content.left if left.reason == "compared"] == ([stays] if stays else [])
    assert texts(content) == (["other words"] if stays else ["late fee", "other words"])


@pytest.mark.parametrize(
    "formula, shown",
    [
        ('"Total: "&amp;A1', ["Total:"]),
        ('IF(A1="Yes","It is ""open""",""&amp;"Closed now")', ['It is "open"', "Closed now"]),
        ('IF("Yes" = A1,1,A1&lt;&gt;"No")', []),
        ('TEXT(A1,"dd.mm.yyyy")&amp;HYPERLINK("https://a.example/b","Click here")', ["Click here"]),
    ],
)
def test_the_texts_in_formulas_are_reported_once(formula: str, shown: list[str]) -> None:
    content = read(workbook(cells(formula, formula), strings()), "xlsx")
    assert [one.text for one in content.left if one.reason == "formula"] == shown


def test_a_workbooks_title_is_text_and_its_language_becomes_the_targets() -> None:
    book = openpyxl.Workbook()
    book.properties.title, book.properties.language = "Cities of Europe", "en"
    buffer = io.BytesIO()
    book.save(buffer)
    content = read(buffer.getvalue(), "xlsx")
    assert [(unit.place, unit.block.text) for unit in content.units] == [("title of the document", "Cities of Europe")]
    parts, _ = replaced_parts(content, ["Πόλεις"])
    written = openpyxl.load_workbook(io.BytesIO(Archive(buffer.getvalue()).rewrite(parts, content.dropped)))
    assert written.properties.title == "Πόλεις"
    assert written.properties.language == "el-GR"


def test_rich_strings_lines_and_readings() -> None:
    data = workbook(
        cells(0, 1, 2, 3, 4),
        "<si><r><t>Some </t></r><r><rPr><b/></rPr><t>bold</t></r><r><t xml:space='preserve'> text</t></r></si>"
        "<si><t>First line.\nSecond line_x000D_\nof words</t></si>"
        '<si><t>東京</t><rPh sb="0" eb="2"><t>トウキョウ</t></rPh><phoneticPr fontId="1"/></si>'
        + strings("0012", "Q3"),
    )  # fmt: skip
    content = read(data, "xlsx")
    assert texts(content) == ["Some <g1>bold</g1> text", "First line.", "Second line<x1/>of words", "東京"]
    assert not any(unit.follows for unit in content.units if unit.place != "Data!B1")
    assert translated(data, content, str).data == data
    result = translated(data, content).read("xl/strings.xml").decode()
    assert "λλλλλ λλλλ.\nλλλλλλ λλλλ_x000D_\nλλ λλλλλ" in result
    assert "トウキョウ" not in result
    assert '<si><t>λλ</t><phoneticPr fontId="1"/></si>' in result


def test_cells_stay_text_and_within_their_limit() -> None:
    data = workbook(cells(0), strings("some words"))
    content = read(data, "xlsx")
    assert "<si><t>=1+1</t></si>" in translated(data, content, lambda _: "=1+1").read("xl/strings.xml").decode()
    result = translated(data, content, lambda _: "&" * 40_000).read("xl/strings.xml").decode()
    assert result.count("&amp;") == 32_767
    warnings = replaced_parts(content, ["&" * 40_000])[1]
    assert [one.partition(": ")[2] for one in warnings] == [
        "a translation of 40000 characters was cut to the 32767 that a cell can have"
    ]


def test_prompts_and_print_headers_stay_within_the_limits_of_excel() -> None:
    rule = '<dataValidations><dataValidation sqref="A1" promptTitle="Pick" prompt="Pick one"/></dataValidations>'
    header = "<headerFooter><oddHeader>&amp;CReport &amp;amp; more</oddHeader></headerFooter>"
    content = read(data := workbook(cells(0), strings("some words"), sheet=rule + header), "xlsx")
    options = ReadOptions("xlsx", "el")
    long = formats.write(data, options, [unit.block.text.replace("i", '"' * 300) for unit in content.units])
    short = formats.write(data, options, [unit.block.text for unit in content.units])
    sheet = Archive(long[0]).read("xl/one.xml").decode()
    assert sheet.count("&quot;") == 31 + 254
    assert (len(long[1]), short[1]) == (2, [])
    report = formats.write(data, options, [unit.block.text.replace("R", "&" * 300) for unit in content.units])
    [shown] = re.findall("<oddHeader>(.*)</oddHeader>", Archive(report[0]).read("xl/one.xml").decode())
    assert len(unescape(shown)) == 255


def test_strings_in_cells_print_headers_and_threads() -> None:
    threads = "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"
    data = workbook(
        '<row><c r="B2" t="inlineStr"><is><t>In a cell</t></is></c><c r="C2" t="str"><f>A1</f><v>result</v></c></row>',
        "",
        sheet='<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"Left &amp;&amp; low&amp;CPage &amp;P</oddHeader></headerFooter>',
        names='<definedNames><definedName name="n">"Page"</definedName></definedNames>',
        threadedComment=(
            "application/vnd.ms-excel.threadedcomments",
            f'<Comments xmlns="{threads}"><threadedComment ref="A1"><text>Why</text></threadedComment></Comments>',
        ),
    )
    content = read(data, "xlsx", comments=True)
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("Data, header", "Left <x1/> low"),
        ("Data, header", "Page"),
        ("Data!B2", "In a cell"),
        ("Data!A1, comment", "Why"),
    ]
    result = translated(data, content).read("xl/one.xml").decode()
    assert '&amp;L&amp;"Arial,Bold"λλλλ &amp;&amp; λλλ&amp;Cλλλλ &amp;P' in result
    assert '<c r="C2" t="str"><f>A1</f></c>' in result
    assert "a &amp;&amp; b" in translated(data, content, lambda _: "a & b").read("xl/one.xml").decode()


def test_the_header_of_a_table_and_its_column_stay_together_and_what_the_table_compares_stays() -> None:
    columns = (
        '<tableColumn id="1" name="Net_x000a_price"/><tableColumn id="2" name="Place" totalsRowLabel="In all">'
        '<calculatedColumnFormula>IF([@Place]="old town",1,0)</calculatedColumnFormula></tableColumn>'
    )
    criteria = '<filterColumn colId="1"><filters><filter val="Port side"/></filters></filterColumn>'
    filtered = f'<autoFilter ref="A1:B2">{criteria}</autoFilter>'
    table = f'<table {X} ref="A1:B2">{filtered}<tableColumns>{columns}</tableColumns></table>'
    data = workbook(
        cells(0, 1, 2, 3, 4, 5),
        strings("Net\nprice", "place", "In all", "Old town", "Port side", "Some words"),
        table=("spreadsheetml.table", table),
    )
    content = read(data, "xlsx")
    assert texts(content) == ["Some words"]
    assert [(left.reason, left.text) for left in content.left if left.reason != "sheet_name"] == [
        ("table_header", "Net price"),
        ("table_header", "place"),
        ("table_header", "In all"),
        ("compared", "Old town"),
        ("compared", "Port side"),
    ]
    assert translated(data, content).read("xl/table.xml") == Archive(data).read("xl/table.xml")


def test_neighbouring_line_feeds_are_one_mark_or_the_end_of_a_text() -> None:
    data = workbook(cells(0, 1), strings("one of\nthe lines", "Some words\n\nand others\n\n\n"))
    content = read(data, "xlsx")
    assert texts(content) == ["one of<x1/>the lines", "Some words", "and others"]
    assert translated(data, content, str).data == data


def test_captions_of_controls_are_reported() -> None:
    vml = (
        '<xml xmlns:v="urn:schemas-microsoft-com:vml"><v:shape id="a"><v:textbox style="x"><div style="y"><font face="z">Send'
        "&amp;<br>close</font></div></v:textbox></v:shape><v:shape id='b'><v:textbox><div></div></v:textbox></v:shape></xml>"
    )
    content = read(workbook(cells(0), strings("Some text"), vmlDrawing=("vmlDrawing", vml)), "xlsx")
    assert [(one.place, one.text) for one in content.left if one.reason == "caption"] == [
        ("Data, control", "Send& close")
    ]


@pytest.mark.parametrize(
    "names, settings",
    [
        ("", '</sheets><calcPr fullCalcOnLoad="1"/></workbook>'),
        ("<definedNames/>", '<definedNames/><calcPr fullCalcOnLoad="1"/></workbook>'),
        ('<calcPr calcId="1"/>', '<calcPr fullCalcOnLoad="1" calcId="1"/>'),
        ('<calcPr fullCalcOnLoad="0"/>', '<calcPr fullCalcOnLoad="1"/>'),
    ],
)
def test_results_of_formulas_are_computed_anew(names: str, settings: str) -> None:
    rows = (
        '<row><c r="A1" t="s"><v>0</v></c><c r="B1" t="str"><f>A1</f><v>Hello there</v></c>'
        '<c r="C1"><f>LEN(A1)</f><v>11</v></c>'
        '<c r="D1" t="str"><f t="array" ref="D1:D2">A1:A2</f><v>Hello there</v></c>'
        '<c r="E1" t="str"><f t="shared" ref="E1:E2" si="0">[1]Other!A1</f><v>From outside</v></c></row>'
        '<row><c r="D2" t="str"><v>Hello again</v></c><c r="E2" t="str"><f t="shared" si="0"/><v>Also outside</v></c>'
        '<c r="F2" t="str"><f>_xlfn.TEXTJOIN(" ",1,A1)</f><v>Of a newer function</v></c></row>'
    )
    content = read(data := workbook(rows, strings("Hello there"), names=names), "xlsx")
    assert texts(content) == ["Hello there"]
    assert [(one.place, one.reason, one.text) for one in content.left if one.reason != "sheet_name"] == [
        ("Data!E1", "formula", "From outside"),
        ("Data!E2", "formula", "Also outside"),
        ("Data!F2", "formula", "Of a newer function"),
    ]
    result = translated(data, content)
    values = re.findall("<v>(.*?)</v>", result.read("xl/one.xml").decode())
    assert values == ["0", "11", "From outside", "Also outside", "Of a newer function"]
    assert settings in result.read("xl/workbook.xml").decode()


def test_texts_that_are_written_as_results_without_a_formula_are_text() -> None:
    data = workbook('<row><c r="A1" t="str"><v>Some words</v></c><c r="B1" t="str"><v>7</v></c></row>', "")
    content = read(data, "xlsx")
    assert [(unit.place, unit.block.text) for unit in content.units] == [("Data!A1", "Some words")]
    assert "fullCalcOnLoad" not in translated(data, content).read("xl/workbook.xml").decode()


def test_tips_of_links_newer_prompts_and_items_of_controls() -> None:
    x14 = "http://schemas.microsoft.com/office/spreadsheetml/2009/9/main"
    sheet = (
        '<hyperlinks><hyperlink ref="A1" tooltip="A tip here" location="Data!A2"/></hyperlinks>'
        f'<extLst xmlns:x14="{x14}" xmlns:xm="http://schemas.microsoft.com/office/excel/2006/main">'
        '<x14:dataValidation prompt="Take one">'
        "<x14:formula1><xm:f>Data!A1</xm:f></x14:formula1><xm:sqref>B2</xm:sqref></x14:dataValidation></extLst>"
    )
    control = (
        "application/vnd.ms-excel.controlproperties",
        f'<formControlPr xmlns="{x14}"><itemLst><item val="An item"/></itemLst></formControlPr>',
    )
    content = read(data := workbook(cells(0), strings("Words"), sheet=sheet, ctrlProp=control), "xlsx")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("Data!A1, tip of a link", "A tip here"),
        ("Data!B2, prompt", "Take one"),
        ("Data!A1", "Words"),
    ]
    assert ("caption", "An item") in [(one.reason, one.text) for one in content.left]
    assert 'tooltip="λ λλλ λλλλ" location="Data!A2"' in translated(data, content).read("xl/one.xml").decode()
