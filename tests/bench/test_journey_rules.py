from __future__ import annotations

from math import inf

import pytest

from dragoman_bench.bench.results import Results
from dragoman_bench.journey.evidence import BUSY_SHARE, PREEMPTIONS, RPS, At
from dragoman_bench.journey.rules import Judgement, Rule, both, bounded, differs, first_told, no_worse, ratio_within
from tests.bench.journeys import at_level, evidence, rates, repeat, results

LEFT, RIGHT = At("left", 25), At("right", 25)


def judged(rule: Rule, left: Results, right: Results | None = None) -> Judgement:
    return rule(evidence(left=left, **({"right": right} if right else {})))


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), "holds here"),
        ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), "does not hold here"),
        ((2.00, 2.01, 2.02), (2.01, 2.02, 2.03), "does not hold here"),  # equal, and a difference would have shown
        ((1.0, 2.0, 3.0), (1.5, 2.1, 3.5), "cannot be told"),  # equal, but anything could hide in such a spread
        ((1.0,), (2.0, 2.1, 2.2), "cannot be told"),  # measured once
    ],
)
def test_a_claimed_difference_must_show_beyond_the_spread(
    left: tuple[float, ...], right: tuple[float, ...], verdict: str
) -> None:
    assert judged(differs(LEFT, RIGHT, RPS, "lower"), rates(*left), rates(*right)).verdict == verdict


def test_a_difference_in_the_other_direction_is_asked_for_the_other_way_round() -> None:
    higher = differs(LEFT, RIGHT, RPS, "higher")
    assert judged(higher, rates(2.0, 2.1), rates(1.0, 1.1)).verdict == "holds here"
    assert judged(higher, rates(1.0, 1.1), rates(2.0, 2.1)).verdict == "does not hold here"


def test_what_was_not_measured_cannot_be_told_and_is_named() -> None:
    judgement = judged(differs(LEFT, RIGHT, RPS, "lower"), rates(1.0, 1.1))
    assert judgement == Judgement("cannot be told", "right at 25 clients: requests a second was not measured")


def test_a_judgement_carries_the_numbers_that_decided() -> None:
    because = judged(differs(LEFT, RIGHT, RPS, "lower"), rates(1.0, 1.2), rates(20.0, 22.0)).because
    assert "left at 25 clients 1.10 req/s (1.00..1.20)" in because
    assert "right at 25 clients 21.0 req/s (20.0..22.0)" in because


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ((2.0, 2.1), (1.0, 1.1), "holds here"),
        ((2.00, 2.01), (2.01, 2.02), "holds here"),
        ((1.0, 1.1), (2.0, 2.1), "does not hold here"),
        ((1.0, 3.0), (1.0, 3.1), "cannot be told"),
    ],
)
def test_no_worse_is_content_with_equal(left: tuple[float, ...], right: tuple[float, ...], verdict: str) -> None:
    assert judged(no_worse(LEFT, RIGHT, RPS), rates(*left), rates(*right)).verdict == verdict


@pytest.mark.parametrize(
    ("left", "verdict"),
    [
        ((2.6, 2.7, 2.8), "holds here"),
        ((6.0, 6.1, 6.2), "does not hold here"),
        ((1.0, 1.1, 1.2), "does not hold here"),
        ((1.9, 2.7, 2.8), "cannot be told"),  # its range leaves the claimed one
    ],
)
def test_a_ratio_is_judged_by_its_whole_range(left: tuple[float, ...], verdict: str) -> None:
    rule = ratio_within(LEFT, RIGHT, RPS, 2.0, 3.5)
    assert judged(rule, rates(*left), rates(1.0, 1.0, 1.0)).verdict == verdict


def test_a_ratio_over_nothing_cannot_be_told() -> None:
    assert judged(ratio_within(LEFT, RIGHT, RPS, 2.0, inf), rates(1, 1), rates(0, 0)).verdict == "cannot be told"


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.5, 0.6), "holds here"),
        ((0.96, 1.0), "does not hold here"),
        ((0.92, 0.93), "cannot be told"),
        ((0.5, 0.99), "cannot be told"),
        ((0.5,), "cannot be told"),
        ((None, None), "cannot be told"),
    ],
)
def test_a_bound_must_be_kept_by_every_repeat(shares: tuple[float | None, ...], verdict: str) -> None:
    found = results(at_level(25, [repeat(engine_busy_share=share) for share in shares]))
    assert judged(bounded(LEFT, BUSY_SHARE, holds=(0, 0.9), fails=(0.95, inf)), found).verdict == verdict


def fixed(verdict: str) -> Rule:
    return lambda _: Judgement(verdict, verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("holds here", "holds here", "holds here"),
        ("holds here", "does not hold here", "does not hold here"),
        ("cannot be told", "does not hold here", "does not hold here"),
        ("holds here", "cannot be told", "cannot be told"),
    ],
)
def test_two_conditions_hold_together_or_not_at_all(first: str, second: str, verdict: str) -> None:
    judgement = both(fixed(first), fixed(second))(evidence())
    assert judgement == Judgement(verdict, f"{first}; {second}")  # type: ignore[arg-type]


def test_the_first_rule_that_tells_decides() -> None:
    told = first_told(fixed("cannot be told"), fixed("holds here"), fixed("does not hold here"))
    assert told(evidence()).verdict == "holds here"
    assert first_told(fixed("cannot be told"))(evidence()).verdict == "cannot be told"


def test_a_metric_that_some_repeats_lack_is_not_judged_on_the_others() -> None:
    found = results(at_level(25, [repeat(preemptions=0), repeat(preemptions=None), repeat(preemptions=0)]))
    assert judged(bounded(LEFT, PREEMPTIONS, holds=(0, 0), fails=(1, inf)), found).verdict == "cannot be told"


def test_too_few_answers_prove_nothing() -> None:
    few = results(at_level(25, [repeat(rps=1.0, window_s=8.0), repeat(rps=1.0, window_s=30.0)]))
    many = rates(20.0, 20.1)
    judgement = judged(differs(LEFT, RIGHT, RPS, "lower"), few, many)
    assert judgement == Judgement("cannot be told", "left at 25 clients: only 8 answers came within a measurement")
    assert judged(differs(RIGHT, LEFT, RPS, "lower"), few, many).verdict == "cannot be told"
    assert judged(bounded(LEFT, RPS, holds=(0, 5), fails=(6, 9)), few).verdict == "cannot be told"
