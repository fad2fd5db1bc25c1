"""The effect of new sequences joining a running batch in groups, once every few steps (`engine/prefill_gate.py`).

    python benchmarks/prefill_interval.py --model /models/Qwen3-4B --profile tower-plus --out results/prefill-interval-gpu.json

One engine for each CUDA-graph ceiling, all running in this process without a server. Each is measured with each interval in
turn, in an order that changes from turn to turn; the other engines are idle meanwhile. Random weights allow forced output
lengths, so all generate the same number of tokens. Latencies are of whole translations, queue time included.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from in_process import (
    InProcess,
    conditions_of,
    engine_settings,
    in_process,
    numbers,
    parser_of,
    run_until_interrupted,
    spread,
    texts_of,
    workload,
    write,
)

from dragoman.cli.console import error_console
from dragoman.engine.spec import device
from dragoman.settings import GRAPH_CEILING
from dragoman_bench.bench.workload import GeneratedWorkload

SHARED = 0.84  # of a GPU's memory
Rows = list[dict[str, Any]]


@asynccontextmanager
async def engines(options: argparse.Namespace) -> AsyncGenerator[dict[int | None, InProcess]]:
    """By CUDA-graph ceiling; None without graphs."""
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
            error_console.print(f"an engine has started: {graphs(ceiling)}")
        yield started


async def compare(options: argparse.Namespace, work: GeneratedWorkload, rows: Rows) -> None:
    """Appends a row for each measurement, turn by turn."""
    sides = list(itertools.product(options.ceilings, options.intervals))
    async with engines(options) as started:
        for turn, clients in itertools.product(range(options.repeats), options.clients):
            made, texts = replace(work, seed=turn), texts_of(clients, options.duration)
            items, warmup = made.items(texts, 1), made.items(texts, 2)
            for ceiling, interval in sides[turn % len(sides) :] + sides[: turn % len(sides)]:
                alone = started[ceiling]
                alone.engine.prefill_gate.interval = interval
                await alone.clear_prefix_cache()  # the same texts were sent with another interval
                measured = await alone.measure(items, clients, options.duration, warmup=warmup, warmup_s=options.warmup)
                rows.append({"clients": clients, "ceiling": ceiling, "interval": interval, "turn": turn, **measured})
                error_console.print(rows[-1])


def graphs(ceiling: int | None) -> str:
    return f"CUDA graphs up to {ceiling} tokens" if ceiling else "no CUDA graphs"


def summary(rows: Rows) -> Rows:
    """Median and range of each point, and of its ratio, turn by turn, to the first interval at the same ceiling."""
    by_point: dict[tuple[int, int | None, int], dict[int, dict[str, Any]]] = {}
    for row in rows:
        by_point.setdefault((row["clients"], row["ceiling"], row["interval"]), {})[row["turn"]] = row
    points: Rows = []
    for (clients, ceiling, interval), mine in sorted(
        by_point.items(), key=lambda one: (one[0][0], one[0][1] or 0, one[0][2])
    ):
        first = by_point.get((clients, ceiling, rows[0]["interval"]), {})
        point: dict[str, Any] = {"clients": clients, "ceiling": ceiling, "interval": interval}
        for name in ("rps", "p50_s", "p99_s"):
            point[name] = spread([row[name] for row in mine.values()])
            point[f"{name}_ratio"] = spread([mine[turn][name] / first[turn][name] for turn in mine if turn in first])
        points.append(point)
    return points


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/prefill-interval")
    parser.add_argument("--intervals", type=numbers, default=[1, 4, 8], help="the others are compared with the first")
    parser.add_argument(
        "--ceilings",
        type=numbers,
        default=[512, GRAPH_CEILING],
        help="CUDA-graph ceilings; one engine is started for each",
    )
    parser.set_defaults(clients=[25, 128, 256], duration=6.0, warmup=2.0)
    options = parser.parse_args()
    if device() != "cuda":
        options.ceilings = [None]  # a CPU has no graphs
    work, rows = workload(options), Rows()
    document: dict[str, Any] = {"conditions": conditions_of(options, work)}
    run_until_interrupted(compare(options, work, rows), document)
    document |= {"turns": rows, "summary": summary(rows)}
    if rows:
        write(document, options.out)
    for point in document["summary"]:
        print(
            f"{point['clients']:4} clients, {graphs(point['ceiling'])}, an interval of {point['interval']} steps: "
            + ", ".join(
                f"{name} {point[name]['median']:.3g} (ratio {point[name + '_ratio']['median']:.2f} "
                f"{point[name + '_ratio']['low']:.2f}..{point[name + '_ratio']['high']:.2f})"
                for name in ("rps", "p50_s", "p99_s")
            )
        )


if __name__ == "__main__":
    main()
