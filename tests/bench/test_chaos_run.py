"""Results of `make chaos`: what is counted, how a file is continued, and the page that shows them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.chaos.ledger import FAULTY, VERDICTS, Verdict
from dragoman_bench.chaos.run import has_failed, next_seed, shown_in, table
from tests.processes import ROOT

PUBLISHED = Measurement.read(ROOT / "results" / "chaos.json")


def results_of(**counts: int) -> Measurement:
    counts = {**dict.fromkeys(VERDICTS, 0), "right": 12, **counts}
    run = {"stage": "one", "seed": 1, "seconds": 60.0, "interrupted": False, **counts}
    faults: dict[str, dict[str, Any]] = {"one: engine killed": {"recovered_s": [2.0, 5.0, 3.0], "codes": {}, **counts}}
    return Measurement("chaos", PUBLISHED.conditions, {"runs": [run], "faults": faults, "findings": []})


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_run_has_failed_if_anything_is_lost_doubled_or_wrong(verdict: Verdict) -> None:
    assert has_failed(results_of(**{verdict: 1})) == (verdict in FAULTY)


def test_a_row_has_the_counts_and_the_median_and_the_worst_recovery() -> None:
    [row] = table(results_of(refused=3, lost=1, wrong=1, mixed_up=1)).rows
    assert [cell.text for cell in row.cells][1:] == [
        *("engine killed", "3", "18", "12", "3", "0", "0", "1", "0", "2"),
        *("3.0", "5.0"),
    ]


def test_a_file_is_continued_with_another_seed() -> None:
    assert next_seed(Measurement("chaos", {}), 7) == 7
    assert next_seed(results_of(), 7) == 8


def test_the_page_shows_the_published_results() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert shown_in(page, PUBLISHED) == page, "run make results"
    assert not has_failed(PUBLISHED)
