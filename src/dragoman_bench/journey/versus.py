"""dragoman and `vllm serve`, both running and measured in turn (A B, B A, A B): whole answers and streams.

While one server is measured the other is idle, so neither is slowed by the other's work, and a machine whose speed drifts
affects both. Numbers are compared pair by pair, within a round. Streamed measurements send other texts than plain ones,
so that no prompt is in a prefix cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import PreparedBenchmark, prepared
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.results import Measurement, Results, write_results
from dragoman_bench.bench.servers import Interrupted, serving
from dragoman_bench.bench.tables import NONE, Column, markdown, number, table, write_text
from dragoman_bench.journey.judging import P99, RPS, At, Measured, Metric, percentile
from dragoman_bench.journey.measure import LoadMeter, rounds
from dragoman_bench.journey.run import JourneyDisplay
from dragoman_bench.journey.steps import Leg, Level, Mode, Step, Subject, command_of, target_of

METRICS: dict[Mode, tuple[Metric, ...]] = {
    "plain": (RPS, P99),
    "streamed": (
        RPS,
        P99,
        Metric("time to first token, median", percentile("ttft", "p50_s"), " ms", 1000),
        Metric("time to first token, 99th percentile", percentile("ttft", "p99_s"), " ms", 1000),
        Metric("inter-token latency, median", percentile("itl", "p50_s"), " ms", 1000),
        Metric("inter-token latency, 99th percentile", percentile("itl", "p99_s"), " ms", 1000),
        Metric("time per output token, median", percentile("tpot", "p50_s"), " ms", 1000),
    ),
}
"""Inter-token latency counts gaps between events that carry text; a server may put several tokens into one event, which
the time per output token does not depend on."""


@dataclass(frozen=True, slots=True)
class ComparedServer:
    """A running server. `announce` is called before each measurement, `check` after it; `check` raises where the process
    has exited."""

    name: str
    url: str
    target: TargetOptions
    check: Callable[[], None]
    announce: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class PairRatios:
    """The first server's number over the second's in each round. `values`: both servers' numbers, in the order of the
    rounds; empty in files of earlier versions."""

    clients: int
    metric: str
    ratios: tuple[float, ...]
    mode: Mode = "plain"
    values: tuple[tuple[float, ...], ...] = ()

    @property
    def text(self) -> str:
        """`1.02 [0.99..1.04], no difference`."""
        low, high = min(self.ratios), max(self.ratios)
        side = "higher in every pair" if low > 1 else "lower in every pair" if high < 1 else "no difference"
        ratio = f"{number(median(self.ratios))} [{number(low)}..{number(high)}]"
        return f"{ratio}, {side}" if len(self.ratios) > 1 else f"{ratio}, measured once"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results by mode and server name; empty where it was interrupted before both servers were measured once."""

    names: tuple[str, str]
    results: dict[Mode, dict[str, Results]]
    partial: bool = False

    @property
    def ratios(self) -> tuple[PairRatios, ...]:
        """Of every mode, load level and metric that both servers have numbers for."""
        return tuple(
            ratio
            for mode, results in self.results.items()
            for ratio in pair_ratios(results[self.names[0]], results[self.names[1]], mode)
        )


async def compare_servers(
    steps: tuple[Step, Step], subject: Subject, folder: Path, meter: LoadMeter, display: JourneyDisplay
) -> Comparison:
    """Starts both and measures them in turn. Raises ServerFault where a server does not start or exits, ConfigError where
    one cannot do what is asked."""
    names = (steps[0].name, steps[1].name)
    try:
        async with AsyncExitStack() as stack:
            servers = [await _start(stack, step, subject, folder, meter, display) for step in steps]
            results = await alternate(meter, steps[0].legs[0], servers)
    except Interrupted:
        return Comparison(names, {}, partial=True)
    return Comparison(names, results, partial=meter.interrupted.is_set())


async def _start(
    stack: AsyncExitStack, step: Step, subject: Subject, folder: Path, meter: LoadMeter, display: JourneyDisplay
) -> ComparedServer:
    logs = folder / "logs"
    display.starting(step)
    command = command_of(step, subject, logs / f"versus-{step.name}.engine.log")
    server = await stack.enter_async_context(serving(command, logs / f"versus-{step.name}.log", meter.interrupted))
    announce = lambda: display.leg(step, step.legs[0])  # noqa: E731
    return ComparedServer(step.name, server.url, target_of(step, subject), server.check_alive, announce)


def turn_order(servers: int, round_number: int) -> tuple[int, ...]:
    """The order within a round: each begins with the next server, so that each is first, second and last equally often."""
    return tuple((place + round_number) % servers for place in range(servers))


