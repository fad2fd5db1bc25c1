"""Nearest-rank percentiles: every percentile reported is a value that was observed, and infinities are no trouble.

Knows nothing of what the values are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from dragoman_bench.bench.results import Distribution


def rank(percent: float, count: int) -> int:
    """The 1-based rank of the percentile among `count` ascending values."""
    return max(1, ceil(percent / 100 * count - 1e-9))  # 0.55 * 100 is a hair over 55


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of `ordered` (ascending, not empty) do not exceed."""
    return ordered[rank(percent, len(ordered)) - 1]


def distribution(values_s: Iterable[float]) -> Distribution | None:
    ordered = sorted(values_s)
    if not ordered:
        return None
    p50, p90, p95, p99 = (nearest_rank(ordered, p) for p in (50, 90, 95, 99))
    return Distribution(len(ordered), sum(ordered) / len(ordered), p50, p90, p95, p99, ordered[-1])
