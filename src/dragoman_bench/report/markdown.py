"""Results as Markdown, for documentation: the same tables as the page's, and its charts where they are files.

Knows the parts of a report, not how they are computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.report import charts
from dragoman_bench.report.cells import Cell
from dragoman_bench.report.charts import Named
from dragoman_bench.report.comparison import against_first, at_a_glance
from dragoman_bench.report.differences import Condition, conditions
from dragoman_bench.report.figures import Chart
from dragoman_bench.report.flags import notes
from dragoman_bench.report.page import Look, check
from dragoman_bench.report.tables import Row, Table, tables

Images = Sequence[tuple[Chart, Path]]


def write_markdown(
    named: Named, out: Path, title: str = "Benchmark report", images: Images = (), look: Look | None = None
) -> None:
    """Writes the document; images are linked relative to it. Raises ConfigError."""
    text = markdown(named, title, images, out.parent, look or Look())
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}", param="markdown") from error


def markdown(named: Named, title: str, images: Images, folder: Path, look: Look) -> str:
    """The whole document."""
    check(named)
    load = look.load or charts.shared_load(named)
    compared = [at_a_glance(named, load), against_first(named)] if len(named) > 1 else []
    parts = [
        f"# {_plain(title)}",
        *_conditions(conditions(named), list(named)),
        *_notes(notes(named)),
        *(table_markdown(table) for table in compared if table),
        *(_image(chart, path, folder) for chart, path in images),
        *(table_markdown(table) for table in tables(named)),
    ]
    return "\n\n".join(parts) + "\n"


def table_markdown(table: Table) -> str:
    """A heading, the table, and its footnote."""
    head = ["load", "result", *table.columns]
    lines = [_line(head), _line(["---", "---", *["---:"] * len(table.columns)])]
    return "\n".join([f"## {_plain(table.title)}\n", *lines, *map(_row, table.rows), f"\n{_plain(table.told)}"])


def _row(row: Row) -> str:
    flags = "".join(f" **({flag})**" for flag in row.flags)
    return _line([row.load, f"{_plain(row.name)}{flags}", *map(_cell, row.cells)], plain=True)


def _cell(cell: Cell) -> str:
    return _plain(f"{cell.text} {cell.detail}".strip())


def _conditions(found: Sequence[Condition], names: list[str]) -> Iterator[str]:
    unlike = [condition for condition in found if condition.role == "unlike"]
    if unlike:
        told = "**These results were not measured under the same conditions.** What differs may explain a difference."
        yield f"> [!WARNING]\n> {told}"
        yield f"## Conditions that differ\n\n{_grid(unlike, names)}"
    compared = [condition for condition in found if condition.role == "compared"]
    if compared:
        yield f"## What was compared\n\n{_grid(compared, names)}"
    same = [condition for condition in found if condition.role == "same"]
    rows = [_line([condition.name, condition.values[0]]) for condition in same]
    heading = "Conditions" if len(names) == 1 else "The same for all"
    yield "\n".join([f"## {heading}\n", _line(["condition", "value"]), _line(["---", "---"]), *rows])


def _grid(found: Sequence[Condition], names: list[str]) -> str:
    rows = [_line([condition.name, *condition.values]) for condition in found]
    return "\n".join([_line(["condition", *names]), _line(["---"] * (len(names) + 1)), *rows])


def _notes(found: Sequence[tuple[str, str]]) -> Iterator[str]:
    if found:
        lines = [f"- {_plain(whose)}: {_plain(told)}" for whose, told in found]
        yield "\n".join(["## Read with care\n", *lines])


def _image(chart: Chart, path: Path, folder: Path) -> str:
    link = Path(os.path.relpath(path, folder)).as_posix()
    return f"## {_plain(chart.title)}\n\n![{_plain(chart.alt)}](<{link}>)\n\n{_plain(chart.caption)}"


def _line(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cell if plain else _plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown must not read as a table's, a tag's or a link's marks."""
    for mark in "\\`*_[]<|":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
