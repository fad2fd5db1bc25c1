"""What features cost in requests a second, with a real model: confidence, similar entries as examples, an engine elsewhere.

    python benchmarks/feature_cost.py CATALOGUES --model DIR --clients 25,128,256 --turns 3 --out results/feature-cost.json

Messages of catalogues (`dragoman eval --adapt`) are translated by servers that run side by side on one GPU and are asked in turn:

    dragoman                      its defaults, with a memory that no request uses
    dragoman, three examples      the same server; requests use the memory, which has the other messages of the catalogues
    dragoman, no confidence       without the tokens' log-probabilities
    dragoman, KV cache auto       with a KV cache for the texts that the first server has recorded
    dragoman, two engines         two servers, each with an engine, on the same GPU (`--replicas 2/gpu`); likewise four
    …, three examples             the same servers; requests use the memory
    vllm serve                    the same prompts as token ids
    …, log-probabilities          the same, with the log-probability of each token, which a dragoman asks for
    …, three examples             the same prompts with the same three examples
    dragoman before vllm serve    a dragoman without an engine in front of it (`--engine-url`)
    …, no confidence              the same without the tokens' log-probabilities
    four dragomans before …       the same with `--replicas 4`; likewise without confidence

Each load is one closed loop: `--warmup` seconds, then `--window` seconds in which answers count. All are sent the same texts.
`behind_cpu_share` is of the API process of the `vllm serve` behind a dragoman.
`--servers` chooses some of them. At the end some texts are sent to the first server twice, and to the two engines: how many
outputs are equal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import numpy as np
import psutil
from rapidfuzz import fuzz, process
from streams import cpu_s

from dragoman.prompts.catalog import profiles
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.types import Example, PromptOptions
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.servers import RunningServer, ServerCommand, dragoman_serve, serving, vllm_serve
from dragoman_bench.bench.summary import nearest_rank
from dragoman_bench.eval.catalogues import SOURCE, choose, read_catalogues
from replicas import numbers

EXAMPLES, LEAST = 3, 60.0
_ENTRIES = 1_000  # of one call
_RECORDED = 400  # texts before the KV cache is sized by them
_COMPARED = 500  # texts whose outputs are compared
PLAIN, WITH_EXAMPLES, UNCALIBRATED = "dragoman", "dragoman, three examples", "dragoman, no confidence"
SMALL, DIRECT, DIRECT_EXAMPLES = "dragoman, KV cache auto", "vllm serve", "vllm serve, three examples"
DIRECT_LOGPROBS = "vllm serve, log-probabilities"
ELSEWHERE, FOUR_ELSEWHERE = "dragoman before vllm serve", "four dragomans before vllm serve"
ELSEWHERE_UNSURE, FOUR_UNSURE = f"{ELSEWHERE}, no confidence", f"{FOUR_ELSEWHERE}, no confidence"
TWO, TWO_EXAMPLES = "dragoman, two engines", "dragoman, two engines, three examples"
FOUR, FOUR_EXAMPLES = "dragoman, four engines", "dragoman, four engines, three examples"
SERVERS = {
    "uncalibrated": UNCALIBRATED,
    "small": SMALL,
    "two": TWO,
    "four": FOUR,
    "vllm": DIRECT,
    "front": ELSEWHERE,
    "fronts": FOUR_ELSEWHERE,
    "front-unsure": ELSEWHERE_UNSURE,
    "fronts-unsure": FOUR_UNSURE,
}
"""What is measured beside the first server, by the names of `--servers`."""
WITH = {
    PLAIN: (WITH_EXAMPLES,),
    TWO: (TWO_EXAMPLES,),
    FOUR: (FOUR_EXAMPLES,),
    DIRECT: (DIRECT_LOGPROBS, DIRECT_EXAMPLES),
}
"""In which other ways a server is asked."""
EXAMPLES_IN = frozenset({WITH_EXAMPLES, TWO_EXAMPLES, FOUR_EXAMPLES, DIRECT_EXAMPLES})
"""The ways whose requests have examples."""
IN_FRONT: dict[str, dict[str, str]] = {
    ELSEWHERE: {},
    FOUR_ELSEWHERE: {"replicas": "4"},
    ELSEWHERE_UNSURE: {"token-logprobs": "false"},
    FOUR_UNSURE: {"replicas": "4", "token-logprobs": "false"},
}
"""The flags of those that have no engine of their own."""
BESIDE = {
    WITH_EXAMPLES: (PLAIN, DIRECT_EXAMPLES),
    PLAIN: (UNCALIBRATED, DIRECT),
    SMALL: (PLAIN,),
    TWO: (PLAIN, DIRECT),
    TWO_EXAMPLES: (TWO, WITH_EXAMPLES, DIRECT_EXAMPLES),
    FOUR: (PLAIN, TWO, DIRECT),
    FOUR_EXAMPLES: (FOUR, WITH_EXAMPLES, DIRECT_EXAMPLES),
    ELSEWHERE: (DIRECT, DIRECT_LOGPROBS),
    FOUR_ELSEWHERE: (ELSEWHERE, DIRECT, DIRECT_LOGPROBS),
    ELSEWHERE_UNSURE: (DIRECT,),
    FOUR_UNSURE: (DIRECT,),
    DIRECT_EXAMPLES: (DIRECT,),
    DIRECT_LOGPROBS: (DIRECT,),
}
"""What is compared with what, in the same turn."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, its target, and the prompts of `vllm serve` without and with its most similar pairs as examples."""

    source: str
    target: str
    prompts: Mapping[bool, Sequence[int]]
    max_tokens: int


