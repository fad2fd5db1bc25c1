"""A tune's outcome as Markdown: what a terminal gets at the end, and what documentation shows.

Knows the parts, not how they are computed; the page is `page`'s.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman_bench.bench.tables import Cell
from dragoman_bench.tune import tables
from dragoman_bench.tune.columns import SHORT_LADDER
from dragoman_bench.tune.figures import conditions, course, sentence
from dragoman_bench.tune.outcome import Tuning
from dragoman_bench.tune.tables import Row, Table

_MARKS = "|<*"


def markdown(tuning: Tuning) -> str:
    """The whole outcome; parts that were not reached are missing, and said to be."""
    parts = ["# dragoman tune", *_opening(tuning), *map(table, _tables(tuning)), *_remarks(tuning)]
    return "\n\n".join(parts) + "\n"


def summary(tuning: Tuning) -> str:
    """One line."""
    if tuning.recommendation is not None:
        return sentence(tuning.recommendation.headline)
    knee = tuning.ladder.knee if tuning.ladder is not None else None
    reached = f"the ladder's knee is at {knee} requests at once" if knee is not None else "nothing was measured"
    if tuning.partial:
        return f"Not finished ({tuning.partial_because or 'interrupted'}); {reached}."
    failed = next((trial for trial in reversed(tuning.trials) if trial.outcome != "measured"), None)
    why = f": {failed.name} {failed.outcome.replace('_', ' ')}: {failed.reason}" if failed else ""
    return sentence(f"nothing can be recommended, as {reached}{why}")


def table(found: Table) -> str:
    """A heading, the table, and its footnote."""
    head = f"| {' | '.join(_plain(column) for column in found.columns)} |"
    rule = "| --- | " + " | ".join("---" if name in found.words else "---:" for name in found.columns[1:]) + " |"
    body = [_row(row, found) for row in found.rows]
    foot = f"\n\n{_plain(found.told)}" if found.told else ""
    return "\n".join([f"## {found.title}\n", head, rule, *body]) + foot


def _opening(tuning: Tuning) -> Iterator[str]:
    yield f"**{_plain(summary(tuning))}**"
    if tuning.recommendation is not None:
        yield _plain(sentence(tuning.recommendation.because))
    yield "\n".join(f"- {_plain(line)}" for line in (*conditions(tuning), course(tuning)))


def _tables(tuning: Tuning) -> Iterator[Table]:
    if tables.recommended(tuning).rows:
        yield tables.recommended(tuning)
    if tuning.ladder is not None:
        yield tables.ladder(tuning.ladder, SHORT_LADDER)
    search = tables.trials(tuning)
    if search is not None:
        yield search
    if tuning.memory is not None:
        yield tables.memory(tuning, tuning.memory)
    if tuning.final is not None:
        yield tables.final(tuning, tuning.final)


def _remarks(tuning: Tuning) -> Iterator[str]:
    lines = "\n".join(f"- {_plain(remark)}" for remark in remarks(tuning))
    if lines:
        yield f"## To bear in mind\n\n{lines}"


def remarks(tuning: Tuning) -> Iterator[str]:
    """What would mislead if it were not said."""
    if tuning.partial:
        yield f"Not finished ({tuning.partial_because or 'interrupted'}): parts that are missing were not reached."
    if tuning.recommendation is not None:
        yield from map(sentence, tuning.recommendation.caveats)
    if tuning.memory is not None and tuning.memory.checked != "held":
        yield f"The memory setting was {tuning.memory.checked.replace('did', 'checked and did')} under more than the peak load."
    if tuning.demand.output_estimated:
        yield "Output lengths were not recorded: a ratio to the source's length stands for them."
    yield from map(sentence, tuning.demand.notes)


def _row(row: Row, found: Table) -> str:
    head = _plain(row.head) + "".join(f" **({flag})**" for flag in row.flags)
    if row.note:
        cells = [_plain(row.note), *[""] * (len(found.columns) - 2)]
    else:
        cells = [_cell(cell, name in found.words) for name, cell in zip(found.columns[1:], row.cells, strict=True)]
    return f"| {' | '.join([head, *cells])} |"


def _cell(cell: Cell, words: bool) -> str:
    parts = [part for part in (cell.text, cell.detail) if part]
    if words and len(parts) > 1 and not parts[0].endswith("."):
        parts[0] += ":"
    return _plain(" ".join(parts))


def _plain(text: str) -> str:
    """Text that Markdown must not read as a table's, a tag's or an emphasis's marks; it is read in terminals too."""
    for mark in _MARKS:
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
