"""Engine statistics, whatever the engine is: a snapshot (`EngineStats`) and where one is accumulated (`EngineGauge`).

Knows nothing of vLLM: the adapter under `engine/` reports to an `EngineGauge`, and so do the fake pipeline and the worker
processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic

import numpy as np

_MOST_GATHERED = 8192  # samples, so that the list does not grow while it is not read


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


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One moment of an engine. Counters count since the engine's start; latencies are the recent ones, in seconds."""

    running: int = 0  # sequences decoding or prefilling now
    waiting: int = 0  # sequences accepted by the engine and not scheduled yet
    kv_cache_usage: float = 0.0  # 0..1
    preemptions: int = 0
    restarts: int = 0  # of engines or worker processes, after a crash
    hangs: int = 0  # those restarts before which the engine hung
    restarting: bool = False  # the engine has crashed, and sequences wait until it has restarted
    finished: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0  # engine iterations reported
    busy_s: float = 0.0  # time during which at least one sequence was running
    peak_running: int = 0
    inter_token_latency_sum_s: float = 0.0  # of all since the start, with their count: a mean over any stretch
    inter_token_latency_count: int = 0
    inter_token_latency_counts: tuple[int, ...] = ()  # by bucket, those beyond the last bound at the end
    kv_cache_tokens: int | None = None  # how many the KV cache holds; None: the engine does not report it
    dtype: str | None = None  # of weights and activations, as the engine resolved it
    startup: tuple[tuple[str, float], ...] = ()  # phases of the last start and the seconds of each
    ttft_s: tuple[float, ...] = ()
    inter_token_latency_s: tuple[float, ...] = ()


@dataclass(slots=True)
class EngineGauge:
    """Accumulates what an engine reports. One writer at a time; reading gives an immutable `EngineStats`."""

    recent: int = 2048
    running: int = 0
    waiting: int = 0
    kv_cache_usage: float = 0.0
    preemptions: int = 0
    restarts: int = 0
    finished: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    peak_running: int = 0
    kv_cache_tokens: int | None = None
    dtype: str | None = None
    startup: tuple[tuple[str, float], ...] = ()
    _busy_s: float = 0.0
    _busy_since: float | None = None
    _ttft_s: deque[float] = field(init=False)
    _inter_token: Latencies = field(init=False)

    def __post_init__(self) -> None:
        self._ttft_s = deque(maxlen=self.recent)
        self._inter_token = Latencies(INTER_TOKEN_LATENCY_BOUNDS_S, self.recent)

    def load(self, running: int, waiting: int, kv_cache_usage: float) -> None:
        """The engine's load changed."""
        if running and self._busy_since is None:
            self._busy_since = monotonic()
        elif not running and self._busy_since is not None:
            self._busy_s += monotonic() - self._busy_since
            self._busy_since = None
        self.running, self.waiting, self.kv_cache_usage = running, waiting, kv_cache_usage
        self.peak_running = max(self.peak_running, running)

    def latencies(self, ttft_s: list[float], inter_token_latency_s: list[float]) -> None:
        """First tokens and further tokens came after these times. The lists must not change any more."""
        self._ttft_s.extend(ttft_s)
        self._inter_token.add(inter_token_latency_s)

    def snapshot(self) -> EngineStats:
        inter_token = self._inter_token
        busy_now = monotonic() - self._busy_since if self._busy_since is not None else 0.0
        return EngineStats(
            running=self.running,
            waiting=self.waiting,
            kv_cache_usage=self.kv_cache_usage,
            preemptions=self.preemptions,
            restarts=self.restarts,
            finished=self.finished,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            steps=self.steps,
            busy_s=self._busy_s + busy_now,
            peak_running=self.peak_running,
            inter_token_latency_sum_s=inter_token.sum_s,
            inter_token_latency_count=sum(inter_token.counts),
            inter_token_latency_counts=inter_token.counts,
            kv_cache_tokens=self.kv_cache_tokens,
            dtype=self.dtype,
            startup=self.startup,
            ttft_s=tuple(self._ttft_s),
            inter_token_latency_s=inter_token.recent_s,
        )
