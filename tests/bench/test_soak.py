"""The fit of a soak's samples: a leak is found, noise is not one."""

from __future__ import annotations

import math
from random import Random

import pytest

from dragoman_bench.chaos.soak import BLOCKS, slope

TIMES = [float(second) for second in range(0, 1200, 4)]


def test_a_leak_is_measured_through_the_noise() -> None:
    rng = Random(3)
    found = slope(TIMES, [500 + 30 * at / 3600 + rng.gauss(0, 1) for at in TIMES])
    assert not found.is_flat
    assert math.isclose(found.per_hour, 30, abs_tol=3 * found.error)


def test_noise_alone_is_flat_nearly_always() -> None:
    flat = 0
    for seed in range(200):
        rng = Random(seed)
        flat += slope(TIMES, [500 + rng.gauss(0, 5) for _ in TIMES]).is_flat
    assert flat >= 170  # of a t distribution of 8 degrees of freedom 92% are within two standard errors


def test_what_does_not_change_is_flat() -> None:
    found = slope(TIMES, [7.0] * len(TIMES))
    assert found.is_flat
    assert math.isclose(found.mean, 7.0)
    assert abs(found.per_hour) < 1e-6


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope(TIMES[: BLOCKS - 1], TIMES[: BLOCKS - 1])
