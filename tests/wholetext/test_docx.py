"""docx: sentences are whole, only their letters change, and what is no text of people stays."""

from __future__ import annotations

import io
import re
import sys
import zipfile

import docx as python_docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wholetext.office import changed, docx, office, read, run, texts, translated
from wholetext.errors import InvalidFile
from wholetext.files.xmlpart import DEEPEST, Namespaces, tree

MAIN = "odd/name.xml"


def body(data: bytes, model: object = changed, **options: object) -> str:
    """The body of a docx whose units were translated by `model`."""
    content = read(data, "docx", **options)  # pyright: ignore
    xml = translated(data, content, model).read(MAIN).decode()  # pyright: ignore
    tree(xml.encode(), MAIN, Namespaces({}))
    return xml.partition("<w:body>")[2].partition("</w:body>")[0]


def paragraph(*content: str) -> str:
    return f"<w:p><w:pPr><w:jc w:val='left'/></w:pPr>{''.join(content)}</w:p>"


BOLD, LINK = "<w:b/>", '<w:hyperlink r:id="rId9" xmlns:r="urn:r">'
BEGIN, SEPARATE, END = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))


def code(text: str) -> str:
    return f"{BEGIN}<w:r><w:instrText>{text}</w:instrText></w:r>{SEPARATE}"


@pytest.mark.parametrize(
    "content, source",
    [
        # Runs that a spelling check, a language or a revision cut are one text.
        (
            run("Invoice 2") + '<w:proofErr w:type="spellStart"/>' + run("7", '<w:lang w:val="el-GR"/><w:noProof/>')
            + '<w:r w:rsidR="00A1"><w:lastRenderedPageBreak/><w:t> is due</w:t></w:r>',
            ["Invoice 27 is due"],
        ),
        # The most frequent look carries no mark.
        (run("Read ") + run("this", BOLD) + run(" first."), ["Read <g1>this</g1> first."]),
        (run("A ", "<w:i/>") + run("long sentence in bold", BOLD), ["<g1>A </g1>long sentence in bold"]),
        (run("See also ") + LINK + run("our site", "<w:u/>") + "</w:hyperlink>" + run("."), ["See also <g1>our site</g1>."]),
        (run("one") + f"<w:ins w:id='1'>{run(' two')}</w:ins><w:del w:id='2'><w:r><w:delText>2</w:delText></w:r></w:del>",
         ["one<g1> two</g1>"]),
        ("<w:sdt><w:sdtPr/><w:sdtContent>" + run("Name") + "</w:sdtContent></w:sdt>" + run(" of you"),
         ["<g1>Name</g1> of you"]),
        # A space of another look than all text around it is a character of that.
        (run("one") + run(" ", BOLD) + run("two"), ["one two"]),
        (run("one", "<w:i/>") + run(" ", BOLD) + run("two three"), ["<g1>one</g1> two three"]),
        (run("one two") + run("\u00a0", BOLD) + run("three", "<w:i/>"), ["one two\u00a0<g1>three</g1>"]),
        (run("one", BOLD) + run(" ") + run("two", BOLD) + run(" is plain"), ["<g1>one</g1> <g2>two</g2> is plain"]),
        (run("Name:") + run("  ", "<w:u/>") + run("of"), ["Name:<x1/>of"]),
        # Line breaks and notes are marks; a break after a sentence and tabs divide.
        (run("one two").replace("two", "</w:t><w:br/><w:t>two"), ["one <x1/>two"]),
        (run("One.") + "<w:r><w:br/></w:r>" + run("Two."), ["One.", "Two."]),
        (run("Left") + "<w:r><w:tab/></w:r>" + run("Right"), ["Left", "Right"]),
        (run("a note") + '<w:r><w:footnoteReference w:id="2"/></w:r>' + run(" here"), ["a note<x1/> here"]),
        (run("e") + "<w:r><w:noBreakHyphen/></w:r>" + run("mail"), ["e\u2011mail"]),
        # Fields: what Word computes is a mark, what people wrote is text, codes are neither.
        (run("Page ") + code("PAGE") + run("three") + END + run(" of all"), ["Page <x1/> of all"]),
        (code('HYPERLINK "x"') + run("our ") + run("site") + END + run(" is"), ["<g1>our site</g1> is"]),
        (code('IF 1 = 1 "a"') + code("PAGE") + run("one") + END + run("two") + END + run("text"), ["text"]),
        (BEGIN + "<w:r><w:instrText>XE</w:instrText><w:t>no</w:t></w:r>" + END + run("yes"), ["yes"]),
        ("<w:fldSimple w:instr=' REF a '>" + run("Chapter") + "</w:fldSimple>" + run(" ends"), ["ends"]),
        # Hidden text, symbols, formulas.
        (run("secret", "<w:vanish/>") + run("shown", '<w:vanish w:val="0"/>'), ["shown"]),
        (run("abc", '<w:rFonts w:ascii="Wingdings"/>') + run("text"), ["text"]),
        ("<m:oMath><m:r><m:t>Ema</m:t></m:r></m:oMath>" + run(" is energy"), ["is energy"]),
        # A reading goes with its source.
        ("<w:r><w:ruby><w:rt>" + run("kana") + "</w:rt><w:rubyBase>" + run("kanji") + "</w:rubyBase></w:ruby></w:r>",
         ["kanji"]),
        (run("a &amp; b &lt;g1&gt; \u00a9"), ["a & b <x1/> \u00a9"]),
        (run("<![CDATA[a <b>]]> c"), ["a <b> c"]),
    ],
)  # fmt: skip
def test_a_paragraph_is_a_text_with_marks(content: str, source: list[str]) -> None:
    data = docx(paragraph(content))
    assert texts(read(data, "docx")) == source
    if "w:ruby" not in content and "CDATA" not in content:
        assert body(data, str) == paragraph(content)
        letters = re.compile(r"<[^<>]*>|&\w+;|[^\W\d_]|\u2011")
        assert letters.sub("", body(data)) == letters.sub("", content)


