"""Results by label: reading them from files, their load levels, and the numbers of one point or one repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, LoadKind, Measurement, Point, Results, Spread, Summary, read_results
from dragoman_bench.bench.summary import spread_of

Named = Mapping[str, Results]
"""Results by label, in the order in which they are shown; the first is what the others are compared with."""

_KINDS: tuple[LoadKind, ...] = ("closed", "constant", "poisson", "ramp", "replay")


def read_named(paths: Sequence[Path]) -> dict[str, Results]:
    """Files in their order, by the `label` among their options, else by file name.

    Raises ConfigError where one cannot be read, or is given twice.
    """
    again = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if again:
        raise ConfigError(f"{again[0].name} is given twice")
    read = [read_results(path) for path in paths]
    labels = [_label(results) or path.stem for results, path in zip(read, paths, strict=True)]
    return dict(zip(_unique(labels, paths), read, strict=True))


def _label(results: Results) -> str | None:
    label = results.conditions.options.get("label")
    return label.strip() if isinstance(label, str) and label.strip() else None


def _unique(labels: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """A label that several files have gets the file's name too, then its folder's, then a number."""
    unique = list(labels)
    names: tuple[Callable[[Path], str], ...] = (lambda path: path.stem, lambda path: path.resolve().parent.name)
    for more in names:
        count = Counter(unique)
        unique = [
            f"{label} ({more(path)})" if count[label] > 1 and more(path) != label else label
            for label, path in zip(unique, paths, strict=True)
        ]
    count, seen = Counter(unique), Counter[str]()
    for place, label in enumerate(unique):
        seen[label] += 1
        unique[place] = f"{label} #{seen[label]}" if count[label] > 1 else label
    return unique


def check(named: Named) -> None:
    """Raises ConfigError where there is nothing to report."""
    if not named:
        raise ConfigError("no results to report")
    if not any(results.points for results in named.values()):
        raise ConfigError(f"nothing was measured in {', '.join(named)}: the results hold no load level")


def loads_of(named: Named) -> list[Load]:
    """Every load level that any of them measured, lowest first, kinds apart."""
    return sorted({point.load for results in named.values() for point in results.points}, key=_order)


def shared_load(named: Named) -> Load:
    """The highest of the load levels that most results have. Raises ValueError where nothing was measured."""
    having = Counter(point.load for results in named.values() for point in results.points)
    return max(having, key=lambda load: (having[load], _order(load)))


def load_labelled(named: Named, label: str | None) -> Load | None:
    """The load level with that label; None for None. Raises ConfigError on an unknown one."""
    loads = {load.label: load for load in loads_of(named)}
    if label is not None and label not in loads:
        raise ConfigError(f"no load level {label!r}; there are {', '.join(loads)}", param="load")
    return loads[label] if label is not None else None


def point_at(results: Results, load: Load) -> Point | None:
    return next((point for point in results.points if point.load == load), None)


def points_at(named: Named, load: Load) -> dict[str, Point]:
    """The points of those that measured this load."""
    found = {name: point_at(results, load) for name, results in named.items()}
    return {name: point for name, point in found.items() if point is not None}


def any_has(named: Named, metric: str) -> bool:
    """Whether any point has the metric."""
    return any(metric in point.spreads for results in named.values() for point in results.points)


def spread_over(point: Point, read: Callable[[Summary], float | None]) -> Spread | None:
    """A number over the repeats; None where a repeat lacks it."""
    values = [value for repeat in point.repeats if (value := read(repeat.summary)) is not None]
    return spread_of(values) if values and len(values) == len(point.repeats) else None


def of_band(band: LengthBand, percentile: str) -> Callable[[Summary], float | None]:
    """Reads the end-to-end latency of one length band: `p50_s` and so on."""

    def read(summary: Summary) -> float | None:
        found = summary.bands.get(band)
        return getattr(found.e2e, percentile) if found and found.e2e else None

    return read


def typical(point: Point) -> Measurement:
    """The repeat whose throughput is the median, or nearest to it: the one to look at in detail."""
    middle = point.spreads["rps"].median
    return min(point.repeats, key=lambda repeat: abs(repeat.summary.rps - middle))


def sustained(point: Point) -> bool:
    """Whether every repeat ran to its end."""
    return all(repeat.stopped == "finished" for repeat in point.repeats)


def failed_share(point: Point) -> float:
    """Of the requests of all repeats, those that did not complete."""
    sent = sum(repeat.summary.requests for repeat in point.repeats)
    return 1 - sum(repeat.summary.completed for repeat in point.repeats) / sent if sent else 0.0


def _order(load: Load) -> tuple[int, float, float, float]:
    return _KINDS.index(load.kind), load.clients or 0, load.rate_rps or 0.0, load.to_rate_rps or 1 / load.time_scale
