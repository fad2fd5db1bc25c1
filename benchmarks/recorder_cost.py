"""The cost of the traffic recorder: the same load on a server that records and on one that does not, A B B A, in rounds.

    python benchmarks/recorder_cost.py                                    # no engine: only the cost of the service
    python benchmarks/recorder_cost.py --pipeline continuous --clients 64 # the real engine

Each round starts new server processes, because two processes of one program differ by more than the recorder costs; within
a round the order A B B A cancels a change of the machine's speed. Without an engine both servers of a round run side by side
(an idle one needs no CPU), with one they run one after another. The client shares the machine: RPS is what a user would see,
the server's CPU time for a text is the cost. Needs a quiet machine. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, Literal

import aiohttp
import psutil

from dragoman_bench.bench.benchmark import Plan, Warmup, run_benchmark
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.bench.results import Load, describe_machine, git_commit, installed_packages
from dragoman_bench.bench.servers import RunningServer, dragoman_serve, serving
from dragoman_bench.bench.summary import compare, spread_of
from dragoman_bench.bench.workload import GeneratedWorkload, PhrasebookTexts, parse_pairs, token_counter

Recorder = Literal["on", "off"]
ORDER: tuple[Recorder, ...] = ("on", "off", "off", "on")
METRICS = ("rps", "p50_s", "p95_s", "p99_s", "server_cpu_us_per_text")


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement. `recorded`: texts that the server had written and lost at its end, warm-up included."""

    round: int
    position: int
    recorder: Recorder
    texts: int
    failed: int
    rps: float
    p50_s: float
    p95_s: float
    p99_s: float
    server_cpu_us_per_text: float
    recorded: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Server:
    running: RunningServer
    process: psutil.Process


def plan_of(options: argparse.Namespace, url: str, seconds: float) -> Plan:
    tokens_of, tokens_are = token_counter()
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    pairs = parse_pairs("en-ja:3,en-ko:1,zh-en:1")
    workload = GeneratedWorkload("uniform", options.tokens, options.tokens, pairs, texts, tokens_of, tokens_are)
    load = Load("closed", clients=options.clients)
    return Plan(
        url,
        TargetOptions(),
        workload,
        (load,),
        duration_s=seconds,
        warmup=Warmup(),
        texts=500,
        stats=None,
    )


async def start(stack: AsyncExitStack, options: argparse.Namespace, folder: Path, recorder: Recorder) -> Server:
    flags: dict[str, str | int | float | bool] = {
        "pipeline": options.pipeline,
        "max-in-flight-characters": 100_000_000,
        "traffic": "true" if recorder == "on" else "false",
        "traffic-folder": str(folder / "traffic"),
        "log-level": "warning",
        **dict(flag.split("=", 1) for flag in options.serve),
    }
    engine_log = folder / f"{recorder}.engine.log"
    command = dragoman_serve(f"recorder-{recorder}", flags, engine_log)
    running = await stack.enter_async_context(serving(command, folder / f"{recorder}.log", asyncio.Event()))
    mine = (child for child in psutil.Process().children() if str(engine_log.resolve()) in child.cmdline())
    return Server(running, next(mine))


def cpu_s(process: psutil.Process) -> float:
    """CPU time of a process and its children."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


async def load(options: argparse.Namespace, server: Server, number: int, position: int, recorder: Recorder) -> Measured:
    url = server.running.url
    await run_benchmark(plan_of(options, url, options.warmup), NoProgress(), asyncio.Event())
    before_s = cpu_s(server.process)
    results = await run_benchmark(plan_of(options, url, options.seconds), NoProgress(), asyncio.Event())
    used_s = cpu_s(server.process) - before_s
    [point] = results.points
    summary, texts = point.repeats[0].summary, len(point.repeats[0].records)
    assert summary.e2e is not None, "no request succeeded"
    return Measured(
        number,
        position,
        recorder,
        texts,
        sum(summary.errors.values()),
        summary.rps,
        summary.e2e.p50_s,
        summary.e2e.p95_s,
        summary.e2e.p99_s,
        round(used_s / texts * 1e6, 1),
        await _recorded(url),
    )


async def _recorded(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/traffic") as answer:
        return (await answer.json())["recorder"]


async def round_of(options: argparse.Namespace, number: int) -> AsyncIterator[Measured]:
    with TemporaryDirectory() as name:
        if options.pipeline == "fake":
            async with AsyncExitStack() as stack:
                servers = {one: await start(stack, options, Path(name), one) for one in sorted(set(ORDER))}
                for position, recorder in enumerate(ORDER):
                    yield await load(options, servers[recorder], number, position, recorder)
            return
        for position, recorder in enumerate(ORDER):
            async with AsyncExitStack() as stack:
                server = await start(stack, options, Path(name), recorder)
                yield await load(options, server, number, position, recorder)


async def measure(options: argparse.Namespace) -> list[Measured]:
    measured: list[Measured] = []
    for number in range(options.rounds):
        async for one in round_of(options, number):
            measured.append(one)
            cpu = f"{one.server_cpu_us_per_text:.0f} µs of server CPU for a text"
            print(f"round {number + 1}, recorder {one.recorder:>3}: {one.rps:.0f} texts/s, {cpu}, {one.failed} failed")
    return measured


def results_of(options: argparse.Namespace, measured: list[Measured]) -> dict[str, Any]:
    """Medians and ranges of both, and the ratio on/off of each round."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        values = {one: [getattr(m, metric) for m in measured if m.recorder == one] for one in ("on", "off")}
        on, off = spread_of(values["on"]), spread_of(values["off"])
        rounds = [_ratio(measured, metric, number) for number in range(options.rounds)]
        found[metric] = {
            "on": asdict(on),
            "off": asdict(off),
            "on_over_off_by_round": asdict(spread_of(rounds)),
            "on_is": compare(on, off),
        }
    return {
        "conditions": {
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": asdict(describe_machine()),
            "packages": installed_packages(),
            "git_commit": git_commit(),
            **{name: value for name, value in vars(options).items() if name != "out"},
            "order": ORDER,
        },
        "found": found,
        "measurements": [asdict(one) for one in measured],
    }


def _ratio(measured: list[Measured], metric: str, number: int) -> float:
    values = {
        one: [getattr(m, metric) for m in measured if (m.round, m.recorder) == (number, one)] for one in ("on", "off")
    }
    return round(mean(values["on"]) / mean(values["off"]), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pipeline", default="fake", choices=["fake", "continuous"])
    parser.add_argument(
        "--serve", action="append", default=[], metavar="FLAG=VALUE", help="more flags of `dragoman serve`"
    )
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument(
        "--tokens", type=int, default=20, help="source tokens; with short texts the fixed cost of a text weighs most"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each measurement")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/recorder-cost.json"))
    options = parser.parse_args()
    result = results_of(options, asyncio.run(measure(options)))
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n| | on | off | on / off by round (lowest to highest) | on is |\n| --- | ---: | ---: | ---: | --- |")
    for metric, one in result["found"].items():
        ratio = one["on_over_off_by_round"]
        shares = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
        print(f"| {metric} | {one['on']['median']:.4g} | {one['off']['median']:.4g} | {shares} | {one['on_is']} |")
    print(json.dumps({name: value for name, value in result.items() if name != "measurements"}))


if __name__ == "__main__":
    main()
