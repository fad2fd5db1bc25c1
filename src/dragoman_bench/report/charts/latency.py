"""Charts of latency: percentiles by load level, whole distributions, by length of text, and gaps between tokens.

Percentiles are over completed requests, the median of the repeats. The cumulative chart is over all requests: a curve
that ends below 100 % lost the rest. Knows results; how they look is `style`'s.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import ceil

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dragoman_bench.bench.results import Band, Load, Point, Results
from dragoman_bench.bench.summary import BANDS, bucket_value
from dragoman_bench.report.charts import style
from dragoman_bench.report.charts.selection import Named, loads_of, of_band, point_at, points_at, spread_over
from dragoman_bench.report.charts.throughput import lines_legend

PANELS = 6
_STEPS = 300  # of a cumulative curve: more would not be seen
_MERGED = 4  # 2 % buckets drawn as one of 8 %


@style.styled
def latency(named: Named) -> Figure:
    """End-to-end latency at the 50th, 95th and 99th percentile, by load level."""
    loads = loads_of(named)
    figure, [panels] = style.grid(1, 3, 3.2, lines_legend(named), sharey=True)
    seen: list[float] = []
    for axes, percent in zip(panels, (50, 95, 99), strict=True):
        for number, results in enumerate(named.values()):
            shift = (number - (len(named) - 1) / 2) * min(0.08, 0.25 / len(named))
            seen += _percentile_line(axes, results, loads, f"e2e_p{percent}_s", number, shift)
        axes.set_title(f"{percent}th percentile")
        style.load_axis(axes, loads)
    style.time_axis(panels[0], seen)
    return figure


@style.styled
def ecdf(named: Named, loads: Sequence[Load] | None = None) -> Figure:
    """The share of all requests answered within a time, one panel a load level; at most `PANELS`, the highest."""
    shown = list(loads if loads is not None else loads_of(named))[-PANELS:]
    columns = min(3, len(shown))
    rows = ceil(len(shown) / columns)
    figure, grid = style.grid(rows, columns, 2.5, lines_legend(named, markers=False), sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row]
    seen: list[float] = []
    for axes, load in zip(panels, shown, strict=False):
        for number, name in enumerate(named):
            point = point_at(named[name], load)
            if point is not None:
                seen += _cumulative(axes, point, number)
        axes.set_title(load.label)
        axes.set_ylim(0, 1.02)
        style.share_axis(axes)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    style.time_axis(panels[0], seen, "x", ticks=12 // columns)
    for row in grid:
        row[0].set_ylabel("of all requests")
    return figure


@style.styled
def latency_by_band(named: Named, load: Load) -> Figure:
    """End-to-end latency of short, medium and long texts at one load: 50th, 95th and 99th percentile."""
    shapes: list[Artist] = [
        Line2D([], [], color=style.MUTED, marker="o", linestyle="none", label="50th percentile"),
        Line2D([], [], color=style.MUTED, linewidth=4, alpha=0.5, label="to the 95th"),
        Line2D([], [], color=style.MUTED, linewidth=1, label="to the 99th"),
    ]
    names: list[Artist] = [Patch(color=style.series(n), label=name) for n, name in enumerate(named)]
    figure, [[axes]] = style.grid(1, 1, 3.0, [*names, *shapes])
    seen: list[float] = []
    for number, results in enumerate(named.values()):
        point = point_at(results, load)
        for place, band in enumerate(BANDS if point else ()):
            shift = (number - (len(named) - 1) / 2) * min(0.8 / len(named), 0.2)
            seen += _range(axes, place + shift, point, band, number) if point else []
    axes.set_xticks(range(len(BANDS)), [style.BAND_NAMES[band] for band in BANDS])
    axes.set_xlim(-0.6, len(BANDS) - 0.4)
    axes.tick_params(axis="x", length=0)
    style.time_axis(axes, seen)
    axes.set_title(load.label)
    return figure


@style.styled
def inter_token_latency(named: Named, load: Load) -> Figure:
    """How the gaps between streamed events spread, at one load. What was not streamed is not in it."""
    pooled = {name: _gaps(point) for name, point in points_at(named, load).items()}
    figure, [[axes]] = style.grid(
        1, 1, 2.8, [h for h in lines_legend(named, markers=False) if pooled.get(str(h.get_label()))]
    )
    seen: list[float] = []
    for number, name in enumerate(named):
        gaps = pooled.get(name)
        if gaps:
            edges = [bucket_value(bucket * _MERGED) for bucket in range(min(gaps), max(gaps) + 2)]
            shares = [gaps[bucket] / gaps.total() for bucket in range(min(gaps), max(gaps) + 1)]
            axes.stairs(shares, edges, **style.line(number))
            axes.stairs(shares, edges, color=style.series(number), fill=True, alpha=0.15)
            seen += [edges[0], edges[-1]]
    style.time_axis(axes, seen, "x")
    style.share_axis(axes)
    axes.set(xlabel="gap between streamed events", ylabel="of all gaps", ylim=(0, None))
    axes.set_title(load.label)
    return figure


def has_gaps(named: Named, load: Load) -> bool:
    """Whether anything was streamed at this load."""
    return any(_gaps(point) for point in points_at(named, load).values())


def _percentile_line(
    axes: Axes, results: Results, loads: Sequence[Load], metric: str, number: int, shift: float
) -> list[float]:
    """Draws one result, kinds of load apart; returns the values drawn."""
    drawn: list[float] = []
    for _, group in groupby(enumerate(loads), key=lambda item: item[1].kind):
        points = [(place + shift, point) for place, load in group if (point := point_at(results, load))]
        known = [(x, point.spreads[metric]) for x, point in points if metric in point.spreads]
        middles = [spread.median for _, spread in known]
        below = [spread.median - spread.low for _, spread in known]
        above = [spread.high - spread.median for _, spread in known]
        xs = [x for x, _ in known]
        axes.errorbar(xs, middles, [below, above], capsize=2.5, elinewidth=0.9, **style.marked_line(number))
        drawn += middles
    return drawn


def _cumulative(axes: Axes, point: Point, number: int) -> list[float]:
    records = [record for repeat in point.repeats for record in repeat.records]
    latencies_s = sorted(record.e2e_s for record in records if record.completed)
    if not latencies_s:
        return []
    steps = min(_STEPS, len(latencies_s))
    ranks = [ceil(len(latencies_s) * step / steps) for step in range(1, steps + 1)]
    shares = [rank / len(records) for rank in ranks]
    values_s = [latencies_s[rank - 1] for rank in ranks]
    axes.step([values_s[0], *values_s], [0, *shares], where="post", **style.line(number))
    if len(latencies_s) < len(records):
        axes.plot(values_s[-1], shares[-1], marker="x", color=style.ALARM, markersize=6, markeredgewidth=1.8)
    return [values_s[0], values_s[-1]]


def _range(axes: Axes, x: float, point: Point, band: Band, number: int) -> list[float]:
    found = [spread_over(point, of_band(band, name)) for name in ("p50_s", "p95_s", "p99_s")]
    known = [spread.median for spread in found if spread is not None]
    if len(known) < len(found):
        return []
    colour, marker = style.series(number), style.MARKERS[number % len(style.MARKERS)]
    axes.plot([x, x], [known[0], known[2]], color=colour, linewidth=1)
    axes.plot([x, x], [known[0], known[1]], color=colour, linewidth=5, alpha=0.5, solid_capstyle="butt")
    axes.plot(x, known[0], color=colour, marker=marker, markersize=6.5)
    return known


def _gaps(point: Point) -> Counter[int]:
    """All repeats together, in wider buckets."""
    merged: Counter[int] = Counter()
    for repeat in point.repeats:
        for bucket, count in repeat.itl_histogram.items():
            merged[bucket // _MERGED] += count
    return merged
