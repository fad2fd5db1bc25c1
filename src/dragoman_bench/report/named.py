"""Results by label: reading them from files, their load levels, and the numbers of one point or one repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Measurement, Point, Results, read_results

Named = Mapping[str, Results]
"""Results by label, in the order in which they are shown; the first is what the others are compared with."""


def read_named(paths: Sequence[Path]) -> dict[str, Results]:
    """Files in their order, by the `label` among their options, else by file name. Raises ConfigError where one cannot be read,
    or two have the same label."""
    named: dict[str, Results] = {}
    for path in paths:
        results = read_results(path)
        label = str(results.conditions.options.get("label") or "").strip() or path.stem
        if label in named:
            raise ConfigError(f"{path}: another file has the label {label!r}; rename one of them")
        named[label] = results
    return named


def loads_of(named: Named) -> list[Load]:
    """Every load level that any of them measured, lowest first, kinds apart."""
    return sorted({point.load for results in named.values() for point in results.points}, key=lambda load: load.order)


def shared_load(named: Named) -> Load:
    """The highest load level of those that most results have. Raises ConfigError where nothing was measured."""
    having = Counter(point.load for results in named.values() for point in results.points)
    if not having:
        raise ConfigError(f"nothing was measured in {', '.join(named) or 'no results'}: there is no load level")
    return max(having, key=lambda load: (having[load], load.order))


def points_at(named: Named, load: Load) -> dict[str, Point]:
    """The points of those that measured this load."""
    return {name: point for name, results in named.items() for point in results.points if point.load == load}


def any_has(named: Named, metric: str) -> bool:
    """Whether any point has the metric."""
    return any(metric in point.spreads for results in named.values() for point in results.points)


def typical(point: Point) -> Measurement:
    """The repeat whose throughput is the median, or nearest to it: the one to look at in detail."""
    middle = point.spreads["rps"].median
    return min(point.repeats, key=lambda repeat: abs(repeat.summary.rps - middle))
