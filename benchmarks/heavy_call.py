"""A call with thousands of texts, and the same texts in parts: how long they take, and what interactive calls notice.

    python benchmarks/heavy_call.py --url http://127.0.0.1:8000 --out results/heavy-call.json
    python benchmarks/heavy_call.py --url http://127.0.0.1:8000 --splits 50x8,100x16,200x4 --priority interactive

One call is translated by one replica, however many there are; calls are what is balanced. Interactive calls of one short
text arrive at random times (Poisson), the same in every mode, while

    alone    nothing else is sent, for `--alone` seconds
    one      one call has all `--texts`
    50x8     the same texts in calls of 50, eight of them at any time: each is sent when another has ended

The modes are measured in turns. A part that is refused (429, 503) is sent again after the Retry-After that it was answered
with, and counted. Start the server with `--cache-max-bytes 0`: generated texts differ, but sentences come again. Where the
server reports its replicas, the share of the sequences that each of them finished is given: 1 for the largest means that one
replica did everything. `force_output_tokens` is sent to a server of random weights. The last line of stdout is the JSON
document that `--out` writes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Any

import aiohttp

from dragoman.cli.console import error_console
from dragoman.wire import Stats
from dragoman_bench.bench.measurement import Measurement, members
from dragoman_bench.bench.summary import distribution
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    Item,
    OutputRatio,
    PhrasebookTexts,
    parse_pairs,
    token_counter,
)
from dragoman_bench.cli.subject import make_subject

SHORT_TOKENS = 20
RETRIED = (429, 503)
MOST_TRIES = 100
SHARES_AFTER_S = 0.5  # statistics of a replica follow its answers


@dataclass(frozen=True)
class Split:
    """`texts` a call, `calls` at the same time. `texts` 0: all in one call."""

    texts: int
    calls: int

    @property
    def name(self) -> str:
        return f"{self.texts}x{self.calls}" if self.texts else "one"


def splits(text: str) -> list[Split]:
    """`50x8,200x4`, as argparse takes it."""
    return [Split(*map(int, part.split("x"))) for part in text.split(",")]


@dataclass
class Sender:
    """Sends calls and counts what came back other than 200."""

    session: aiohttp.ClientSession
    url: str
    forces_lengths: bool
    failed: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0

    async def send(self, items: Sequence[Item], priority: str, tries: int = 1) -> float | None:
        """Seconds from the first try to the answer; None where it was not 200."""
        body: dict[str, Any] = {
            "text": [item.text for item in items],
            "source": items[0].source,
            "target": items[0].target,
            "priority": priority,
        }
        if self.forces_lengths:
            body["force_output_tokens"] = [item.output_tokens or 1 for item in items]
        began_s = monotonic()
        for last in (number == tries - 1 for number in range(tries)):
            try:
                async with self.session.post(f"{self.url}/v1/translate", json=body) as response:
                    status, wait_s = str(response.status), float(response.headers.get("Retry-After", "1"))
                    if response.status == 200:
                        answer = await response.json()
                        assert len(answer["translations"]) == len(items)
                        return monotonic() - began_s
            except aiohttp.ClientError as error:
                status, wait_s = type(error).__name__, 1.0
            if last or (status.isdigit() and int(status) not in RETRIED):
                break
            self.refused += 1
            await asyncio.sleep(wait_s)
        self.failed[status] += 1
        return None


@asynccontextmanager
async def interactive_calls(
    sender: Sender, short: Iterator[Item], rate: float, seed: int
) -> AsyncGenerator[list[float]]:
    """While within, calls of one text arrive `rate` times a second; afterwards the list holds how long each took."""
    random, taken_s, ended = Random(seed), list[float](), asyncio.Event()

    async def call(item: Item) -> None:
        if (one_s := await sender.send([item], "interactive")) is not None:
            taken_s.append(one_s)

    async def arrive() -> None:
        async with asyncio.TaskGroup() as group:
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), random.expovariate(rate))
                except TimeoutError:
                    group.create_task(call(next(short)))

    arriving = asyncio.create_task(arrive())
    try:
        yield taken_s
    finally:
        ended.set()
        await arriving


async def heavy(sender: Sender, items: Sequence[Item], split: Split, priority: str) -> dict[str, Any]:
    """Sends all texts; how long that took, and each call."""
    size = split.texts or len(items)
    parts = iter([items[at : at + size] for at in range(0, len(items), size)])
    calls_s = list[float]()

    async def client() -> None:
        for part in parts:
            if (one_s := await sender.send(part, priority, MOST_TRIES)) is not None:
                calls_s.append(one_s)

    began_s = monotonic()
    await asyncio.gather(*(client() for _ in range(split.calls)))
    took_s = monotonic() - began_s
    return {"heavy_s": took_s, "heavy_texts_per_s": len(items) / took_s, "call_s": described(calls_s)}


def described(taken_s: Sequence[float]) -> dict[str, float] | None:
    found = distribution(taken_s)
    return None if found is None else asdict(found)


async def stats_of(session: aiohttp.ClientSession, url: str) -> Stats:
    async with session.get(f"{url}/v1/stats") as response:
        if response.status != 200:
            raise SystemExit(f"{url}/v1/stats answers {response.status}: --api-key needs an operator's key")
        return Stats.model_validate(await response.json())


def shares(before: Stats, after: Stats) -> dict[str, float]:
    """By replica, the share of the sequences that finished in between; empty for the only server."""
    earlier = {one.replica: one.engine.finished for one in before.replicas}
    finished = {one.replica: one.engine.finished - earlier.get(one.replica, 0) for one in after.replicas}
    total = sum(finished.values())
    return {name: count / total for name, count in finished.items()} if total else {}


async def measure(
    options: argparse.Namespace, session: aiohttp.ClientSession, split: Split | None, turn: int, work: GeneratedWorkload
) -> dict[str, Any]:
    """One mode; `split` None: interactive calls alone."""
    name = split.name if split else "alone"
    before = await stats_of(session, options.url)
    forces = members(before.settings.get("engine")).get("load_format") == "dummy"
    sender, interactive = Sender(session, options.url, forces), Sender(session, options.url, forces)
    variation = options.seed + 1000 * turn + 10 * ([None, *options.modes].index(split))
    short = (
        item
        for number in itertools.count()
        for item in replace(work, low=SHORT_TOKENS // 2, high=SHORT_TOKENS).items(200, -(variation + number + 1))
    )
    items = work.items(options.texts, variation) if split else ()
    async with interactive_calls(interactive, short, options.rate, turn) as taken_s:
        found: dict[str, Any] = {}
        if split:
            found = await heavy(sender, items, split, options.priority)
        else:
            await asyncio.sleep(options.alone)
    await asyncio.sleep(SHARES_AFTER_S)
    after = await stats_of(session, options.url)
    row = {
        "mode": name,
        "turn": turn,
        "interactive_s": described(taken_s),
        "interactive_failed": dict(interactive.failed),
        **found,
        "refused_and_sent_again": sender.refused,
        "heavy_failed": dict(sender.failed),
        "share_of_replicas": shares(before, after),
        "cache_hits": after.cache.stored + after.cache.in_flight - before.cache.stored - before.cache.in_flight,
    }
    error_console.print(row)
    return row


def workload(options: argparse.Namespace) -> GeneratedWorkload:
    """The journey's variable texts of one language pair, as a call has one target."""
    subject = make_subject(options.model, options.profile, "dummy", options.max_model_len)
    tokens_of, named = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    low, high = subject.lengths["variable"]
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    pairs = parse_pairs(subject.pairs)[:1]
    return GeneratedWorkload("variable", low, high, pairs, texts, tokens_of, named, 0, OutputRatio(0.8, 1.3))


