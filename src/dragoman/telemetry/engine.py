"""Accumulates an engine's statistics (`wire.EngineStats`), whichever engine it is.

Knows nothing of vLLM: the adapter under `engine/` reports to an `EngineGauge`, and so do the fake pipeline and the worker
processes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from time import monotonic

import numpy as np

from dragoman.wire import EngineStats, Percentiles

RECENT = 2048
"""Latencies from which percentiles are computed."""


def percentiles(values: Collection[float]) -> Percentiles:
    """The median and two high percentiles of the values, linear between them; of no values each is None."""
    if not values:
        return Percentiles()
    p50, p95, p99 = np.percentile(np.fromiter(values, dtype=np.float64, count=len(values)), (50, 95, 99)).tolist()
    return Percentiles(p50=p50, p95=p95, p99=p99)


INTER_TOKEN_LATENCY_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05),
    *(0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0),
)
"""Upper bounds of the histogram's buckets: from a small model's step on a GPU to a large one's on a CPU."""


class EngineGauge:
    """Holds the statistics of an engine while it reports them. It has one writer at a time; `snapshot` reads them."""

    def __init__(self) -> None:
        self.stats = EngineStats()  # what is not computed from what follows
        self._busy_before_s = 0.0
        self._busy_since_s: float | None = None
        self._ttft_s: deque[float] = deque(maxlen=RECENT)
        self._inter_token_s: deque[float] = deque(maxlen=RECENT)
        self._inter_token_counts = [0] * (
            len(INTER_TOKEN_LATENCY_BOUNDS_S) + 1
        )  # by bucket, the last one without a bound
        self._inter_token_sum_s = 0.0

    def load(self, running: int, waiting: int, kv_cache_usage: float) -> None:
        """Record that the engine's load has changed to this."""
        if running and self._busy_since_s is None:
            self._busy_since_s = monotonic()
        elif not running and self._busy_since_s is not None:
            self._busy_before_s += monotonic() - self._busy_since_s
            self._busy_since_s = None
        stats = self.stats
        stats.running, stats.waiting, stats.kv_cache_usage = running, waiting, kv_cache_usage
        if running > stats.peak_running:
            stats.peak_running = running

    def latencies(self, ttft_s: list[float], inter_token_latency_s: list[float]) -> None:
        """Record times from submission to first tokens, and of sequences that ended the mean times between their tokens."""
        self._ttft_s.extend(ttft_s)
        self._inter_token_s.extend(inter_token_latency_s)
        self._inter_token_sum_s += sum(inter_token_latency_s)
        for latency_s in inter_token_latency_s:
            self._inter_token_counts[bisect_left(INTER_TOKEN_LATENCY_BOUNDS_S, latency_s)] += 1

    def snapshot(self) -> EngineStats:
        """Return what was reported until now, and what is computed from it."""
        busy_now_s = monotonic() - self._busy_since_s if self._busy_since_s is not None else 0.0
        return self.stats.model_copy(
            update={
                "busy_s": self._busy_before_s + busy_now_s,
                "ttft_s": percentiles(self._ttft_s),
                "inter_token_latency_s": percentiles(self._inter_token_s),
                "inter_token_latency_sum_s": self._inter_token_sum_s,
                "inter_token_latency_count": sum(self._inter_token_counts),
                "inter_token_latency_buckets": tuple(self._inter_token_counts),
            }
        )
