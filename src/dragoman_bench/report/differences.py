"""The conditions of several results side by side: what is the same, what was compared, and what should not differ.

The server's own settings (and which server, which model) are what a comparison is about. Anything else that differs
(machine, versions, workload, seed, how long) is told loudly: it may be the reason for a difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from dragoman_bench.bench.results import Conditions
from dragoman_bench.report.charts.selection import Named

Role = Literal["compared", "unlike", "same"]
ABSENT = "not set"
_OWN = frozenset({"label", "journey"})  # differ by their nature


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
    return [*_rows(compared, "compared"), *_rows(given, "unlike")]


def unlike(named: Named) -> list[Condition]:
    """Those that differ though nobody compares them."""
    return [condition for condition in conditions(named) if condition.role == "unlike"]


def commit(conditions: Conditions) -> str:
    """Short, and marked where the files differed from it."""
    if conditions.git_commit is None:
        return "unknown"
    name, dash, dirty = conditions.git_commit.partition("-")
    return f"{name[:10]}{dash}{dirty}"


def _rows(columns: list[dict[str, str]], differing: Role) -> list[Condition]:
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
    chosen = {name: value for name, value in conditions.options.items() if name not in _OWN}
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver or 'unknown'}" for gpu in machine.gpus]
    return {
        "workload": conditions.workload,
        "seed": str(conditions.seed),
        "SLO": conditions.slo or "none",
        "CPU": f"{machine.cpu}, {machine.cores} cores",
        "memory": f"{machine.memory_gib:g} GiB",
        "GPU": "; ".join(gpus) or "none seen",
        "system": f"{machine.system}, {machine.architecture}",
        "server on the client's machine": "yes" if conditions.server_is_local else "no",
        "commit": commit(conditions),
        "Python": conditions.python,
        **{f"{name} (client's)": version for name, version in conditions.packages.items()},
        **{name.replace("_", " "): told for name, told in _flat(chosen).items()},
    }


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            found[prefix + name] = ABSENT if value is None else _told(value)
    return found


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
