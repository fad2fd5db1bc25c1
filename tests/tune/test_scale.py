from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman_bench.bench.results import Verdict
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.points import Level, Seen
from dragoman_bench.tune.scale import Scale, attains

SLO = parse_slo("p95_s=2,itl_ms_p95=40")
RATE = Scale(None, "rps")
GOODPUT = Scale(SLO, "goodput_rps")


def seen(
    rps: float = 10.0, *, p95_s: float | None = 1.0, itl_s: float = 0.02, goodput: float | None = None, **other: Any
) -> Seen:
    verdicts = (
        Verdict("e2e p95 ≤ 2 s", p95_s, p95_s is not None and p95_s <= 2),
        Verdict("itl p95 ≤ 40 ms", itl_s, itl_s <= 0.04),
    )
    met = all(verdict.met for verdict in verdicts)
    fields: dict[str, Any] = {"window_s": 20.0, "requests": 200, "completed": 200, "failed": 0, "slo_met": met}
    return Seen(Level(25), 0, rps=rps, goodput_rps=rps, verdicts=verdicts, **(fields | other))


def rates(*values: float) -> tuple[Seen, ...]:
    return tuple(seen(value) for value in values)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((10.0,), (10.9,), "equal"),
        ((10.0,), (11.5,), "lower"),
        ((10.0, 10.4, 10.2), (11.0, 11.1, 10.9), "lower"),
        ((10.0, 11.0, 10.5), (11.0, 11.2, 11.4), "equal"),
        ((12.0, 12.1, 12.2), (10.0, 10.1, 10.2), "higher"),
    ],
)
def test_rates_differ_beyond_the_spread_of_their_repeats(
    left: tuple[float, ...], right: tuple[float, ...], expected: str
) -> None:
    assert RATE.compare(rates(*left), rates(*right)) == expected


def test_repeats_that_agree_by_counting_few_answers_have_a_spread_all_the_same() -> None:
    few = [seen(rate, window_s=8.0) for rate in (4.5, 4.5, 4.5)]
    fewer = [seen(rate, window_s=8.0) for rate in (4.375, 4.375, 4.375)]
    much_fewer = [seen(rate, window_s=8.0) for rate in (4.0, 4.0, 4.0)]

    assert RATE.compare(few, fewer) == "equal"
    assert RATE.compare(few, much_fewer) == "higher"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((24.0, 18.8, 25.6), (20.8, 14.9, 11.4), "higher"),
        ((20.8, 14.9, 11.4), (24.0, 18.8, 25.6), "lower"),
        ((24.0, 18.8, 25.6), (20.8, 24.8, 24.5), "equal"),
        ((10.05, 20.05, 30.05), (10.02, 20.02, 30.02), "equal"),  # by less than one answer in 20 s
        ((20.5, 25.0, 15.3), (20.0, 24.4, 14.9), "equal"),  # by less than is worth a setting
        ((24.0, 18.8), (20.8, 14.9), "equal"),  # two rounds prove nothing
    ],
)
def test_who_is_ahead_in_every_round_is_ahead_however_far_apart_the_rounds_lie(
    left: tuple[float, ...], right: tuple[float, ...], expected: str
) -> None:
    ours, theirs = ([replace(seen(v), repeat=n) for n, v in enumerate(values)] for values in (left, right))
    assert RATE.compare(ours, theirs) == "equal"
    assert RATE.compare_rounds(ours, theirs) == expected


def test_goodput_decides_only_where_somebody_attains_the_slo() -> None:
    met, missed = [seen()], [seen(p95_s=5.0)]

    assert Scale.over(SLO, [missed, met]).metric == "goodput_rps"
    assert Scale.over(SLO, [missed, missed]).metric == "rps"
    assert Scale.over(None, [met]).metric == "rps"


def test_an_slo_that_one_attains_and_the_other_breaks_decides_before_any_rate() -> None:
    assert GOODPUT.compare([seen(10.0)], [seen(20.0, p95_s=3.0)]) == "higher"
    assert GOODPUT.compare([seen(20.0, itl_s=0.08)], [seen(10.0)]) == "lower"
    assert RATE.compare([seen(10.0)], [seen(20.0, p95_s=3.0)]) == "lower"


@pytest.mark.parametrize(
    ("measured_s", "broken"),
    [((2.1,), False), ((2.3,), True), ((2.1, 1.9, 2.1), False), ((2.1, 2.05, 2.2), True), ((None,), True)],
)
def test_an_slo_is_broken_beyond_the_noise(measured_s: tuple[float | None, ...], broken: bool) -> None:
    repeats = [seen(p95_s=one) for one in measured_s]

    assert bool(GOODPUT.broken(repeats)) == broken


def test_a_limit_that_is_missed_is_named_with_what_was_measured() -> None:
    assert GOODPUT.broken([seen(itl_s=0.061)]) == "itl p95 ≤ 40 ms: 61.0 ms"
    assert GOODPUT.broken([seen(p95_s=None)]) == "e2e p95 ≤ 2 s: too many failed"
    assert GOODPUT.told([seen(8.0, itl_s=0.061)]) == "goodput 8.00 req/s (misses itl p95 ≤ 40 ms: 61.0 ms)"
    assert RATE.told(rates(8.0, 9.0)) == "requests 8.50 (8.00..9.00) req/s"


def test_one_miss_by_little_is_doubtful_and_three_are_not() -> None:
    assert GOODPUT.doubtful([seen(p95_s=2.1)])
    assert not GOODPUT.doubtful([seen(p95_s=2.5)])
    assert not GOODPUT.doubtful([seen(p95_s=1.0)])
    assert not GOODPUT.doubtful([seen(p95_s=2.1)] * 3)


def test_an_slo_is_attained_where_most_repeats_meet_it() -> None:
    assert attains([seen(), seen(), seen(p95_s=3.0)])
    assert not attains([seen(), seen(p95_s=3.0)])
    assert not attains([])


def test_two_lie_close_within_what_stands_for_an_unknown_spread() -> None:
    assert RATE.close(rates(10.0), rates(9.1))
    assert not RATE.close(rates(10.0), rates(8.9))