W15 = "http://schemas.microsoft.com/office/word/2012/wordml"
BINDING = '<w:dataBinding w:xpath="/a" w:storeItemID="{1}"/>'
CONTROL = f"<w:sdt><w:sdtPr><w:id w:val='1'/>{BINDING}<w:text/></w:sdtPr><w:sdtContent>%s</w:sdtContent></w:sdt>"


@pytest.mark.parametrize(
    "content",
    [
        paragraph(run("by ") + CONTROL % run("someone")),
        CONTROL % paragraph(run("An abstract")),
        CONTROL.replace("<w:dataBinding", f'<w15:dataBinding xmlns:w15="{W15}"') % paragraph(run("An abstract")),
        paragraph(f"<w:r><w:pict><w:txbxContent>{CONTROL % paragraph(run('A title'))}</w:txbxContent></w:pict></w:r>"),
    ],
)
def test_what_is_translated_is_not_replaced_by_the_data_that_a_control_is_bound_to(content: str) -> None:
    result = body(docx(content))
    assert "dataBinding" not in result
    assert "<w:text/></w:sdtPr>" in result and re.sub(r"<[^>]*>", "", result) == changed(
        re.sub(r"<[^>]*>", "", content)
    )


def test_a_control_without_text_stays_bound() -> None:
    assert BINDING in body(docx(paragraph(run("No. ") + CONTROL % run("12"))))


def test_white_space_at_the_edge_of_a_text_is_kept_by_word() -> None:
    data = docx(paragraph("<w:r><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r>"))
    result = body(data, lambda _: "one <g1>two</g1> three")
    assert '<w:t xml:space="preserve">one </w:t>' in result
    assert '<w:t xml:space="preserve"> three</w:t>' in result
    assert "<w:t>two</w:t>" in result


