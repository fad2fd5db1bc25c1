"""What happened over the last minute: finished and failed texts, tokens, latencies. Feeds `/v1/stats` and Retry-After."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from dragoman.telemetry.calls import Observer, TextRecord

WINDOW_S = 60.0
FAILURES = frozenset({"internal_error", "engine_failed", "engine_dead"})


@dataclass(frozen=True, slots=True)
class Finished:
    """One text that left the service."""

    at_s: float
    e2e_s: float
    characters: int
    source_tokens: int
    output_tokens: int
    ok: bool


def percentiles(values: Sequence[float], at: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """Named percentiles (`p50`), linear between samples; empty for no values."""
    if not values:
        return {}
    return {f"p{q}": float(v) for q, v in zip(at, np.percentile(values, at), strict=True)}


class RateWindow(Observer):
    """A sliding window over finished texts."""

    def __init__(self, window_s: float = WINDOW_S, clock: Callable[[], float] = monotonic) -> None:
        self._window_s = window_s
        self._clock = clock
        self._started_s = clock()
        self._finished: deque[Finished] = deque()

    def text_ended(self, text: TextRecord) -> None:
        """Translated texts, and those that failed for a fault of ours."""
        if text.ok:
            self.add(text.e2e_s, text.source_characters, text.prompt_tokens, text.output_tokens, ok=True)
        elif text.outcome in FAILURES:
            self.add(0.0, 0, 0, 0, ok=False)

    def add(self, e2e_s: float, characters: int, source_tokens: int, output_tokens: int, *, ok: bool) -> None:
        self._finished.append(Finished(self._clock(), e2e_s, characters, source_tokens, output_tokens, ok))
        self._forget()

    def _forget(self) -> None:
        horizon = self._clock() - self._window_s
        while self._finished and self._finished[0].at_s < horizon:
            self._finished.popleft()

    def _span_s(self) -> float:
        return max(min(self._window_s, self._clock() - self._started_s), 1e-3)

    def characters_per_s(self) -> float:
        """Characters of finished texts per second, over the window or since the start; 0 when none finished."""
        self._forget()
        if not self._finished:
            return 0.0
        busy_s = self._clock() - self._finished[0].at_s + self._finished[0].e2e_s
        return sum(one.characters for one in self._finished) / min(max(busy_s, 1e-3), self._window_s)

    def summary(self) -> dict[str, object]:
        """Rates per second and latency percentiles in seconds, over the last minute."""
        self._forget()
        span_s = self._span_s()
        done = [one for one in self._finished if one.ok]
        return {
            "texts_per_s": len(done) / span_s,
            "failures_per_s": (len(self._finished) - len(done)) / span_s,
            "source_tokens_per_s": sum(one.source_tokens for one in done) / span_s,
            "output_tokens_per_s": sum(one.output_tokens for one in done) / span_s,
            "e2e_s": percentiles([one.e2e_s for one in done]),
        }
