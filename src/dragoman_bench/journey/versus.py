"""dragoman and `vllm serve`, both running and measured in turn (A B, B A, A B): whole answers and streams.

While one server is measured the other is idle, so neither is slowed by the other's work, and a machine whose speed drifts
affects both. Numbers are compared pair by pair, within a round. Streamed measurements send other texts than plain ones,
so that no prompt is in a prefix cache.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import RunProgress
from dragoman_bench.bench.results import Results, write_results
from dragoman_bench.bench.servers import Interrupted, serving
from dragoman_bench.bench.tables import NONE, Column, markdown, number, table, write_text
from dragoman_bench.journey.claims import P99, RPS, At, Measured, Metric, percentile
from dragoman_bench.journey.measure import LoadMeter, MeasuredServer
from dragoman_bench.journey.steps import Mode, Step, Subject, command_of, target_of

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


async def compare_servers(
    steps: tuple[Step, Step], subject: Subject, folder: Path, meter: LoadMeter, progress: RunProgress
) -> Comparison:
    """Starts both and measures them in turn. Raises ServerFault where a server does not start or exits, ConfigError where
    one cannot do what is asked."""
    names, logs = (steps[0].name, steps[1].name), folder / "logs"
    servers: list[MeasuredServer] = []
    try:
        async with AsyncExitStack() as stack:
            for step in steps:
                announce = partial(setattr, progress, "where", step.leg_name(step.legs[0]))
                announce()
                progress.phase("starting", None)
                command = command_of(step, subject, logs / f"versus-{step.name}.engine.log")
                running = serving(command, logs / f"versus-{step.name}.log", meter.interrupted)
                server = await stack.enter_async_context(running)
                notes, target = {"label": step.name, "versus": names}, target_of(step, subject)
                servers.append(
                    MeasuredServer(step.name, server.url, target, server.check_alive, announce=announce, notes=notes)
                )
            results = await meter.measure(steps[0].legs[0], servers)
    except Interrupted:
        return Comparison(names, {}, partial=True)
    return Comparison(names, results, partial=meter.interrupted.is_set())


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
    """Writes each server's results, `versus.json` and `versus.md`; returns the table: both servers' numbers (median and
    range of the rounds), and their ratio pair by pair. Raises ConfigError."""
    ratios: list[PairRatios] = []
    rows: list[tuple[str, ...]] = []
    for mode, results in comparison.results.items():
        for ratio in pair_ratios(*(results[name] for name in comparison.names), mode=mode):
            metric = next(one for one in METRICS[mode] if one.name == ratio.metric)
            at = At("", ratio.clients)
            numbers = (Measured({"": results[name]}).text(at, metric) or NONE for name in comparison.names)
            ratios.append(ratio)
            rows.append((mode, str(ratio.clients), ratio.metric, *numbers, ratio.text))
        for name, found in results.items():
            if found.points:
                write_results(found, folder / f"versus.{name}{'' if mode == 'plain' else f'.{mode}'}.json")
    if not ratios:
        raise ConfigError("interrupted before both servers were measured once: there is nothing to compare")
    columns = ("answers", "clients", Column("metric", "left"), *comparison.names, Column("ratio, pair by pair", "left"))
    text = markdown(table("", columns, rows)) + "\n"
    document = {"names": comparison.names, "partial": comparison.partial, "ratios": [asdict(ratio) for ratio in ratios]}
    write_text(folder / "versus.json", json.dumps(document, indent=1) + "\n", "out")
    write_text(folder / "versus.md", text, "out")
    return text
