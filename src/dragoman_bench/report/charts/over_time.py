"""A chart of what server and GPU said while they were measured: requests running and waiting, KV cache, utilisation.

One row a result, the repeat of median throughput. Where there are more samples than a line can show, the line is their
mean and the band behind it reaches from the lowest to the highest, so that no idle gap is averaged away.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dragoman_bench.bench.results import Load, Measurement
from dragoman_bench.report.charts import style
from dragoman_bench.report.charts.selection import Named, points_at, typical

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
    columns = [column for column in _COLUMNS if _told(column[2], measured.values())] or [_COLUMNS[0]]
    lines = [line for _, _, lines in columns for line in lines]
    legend: list[Artist] = [Line2D([], [], color=line.colour, label=line.label, linewidth=3) for line in lines]
    figure, grid = style.grid(len(measured), len(columns), 1.6, legend, sharey="col")
    for row, (name, measurement) in zip(grid, measured.items(), strict=True):
        for axes, (title, share, of_column) in zip(row, columns, strict=True):
            _panel(axes, of_column, measurement, share)
            axes.set_title(name if axes is row[0] else "")
            axes.set_ylabel(title)
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    for axes, (_, share, lines) in zip(grid[0], columns, strict=True):  # the rows share their columns' scales
        axes.set_ylim(0, 1.03 if share else _highest(lines, measured.values()) * 1.08)
    return figure


def has_samples(named: Named, load: Load) -> bool:
    """Whether a server or a GPU told anything at this load."""
    measured = [typical(point) for point in points_at(named, load).values()]
    return any(_told(lines, measured) for _, _, lines in _COLUMNS)


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


def _told(lines: Sequence[_Line], measured: Iterable[Measurement]) -> bool:
    return any(line.samples(measurement) for measurement in measured for line in lines)


def _highest(lines: Sequence[_Line], measured: Iterable[Measurement]) -> float:
    return max((value for m in measured for line in lines for _, value in line.samples(m)), default=0.0) or 1.0


def _panel(axes: Axes, lines: Sequence[_Line], measurement: Measurement, share: bool) -> None:
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
        style.say(axes, "not reported")
