"""A figure as SVG inside a page, or as a PNG with its title and conditions. Same figure, same bytes.

Knows nothing of what is drawn.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

import re
from html import escape
from io import StringIO
from pathlib import Path
from textwrap import wrap

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dragoman.errors import ConfigError
from dragoman_bench.report.charts import style

DPI = 160
_TITLE_IN = 0.42
_LINE_IN = 0.165
_CAPTION_COLUMNS = 150
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK JP', sans-serif"


@style.styled
def svg(figure: Figure, slug: str, alt: str) -> str:
    """An `<svg>` element for an HTML page. Ids begin with `slug`, which must be unique in the page; colours follow the
    page's CSS variables (`style.PAGE_COLOURS`), those of a light page standing in for variables it does not set."""
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
    for colour, variable in style.PAGE_COLOURS.items():
        body = body.replace(colour, f"var({variable}, {colour})")
    return f'<svg {box[0]} role="img" aria-label="{escape(alt)}">{body.strip()}'


@style.styled
def save_png(figure: Figure, path: Path, title: str, caption: str) -> None:
    """With the title above and the caption below; for that the figure grows, so save a figure once. Raises ConfigError."""
    _frame(figure, title, caption)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _frame(figure: Figure, title: str, caption: str) -> None:
    lines = wrap(caption, _CAPTION_COLUMNS)
    foot_in = _LINE_IN * len(lines) + 0.14
    width_in, height_in = figure.get_size_inches()
    total_in = height_in + _TITLE_IN + foot_in
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)  # `style.grid` gives one
    left, _, width, share = layout.get()["rect"]
    layout.set(rect=(left, foot_in / total_in, width, share * height_in / total_in))
    figure.set_size_inches(width_in, total_in)
    corner = style.top_left(figure)
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.05, -_TITLE_IN - 0.02), transform=corner)
    figure.text(0.08, -0.1, title, transform=corner, va="top", fontsize=12.5, fontweight="bold")
    foot = figure.text(0.08, 0.06, "\n".join(lines), transform=figure.dpi_scale_trans, va="bottom", fontsize=7.5)
    foot.set(color=style.MUTED, linespacing=1.35)
