from __future__ import annotations

import heapq
from bisect import bisect
from collections.abc import Sequence
from math import inf
from random import Random

import pytest

from dragoman_bench.bench.load import PARTS, Saturation, growth, part_means, slope_of

AFTER_S = 20.0
STEP_S = AFTER_S / 40


def _judge(in_flight: Sequence[float], latency_s: Sequence[float | None]) -> float | None:
    """When two series, sampled each half second, are called saturated."""
    saturation = Saturation(AFTER_S)
    for step, (requests, seconds) in enumerate(zip(in_flight, latency_s, strict=True), 1):
        if saturation.observe(step * STEP_S, round(requests), [] if seconds is None else [seconds]):
            return step * STEP_S
    return None


def _queue(load: float, slots: int, seed: int, length_s: float = 150.0) -> tuple[list[float], list[float | None]]:
    """A simulated M/M/c queue with a service time of one second, as it is sampled."""
    random = Random(seed)
    free, arrivals, ends, now_s = [0.0] * slots, [], [], 0.0
    while now_s < length_s:
        now_s += random.expovariate(load * slots)
        end_s = max(now_s, heapq.heappop(free)) + random.expovariate(1)
        heapq.heappush(free, end_s)
        arrivals.append(now_s)
        ends.append((end_s, end_s - now_s))
    ends.sort()
    times = [step * STEP_S for step in range(1, round(length_s / STEP_S))]
    in_flight = [float(bisect(arrivals, t) - bisect(ends, (t, inf))) for t in times]
    latency_s = [next((e2e for end, e2e in reversed(ends) if end <= t), None) for t in times]
    return in_flight, latency_s


def test_slope_and_its_error_by_hand() -> None:
    slope, error = slope_of([1, 3, 2])

    assert slope == 0.5
    assert error == pytest.approx((1.5 / 1 / 2) ** 0.5)


def test_part_means_weigh_observations() -> None:
    series = [(part + 0.5, 2.0 * part, 2) for part in range(PARTS)] + [(0.6, 12.0, 2)]

    assert part_means(series, 0.0, float(PARTS)) == [3.0, *map(float, range(1, PARTS))]
    assert part_means(series[1:-1], 0.0, float(PARTS)) == []  # the first part saw nothing


def test_growth_is_relative_to_the_mean() -> None:
    straight = [(part + 0.5, 1.0 + part, 1) for part in range(PARTS)]

    assert growth(straight, 0.0, float(PARTS)) == pytest.approx(PARTS / 5.5)
    assert growth([(t, 3.0, 1) for t, _, _ in straight], 0.0, float(PARTS)) == 0.0
    assert growth([], 0.0, 1.0) == -inf


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_past_its_capacity_is_saturated_but_not_before_it_may_be_judged(seed: int) -> None:
    found = _judge(*_queue(load=1.5, slots=16, seed=seed))

    assert found is not None
    assert AFTER_S <= found <= 60


@pytest.mark.parametrize("slots", [1, 8, 32])
@pytest.mark.parametrize("seed", range(4))
def test_a_busy_queue_within_its_capacity_is_not(slots: int, seed: int) -> None:
    assert _judge(*_queue(load=0.8, slots=slots, seed=seed)) is None


def test_filling_up_to_a_level_is_none() -> None:
    random = Random(5)
    filling = [min(step, 10) * 2 + random.gauss(0, 2) for step in range(200)]

    assert _judge(filling, [random.gauss(1, 0.2) for _ in range(200)]) is None


def test_more_in_flight_at_the_same_latency_is_none() -> None:
    random = Random(6)

    assert _judge([step * 2.0 for step in range(120)], [random.gauss(1, 0.1) for _ in range(120)]) is None


def test_a_server_that_ends_nothing_is_saturated() -> None:
    assert _judge([step * 3.0 for step in range(41)], [None] * 41) == AFTER_S