def summary_of(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each mode, the medians over its turns."""
    found: dict[str, Any] = {}
    for mode in dict.fromkeys(row["mode"] for row in turns):
        rows = [row for row in turns if row["mode"] == mode]
        one: dict[str, Any] = {"turns": len(rows)}
        for key in ("p50_s", "p95_s", "p99_s"):
            values = [row["interactive_s"][key] for row in rows if row["interactive_s"]]
            one[f"interactive_{key}"] = median(values) if values else None
        for key in ("heavy_s", "heavy_texts_per_s"):
            if all(key in row for row in rows):
                one[key] = median(row[key] for row in rows)
        if all(row["share_of_replicas"] for row in rows):
            one["largest_share_of_a_replica"] = median(max(row["share_of_replicas"].values()) for row in rows)
        found[mode] = one
    return found


async def run(options: argparse.Namespace, found: Measurement) -> None:
    work = workload(options)
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        headers=headers, connector=limits, timeout=aiohttp.ClientTimeout(total=3600)
    ) as session:
        stats = await stats_of(session, options.url)
        if stats.cache.max_bytes:
            error_console.print(
                "the server has a cache: what it answers is given as cache_hits; --cache-max-bytes 0 turns it off"
            )
        named = ("version", "pipeline", "model", "device", "settings")
        found.conditions |= {
            "server": stats.model_dump(mode="json", include=set(named)),
            "replicas": len(stats.replicas) or 1,
            "workload": work.description,
            "texts": options.texts,
            "priority_of_the_heavy_call": options.priority,
            "interactive_calls_per_s": options.rate,
            "repeats": options.repeats,
        }
        found.data["turns"] = list[dict[str, Any]]()
        warm = Sender(session, options.url, members(stats.settings.get("engine")).get("load_format") == "dummy")
        parts = work.items(64, options.seed - 1)
        await asyncio.gather(*(warm.send([item], "interactive", MOST_TRIES) for item in parts))
        modes: list[Split | None] = [None, *options.modes]
        for turn in range(options.repeats):
            for split in modes if turn % 2 == 0 else reversed(modes):
                found.data["turns"].append(await measure(options, session, split, turn, work))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],  # type: ignore[union-attr]
    )
    parser.add_argument("--url", required=True, help="a running server, or the address of its replicas")
    parser.add_argument("--api-key", default="", help="an operator's, where the server needs keys")
    parser.add_argument("--texts", type=int, default=5000, help="of the heavy call")
    parser.add_argument("--splits", type=splits, default=splits("50x8,100x8,200x8"), help="TEXTSxCALLS,...")
    parser.add_argument("--priority", choices=("interactive", "bulk"), default="bulk", help="of the heavy call")
    parser.add_argument("--rate", type=float, default=4.0, help="interactive calls a second")
    parser.add_argument("--alone", type=float, default=20.0, help="seconds of interactive calls alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="another one sends other texts, which no cache holds")
    parser.add_argument("--model", default="", help="for its tokenizer and lengths; default: the packaged phrasebook")
    parser.add_argument("--profile", default="")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--out", type=Path, help="results file (JSON)")
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    options.modes = [Split(0, 1), *options.splits]
    found = Measurement.begin("heavy-call")
    found.run(run(options, found))
    if found.data.get("turns"):
        found.data["summary"] = summary_of(found.data["turns"])
        found.write(options.out)
        print(json.dumps(found.document))


if __name__ == "__main__":
    main()
