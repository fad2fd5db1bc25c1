from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.workload import Item
from dragoman_bench.tune.demand import Demand, PromptShape, counted, expected_outputs, parse_clients
from dragoman_bench.tune.outcome import Levels
from tests.tune.lab import demand


def of(*lengths: tuple[int, int], shape: PromptShape | None = None, peak: int = 4) -> Demand:
    """From pairs of source and output tokens."""
    items = tuple(Item("x", "en", "ja", source) for source, _ in lengths)
    return Demand("ours", items, tuple(o for _, o in lengths), Levels(1, 2, peak), shape or PromptShape(10), {})


@pytest.mark.parametrize(("text", "expected"), [("2-25", (2, 25, 25)), ("8", (8, 8, 8)), ("1-1", (1, 1, 1))])
def test_stated_clients_are_levels(text: str, expected: tuple[int, int, int]) -> None:
    assert parse_clients(text) == Levels(*expected, stated=True)


@pytest.mark.parametrize("text", ["", "0", "-3", "25-2", "2-", "a-b", "2-3-4", "1.5"])
def test_what_is_no_range_of_clients_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not like 2-25"):
        parse_clients(text)


def test_counted_concurrency_gives_median_95th_percentile_and_maximum() -> None:
    assert counted([*range(1, 101)]) == Levels(50, 95, 100)
    assert counted([3]) == Levels(3, 3, 3)


def test_a_text_takes_its_prompt_and_its_output() -> None:
    assert of((20, 30), (50, 40)).totals == [60, 100]


def test_a_text_that_is_cut_takes_a_prompt_for_each_piece() -> None:
    cut = of((20, 30), (500, 400), shape=PromptShape(10, piece_tokens=200))

    assert cut.totals == [60, 930]
    assert cut.sequences(1) == 3
    assert of((20, 30)).sequences(25) == 25


def test_peak_tokens_lie_between_the_mean_and_the_worst_case() -> None:
    several = demand((2, 25, 25), long=(6, 1500))
    mean = sum(several.totals) / len(several.totals)

    peak, summary = several.peak_tokens(25), several.summary()

    assert 25 * mean < peak < summary.peak_tokens_worst
    assert summary.peak_tokens_drawn == peak
    assert summary.peak_tokens_worst == 25 * summary.longest_sequence


def test_a_few_very_long_texts_show_in_the_peak_of_the_draws() -> None:
    assert demand(long=(6, 1500)).peak_tokens(25) > demand().peak_tokens(25) + 1500


def test_the_same_demand_gives_the_same_draws() -> None:
    assert demand().peak_tokens(25) == demand().peak_tokens(25)


def test_what_is_held_while_served_is_less_than_everything_at_its_full_length() -> None:
    ours = demand()
    tail = sorted(ours.totals)[-60:]

    assert sum(ours.totals) / 600 * 20 < ours.long_tokens(38) < 38 * max(tail)
    assert of((100, 100)).long_tokens(1) <= 210


def test_recorded_outputs_are_kept_and_missing_ones_follow_their_ratio() -> None:
    items = [Item("a", "en", "ja", 100, None, 200), Item("b", "en", "ja", 50), Item("c", "en", "ja", 1)]

    assert expected_outputs(items) == ((200, 100, 2), False)


def test_without_any_recorded_output_a_ratio_stands_in_until_one_is_measured() -> None:
    outputs, estimated = expected_outputs([Item("a", "en", "ja", 100)])
    assert (outputs, estimated) == ((150,), True)

    guessed = Demand("ours", (Item("a", "en", "ja", 100),), outputs, Levels(1, 1, 1), PromptShape(), {}, 0, True)
    assert guessed.with_output_ratio(0.8).outputs == (80,)
    assert of((100, 130)).with_output_ratio(0.8).outputs == (130,)


def test_the_summary_tells_lengths_by_observed_percentiles() -> None:
    found = of(*((tokens, 2 * tokens) for tokens in range(1, 101))).summary()

    assert (found.source.p50, found.source.p95, found.source.p99, found.source.longest) == (50, 95, 99, 100)
    assert found.output is not None
    assert found.output.p50 == 100
    assert found.longest_sequence == 310
