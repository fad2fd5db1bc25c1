"""Servers that are all up at once and measured in turn, such as dragoman and `vllm serve`: A B, B A, A B.

While one is measured the others idle, so none is slowed by another's work, and a machine that drifts drifts under all.
Numbers of two are compared pair by pair, within a turn. Knows nothing of other steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median

from dragoman_bench.bench.benchmark import Bench, prepared
from dragoman_bench.bench.results import Measurement, Results
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.journey.evidence import P99, RPS, At, Evidence, Metric, plain
from dragoman_bench.journey.measure import Meter, rounds
from dragoman_bench.journey.steps import Leg, Level

METRICS: tuple[Metric, ...] = (RPS, P99)


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that runs. `announce` is called before it is measured, `check` afterwards; it raises where it has died."""

    name: str
    url: str
    target: TargetOptions
    check: Callable[[], None]
    announce: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class PairRatio:
    """The first contender's number over the second's, by turn."""

    clients: int
    metric: str
    ratios: tuple[float, ...]

    @property
    def told(self) -> str:
        """`1.02 (0.99..1.04), no difference`."""
        low, high = min(self.ratios), max(self.ratios)
        side = "higher in every pair" if low > 1 else "lower in every pair" if high < 1 else "no difference"
        told = f"{plain(median(self.ratios))} ({plain(low)}..{plain(high)})"
        return f"{told}, {side}" if len(self.ratios) > 1 else f"{told}, measured once"


def turn_order(contenders: int, turn: int) -> tuple[int, ...]:
    """Who comes when: each turn begins with the next one, so that everybody is first, second and last equally often."""
    return tuple((place + turn) % contenders for place in range(contenders))


async def alternate(meter: Meter, leg: Leg, contenders: Sequence[Contender]) -> dict[str, Results]:
    """Results by contender, repeats in step: the n-th of one belongs to the n-th of the others. A turn that was not
    finished by all is dropped. Raises ConfigError as a benchmark does, ServerFault where a server died."""
    async with AsyncExitStack() as stack:
        benches = [
            await stack.enter_async_context(prepared(meter.plan(one.url, one.target, leg))) for one in contenders
        ]
        measured: tuple[dict[int, list[Measurement]], ...] = tuple({} for _ in contenders)
        for repeat, level in rounds(leg.levels):
            turn = await _turn(meter, benches, contenders, level, repeat)
            if turn is None:
                break
            for mine, measurement in zip(measured, turn, strict=True):
                mine.setdefault(level.clients, []).append(measurement)
        return {
            one.name: meter.gather(bench, leg, mine, {"label": one.name, "versus": [c.name for c in contenders]})
            for one, bench, mine in zip(contenders, benches, measured, strict=True)
        }


async def _turn(
    meter: Meter, benches: list[Bench], contenders: Sequence[Contender], level: Level, repeat: int
) -> list[Measurement] | None:
    """One measurement of each, in the contenders' order; who goes first changes from turn to turn."""
    found: dict[int, Measurement] = {}
    for number in turn_order(len(contenders), repeat):
        contenders[number].announce()
        measurement = await meter.measure_once(benches[number], level, repeat)
        contenders[number].check()
        if measurement is None or measurement.stopped == "interrupted":
            return None
        found[number] = measurement
    return [found[number] for number in range(len(contenders))]


def pair_ratios(first: Results, second: Results) -> list[PairRatio]:
    """By load level and metric. Levels and turns that only one of them has are left out."""
    ours, theirs = Evidence({"": first}), Evidence({"": second})
    ratios: list[PairRatio] = []
    for point in first.points:
        at = At("", point.load.clients or 0)
        for metric in METRICS:
            pairs = zip(ours.values(at, metric), theirs.values(at, metric), strict=False)
            found = tuple(one / other for one, other in pairs if other)
            if found:
                ratios.append(PairRatio(at.clients, metric.name, found))
    return ratios


def markdown(names: tuple[str, str], results: dict[str, Results], ratios: Sequence[PairRatio]) -> str:
    """A table: both servers' numbers, and their ratio pair by pair."""
    lines = [
        f"| clients | | {names[0]} | {names[1]} | ratio, pair by pair |",
        "| ---: | --- | ---: | ---: | --- |",
    ]
    by_name = {metric.name: metric for metric in METRICS}
    for ratio in ratios:
        metric = by_name[ratio.metric]
        sides = [Evidence({"": results[name]}).told(At("", ratio.clients), metric) or "–" for name in names]
        lines.append(f"| {ratio.clients} | {ratio.metric} | {sides[0]} | {sides[1]} | {ratio.told} |")
    return "\n".join(lines) + "\n"