def test_what_a_model_does_to_marks_never_breaks_the_part() -> None:
    bookmarked = '<w:bookmarkStart w:id="1" w:name="b"/>' + run("of") + '<w:bookmarkEnd w:id="1"/>'
    data = docx(
        paragraph(run("one ") + LINK + run("two ", BOLD) + run("three") + "</w:hyperlink>" + bookmarked + run(" end"))
    )
    (source,) = texts(read(data, "docx"))
    assert source == "one <g1><g2>two </g2>three</g1><x3/>of<x4/> end"
    for broken in (
        "<x4/><g1>a</g1>b<x3/>",
        "</g1>a<g1>b",
        "<g1>a<g1>b</g1>",
        "a\x02" + "1\x03\x00\ud800\ufffe & < >",
        "<g2>a<g1>b</g2>c</g1><x3/><x3/>",
        "",
    ):
        result = body(data, lambda _, broken=broken: broken)
        assert result.count("<w:hyperlink ") == result.count("</w:hyperlink>") <= 1
        assert "bookmarkEnd" not in result or result.index("bookmarkStart") < result.index("bookmarkEnd")
    assert "&amp; &lt; &gt;" in body(data, lambda _: "& < >\x00")


_TEXTS = st.text(st.sampled_from("ab é&<\u2028."), max_size=6).map(
    lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
)
_LEAVES = st.one_of(
    st.builds(run, _TEXTS, st.sampled_from(["", BOLD, "<w:i/>", '<w:lang w:val="x"/>', "<w:vanish/>"])),
    st.sampled_from(
        [
            "<w:r><w:br/></w:r>", "<w:r><w:tab/><w:t>t</w:t></w:r>", "<w:r/>", "<w:r><w:t/></w:r>", "<w:proofErr/>\n",
            '<w:bookmarkStart w:id="1"/>', '<w:bookmarkEnd w:id="1"/>', BEGIN, SEPARATE, END, code("PAGE"), code("HYPERLINK"),
            "<w:r><w:noBreakHyphen/><w:softHyphen/></w:r>", "<!-- c -->", "<w:r><x:other>text</x:other></w:r>",
        ]
    ),
)  # fmt: skip
_CONTENT = st.recursive(
    st.lists(_LEAVES, max_size=5).map("".join),
    lambda inner: st.tuples(
        st.sampled_from(["w:hyperlink", "w:ins", "w:smartTag", "w:fldSimple"]), inner, inner
    ).map(lambda one: f"{one[1]}<{one[0]}>{one[1]}{one[2]}</{one[0]}>{one[2]}"),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(_CONTENT, min_size=1, max_size=3))
def test_the_identity_gives_the_same_bytes_and_no_letter_is_left(paragraphs: list[str]) -> None:
    data = docx("".join(map(paragraph, paragraphs)))
    content = read(data, "docx")
    kept = re.sub(r'<w:lang w:val="x"/>', '<w:lang w:val="el-GR"/>', "".join(map(paragraph, paragraphs)))
    assert body(data, str) == kept
    written = translated(data, content)
    again = read(written.data, "docx")
    assert [re.sub("[ab]", "", text) for text in texts(again)] == texts(again)
    assert [left.text for left in again.left] == [left.text for left in content.left]


def test_all_stories_are_read_and_the_main_part_may_have_any_name() -> None:
    data = docx(
        paragraph(run("Body one.")) + "<w:tbl><w:tr><w:tc>" + paragraph(run("Cell")) + "</w:tc></w:tr></w:tbl>",
        header=paragraph(run("Header"), "<w:r><w:tab/></w:r>", run("Right")),
        footnotes="<w:footnote>" + paragraph(run("Note")) + "</w:footnote>",
        comments="<w:comment>" + paragraph(run("Remark")) + "</w:comment>",
        styles='<w:docDefaults><w:lang w:val="en-US" w:eastAsia="zh-CN"/></w:docDefaults>',
    )
    content = read(data, "docx")
    places = [(unit.place, unit.block.text, unit.follows) for unit in content.units]
    assert places == [
        ("paragraph 1", "Body one.", False),
        ("paragraph 2", "Cell", True),
        ("header paragraph 1", "Header", False),
        ("header paragraph 1", "Right", True),
        ("footnotes paragraph 1", "Note", False),
    ]
    assert [(left.reason, left.text) for left in content.left] == [("comment", "Remark")]
    assert "Remark" in texts(read(data, "docx", comments=True))
    styles = translated(data, content).read("odd/styles.xml").decode()
    assert '<w:lang w:val="el-GR" w:eastAsia="zh-CN"/>' in styles
    assert (
        'w:val="en-US" w:eastAsia="ja-JP"' in translated(data, read(data, "docx", "ja")).read("odd/styles.xml").decode()
    )


