"""Repeats of a point: median, spread, and when two points may be called different.

Knows metrics by name; what they mean is `summary`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal

from dragoman_bench.bench.results import Distribution, Measurement, Spread, Summary

UNKNOWN_SPREAD = 0.10
"""The share of the median that stands for a spread nobody measured: AIPerf's bound on how far trials differ."""


def _at(name: str, percentile: str) -> Callable[[Summary], float | None]:
    def read(summary: Summary) -> float | None:
        found: Distribution | None = getattr(summary, name)
        return getattr(found, percentile) if found else None

    return read


def _plain(name: str) -> Callable[[Summary], float | None]:
    return lambda summary: getattr(summary, name)


METRICS: dict[str, Callable[[Summary], float | None]] = {
    **{name: _plain(name) for name in ("rps", "output_tokens_s", "output_characters_s", "goodput_rps")},
    **{
        f"{name}_{percentile}": _at(name, percentile)
        for name in ("e2e", "ttft", "itl", "tpot")
        for percentile in ("p50_s", "p90_s", "p95_s", "p99_s")
    },
    **{name: _plain(name) for name in ("attained_share", "mean_in_flight", "engine_busy_share", "gpu_mean_percent")},
}
"""What is compared between points, by name."""


def spreads(repeats: Sequence[Measurement]) -> dict[str, Spread]:
    """Every metric that each repeat has."""
    found: dict[str, Spread] = {}
    for name, read in METRICS.items():
        values = [value for repeat in repeats if (value := read(repeat.summary)) is not None]
        if values and len(values) == len(repeats):
            found[name] = spread_of(values)
    return found


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


def compare(left: Spread, right: Spread) -> Literal["equal", "lower", "higher"]:
    """How `left` compares with `right`.

    Two points are equal where their medians are no farther apart than the wider of the two ranges (highest minus lowest
    repeat): repeats of one and the same point differ by that much. A point measured once has no range; 10 % of its
    median stands for it. With three repeats this is a guard against calling noise a result, not a test of significance.
    """
    if abs(left.median - right.median) <= max(_width(left), _width(right)):
        return "equal"
    return "lower" if left.median < right.median else "higher"


def _width(spread: Spread) -> float:
    if spread.repeats < 2:
        return abs(spread.median) * UNKNOWN_SPREAD
    return spread.high - spread.low
