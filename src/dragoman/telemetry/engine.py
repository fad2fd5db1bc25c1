"""Where an engine's statistics (`wire.EngineStats`) are accumulated, whatever the engine is.

Knows nothing of vLLM: the adapter under `engine/` reports to an `EngineGauge`, and so do the fake pipeline and the worker
processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import chain
from time import monotonic

import numpy as np

from dragoman.wire import EngineStats, Percentiles

_MOST_GATHERED = 8192  # samples, so that the list does not grow while it is not read


RECENT = 2048
"""Latencies from which percentiles are computed."""


def percentiles(values: Collection[float]) -> Percentiles:
    """Linear between samples; null for no values."""
    if not values:
        return Percentiles()
    p50, p95, p99 = np.percentile(np.fromiter(values, dtype=np.float64, count=len(values)), (50, 95, 99)).tolist()
    return Percentiles(p50=p50, p95=p95, p99=p99)


class Latencies:
    """`bounds_s` are the upper bounds of the histogram's buckets, ascending; one more bucket takes what lies beyond."""

    def __init__(self, bounds_s: Sequence[float], recent: int) -> None:
        self._bounds_s = np.array(bounds_s)
        self._counts = np.zeros(len(bounds_s) + 1, dtype=np.int64)
        self._sum_s = 0.0
        self._recent: deque[float] = deque(maxlen=recent)
        self._gathered: list[Sequence[float]] = []
        self._gathered_samples = 0

    def add(self, samples_s: Sequence[float]) -> None:
        """The samples of one step. The sequence is kept for a while: it must not change any more."""
        if not samples_s:
            return
        self._gathered.append(samples_s)
        self._gathered_samples += len(samples_s)
        if self._gathered_samples >= _MOST_GATHERED:
            self._fold()

    def _fold(self) -> None:
        """Put what has gathered into the histogram."""
        if not self._gathered:
            return
        samples_s = np.fromiter(chain.from_iterable(self._gathered), dtype=np.float64, count=self._gathered_samples)
        self._gathered, self._gathered_samples = [], 0
        places = np.searchsorted(self._bounds_s, samples_s, side="left")  # a bound belongs to its bucket
        self._counts += np.bincount(places, minlength=len(self._counts))
        self._sum_s += float(samples_s.sum())
        self._recent.extend(samples_s[-(self._recent.maxlen or 0) :].tolist())

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples in each bucket alone, the one beyond the last bound included."""
        self._fold()
        return tuple(self._counts.tolist())

    @property
    def sum_s(self) -> float:
        """Of all samples."""
        self._fold()
        return self._sum_s

    @property
    def recent_s(self) -> tuple[float, ...]:
        """The most recent samples, oldest first."""
        self._fold()
        return tuple(self._recent)


INTER_TOKEN_LATENCY_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05),
    *(0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0),
)
"""Upper bounds of the histogram's buckets: from a small model's step on a GPU to a large one's on a CPU."""


class EngineGauge:
    """The statistics of an engine while it reports them. One writer at a time; `snapshot` reads them."""

    def __init__(self) -> None:
        self.stats = EngineStats()  # what is not computed from what follows
        self._busy_before_s = 0.0
        self._busy_since_s: float | None = None
        self._ttft_s: deque[float] = deque(maxlen=RECENT)
        self._inter_token = Latencies(INTER_TOKEN_LATENCY_BOUNDS_S, RECENT)

    def load(self, running: int, waiting: int, kv_cache_usage: float) -> None:
        """The engine's load changed."""
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
        """First tokens and further tokens came after these times. The lists must not change any more."""
        self._ttft_s.extend(ttft_s)
        self._inter_token.add(inter_token_latency_s)

    def snapshot(self) -> EngineStats:
        """What was reported until now, and what is computed from it."""
        inter_token = self._inter_token
        busy_now_s = monotonic() - self._busy_since_s if self._busy_since_s is not None else 0.0
        return self.stats.model_copy(
            update={
                "busy_s": self._busy_before_s + busy_now_s,
                "ttft_s": percentiles(self._ttft_s),
                "inter_token_latency_s": percentiles(inter_token.recent_s),
                "inter_token_latency_sum_s": inter_token.sum_s,
                "inter_token_latency_count": sum(inter_token.counts),
                "inter_token_latency_buckets": inter_token.counts,
            }
        )
