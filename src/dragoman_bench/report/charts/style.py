"""How every chart looks: colours, type, legend, axes of time. One look on paper (PNG) and on a page (SVG).

The colours below are those of a light page. `PAGE_COLOURS` names each as a CSS variable, so that a page can give it
another value in the dark (`render.svg`). Shape always says what colour says: markers, dashes, hatches, order. Knows no
results.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from math import ceil, floor, log10
from typing import Any, Literal, ParamSpec, TypeVar, cast

from matplotlib import rc_context  # pyright: ignore[reportUnknownVariableType]
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import Affine2DBase, ScaledTranslation, Transform

from dragoman_bench.bench.results import Band, Load
from dragoman_bench.report.charts.numbers import duration

P = ParamSpec("P")
R = TypeVar("R")

INK = "#1f2430"
MUTED = "#5f6777"
GRID = "#dfe3ea"
ALARM = "#c8102e"
SERIES = ("#2563a8", "#d9730d", "#2e8b57", "#b23a6f", "#7a5cc0", "#8a6d1f", "#2795a6", "#6b7280")
BANDS: dict[Band, str] = {"short": "#d4861a", "medium": "#c2513f", "long": "#5b2a86"}
BAND_NAMES: dict[Band, str] = {
    "short": "short (up to 50 source tokens)",
    "medium": "medium (51 to 120)",
    "long": "long (over 120)",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), "-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))
PAGE_COLOURS: dict[str, str] = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    ALARM: "--alarm",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES)},
    **{colour: f"--band-{band}" for band, colour in BANDS.items()},
}

WIDTH_IN = 9.0
RC: dict[str, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a label may hold a dollar sign
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.9,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "ytick.left": False,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "dragoman",
}
_LEGEND_ROW_IN = 0.23
_CJK_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Hiragino Sans", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draws in this style whatever the caller's own settings of matplotlib are, and leaves those alone."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with rc_context(cast("Any", RC | {"font.family": list(_fonts())})):
            return draw(*args, **kwargs)

    return drawn


def grid(
    rows: int, columns: int, panel_height_in: float, legend: Sequence[Artist] = (), **axes: Any
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of `rows` × `columns` panels under one legend; `axes` as in `Figure.subplots`."""
    legend_columns, strip_in = _legend_shape(legend)
    height_in = rows * panel_height_in + strip_in
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.02, rect=(0, 0, 0.995, 1 - strip_in / height_in))
    figure = Figure((WIDTH_IN, height_in), layout=layout)
    for handle in legend:
        label = str(handle.get_label())
        handle.set_label(f" {label}" if label.startswith("_") else label)  # matplotlib hides what begins with "_"
    if legend:
        figure.legend(
            handles=_row_by_row(legend, legend_columns),
            ncols=legend_columns,
            loc="upper left",
            bbox_to_anchor=(0.05, -0.02),
            bbox_transform=top_left(figure),
            borderaxespad=0,
            borderpad=0,
            handlelength=2.2,
            columnspacing=1.6,
        )
    return figure, figure.subplots(rows, columns, squeeze=False, **axes).tolist()


def top_left(figure: Figure) -> Transform:
    """Coordinates in inches from the figure's top left corner, upwards: they hold when the figure grows."""
    return figure.dpi_scale_trans + ScaledTranslation(0, 1, cast("Affine2DBase", figure.transFigure))


def series(number: int) -> str:
    """The colour of the number-th result, in every chart the same."""
    return SERIES[number % len(SERIES)]


def line(number: int) -> dict[str, Any]:
    """Colour and dashes of the number-th result's lines."""
    return {"color": series(number), "linestyle": DASHES[number % len(DASHES)]}


def marked_line(number: int) -> dict[str, Any]:
    return line(number) | {"marker": MARKERS[number % len(MARKERS)]}


def time_axis(axes: Axes, values_s: Iterable[float], which: Literal["x", "y"] = "y", ticks: int = 8) -> None:
    """Seconds on x or y, with up to about `ticks` ticks: from zero, or logarithmic where the values are far apart."""
    known = [value for value in values_s if value > 0]
    axis = axes.yaxis if which == "y" else axes.xaxis
    if known and max(known) > 5 * min(known):
        axes.set(**{f"{which}scale": "log"})
        low, high = min(known) / 1.25, max(known) * 1.25
        axis.set_major_locator(FixedLocator(_round_times(low, high, ticks)))
        axis.set_minor_locator(NullLocator())
        axes.set(**{f"{which}lim": (low, high)})
    elif known:
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
        axes.set(**{f"{which}lim": (0, max(known) * 1.1)})
    axis.set_major_formatter(FuncFormatter(_tick))


def load_axis(axes: Axes, loads: Sequence[Load]) -> None:
    """Load levels as categories 0, 1, 2 ... on x."""
    kinds = {load.kind for load in loads}
    labels, told = [load.label.replace(" ", "\n", 1) for load in loads], "load"
    if kinds == {"closed"}:
        labels, told = [str(load.clients) for load in loads], "concurrent clients (closed loop)"
    elif len(kinds) == 1 and kinds <= {"constant", "poisson"}:
        labels, told = [f"{load.rate_rps:g}" for load in loads], f"offered load, req/s ({loads[0].kind})"
    axes.set_xticks(range(len(loads)), labels)
    axes.set_xlim(-0.6, len(loads) - 0.4)
    axes.set_xlabel(told)
    axes.tick_params(axis="x", length=0)


def note(axes: Axes, told: str, x: float, y: float, offset_pt: tuple[float, float], **look: Any) -> None:
    """Small words beside a point of the data."""
    axes.annotate(told, (x, y), xytext=offset_pt, textcoords="offset points", fontsize=7.5, **look)


def share_axis(axes: Axes) -> None:
    """Shares 0..1 on y, as percent."""
    axes.yaxis.set_major_formatter(FuncFormatter(_percent))


def say(axes: Axes, told: str) -> None:
    """Words in the place of data that is not there."""
    axes.text(0.5, 0.5, told, transform=axes.transAxes, ha="center", va="center", color=MUTED)


@cache
def _fonts() -> tuple[str, ...]:
    """matplotlib's own font, and those of this machine that have what it lacks."""
    installed = set(get_font_names())
    return ("DejaVu Sans", *(name for name in _CJK_FONTS if name in installed))


def _tick(value: float, _: object) -> str:
    return duration(value) if value > 0 else "0"


def _percent(value: float, _: object) -> str:
    return f"{value * 100:.4g}%"


def _legend_shape(legend: Sequence[Artist]) -> tuple[int, float]:
    """Columns, as many as fit, and the height in inches of all rows."""
    widths_in = [0.62 + 0.075 * len(str(handle.get_label())) for handle in legend]
    columns = len(legend)
    while columns > 1 and sum(max(widths_in[place::columns]) for place in range(columns)) > WIDTH_IN - 0.1:
        columns -= 1
    return max(1, columns), _LEGEND_ROW_IN * ceil(len(legend) / columns) + 0.1 if legend else 0.0


def _row_by_row(legend: Sequence[Artist], columns: int) -> list[Artist]:
    """matplotlib fills a legend column by column; people read rows."""
    return [handle for place in range(columns) for handle in legend[place::columns]]


def _round_times(low: float, high: float, most: int) -> list[float]:
    """Steps inside the range: 1-2-5, or fewer a power of ten where there would be more than `most`."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(found) <= most:
            return found
    return found
