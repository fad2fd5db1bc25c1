"""What does the cache of segments cost and gain? CPU time of a lookup, and requests a second with repeated texts.

    python benchmarks/cache.py --out results/cache-cpu.json
    python benchmarks/cache.py --no-served                          # the CPU times of lookups alone
    python benchmarks/cache.py --pipeline fake --shares 0           # the server's CPU time a request

CPU times: `generate` over a completion that is there immediately, less calling it without a cache; for a miss (looked up,
generated in a task of its own, stored) and for a hit, by the prompt's length, in this process.

Requests: two servers of the packaged model run, one with `--cache-max-bytes 0`. They are measured in turns (A B, B A, ...) by
a closed loop in this process, each with texts that were never sent before, of which a share is a text that this turn has
sent already, drawn from its requests so far. `cpu_ms` is the CPU time a request of the server's own process. The last lines of stdout are a JSON document: medians and ranges over the turns.
Wanted: `gain` at least 1.3 with 30 % repeated texts. The client uses the machine's CPU too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from statistics import median
from time import monotonic, process_time
from typing import Any

import aiohttp
import uvloop
from in_process import conditions_of, parser_of, run_until_interrupted, spread, workload, write

from dragoman.cli.console import error_console
from dragoman.service.cache import SegmentCache
from dragoman.settings import CacheSettings
from dragoman.types import Completion, Sequence
from dragoman_bench.bench.servers import dragoman_serve, serving
from dragoman_bench.bench.workload import GeneratedWorkload, Item

PROMPT_TOKENS = (30, 100, 400)
LOOKUPS = 5000
SIDES = {"on": {"cache-max-bytes": CacheSettings().max_bytes}, "off": {"cache-max-bytes": 0}}
Rows = list[dict[str, Any]]


async def _timed_us(cache: SegmentCache | None, sequences: list[Sequence]) -> float:
    """CPU time of one call, in microseconds."""
    completion = Completion("Where is the train station, please? " * 3, "stop", 100, 30)

    async def compute(_emit: object = None) -> Completion:
        return completion

    gc.collect()
    began_s = process_time()
    for sequence in sequences:
        if cache is None:
            await compute()
        else:
            await cache.generate(sequence, compute)
    return (process_time() - began_s) / len(sequences) * 1e6


async def cpu_times(repeats: int) -> Rows:
    rows = Rows()
    for tokens in PROMPT_TOKENS:
        random, measured = Random(tokens), list[dict[str, float]]()
        for _ in range(repeats):
            sequences = [
                Sequence(str(n), tuple(random.randrange(50_000) for _ in range(tokens)), 200) for n in range(LOOKUPS)
            ]
            cache = SegmentCache(64 * 2**20)
            without = await _timed_us(None, sequences)
            miss, hit = await _timed_us(cache, sequences) - without, await _timed_us(cache, sequences) - without
            measured.append({"miss_us": miss, "hit_us": hit})
        rows.append(
            {"prompt_tokens": tokens} | {key: median(row[key] for row in measured) for key in ("miss_us", "hit_us")}
        )
        error_console.print(rows[-1])
    return rows


def repeating(work: GeneratedWorkload, share: float, variation: int, count: int) -> list[Item]:
    """New texts, and with probability `share` one that came before."""
    random, sent = Random(variation), list[Item]()
    for item in work.items(count, variation):
        sent.append(random.choice(sent) if sent and random.random() < share else item)
    return sent


async def requests_per_s(
    session: aiohttp.ClientSession, url: str, items: Iterator[Item], options: argparse.Namespace
) -> tuple[float, int]:
    """Of a closed loop, and all requests sent; answers before the warm-up's end do not count."""
    start_s = monotonic() + options.warmup
    end_s = start_s + options.duration
    ended = sent = 0

    async def client() -> None:
        nonlocal ended, sent
        while monotonic() < end_s:
            item = next(items, None)
            if item is None:
                raise SystemExit(f"more than {options.most_rps:g} requests a second: specify a larger --most-rps")
            sent += 1
            body = {"text": item.text, "source": item.source, "target": item.target}
            async with session.post(f"{url}/v1/translate", json=body) as answer:
                answer.raise_for_status()
                await answer.read()
            ended += start_s <= monotonic() < end_s

    async with asyncio.TaskGroup() as group:
        for _ in range(options.clients[0]):
            group.create_task(client())
    return ended / options.duration, sent


