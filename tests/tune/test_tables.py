"""The tables of a tune: what each row says, and that nothing is left out that was tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.tune import tables
from dragoman_bench.tune.columns import LADDER, SHORT_LADDER
from dragoman_bench.tune.points import Seen
from dragoman_bench.tune.tables import Row, Table
from tests.tune.telling import FINAL, MEMORY, RECOMMENDATION, TRIALS, WHOLE, stopped
from tests.tune.telling import LADDER as CLIMB


def cells(table: Table, row: Row) -> dict[str, str]:
    return {name: f"{cell.text} {cell.detail}".strip() for name, cell in zip(table.columns[1:], row.cells, strict=True)}


def row_of(table: Table, head: str) -> Row:
    return next(row for row in table.rows if row.head == head)


def test_the_ladder_has_a_row_a_cap_and_marks_the_knee() -> None:
    table = tables.ladder(CLIMB)
    assert [row.head for row in table.rows] == ["1", "2", "4", "8", "16", "25", "32"]
    assert [row.head for row in table.rows if row.marked] == ["16"]
    assert row_of(table, "16").flags == ("knee",) and row_of(table, "25").flags == ("best median",)
    told = cells(table, row_of(table, "16"))
    assert told["goodput req/s"] == "34.0 [33.5..34.4]"
    assert told["decode ms per token"] == "4.98 [4.94..5.02]"
    assert told["KV cache peak"] == "2.56%" and told["waiting at most"] == "2" and told["preempted"] == "0"
    assert told["against the one below"] == "higher"
    assert cells(table, row_of(table, "4"))["SLO"] == "missed e2e p95 ≤ 2 s"


def test_a_rung_that_was_skipped_says_why() -> None:
    row = row_of(tables.ladder(CLIMB), "32")
    assert row.note == "skipped: 25 clients never have more than 25 requests at once" and not row.cells


def test_columns_that_nobody_has_numbers_for_are_left_out() -> None:
    ladder = stopped().ladder
    assert ladder is not None
    columns = tables.ladder(ladder).columns
    assert not {"goodput req/s", "SLO", "GPU mean"} & set(columns) and {"req/s", "p95 s"} <= set(columns)
    assert len(tables.ladder(CLIMB, SHORT_LADDER).columns) < len(tables.ladder(CLIMB, LADDER).columns)


def test_every_trial_is_told_with_its_outcome_and_reason() -> None:
    table = tables.trials(WHOLE)
    assert table is not None
    assert [row.head for row in table.rows] == [trial.name for trial in TRIALS]
    outcomes = {row.head: cells(table, row)["outcome"] for row in table.rows if row.cells}
    assert outcomes["fp8"] == "did not start"
    assert outcomes["memory-0.08"] == "failed under load" and outcomes["memory-0.09"] == "measured"
    assert cells(table, row_of(table, "memory-0.08"))["preempted"] == "14"
    for trial in TRIALS:
        row = row_of(table, trial.name)
        assert trial.reason[1:] in (row.note or cells(table, row)["why"])
    assert row_of(table, "batched-16384").note.startswith(
        "skipped: max_num_seqs 16, max_num_batched_tokens 16384. No step"
    )
    assert [row.head for row in table.rows if row.marked] == ["slots-16"]


def test_a_trial_names_only_what_it_changes() -> None:
    table = tables.trials(WHOLE)
    assert table is not None
    told = {row.head: cells(table, row)["what was set"] for row in table.rows if row.cells}
    assert told["ladder"].startswith("max_num_seqs 64, max_num_batched_tokens 8192")
    assert told["batched-4096"] == "max_num_seqs 16, max_num_batched_tokens 4096"
    assert told["fp8"] == "max_num_seqs 16, quantization fp8"


def test_the_ladders_numbers_in_the_search_are_those_of_its_knee() -> None:
    table = tables.trials(WHOLE)
    assert table is not None
    assert cells(table, row_of(table, "ladder"))["goodput req/s"] == "34.0 [33.5..34.4]"


def test_a_trial_that_was_told_twice_is_in_it_once() -> None:
    again = replace(TRIALS[-1], outcome="failed_under_load", reason="it died")
    table = tables.trials(replace(WHOLE, trials=(*TRIALS, again)))
    assert table is not None and len(table.rows) == len(TRIALS)
    assert cells(table, row_of(table, again.name))["outcome"] == "failed under load"


def test_the_final_compares_and_says_who_did_not_start() -> None:
    table = tables.final(WHOLE, FINAL)
    assert [row.head for row in table.rows if row.marked] == ["what the search found"]
    against = {row.head: cells(table, row)["the finalist against it"] for row in table.rows if row.cells}
    assert against["vLLM's embedder defaults"].startswith("equal within the spread 33.9 [33.0..34.0]")
    assert against["`vllm serve`, its own defaults"] == "better 31.0 [30.8..31.2] against 34.1 [33.6..34.4]."
    assert cells(table, table.rows[0])["p95 s, 4 clients"] == "0.400"
    assert "no room for it beside the others" in table.rows[3].note and not table.rows[3].cells


def test_memory_is_told_with_what_it_was_computed_from() -> None:
    told = {row.head: row.cells[0].text for row in tables.memory(WHOLE, MEMORY).rows}
    assert told["tokens that are needed"] == "7,420" and told["with the margin"] == "9,275 (1.25 times)"
    assert told["gpu_memory_utilization"] == "0.09" and told["against the measured server"] == "27.85 GiB less"
    assert told["checked under more than the peak load"] == "held (memory-0.09; before it memory-0.08)"
    assert told["memory-0.08 under that load"].endswith("the cache 100% full at most, 14 preemptions, 0 failed")
    assert told["memory-0.09 under that load"].startswith("47 clients, long texts: 396 requests, the cache 62% full")
    unknown = replace(MEMORY, value=None, saved_bytes=-(2**30), trials=())
    told = {row.head: row.cells[0].text for row in tables.memory(WHOLE, unknown).rows}
    assert told["gpu_memory_utilization"].startswith("left as it is")
    assert told["against the measured server"] == "1 GiB more"


@pytest.mark.parametrize(
    ("met", "told"), [((True, True), "met"), ((False, True), "met in 1 of 2"), ((False,), "missed")]
)
def test_an_slo_is_met_in_all_repeats_or_it_is_said_in_how_many(met: tuple[bool, ...], told: str) -> None:
    some: Seen = CLIMB.rungs[0].seen[0]
    read = dict(LADDER)["SLO"]
    assert read([replace(some, slo_met=one, verdicts=()) for one in met]).text == told


def test_harm_is_summed_over_repeats_and_marked() -> None:
    some = CLIMB.rungs[0].seen[0]
    cell = dict(LADDER)["preempted"]([replace(some, preemptions=2), replace(some, preemptions=3)])
    assert (cell.text, cell.tone) == ("5", "bad")


def test_a_baseline_that_is_recommended_is_the_one_that_is_marked() -> None:
    simpler = replace(WHOLE, recommendation=replace(RECOMMENDATION, contender="embedder"))
    marked = [row for row in tables.final(simpler, FINAL).rows if row.marked]
    assert [(row.head, row.flags) for row in marked] == [("vLLM's embedder defaults", ("recommended",))]
