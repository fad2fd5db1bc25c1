"""The charts of a report: which are drawn, what each is called, what to look for in it, and under what conditions.

Drawing is `charts`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from dragoman_bench.bench.results import Conditions, Load
from dragoman_bench.report import charts
from dragoman_bench.report.charts import Named, Window
from dragoman_bench.report.charts.numbers import number
from dragoman_bench.report.charts.selection import loads_of, points_at
from dragoman_bench.report.differences import commit

README_CHARTS = ("throughput", "latency", "timeline")


@dataclass(frozen=True, slots=True)
class Chart:
    """`slug` is its id in a page and its file's name; `alt` says in words what it shows. `draw` makes a new figure."""

    slug: str
    title: str
    caption: str
    alt: str
    draw: Callable[[], Figure]


def report_charts(named: Named, load: Load | None = None, window: Window | None = None) -> list[Chart]:
    """Those that there is data for. `load`: where single requests are looked at; else the highest that most share."""
    shown = load or charts.shared_load(named)
    return [*_rates(named), *_latencies(named, shown), *_details(named, shown, window or Window())]


def save_pngs(named: Named, folder: Path, charts_: list[Chart]) -> dict[str, Path]:
    """Each chart as a PNG with title, caption and conditions; paths by slug. Raises ConfigError."""
    told = conditions_line(named)
    paths: dict[str, Path] = {}
    for chart in charts_:
        paths[chart.slug] = folder / f"{chart.slug}.png"
        charts.save_png(chart.draw(), paths[chart.slug], chart.title, f"{chart.caption} {told}")
    return paths


def conditions_line(named: Named) -> str:
    """The conditions that all share, in one line; what differs is said to differ."""
    facts: dict[str, Callable[[Conditions], str]] = {
        "machine": lambda c: (
            ", ".join(gpu.name for gpu in c.machine.gpus) or f"{c.machine.cpu}, {c.machine.cores} cores"
        ),
        "model": lambda c: c.model or "model unknown",
        "workload": lambda c: c.workload,
        "seed": lambda c: f"seed {c.seed}",
        "SLO": lambda c: f"SLO {c.slo}" if c.slo else "",
        "commit": lambda c: f"commit {commit(c)}",
    }
    told: list[str] = []
    for name, read in facts.items():
        values = {read(results.conditions) for results in named.values()}
        told.append(values.pop() if len(values) == 1 else f"{name} differs")
    told.append(_repeats(named))
    return "Conditions: " + "; ".join(part for part in told if part) + "."


def _repeats(named: Named) -> str:
    found = {len(point.repeats) for results in named.values() for point in results.points}
    if found == {1}:
        return "measured once"
    return f"{min(found)} repeats" if len(found) == 1 else f"{min(found)} to {max(found)} repeats"


def _rates(named: Named) -> Iterator[Chart]:
    bars = "Bars are medians of the repeats, whiskers their lowest and highest."
    yield Chart(
        "throughput",
        "Throughput by load",
        f"What completed inside the measurement. {bars}",
        f"Bar chart of requests and output tokens a second by load level. {_medians(named, 'rps', ' requests/s')}",
        lambda: charts.throughput(named),
    )
    if _any(named, "goodput_rps"):
        yield Chart(
            "goodput",
            "Goodput by load",
            f"Filled: requests a second that met the SLO; outlined: all that completed. {bars}",
            f"Bar chart of requests a second within the SLO. {_medians(named, 'goodput_rps', ' requests/s')}",
            lambda: charts.goodput(named),
        )
    if len(loads_of(named)) > 1 and _any(named, "e2e_p95_s"):
        yield Chart(
            "latency-against-throughput",
            "Latency against throughput",
            "Each line goes through the load levels in order: to the right is more throughput, downwards is faster.",
            "Line chart of 95th percentile latency over requests a second. The table of all points has its numbers.",
            lambda: charts.latency_against_throughput(named),
        )


def _latencies(named: Named, load: Load) -> Iterator[Chart]:
    if not _any(named, "e2e_p95_s"):
        return
    yield Chart(
        "latency",
        "Latency by load",
        "End to end, from the intended send, of completed requests. Medians of the repeats, whiskers lowest to highest.",
        f"Line charts of latency percentiles by load level. 95th percentile: {_medians(named, 'e2e_p95_s', ' s')}",
        lambda: charts.latency(named),
    )
    yield Chart(
        "latency-ecdf",
        "Latency of all requests",
        "The share of all requests answered within a time. A red cross: the curve ends there, the rest failed.",
        "Cumulative distribution of latency, a panel a load level. The table of all points has its percentiles.",
        lambda: charts.ecdf(named),
    )
    yield Chart(
        "latency-by-length",
        f"Latency by length of text, {load.label}",
        "Where short texts take as long as long ones, they wait for them.",
        "Latency percentiles of short, medium and long texts. The table of latency by length has its numbers.",
        lambda: charts.latency_by_band(named, load),
    )


def _details(named: Named, load: Load, window: Window) -> Iterator[Chart]:
    yield Chart(
        "timeline",
        f"Request by request, {load.label}",
        "One row a request, from send to answer, coloured by the length of its text; panels differ in time scale. Rows "
        "that end together waited for one another: where those are of all lengths, the short ones were held up.",
        "Timeline of consecutive requests, one bar each from send to end, a panel a result.",
        lambda: charts.timeline(named, load, window),
    )
    if charts.has_samples(named, load):
        yield Chart(
            "over-time",
            f"Server and GPU over time, {load.label}",
            "The repeat of median throughput. Lines are means, bands reach from the lowest to the highest sample.",
            "Running and waiting requests, KV cache usage and GPU utilisation over time, a row a result.",
            lambda: charts.over_time(named, load),
        )
    if charts.has_gaps(named, load):
        yield Chart(
            "inter-token-latency",
            f"Inter-token latency, {load.label}",
            "Gaps between the events of streamed answers, all repeats together. A second hump is what stalls a stream.",
            "Histogram of the gaps between streamed events. The table of streaming has its percentiles.",
            lambda: charts.inter_token_latency(named, load),
        )


def _any(named: Named, metric: str) -> bool:
    return any(metric in point.spreads for results in named.values() for point in results.points)


def _medians(named: Named, metric: str, unit: str) -> str:
    """For those who cannot see the chart: its numbers in a sentence a load level."""
    told: list[str] = []
    for load in loads_of(named):
        points = points_at(named, load)
        medians: Mapping[str, float] = {n: p.spreads[metric].median for n, p in points.items() if metric in p.spreads}
        if medians:
            told.append(f"{load.label}: " + ", ".join(f"{name} {number(v)}{unit}" for name, v in medians.items()) + ".")
    return " ".join(told)
