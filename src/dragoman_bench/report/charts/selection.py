"""Which numbers a chart or a table shows: the load levels of several results, one point of one, one repeat of a point.

Knows neither drawing nor text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from dragoman_bench.bench.results import Band, Load, LoadKind, Measurement, Point, Results, Spread, Summary
from dragoman_bench.bench.summary import spread_of

Named = Mapping[str, Results]
"""Results by label, in the order in which they are shown; the first is what the others are compared with."""

_KINDS: tuple[LoadKind, ...] = ("closed", "constant", "poisson", "ramp", "replay")


def loads_of(named: Named) -> list[Load]:
    """Every load level that any of them measured, lowest first, kinds apart."""
    return sorted({point.load for results in named.values() for point in results.points}, key=_order)


def shared_load(named: Named) -> Load:
    """The highest of the load levels that most results have. Raises ValueError where nothing was measured."""
    having = Counter(point.load for results in named.values() for point in results.points)
    return max(having, key=lambda load: (having[load], _order(load)))


def point_at(results: Results, load: Load) -> Point | None:
    return next((point for point in results.points if point.load == load), None)


def points_at(named: Named, load: Load) -> dict[str, Point]:
    """The points of those that measured this load."""
    found = {name: point_at(results, load) for name, results in named.items()}
    return {name: point for name, point in found.items() if point is not None}


def spread_over(point: Point, read: Callable[[Summary], float | None]) -> Spread | None:
    """A number over the repeats; None where a repeat lacks it."""
    values = [value for repeat in point.repeats if (value := read(repeat.summary)) is not None]
    return spread_of(values) if values and len(values) == len(point.repeats) else None


def of_band(band: Band, percentile: str) -> Callable[[Summary], float | None]:
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
