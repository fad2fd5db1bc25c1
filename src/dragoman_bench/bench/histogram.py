"""A mergeable histogram of latencies in buckets that grow by 2 %: percentiles within 1 % from a few hundred integers.

Holds the gaps between streamed events, of which a run has too many to keep. A bucket b stands for `FLOOR_S * 1.02**b`.
Knows nothing of requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import log

from dragoman_bench.bench.percentiles import rank
from dragoman_bench.bench.results import Distribution

FLOOR_S = 1e-5
GROWTH = 1.02


def bucket_of(value_s: float) -> int:
    """Values at or under 10 µs share bucket 0."""
    return 0 if value_s <= FLOOR_S else round(log(value_s / FLOOR_S, GROWTH))


def value_of(bucket: int) -> float:
    return FLOOR_S * GROWTH**bucket


def count(values_s: Iterable[float]) -> Counter[int]:
    return Counter(bucket_of(value) for value in values_s)


def percentile(histogram: Mapping[int, int], percent: float) -> float | None:
    """Nearest rank, in seconds; None of an empty histogram."""
    total = sum(histogram.values())
    if not total:
        return None
    wanted = rank(percent, total)
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= wanted:
            return value_of(bucket)
    raise AssertionError("a rank lies within the total")


def distribution(histogram: Mapping[int, int]) -> Distribution | None:
    total = sum(histogram.values())
    if not total:
        return None
    p50, p90, p95, p99, largest = (percentile(histogram, p) or 0.0 for p in (50, 90, 95, 99, 100))
    mean = sum(value_of(bucket) * n for bucket, n in histogram.items()) / total
    return Distribution(total, mean, p50, p90, p95, p99, largest)
