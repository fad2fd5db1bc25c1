"""The chart of a tune: the ladder's curves over the cap.

A point is the median of the repeats, its whisker shows the lowest and the highest.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import Slo, spread_of
from dragoman_bench.bench.tables import number
from dragoman_bench.report import style
from dragoman_bench.report.style import Chart
from dragoman_bench.tune.outcome import Ladder, LevelResult, Rung

Read = Callable[[LevelResult], float | None]
_TAIL = "latency, end to end"
_PANELS: dict[str, dict[str, Read]] = {
    "requests a second": {
        "all completed": lambda one: one.rps,
        "within the SLO (goodput)": lambda one: one.goodput_rps,
    },
    _TAIL: {
        "95th percentile": lambda one: one.e2e_p95_s,
        "99th percentile": lambda one: one.e2e_p99_s,
    },
    "decode time per token": {
        "mean of a token": lambda one: one.decode_s_per_token,
    },
}
"""Curves by their labels, by the title of their panel."""
_COLOURS = {label: colour for colour, label in enumerate(label for curves in _PANELS.values() for label in curves)}


def spread(results: Sequence[LevelResult], read: Read) -> Spread | None:
    """Return the spread over the repeats; None if one of them lacks the number."""
    values = [value for one in results if (value := read(one)) is not None]
    return spread_of(values) if values and len(values) == len(results) else None


def ladder_chart(found: Ladder, slo: Slo | None) -> Chart:
    """Return the chart of a ladder that has a knee."""
    rungs = [rung for rung in found.rungs if rung.results]
    rates = ((rung.cap, spread(rung.results, lambda one: getattr(one, found.metric))) for rung in rungs)
    medians = "; ".join(f"cap {cap}: {number(rate.median)}" for cap, rate in rates if rate)
    return Chart(
        "ladder",
        "The ladder: one engine, more and more requests at once",
        f"{found.clients} clients in a closed loop, at most so many of their requests at the server. The green line marks the "
        f"knee, {found.knee}: the smallest cap equal to the best. Dotted: the SLO's limits. Points are medians of the repeats, "
        "whiskers their lowest and highest.",
        f"Line charts over the cap on requests at once. Requests a second: {medians}. Knee: {found.knee}.",
        lambda: draw_ladder(found, rungs, slo),
    )


@style.styled
def draw_ladder(found: Ladder, rungs: Sequence[Rung], slo: Slo | None) -> Figure:
    """Draw a panel for each quantity over the caps, the knee as a vertical line, latency limits as horizontal lines."""
    panels: dict[str, dict[str, list[Spread | None]]] = {}
    for title, curves in _PANELS.items():
        points = {label: [spread(rung.results, read) for rung in rungs] for label, read in curves.items()}
        if known := {label: values for label, values in points.items() if any(values)}:
            panels[title] = known
    labels = [label for curves in panels.values() for label in curves]
    legend: list[Artist] = [Line2D([], [], label=label, **style.marked_line(_COLOURS[label])) for label in labels]
    figure, [row] = style.grid(1, len(panels), 2.35, legend)
    caps = [rung.cap for rung in rungs]
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        _draw_panel(axes, title, curves)
        for limit in slo.limits if slo is not None and title == _TAIL else ():
            if limit.metric == "e2e" and limit.limit_s < axes.get_ylim()[1]:
                axes.axhline(limit.limit_s, color=style.ALARM, linewidth=1, linestyle=(0, (1, 1.5)), zorder=0.5)
        if found.knee in caps:
            axes.axvline(caps.index(found.knee), color=style.series(2), linewidth=7, alpha=0.16, zorder=0)
        axes.set_xticks(range(len(caps)), [str(cap) for cap in caps])
        axes.set_xlim(-0.5, len(caps) - 0.5)
        axes.set_xlabel("requests at the server at once, at most")
    return figure


def _draw_panel(axes: Axes, title: str, curves: dict[str, list[Spread | None]]) -> None:
    for label, values in curves.items():
        known = {place: value for place, value in enumerate(values) if value is not None}
        style.ranges(axes, list(known), list(known.values()), **style.marked_line(_COLOURS[label]))
    bounds = [bound for values in curves.values() for value in values if value for bound in (value.low, value.high)]
    if title == "requests a second":
        axes.set_ylim(0, max(bounds) * 1.1 or 1)
    else:
        style.time_axis(axes, bounds, ticks=6)
    axes.set_title(title)
