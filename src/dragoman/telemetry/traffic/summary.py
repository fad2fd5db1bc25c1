"""Distributions of recorded texts, as `dragoman traffic show` reports them.

Percentiles are linear between samples; of no samples there is no distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.telemetry.traffic.entry import TrafficEntry, TrafficReader

Floats = NDArray[np.float64]

_MINUTE_S = 60.0
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


def summarise(entries: Sequence[TrafficEntry]) -> TrafficSummary:
    """The window is from the first arrival to the last end. One entry at least is given."""
    arrived = np.array([entry.arrived_unix_s for entry in entries])
    window_s = round(max(entry.arrived_unix_s + entry.e2e_s for entry in entries) - float(arrived.min()), 3)
    ok = [entry for entry in entries if entry.ok]
    translated = [entry for entry in ok if entry.output_tokens]
    _, by_minute = np.unique(np.floor(arrived / _MINUTE_S), return_counts=True)
    return TrafficSummary(
        records=len(entries),
        window_s=window_s,
        arrivals_per_s=len(entries) / window_s if window_s else 0.0,
        busiest_minute_per_s=int(by_minute.max()) / min(_MINUTE_S, window_s) if window_s else 0.0,
        in_flight=quantiles(entry.in_flight for entry in entries),
        source_tokens=quantiles(entry.source_tokens for entry in translated),
        output_tokens=quantiles(entry.output_tokens for entry in translated),
        queue_s=quantiles(entry.queue_s for entry in ok),
        ttft_s=quantiles(entry.ttft_s for entry in ok),
        e2e_s=quantiles(entry.e2e_s for entry in ok),
        peak_tokens=peak_tokens(translated),
        outcomes=dict(Counter(entry.outcome for entry in entries).most_common()),
    )


def quantiles(values: Iterable[float | None]) -> Quantiles | None:
    """The quantiles of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p90, p95, p99, highest = np.percentile(known, _AT).tolist()
    return Quantiles(len(known), p50, p90, p95, p99, highest)


def long_sequence(folder: Path, least: int) -> int | None:
    """The 99th percentile of the tokens of a text's prompt and output; None where fewer than `least` texts were recorded.

    A text of several segments counts as one sequence, so this is rather too long. Raises `ConfigError` for a folder that may
    not be read.
    """
    if not folder.is_dir():
        return None
    tokens = [entry.prompt_tokens + entry.output_tokens for entry in TrafficReader([folder]) if entry.output_tokens]
    return ceil(np.percentile(tokens, 99)) if len(tokens) >= least else None


def peak_tokens(entries: Sequence[TrafficEntry]) -> int | None:
    """The largest sum over texts that overlap in time; one that ends when another comes does not overlap it."""
    if not entries:
        return None
    began = np.array([entry.arrived_unix_s for entry in entries])
    tokens = np.array([entry.prompt_tokens + entry.output_tokens for entry in entries])
    times = np.concatenate((began, began + np.array([entry.e2e_s for entry in entries])))
    changes = np.concatenate((tokens, -tokens))
    return int(np.cumsum(changes[np.lexsort((changes, times))]).max())  # at one time: ends first, they are negative


def with_in_flight_counted(entries: Sequence[TrafficEntry]) -> list[TrafficEntry]:
    """With the texts in flight counted anew from all entries: for those of several recorders that ran at the same time, as
    each recorded only its own share."""
    arrived_unix_s = np.array([entry.arrived_unix_s for entry in entries])
    counts = in_flight_at_arrivals(arrived_unix_s, np.array([entry.e2e_s for entry in entries])).tolist()
    return [replace(entry, in_flight=count) for entry, count in zip(entries, counts, strict=True)]


def in_flight_at_arrivals(arrived_unix_s: Floats, e2e_s: Floats) -> NDArray[np.int64]:
    """For each text the texts, itself included, that had arrived when it did and had not ended: whose time from the arrival
    to before the end covers its arrival. A text that took no time is in flight at its own arrival all the same."""
    ends = np.maximum(arrived_unix_s + e2e_s, np.nextafter(arrived_unix_s, np.inf))
    arrived = np.searchsorted(np.sort(arrived_unix_s), arrived_unix_s, side="right")
    return arrived - np.searchsorted(np.sort(ends), arrived_unix_s, side="right")
