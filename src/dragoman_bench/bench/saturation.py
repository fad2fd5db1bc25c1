"""When an open loop is past what the server can do: both the requests in flight and the latency keep growing.

After GuideLLM's over-saturation constraint, which asks whether the slope of both series is positive with confidence. The
samples of a queue depend on each other, so that a slope alone cries wolf at any busy server: here the last three quarters
of the run so far are cut into ten parts, the slope over the parts' means must be a growth of 70 % of their mean with 95 %
confidence, and must have been one for half of the run. (A queue that grows steadily from the start grows by 120 % of its
mean over that stretch.) Simulated queues of 1, 8 and 32 slots under 90 % load were never judged saturated within 300
service times; at 150 % load, with 8 slots and more, they were after 20 to 30.

Knows nothing of requests beyond these two series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, sqrt

GROWTH = 0.7
SKIPPED = 0.25  # of the run so far: filling up is growth too
PERSISTENCE = 0.5
PARTS = 10
_STUDENT_T = 1.860  # one-sided 95 %, PARTS - 2 = 8 degrees of freedom

Weighted = tuple[float, float, int]
"""A time, the sum of what was observed around it, and how many observations those were."""


@dataclass(slots=True)
class Saturation:
    """Judges from `after_s` on. Times must not go backwards."""

    after_s: float = 20.0
    _in_flight: list[Weighted] = field(default_factory=list[Weighted])
    _latency: list[Weighted] = field(default_factory=list[Weighted])
    _growing_since_s: float | None = None

    def observe(self, now_s: float, in_flight: int, latencies_s: Sequence[float]) -> bool:
        """Takes the requests in flight now and the latencies of those that ended since the last call; True once the
        server is saturated."""
        self._in_flight.append((now_s, float(in_flight), 1))
        if latencies_s:
            self._latency.append((now_s, sum(latencies_s), len(latencies_s)))
        if now_s < self.after_s / 2:
            return False
        if not self._grows(now_s):
            self._growing_since_s = None
            return False
        if self._growing_since_s is None:
            self._growing_since_s = now_s
        return now_s >= self.after_s and now_s - self._growing_since_s >= PERSISTENCE * now_s

    def _grows(self, now_s: float) -> bool:
        begin_s = SKIPPED * now_s
        nothing_ended = not self._latency or self._latency[-1][0] < begin_s  # then latency cannot say
        latency_grows = nothing_ended or growth(self._latency, begin_s, now_s) >= GROWTH
        return latency_grows and growth(self._in_flight, begin_s, now_s) >= GROWTH


def growth(series: Sequence[Weighted], begin_s: float, end_s: float) -> float:
    """By what share of its mean the series grew over the stretch, at least, with 95 % confidence; -inf where unknown."""
    means = part_means(series, begin_s, end_s)
    mean = sum(means) / PARTS if means else 0.0
    if not means or mean <= 0:
        return -inf
    slope, error = slope_of(means)
    return (slope - _STUDENT_T * error) * PARTS / mean


def part_means(series: Sequence[Weighted], begin_s: float, end_s: float) -> list[float]:
    """The mean of each of `PARTS` equal parts of the stretch; none where a part saw nothing."""
    totals, counts = [0.0] * PARTS, [0] * PARTS
    for t_s, total, count in series:
        if t_s >= begin_s:
            part = min(PARTS - 1, int((t_s - begin_s) / (end_s - begin_s) * PARTS))
            totals[part] += total
            counts[part] += count
    return [total / count for total, count in zip(totals, counts, strict=True)] if all(counts) else []


def slope_of(values: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope over 0, 1, 2, ... and its standard error; three values at least."""
    n = len(values)
    places = [place - (n - 1) / 2 for place in range(n)]
    mean = sum(values) / n
    squares = sum(place**2 for place in places)
    slope = sum(place * (value - mean) for place, value in zip(places, values, strict=True)) / squares
    residuals = sum((value - mean - slope * place) ** 2 for place, value in zip(places, values, strict=True))
    return slope, sqrt(residuals / (n - 2) / squares)
