"""Formats results: numbers, tables, and tables as Markdown, also of a benchmark's results.

A `Table` is data. `markdown` formats it; a page has its own template for it. Load tests, reports, journeys and tuning all use
this module, so that numbers have the same format everywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Literal

from dragoman_bench.bench.measurement import Machine, elements
from dragoman_bench.bench.results import Conditions, Load, Point, Results, Spread

NONE = "-"
"""What stands where there is no number."""
CLIENT_LIMIT = 0.8  # of one core: beyond it a number may be the client's
LAG_S = 0.05
Tone = Literal["", "good", "bad"]
Align = Literal["left", "right"]
_MARKUP = re.compile(r"[\\|<*]|(?<!\w)_|_(?!\w)|(?<=\])(?=\()")


def number(value: float | None) -> str:
    """Format with three significant digits, all digits before the point, no exponent: `1,234`, `12.3`, `0.0457`."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    decimals = 2 - floor(log10(abs(float(f"{value:.3g}"))))  # rounded first: 9.996 is 10.0
    return f"{value:,.{max(0, min(6, decimals))}f}"


def count(value: float | None) -> str:
    """Format a whole number: `12,345`."""
    return NONE if value is None else f"{value:,.0f}"


def percent(share: float | None, decimals: int = 0) -> str:
    """Format a share of 0 to 1: `12 %`."""
    return NONE if share is None else f"{share * 100:.{decimals}f} %"


def seconds(value_s: float | None) -> str:
    """Format a time: `30 ms`, `1.5 s`."""
    if value_s is None:
        return NONE
    return f"{value_s * 1000:.3g} ms" if value_s < 0.9995 else f"{number(value_s)} s"


def about(value_s: float) -> str:
    """Format an estimated duration: `about 40 s`, `about 7 min`."""
    return f"about {round(value_s / 60)} min" if value_s >= 90 else f"about {max(10, round(value_s / 10) * 10)} s"


def size(value_bytes: float | None) -> str:
    """Format bytes: `1.5 GiB`, `256 MiB`."""
    if value_bytes is None:
        return NONE
    value, units = float(abs(value_bytes)), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{'-' if value_bytes < 0 else ''}{value:.4g} {units[0]}"


def ranged(found: Spread | None, scale: float = 1.0, unit: str = "") -> str:
    """Format `54.1 [53.2..55.0]` with `unit` after the median, or only the median of a single measurement."""
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
    def ranged(cls, found: Spread | None, scale: float = 1.0, unit: str = "", tone: Tone = "") -> Cell:
        """Return a cell with the median times `scale`, which converts units, and the range of the repeats as detail."""
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
    """A row with a cell for each column. `flags` are short warnings beside the last head cell.

    `note`: text instead of the cells after the heads, as in "skipped: ...". `marked`: the most important row. `series`:
    the number of the row's result, for its colour in a page.
    """

    cells: tuple[Cell, ...]
    flags: tuple[str, ...] = ()
    note: str = ""
    marked: bool = False
    series: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first `heads` columns name a row. `slug` is the table's id in a page; `note` explains it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    slug: str = ""
    heads: int = 1

    def pruned(self) -> Table:
        """Return the table without columns, except heads, that have no value in any row."""
        full = [row.cells for row in self.rows if not row.note]
        kept = [n for n in range(len(self.columns)) if n < self.heads or any(not cells[n].empty for cells in full)]
        rows = [row if row.note else replace(row, cells=tuple(row.cells[n] for n in kept)) for row in self.rows]
        return replace(self, columns=tuple(self.columns[n] for n in kept), rows=tuple(rows))


def table(
    title: str,
    columns: Iterable[Column | str],
    rows: Iterable[Sequence[Cell | str | None]],
    *,
    note: str = "",
    slug: str = "",
    heads: int = 1,
) -> Table:
    """Make a table of plain values, None for an empty cell. Heads and columns of `Column(name, "left")` align left."""
    made = [column if isinstance(column, Column) else Column(column) for column in columns]
    made[:heads] = [replace(column, align="left") for column in made[:heads]]
    cells = (tuple(cell if isinstance(cell, Cell) else Cell(cell or NONE) for cell in row) for row in rows)
    return Table(title, tuple(made), tuple(map(Row, cells)), note, slug, heads)


def markdown(found: Table) -> str:
    """Format the table as Markdown, with its title as a heading and its note."""
    lines = [
        [escaped(column.name) for column in found.columns],
        ["---" if column.align == "left" else "---:" for column in found.columns],
    ]
    for row in found.rows:
        cells = list(row.cells)
        if row.note:
            cells[found.heads :] = [Cell(row.note)] + [Cell("")] * (len(found.columns) - found.heads - 1)
        words = [escaped(_text(cell)) for cell in cells]
        words[found.heads - 1] += "".join(f" **({flag})**" for flag in row.flags)
        lines.append(words)
    heading = [f"## {escaped(found.title)}", ""] if found.title else []
    rows = [f"| {' | '.join(words)} |" for words in lines]
    return "\n".join([*heading, *rows, *(["", escaped(found.note)] if found.note else [])])


def _text(cell: Cell) -> str:
    """Detail after a sentence or a number follows as it is; a word and its explanation are set apart by a colon."""
    words = cell.detail and cell.text and cell.text[-1].isalpha() and cell.detail[0].isalpha()
    return f"{cell.text}{':' if words else ''} {cell.detail}".strip()


