from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from dragoman.telemetry.engine import Latencies

BOUNDS_S = (0.01, 0.1, 1.0)


def test_many_steps_count_as_their_samples_one_by_one_whenever_they_are_read() -> None:
    draw = random.Random(7)
    latencies = Latencies(BOUNDS_S, recent=100)
    seen: list[float] = []
    for step in range(500):
        samples = [draw.expovariate(5) for _ in range(draw.randrange(200))]
        seen += samples
        latencies.add(samples)
        if step % 97 == 0:
            assert sum(latencies.counts) == len(seen)
    counts = [0] * 4
    for sample in seen:
        counts[bisect_left(BOUNDS_S, sample)] += 1
    assert latencies.counts == tuple(counts)
    assert latencies.sum_s == pytest.approx(sum(seen))
    assert latencies.recent_s == tuple(seen[-100:])


def test_samples_that_are_not_read_are_bounded() -> None:
    latencies = Latencies(BOUNDS_S, recent=10)
    for _ in range(1000):
        latencies.add([0.5] * 64)
    assert latencies._gathered_samples < 10_000
    assert latencies.counts == (0, 0, 64_000, 0)
