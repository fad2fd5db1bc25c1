"""What marks look like, from the notations of formats."""

from __future__ import annotations

import pytest

from tests.wholetext.office import docx, read, run
from wholetext.files import formats
from wholetext.files.content import ReadOptions
from wholetext.markup.looks import looks
from wholetext.markup.marks import Mark


@pytest.mark.parametrize(
    ("opening", "look"),
    [
        ("<b>", "bold"),
        ("<STRONG>", "bold"),
        ('<em class="x">', "italic"),
        ("<a href='https://example.org/?a=1&gt;'>", "link"),
        ("<span style='color: red; font-weight: 700'>", "bold"),
        ('<span style="text-decoration: underline line-through">', "underline strike"),
        ('<span class="x">', ""),
        ("<br/>", "break"),
        ('<w:rPr><w:b/><w:i w:val="0"/><w:u w:val="single"/></w:rPr>', "bold underline"),
        ('<w:rPr><w:vertAlign w:val="subscript"/></w:rPr>', "subscript"),
        ('<a:rPr lang="en" b="1" i="0" u="none" baseline="30000"/>', "bold superscript"),
        ('<a:rPr baseline="-25000"/>', "subscript"),
        ("**", "bold"),
        ("***", "bold italic"),
        ("[", "link"),
        (":::", ""),
        ("<" * 5_000, ""),
        ("<b " + "x='" * 5_000, ""),
    ],
)
def test_the_look_of_a_mark_is_read_from_its_notation(opening: str, look: str) -> None:
    assert looks([Mark("<x>"), Mark(opening)]) == ({"2": look} if look else {})


@pytest.mark.parametrize(
    ("opening", "look"),
    [("`code`", "=code"), ("{name}", "={name}"), ("<code>q</code>", "=q"), ("x" * 90, "=" + "x" * 60)],
)
def test_what_is_kept_is_shown(opening: str, look: str) -> None:
    assert looks([Mark(opening, word=True)]) == {"1": look}


def test_marks_of_office_files_know_their_look() -> None:
    run_of = "<w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r>"
    body = (
        f"<w:p>{run('The ')}{run_of.format('<w:b/>', 'train')}{run(' and ')}{run_of.format('<w:i/><w:strike/>', 'bus')}"
    )
    body += f"{run(' leave')}<w:r><w:br/></w:r>{run('soon')}</w:p>"
    [unit] = read(docx(body), "docx").units
    assert unit.block.text == "The <g1>train</g1> and <g2>bus</g2> leave<x3/>soon"
    assert looks(unit.block.marks) == {"1": "bold", "2": "italic strike", "3": "break"}


def test_marks_of_markdown_and_html_know_their_look() -> None:
    for extension, data in (
        ("md", b"A **b** and [c](d) *e*\n"),
        ("html", b"<p>A <b>b</b> and <a href=d>c</a> <i>e</i></p>"),
    ):
        [unit] = formats.read(data, ReadOptions(extension, "de")).units
        assert looks(unit.block.marks) == {"1": "bold", "2": "link", "3": "italic"}
