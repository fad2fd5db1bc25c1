"""Verdicts: the rules, each claim on made-up numbers, and the story's table."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_bench.bench.results import RequestRecord, Results
from dragoman_bench.journey.claims import (
    BUSY_SHARE,
    PREEMPTIONS,
    RPS,
    At,
    Claim,
    Criterion,
    judge_all,
    quarter_p50_s,
    s_per_token,
    short_to_long,
)
from tests.bench.journeys import at_level, of_legs, rates, repeat, results
from tests.bench.making import record

HOLDS, NOT, UNDECIDED = "holds here", "does not hold here", "undecided"
LEFT, RIGHT = At("left"), At("right")
Numbers = tuple[float, ...]


def judged(criterion: Criterion, left: Results, right: Results | None = None) -> str:
    return criterion.judge(of_legs(left=left, **({"right": right} if right else {})))[0]


@pytest.mark.parametrize(
    ("left", "right", "lower", "not_lower"),
    [
        ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), HOLDS, NOT),
        ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), NOT, HOLDS),
        ((2.00, 2.01, 2.02), (2.01, 2.02, 2.03), NOT, HOLDS),  # equal, and a difference would have shown
        ((1.0, 2.0, 3.0), (1.5, 2.1, 3.5), UNDECIDED, UNDECIDED),  # equal, with ranges that could hide anything
        ((1.0,), (2.0, 2.1, 2.2), UNDECIDED, UNDECIDED),  # measured once
    ],
)
def test_a_claimed_difference_must_exceed_the_range_of_the_repeats(
    left: Numbers, right: Numbers, lower: str, not_lower: str
) -> None:
    one, other = rates(*left), rates(*right)
    assert judged(Criterion(RPS, LEFT, "lower", RIGHT), one, other) == lower
    assert judged(Criterion(RPS, RIGHT, "higher", LEFT), one, other) == lower
    assert judged(Criterion(RPS, LEFT, "not lower", RIGHT), one, other) == not_lower


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ((2.6, 2.7, 2.8), (1, 1, 1), HOLDS),
        ((6.0, 6.1, 6.2), (1, 1, 1), NOT),
        ((1.0, 1.1, 1.2), (1, 1, 1), NOT),
        ((1.9, 2.7, 2.8), (1, 1, 1), UNDECIDED),  # the range exceeds the claimed one
        ((1.0, 1.0), (0, 0), UNDECIDED),
    ],
)
def test_a_ratio_is_judged_by_its_whole_range(left: Numbers, right: Numbers, verdict: str) -> None:
    assert judged(Criterion(RPS, LEFT, (2.0, 3.5), RIGHT), rates(*left), rates(*right)) == verdict


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.5, 0.6), HOLDS),
        ((0.96, 1.0), NOT),
        ((0.5, 0.99), UNDECIDED),
        ((0.5,), UNDECIDED),
        ((None, None), UNDECIDED),
    ],
)
def test_limits_must_be_kept_by_every_repeat(shares: tuple[float | None, ...], verdict: str) -> None:
    found = results(at_level(25, [repeat(engine_busy_share=share) for share in shares]))
    assert judged(Criterion(BUSY_SHARE, LEFT, (0, 0.9)), found) == verdict


@pytest.mark.parametrize(
    ("busy", "preempted", "verdict"),
    [(0.5, 0, HOLDS), (0.5, 1, NOT), (0.99, 0, NOT), (None, 0, UNDECIDED), (None, 1, NOT)],
)
def test_all_criteria_of_a_claim_must_hold(busy: float | None, preempted: int, verdict: str) -> None:
    found = results(at_level(25, [repeat(engine_busy_share=busy, preemptions=preempted)] * 2))
    criteria = (Criterion(BUSY_SHARE, LEFT, (0, 0.9)), Criterion(PREEMPTIONS, LEFT, (0, 0)))
    claim = Claim("both", "Both.", "", "Holds where both do.", criteria)
    assert claim.judge(of_legs(left=found)).verdict == verdict


def test_a_metric_that_some_repeats_lack_and_too_few_answers_decide_nothing() -> None:
    found = results(at_level(25, [repeat(preemptions=0), repeat(preemptions=None), repeat(preemptions=0)]))
    assert judged(Criterion(PREEMPTIONS, LEFT, (0, 0)), found) == UNDECIDED
    few = results(at_level(25, [repeat(rps=1.0, window_s=8.0), repeat(rps=1.0, window_s=30.0)]))
    assert judged(Criterion(RPS, LEFT, "lower", RIGHT), few, rates(20.0, 20.1)) == UNDECIDED


def test_a_judgement_has_the_numbers_that_decided() -> None:
    legs = of_legs(left=rates(1.0, 1.2), right=rates(20.0, 22.0))
    _, because = Criterion(RPS, LEFT, "lower", RIGHT).judge(legs)
    assert "left at 25 clients 1.10 req/s [1.00..1.20]" in because
    assert "right at 25 clients 21.0 req/s [20.0..22.0]" in because


def leg(*numbers: dict[str, Any], clients: int = 25) -> Results:
    """One level, a repeat for each set of numbers."""
    return results(at_level(clients, [repeat(**one) for one in numbers]))


def lengths(short_s: float, long_s: float) -> dict[str, list[RequestRecord]]:
    """A hundred requests: the shorter half and the longer half."""
    spent = [record(n, e2e_s=short_s if n < 50 else long_s, source_tokens=10 + n, output_tokens=10) for n in range(100)]
    return {"records": spent}


def per_token(*values_s: float) -> Results:
    """Five clients whose requests took so long for each of their ten tokens."""
    return leg(*({"records": [record(e2e_s=10 * one, output_tokens=10)]} for one in values_s), clients=5)


def one_worker(alone: Numbers, busy: Numbers) -> Results:
    levels = ((1, alone), (25, busy))
    return results(*(at_level(clients, [repeat(rps=value) for value in rps]) for clients, rps in levels))


def tokens(*values: float | None) -> Results:
    return leg(*({"output_tokens_s": value} for value in values))


def rated(*rps: float, preemptions: int = 0) -> Results:
    return leg(*({"rps": value, "preemptions": preemptions} for value in rps))


IDLE, STEADY = {"engine_busy_share": 0.6}, {"gpu_mean_percent": 95.0, "gpu_share_below_10": 0.0}
CASES: list[tuple[str, str, dict[str, Results]]] = [
    ("falls-with-load", HOLDS, {"workers_1__variable": one_worker((3.3, 3.4), (2.2, 2.3))}),
    ("falls-with-load", NOT, {"workers_1__variable": one_worker((2.2, 2.3), (3.3, 3.4))}),
    ("idle-engine", HOLDS, {"workers_1__variable": leg(IDLE, IDLE)}),
    ("idle-engine", NOT, {"workers_1__variable": leg(*[{"engine_busy_share": 0.99}] * 2)}),
    ("two-workers", HOLDS, {"workers_2__variable": rates(2.0, 2.01), "workers_1__variable": rates(2.2, 2.21)}),
    ("two-workers", UNDECIDED, {"workers_2__variable": rates(2.0, 3.0), "workers_1__variable": rates(2.2, 2.9)}),
    ("static-batching", HOLDS, {"static__uniform": rates(5.9, 6.0), "workers_1__uniform": rates(2.2, 2.2)}),
    ("static-batching", NOT, {"static__variable": rates(20.0, 21.0), "workers_1__variable": rates(2.2, 2.2)}),
    (
        "head-of-line",
        HOLDS,
        {
            "static__variable": leg(lengths(0.9, 1.0), lengths(0.91, 1.0)),
            "continuous_64__variable": leg(lengths(0.3, 1.0), lengths(0.31, 1.0)),
        },
    ),
    (
        "uniform-flatters",
        HOLDS,
        {"continuous_64__uniform": tokens(900.0, 910.0), "continuous_64__variable": tokens(500.0, 505.0)},
    ),
    (
        "uniform-flatters",
        UNDECIDED,
        {"continuous_64__uniform": tokens(None, None), "continuous_64__variable": tokens(500.0, 505.0)},
    ),
    (
        "fewer-slots",
        NOT,
        {"continuous_64__variable": rates(40.0, 41.0), "continuous_16__variable": rates(28.0, 28.2)},
    ),
    (
        "thirty-two",
        HOLDS,
        {"continuous_32__variable": rates(20.0, 20.1), "continuous_16__variable": rates(28.0, 28.2)},
    ),
    (
        "idle-slots",
        HOLDS,
        {"continuous_256__variable": per_token(0.02, 0.021), "continuous_8__variable": per_token(0.01, 0.0101)},
    ),
    ("in-all", HOLDS, {"workers_1__variable": rates(2.0, 2.01), "continuous_16__variable": rates(12.0, 12.1)}),
    ("in-all", NOT, {"workers_1__variable": rates(2.0, 2.01), "continuous_16__variable": rates(4.0, 4.1)}),
    ("steady", HOLDS, {"continuous_64__variable": leg(STEADY, STEADY)}),
    ("steady", NOT, {"continuous_64__variable": leg(*[{**STEADY, "gpu_share_below_10": 0.3}] * 2)}),
    ("steady", HOLDS, {"continuous_64__variable": leg(*[{"engine_busy_share": 0.99}] * 2)}),
    ("graph-ceiling", HOLDS, {"graphs_32__variable": rates(50.0, 51.0), "continuous_32__variable": rates(40.0, 40.1)}),
    (
        "batched-tokens",
        HOLDS,
        {"continuous_64__variable": rates(20.0, 20.1), "tokens_16384__variable": rates(15.0, 15.1)},
    ),
    ("memory", HOLDS, {"memory_0.3__variable": rated(15.0, 15.1), "continuous_64__variable": rated(15.0, 15.1)}),
    (
        "memory",
        NOT,
        {"memory_0.3__variable": rated(15.0, 15.1, preemptions=3), "continuous_64__variable": rated(15.0, 15.1)},
    ),
]


@pytest.mark.parametrize(("claim", "expected", "legs"), CASES, ids=lambda value: str(value)[:20])
def test_each_claim_is_judged_on_its_legs(claim: str, expected: str, legs: dict[str, Results]) -> None:
    found = {finding.claim.name: finding.verdict for finding in judge_all(of_legs(**legs))}
    assert found[claim] == expected


def test_every_claim_has_a_case_and_nothing_measured_decides_none() -> None:
    findings = judge_all(of_legs())
    assert {finding.verdict for finding in findings} == {UNDECIDED}
    assert all(finding.claim.rule and finding.because for finding in findings)
    assert [finding.claim.name for finding in findings] == list(dict.fromkeys(claim for claim, _, _ in CASES))


def test_the_best_continuous_step_is_one_with_repeats() -> None:
    found = of_legs(
        continuous_8__variable=rates(5.0, 5.1),
        continuous_16__variable=rates(9.0),
        continuous_64__variable=rates(7.0, 7.1),
        continuous_64__uniform=rates(15.0, 15.1),
    )
    assert found.resolve(At("continuous-*.variable")) == At("continuous-64.variable")


def test_short_and_long_requests_are_the_outer_quarters_of_completed_ones() -> None:
    spent = [record(n, e2e_s=1 + n // 25, source_tokens=10 + n) for n in reversed(range(100))]
    failed = [record(n, e2e_s=99.0, source_tokens=1, error="timeout") for n in range(50)]
    assert quarter_p50_s(repeat([*spent, *failed])) == pytest.approx(1.0)
    assert short_to_long(repeat([*spent, *failed])) == pytest.approx(0.25)
    assert quarter_p50_s(repeat([record(n) for n in range(19)])) is None


def test_time_per_token_is_over_completed_requests_with_known_tokens() -> None:
    known = [record(0, e2e_s=1.0, output_tokens=10), record(1, e2e_s=3.0, output_tokens=30)]
    other = [record(2, e2e_s=50.0), record(3, e2e_s=50.0, output_tokens=5, error="timeout")]
    assert s_per_token(repeat([*known, *other])) == pytest.approx(0.1)
    assert s_per_token(repeat([record(e2e_s=50.0)])) is None
