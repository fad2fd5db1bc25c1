"""Charts over time: what server and GPU reported while they were measured, and single requests from send to end.

Both show the repeat of median throughput. Where there are more samples than a line can show, the line is their mean and
the band behind it reaches from the lowest to the highest, so that no idle gap is averaged away. In the chart of requests,
short rows that end on one vertical line with long ones waited for them: head-of-line blocking.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, Measurement, RequestRecord
from dragoman_bench.bench.summary import BANDS
from dragoman_bench.bench.tables import seconds
from dragoman_bench.report import style
from dragoman_bench.report.named import Named, points_at, typical

_BINS = 160
Samples = Sequence[tuple[float, float]]
_RUNNING, _WAITING = style.SERIES[6], style.SERIES[1]
_CACHE, _GPU = style.SERIES[4], style.SERIES[2]


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    colour: str
    read: Callable[[Measurement], Iterable[tuple[float, float | None]]]

    def samples(self, measurement: Measurement) -> Samples:
        """Those inside the window."""
        read = self.read(measurement)
        return [(t_s, value) for t_s, value in read if value is not None and 0 <= t_s <= measurement.window_s]


_COLUMNS: tuple[tuple[str, bool, tuple[_Line, ...]], ...] = (
    (
        "requests in the server",
        False,
        (
            _Line("running", _RUNNING, lambda m: ((s.t_s, s.running) for s in m.server)),
            _Line("waiting", _WAITING, lambda m: ((s.t_s, s.waiting) for s in m.server)),
        ),
    ),
    ("KV cache in use", True, (_Line("KV cache", _CACHE, lambda m: ((s.t_s, s.kv_cache_usage) for s in m.server)),)),
    (
        "GPU utilisation",
        True,
        (_Line("GPU", _GPU, lambda m: ((s.t_s, s.utilisation_percent / 100) for s in m.gpu)),),
    ),
)


@style.styled
def over_time(named: Named, load: Load) -> Figure:
    """Running and waiting requests, KV cache usage and GPU utilisation at one load; a row a result."""
    measured = {name: typical(point) for name, point in points_at(named, load).items()}
    columns = [column for column in _COLUMNS if _has_samples(column[2], measured.values())] or [_COLUMNS[0]]
    lines = [line for _, _, lines in columns for line in lines]
    legend: list[Artist] = [Line2D([], [], color=line.colour, label=line.label, linewidth=3) for line in lines]
    figure, grid = style.grid(len(measured), len(columns), 1.6, legend, sharey="col")
    for row, (name, measurement) in zip(grid, measured.items(), strict=True):
        for axes, (title, share, of_column) in zip(row, columns, strict=True):
            _samples_panel(axes, of_column, measurement, share)
            axes.set_title(name if axes is row[0] else "")
            axes.set_ylabel(title)
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    for axes, (_, share, lines) in zip(grid[0], columns, strict=True):  # the rows share their columns' scales
        axes.set_ylim(0, 1.03 if share else _highest(lines, measured.values()) * 1.08)
    return figure


def has_samples(named: Named, load: Load) -> bool:
    """Whether a server or a GPU reported anything at this load."""
    measured = [typical(point) for point in points_at(named, load).values()]
    return any(_has_samples(lines, measured) for _, _, lines in _COLUMNS)


def binned(samples: Samples, bins: int = _BINS) -> list[tuple[float, float, float, float]]:
    """(time, lowest, mean, highest) in at most `bins` equal spans of time; samples as they are where they are fewer."""
    if len(samples) <= bins:
        return [(t_s, value, value, value) for t_s, value in samples]
    start_s, end_s = samples[0][0], samples[-1][0]
    groups: dict[int, list[tuple[float, float]]] = {}
    for t_s, value in samples:
        place = min(bins - 1, int((t_s - start_s) / (end_s - start_s) * bins)) if end_s > start_s else 0
        groups.setdefault(place, []).append((t_s, value))
    drawn: list[tuple[float, float, float, float]] = []
    for group in groups.values():
        values = [value for _, value in group]
        drawn.append((fmean(t_s for t_s, _ in group), min(values), fmean(values), max(values)))
    return drawn


def _has_samples(lines: Sequence[_Line], measured: Iterable[Measurement]) -> bool:
    return any(line.samples(measurement) for measurement in measured for line in lines)


def _highest(lines: Sequence[_Line], measured: Iterable[Measurement]) -> float:
    return max((value for m in measured for line in lines for _, value in line.samples(m)), default=0.0) or 1.0


def _samples_panel(axes: Axes, lines: Sequence[_Line], measurement: Measurement, share: bool) -> None:
    axes.set_xlim(0, max(measurement.window_s, 1e-3))
    if share:
        axes.set_yticks([0, 0.5, 1])
        style.share_axis(axes)
    known = False
    for line in lines:
        drawn = binned(line.samples(measurement))
        if drawn:
            known = True
            times, low, mean, high = zip(*drawn, strict=True)
            axes.fill_between(times, low, high, color=line.colour, alpha=0.22, linewidth=0)
            axes.plot(times, mean, color=line.colour, linewidth=1.1)
    if not known:
        style.placeholder(axes, "not reported")


_WAITING_ALPHA = 0.32
_HALF = 0.36  # of a row's height


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive requests by intended send. `start_s` None: from the middle of the run."""

    requests: int = 80
    start_s: float | None = None

    def of(self, records: Sequence[RequestRecord]) -> list[RequestRecord]:
        ordered = sorted(records, key=lambda record: (record.intended_s, record.index))
        if self.start_s is None:
            first = max(0, (len(ordered) - self.requests) // 2)
        else:
            first = sum(record.intended_s < self.start_s for record in ordered)
            first = min(first, max(0, len(ordered) - self.requests))
        return ordered[first : first + self.requests]


@style.styled
def timeline(named: Named, load: Load, window: Window | None = None) -> Figure:
    """A panel a result, each with its own seconds: as many requests, not as much time. The repeat of median throughput."""
    window = window or Window()
    chosen = {name: window.of(typical(point).records) for name, point in points_at(named, load).items()}
    columns = {1: 1, 2: 2, 4: 2}.get(len(chosen), 3)
    rows = ceil(len(chosen) / columns)
    height_in = 0.9 + 0.032 * max(map(len, chosen.values()))
    legend = _requests_legend([record for records in chosen.values() for record in records])
    figure, grid = style.grid(rows, columns, height_in, legend)
    panels = [axes for row in grid for axes in row]
    for axes, (name, records) in zip(panels, chosen.items(), strict=False):
        _requests_panel(axes, name, records)
        axes.set_xlabel("seconds since the first of these")
    for axes in panels[len(chosen) :]:
        axes.set_visible(False)
    return figure


def _requests_panel(axes: Axes, name: str, records: Sequence[RequestRecord]) -> None:
    if not records:
        style.placeholder(axes, "no requests")
        return
    start_s = records[0].intended_s
    end_s = max(record.done_s for record in records) - start_s
    for band in BANDS:
        for alpha, spans in ((_WAITING_ALPHA, _waits(records, band, start_s)), (1.0, _answers(records, band, start_s))):
            if spans:
                axes.add_patch(PathPatch(boxes(spans), facecolor=style.BANDS[band], alpha=alpha, linewidth=0))
    held = [(r.intended_s - start_s, r.sent_s - start_s, row) for row, r in enumerate(records) if r.sent_s is not None]
    held = [span for span in held if span[1] - span[0] > end_s / 500]
    if held:
        axes.add_patch(PathPatch(boxes(held, 0.1), facecolor=style.MUTED, linewidth=0))
    failed = [(record.done_s - start_s, row) for row, record in enumerate(records) if not record.completed]
    axes.plot(
        [x for x, _ in failed], [y for _, y in failed], "x", color=style.ALARM, markersize=4.5, markeredgewidth=1.4
    )
    axes.set_xlim(0, end_s * 1.01)
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.set_title(f"{name}\n{len(records)} requests in {seconds(end_s)}")


def boxes(spans: Sequence[tuple[float, float, int]], half: float = _HALF) -> Path:
    """(start, end, row) as one path of rectangles: one element of SVG instead of hundreds."""
    rectangles = np.array(
        [[(a, row - half), (b, row - half), (b, row + half), (a, row + half), (a, row - half)] for a, b, row in spans]
    )
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(spans)
    return Path(rectangles.reshape(-1, 2), codes)


def _waits(records: Sequence[RequestRecord], band: LengthBand, start_s: float) -> list[tuple[float, float, int]]:
    """From send to first token, of streams; of a request that failed without a token, to its end."""
    spans: list[tuple[float, float, int]] = []
    for row, record in enumerate(records):
        until_s = record.first_token_s if record.first_token_s is not None or record.completed else record.done_s
        if record.band == band and record.sent_s is not None and until_s is not None:
            spans.append((record.sent_s - start_s, until_s - start_s, row))
    return spans


def _answers(records: Sequence[RequestRecord], band: LengthBand, start_s: float) -> list[tuple[float, float, int]]:
    """From the first token to the end; from the send where the answer came in one piece."""
    spans: list[tuple[float, float, int]] = []
    for row, record in enumerate(records):
        since_s = record.first_token_s if record.first_token_s is not None or not record.completed else record.sent_s
        if record.band == band and since_s is not None:
            spans.append((since_s - start_s, record.done_s - start_s, row))
    return spans


def _requests_legend(records: Sequence[RequestRecord]) -> list[Artist]:
    present: list[LengthBand] = [band for band in BANDS if any(record.band == band for record in records)]
    handles: list[Artist] = [Patch(color=style.BANDS[b], label=style.BAND_NAMES[b]) for b in present]
    if any(record.first_token_s is not None for record in records):
        handles.append(Patch(color=style.MUTED, alpha=_WAITING_ALPHA, label="pale: before the first token"))
    if any(not record.completed for record in records):
        handles.append(Line2D([], [], color=style.ALARM, marker="x", linestyle="none", label="failed"))
    return handles
