"""The cost of HTTP and of the service: translations through HTTP, and the same work handed to the engine in process.

    python benchmarks/overhead.py --out results/overhead-cpu.json
    python benchmarks/overhead.py --model /models/Qwen3-4B --profile tower-plus --clients 25,128 --out results/overhead-gpu.json

Two engines with the same settings run: one behind `dragoman serve`, one in this process without a server. They are measured
in turn (A B, B A, ...), so a change of the machine's speed affects both. Random weights (`load_format=dummy`) allow forced
output lengths, so both generate the same number of tokens for the same texts. The client of the HTTP side runs in this process, on this machine: on a
machine whose cores the engine uses, its CPU time is part of the comparison. Then `dragoman serve --pipeline fake`: the same
path without an engine, and how fast this client can send.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from in_process import (
    InProcess,
    conditions_of,
    engine_settings,
    in_process,
    parser_of,
    run_until_interrupted,
    summary,
    texts_of,
    workload,
    write,
)

from dragoman.cli.console import error_console
from dragoman.settings import EngineSettings
from dragoman_bench.bench.benchmark import Plan, Warmup, run_benchmark
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.progress import ProgressLines
from dragoman_bench.bench.results import Load
from dragoman_bench.bench.servers import Flags, dragoman_serve, serving
from dragoman_bench.bench.workload import GeneratedWorkload

FAKE_CLIENTS = (1, 16, 64)
MEASURED = {"fake": ("rps", "client_cpu_share"), "engine": ("http_rps", "in_process_rps", "ratio", "client_cpu_share")}
Rows = list[dict[str, Any]]


def serve_flags(options: argparse.Namespace, engine: EngineSettings) -> Flags:
    passed = (
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
    )
    flags: dict[str, Any] = {
        name.replace("_", "-"): value for name in passed if (value := getattr(engine, name)) is not None
    }
    named = {"model": options.model, "profile": options.profile}
    return flags | {name: value for name, value in named.items() if value} | {"load-format": "dummy"}


def plan(url: str, work: GeneratedWorkload, clients: int, options: argparse.Namespace, turn: int) -> Plan:
    seconds = options.duration
    return Plan(
        url=url,
        target=TargetOptions("dragoman"),
        workload=replace(work, seed=turn),
        loads=(Load("closed", clients=clients),),
        duration_s=seconds,
        warmup=Warmup(duration_s=options.warmup),
        texts=texts_of(clients, seconds),
        sampled=False,  # the engine in process is not polled either
    )


async def over_http(one: Plan) -> tuple[float, dict[str, Any]]:
    results = await run_benchmark(one, ProgressLines(error_console), asyncio.Event())
    measurement = results.points[0].repeats[0]
    errors = sum(measurement.summary.errors.values())
    if errors:
        raise SystemExit(f"{errors} requests failed: {measurement.summary.errors}")
    return measurement.summary.rps, {"client_cpu_share": measurement.client.cpu_share}


async def compare(
    options: argparse.Namespace, engine: EngineSettings, work: GeneratedWorkload, logs: Path, rows: Rows
) -> None:
    """Appends the RPS of both to `rows`, turn by turn, for each number of clients."""
    command = dragoman_serve("server", serve_flags(options, engine), logs / "server.engine.log")
    async with serving(command, logs / "server.log", asyncio.Event()) as server:
        async with in_process(options, engine, logs / "alone.engine.log") as alone:
            for clients, turn in itertools.product(options.clients, range(options.repeats)):
                rows.append(await turn_of(server.url, alone, work, clients, options, turn))


async def turn_of(
    url: str, alone: InProcess, work: GeneratedWorkload, clients: int, options: argparse.Namespace, turn: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"clients": clients, "turn": turn}
    # The same texts in the same order as the other side, and different ones for the warm-up: a turn holds some tens of
    # texts, and two parts of a workload differ in length.
    made, texts = replace(work, seed=turn), texts_of(clients, options.duration)
    items, warmup = made.items(texts, 1), made.items(texts, 2)
    for side in ("http", "in_process") if turn % 2 == 0 else ("in_process", "http"):
        if side == "http":
            row["http_rps"], client = await over_http(plan(url, work, clients, options, turn))
            row |= client
        else:
            seconds = options.duration
            measured = await alone.measure(items, clients, seconds, warmup=warmup, warmup_s=options.warmup)
            row["in_process_rps"] = measured["rps"]
    row["ratio"] = row["http_rps"] / row["in_process_rps"]
    error_console.print(row)
    return row


async def fake(options: argparse.Namespace, work: GeneratedWorkload, logs: Path, rows: Rows) -> None:
    """The service without an engine: the cost of HTTP, admission, prompts and checks alone."""
    named = {name: value for name, value in (("model", options.model), ("profile", options.profile)) if value}
    command = dragoman_serve("fake", {**named, "pipeline": "fake"}, logs / "fake.engine.log")
    plain = replace(work, ratio=None)  # the fake pipeline takes no forced lengths
    async with serving(command, logs / "fake.log", asyncio.Event()) as server:
        for clients in FAKE_CLIENTS:
            for turn in range(options.repeats):
                rps, client = await over_http(replace(plan(server.url, plain, clients, options, turn), texts=2000))
                rows.append({"clients": clients, "turn": turn, "rps": rps, **client})


async def run(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """Fills `document` as it goes, so that an interrupt keeps what was measured."""
    work, logs = workload(options), options.logs.resolve()
    document["conditions"] = conditions_of(options, work)
    if options.fake:
        document["fake"] = part = {"turns": Rows()}
        await fake(options, work, logs, part["turns"])
    if options.engine:
        settings = engine_settings(options)
        document["engine"] = {"settings": asdict(settings), "turns": (turns := Rows())}
        await compare(options, settings, work, logs, turns)


def summarised(document: dict[str, Any]) -> dict[str, Any]:
    for name, keys in MEASURED.items():
        if document.get(name, {}).get("turns"):
            document[name]["summary"] = summary(document[name]["turns"], keys)
    return {name: part["summary"] for name, part in document.items() if "summary" in part}


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/overhead")
    parser.add_argument("--fake", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--engine", action=argparse.BooleanOptionalAction, default=True)
    parser.set_defaults(clients=[1, 8, 25], duration=10.0, warmup=4.0)
    options = parser.parse_args()
    document: dict[str, Any] = {}
    run_until_interrupted(run(options, document), document)
    summaries = summarised(document)
    if summaries:
        write(document, options.out)
    print(json.dumps(summaries, indent=1))


if __name__ == "__main__":
    main()