async def counted(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """Lookups and CPU time since the server's start."""
    async with session.get(f"{url}/v1/stats") as answer:
        cache = (await answer.json())["cache"]
    async with session.get(f"{url}/metrics") as answer:
        found = re.search(r"^process_cpu_seconds_total (\S+)", await answer.text(), re.MULTILINE)
    return {key: cache[key] for key in ("stored", "in_flight", "misses")} | {"cpu_s": float(found[1]) if found else 0.0}


async def served(options: argparse.Namespace, work: GeneratedWorkload, rows: Rows) -> None:
    """Appends to `rows` turn by turn, for each share of repeated texts."""
    logs, interrupted = options.logs.resolve(), asyncio.Event()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        urls: dict[str, str] = {}
        for side, flags in SIDES.items():
            named = {"model": options.model, "profile": options.profile}
            flags = (
                {key: value for key, value in named.items() if value}
                | flags
                | {"traffic": "false", "pipeline": options.pipeline}
            )
            command = dragoman_serve(side, flags, logs / f"{side}.engine.log")
            urls[side] = (await stack.enter_async_context(serving(command, logs / f"{side}.log", interrupted))).url
        variation = itertools.count(1)
        for turn, share in itertools.product(range(options.repeats), options.shares):
            row: dict[str, Any] = {"share": share, "turn": turn, "clients": options.clients[0]}
            count = round(options.most_rps * (options.warmup + options.duration))
            texts = repeating(work, share, next(variation), count)  # now: making them takes seconds
            for side in SIDES if turn % 2 == 0 else reversed(SIDES):
                before = await counted(session, urls[side])
                row[f"{side}_rps"], sent = await requests_per_s(session, urls[side], iter(texts), options)
                after = await counted(session, urls[side])
                row |= {f"{side}_{key}": after[key] - before[key] for key in after}
                row[f"{side}_cpu_ms"] = 1000 * row.pop(f"{side}_cpu_s") / sent
            if not row["on_misses"]:
                raise SystemExit("the server with the cache looked nothing up in it")
            row["gain"] = row["on_rps"] / row["off_rps"]
            rows.append(row)
            error_console.print(row)


def summary_of(rows: Rows, shares: list[float]) -> Rows:
    """By share of repeated texts, each figure's median and range."""
    keys = ("on_rps", "off_rps", "gain", "on_cpu_ms", "off_cpu_ms")
    return [
        {"share": share} | {key: spread([row[key] for row in rows if row["share"] == share]) for key in keys}
        for share in shares
        if any(row["share"] == share for row in rows)
    ]


async def run(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """Fills `document` as it goes, so that an interrupt keeps what was measured."""
    work = replace(workload(options), ratio=None)  # real outputs: forced ones are not cached
    document["conditions"] = conditions_of(options, work)
    if options.served:
        document["turns"] = turns = Rows()
        await served(options, work, turns)


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/cache")
    parser.add_argument("--served", action=argparse.BooleanOptionalAction, default=True, help="start servers")
    parser.add_argument("--shares", type=lambda text: [float(part) for part in text.split(",")], default=[0.0, 0.3])
    parser.add_argument("--pipeline", choices=("continuous", "fake"), default="continuous")
    parser.add_argument("--most-rps", type=float, default=400.0, help="requests a second for which texts are made")
    parser.set_defaults(clients=[25], duration=20.0, warmup=5.0)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the server's event loop
        document: dict[str, Any] = {"kind": "cache", "cpu": runner.run(cpu_times(options.repeats))}
    run_until_interrupted(run(options, document), document)
    if document.get("turns"):
        document["summary"] = summary_of(document["turns"], options.shares)
    write(document, options.out)
    print(json.dumps({key: document[key] for key in ("cpu", "summary") if key in document}, indent=1))


if __name__ == "__main__":
    main()
