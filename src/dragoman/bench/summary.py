"""From records to numbers: latency, throughput, goodput, how busy the server was, and whether two points differ.

Latency distributions are over completed requests and count from the intended send. An SLO is judged over all requests: one
that failed, was refused or timed out is later than any limit, so that a server cannot pass by dropping what is slow.
Rates are over the measurement's window and count what completed inside it. Knows nothing of how requests are sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf, isinf
from statistics import median
from typing import Literal

from dragoman.bench.records import Band, GpuSample, RequestRecord, ServerSample
from dragoman.bench.results import BandSummary, Distribution, Measurement, Spread, Stopped, Summary, Verdict
from dragoman.bench.slo import Limit, Slo, metric_of

BANDS: tuple[Band, ...] = ("short", "medium", "long")
UNKNOWN_SPREAD = 0.10
"""The share that stands for a spread nobody measured: AIPerf's bound on what agreeing trials may differ by."""


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of `ordered` (ascending, not empty) do not exceed."""
    return ordered[max(1, ceil(percent / 100 * len(ordered) - 1e-9)) - 1]


def distribution(values_s: Iterable[float]) -> Distribution | None:
    ordered = sorted(values_s)
    if not ordered:
        return None
    p50, p90, p95, p99 = (nearest_rank(ordered, p) for p in (50, 90, 95, 99))
    return Distribution(len(ordered), sum(ordered) / len(ordered), p50, p90, p95, p99, ordered[-1])