def test_a_text_box_is_translated_once_and_written_in_both_copies() -> None:
    box = f"<w:txbxContent>{paragraph(run('In the box'))}</w:txbxContent>"
    drawing = (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:docPr id="1" descr="A dog"/>{box}</w:drawing>'
        f'</mc:Choice><mc:Fallback><w:pict><v:shape alt="A dog"><v:textpath string="WordArt"/>{box}</v:shape></w:pict>'
        "</mc:Fallback></mc:AlternateContent></w:r>"
    )
    data = docx(paragraph(run("Before "), drawing, run("and after.")))
    assert texts(read(data, "docx")) == ["Before <x1/>and after.", "A dog", "WordArt", "In the box"]
    assert body(data, str) == paragraph(run("Before "), drawing, run("and after."))
    result = body(data)
    assert result.count("λλ λλλ λλλ") == 2
    assert result.count('"λ λλλ"') == 2
    assert not re.search("dog|box|WordArt|after", result)


def test_direction_follows_the_language() -> None:
    from_left = paragraph(run("one")) + f"<w:p>{run('two')}</w:p>" + paragraph(run("12"))
    table = "<w:tbl><w:tblPr><w:tblStyle/><w:tblW/></w:tblPr></w:tbl>"
    result = body(docx(from_left + table), target="ar")
    assert result.startswith("<w:p><w:pPr><w:bidi/><w:jc w:val='left'/></w:pPr>")
    assert result.count("<w:bidi/>") == 2
    assert "<w:p><w:pPr><w:bidi/></w:pPr><w:r><w:rPr><w:rtl/></w:rPr><w:t" in result
    assert "<w:tblStyle/><w:bidiVisual/><w:tblW/>" in result
    bold = run("one", '<w:b/><w:lang w:val="de-DE"/>')
    marked = body(docx(f"<w:p>{bold}</w:p>"), target="ar")
    assert '<w:rPr><w:b/><w:rtl/><w:lang w:val="de-DE"/></w:rPr>' in marked
    from_right = result.replace("<w:rPr><w:rtl/></w:rPr>", "<w:rPr><w:b/><w:rtl/></w:rPr>")
    back = body(docx(from_right))
    assert not re.search("<w:(bidi|rtl|bidiVisual)/>", back)
    assert back.count('<w:bidi w:val="0"/>') == 2
    assert body(docx(from_right), target="he").count("<w:bidi/>") == 2
    assert body(docx(back), target="he").count('<w:bidi w:val="1"/>') == 2


def test_signatures_go_with_a_warning() -> None:
    data = office(
        {
            MAIN: ("wordprocessingml.document.main", docx_part()),
            "_xmlsignatures/origin.sigs": ("application/vnd.openxmlformats-package.digital-signature-origin", ""),
        },
        {"": {"officeDocument": MAIN, "origin1": "_xmlsignatures/origin.sigs"}},
    )
    content = read(data, "docx")
    written = translated(data, content)
    assert content.warnings
    assert not [name for name in written.names if "sig" in name]
    assert b"sig" not in written.read("[Content_Types].xml") + written.read("_rels/.rels")


def docx_part() -> str:
    return '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"><w:p><w:r><w:t>Strict</w:t></w:r></w:p></w:document>'


def test_strict_packages_are_read() -> None:
    assert texts(read(office({MAIN: ("wordprocessingml.document.main", docx_part())}), "docx")) == ["Strict"]


