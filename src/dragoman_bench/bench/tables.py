"""How results are written: numbers, tables, and tables as Markdown or on a terminal.

A `Table` is data. `markdown` and `for_terminal` write it; a page writes it with its own template. Load tests, reports,
journeys and tuning all use these, so that a number looks the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from pathlib import Path
from typing import Literal, Protocol

import rich.box
import rich.table
from rich.console import RenderableType
from rich.text import Text

from dragoman.errors import ConfigError

NONE = "-"
"""What stands where there is no number."""
Tone = Literal["", "good", "bad"]
Align = Literal["left", "right"]
_KIBI = 1024
_MARKUP = re.compile(r"[\\|<*]|(?<!\w)_|_(?!\w)|(?<=\])(?=\()")
_STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "red"}


class Range(Protocol):
    """The median of repeated measurements, the lowest and highest, and how many there were (`results.Spread`)."""

    @property
    def median(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def repeats(self) -> int: ...


def number(value: float | None) -> str:
    """Three significant digits, all digits before the point, no exponent: `1,234`, `12.3`, `0.0457`."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    decimals = 2 - floor(log10(abs(float(f"{value:.3g}"))))  # rounded first: 9.996 is 10.0
    return f"{value:,.{max(0, min(6, decimals))}f}"


def count(value: float | None) -> str:
    """A whole number: `12,345`."""
    return NONE if value is None else f"{value:,.0f}"


def percent(share: float | None, decimals: int = 0) -> str:
    """A share of 0 to 1: `12 %`."""
    return NONE if share is None else f"{share * 100:.{decimals}f} %"


def seconds(value_s: float | None) -> str:
    """`30 ms`, `1.5 s`."""
    if value_s is None:
        return NONE
    return f"{value_s * 1000:.3g} ms" if value_s < 0.9995 else f"{number(value_s)} s"


def about(value_s: float) -> str:
    """An estimate of how long something takes: `about 40 s`, `about 7 min`."""
    return f"about {round(value_s / 60)} min" if value_s >= 90 else f"about {max(10, round(value_s / 10) * 10)} s"


def size(value_bytes: float | None) -> str:
    """`1.5 GiB`, `256 MiB`."""
    if value_bytes is None:
        return NONE
    value, units = float(abs(value_bytes)), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= _KIBI and len(units) > 1:
        value, units = value / _KIBI, units[1:]
    return f"{'-' if value_bytes < 0 else ''}{value:.4g} {units[0]}"


def ranged(found: Range | None, scale: float = 1.0, unit: str = "") -> str:
    """`54.1 [53.2..55.0]` with `unit` after the median, or the median alone where it was measured once."""
    cell = Cell.ranged(found, scale, unit)
    return f"{cell.text} {cell.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Cell:
    """`detail` is secondary text after `text`, set smaller where that is possible."""

    text: str
    detail: str = ""
    tone: Tone = ""

    @property
    def empty(self) -> bool:
        return self.text in (NONE, "")

    @classmethod
    def ranged(cls, found: Range | None, scale: float = 1.0, unit: str = "", tone: Tone = "") -> Cell:
        """The median times `scale`, which converts units, and the lowest and highest of the repeats as detail."""
        if found is None:
            return EMPTY
        low, high = number(found.low * scale), number(found.high * scale)
        return cls(number(found.median * scale) + unit, f"[{low}..{high}]" if found.repeats > 1 else "", tone)


EMPTY = Cell(NONE)


@dataclass(frozen=True, slots=True)
class Column:
    """`name` includes the unit, as in `p95 s`. Numbers are aligned right, words left."""

    name: str
    align: Align = "right"


