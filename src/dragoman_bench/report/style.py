"""The style of all charts (colours, fonts, legend, axes), and their output as SVG for a page or as a PNG file.

The colours are those of a light page. `PAGE_COLOURS` names each as a CSS variable, so that a dark page can set another
value. Markers, dashes, hatches or order always repeat what the colour shows.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from html import escape
from io import StringIO
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any, ParamSpec, TypeVar, cast

from matplotlib import rc_context  # pyright: ignore[reportUnknownVariableType]
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dragoman.errors import ConfigError
from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, Spread
from dragoman_bench.bench.tables import seconds

P = ParamSpec("P")
R = TypeVar("R")

INK = "#1f2430"
MUTED = "#5f6777"
GRID = "#dfe3ea"
ALARM = "#c8102e"
SERIES = ("#2563a8", "#d9730d", "#2e8b57", "#b23a6f", "#7a5cc0", "#8a6d1f", "#2795a6", "#6b7280")
BANDS: dict[LengthBand, str] = {"short": "#d4861a", "medium": "#c2513f", "long": "#5b2a86"}
BAND_NAMES: dict[LengthBand, str] = {
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
DPI = 160
_LEGEND_ROW_IN = 0.23
_CAPTION_COLUMNS = 150
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK JP', sans-serif"
_CJK_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Hiragino Sans", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic")
RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans", *(name for name in _CJK_FONTS if name in get_font_names())],
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


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. `slug` is its id in a page and the name of its file; `alt` describes it. `draw` makes a new figure."""

    slug: str
    title: str
    caption: str
    alt: str
    draw: Callable[[], Figure]


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that draws: it uses this style, and does not change the caller's settings of matplotlib."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with rc_context(cast("Any", RC)):
            return draw(*args, **kwargs)

    return drawn


def grid(
    rows: int, columns: int, panel_height_in: float, legend: Sequence[Artist] = (), **axes: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure of `rows` × `columns` panels with one legend; `axes` as in `Figure.subplots`."""
    widths_in = [0.62 + 0.075 * len(str(handle.get_label())) for handle in legend]
    across = [n for n in range(1, len(legend) + 1) if sum(max(widths_in[k::n]) for k in range(n)) <= WIDTH_IN - 0.1]
    legend_columns = max(across, default=1)
    legend_in = _LEGEND_ROW_IN * ceil(len(legend) / legend_columns) + 0.1 if legend else 0.0
    height_in = rows * panel_height_in + legend_in
    figure = Figure((WIDTH_IN, height_in))
    figure.set_layout_engine("constrained", h_pad=0.06, w_pad=0.06, rect=(0, 0, 0.995, 1 - legend_in / height_in))
    for handle in legend:
        label = str(handle.get_label())
        handle.set_label(f" {label}" if label.startswith("_") else label)  # matplotlib hides what begins with "_"
    if legend:
        figure.legend(
            handles=[handle for k in range(legend_columns) for handle in legend[k::legend_columns]],  # read in rows
            ncols=legend_columns,
            loc="upper left",
            bbox_to_anchor=(0.05, 1.0),
            borderaxespad=0,
            bbox_transform=figure.transFigure,
            handlelength=2.2,
            columnspacing=1.6,
        )
    return figure, figure.subplots(rows, columns, squeeze=False, **axes).tolist()


def series(number: int) -> str:
    """Return the colour of the number-th result, which is the same in all charts."""
    return SERIES[number % len(SERIES)]


def marked_line(number: int) -> dict[str, Any]:
    """Return colour, dashes and marker of the number-th result's lines."""
    dashes, marker = DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)]
    return {"color": series(number), "linestyle": dashes, "marker": marker}


def ranges(axes: Axes, places: Sequence[float], spreads: Sequence[Spread], *, axis: str = "y", **look: Any) -> None:
    """Draw medians at `places`, joined by a line if `look` has one; whiskers show the lowest and the highest."""
    medians = [spread.median for spread in spreads]
    whiskers = [[spread.median - spread.low for spread in spreads], [spread.high - spread.median for spread in spreads]]
    data = (
        {"x": places, "y": medians, "yerr": whiskers} if axis == "y" else {"x": medians, "y": places, "xerr": whiskers}
    )
    axes.errorbar(**data, capsize=2.5, elinewidth=0.9, **look)


def time_axis(axes: Axes, values_s: Iterable[float], ticks: int = 8) -> None:
    """Set the y axis to seconds, with about `ticks` ticks: from zero, or logarithmic if the values are far apart."""
    known = [value for value in values_s if value > 0]
    if known and max(known) > 5 * min(known):
        low, high = min(known) / 1.25, max(known) * 1.25
        axes.set(yscale="log", ylim=(low, high))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 10 ** (ticks / 3) * low else (1,)))
        axes.yaxis.set_minor_locator(NullLocator())
    elif known:
        axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
        axes.set_ylim(0, max(known) * 1.1)

    def label(value: float, _: object) -> str:
        return seconds(value) if value > 0 else "0"

    axes.yaxis.set_major_formatter(FuncFormatter(label))


def load_axis(axes: Axes, loads: Sequence[Load]) -> None:
    """Set the x axis to load levels, as categories 0, 1, 2 ..."""
    labels, title = [load.label.replace(" ", "\n", 1) for load in loads], "load"
    if {load.kind for load in loads} == {"closed"}:
        labels, title = [str(load.clients) for load in loads], "concurrent clients (closed loop)"
    axes.set_xticks(range(len(loads)), labels)
    axes.set_xlim(-0.6, len(loads) - 0.4)
    axes.set_xlabel(title)
    axes.tick_params(axis="x", length=0)


def note(axes: Axes, text: str, x: float, y: float, offset_pt: tuple[float, float], **look: Any) -> None:
    """Write a small text beside a point of the data."""
    axes.annotate(text, (x, y), xytext=offset_pt, textcoords="offset points", fontsize=7.5, **look)


def placeholder(axes: Axes, text: str) -> None:
    """Write a text instead of missing data."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


@styled
def svg(figure: Figure, slug: str, alt: str) -> str:
    """Return an `<svg>` element for an HTML page. Ids begin with `slug`, which must be unique in the page. Colours are the
    page's CSS variables (`PAGE_COLOURS`), with those of a light page as defaults."""
    written = StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawn = written.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    head, body = drawn.split(">", 1)
    box = re.search(r'viewBox="[^"]+"', head)
    assert box is not None  # matplotlib always writes one
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|\n", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{slug}-', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{slug}-', body).replace("url(#", f"url(#{slug}-")
    body = re.sub(r' d="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), body)
    body = re.sub(r"(font: (?:\w+ )*[\d.]+px)[^;\"]+", rf"\1 {_FONT}", body)
    for colour, variable in PAGE_COLOURS.items():
        body = body.replace(colour, f"var({variable}, {colour})")
    return f'<svg {box[0]} role="img" aria-label="{escape(alt)}">{body.strip()}'


@styled
def save_png(figure: Figure, path: Path, title: str, caption: str) -> None:
    """Save a chart with its title and caption as a PNG. Raises ConfigError if it cannot be written."""
    figure.text(0.01, 1.0, title, va="bottom", fontsize=12.5, fontweight="bold")
    words = fill(caption, _CAPTION_COLUMNS)
    figure.text(0.01, 0.0, words, va="top", fontsize=7.5, color=MUTED, linespacing=1.35)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png", dpi=DPI, facecolor="white", bbox_inches="tight", metadata={"Software": None})
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