@pytest.mark.parametrize(
    "data, extension, message",
    [
        (docx(paragraph()), "pptx", "named as a pptx file, but it is a docx file"),
        (office({MAIN: ("spreadsheetml.sheet.main", docx_part())}), "docx", "but it is a xlsx file"),
        (office({MAIN: ("wordprocessingml.document.main", "<a><b></a>")}), "docx", "not read|well-formed"),
        (docx("<w:p>" * 1000), "docx", "odd/name.xml has elements more than 1000 deep"),
        (docx("</w:p>"), "docx", r"odd/name.xml is not well-formed XML at byte \d+"),
        (office({MAIN: ("wordprocessingml.document.main", "<!DOCTYPE a [<!ENTITY b 'c'>]>" + docx_part())}), "docx",
         "odd/name.xml has a document type declaration"),
        (b"PK\3\4", "docx", "no ZIP package"),
    ],
)  # fmt: skip
def test_other_files_are_refused_with_the_place(data: bytes, extension: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        read(data, extension)


@pytest.mark.parametrize("name", ["w:p", "w:hyperlink", "w:txbxContent", "w:sdtContent", "x:y"])
def test_depth_is_no_recursion(name: str) -> None:
    deep = f"<{name}>" * 900 + run("deep") + f"</{name}>" * 900
    data = docx(
        paragraph(
            run("text"), f"<w:r><w:pict>{deep}</w:pict></w:r>", deep, f"<w:r><w:rPr>{deep}</w:rPr><w:t>b</w:t></w:r>"
        )
    )
    assert "text" in texts(read(data, "docx"))[0]


def test_a_second_reader_opens_the_result() -> None:
    document = python_docx.Document()
    document.add_heading("A heading", 1)
    first = document.add_paragraph("Some ")
    first.add_run("bold").bold = True
    first.add_run(" text & more.")
    table = document.add_table(2, 2)
    table.cell(1, 1).text = "In a cell"
    document.sections[0].header.paragraphs[0].text = "In the header"
    document.core_properties.title = "The title"
    buffer = io.BytesIO()
    document.save(buffer)
    result = translated(buffer.getvalue(), read(buffer.getvalue(), "docx"))
    found = python_docx.Document(io.BytesIO(result.data))
    assert [one.text for one in found.paragraphs] == ["λ λλλλλλλ", "λλλλ λλλλ λλλλ & λλλλ."]
    assert [one.text for one in found.paragraphs[1].runs if one.bold] == ["λλλλ"]
    assert found.tables[0].cell(1, 1).text == "λλ λ λλλλ"
    assert found.sections[0].header.paragraphs[0].text == "λλ λλλ λλλλλλ"
    assert found.core_properties.title == "λλλ λλλλλ"


def test_text_boxes_in_text_boxes_are_written_as_deep_as_they_are_read() -> None:
    limit = sys.getrecursionlimit()
    opening = f"<w:p>{run('around it')}<w:r><w:pict><w:txbxContent>"
    data = docx(opening * 240 + paragraph(run("within")) + "</w:txbxContent></w:pict></w:r></w:p>" * 240)
    try:
        sys.setrecursionlimit(10 * DEEPEST)  # as the worker's process has it
        assert body(data).count("λλλλλλ λλ") == 240
    finally:
        sys.setrecursionlimit(limit)


def test_a_space_of_another_look_is_a_run_of_the_sources_own_text_alone() -> None:
    data = docx(paragraph(run("one"), run(" ", BOLD), run("two"), run(" ", BOLD), LINK, run("three"), "</w:hyperlink>"))
    content = read(data, "docx")
    assert texts(content) == ["one two <g1>three</g1>"]
    assert translated(data, content, str).data == data
    assert "w:b/" not in body(data)


LIST = (
    '<w:sdt><w:sdtPr><w:alias w:val="Name of it"/><w:dropDownList><w:listItem w:displayText="Choose one" w:value="0"/>'
    '<w:listItem w:displayText="First choice" w:value="first"/><w:listItem w:value="Bare"/></w:dropDownList></w:sdtPr>'
    "<w:sdtContent>{}</w:sdtContent></w:sdt>"
)
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:name w:val="Field1"/><w:helpText w:type="text" w:val="Help words"/>'
    '<w:statusText w:type="text" w:val="Status words"/><w:ddList><w:default w:val="1"/><w:listEntry w:val="Yes indeed"/>'
    '<w:listEntry w:val="No way"/></w:ddList></w:ffData></w:fldChar></w:r>'
)