@dataclass(slots=True)
class Cell:
    """What one load has seen. Times are seconds."""

    latencies_s: list[float] = field(default_factory=list[float])
    errors: int = 0
    with_examples: int = 0
    remembered: int = 0
    prompt_tokens: int = 0


class Asker:
    """Sends a text to one server in one of the ways of `BESIDE`."""

    def __init__(
        self,
        name: str,
        server: RunningServer,
        session: aiohttp.ClientSession,
        model: str,
        behind: RunningServer | None = None,
    ) -> None:
        self.name, self.server, self.behind = name, server, behind
        self._session, self._model = session, model
        self._has_examples = name in EXAMPLES_IN
        self._has_logprobs = name == DIRECT_LOGPROBS
        self.is_vllm = name in (DIRECT, *WITH[DIRECT])

    def body(self, text: Text, stop_ids: Sequence[int]) -> tuple[str, dict[str, Any]]:
        if self.is_vllm:
            prompt = list(text.prompts[self._has_examples])
            asked = {"model": self._model, "prompt": prompt, "max_tokens": text.max_tokens, "temperature": 0}
            asked |= {"logprobs": 0} if self._has_logprobs else {}
            return "/v1/completions", {**asked, "stop_token_ids": list(stop_ids)}
        memory = text.target if self._has_examples else False
        body = {"text": text.source, "source": SOURCE, "target": text.target, "memory": memory}
        return "/v1/translate", body

    async def ask(
        self, text: Text, stop_ids: Sequence[int], cell: Cell, counted_s: tuple[float, float]
    ) -> dict[str, Any]:
        """Return the answer; empty where none was counted."""
        path, body = self.body(text, stop_ids)
        began_s = monotonic()
        try:
            async with self._session.post(self.server.url + path, json=body) as reply:
                answer = await reply.json()
                failed = reply.status != 200
        except (aiohttp.ClientError, TimeoutError):
            failed, answer = True, {}
        if not counted_s[0] <= monotonic() < counted_s[1]:
            return {}
        if failed:
            cell.errors += 1
            return {}
        cell.latencies_s.append(monotonic() - began_s)
        cell.prompt_tokens += (answer.get("usage") or {}).get("prompt_tokens", 0)
        for one in answer.get("translations", []):
            cell.with_examples += bool(one.get("examples"))
            cell.remembered += bool(one.get("memory"))
        return answer


