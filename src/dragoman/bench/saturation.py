"""When an open loop is past what the server can do: both the requests in flight and the latency keep growing.

After GuideLLM's over-saturation constraint: over a sliding window, the least-squares slope of both series must be
positive with 95 % confidence. Samples of a queue are not independent, so a slope alone cries wolf; each series must
also have grown by a quarter of its mean over the window. Where both hold, going on would only measure how long the run
lasts.
Knows nothing of requests beyond these two series.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf, sqrt
from statistics import NormalDist

CONFIDENCE = 0.95
GROWTH = 0.25
FEWEST = 10  # samples of each series


@dataclass(slots=True)
class Saturation:
    """`window_s` is also how long a run must last before it can be judged: filling up is growth too."""

    window_s: float = 20.0
    _in_flight: deque[tuple[float, float]] = field(default_factory=deque[tuple[float, float]])
    _latency: deque[tuple[float, float]] = field(default_factory=deque[tuple[float, float]])

    def in_flight(self, t_s: float, requests: int) -> None:
        self._in_flight.append((t_s, float(requests)))

    def latency(self, t_s: float, e2e_s: float) -> None:
        """A request that ended at `t_s`."""
        self._latency.append((t_s, e2e_s))

    def reached(self, now_s: float) -> bool:
        if now_s < self.window_s:
            return False
        for series in (self._in_flight, self._latency):
            while series and series[0][0] < now_s - self.window_s:
                series.popleft()
        if not self._latency and len(self._in_flight) >= FEWEST:
            return growing(self._in_flight)  # nothing ends at all: latency has no sample to grow with
        return growing(self._in_flight) and growing(self._latency)


def growing(series: deque[tuple[float, float]]) -> bool:
    """Whether the series grows, with confidence and by enough to matter."""
    if len(series) < FEWEST:
        return False
    slope, error = slope_of(series)
    mean = sum(value for _, value in series) / len(series)
    surely = slope - NormalDist().inv_cdf(CONFIDENCE) * error
    return surely > 0 and surely * (series[-1][0] - series[0][0]) >= GROWTH * mean


def slope_of(series: deque[tuple[float, float]]) -> tuple[float, float]:
    """Least-squares slope and its standard error."""
    n = len(series)
    mean_t = sum(t for t, _ in series) / n
    mean_v = sum(v for _, v in series) / n
    squares = sum((t - mean_t) ** 2 for t, _ in series)
    if squares == 0 or n < 3:
        return 0.0, inf
    slope = sum((t - mean_t) * (v - mean_v) for t, v in series) / squares
    residuals = sum((v - mean_v - slope * (t - mean_t)) ** 2 for t, v in series)
    return slope, sqrt(residuals / (n - 2) / squares)
