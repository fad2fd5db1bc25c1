from __future__ import annotations

from dragoman_bench.journey.run import STOP_S, UNKNOWN_START_S
from dragoman_bench.tune.estimate import Estimate, Work


def estimate() -> Estimate:
    return Estimate.of(10.0, [Work("ladder", 1, 6), Work("slots", 1, 3), Work("final", 4, 12)])


def test_before_any_start_a_guess_stands_for_it() -> None:
    assert estimate().left_s == 6 * (UNKNOWN_START_S + STOP_S) + 21 * 10


def test_what_was_seen_replaces_the_guess_and_what_is_done_is_not_left() -> None:
    left = estimate()
    left.started("ladder", 20.0)
    left.measured("ladder")
    assert left.start_s == 20.0 + STOP_S
    assert left.left_s == 5 * (20.0 + STOP_S) + 20 * 10
    left.started("slots", 40.0)
    assert left.start_s == 30.0 + STOP_S


def test_a_phase_that_is_reached_ends_those_before_it() -> None:
    left = estimate()
    left.reached("final")
    assert list(left.left) == ["final"]


def test_more_than_was_expected_leaves_nothing_below_zero() -> None:
    left = Estimate.of(10.0, [Work("slots", 1, 1)])
    for _ in range(3):
        left.measured("slots")
        left.started("slots", 30.0)
    assert left.left_s == 0
    left.measured("memory")  # none was expected
    assert left.left_s == 0