async def load(
    asker: Asker, texts: Sequence[Text], stop_ids: Sequence[int], clients: int, options: argparse.Namespace
) -> dict[str, Any]:
    """One closed loop."""
    cell, places = Cell(), iter(range(10**9))
    began_s = monotonic()
    from_s, until_s = began_s + options.warmup, began_s + options.warmup + options.window

    async def client() -> None:
        while monotonic() < until_s:
            await asker.ask(texts[next(places) % len(texts)], stop_ids, cell, (from_s, until_s))

    async def watched() -> list[float]:
        await asyncio.sleep(options.warmup)
        first = used_s()
        await asyncio.sleep(options.window)
        return [later - earlier for earlier, later in zip(first, used_s(), strict=True)]

    def used_s() -> list[float]:
        behind = cpu_s(asker.behind)[0] if asker.behind else 0.0
        own = psutil.Process().cpu_times()
        return [*cpu_s(asker.server), behind, own.user + own.system]

    *_, used = await asyncio.gather(*(client() for _ in range(clients)), watched())
    count = len(cell.latencies_s)
    return {
        "requests_per_s": round(count / options.window, 1),
        "p50_ms": round(1000 * nearest_rank(cell.latencies_s, 50), 1) if count else None,
        "p99_ms": round(1000 * nearest_rank(cell.latencies_s, 99), 1) if count else None,
        "errors": cell.errors,
        "server_cpu_ms_per_request": round(1000 * used[0] / max(1, count), 3),
        "server_cpu_share": round(used[0] / options.window, 3),
        "engine_cpu_share": round(used[1] / options.window, 3),
        "behind_cpu_share": round(used[2] / options.window, 3),
        "client_cpu_share": round(used[3] / options.window, 3),
        "had_examples": cell.with_examples,
        "remembered": cell.remembered,
        "prompt_tokens": cell.prompt_tokens,
    }


def prepared(options: argparse.Namespace) -> tuple[list[Text], dict[str, Sequence[tuple[str, str]]], tuple[int, ...]]:
    """The texts, the entries of the memories by target, and the ids that end an output."""
    inputs = choose(read_catalogues(options.catalogues), options.targets, options.number, 0)
    encoder = PromptEncoder(profiles()[options.profile], TextTokenizer.load(Path(options.model)))
    by_target: dict[str, list[str]] = defaultdict(list)
    for one in inputs.texts:
        by_target[one.target].append(one.source)
    found: list[Text] = []
    for target, sources in by_target.items():
        pairs = inputs.memories[target]
        scores = process.cdist(sources, [source for source, _ in pairs], scorer=fuzz.ratio, workers=-1)
        for source, row in zip(sources, scores, strict=True):
            best = [int(place) for place in np.argsort(row)[-EXAMPLES:] if row[place] >= LEAST]
            examples = tuple(Example(*pairs[place]) for place in best)
            both = [encoder.encode(source, SOURCE, target, PromptOptions(examples=some)) for some in ((), examples)]
            prompts = {bool(number): tuple(one.token_ids) for number, one in enumerate(both)}
            found.append(Text(source, target, prompts, 4 * both[0].source_tokens + 48))
    np.random.default_rng(1).shuffle(found)  # type: ignore[arg-type]
    return found, dict(inputs.memories), tuple(encoder.sampling.stop_token_ids)


