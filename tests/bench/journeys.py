"""Made-up results of journeys: each repeat has given numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dragoman_bench.bench.results import Load, Point, Repeat, RequestRecord, Results
from dragoman_bench.bench.summary import spreads
from dragoman_bench.journey.claims import Measured
from tests.bench.making import record
from tests.bench.simulated import conditions, measured


def repeat(records: Sequence[RequestRecord] = (), **numbers: Any) -> Repeat:
    """One measurement whose summary has `numbers`, whatever its records are."""
    plain = measured(records or [record(output_tokens=10)])
    window_s = numbers.pop("window_s", 1000.0)  # long enough for many answers at any rate
    return replace(plain, window_s=window_s, summary=replace(plain.summary, **numbers))


def at_level(clients: int, repeats: Sequence[Repeat]) -> Point:
    return Point(Load("closed", clients=clients), tuple(repeats), spreads(repeats))


def results(*points: Point, **changes: Any) -> Results:
    found = conditions(options={"duration_s": 10.0, "warmup_s": 2.0}, **changes)
    return Results(found, points)


def rates(*rps: float, clients: int = 25) -> Results:
    """One level, a repeat for each rate."""
    return results(at_level(clients, [repeat(rps=value) for value in rps]))


def of_legs(**legs: Results) -> Measured:
    """Legs by name, with `__` for the dot and `_` for the dash: `workers_1__variable`."""
    return Measured({name.replace("__", ".").replace("_", "-"): found for name, found in legs.items()})
