"""Settings of the engine, compared on the engine alone: what each gives under the same closed loop.

    python benchmarks/engine_settings.py --model /models/Qwen3-4B --profile tower-plus --side whole \
        --side pieces:cudagraph_mode=FULL_AND_PIECEWISE --out results/engine-settings.json

One engine for each side, all running in this process without a server, each with an equal part of the memory. They are measured in
turn, in an order that changes from turn to turn; the others are idle meanwhile. Random weights allow forced output lengths, so all
generate the same number of tokens. Ratios are to the first side in the same turn. Compare the outputs of a setting
(`equal_outputs.py`) before its speed.
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
    engine_setting,
    engine_settings,
    in_process,
    named_arguments,
    parser_of,
    run_until_interrupted,
    spread,
    texts_of,
    workload,
    write,
)

from dragoman.cli.console import error_console
from dragoman.engine import process
from dragoman.engine.spec import device
from dragoman_bench.bench.workload import GeneratedWorkload

SHARED = 0.84  # of a GPU's memory
METRICS = ("rps", "p50_s", "p99_s")
Rows = list[dict[str, Any]]


def side(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME` or `NAME:setting=value,setting=value`, as argparse takes it."""
    name, _, settings = text.partition(":")
    return name, dict(engine_setting(part) for part in settings.split(",") if part)


@asynccontextmanager
async def engines(options: argparse.Namespace) -> AsyncGenerator[dict[str, InProcess]]:
    """By name, started one after the other."""
    async with AsyncExitStack() as stack:
        started: dict[str, InProcess] = {}
        for name, settings in options.side:
            shared = replace(engine_settings(options), gpu_memory_utilization=round(SHARED / len(options.side), 2))
            log = options.logs.resolve() / f"{name}.engine.log"
            own = in_process(options, replace(shared, **settings), log, options.vllm.get(name))
            started[name] = await stack.enter_async_context(own)
            error_console.print(f"an engine has started: {name}")
        yield started


async def compare(options: argparse.Namespace, work: GeneratedWorkload, rows: Rows) -> None:
    """Appends a row for each measurement, turn by turn."""
    names = [name for name, _ in options.side]
    async with engines(options) as started:
        for turn, clients in itertools.product(range(options.repeats), options.clients):
            made, texts = replace(work, seed=turn), texts_of(clients, options.duration)
            items, warmup = made.items(texts, 1), made.items(texts, 2)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                await started[name].clear_prefix_cache()
                measured = await started[name].measure(
                    items, clients, options.duration, warmup=warmup, warmup_s=options.warmup
                )
                rows.append({"side": name, "clients": clients, "turn": turn, **measured})
                error_console.print(rows[-1])


def summary(rows: Rows) -> Rows:
    """Median and range of each side at each load, and of its ratio, turn by turn, to the first side."""
    points: Rows = []
    first = rows[0]["side"] if rows else ""
    for clients, name in sorted(
        {(row["clients"], row["side"]) for row in rows}, key=lambda one: (one[0], one[1] != first)
    ):
        mine, base = (
            {row["turn"]: row for row in rows if (row["clients"], row["side"]) == (clients, which)}
            for which in (name, first)
        )
        point: dict[str, Any] = {"clients": clients, "side": name}
        for metric in METRICS:
            point[metric] = spread([row[metric] for row in mine.values()])
            point[f"{metric}_ratio"] = spread(
                [mine[turn][metric] / base[turn][metric] for turn in mine if turn in base]
            )
        points.append(point)
    return points


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/engine-settings")
    parser.add_argument(
        "--side",
        type=side,
        action="append",
        required=True,
        metavar="NAME[:SETTING=VALUE,...]",
        help="an engine and what differs from dragoman's defaults; repeat it, the others are compared with the first",
    )
    parser.add_argument(
        "--vllm",
        type=named_arguments,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="of a side, arguments by vLLM's names for what is not a setting; they replace dragoman's",
    )
    parser.set_defaults(clients=[1, 25, 128, 256] if device() == "cuda" else [1, 8, 25], duration=6.0, warmup=2.0)
    options = parser.parse_args()
    options.vllm = dict(options.vllm)
    if unknown := set(options.vllm) - {name for name, _ in options.side}:
        parser.error(f"--vllm names {', '.join(sorted(unknown))}, which is no --side")
    process.log_to_file(options.logs.resolve() / "vllm.log")
    work, rows = workload(options), Rows()
    sides = {"sides": dict(options.side), "vllm": options.vllm}
    document: dict[str, Any] = {"conditions": conditions_of(options, work), **sides}
    run_until_interrupted(compare(options, work, rows), document)
    document |= {"turns": rows, "summary": summary(rows)}
    if rows:
        write(document, options.out)
    for point in document["summary"]:
        print(
            f"{point['clients']:4} clients, {point['side']}: "
            + ", ".join(
                f"{name} {point[name]['median']:.3g} (ratio {point[f'{name}_ratio']['median']:.2f})" for name in METRICS
            )
        )


if __name__ == "__main__":
    main()