@pytest.mark.parametrize(
    "content",
    [paragraph(run("Take "), LIST.format(run("First choice"))), LIST.format(paragraph(run("First choice")))],
    ids=["in a paragraph", "around one"],
)
def test_choices_of_a_list_are_text_and_what_they_stand_for_is_not(content: str) -> None:
    found = read(docx(content), "docx")
    assert {unit.block.text for unit in found.units} >= {"Choose one", "First choice"}
    assert ("value", "Bare") in [(left.reason, left.text) for left in found.left]
    result = body(docx(content))
    assert "Choose one" not in result and "First choice" not in result
    for kept in ('w:value="first"', 'w:value="Bare"', 'w:val="Name of it"'):
        assert kept in result
    assert result.count("λλλλλ λλλλλλ") == 2  # the list's and the one that is chosen


def test_what_form_fields_show_is_text() -> None:
    content = paragraph(run("Answer: "), FIELD, run("FORMDROPDOWN").replace("w:t", "w:instrText"), SEPARATE, END)
    found = texts(read(docx(content), "docx"))
    assert found == ["Answer:", "Help words", "Status words", "Yes indeed", "No way"]
    result = body(docx(content))
    assert not any(word in result for word in found) and 'w:name w:val="Field1"' in result
    long = body(docx(content), lambda text: "ä" * 300)
    assert sorted(map(len, re.findall("ä+", long))) == [50, 50, 138, 255, 300]


def test_the_text_of_a_numbering_is_text_with_its_numbers() -> None:
    def level(kind: str, text: str) -> str:
        return f'<w:lvl><w:numFmt w:val="{kind}"/><w:lvlText w:val="{text}"/></w:lvl>'

    levels = (
        level("decimal", "Chapter %1:") + level("bullet", "on") + level("decimal", "%1.%2.") + level("bullet", "\uf0b7")
    )
    data = docx(paragraph(run("Words")), numbering=f"<w:abstractNum>{levels}</w:abstractNum>")
    content = read(data, "docx")
    assert texts(content) == ["Words", "Chapter <x1/>:"]
    result = translated(data, content).read("odd/numbering.xml").decode()
    assert '"λλλλλλλ %1:"' in result and '"%1.%2."' in result and '"on"' in result


def test_tips_of_pictures_and_text_in_too_many_insertions_are_not_lost() -> None:
    picture = '<w:r><w:drawing><wp:docPr id="1"><a:hlinkClick tooltip="A tip here"/></wp:docPr></w:drawing></w:r>'
    assert texts(read(docx(paragraph(run("Words"), picture)), "docx")) == ["Words", "A tip here"]
    nested = run("deep words")
    for number in range(40):
        nested = f'<w:ins w:id="{number}">{nested}</w:ins>'
    content = read(docx(paragraph(run("Words "), nested)), "docx")
    assert [(left.reason, left.text) for left in content.left] == [("nested", "deep words")]


def test_the_looks_of_runs_in_many_insertions_are_those_of_the_source() -> None:
    runs = "".join(
        run(f"plain{n} ") + f'<w:ins w:id="{n}">{run(f"bold{n} ", BOLD)}{run("x")}</w:ins>' for n in range(80)
    )
    result = body(docx(paragraph(runs)))
    assert len(re.findall(f'<w:rPr>{BOLD}</w:rPr><w:t xml:space="preserve">λλλλ\\d+ </w:t>', result)) == 80
    assert result.count("<w:ins ") == result.count("</w:ins>") == 80


@pytest.mark.parametrize("name", ["word/media/a.png", "odd/name.xml"])
def test_a_package_with_a_damaged_entry_is_refused(name: str) -> None:
    data = docx(paragraph(run("Words")))
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as package:
        package.writestr("word/media/a.png", b"picture of words")
    data = bytearray(buffer.getvalue())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as package:
        entry = package.getinfo(name)
    at = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    data[at] ^= 0x55
    with pytest.raises(InvalidFile):
        read(bytes(data), "docx")


def test_a_package_has_no_two_parts_whose_names_differ_in_case_alone() -> None:
    """Programs take them for one part, and not all for the same."""
    names = ("odd/name.xml", "odd/Name.xml")
    data = office(dict.fromkeys(names, ("wordprocessingml.document.main", "<w:document/>")))
    with pytest.raises(InvalidFile, match="two entries have the name"):
        read(data, "docx")
