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
    """Files in their order, by the `label` among their options, else by file name; with the path where two have the same.

    Raises ConfigError where one cannot be read, or is given twice.
    """
    again = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if again:
        raise ConfigError(f"{again[0].name} is given twice")
    read = [read_results(path) for path in paths]
    labels = [
        str(results.conditions.options.get("label") or "").strip() or path.stem
        for results, path in zip(read, paths, strict=True)
    ]
    uses = Counter(labels)
    unique = [f"{label} ({path})" if uses[label] > 1 else label for label, path in zip(labels, paths, strict=True)]
    return dict(zip(unique, read, strict=True))


def loads_of(named: Named) -> list[Load]:
    """Every load level that any of them measured, lowest first, kinds apart."""
    return sorted({point.load for results in named.values() for point in results.points}, key=lambda load: load.order)


def shared_load(named: Named, label: str | None = None) -> Load:
    """The load level with that label; else the highest of those that most results have.

    Raises ConfigError on an unknown label, and where nothing was measured.
    """
    having = Counter(point.load for results in named.values() for point in results.points)
    if not having:
        raise ConfigError(f"nothing was measured in {', '.join(named) or 'no results'}: there is no load level")
    if label is None:
        return max(having, key=lambda load: (having[load], load.order))
    loads = {load.label: load for load in loads_of(named)}
    if label not in loads:
        raise ConfigError(f"no load level {label!r}; there are {', '.join(loads)}", param="load")
    return loads[label]


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
