"""Reads results with their labels from files, and selects load levels, points and repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Point, Repeat, Results, read_results

Named = Mapping[str, Results]
"""Results by label, in the order in which they are shown; the first is what the others are compared with."""


def read_named(paths: Sequence[Path]) -> dict[str, Results]:
    """Read result files, in this order, by the `label` in their options, else by file name. Raises ConfigError if one cannot
    be read, or two have the same label."""
    named: dict[str, Results] = {}
    for path in paths:
        results = read_results(path)
        label = str(results.conditions.options.get("label") or "").strip() or path.stem
        if label in named:
            raise ConfigError(f"{path}: another file has the label {label!r}; rename one of them")
        named[label] = results
    return named


def loads_of(named: Named) -> list[Load]:
    """Return all measured load levels, grouped by kind, lowest first."""
    return sorted({point.load for results in named.values() for point in results.points}, key=lambda load: load.order)


def shared_load(named: Named) -> Load:
    """Return the highest of the load levels that most results have. Raises ConfigError if nothing was measured."""
    having = Counter(point.load for results in named.values() for point in results.points)
    if not having:
        raise ConfigError(f"nothing was measured in {', '.join(named) or 'no results'}: there is no load level")
    return max(having, key=lambda load: (having[load], load.order))


def points_at(named: Named, load: Load) -> dict[str, Point]:
    """Return the points at this load, of the results that measured it."""
    return {name: point for name, results in named.items() for point in results.points if point.load == load}


def any_has(named: Named, metric: str) -> bool:
    """Whether any point has the metric."""
    return any(metric in point.spreads for results in named.values() for point in results.points)


def typical(point: Point) -> Repeat:
    """Return the repeat whose throughput is nearest to the median."""
    middle = point.spreads["rps"].median
    return min(point.repeats, key=lambda repeat: abs(repeat.summary.rps - middle))