def escaped(text: str) -> str:
    """Escape text on one line, so that Markdown does not read a table, a tag, a link or emphasis in it.

    Backticks stay, and so do underscores inside words: the result is read in terminals too.
    """
    return _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))


def bullets(lines: Iterable[str]) -> str:
    """Format a Markdown list."""
    return "\n".join(f"- {escaped(line)}" for line in lines)


_METRICS: tuple[tuple[str, str, float, str], ...] = (
    ("req/s", "rps", 1, ""),
    ("output tok/s", "output_tokens_s", 1, ""),
    ("p50 s", "e2e_p50_s", 1, ""),
    ("p95 s", "e2e_p95_s", 1, ""),
    ("p99 s", "e2e_p99_s", 1, ""),
    ("TTFT p95 ms", "ttft_p95_s", 1000, ""),
    ("ITL p95 ms", "itl_p95_s", 1000, ""),
    ("goodput req/s", "goodput_rps", 1, ""),
    ("engine busy", "engine_busy_share", 100, " %"),
    ("GPU", "gpu_mean_percent", 1, " %"),
)
"""Title, name in `summary.metrics`, factor, unit."""


def points_table(named: Mapping[str, Results], title: str = "") -> Table:
    """Return a table with a row for each load level of each result, ascending, and only columns that have numbers."""
    heads = 2 if len(named) > 1 else 1
    rows: list[tuple[Load, Row]] = []
    for place, (name, results) in enumerate(named.items()):
        for point in results.points:
            numbers = [Cell.ranged(point.spreads.get(metric), scale, unit) for _, metric, scale, unit in _METRICS]
            cells = (*(Cell(point.load.label), Cell(name))[:heads], *numbers, slo_cell(point), failed_cell(point))
            rows.append((point.load, Row(cells, series=place)))
    rows.sort(key=lambda row: row[0].order)
    columns = [Column(name, "left") for name in ("load", "result")[:heads]]
    columns += [Column(name) for name in (*(title for title, *_ in _METRICS), "SLO", "failed")]
    note = "Median of the repeats [lowest..highest]. Latency is of completed requests."
    return Table(title, tuple(columns), tuple(row for _, row in rows), note, "points", heads).pruned()


def failed_cell(point: Point) -> Cell:
    """Return a cell with the share of failed requests, and their number by kind."""
    kinds = sum((Counter[str](repeat.summary.errors) for repeat in point.repeats), Counter[str]())
    if not kinds:
        return Cell("0")
    detail = ", ".join(f"{found} {kind.replace('_', ' ')}" for kind, found in kinds.most_common())
    return Cell(percent(kinds.total() / sum(repeat.summary.requests for repeat in point.repeats), 1), detail, "bad")


def results_markdown(results: Results) -> str:
    """Return the conditions in a few lines, the table of all load levels, and notes on limits of the numbers."""
    notes = bullets(notes_on(results))
    points = replace(points_table({"": results}), note="")
    return "\n".join([*_headline(results.conditions), "", markdown(points), *(["", notes] if notes else [])])


def _headline(conditions: Conditions) -> Iterator[str]:
    """What was measured, on which machine, with which workload."""
    server = conditions.server
    model = f", model {conditions.model}" if conditions.model else ""
    yield f"{conditions.target} at {conditions.url}{model}, on {machine_text(conditions.machine)}."
    sets = " ".join(map(str, elements(server.get("cpu_instruction_sets"))))
    reported = {"device": server.get("device"), "dtype": server.get("dtype"), "CPU instruction sets": sets}
    if any(reported.values()):
        yield f"The server reports {', '.join(f'{name} {value}' for name, value in reported.items() if value)}."
    yield f"Workload {conditions.workload}."
    if conditions.slo:
        yield f"SLO: {conditions.slo}."


def machine_text(machine: Machine) -> str:
    """Describe a machine: CPU with its instruction sets, cores, GPUs."""
    sets = f" ({', '.join(machine.cpu_instruction_sets)})" if machine.cpu_instruction_sets else ""
    return ", ".join([f"{machine.cpu}{sets}", f"{machine.cores} cores", *(gpu.name for gpu in machine.gpus)])


def slo_cell(point: Point) -> Cell:
    """Return a cell that says whether the repeats met the SLO."""
    met = [repeat.summary.slo_met for repeat in point.repeats]
    if None in met:
        return EMPTY
    if all(met):
        return Cell("met", tone="good")
    return Cell("missed" if not any(met) else f"met in {sum(map(bool, met))} of {len(met)}", tone="bad")


def notes_on(results: Results) -> Iterator[str]:
    """Return notes on limits of the numbers."""
    if results.partial:
        yield "Interrupted: these are the measurements made so far."
    for point in results.points:
        yield from (f"{point.load.label}: {note}" for note in _point_notes(point))


def _point_notes(point: Point) -> Iterator[str]:
    busiest = max(repeat.client.cpu_share for repeat in point.repeats)
    if busiest > CLIENT_LIMIT:
        yield f"the client used {busiest:.0%} of a core and may be the limit; use more --client-processes."
    lag_s = max(repeat.client.lag_p99_s for repeat in point.repeats)
    if lag_s > LAG_S:
        yield f"1 % of requests were sent {lag_s * 1000:.0f} ms or more after their time; latency counts from that time."
    if any(len(repeat.records) > repeat.distinct_texts for repeat in point.repeats):
        yield "texts were sent more than once; a translation memory or prefix cache makes such numbers better."
