"""What it is worth that new sequences join a running batch together, once every few steps (`engine/intake.py`).

    python benchmarks/prefill_interval.py --model /models/Qwen3-4B --profile tower-plus --out results/prefill-interval-gpu.json

One engine for each CUDA-graph ceiling, all up at once, in this process and without a server. Each is measured with each interval
in turn, in an order that changes from turn to turn; while one is measured the others idle. Random weights force every output's
length, so all do the same tokens. The latencies are of whole translations, the wait for the others included.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from in_process import InProcess, engine_settings, in_process, spread, texts_of, workload

from dragoman.bench import conditions
from dragoman.bench.gpu import find_gpus
from dragoman.cli.console import error_console
from dragoman.engine.device import device
from dragoman.settings import GRAPH_CEILING

SHARED = 0.84  # of a GPU's memory
Rows = list[dict[str, Any]]


@asynccontextmanager
async def engines(options: argparse.Namespace) -> AsyncGenerator[dict[int | None, InProcess]]:
    """By graph ceiling; None where there are no graphs."""
    async with AsyncExitStack() as stack:
        started: dict[int | None, InProcess] = {}
        for ceiling in options.ceilings:
            settings = replace(
                engine_settings(options),
                max_cudagraph_capture_size=ceiling,
                gpu_memory_utilization=round(SHARED / len(options.ceilings), 2),
            )
            log = options.logs.resolve() / f"ceiling-{ceiling or 'none'}.engine.log"
            started[ceiling] = await stack.enter_async_context(in_process(options, settings, log))
            error_console.print(f"an engine is up: {graphs(ceiling)}")
        yield started


async def compare(options: argparse.Namespace, rows: Rows) -> None:
    """Fills `rows`, turn by turn."""
    work = workload(options)
    sides = list(itertools.product(options.ceilings, options.intervals))
    options.logs.mkdir(parents=True, exist_ok=True)
    async with engines(options) as started:
        for turn, clients in itertools.product(range(options.repeats), options.clients):
            made, texts = replace(work, seed=turn), texts_of(clients, options.duration)
            items, warmup = made.items(texts, 1), made.items(texts, 2)
            for ceiling, interval in sides[turn % len(sides) :] + sides[: turn % len(sides)]:
                alone = started[ceiling]
                alone.engine.intake.interval = interval
                seen = await alone.measure(items, clients, options.duration, warmup=warmup, warmup_s=options.warmup)
                rows.append({"clients": clients, "ceiling": ceiling, "interval": interval, "turn": turn, **seen})
                error_console.print(rows[-1])


def graphs(ceiling: int | None) -> str:
    return f"CUDA graphs up to {ceiling} tokens" if ceiling else "no CUDA graphs"


def summary(rows: Rows) -> Rows:
    """Median and range of each point, and of its ratio, turn by turn, to the first interval at the same ceiling."""
    told: Rows = []
    first = rows[0]["interval"]
    keys = {(row["clients"], row["ceiling"], row["interval"]) for row in rows}
    for key in sorted(keys, key=lambda key: (key[0], key[1] or 0, key[2])):
        clients, ceiling, interval = key
        mine = {row["turn"]: row for row in rows if (row["clients"], row["ceiling"], row["interval"]) == key}
        plain = {
            row["turn"]: row
            for row in rows
            if (row["clients"], row["ceiling"], row["interval"]) == (clients, ceiling, first)
        }
        pairs = [turn for turn in mine if turn in plain]
        point: dict[str, Any] = {"clients": clients, "ceiling": ceiling, "interval": interval}
        for name in ("rps", "p50_s", "p99_s"):
            point[name] = spread([row[name] for row in mine.values()])
            point[f"{name}_ratio"] = spread([mine[turn][name] / plain[turn][name] for turn in pairs])
        told.append(point)
    return told


def main() -> None:
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="", help="default: the packaged phrasebook's shape")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--clients", type=numbers, default=[25, 128, 256])
    parser.add_argument(
        "--intervals", type=numbers, default=[1, 4, 8], help="the first is what others are compared with"
    )
    parser.add_argument("--ceilings", type=numbers, default=[512, GRAPH_CEILING], help="an engine each")
    parser.add_argument("--duration", type=float, default=6.0)
    parser.add_argument("--warmup", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/prefill-interval"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if device() != "cuda":
        options.ceilings = [None]  # a CPU has no graphs
    gpus, rows = find_gpus(), Rows()
    document: dict[str, Any] = {
        "conditions": {
            "machine": asdict(conditions.machine(gpus.describe() if gpus else ())),
            "packages": conditions.packages(),
            "git_commit": conditions.git_commit(),
            "workload": workload(options).description,
            "duration_s": options.duration,
            "warmup_s": options.warmup,
        }
    }
    try:
        asyncio.run(compare(options, rows))
    except KeyboardInterrupt:
        error_console.print("interrupted: what was measured is kept")
        document["partial"] = True
    document |= {"turns": rows, "summary": summary(rows) if rows else []}
    if options.out and rows:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for point in document["summary"]:
        print(
            f"{point['clients']:4} clients, {graphs(point['ceiling'])}, new prompts every {point['interval']} steps: "
            + ", ".join(
                f"{name} {point[name]['median']:.3g} (ratio {point[name + '_ratio']['median']:.2f} "
                f"{point[name + '_ratio']['low']:.2f}..{point[name + '_ratio']['high']:.2f})"
                for name in ("rps", "p50_s", "p99_s")
            )
        )


if __name__ == "__main__":
    main()