async def remember(session: aiohttp.ClientSession, url: str, memories: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Store a memory for each target."""
    for target, pairs in memories.items():
        await session.post(f"{url}/v1/memories", json={"name": target}, raise_for_status=True)
        for begin in range(0, len(pairs), _ENTRIES):
            entries = [{"text": text, "translation": other} for text, other in pairs[begin : begin + _ENTRIES]]
            body = {"source": SOURCE, "target": target, "entries": entries}
            await session.post(f"{url}/v1/memories/{target}/entries", json=body, raise_for_status=True)


async def measure(found: Measurement, options: argparse.Namespace) -> None:
    """Start the servers one after the other, then measure the loads in turn. Raises ServerFault."""
    texts, memories, stop_ids = await asyncio.to_thread(prepared, options)
    data, interrupted, logs = found.data, asyncio.Event(), options.logs.resolve()
    data |= {"texts": len(texts), "entries": {target: len(pairs) for target, pairs in memories.items()}, "start_s": {}}
    data |= {"rows": [], "compared": [], "preemptions": {}}
    engine = {"gpu-memory-utilization": options.memory_share, "max-model-len": 4096}
    own = {**engine, "model": options.model, "profile": options.profile}
    traffic = {"traffic-folder": str(logs / "traffic")}
    memory, of_two, of_four = ({"storage-url": f"sqlite:///{logs}/{name}.db"} for name in ("dragoman", "two", "four"))

    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=120)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        )

        async def started(name: str, command: ServerCommand) -> RunningServer:
            folder = logs / name.replace(" ", "-").replace(",", "")
            server = await stack.enter_async_context(serving(command, folder / "server.log", interrupted))
            data["start_s"][name] = server.start_s
            print(f"{name}: ready after {server.start_s:.0f} s", flush=True)
            return server

        def dragoman(name: str, **flags: Any) -> ServerCommand:
            return dragoman_serve(name, {**own, **flags}, logs / f"{name.replace(' ', '-')}.engine.log")

        plain = await started(PLAIN, dragoman(PLAIN, **traffic, **memory))
        await remember(session, plain.url, memories)

        def ways(name: str) -> list[str]:
            return [way for way in (name, *WITH.get(name, ())) if options.examples or way not in EXAMPLES_IN]

        askers = [Asker(way, plain, session, options.model) for way in ways(PLAIN)]
        await warm_up(askers, texts, stop_ids)
        commands = {
            UNCALIBRATED: dragoman(UNCALIBRATED, **{"token-logprobs": "false"}),
            SMALL: dragoman(SMALL, **{"kv-cache-memory-bytes": "auto"}, **traffic),
            TWO: dragoman(TWO, replicas="2/gpu", **of_two),
            FOUR: dragoman(FOUR, replicas="4/gpu", **of_four),
            DIRECT: vllm_serve(DIRECT, options.model, {**engine, "disable-uvicorn-access-log": True}),
        }
        servers = {name: await started(name, commands[name]) for name in commands if name in options.servers}
        for name in servers.keys() & {TWO, FOUR}:
            await remember(session, servers[name].url, memories)
        for name, flags in IN_FRONT.items():
            if name in options.servers:
                url = servers[DIRECT].url
                front = {"model": options.model, "profile": options.profile, "engine-url": url, "remote-slots": 1024}
                log = logs / f"{name.replace(' ', '-')}.log"
                servers[name] = await started(name, dragoman_serve(name, {**front, **flags}, log))
        askers += [
            Asker(way, server, session, options.model, servers[DIRECT] if name in IN_FRONT else None)
            for name, server in servers.items()
            for way in ways(name)
        ]
        await warm_up(askers, texts, stop_ids)
        await in_turn(askers, texts, stop_ids, found, options)
        for name, server in {PLAIN: plain, **servers}.items():
            if name in (PLAIN, SMALL):
                async with session.get(f"{server.url}/v1/stats", raise_for_status=True) as reply:
                    data["preemptions"][name] = (await reply.json())["engine"]["preemptions"]
        same = [asker for asker in askers if asker.name in (PLAIN, TWO)]
        data["equal"] = await equal_outputs([same[0], *same], texts[:_COMPARED], stop_ids)
    found.write(options.out)


async def in_turn(
    askers: Sequence[Asker],
    texts: Sequence[Text],
    stop_ids: Sequence[int],
    found: Measurement,
    options: argparse.Namespace,
) -> None:
    """Measure all loads in turn; in every second turn the servers in reverse."""
    data = found.data
    for turn in range(options.turns):
        for clients in options.clients:
            for asker in askers if turn % 2 == 0 else reversed(askers):
                row = {"turn": turn, "clients": clients, "server": asker.name}
                row |= await load(asker, texts, stop_ids, clients, options)
                data["rows"].append(row)
                data["compared"] = compared(data["rows"])
                print(json.dumps(row), flush=True)
                found.write(options.out)


async def equal_outputs(
    askers: Sequence[Asker], texts: Sequence[Text], stop_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """The texts to each in turn, 16 at a time: for each two, how many translations are equal."""
    outputs: list[list[str]] = []
    for asker in askers:
        slots = asyncio.Semaphore(16)

        async def one(text: Text, asker: Asker = asker, slots: asyncio.Semaphore = slots) -> str:
            async with slots:
                answer = await asker.ask(text, stop_ids, Cell(), (0.0, inf))
                return answer["translations"][0]["text"] if answer else ""

        outputs.append([*await asyncio.gather(*map(one, texts))])
    return [
        {
            "servers": [askers[first].name, askers[second].name],
            "texts": len(texts),
            "equal": sum(a == b for a, b in zip(outputs[first], outputs[second], strict=True)),
        }
        for first, second in combinations(range(len(askers)), 2)
    ]


async def warm_up(askers: Sequence[Asker], texts: Sequence[Text], stop_ids: Sequence[int]) -> None:
    """Texts of each kind, so that graphs, caches and the memory's index are there."""
    for asker in askers:
        slots, cell = asyncio.Semaphore(64), Cell()

        async def one(text: Text, asker: Asker = asker, slots: asyncio.Semaphore = slots, cell: Cell = cell) -> None:
            async with slots:
                await asker.ask(text, stop_ids, cell, (0.0, inf))

        await asyncio.gather(*(one(text) for text in texts[:_RECORDED]))
        print(
            f"{asker.name}: {len(cell.latencies_s)} answers, {cell.errors} errors, {cell.with_examples} with examples"
        )


def compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests a second of one way beside another's in the same turn: the median of the turns' ratios, least and greatest."""
    by = {(row["server"], row["clients"], row["turn"]): row["requests_per_s"] for row in rows}
    found: list[dict[str, Any]] = []
    for name, others in BESIDE.items():
        for other in others:
            for clients in sorted({row["clients"] for row in rows}):
                turns = {row["turn"] for row in rows if row["clients"] == clients}
                pairs = [(by.get((name, clients, turn)), by.get((other, clients, turn))) for turn in sorted(turns)]
                ratios = [one / two for one, two in pairs if one and two]
                if ratios:
                    of_pair = {
                        "median": round(statistics.median(ratios), 3),
                        "ratios": [round(one, 3) for one in ratios],
                    }
                    found.append({"server": name, "beside": other, "clients": clients, **of_pair})
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("catalogues", type=Path, nargs="+")
    parser.add_argument("--model", required=True, help="a folder")
    parser.add_argument("--profile", default="chat")
    parser.add_argument("--targets", type=lambda text: text.split(","), default=["de", "fr", "ja"])
    parser.add_argument("--number", type=int, default=200, help="texts of each language and band of similarity")
    parser.add_argument("--clients", type=numbers, default=[25, 128, 256])
    parser.add_argument(
        "--servers",
        type=lambda text: [SERVERS[name] for name in text.split(",")],
        default=[*SERVERS.values()],
        help=f"some of {', '.join(SERVERS)}; front and fronts need vllm",
    )
    parser.add_argument("--examples", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--warmup", type=float, default=1.5, help="seconds")
    parser.add_argument("--window", type=float, default=4.0, help="seconds")
    parser.add_argument(
        "--memory-share", type=float, default=0.2, help="of the GPU's memory, for each server, whose engines share it"
    )
    parser.add_argument("--logs", type=Path, default=Path(".dragoman/feature-cost"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    named = ("model", "profile", "targets", "number", "warmup", "window", "memory_share")
    found = Measurement.begin("feature-cost", **{name: getattr(options, name) for name in named})
    found.run(measure(found, options))
    found.write(options.out)
    print(json.dumps(found.data.get("compared")))


if __name__ == "__main__":
    main()
