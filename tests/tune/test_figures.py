"""Numbers and sentences as they are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.tune.figures import course, figures, ranged, sentence, size, spread, standing_told
from dragoman_bench.tune.points import Level
from tests.tune.telling import FINAL, WHOLE, seen, stopped

REPEATS = (seen(Level(4), 9.0, 1.0), seen(Level(4), 10.0, 1.2, 1), seen(Level(4), 12.0, 1.1, 2))


def test_a_spread_is_told_with_its_range_and_once_measured_without() -> None:
    assert ranged(spread(REPEATS, lambda one: one.rps)) == "10.0 (9.00..12.0)"
    assert ranged(spread(REPEATS[:1], lambda one: one.rps), 1, " a second") == "9.00 a second"


def test_a_number_that_one_repeat_lacks_is_not_told() -> None:
    holed = (*REPEATS, replace(REPEATS[0], ttft_p95_s=None))
    assert spread(holed, lambda one: one.ttft_p95_s) is None
    assert ranged(None) == "–"


@pytest.mark.parametrize(("value", "told"), [(512, "512 B"), (144 * 1024, "144 KiB"), (-3 * 2**29, "-1.5 GiB")])
def test_sizes(value: float, told: str) -> None:
    assert size(value) == told


def test_a_sentence_ends_and_names_keep_their_spelling() -> None:
    assert sentence("the knee") == "The knee."
    assert sentence("vLLM's defaults!") == "vLLM's defaults!"
    assert sentence("") == ""


def test_the_course_counts_starts_and_skipped_points() -> None:
    assert course(WHOLE) == (
        "6 engine starts for the search, 1 point skipped with a reason, it took about 22 min, "
        "about 25 min had been estimated."
    )
    assert course(stopped()) == "1 engine start for the search, about 15 min had been estimated."


def test_a_contender_without_numbers_says_why() -> None:
    assert standing_told(FINAL.standings[3], "goodput_rps") == "ValueError: no room for it beside the others"
    assert standing_told(FINAL.standings[0], "rps") == "throughput 34.1 (33.6..34.4) req/s, p95 1.21 s"


def test_an_unfinished_tune_says_so() -> None:
    assert any("Not finished (Ctrl-C)" in line for line in figures(stopped()))
    assert not any("Not finished" in line for line in figures(WHOLE))
