"""The ladder's curves: throughput and goodput, tail, decode time, KV cache and queue over the cap, with the knee marked.

A point is the median of its repeats, its whisker their lowest and highest. Knows a ladder; how it looks is the bench's
`style`.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import Slo
from dragoman_bench.report import style
from dragoman_bench.tune.figures import spread
from dragoman_bench.tune.outcome import Ladder, Rung
from dragoman_bench.tune.points import Seen

Read = Callable[[Seen], float | None]
_COLUMNS = 3
_QUEUE_PLACE = 4  # beside the cache, where all panels are there
_KNEE = style.SERIES[2]
_HEADROOM = 1.18  # over the highest point: the knee's name stands there


@dataclass(frozen=True, slots=True)
class _Curve:
    label: str
    look: int  # number of the series
    read: Read


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    curves: tuple[_Curve, ...]
    times: bool = False
    shares: bool = False


_RATES = _Panel(
    "requests a second",
    (
        _Curve("all completed", 0, lambda seen: seen.rps),
        _Curve("within the SLO (goodput)", 2, lambda seen: seen.goodput_rps),
    ),
)
_TAILS = _Panel(
    "latency, end to end",
    (
        _Curve("95th percentile", 1, lambda seen: seen.e2e_p95_s),
        _Curve("99th percentile", 3, lambda seen: seen.e2e_p99_s),
    ),
    times=True,
)
_DECODE = _Panel("decode time per token", (_Curve("mean", 4, lambda seen: seen.decode_s_per_token),), times=True)
_CACHE = _Panel("KV cache in use, at most", (_Curve("peak", 6, lambda seen: seen.peak_kv_cache_usage),), shares=True)
_GPU = _Panel("GPU utilisation", (_Curve("mean", 5, lambda seen: _share(seen.gpu_mean_percent)),), shares=True)


@style.styled
def ladder(found: Ladder, slo: Slo | None = None) -> Figure:
    """A panel a quantity, over the caps that were measured; the knee is the upright line through all of them, an SLO's
    limit on the whole time a level one."""
    rungs = climbed(found)
    panels = [panel for panel in (_RATES, _TAILS, _DECODE, _CACHE, _GPU) if _told(panel, rungs)]
    columns, cells = _COLUMNS, len(panels) + 1
    figure, grid = style.grid(ceil(cells / columns), columns, 2.35, _legend(found, panels))
    flat = [axes for row in grid for axes in row]
    places = [*range(len(panels))]
    queue_at = min(_QUEUE_PLACE, len(panels))
    places = [place if place < queue_at else place + 1 for place in places]
    for place, panel in zip(places, panels, strict=True):
        _draw(flat[place], panel, rungs)
        if panel is _TAILS and slo is not None:
            _limits(flat[place], slo)
    _queue(flat[queue_at], found, rungs)
    for axes in flat[:cells]:
        _caps(axes, rungs, found.knee)
    for axes in flat[cells:]:
        axes.set_visible(False)
    return figure


def climbed(found: Ladder) -> list[Rung]:
    """The rungs that were measured."""
    return [rung for rung in found.rungs if rung.seen]


def _told(panel: _Panel, rungs: Sequence[Rung]) -> bool:
    return any(curve.read(seen) is not None for curve in panel.curves for rung in rungs for seen in rung.seen)


def _draw(axes: Axes, panel: _Panel, rungs: Sequence[Rung]) -> None:
    drawn: list[Spread] = []
    for curve in panel.curves:
        drawn += _curve(axes, rungs, curve)
    highest = max((found.high for found in drawn), default=0.0)
    if panel.times:
        style.time_axis(axes, [value for found in drawn for value in (found.low, found.high)], ticks=6)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (1.35 if axes.get_yscale() == "log" else 1.12))
    else:
        axes.set_ylim(0, highest * _HEADROOM or 1)
    if panel.shares:
        style.share_axis(axes)
    axes.set_title(panel.title)


def _limits(axes: Axes, slo: Slo) -> None:
    low, high = axes.get_ylim()
    for limit in slo.limits:
        if limit.metric == "e2e" and low < limit.limit_s < high:
            axes.axhline(limit.limit_s, color=style.ALARM, linewidth=1, linestyle=(0, (1, 1.5)), zorder=0.5)
            which = f"p{limit.percentile:g}" if limit.percentile is not None else "each"
            look: dict[str, Any] = {"color": style.ALARM, "xycoords": axes.get_yaxis_transform()}
            style.note(axes, f"SLO, {which}", 0, limit.limit_s, (2, 3), **look)


def _curve(axes: Axes, rungs: Sequence[Rung], curve: _Curve) -> list[Spread]:
    known = [(place, found) for place, rung in enumerate(rungs) if (found := spread(rung.seen, curve.read))]
    if not known:
        return []
    middles = [found.median for _, found in known]
    whiskers = [[found.median - found.low for _, found in known], [found.high - found.median for _, found in known]]
    axes.errorbar(
        [place for place, _ in known], middles, whiskers, capsize=2.5, elinewidth=0.9, **style.marked_line(curve.look)
    )
    return [found for _, found in known]


def _queue(axes: Axes, found: Ladder, rungs: Sequence[Rung]) -> None:
    """Waiting: in front of the server for a place under the cap, and in the engine for a slot."""
    outside = [max(0, found.clients - rung.cap) for rung in rungs]
    inside = [(_middle(rung, lambda seen: seen.mean_waiting) or 0.0) for rung in rungs]
    places = range(len(rungs))
    axes.bar(places, outside, 0.6, color=style.series(7), alpha=0.45, linewidth=0)
    axes.bar(places, inside, 0.6, bottom=outside, color=style.series(1), linewidth=0)
    axes.set_ylim(0, max([a + b for a, b in zip(outside, inside, strict=True)] or [1]) * _HEADROOM or 1)
    axes.set_title("requests that wait")


def _caps(axes: Axes, rungs: Sequence[Rung], knee: int | None) -> None:
    caps = [rung.cap for rung in rungs]
    axes.set_xticks(range(len(caps)), [str(cap) for cap in caps])
    axes.set_xlim(-0.5, len(caps) - 0.5)
    axes.set_xlabel("requests at the server at once, at most")
    axes.tick_params(axis="x", length=0)
    if knee in caps:
        at = caps.index(knee)
        axes.axvline(at, color=_KNEE, linewidth=7, alpha=0.16, zorder=0)
        axes.axvline(at, color=_KNEE, linewidth=1, linestyle=(0, (4, 2)), zorder=0.5)
        look: dict[str, Any] = {"color": style.INK, "va": "top", "fontweight": "bold"}
        look |= {"xycoords": axes.get_xaxis_transform(), "ha": "left" if at < len(caps) - 2 else "right"}
        style.note(axes, f"knee {knee}", at, 1.0, (5 if at < len(caps) - 2 else -5, -2), **look)


def _legend(found: Ladder, panels: Iterable[_Panel]) -> list[Artist]:
    handles: list[Artist] = [
        Line2D([], [], label=curve.label, **style.marked_line(curve.look))
        for panel in panels
        if panel in (_RATES, _TAILS)
        for curve in panel.curves
        if _told(_Panel("", (curve,)), climbed(found))
    ]
    handles.append(Patch(color=style.series(7), alpha=0.45, label="waiting for the cap"))
    handles.append(Patch(color=style.series(1), label="waiting in the engine, mean"))
    return handles


def _middle(rung: Rung, read: Read) -> float | None:
    found = spread(rung.seen, read)
    return found.median if found else None


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
