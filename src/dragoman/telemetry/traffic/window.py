"""Texts that ended within the last minute, in memory (`RateWindow`, for `GET /v1/stats` and Retry-After)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from dragoman.telemetry.engine import percentiles
from dragoman.telemetry.requests import FAILURES, RecordObserver, TextRecord
from dragoman.wire import LastMinute

RATE_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """One text that ended."""

    at_s: float
    e2e_s: float
    characters: int
    source_tokens: int
    output_tokens: int
    ok: bool


class RateWindow(RecordObserver):
    """A sliding window over finished texts. Each refusal asks for the rate of characters, in constant time."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._started_s = clock()
        self._finished: deque[Finished] = deque()
        self._characters = 0  # of those

    def text_ended(self, text: TextRecord) -> None:
        """Translated texts, and those that failed through the server's fault."""
        if text.ok:
            self.add(text.e2e_s, text.source_characters, text.prompt_tokens, text.output_tokens, ok=True)
        elif text.outcome in FAILURES:
            self.add(0.0, 0, 0, 0, ok=False)

    def add(self, e2e_s: float, characters: int, source_tokens: int, output_tokens: int, *, ok: bool) -> None:
        self._finished.append(Finished(self._clock(), e2e_s, characters, source_tokens, output_tokens, ok))
        self._characters += characters
        self._forget()

    def _forget(self) -> None:
        horizon = self._clock() - RATE_WINDOW_S
        while self._finished and self._finished[0].at_s < horizon:
            self._characters -= self._finished.popleft().characters

    def characters_per_s(self) -> float:
        """Characters of finished texts per second, over the window or since the start; 0 when none finished."""
        self._forget()
        if not self._finished:
            return 0.0
        busy_s = self._clock() - self._finished[0].at_s + self._finished[0].e2e_s
        return self._characters / min(max(busy_s, 1e-3), RATE_WINDOW_S)

    def summary(self) -> LastMinute:
        """Rates per second and latency percentiles in seconds, over the last minute."""
        self._forget()
        span_s = max(min(RATE_WINDOW_S, self._clock() - self._started_s), 1e-3)
        done = [one for one in self._finished if one.ok]
        return LastMinute(
            texts_per_s=len(done) / span_s,
            failures_per_s=(len(self._finished) - len(done)) / span_s,
            source_tokens_per_s=sum(one.source_tokens for one in done) / span_s,
            output_tokens_per_s=sum(one.output_tokens for one in done) / span_s,
            e2e_s=percentiles([one.e2e_s for one in done]),
        )
