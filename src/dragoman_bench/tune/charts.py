"""The charts of a tune: the ladder's curves over the cap, and the final.

A point is the median of its repeats, its whisker their lowest and highest.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dragoman_bench.bench.summary import Slo, parse_slo
from dragoman_bench.bench.tables import number
from dragoman_bench.report import style
from dragoman_bench.report.style import Chart
from dragoman_bench.tune.outcome import Final, FinalEntry, Ladder, Rung, Tuning
from dragoman_bench.tune.tables import Read, spread

_COLUMNS = 3
_GREY = style.series(7)
_HEADROOM = 1.18  # over the highest point: the knee's label stands there


@dataclass(frozen=True, slots=True)
class _Curve:
    label: str
    series: int
    read: Read


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    curves: tuple[_Curve, ...]
    unit: str = ""  # s, share, or a plain number


_TAIL = _Panel(
    "latency, end to end",
    (
        _Curve("95th percentile", 1, lambda one: one.e2e_p95_s),
        _Curve("99th percentile", 3, lambda one: one.e2e_p99_s),
    ),
    "s",
)
_RATE = _Panel(
    "requests a second",
    (
        _Curve("all completed", 0, lambda one: one.rps),
        _Curve("within the SLO (goodput)", 2, lambda one: one.goodput_rps),
    ),
)
_PANELS = (
    _RATE,
    _TAIL,
    _Panel("decode time per token", (_Curve("mean", 4, lambda one: one.decode_s_per_token),), "s"),
    _Panel("KV cache usage, highest", (_Curve("peak", 6, lambda one: one.peak_kv_cache_usage),), "share"),
    _Panel("GPU utilisation", (_Curve("mean", 5, lambda one: (one.gpu_mean_percent or 0) / 100 or None),), "share"),
)


def charts(tuning: Tuning) -> dict[str, Chart]:
    """Those that there is data for, by the slug of the table that they belong to."""
    found: dict[str, Chart] = {}
    if tuning.ladder is not None and any(rung.results for rung in tuning.ladder.rungs):
        found["rungs"] = _ladder_chart(tuning.ladder, parse_slo(tuning.slo) if tuning.slo else None)
    if tuning.final is not None and any(entry.busy for entry in tuning.final.entries):
        chosen = tuning.recommendation.candidate if tuning.recommendation else ""
        found["final"] = _final_chart(tuning.final, tuning.demand.levels.busy, chosen)
    return found


def _ladder_chart(found: Ladder, slo: Slo | None) -> Chart:
    rungs = [rung for rung in found.rungs if rung.results]
    medians = "; ".join(
        f"cap {rung.cap}: {number(rate.median)}"
        for rung in rungs
        if (rate := spread(rung.results, lambda one: getattr(one, found.metric)))
    )
    knee = f"The green line marks the knee, {found.knee}: the smallest cap equal to the best. " if found.knee else ""
    return Chart(
        "ladder",
        "The ladder: one engine, more and more requests at once",
        f"{found.clients} clients in a closed loop, at most so many of their requests at the server. {knee}"
        "Points are medians of the repeats, whiskers their lowest and highest.",
        f"Line charts over the cap on requests at once. Requests a second: {medians}. Knee: {found.knee}.",
        lambda: draw_ladder(found, rungs, slo),
    )


@style.styled
def draw_ladder(found: Ladder, rungs: Sequence[Rung], slo: Slo | None) -> Figure:
    """A panel for each quantity over the measured caps, the knee as a vertical line, limits on latency as level ones."""
    panels = [panel for panel in _PANELS if any(_known(curve, rungs) for curve in panel.curves)]
    cells = len(panels) + 1
    figure, grid = style.grid(ceil(cells / _COLUMNS), _COLUMNS, 2.35, _ladder_legend(rungs))
    axes = [one for row in grid for one in row]
    for place, panel in enumerate(panels):
        _draw_panel(axes[place], panel, rungs)
        if panel is _TAIL and slo is not None:
            _draw_limits(axes[place], slo)
    _draw_waiting(axes[len(panels)], found, rungs)
    for one in axes[:cells]:
        _caps_axis(one, rungs, found.knee)
    for one in axes[cells:]:
        one.set_visible(False)
    return figure


def _known(curve: _Curve, rungs: Sequence[Rung]) -> bool:
    return any(spread(rung.results, curve.read) for rung in rungs)


def _draw_panel(axes: Axes, panel: _Panel, rungs: Sequence[Rung]) -> None:
    values: list[float] = []
    for curve in panel.curves:
        known = [(place, found) for place, rung in enumerate(rungs) if (found := spread(rung.results, curve.read))]
        if known:
            medians = [found.median for _, found in known]
            below = [found.median - found.low for _, found in known]
            above = [found.high - found.median for _, found in known]
            look = style.marked_line(curve.series)
            axes.errorbar([place for place, _ in known], medians, [below, above], capsize=2.5, elinewidth=0.9, **look)
            values += [value for _, found in known for value in (found.low, found.high)]
    if panel.unit == "s":
        style.time_axis(axes, values, ticks=6)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (1.35 if axes.get_yscale() == "log" else 1.12))
    else:
        axes.set_ylim(0, max(values) * _HEADROOM or 1)
    if panel.unit == "share":
        style.share_axis(axes)
    axes.set_title(panel.title)


def _draw_limits(axes: Axes, slo: Slo) -> None:
    low, high = axes.get_ylim()
    for limit in slo.limits:
        if limit.metric == "e2e" and low < limit.limit_s < high:
            axes.axhline(limit.limit_s, color=style.ALARM, linewidth=1, linestyle=(0, (1, 1.5)), zorder=0.5)
            which = f"p{limit.percentile:g}" if limit.percentile is not None else "each"
            look: dict[str, Any] = {"color": style.ALARM, "xycoords": axes.get_yaxis_transform()}
            style.note(axes, f"SLO, {which}", 0, limit.limit_s, (2, 3), **look)


def _draw_waiting(axes: Axes, found: Ladder, rungs: Sequence[Rung]) -> None:
    """In front of the server because of the cap, and in the engine for a sequence."""
    outside = [max(0, found.clients - rung.cap) for rung in rungs]
    waiting = [spread(rung.results, lambda one: one.mean_waiting) for rung in rungs]
    inside = [one.median if one else 0.0 for one in waiting]
    places = range(len(rungs))
    axes.bar(places, outside, 0.6, color=_GREY, alpha=0.45, linewidth=0)
    axes.bar(places, inside, 0.6, bottom=outside, color=style.series(1), linewidth=0)
    axes.set_ylim(0, max(a + b for a, b in zip(outside, inside, strict=True)) * _HEADROOM or 1)
    axes.set_title("requests that wait")


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


def _ladder_legend(rungs: Sequence[Rung]) -> list[Artist]:
    lines: list[Artist] = [
        Line2D([], [], label=curve.label, **style.marked_line(curve.series))
        for panel in (_RATE, _TAIL)
        for curve in panel.curves
        if _known(curve, rungs)
    ]
    lines.append(Patch(color=_GREY, alpha=0.45, label="waiting for the cap"))
    return [*lines, Patch(color=style.series(1), label="waiting in the engine, mean")]


def _final_chart(found: Final, clients: int, chosen: str) -> Chart:
    rates = "; ".join(
        f"{_short(entry)} {number(rate.median)}"
        for entry in found.entries
        if (rate := spread(entry.busy, lambda one: getattr(one, found.metric)))
    )
    how = "All servers were up and measured in turn" if found.together else "One server was up at a time"
    return Chart(
        "candidates",
        "The final: what was found, and the baselines",
        f"{clients} clients. {how}; the order turned from round to round. Green: what is recommended. More requests are "
        "better, more seconds are worse.",
        f"Requests a second by configuration: {rates}.",
        lambda: draw_final(found, chosen),
    )


@style.styled
def draw_final(found: Final, chosen: str) -> Figure:
    """A row for each candidate: its rate and its tail latency; every round is a point, those of `chosen` green."""
    shown = [entry for entry in found.entries if entry.busy]
    legend: list[Artist] = [
        Line2D([], [], color=style.INK, marker="|", markersize=11, linestyle="none", label="median"),
        Line2D([], [], color=style.MUTED, marker="o", linestyle="none", alpha=0.5, label="each round"),
    ]
    figure, [[rates, tails]] = style.grid(1, 2, 0.75 + 0.34 * len(shown), legend, sharey=True)
    _draw_rows(rates, shown, chosen, lambda one: getattr(one, found.metric))
    _draw_rows(tails, shown, chosen, lambda one: one.e2e_p95_s)
    within = "within the SLO " if found.metric == "goodput_rps" else ""
    rates.set_title(f"requests {within}a second")
    tails.set_title("95th percentile, end to end")
    style.time_axis(tails, [value for e in shown for one in e.busy if (value := one.e2e_p95_s)], "x", ticks=5)
    rates.set_xlim(0, 1.1 * max(getattr(one, found.metric) or 0.0 for entry in shown for one in entry.busy) or 1)
    rates.set_yticks(range(len(shown)), [_short(entry) for entry in shown])
    rates.set_ylim(len(shown) - 0.4, -0.6)
    return figure


def _draw_rows(axes: Axes, shown: Sequence[FinalEntry], chosen: str, read: Read) -> None:
    for place, entry in enumerate(shown):
        found = spread(entry.busy, read)
        if found is None:
            continue
        colour = style.series(2) if entry.candidate.name == chosen else _GREY
        values = [value for one in entry.busy if (value := read(one)) is not None]
        axes.plot([found.low, found.high], [place, place], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.5, markersize=5)
        axes.plot(found.median, place, "|", color=style.INK, markersize=13, markeredgewidth=1.8)
        style.note(axes, number(found.median), found.median, place, (0, 9), ha="center")
    axes.grid(axis="x")
    axes.margins(x=0.12)


def _short(entry: FinalEntry) -> str:
    return entry.candidate.title.split(",")[0].replace("`", "")
