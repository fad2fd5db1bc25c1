"""A tune's outcome as Markdown."""

from __future__ import annotations

from dataclasses import replace

from dragoman_bench.tune.markdown import markdown, remarks, summary
from dragoman_bench.tune.points import Trial
from tests.tune.telling import MEMORY, RECOMMENDATION, TRIALS, WHOLE, stopped


def test_it_has_every_part() -> None:
    text = markdown(WHOLE)
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "What to serve with", "The ladder", "Every point of the search", "Memory", "The final", "To bear in mind",
    ]  # fmt: skip
    assert RECOMMENDATION.headline in text and RECOMMENDATION.because in text
    assert all(f"| {trial.name}" in text for trial in TRIALS)
    assert "16 **(knee)**" in text


def test_tables_have_as_many_cells_as_columns() -> None:
    for tuning in (WHOLE, stopped()):
        for block in markdown(tuning).split("\n\n"):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") - line.count("\\|") for line in rows}) <= 1


def test_marks_in_reasons_do_not_break_the_table() -> None:
    trial = replace(TRIALS[4], reason="a | b\n<script> *c*")
    text = markdown(replace(WHOLE, trials=(trial,)))
    assert " \\| b \\<script> \\*c\\*" in text


def test_an_unfinished_tune_says_so_and_what_was_reached() -> None:
    assert summary(stopped()) == "Not finished (Ctrl-C); the ladder's knee is at 8 requests at once."
    text = markdown(stopped())
    assert "## The ladder" in text and "## The final" not in text and "## Memory" not in text
    assert "; nothing was measured." in summary(replace(stopped(), ladder=None))


def test_a_tune_in_which_nothing_started_says_why() -> None:
    failed = Trial("ladder", "ladder", TRIALS[0].setup, "the ladder", "did_not_start", "ValueError: no such model")
    dead = replace(WHOLE, recommendation=None, finding=None, final=None, ladder=None, trials=(failed,))
    told = "Nothing can be recommended, as nothing was measured: ladder did not start: ValueError: no such model."
    assert summary(dead) == told
    assert "## What to serve with" not in markdown(dead) and "ValueError" in markdown(dead)


def test_what_would_mislead_is_said() -> None:
    assert list(remarks(WHOLE)) == list(RECOMMENDATION.caveats)
    assert WHOLE.finding is not None
    unheld = replace(WHOLE, finding=replace(WHOLE.finding, memory=replace(MEMORY, checked="did not hold")))
    assert any("did not hold" in remark for remark in remarks(unheld))
    assert any("a ratio" in remark for remark in remarks(stopped()))
