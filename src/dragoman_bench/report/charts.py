"""The charts of a report: rates and latency by load level, and single requests.

A bar or a point is the median of the repeats, its whisker shows the lowest and the highest. Percentiles are over completed
requests. The chart of requests shows the repeat with median throughput. If short and long rows end on the same vertical
line, short requests waited for long ones: head-of-line blocking.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from math import ceil

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, RequestRecord
from dragoman_bench.bench.summary import BANDS
from dragoman_bench.bench.tables import number as formatted
from dragoman_bench.bench.tables import seconds
from dragoman_bench.report import style
from dragoman_bench.report.named import Named, any_has, loads_of, points_at, shared_load, typical
from dragoman_bench.report.style import Chart

REQUESTS_SHOWN = 80
_LABELLED_BARS = 30  # beyond these, numbers over bars would run into each other
_WAITING_ALPHA = 0.32


def report_charts(named: Named, load: Load | None = None) -> list[Chart]:
    """Return the charts that have data. `load`: the level at which single requests are shown; else the highest common one."""
    return [*_charts_by_load(named), *_charts_at(named, load or shared_load(named))]


def _charts_by_load(named: Named) -> Iterator[Chart]:
    bars = "Bars are medians of the repeats, whiskers their lowest and highest."
    yield Chart(
        slug="throughput",
        title="Throughput by load",
        caption=f"What completed inside the measurement. {bars}",
        alt=f"Bar chart of requests and output tokens a second by load level. {_medians(named, 'rps', ' requests/s')}",
        draw=partial(throughput, named),
    )
    if any_has(named, "e2e_p95_s"):
        yield Chart(
            slug="latency",
            title="Latency by load",
            caption="End to end, from the intended send, of completed requests. Medians of the repeats, whiskers lowest to "
            "highest.",
            alt=f"Latency percentiles by load level. 95th percentile: {_medians(named, 'e2e_p95_s', ' s')}",
            draw=partial(latency, named),
        )


def _charts_at(named: Named, load: Load) -> Iterator[Chart]:
    yield Chart(
        slug="timeline",
        title=f"Request by request, {load.label}",
        caption="One row a request, from send to answer, coloured by the length of its text; panels differ in time scale. "
        "Rows that end together waited for one another: where those are of all lengths, the short ones were held up.",
        alt="Timeline of consecutive requests, one bar each from send to end, a panel a result.",
        draw=partial(timeline, named, load),
    )


def rates_by_result(named: Named, load: Load, title: str) -> Chart:
    """Draw a bar for each result, coloured by the server's API: requests completed a second at one load."""
    points = points_at(named, load)
    apis = [named[name].conditions.target for name in points]

    @style.styled
    def draw() -> Figure:
        figure, [[axes]] = style.grid(1, 1, 0.55 + 0.27 * max(1, len(points)))
        for place, (point, api) in enumerate(zip(points.values(), apis, strict=True)):
            spread, colour = point.spreads["rps"], style.series(list(dict.fromkeys(apis)).index(api))
            axes.barh(place, spread.median, 0.68, color=colour, linewidth=0)
            style.ranges(axes, [place], [spread], axis="x", ecolor=style.INK)
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

    caption = "One client program, one load; bars are medians of the repeats, whiskers their lowest and highest."
    alt = f"Bar chart of requests a second. {_medians(named, 'rps', ' requests/s', [load])}"
    return Chart("picture", title, caption, alt, draw)


def _medians(named: Named, metric: str, unit: str, loads: Sequence[Load] = ()) -> str:
    """A chart's numbers in words, a sentence for each load level."""
    sentences: list[str] = []
    for load in loads or loads_of(named):
        spreads = {name: point.spreads.get(metric) for name, point in points_at(named, load).items()}
        found = [f"{name} {formatted(spread.median)}{unit}" for name, spread in spreads.items() if spread]
        if found:
            sentences.append(f"{load.label}: {', '.join(found)}.")
    return " ".join(sentences)


@style.styled
def throughput(named: Named) -> Figure:
    """Draw requests completed a second, and output tokens a second if servers report them, by load level."""
    panels = {"rps": "requests completed a second"}
    if any_has(named, "output_tokens_s"):
        panels["output_tokens_s"] = "output tokens a second"
    figure, axes = style.grid(len(panels), 1, 2.7, _legend(named))
    for (metric, title), [panel] in zip(panels.items(), axes, strict=True):
        _bars(panel, named, metric)
        panel.set_title(title)
    return figure


def _legend(named: Named) -> list[Artist]:
    return [Patch(color=style.series(place), label=name) for place, name in enumerate(named)]


def _bars(axes: Axes, named: Named, metric: str) -> None:
    """One group a load, one bar a result in it; no bar where there is no such point."""
    loads = loads_of(named)
    width = min(0.8 / len(named), 0.34)
    for place, load in enumerate(loads):
        for number, (name, results) in enumerate(named.items()):
            point = points_at({name: results}, load).get(name)
            spread = point.spreads.get(metric) if point else None
            if point is None or spread is None:
                continue
            x, colour = place + (number - (len(named) - 1) / 2) * width, style.series(number)
            axes.bar(x, spread.median, 0.9 * width, color=colour, linewidth=0)
            if spread.repeats > 1:
                style.ranges(axes, [x], [spread], ecolor=style.INK)
            if len(named) * len(loads) <= _LABELLED_BARS:
                style.note(axes, formatted(spread.median), x, spread.high, (0, 2.5), ha="center")
    style.load_axis(axes, loads)
    axes.margins(y=0.12)  # for the numbers over the bars
    axes.set_ylim(bottom=0)


