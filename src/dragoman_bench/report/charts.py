"""Charts by load level: throughput, goodput, latency percentiles, latency by length of text, gaps between tokens.

A bar or a point is the median of the repeats, its whisker their lowest and highest. Percentiles are over completed
requests.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, Point, Results
from dragoman_bench.bench.summary import BANDS, bucket_value
from dragoman_bench.bench.tables import number as formatted
from dragoman_bench.report import style
from dragoman_bench.report.named import Named, any_has, loads_of, of_band, point_at, points_at, spread_over, sustained
from dragoman_bench.report.style import Chart

_LABELLED_BARS = 30  # beyond these, numbers over bars would run into each other
_HATCH = "////"
_MERGED = 4  # 2 % buckets drawn as one of 8 %


@style.styled
def throughput(named: Named) -> Figure:
    """Requests completed a second, and output tokens a second where servers report them, by load level."""
    loads = loads_of(named)
    panels = [("rps", "requests completed a second"), ("output_tokens_s", "output tokens a second")]
    panels = [panel for panel in panels if panel[0] == "rps" or any_has(named, panel[0])]
    figure, axes = style.grid(len(panels), 1, 2.7, _legend(named))
    for (metric, title), [panel] in zip(panels, axes, strict=True):
        _bars(panel, named, loads, metric)
        _from_zero(panel)
        panel.set_title(title)
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


def rates_by_result(named: Named, load: Load, title: str) -> Chart:
    """One bar a result, in their order and coloured by the server's API: requests completed a second at one load."""
    target_of = [named[name].conditions.target for name in points_at(named, load)]
    targets = list(dict.fromkeys(target_of))

    @style.styled
    def draw() -> Figure:
        points = points_at(named, load)
        figure, [[axes]] = style.grid(1, 1, 0.55 + 0.27 * max(1, len(points)))
        for place, point in enumerate(points.values()):
            spread = point.spreads["rps"]
            colour = style.series(targets.index(target_of[place]))
            axes.barh(place, spread.median, 0.68, color=colour, linewidth=0)
            whisker = [[spread.median - spread.low], [spread.high - spread.median]]
            axes.errorbar(spread.median, place, xerr=whisker, ecolor=style.INK, elinewidth=0.9, capsize=2.5)
            style.note(axes, formatted(spread.median), spread.high, place, (5, 0), va="center")
        axes.set_yticks(range(len(points)), list(points))
        axes.set_ylim(len(points) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.1)
        axes.set_xlim(left=0)
        axes.set_xlabel("requests completed a second")
        return figure

    medians = point_medians(named, "rps", " requests/s", [load])
    caption = "One client program, one load; bars are medians of the repeats, whiskers their lowest and highest."
    return Chart("picture", title, caption, f"Bar chart of requests a second. {medians}", draw)


def point_medians(named: Named, metric: str, unit: str, loads: Sequence[Load] | None = None) -> str:
    """A chart's numbers in words, a sentence for each load level."""
    sentences: list[str] = []
    for load in loads if loads is not None else loads_of(named):
        points = points_at(named, load)
        found = [
            f"{name} {formatted(p.spreads[metric].median)}{unit}" for name, p in points.items() if metric in p.spreads
        ]
        if found:
            sentences.append(f"{load.label}: {', '.join(found)}.")
    return " ".join(sentences)


def lines_legend(named: Named, *, markers: bool = True) -> list[Artist]:
    """A line for each result, with the marker that its points have."""
    look = style.marked_line if markers else style.line
    return [Line2D([], [], label=name, **look(place)) for place, name in enumerate(named)]


def _legend(named: Named) -> list[Artist]:
    handles: list[Artist] = [Patch(color=style.series(place), label=name) for place, name in enumerate(named)]
    if any(not sustained(point) for results in named.values() for point in results.points):
        handles.append(Patch(facecolor="none", edgecolor=style.MUTED, hatch=_HATCH, label="hatched: stopped early"))
    return handles


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
    """Leaves space for the numbers over the bars. Fixes the scale, so all bars must be drawn before."""
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
        style.note(axes, formatted(spread.median), x, spread.high, (0, 2.5), ha="center")


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
            axes.hist(edges[:-1], edges, weights=shares, histtype="stepfilled", color=style.series(number), alpha=0.15)
            axes.hist(edges[:-1], edges, weights=shares, histtype="step", **style.line(number))
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


def _range(axes: Axes, x: float, point: Point, band: LengthBand, number: int) -> list[float]:
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
