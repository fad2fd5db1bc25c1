"""How recorded traffic is shown: tables and small histograms in a terminal, the same numbers as one JSON document.

Knows rich and summaries; where the texts come from is `cli/traffic.py`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dragoman.telemetry.traffic.entry import TrafficReader
from dragoman.telemetry.traffic.window import Floats, Hour, Quantiles, TrafficColumn, TrafficSummary, TrafficTable

_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR, _SMALL_BAR = 40, 12  # characters
_MOST_PAIRS = 12


@dataclass(frozen=True, slots=True)
class Bin:
    """Whole numbers from `low` to `high`."""

    low: int
    high: int
    count: int

    @property
    def label(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Shown:
    """Everything there is to show of some traffic."""

    reading: TrafficReader
    table: TrafficTable
    summary: TrafficSummary
    hours: Sequence[Hour]
    pairs: Counter[str]
    of_day: bool  # `hours` are of all days together
    counted_anew: bool = False  # texts in flight: over all recorders, not as each counted its own

    @property
    def histograms(self) -> dict[str, list[Bin]]:
        translated = self.table.ok & (self.table.column(TrafficColumn.OUTPUT_TOKENS) > 0)
        return {
            "in_flight": doubling(self.table.column(TrafficColumn.IN_FLIGHT)),
            "source_tokens": doubling(self.table.column(TrafficColumn.SOURCE_TOKENS)[translated]),
            "output_tokens": doubling(self.table.column(TrafficColumn.OUTPUT_TOKENS)[translated]),
        }


def doubling(values: Floats) -> list[Bin]:
    """Counts in bins that double (1, 2, 3-4, 5-8, ...), from the first to the last that holds any."""
    if not len(values):
        return []
    places = np.ceil(np.log2(np.maximum(values, 1))).astype(int)
    counts = np.bincount(places)
    return [
        Bin(2 ** (place - 1) + 1 if place else 1, 2**place, int(counts[place]))
        for place in range(int(places.min()), len(counts))
    ]


def bar(share: float, width: int) -> str:
    """`share` of `width` characters, to an eighth."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def document(shown: Shown) -> dict[str, Any]:
    """For `--json`: everything that is printed, in full."""
    reading = shown.reading
    return {
        "folder": reading.where,
        "recorders": len(reading.spans_unix_s),
        "in_flight_counted_anew": shown.counted_anew,
        "files": reading.files,
        "torn_lines": reading.torn,
        "alien_lines": reading.alien,
        "summary": asdict(shown.summary),
        "pairs": dict(shown.pairs.most_common()),
        "histograms": {name: [asdict(one) for one in bins] for name, bins in shown.histograms.items()},
        "hours_of_day": shown.of_day,
        "hours": [{"hour": hour.label, **asdict(hour.summary)} for hour in shown.hours],
    }


def show(shown: Shown, console: Console) -> None:
    """Print it all."""
    _heading(shown, console)
    console.print(_distributions(shown.summary))
    for name, bins in shown.histograms.items():
        _histogram(_TITLES[name], bins, console)
    _histogram("language pairs", shown.pairs.most_common(_MOST_PAIRS), console)
    console.print()
    console.print(_hours(shown.hours, of_day=shown.of_day))


_TITLES = {
    "in_flight": "texts in flight at an arrival",
    "source_tokens": "source tokens",
    "output_tokens": "output tokens",
}


def _heading(shown: Shown, console: Console) -> None:
    summary, arrived = shown.summary, shown.table.column(TrafficColumn.ARRIVED_UNIX_S)
    first, last = (
        datetime.fromtimestamp(float(at)).strftime("%Y-%m-%d %H:%M:%S") for at in (arrived.min(), arrived.max())
    )
    outcomes = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items())
    files = "one file" if shown.reading.files == 1 else f"{shown.reading.files} files"
    lines = [
        f"{summary.records} texts from {first} to {last} (in {shown.reading.where}, {files}): {outcomes}",
        f"{summary.arrivals_per_s:.3g} texts/s on average, {summary.busiest_minute_per_s:.3g} in the busiest minute",
    ]
    if summary.peak_tokens is not None:
        lines.append(f"{summary.peak_tokens} tokens in flight at the peak (prompts and outputs)")
    if shown.counted_anew:
        lines.append(f"texts in flight are counted over all {len(shown.reading.spans_unix_s)} recorders together")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    console.print()


def _distributions(summary: TrafficSummary) -> RichTable:
    table = RichTable("", "texts", "p50", "p90", "p95", "p99", "max", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    rows: list[tuple[str, Quantiles | None, Callable[[float], str]]] = [
        ("in flight", summary.in_flight, _whole),
        ("source tokens", summary.source_tokens, _whole),
        ("output tokens", summary.output_tokens, _whole),
        ("engine queue", summary.queue_s, _seconds),
        ("TTFT", summary.ttft_s, _seconds),
        ("end to end", summary.e2e_s, _seconds),
    ]
    for name, found, formatted in rows:
        if found is not None:
            values = (found.p50, found.p90, found.p95, found.p99, found.highest)
            table.add_row(name, str(found.count), *map(formatted, values))
    return table


def _histogram(title: str, bins: Iterable[Bin | tuple[str, int]], console: Console) -> None:
    rows = [(one.label, one.count) if isinstance(one, Bin) else one for one in bins]
    if not rows:
        return
    most, width = max(count for _, count in rows), max(len(label) for label, _ in rows)
    console.print(f"\n{title}", style="bold", highlight=False)
    for label, count in rows:
        console.print(f"{label:>{width}} {bar(count / most, _BAR):<{_BAR}} {count}", highlight=False, markup=False)


def _hours(hours: Sequence[Hour], *, of_day: bool) -> RichTable:
    """Fits 80 columns."""
    columns = ("texts", "", "in flight\np50/p95/max", "source tokens\np50/p95", "e2e\np95", "not\nok")
    table = RichTable("hour of day" if of_day else "hour", *columns, box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "right" if column.header else "left"
    most = max((hour.summary.records for hour in hours), default=1)
    for hour in hours:
        summary = hour.summary
        failed = summary.records - summary.outcomes.get("ok", 0)
        table.add_row(
            hour.label if of_day else hour.label[5:],  # the year is in the heading
            str(summary.records),
            bar(summary.records / most, _SMALL_BAR),
            _cell(summary.in_flight, _whole, "p50", "p95", "highest"),
            _cell(summary.source_tokens, _whole, "p50", "p95"),
            _cell(summary.e2e_s, _seconds, "p95"),
            str(failed or ""),
        )
    return table


def _cell(found: Quantiles | None, formatted: Callable[[float], str], *names: str) -> str:
    return "" if found is None else "/".join(formatted(getattr(found, name)) for name in names)


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _seconds(value_s: float) -> str:
    return f"{value_s * 1000:.1f} ms" if value_s < 1 else f"{value_s:.2f} s"
