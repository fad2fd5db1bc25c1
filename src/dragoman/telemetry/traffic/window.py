"""Texts that ended within the last minute, in memory (`RateWindow`, for `GET /v1/stats` and Retry-After), and the
distributions of any texts. Percentiles are linear between samples; of no samples there is no distribution.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import IntEnum
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from dragoman.telemetry.engine import percentiles
from dragoman.telemetry.requests import FAILURES, RecordObserver, TextRecord
from dragoman.telemetry.traffic.entry import TrafficEntry
from dragoman.wire import LastMinute

# ---- texts as rows of numbers

Floats = NDArray[np.float64]


class TrafficColumn(IntEnum):
    ARRIVED_UNIX_S = 0
    E2E_S = 1
    IN_FLIGHT = 2
    SOURCE_TOKENS = 3
    PROMPT_TOKENS = 4
    OUTPUT_TOKENS = 5
    QUEUE_S = 6
    TTFT_S = 7
    OUTCOME = 8  # its place in `TrafficTable.outcomes`


@dataclass(frozen=True, slots=True)
class TrafficTable:
    """`rows`: one a text, columns as in `TrafficColumn`."""

    rows: Floats
    outcomes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, column: TrafficColumn) -> Floats:
        return self.rows[:, column]

    def where(self, chosen: NDArray[np.bool_]) -> TrafficTable:
        return TrafficTable(self.rows[chosen], self.outcomes)

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which texts were translated."""
        number = self.outcomes.index("ok") if "ok" in self.outcomes else -1
        return self.column(TrafficColumn.OUTCOME) == number


def table_of(texts: Iterable[TextRecord | TrafficEntry]) -> TrafficTable:
    """A row for each text; None becomes NaN."""
    outcomes: dict[str, int] = {}  # numbered in the order in which they first came
    rows = [
        (
            text.arrived_unix_s,
            text.e2e_s,
            text.in_flight,
            text.source_tokens,
            text.prompt_tokens,
            text.output_tokens,
            text.queue_s,
            text.ttft_s,
            outcomes.setdefault(text.outcome, len(outcomes)),
        )
        for text in texts
    ]
    return TrafficTable(np.array(rows, dtype=np.float64).reshape(len(rows), len(TrafficColumn)), tuple(outcomes))


def in_flight_at_arrivals(arrived_unix_s: Floats, e2e_s: Floats) -> NDArray[np.int64]:
    """For each text the texts, itself included, that had arrived when it did and had not ended: whose time from the arrival
    to before the end covers its arrival. A text that took no time is in flight at its own arrival all the same."""
    ends = np.maximum(arrived_unix_s + e2e_s, np.nextafter(arrived_unix_s, np.inf))
    arrived = np.searchsorted(np.sort(arrived_unix_s), arrived_unix_s, side="right")
    return arrived - np.searchsorted(np.sort(ends), arrived_unix_s, side="right")


def with_in_flight_counted(table: TrafficTable) -> TrafficTable:
    """With `IN_FLIGHT` counted anew from all rows: for texts of several recorders that ran at the same time, as each
    recorded only its own share."""
    rows = table.rows.copy()
    rows[:, TrafficColumn.IN_FLIGHT] = in_flight_at_arrivals(
        table.column(TrafficColumn.ARRIVED_UNIX_S), table.column(TrafficColumn.E2E_S)
    )
    return TrafficTable(rows, table.outcomes)


# ---- distributions

_MINUTE_S, _HOUR_S = 60.0, 3600.0
_AT = (50, 90, 95, 99, 100)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of `count` texts; `highest` is the largest seen."""

    count: int
    p50: float
    p90: float
    p95: float
    p99: float
    highest: float


@dataclass(frozen=True, slots=True)
class TrafficSummary:
    """Texts over `window_s`. Lengths are those of texts that the model translated, times those of texts that ended well.

    `in_flight`: in-flight texts at each arrival, itself included. `peak_tokens`: the most that the prompts and outputs of
    in-flight texts came to at one time, each counted whole from its arrival to its end: what a KV cache must hold so that
    no sequence waits. None: no text was translated.
    """

    records: int
    window_s: float
    arrivals_per_s: float
    busiest_minute_per_s: float
    in_flight: Quantiles | None
    source_tokens: Quantiles | None
    output_tokens: Quantiles | None
    queue_s: Quantiles | None
    ttft_s: Quantiles | None
    e2e_s: Quantiles | None
    peak_tokens: int | None
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Hour:
    """The texts that arrived within one hour. `of_day`: of all days together."""

    label: str
    summary: TrafficSummary


def summarise(table: TrafficTable, window_s: float) -> TrafficSummary:
    """`window_s`: what the rate is over."""
    ok = table.ok
    translated = ok & (table.column(TrafficColumn.OUTPUT_TOKENS) > 0)
    return TrafficSummary(
        records=len(table),
        window_s=window_s,
        arrivals_per_s=len(table) / window_s if window_s > 0 else 0.0,
        busiest_minute_per_s=_busiest_minute_per_s(table.column(TrafficColumn.ARRIVED_UNIX_S), window_s),
        in_flight=quantiles(table.column(TrafficColumn.IN_FLIGHT)),
        source_tokens=quantiles(table.column(TrafficColumn.SOURCE_TOKENS)[translated]),
        output_tokens=quantiles(table.column(TrafficColumn.OUTPUT_TOKENS)[translated]),
        queue_s=quantiles(table.column(TrafficColumn.QUEUE_S)[ok]),
        ttft_s=quantiles(table.column(TrafficColumn.TTFT_S)[ok]),
        e2e_s=quantiles(table.column(TrafficColumn.E2E_S)[ok]),
        peak_tokens=peak_tokens(table.where(translated)),
        outcomes=_outcomes(table),
    )


def quantiles(values: Floats) -> Quantiles | None:
    """What is not known does not count."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p90, p95, p99, highest = (float(value) for value in np.percentile(known, _AT))
    return Quantiles(len(known), p50, p90, p95, p99, highest)


