"""Latencies as an engine reports them, many at each step: a histogram, their sum, and the most recent ones.

Adding a step's samples keeps the list and counts it, whatever its length; the arithmetic is done on thousands of samples at
once, when somebody reads or when enough have gathered. Knows neither Prometheus nor whose latencies they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain

import numpy as np

_MOST_GATHERED = 8192  # samples, so that what nobody reads does not grow


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
