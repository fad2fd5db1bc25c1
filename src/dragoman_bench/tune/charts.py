"""The chart of a tune: the ladder's curves over the cap.

A point is the median of its repeats, its whisker their lowest and highest.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
_HEADROOM = 1.18  # over the highest point: the knee's label stands there


def spread(results: Sequence[LevelResult], read: Read) -> Spread | None:
    """Over the repeats; None where one of them lacks the number."""
    values = [value for one in results if (value := read(one)) is not None]
    return spread_of(values) if values and len(values) == len(results) else None


@dataclass(frozen=True, slots=True)
class _Panel:
    """`curves`: label, the number of its colour, and what it reads."""

    title: str
    curves: tuple[tuple[str, int, Read], ...]
    seconds: bool


_TAIL = _Panel(
    "latency, end to end",
    (("95th percentile", 1, lambda one: one.e2e_p95_s), ("99th percentile", 3, lambda one: one.e2e_p99_s)),
    seconds=True,
)
_PANELS = (
    _Panel(
        "requests a second",
        (("all completed", 0, lambda one: one.rps), ("within the SLO (goodput)", 2, lambda one: one.goodput_rps)),
        seconds=False,
    ),
    _TAIL,
    _Panel("decode time per token", (("mean of a token", 4, lambda one: one.decode_s_per_token),), seconds=True),
)


def ladder_chart(found: Ladder, slo: Slo | None) -> Chart:
    """Of a ladder that has a knee."""
    rungs = [rung for rung in found.rungs if rung.results]
    rates = ((rung.cap, spread(rung.results, lambda one: getattr(one, found.metric))) for rung in rungs)
    medians = "; ".join(f"cap {cap}: {number(rate.median)}" for cap, rate in rates if rate)
    return Chart(
        "ladder",
        "The ladder: one engine, more and more requests at once",
        f"{found.clients} clients in a closed loop, at most so many of their requests at the server. The green line marks the "
        f"knee, {found.knee}: the smallest cap equal to the best. Points are medians of the repeats, whiskers their lowest and "
        "highest.",
        f"Line charts over the cap on requests at once. Requests a second: {medians}. Knee: {found.knee}.",
        lambda: draw_ladder(found, rungs, slo),
    )


@style.styled
def draw_ladder(found: Ladder, rungs: Sequence[Rung], slo: Slo | None) -> Figure:
    """A panel for each quantity over the measured caps, the knee as a vertical line, limits on latency as level ones."""
    known = [(panel, [curve for curve in panel.curves if _points(curve, rungs)]) for panel in _PANELS]
    panels = [(panel, curves) for panel, curves in known if curves]
    legend: list[Artist] = [
        Line2D([], [], label=label, **style.marked_line(series)) for _, curves in panels for label, series, _ in curves
    ]
    figure, [row] = style.grid(1, len(panels), 2.35, legend)
    for one, (panel, curves) in zip(row, panels, strict=True):
        _draw_panel(one, panel, curves, rungs)
        if panel is _TAIL and slo is not None:
            _draw_limits(one, slo)
        _caps_axis(one, rungs, found.knee)
    return figure


def _points(curve: tuple[str, int, Read], rungs: Sequence[Rung]) -> list[tuple[int, Spread]]:
    """By the place of the rung."""
    return [(place, found) for place, rung in enumerate(rungs) if (found := spread(rung.results, curve[2]))]


def _draw_panel(axes: Axes, panel: _Panel, curves: Sequence[tuple[str, int, Read]], rungs: Sequence[Rung]) -> None:
    values: list[float] = []
    for curve in curves:
        points = _points(curve, rungs)
        below = [found.median - found.low for _, found in points]
        above = [found.high - found.median for _, found in points]
        places, medians = [place for place, _ in points], [found.median for _, found in points]
        axes.errorbar(places, medians, [below, above], capsize=2.5, elinewidth=0.9, **style.marked_line(curve[1]))
        values += [value for _, found in points for value in (found.low, found.high)]
    if panel.seconds:
        style.time_axis(axes, values, ticks=6)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (1.35 if axes.get_yscale() == "log" else 1.12))
    else:
        axes.set_ylim(0, max(values) * _HEADROOM or 1)
    axes.set_title(panel.title)


def _draw_limits(axes: Axes, slo: Slo) -> None:
    low, high = axes.get_ylim()
    for limit in slo.limits:
        if limit.metric == "e2e" and low < limit.limit_s < high:
            axes.axhline(limit.limit_s, color=style.ALARM, linewidth=1, linestyle=(0, (1, 1.5)), zorder=0.5)
            which = f"p{limit.percentile:g}" if limit.percentile is not None else "each"
            look: dict[str, Any] = {"color": style.ALARM, "xycoords": axes.get_yaxis_transform()}
            style.note(axes, f"SLO, {which}", 0, limit.limit_s, (2, 3), **look)


def _caps_axis(axes: Axes, rungs: Sequence[Rung], knee: int | None) -> None:
    caps = [rung.cap for rung in rungs]
    axes.set_xticks(range(len(caps)), [str(cap) for cap in caps])
    axes.set_xlim(-0.5, len(caps) - 0.5)
    axes.set_xlabel("requests at the server at once, at most")
    axes.tick_params(axis="x", length=0)
    if knee in caps:
        place = caps.index(knee)
        axes.axvline(place, color=style.series(2), linewidth=7, alpha=0.16, zorder=0)
        axes.axvline(place, color=style.series(2), linewidth=1, linestyle=(0, (4, 2)), zorder=0.5)
        left = place < len(caps) - 2
        look: dict[str, Any] = {"color": style.INK, "va": "top", "fontweight": "bold"}
        look |= {"xycoords": axes.get_xaxis_transform(), "ha": "left" if left else "right"}
        style.note(axes, f"knee {knee}", place, 1.0, (5 if left else -5, -2), **look)