async def alternate(meter: LoadMeter, leg: Leg, servers: Sequence[ComparedServer]) -> dict[Mode, dict[str, Results]]:
    """Results by mode and server: the n-th repeat of one belongs to the n-th of the others. A round that not all servers
    finished is dropped. Raises ConfigError as a benchmark does, ServerFault where a server exited."""
    meters: dict[Mode, LoadMeter] = {mode: meter.of_mode(mode) for mode in leg.modes}
    async with AsyncExitStack() as stack:
        benches: dict[Mode, list[PreparedBenchmark]] = {}
        for mode, measuring in meters.items():
            targets = [replace(server.target, stream=mode == "streamed") for server in servers]
            plans = [measuring.plan(server.url, target, leg) for server, target in zip(servers, targets, strict=True)]
            benches[mode] = [await stack.enter_async_context(prepared(plan)) for plan in plans]
        measured: dict[Mode, list[dict[int, list[Measurement]]]] = {mode: [{} for _ in servers] for mode in leg.modes}
        for repeat, level in rounds(leg.levels):
            for mode in leg.modes:
                turn = await _round(meters[mode], benches[mode], servers, level, repeat)
                for of_server, measurement in zip(measured[mode], turn, strict=False):
                    of_server.setdefault(level.clients, []).append(measurement)
        names = [server.name for server in servers]
        return {
            mode: {
                name: meters[mode].gather(bench, leg, found, {"label": name, "versus": names, "mode": mode})
                for name, bench, found in zip(names, benches[mode], measured[mode], strict=True)
            }
            for mode in leg.modes
        }


async def _round(
    meter: LoadMeter, benches: Sequence[PreparedBenchmark], servers: Sequence[ComparedServer], level: Level, repeat: int
) -> list[Measurement]:
    """One measurement of each server, in the servers' order; empty where it was interrupted."""
    found: dict[int, Measurement] = {}
    for place in turn_order(len(servers), repeat):
        servers[place].announce()
        measurement = await meter.measure_once(benches[place], level, repeat)
        servers[place].check()
        if measurement is None or measurement.stopped == "interrupted":
            return []
        found[place] = measurement
    return [found[place] for place in range(len(servers))]


def pair_ratios(first: Results, second: Results, mode: Mode = "plain") -> list[PairRatios]:
    """By load level and metric. Levels and rounds that only one of the two has are left out."""
    ours, theirs = Measured({"": first}), Measured({"": second})
    found: list[PairRatios] = []
    for point in first.points:
        at = At("", point.load.clients or 0)
        for metric in METRICS[mode]:
            pairs = [pair for pair in zip(ours.values(at, metric), theirs.values(at, metric), strict=False) if pair[1]]
            if pairs:
                ratios = tuple(one / other for one, other in pairs)
                found.append(PairRatios(at.clients, metric.name, ratios, mode, tuple(zip(*pairs, strict=True))))
    return found


def write_comparison(comparison: Comparison, folder: Path) -> str:
    """Writes each server's results, `versus.json` and `versus.md`; returns the table. Raises ConfigError."""
    if not comparison.ratios:
        raise ConfigError("interrupted before both servers were measured once: there is nothing to compare")
    for mode, results in comparison.results.items():
        suffix = "" if mode == "plain" else f".{mode}"
        for name, found in results.items():
            if found.points:
                write_results(found, folder / f"versus.{name}{suffix}.json")
    document = {
        "names": comparison.names,
        "partial": comparison.partial,
        "ratios": [asdict(ratio) for ratio in comparison.ratios],
    }
    text = comparison_table(comparison)
    write_text(folder / "versus.json", json.dumps(document, indent=1) + "\n", "out")
    write_text(folder / "versus.md", text, "out")
    return text


def comparison_table(comparison: Comparison) -> str:
    """Markdown: both servers' numbers (median and range of the rounds), and their ratio pair by pair."""
    rows: list[tuple[str, ...]] = []
    for ratio in comparison.ratios:
        metric = next(one for one in METRICS[ratio.mode] if one.name == ratio.metric)
        results, at = comparison.results[ratio.mode], At("", ratio.clients)
        numbers = (Measured({"": results[name]}).text(at, metric) or NONE for name in comparison.names)
        rows.append((ratio.mode, str(ratio.clients), ratio.metric, *numbers, ratio.text))
    columns = ("answers", "clients", Column("metric", "left"), *comparison.names, Column("ratio, pair by pair", "left"))
    return markdown(table("", columns, rows)) + "\n"
