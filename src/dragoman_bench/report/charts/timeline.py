"""A chart of single requests: one row each, from its intended send over its first token to its end.

It shows what averages hide. Where a batch holds everybody until its longest text is done, short (pale-named) rows end
on one vertical line with the long ones: head-of-line blocking. Knows results; how they look is `style`'s.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from dragoman_bench.bench.results import Band, Load, RequestRecord
from dragoman_bench.bench.summary import BANDS
from dragoman_bench.report.charts import style
from dragoman_bench.report.charts.numbers import duration
from dragoman_bench.report.charts.selection import Named, points_at, typical

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
    legend = _legend([record for records in chosen.values() for record in records])
    figure, grid = style.grid(rows, columns, height_in, legend)
    panels = [axes for row in grid for axes in row]
    for axes, (name, records) in zip(panels, chosen.items(), strict=False):
        _panel(axes, name, records)
        axes.set_xlabel("seconds since the first of these")
    for axes in panels[len(chosen) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, name: str, records: Sequence[RequestRecord]) -> None:
    if not records:
        style.say(axes, "no requests")
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
    axes.set_title(f"{name}\n{len(records)} requests in {duration(float(f'{end_s:.3g}'))}")


def boxes(spans: Sequence[tuple[float, float, int]], half: float = _HALF) -> Path:
    """(start, end, row) as one path of rectangles: one element of SVG instead of hundreds."""
    corners = np.array(
        [[(a, row - half), (b, row - half), (b, row + half), (a, row + half), (a, row - half)] for a, b, row in spans]
    )
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(spans)
    return Path(corners.reshape(-1, 2), codes)


def _waits(records: Sequence[RequestRecord], band: Band, start_s: float) -> list[tuple[float, float, int]]:
    """From send to first token, of streams; of a request that failed without a token, to its end."""
    spans: list[tuple[float, float, int]] = []
    for row, record in enumerate(records):
        until_s = record.first_token_s if record.first_token_s is not None or record.completed else record.done_s
        if record.band == band and record.sent_s is not None and until_s is not None:
            spans.append((record.sent_s - start_s, until_s - start_s, row))
    return spans


def _answers(records: Sequence[RequestRecord], band: Band, start_s: float) -> list[tuple[float, float, int]]:
    """From the first token to the end; from the send where the answer came in one piece."""
    spans: list[tuple[float, float, int]] = []
    for row, record in enumerate(records):
        since_s = record.first_token_s if record.first_token_s is not None or not record.completed else record.sent_s
        if record.band == band and since_s is not None:
            spans.append((since_s - start_s, record.done_s - start_s, row))
    return spans


def _legend(records: Sequence[RequestRecord]) -> list[Artist]:
    present: list[Band] = [band for band in BANDS if any(record.band == band for record in records)]
    handles: list[Artist] = [Patch(color=style.BANDS[b], label=style.BAND_NAMES[b]) for b in present]
    if any(record.first_token_s is not None for record in records):
        told = "pale: before the first token"
        handles.append(Patch(color=style.MUTED, alpha=_WAITING_ALPHA, label=told))
    if any(not record.completed for record in records):
        handles.append(Line2D([], [], color=style.ALARM, marker="x", linestyle="none", label="failed"))
    return handles
