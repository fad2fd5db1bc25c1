"""Pages of Markdown files are compared by what a translation must keep, and the list of files is what it has to be."""

from __future__ import annotations

import pytest
from benchmarks.markdown_files import HALVES, difference, listed, structure

PAGE = '<h2 id="made">Words</h2><p>See <a href="a.html" title="Words">more</a> &copy; 3 <code>x</code> {{ a }}</p>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("Words", "Ⓦⓞⓡⓓⓢ".lower()),
        ("made", "dame"),
        ('title="Words"', 'title="ⓦords"'),
    ],
)
def test_letters_and_ids_of_headings_do_not_count(before: str, after: str) -> None:
    assert difference(structure(PAGE, "").parts, structure(PAGE.replace(before, after), "").parts) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a.html", "b.html"),
        ("See", "\\See"),
        ("<code>x</code>", "<code>y</code>"),
        ("{{ a }}", "{{ b }}"),
        ("<h2", "<h3"),
        (" 3 ", " 4 "),
    ],
)
def test_what_a_reader_sees_of_a_broken_notation_counts(before: str, after: str) -> None:
    assert difference(structure(PAGE, "").parts, structure(PAGE.replace(before, after), "").parts)


def test_an_id_that_the_source_names_counts() -> None:
    assert difference(
        structure(PAGE, "## Words {#made}").parts, structure(PAGE.replace("made", "dame"), "## Words {#made}").parts
    )


def test_the_list_has_two_halves_of_files_of_all_tools() -> None:
    files = listed()
    assert len({file.repository for file in files}) >= 10
    for half in HALVES:
        of_half = [file for file in files if file.half == half]
        assert len(of_half) >= 300
        assert len({file.tool for file in of_half}) == 8
