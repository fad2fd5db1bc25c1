"""Every point in numbers: throughput and latency, by length of text, streaming, and how busy everything was.

A cell is the median of the repeats and, in brackets, their lowest and highest. Tables know neither HTML nor Markdown;
columns that no point has a number for are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman_bench.bench.results import Band, Point, Results, Summary
from dragoman_bench.bench.summary import BANDS
from dragoman_bench.report.cells import EMPTY, Cell, count, spread
from dragoman_bench.report.charts.numbers import number
from dragoman_bench.report.charts.selection import Named, failed_share, loads_of, of_band, point_at, spread_over
from dragoman_bench.report.flags import flags_of


@dataclass(frozen=True, slots=True)
class Row:
    """The first two cells head the row: the load, and whose point it is (`number`-th of the results)."""

    load: str
    name: str
    number: int
    cells: tuple[Cell, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """`slug` is the table's id in a page."""

    slug: str
    title: str
    told: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Read = Callable[[Results, Point], Cell]
Column = tuple[str, Read]


def tables(named: Named) -> list[Table]:
    """All of them but those without a single number."""
    brackets = "Median of the repeats [lowest..highest]."
    made = [
        _table("points", "Throughput and latency", f"{brackets} Latency is of completed requests.", named, _POINTS),
        _table("outcomes", "Goodput and failures", f"{brackets} Requests of all repeats.", named, _OUTCOMES),
        _table("bands", "Latency by length of the source text", "End to end, seconds: p50 / p95 / p99.", named, _BANDS),
        _table("streaming", "Streaming", f"{brackets} Milliseconds. ITL counts gaps between events.", named, _STREAM),
        _table("busy", "How busy everything was", _BUSY_TOLD, named, _BUSY),
    ]
    return [table for table in made if table.columns]


def failures(point: Point) -> Cell:
    """The share of requests that failed, and by kind how many."""
    kinds: Counter[str] = Counter()
    for repeat in point.repeats:
        kinds.update({str(kind): found for kind, found in repeat.summary.errors.items()})
    if not kinds:
        return Cell("0")
    told = ", ".join(f"{found} {kind.replace('_', ' ')}" for kind, found in kinds.most_common())
    return Cell(f"{failed_share(point):.2%}", told, "bad")


def _table(slug: str, title: str, told: str, named: Named, columns: Sequence[Column]) -> Table:
    at = [
        (load, name, place, results, point)
        for load in loads_of(named)
        for place, (name, results) in enumerate(named.items())
        if (point := point_at(results, load)) is not None
    ]
    cells = [[read(results, point) for _, read in columns] for _, _, _, results, point in at]
    kept = [column for column in range(len(columns)) if any(not row[column].empty for row in cells)]
    rows = tuple(
        Row(load.label, name, place, tuple(row[column] for column in kept), flags_of(results, point))
        for (load, name, place, results, point), row in zip(at, cells, strict=True)
    )
    return Table(slug, title, told, tuple(columns[column][0] for column in kept), rows)


def _spread(metric: str, times: float = 1.0, unit: str = "") -> Read:
    return lambda _, point: spread(point.spreads.get(metric), times, unit)


def _over(read: Callable[[Summary], float | None], times: float = 1.0, unit: str = "") -> Read:
    return lambda _, point: spread(spread_over(point, read), times, unit)


def _slo(_: Results, point: Point) -> Cell:
    met = [repeat.summary.slo_met for repeat in point.repeats]
    missed = {v.limit for repeat in point.repeats for v in repeat.summary.verdicts if not v.met}
    if None in met:
        return EMPTY
    if all(met):
        return Cell("met", tone="good")
    told = "missed" if not any(met) else f"met in {sum(map(bool, met))} of {len(met)}"
    return Cell(told, "; ".join(sorted(missed)), "bad")


def _band(band: Band) -> Read:
    def read(_: Results, point: Point) -> Cell:
        found = [spread_over(point, of_band(band, name)) for name in ("p50_s", "p95_s", "p99_s")]
        requests = sum(repeat.summary.bands[band].requests for repeat in point.repeats if band in repeat.summary.bands)
        known = [number(each.median) for each in found if each is not None]
        return Cell(" / ".join(known), f"{requests} requests") if len(known) == len(found) else EMPTY

    return read


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


_POINTS: tuple[Column, ...] = (
    ("req/s", _spread("rps")),
    ("output tok/s", _spread("output_tokens_s")),
    ("p50 s", _spread("e2e_p50_s")),
    ("p90 s", _spread("e2e_p90_s")),
    ("p95 s", _spread("e2e_p95_s")),
    ("p99 s", _spread("e2e_p99_s")),
    ("max s", _over(lambda summary: summary.e2e.max_s if summary.e2e else None)),
)
_OUTCOMES: tuple[Column, ...] = (
    ("goodput req/s", _spread("goodput_rps")),
    ("within the SLO", _spread("attained_share", 100, "%")),
    ("SLO", _slo),
    ("requests", lambda _, point: count(sum(repeat.summary.requests for repeat in point.repeats))),
    ("failed", lambda _, point: failures(point)),
)
_BANDS: tuple[Column, ...] = tuple((band, _band(band)) for band in BANDS)
_STREAM: tuple[Column, ...] = tuple(
    (f"{name.upper()} {percentile}", _spread(f"{name}_{percentile}_s", 1000))
    for name in ("ttft", "itl", "tpot")
    for percentile in ("p50", "p95", "p99")
)
_BUSY_TOLD = (
    "Engine busy: the share of time in which it ran a step. GPU: NVML's share of time in which a kernel ran, on average, "
    "and the shares of samples below 10 % and above 80 %. Client: of one core."
)
_BUSY: tuple[Column, ...] = (
    ("engine busy", _spread("engine_busy_share", 100, "%")),
    ("in flight", _spread("mean_in_flight")),
    ("running", _over(lambda summary: _rounded(summary.mean_running))),
    ("waiting", _over(lambda summary: _rounded(summary.mean_waiting))),
    ("most waiting", _over(lambda summary: summary.peak_waiting)),
    ("KV cache peak", _over(lambda summary: summary.peak_kv_cache_usage, 100, "%")),
    ("preemptions", _over(lambda summary: summary.preemptions)),
    ("GPU mean", _spread("gpu_mean_percent", 1, "%")),
    ("GPU < 10 %", _over(lambda summary: summary.gpu_share_below_10, 100, "%")),
    ("GPU > 80 %", _over(lambda summary: summary.gpu_share_above_80, 100, "%")),
    ("client CPU", lambda _, point: Cell(f"{max(repeat.client.cpu_share for repeat in point.repeats):.0%}")),
    ("sent late, p99 ms", lambda _, point: Cell(number(1000 * max(r.client.lag_p99_s for r in point.repeats)))),
)
