"""The conditions of several results: what is the same, what was compared, and what should not differ.

The server's own settings (and which server, which model) are what a comparison is about. Anything else that differs
(machine, versions, workload, seed, duration) is shown as a warning: it may be the reason for a difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from dragoman_bench.bench.results import Conditions
from dragoman_bench.bench.tables import Column, Table, table
from dragoman_bench.report.named import Named

Role = Literal["compared", "unlike", "same"]
ABSENT = "not set"
_OWN = frozenset({"label", "journey"})  # different by their nature


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; a value for each label, in their order."""

    name: str
    values: tuple[str, ...]
    role: Role


def conditions(named: Named) -> list[Condition]:
    """Every condition but the time and the address, in a reader's order."""
    compared = [_compared(results.conditions) for results in named.values()]
    given = [_given(results.conditions) for results in named.values()]
    return [*_aligned(compared, "compared"), *_aligned(given, "unlike")]


def side_by_side(found: Iterable[Condition], named: Named, title: str, slug: str, note: str = "") -> Table:
    """Conditions as a table with a column for each result."""
    columns = [Column(name, "left") for name in ("condition", *named)]
    return table(title, columns, [(one.name, *one.values) for one in found], note=note, slug=slug)


def shared(found: Iterable[Condition], named: Named) -> Table:
    """The conditions that do not differ."""
    columns = [Column("condition", "left"), Column("value", "left")]
    rows = [(one.name, one.values[0]) for one in found if one.role == "same"]
    return table("Conditions" if len(named) == 1 else "The same for all", columns, rows, slug="same")


def measured_when(named: Named) -> Table:
    """When each result was measured, and where."""
    columns = [Column(name, "left") for name in ("result", "measured", "API", "model", "commit")]
    rows = [
        (
            f"{name} (partial)" if results.partial else name,
            results.conditions.started_at.replace("T", " ").replace("+00:00", " UTC"),
            f"{results.conditions.target} at {results.conditions.url}",
            results.conditions.model or "unknown",
            short_commit(results.conditions),
        )
        for name, results in named.items()
    ]
    return table("Results", columns, rows, slug="runs")


def summary_line(named: Named) -> str:
    """The conditions that all share, in one line; it names what differs."""
    facts: dict[str, Callable[[Conditions], str]] = {
        "machine": lambda c: (
            ", ".join(gpu.name for gpu in c.machine.gpus) or f"{c.machine.cpu}, {c.machine.cores} cores"
        ),
        "model": lambda c: c.model or "model unknown",
        "workload": lambda c: c.workload,
        "seed": lambda c: f"seed {c.seed}",
        "SLO": lambda c: f"SLO {c.slo}" if c.slo else "",
        "commit": lambda c: f"commit {short_commit(c)}",
    }
    parts: list[str] = []
    for name, read in facts.items():
        values = {read(results.conditions) for results in named.values()}
        parts.append(values.pop() if len(values) == 1 else f"{name} differs")
    repeats = {len(point.repeats) for results in named.values() for point in results.points}
    low, high = min(repeats, default=1), max(repeats, default=1)
    parts.append("measured once" if high == 1 else f"{high} repeats" if low == high else f"{low} to {high} repeats")
    return "Conditions: " + "; ".join(part for part in parts if part) + "."


def short_commit(conditions: Conditions) -> str:
    """Ten characters, and marked where the files differed from it."""
    if conditions.git_commit is None:
        return "unknown"
    name, dash, dirty = conditions.git_commit.partition("-")
    return f"{name[:10]}{dash}{dirty}"


def _aligned(columns: list[dict[str, str]], differing: Role) -> list[Condition]:
    found: list[Condition] = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = tuple(column.get(name, ABSENT) for column in columns)
        found.append(Condition(name, values, "same" if len(set(values)) == 1 else differing))
    return found


def _compared(conditions: Conditions) -> dict[str, str]:
    server = {f"server: {name}": value for name, value in _flat(conditions.server).items()}
    loads = ", ".join(load.label for load in conditions.loads)
    return {"API": conditions.target, "model": conditions.model or "unknown", "load levels": loads} | server


def _given(conditions: Conditions) -> dict[str, str]:
    machine = conditions.machine
    options = {name: value for name, value in conditions.options.items() if name not in _OWN}
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver or 'unknown'}" for gpu in machine.gpus]
    return {
        "workload": conditions.workload,
        "seed": str(conditions.seed),
        "SLO": conditions.slo or "none",
        "CPU": f"{machine.cpu}, {machine.cores} cores",
        "memory": f"{machine.memory_gib:g} GiB",
        "GPU": "; ".join(gpus) or "none",
        "system": f"{machine.system}, {machine.architecture}",
        "server on the client's machine": "yes" if conditions.server_is_local else "no",
        "commit": short_commit(conditions),
        "Python": conditions.python,
        **{f"{name} (client's)": version for name, version in conditions.packages.items()},
        **{name.replace("_", " "): value for name, value in _flat(options).items()},
    }


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        elif value is None:
            found[prefix + name] = ABSENT
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            found[prefix + name] = text
    return found