@dataclass(frozen=True, slots=True)
class Row:
    """One cell for each column. `flags` are short warnings beside the last head cell.

    `note`: text in place of the cells after the heads, as in "skipped: ...". `marked`: the row to look at first.
    `series`: the number of the result that the row belongs to, for its colour in a page.
    """

    cells: tuple[Cell, ...]
    flags: tuple[str, ...] = ()
    note: str = ""
    marked: bool = False
    series: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The first `heads` columns name a row. `slug` is the table's id in a page; `note` explains it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    slug: str = ""
    heads: int = 1

    def pruned(self) -> Table:
        """Without the columns, heads excepted, that have no value in any row."""
        full = [row for row in self.rows if not row.note]
        kept = [
            place
            for place in range(len(self.columns))
            if place < self.heads or any(not row.cells[place].empty for row in full)
        ]
        rows = tuple(
            row if row.note else replace(row, cells=tuple(row.cells[place] for place in kept)) for row in self.rows
        )
        return replace(self, columns=tuple(self.columns[place] for place in kept), rows=rows)

    @property
    def has_values(self) -> bool:
        """Whether any cell after the heads has a value."""
        return any(row.note or any(not cell.empty for cell in row.cells[self.heads :]) for row in self.rows)


def table(
    title: str,
    columns: Iterable[Column | str],
    rows: Iterable[Sequence[Cell | str | None]],
    *,
    note: str = "",
    slug: str = "",
    heads: int = 1,
) -> Table:
    """A table of plain values: heads are aligned left, and so are columns given as `Column(name, "left")`."""
    made = [column if isinstance(column, Column) else Column(column) for column in columns]
    made[:heads] = [replace(column, align="left") for column in made[:heads]]
    return Table(title, tuple(made), tuple(Row(tuple(map(as_cell, row))) for row in rows), note, slug, heads)


def as_cell(value: Cell | str | None) -> Cell:
    """None is an empty cell."""
    return value if isinstance(value, Cell) else Cell(NONE if value is None else value)


def markdown(found: Table, level: int = 2) -> str:
    """A heading of `level` where the table has a title, the table, and its note."""
    rule = ["---" if column.align == "left" else "---:" for column in found.columns]
    lines = [_line(escaped(column.name) for column in found.columns), _line(rule)]
    lines += [_line(_markdown_cells(row, found)) for row in found.rows]
    heading = [f"{'#' * level} {escaped(found.title)}", ""] if found.title else []
    return "\n".join([*heading, *lines, *(["", escaped(found.note)] if found.note else [])])


def escaped(text: str) -> str:
    """Text on one line, without what Markdown would read as a table's, a tag's, a link's or an emphasis's marks.

    Backticks stay, and so do underscores inside words: the result is read in terminals too.
    """
    return _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {escaped(line)}" for line in lines)


def for_terminal(found: Table) -> RenderableType:
    """The table for a rich console."""
    made = rich.table.Table(
        title=found.title or None, caption=found.note or None, box=rich.box.SIMPLE_HEAD, title_justify="left"
    )
    made.caption_justify = "left"
    for column in found.columns:
        made.add_column(column.name, justify=column.align, overflow="fold")
    for row in found.rows:
        cells = _cells(row, found)
        made.add_row(*(Text(_text(cell), _STYLES[cell.tone]) for cell in cells), style="bold" if row.marked else None)
    return made


def write_text(path: Path, text: str, param: str) -> None:
    """Writes a document and makes its folder. Raises ConfigError, naming the option `param`, where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param=param) from error


def _cells(row: Row, found: Table) -> Sequence[Cell]:
    """One for each column, a note in the first after the heads."""
    if not row.note:
        return row.cells
    heads = row.cells[: found.heads]
    return [*heads, Cell(row.note), *[Cell("")] * (len(found.columns) - found.heads - 1)]


def _markdown_cells(row: Row, found: Table) -> Iterator[str]:
    for place, cell in enumerate(_cells(row, found)):
        flags = "".join(f" **({flag})**" for flag in row.flags) if place == found.heads - 1 else ""
        yield escaped(_text(cell)) + flags


def _text(cell: Cell) -> str:
    """Detail after a sentence or a number follows as it is; a word and its explanation are set apart by a colon."""
    words = cell.detail and cell.text and cell.text[-1].isalpha() and cell.detail[0].isalpha()
    return f"{cell.text}{':' if words else ''} {cell.detail}".strip()


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