def peak_tokens(table: TrafficTable) -> int | None:
    """The largest sum over texts that overlap in time; one that ends when another comes does not overlap it."""
    if not len(table):
        return None
    began = table.column(TrafficColumn.ARRIVED_UNIX_S)
    tokens = table.column(TrafficColumn.PROMPT_TOKENS) + table.column(TrafficColumn.OUTPUT_TOKENS)
    times = np.concatenate((began, began + table.column(TrafficColumn.E2E_S)))
    changes = np.concatenate((tokens, -tokens))
    return int(np.cumsum(changes[np.lexsort((changes, times))]).max())  # at one time: ends first, they are negative


def by_hour(table: TrafficTable, zone: tzinfo | None = None, *, of_day: bool = False) -> list[Hour]:
    """Every hour with an arrival, in order, in `zone` (None: this machine's); `of_day` joins the same hours of all days."""
    hours = np.floor(table.column(TrafficColumn.ARRIVED_UNIX_S) / _HOUR_S) * _HOUR_S
    starts = [float(start) for start in np.unique(hours)]
    labels = {start: _label(start, zone, of_day) for start in starts}
    members: dict[str, list[float]] = {}
    for start in starts:
        members.setdefault(labels[start], []).append(start)
    order = sorted(members) if of_day else members
    return [
        Hour(label, summarise(table.where(np.isin(hours, members[label])), _HOUR_S * len(members[label])))
        for label in order
    ]


def _label(start_unix_s: float, zone: tzinfo | None, of_day: bool) -> str:
    start = datetime.fromtimestamp(start_unix_s, UTC).astimezone(zone)
    return start.strftime("%H:%M" if of_day else "%Y-%m-%d %H:%M")


def _busiest_minute_per_s(arrived_unix_s: Floats, window_s: float) -> float:
    if not len(arrived_unix_s) or window_s <= 0:
        return 0.0
    _, counts = np.unique(np.floor(arrived_unix_s / _MINUTE_S), return_counts=True)
    return int(counts.max()) / min(_MINUTE_S, window_s)


def _outcomes(table: TrafficTable) -> dict[str, int]:
    counts = np.bincount(table.column(TrafficColumn.OUTCOME).astype(int), minlength=len(table.outcomes))
    found = {name: int(count) for name, count in zip(table.outcomes, counts, strict=True) if count}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


# ---- the last minute

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

    def __init__(self, window_s: float = RATE_WINDOW_S, clock: Callable[[], float] = monotonic) -> None:
        self._window_s = window_s
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
        horizon = self._clock() - self._window_s
        while self._finished and self._finished[0].at_s < horizon:
            self._characters -= self._finished.popleft().characters

    def _span_s(self) -> float:
        return max(min(self._window_s, self._clock() - self._started_s), 1e-3)

    def characters_per_s(self) -> float:
        """Characters of finished texts per second, over the window or since the start; 0 when none finished."""
        self._forget()
        if not self._finished:
            return 0.0
        busy_s = self._clock() - self._finished[0].at_s + self._finished[0].e2e_s
        return self._characters / min(max(busy_s, 1e-3), self._window_s)

    def summary(self) -> LastMinute:
        """Rates per second and latency percentiles in seconds, over the last minute."""
        self._forget()
        span_s = self._span_s()
        done = [one for one in self._finished if one.ok]
        return LastMinute(
            texts_per_s=len(done) / span_s,
            failures_per_s=(len(self._finished) - len(done)) / span_s,
            source_tokens_per_s=sum(one.source_tokens for one in done) / span_s,
            output_tokens_per_s=sum(one.output_tokens for one in done) / span_s,
            e2e_s=percentiles([one.e2e_s for one in done]),
        )
