"""The check of words: what it finds, what it leaves alone, and that the tree is clean."""
# words: off

from __future__ import annotations

import pytest
from scripts.check_words import ROOT, Checker, Term, WordList, without_examples

CHECKER = Checker(
    WordList(terms=(Term(("told", "lab"), "reported"), Term(("at once",), "immediately", (r"\d+\s+at\s+once",))))
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it was told", ["told"]),
        ("Told TOLD", ["Told", "TOLD"]),
        ("was_told(told_by, toldBy, isTold2, TOLD_BY)", ["told", "told", "told", "Told", "TOLD"]),
        ("label, collaborate, slab, untold", []),
        ("class LabRunner: _lab = SimulatedLab()", ["Lab", "lab", "Lab"]),
        ("it returns at\n    # once", ["at once"]),
        ("25 at once, and then at once", ["at once"]),
    ],
)
def test_words_are_found_whole_and_in_identifiers(text: str, words: list[str]) -> None:
    assert [finding.word for finding in CHECKER.findings("a.py", text)] == words


def test_file_names_and_lines_are_reported() -> None:
    found = list(CHECKER.findings("tests/lab.py", "\n\nx = 1  # told\n"))
    assert [(finding.line, finding.word) for finding in found] == [(0, "lab"), (3, "told")]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.py", 'x = "I told you."  # words: example'),
        ("a.py", "# words: off\ntold\n# words: on"),
        ("a.html", "<!-- words: off -->told<!-- words: on -->"),
        ("a.md", "```\ntold\n```\n"),
    ],
)
def test_quoted_examples_are_left_alone(file: str, text: str) -> None:
    assert not list(CHECKER.findings(file, text))
    assert without_examples(file, text).count("\n") == text.count("\n")


def test_every_term_of_the_list_is_found() -> None:
    words = WordList.read()
    checker = Checker(words)
    for term in words.terms:
        for form in term.words:
            assert list(checker.findings("a.py", f"x {form} y")), form


def test_the_tree_holds_none_of_the_words() -> None:
    assert not [str(finding) for finding in Checker(WordList.read()).tree(ROOT, [])]
