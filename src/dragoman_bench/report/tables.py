"""Makes tables of a report: comparison with the first result, conditions, and notes on limits of the results.

Two results whose medians differ by less than their range are called equal (`compare`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

from dragoman_bench.bench.results import Conditions, Point
from dragoman_bench.bench.summary import compare
from dragoman_bench.bench.tables import EMPTY, Cell, Column, Row, Table, Tone, notes_on, number
from dragoman_bench.report.named import Named, loads_of, points_at

Read = Callable[[Point], Cell]
HIGHER_IS_BETTER = frozenset({"rps", "output_tokens_s"})
_UNREPEATED = "measured once: its spread is unknown, and 10 % of the median stands for it in comparisons."
_ABSENT = "not set"
_COMPARED = ("target", "model", "server", "loads", "started_at", "url")
"""Conditions that a comparison is about; others that differ may be the reason for a difference."""


def against_first(named: Named) -> Table | None:
    """Compare all results with the first, at each load level that several have; None if there is none."""
    metrics = {"req/s": "rps", "output tok/s": "output_tokens_s", "p50": "e2e_p50_s", "p95": "e2e_p95_s"}
    reads = [_against(named, metric) for metric in metrics.values()]
    rows: list[Row] = []
    for load in loads_of(named):
        points = points_at(named, load)
        for place, name in enumerate(named):
            if name in points and len(points) > 1:
                cells = (Cell(load.label), Cell(name), *(read(points[name]) for read in reads))
                rows.append(Row(cells, series=place))
    columns = (Column("load", "left"), Column("result", "left"), *map(Column, metrics))
    note = "Compared with the first of each load level. Equal: closer together than their repeats differ."
    found = Table("Compared with the first", columns, tuple(rows), note, "against", heads=2).pruned()
    return found if rows else None


def _against(named: Named, metric: str) -> Read:
    """`6.9×` higher or lower than the first at this load, or equal; good or bad by what is better for this metric."""

    def read(point: Point) -> Cell:
        base = next(iter(points_at(named, point.load).values()))
        mine, other = point.spreads.get(metric), base.spreads.get(metric)
        if mine is None or other is None:
            return EMPTY
        if point is base:
            return Cell("1", "the first")
        found = compare(mine, other)
        if found == "equal":
            return Cell("equal")
        tone: Tone = "good" if (found == "higher") == (metric in HIGHER_IS_BETTER) else "bad"
        less, more = sorted((mine.median, other.median))
        return Cell(f"{number(more / less)}×", found, tone) if less > 0 else Cell(found, tone=tone)

    return read


def notes(named: Named) -> list[str]:
    """Return notes on limits of the numbers; a note that several results share only once."""
    names: dict[str, list[str]] = {}
    for name, results in named.items():
        found = list(notes_on(results))
        if results.partial and len(results.points) < len(results.conditions.loads):
            found.append(f"{len(results.points)} of {len(results.conditions.loads)} load levels were measured.")
        once = [point.load.label for point in results.points if len(point.repeats) == 1]
        if once:
            found.append(f"{', '.join(once)}: {_UNREPEATED}")
        if (results.conditions.git_commit or "").endswith("-dirty"):
            found.append("measured with source files that differ from the commit.")
        for text in found:
            names.setdefault(text, []).append(name)
    return [f"{'All' if len(of) == len(named) > 1 else ', '.join(of)}: {text}" for text, of in names.items()]


def conditions(named: Named) -> dict[str, tuple[str, ...]]:
    """Return the conditions by their names in the results file, with a value for each label."""
    columns = [_flat(_document(results.conditions)) for results in named.values()]
    names = dict.fromkeys(name for column in columns for name in column if name != "options.label")
    return {name: tuple(column.get(name, _ABSENT) for column in columns) for name in names}


def unlike(named: Named) -> list[str]:
    """Return conditions that differ and should not: machine, versions, workload, seed, duration."""
    found = conditions(named)
    return [name for name in found if len(set(found[name])) > 1 and name.split(".")[0] not in _COMPARED]


def _document(found: Conditions) -> dict[str, Any]:
    """As in the file, but for load levels, GPUs and the commit in short; without what a journey noted."""
    document: dict[str, Any] = asdict(found)
    document |= {"git_commit": short_commit(found), "loads": ", ".join(load.label for load in found.loads)}
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver}" for gpu in found.machine.gpus]
    document["machine"] |= {"gpus": "; ".join(gpus) or None}
    document["options"].pop("journey", None)
    return document


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        elif value is None:
            found[prefix + name] = _ABSENT
        else:
            found[prefix + name] = (
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            )
    return found


def conditions_table(named: Named) -> Table:
    """Return a table of all conditions: those that differ first, one value for those that are the same."""
    found = sorted(conditions(named).items(), key=lambda one: len(set(one[1])) == 1)
    rows = (
        Row((Cell(name),), note=values[0]) if len(set(values)) == 1 else Row(tuple(map(Cell, (name, *values))))
        for name, values in found
    )
    columns = tuple(Column(name, "left") for name in ("condition", *named))
    return Table("", columns, tuple(rows), slug="conditions")


def short_commit(found: Conditions) -> str:
    """Shorten a commit to ten characters, with a mark if files differed from it."""
    name, dash, dirty = (found.git_commit or "unknown").partition("-")
    return f"{name[:10]}{dash}{dirty}"


def summary_line(named: Named) -> str:
    """Return the common conditions in one line, and the names of those that differ."""
    names = {"machine.gpus", "machine.cpu", "model", "workload", "seed", "slo", "git_commit"}
    shown = {name: set(values) for name, values in conditions(named).items() if name in names}
    parts = [
        f"{name} {'differs' if len(values) > 1 else next(iter(values))}"
        for name, values in shown.items()
        if values != {_ABSENT}
    ]
    repeats = sorted({len(point.repeats) for results in named.values() for point in results.points}) or [1]
    parts.append("measured once" if repeats == [1] else f"{' or '.join(map(str, repeats))} repeats")
    return f"Conditions: {'; '.join(parts)}."
