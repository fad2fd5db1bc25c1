from __future__ import annotations

from random import Random

import pytest

from dragoman.bench.saturation import Saturation, slope_of

WINDOW_S = 20.0


def _judge(in_flight: list[float], latency: list[float]) -> float | None:
    """When two series, sampled each half second, are called saturated."""
    saturation = Saturation(WINDOW_S)
    for step, (requests, seconds) in enumerate(zip(in_flight, latency, strict=True)):
        now_s = step / 2
        saturation.in_flight(now_s, round(requests))
        saturation.latency(now_s, seconds)
        if saturation.reached(now_s):
            return now_s
    return None


def test_slope_and_its_error_by_hand() -> None:
    slope, error = slope_of([(0, 1), (1, 3), (2, 2)])  # type: ignore[arg-type]

    assert slope == 0.5
    assert error == pytest.approx((1.5 / 1 / 2) ** 0.5)


def test_growing_queue_and_latency_are_saturation_but_not_before_a_whole_window() -> None:
    found = _judge([step * 2.0 for step in range(120)], [0.5 + step / 20 for step in range(120)])

    assert found == WINDOW_S


def test_a_steady_noisy_load_is_none() -> None:
    random = Random(4)

    assert _judge([random.gauss(20, 5) for _ in range(400)], [random.gauss(1, 0.3) for _ in range(400)]) is None


def test_filling_up_to_a_level_is_none() -> None:
    random = Random(5)
    filling = [min(step, 10) * 2 + random.gauss(0, 2) for step in range(200)]

    assert _judge(filling, [random.gauss(1, 0.2) for _ in range(200)]) is None


def test_more_in_flight_at_the_same_latency_is_none() -> None:
    random = Random(6)

    assert _judge([step * 2.0 for step in range(120)], [random.gauss(1, 0.1) for _ in range(120)]) is None


def test_a_certain_but_slight_growth_is_none() -> None:
    assert _judge([100 + step / 50 for step in range(200)], [1 + step / 5000 for step in range(200)]) is None


def test_a_server_that_ends_nothing_is_saturated() -> None:
    saturation = Saturation(WINDOW_S)
    for step in range(41):
        saturation.in_flight(step / 2, step * 3)

    assert saturation.reached(20.0)