@style.styled
def latency(named: Named) -> Figure:
    """Draw the 50th, 95th and 99th percentile of end-to-end latency by load level; lines join loads of the same kind."""
    loads = loads_of(named)
    legend = [Line2D([], [], label=name, **style.marked_line(number)) for number, name in enumerate(named)]
    figure, [panels] = style.grid(1, 3, 3.2, legend, sharey=True)
    seen: list[float] = []
    for axes, percent in zip(panels, (50, 95, 99), strict=True):
        for number, (name, results) in enumerate(named.items()):
            shift = (number - (len(named) - 1) / 2) * min(0.08, 0.25 / len(named))
            for _, group in groupby(enumerate(loads), key=lambda item: item[1].kind):
                points = {place + shift: points_at({name: results}, load).get(name) for place, load in group}
                spreads = {x: point.spreads.get(f"e2e_p{percent}_s") for x, point in points.items() if point}
                known = {x: spread for x, spread in spreads.items() if spread is not None}
                style.ranges(axes, list(known), list(known.values()), **style.marked_line(number))
                seen += [spread.median for spread in known.values()]
        axes.set_title(f"{percent}th percentile")
        style.load_axis(axes, loads)
    style.time_axis(panels[0], seen)
    return figure


def middle_requests(records: Sequence[RequestRecord], requests: int) -> list[RequestRecord]:
    """Return consecutive requests by intended send time, from the middle of the run."""
    ordered = sorted(records, key=lambda record: (record.intended_s, record.index))
    first = max(0, (len(ordered) - requests) // 2)
    return ordered[first : first + requests]


@style.styled
def timeline(named: Named, load: Load, requests: int = REQUESTS_SHOWN) -> Figure:
    """Draw a panel for each result with the same number of requests, not the same time. Uses the median repeat."""
    points = points_at(named, load)
    chosen = {name: middle_requests(typical(point).records, requests) for name, point in points.items()}
    columns = {1: 1, 2: 2, 4: 2}.get(len(chosen), 3)
    height_in = 0.9 + 0.032 * max(map(len, chosen.values()))
    every = [record for records in chosen.values() for record in records]
    present: list[LengthBand] = [band for band in BANDS if any(record.band == band for record in every)]
    legend: list[Artist] = [Patch(color=style.BANDS[band], label=style.BAND_NAMES[band]) for band in present]
    if any(record.first_token_s is not None for record in every):
        legend.append(Patch(color=style.MUTED, alpha=_WAITING_ALPHA, label="pale: before the first token"))
    if not all(record.completed for record in every):
        legend.append(Line2D([], [], color=style.ALARM, marker="x", linestyle="none", label="failed"))
    figure, grid = style.grid(ceil(len(chosen) / columns), columns, height_in, legend)
    panels = [axes for row in grid for axes in row]
    for axes, (name, records) in zip(panels, chosen.items(), strict=False):
        _draw_requests(axes, name, records)
    for axes in panels[len(chosen) :]:
        axes.set_visible(False)
    return figure


def _draw_requests(axes: Axes, name: str, records: Sequence[RequestRecord]) -> None:
    """From send to first token pale, from there to the end solid; an answer in one piece is solid from its send, a request
    that failed without a token pale to its end."""
    if not records:
        style.placeholder(axes, "no requests")
        return
    start_s = records[0].intended_s
    end_s = max(record.done_s for record in records) - start_s
    pale: dict[LengthBand, list[tuple[float, float, int]]] = {band: [] for band in BANDS}
    solid: dict[LengthBand, list[tuple[float, float, int]]] = {band: [] for band in BANDS}
    for row, one in enumerate(records):
        sent_s, first_s, done_s = one.sent_s, one.first_token_s, one.done_s
        if sent_s is not None and (first_s is not None or not one.completed):
            pale[one.band].append((sent_s, done_s if first_s is None else first_s, row))
        since_s = sent_s if first_s is None and one.completed else first_s
        if since_s is not None:
            solid[one.band].append((since_s, done_s, row))
    for spans_of, alpha in ((pale, _WAITING_ALPHA), (solid, 1.0)):
        for band, spans in spans_of.items():
            boxes = [
                [
                    (a - start_s, row - 0.36),
                    (b - start_s, row - 0.36),
                    (b - start_s, row + 0.36),
                    (a - start_s, row + 0.36),
                ]
                for a, b, row in spans
            ]
            if boxes:  # one path is one element of SVG instead of hundreds
                path = Path.make_compound_path_from_polys(np.array(boxes))
                axes.add_patch(PathPatch(path, facecolor=style.BANDS[band], alpha=alpha, linewidth=0))
    failed = {row: one.done_s - start_s for row, one in enumerate(records) if not one.completed}
    axes.plot(list(failed.values()), list(failed), "x", color=style.ALARM, markersize=4.5)
    axes.set_xlim(0, end_s * 1.01)
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.set_title(f"{name}\n{len(records)} requests in {seconds(end_s)}")
    axes.set_xlabel("seconds since the first of these")
