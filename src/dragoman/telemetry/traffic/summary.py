"""Distributions of recorded texts: how many at once, how long, how fast, what became of them.

Percentiles are linear between samples. Of no samples there is no distribution. Knows rows, wherever they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np

from dragoman.telemetry.traffic.table import Column, Floats, Table
from dragoman.wire import RecorderState, Traffic, TrafficPercentiles

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
class Summary:
    """Texts over `window_s`. Lengths are those of texts that the model translated, times those of texts that ended well.

    `in_flight`: texts in the house at each arrival, itself included. `peak_tokens`: the most that the prompts and outputs of
    texts in the house came to at one time, each counted whole from its arrival to its end: what a KV cache must hold so that
    none waits. None: no text was translated.
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
    summary: Summary


def summarise(table: Table, window_s: float) -> Summary:
    """`window_s`: what the rate is over."""
    ok = table.ok
    translated = ok & (table.column(Column.OUTPUT_TOKENS) > 0)
    return Summary(
        records=len(table),
        window_s=window_s,
        arrivals_per_s=len(table) / window_s if window_s > 0 else 0.0,
        busiest_minute_per_s=_busiest_minute_per_s(table.column(Column.ARRIVED_UNIX_S), window_s),
        in_flight=quantiles(table.column(Column.IN_FLIGHT)),
        source_tokens=quantiles(table.column(Column.SOURCE_TOKENS)[translated]),
        output_tokens=quantiles(table.column(Column.OUTPUT_TOKENS)[translated]),
        queue_s=quantiles(table.column(Column.QUEUE_S)[ok]),
        ttft_s=quantiles(table.column(Column.TTFT_S)[ok]),
        e2e_s=quantiles(table.column(Column.E2E_S)[ok]),
        peak_tokens=peak_tokens(table.where(translated)),
        outcomes=_outcomes(table),
    )


def traffic_of(summary: Summary, recorder: RecorderState) -> Traffic:
    """The summary as `GET /v1/traffic` returns it."""

    def percentiles(found: Quantiles | None) -> TrafficPercentiles:
        return TrafficPercentiles(p50=found.p50, p95=found.p95, max=found.highest) if found else TrafficPercentiles()

    return Traffic(
        records=summary.records,
        window_s=summary.window_s,
        in_flight=percentiles(summary.in_flight),
        source_tokens=percentiles(summary.source_tokens),
        output_tokens=percentiles(summary.output_tokens),
        queue_s=percentiles(summary.queue_s),
        ttft_s=percentiles(summary.ttft_s),
        e2e_s=percentiles(summary.e2e_s),
        arrivals_per_s=summary.arrivals_per_s,
        peak_tokens=summary.peak_tokens,
        outcomes=summary.outcomes,
        recorder=recorder,
    )


def quantiles(values: Floats) -> Quantiles | None:
    """What is not known does not count."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p90, p95, p99, highest = (float(value) for value in np.percentile(known, _AT))
    return Quantiles(len(known), p50, p90, p95, p99, highest)


def peak_tokens(table: Table) -> int | None:
    """The largest sum over texts that overlap in time; one that ends when another comes does not overlap it."""
    if not len(table):
        return None
    began = table.column(Column.ARRIVED_UNIX_S)
    tokens = table.column(Column.PROMPT_TOKENS) + table.column(Column.OUTPUT_TOKENS)
    times = np.concatenate((began, began + table.column(Column.E2E_S)))
    changes = np.concatenate((tokens, -tokens))
    return int(np.cumsum(changes[np.lexsort((changes, times))]).max())  # at one time: ends first, they are negative


def by_hour(table: Table, zone: tzinfo | None = None, *, of_day: bool = False) -> list[Hour]:
    """Every hour with an arrival, in order, in `zone` (None: this machine's); `of_day` puts the days on top of each other."""
    hours = np.floor(table.column(Column.ARRIVED_UNIX_S) / _HOUR_S) * _HOUR_S
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


def _outcomes(table: Table) -> dict[str, int]:
    counts = np.bincount(table.column(Column.OUTCOME).astype(int), minlength=len(table.outcomes))
    found = {name: int(count) for name, count in zip(table.outcomes, counts, strict=True) if count}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
