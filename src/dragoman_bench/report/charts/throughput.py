"""Charts of rates: requests and tokens a second by load level, goodput, and what latency the throughput costs.

A bar is the median of the repeats, its whisker their lowest and highest. Knows results; how they look is `style`'s.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dragoman_bench.bench.results import Load, Point
from dragoman_bench.report.charts import style
from dragoman_bench.report.charts.numbers import number
from dragoman_bench.report.charts.selection import Named, loads_of, point_at, sustained

_LABELLED_BARS = 30  # beyond these, numbers over bars would run into each other
_HATCH = "////"


@style.styled
def throughput(named: Named) -> Figure:
    """Requests completed a second, and output tokens a second where servers report them, by load level."""
    loads = loads_of(named)
    panels = [("rps", "requests completed a second"), ("output_tokens_s", "output tokens a second")]
    panels = [panel for panel in panels if _has(named, panel[0])]
    figure, axes = style.grid(len(panels), 1, 2.7, _legend(named))
    for (metric, told), [panel] in zip(panels, axes, strict=True):
        _bars(panel, named, loads, metric)
        _from_zero(panel)
        panel.set_title(told)
        style.load_axis(panel, loads)
    return figure


@style.styled
def goodput(named: Named) -> Figure:
    """Requests a second within the SLO (filled) of all that completed (outline), by load level."""
    loads = loads_of(named)
    outline = Patch(facecolor="none", edgecolor=style.MUTED, label="all completed requests")
    figure, [[axes]] = style.grid(1, 1, 3.0, [*_legend(named), outline])
    _bars(axes, named, loads, "rps", outline=True)
    _bars(axes, named, loads, "goodput_rps")
    _from_zero(axes)
    axes.set_title("requests within the SLO a second")
    style.load_axis(axes, loads)
    return figure


@style.styled
def latency_against_throughput(named: Named, metric: str = "e2e_p95_s") -> Figure:
    """One line a result through its load levels, in their order: right is more, down is faster.

    Of several results only the last load level is named, so that names do not hide lines.
    """
    figure, [[axes]] = style.grid(1, 1, 3.6, lines_legend(named))
    axes.grid(axis="x")
    seen: list[float] = []
    for place, results in enumerate(named.values()):
        points = [point for load in loads_of(named) if (point := point_at(results, load)) and metric in point.spreads]
        rates = [point.spreads["rps"].median for point in points]
        latencies_s = [point.spreads[metric].median for point in points]
        seen += latencies_s
        axes.plot(rates, latencies_s, **style.marked_line(place))
        for point, x, y in list(zip(points, rates, latencies_s, strict=True))[0 if len(named) == 1 else -1 :]:
            style.note(axes, point.load.label, x, y, (6, -3), color=style.MUTED)
    style.time_axis(axes, seen)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set(xlabel="requests completed a second", ylabel="e2e latency, 95th percentile")
    return figure


def lines_legend(named: Named, *, markers: bool = True) -> list[Artist]:
    """A line for each result, with the marker that its points have."""
    look = style.marked_line if markers else style.line
    return [Line2D([], [], label=name, **look(place)) for place, name in enumerate(named)]


def _legend(named: Named) -> list[Artist]:
    handles: list[Artist] = [Patch(color=style.series(place), label=name) for place, name in enumerate(named)]
    if any(not sustained(point) for results in named.values() for point in results.points):
        told = "hatched: stopped early"
        handles.append(Patch(facecolor="none", edgecolor=style.MUTED, hatch=_HATCH, label=told))
    return handles


def _has(named: Named, metric: str) -> bool:
    return metric == "rps" or any(metric in point.spreads for results in named.values() for point in results.points)


def _bars(axes: Axes, named: Named, loads: Sequence[Load], metric: str, *, outline: bool = False) -> None:
    """One group a load, one bar a result in it; no bar where there is no such point."""
    width = min(0.8 / len(named), 0.34)
    labelled = not outline and len(named) * len(loads) <= _LABELLED_BARS
    for place_in_group, results in enumerate(named.values()):
        offset = (place_in_group - (len(named) - 1) / 2) * width
        for place, load in enumerate(loads):
            point = point_at(results, load)
            if point is not None and metric in point.spreads:
                _bar(axes, place + offset, width * 0.9, point, metric, style.series(place_in_group), outline, labelled)


def _from_zero(axes: Axes) -> None:
    """With room for the numbers over the bars. Fixes the scale: for when all bars are drawn."""
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)


def _bar(
    axes: Axes, x: float, width: float, point: Point, metric: str, colour: str, outline: bool, labelled: bool
) -> None:
    spread = point.spreads[metric]
    if outline:
        axes.bar(x, spread.median, width, facecolor="none", edgecolor=colour, linewidth=1)
        return
    if sustained(point):
        axes.bar(x, spread.median, width, color=colour, linewidth=0)
    else:
        axes.bar(x, spread.median, width, facecolor="none", edgecolor=colour, hatch=_HATCH, linewidth=1)
    if spread.repeats > 1:
        whisker = [[spread.median - spread.low], [spread.high - spread.median]]
        axes.errorbar(x, spread.median, whisker, ecolor=style.INK, elinewidth=0.9, capsize=2.5, capthick=0.9)
    if labelled:
        style.note(axes, number(spread.median), x, spread.high, (0, 2.5), ha="center")
