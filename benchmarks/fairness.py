"""What a key with little traffic gets beside a key with too much: the latency of key B at 10% of the capacity, beside key A.

Over the fake pipeline in this process, without HTTP: what is measured is admission and the dispatcher. Key B sends short texts at
random times (Poisson), of 6 to 18 words, at a tenth of the rate that the slots can serve. Key A sends the same texts, at 80% of that rate, so that
both are at 90%, or from ten times as many clients as there are slots, which each send one text after another. Runs alternate.
With `--bulk` key B sends four texts a second, alone and beside documents of key A, whose segments have the priority of bulk.

    python benchmarks/fairness.py --seconds 30 --repeats 3 --out results/fairness.json

The last line of standard output is the results file's data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np

from dragoman import phrasebook
from dragoman.engine.spec import EngineSpec
from dragoman.errors import DragomanError
from dragoman.pipelines.fake import FakePipeline, circling
from dragoman.service import stack
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, EngineSettings, Settings, StorageSettings, TrafficSettings
from dragoman.types import Account, TranslationRequest
from dragoman_bench.bench.measurement import Measurement

SLOTS, STEP_S, WORDS = 16, 0.05, 12
RATE_PER_S = SLOTS / (STEP_S * WORDS)
"""Texts a second that the slots can serve."""
Beside = Literal["at 90%", "at 10 times", "alone", "documents"]
INTERACTIVE_PER_S, SEGMENTS, DOCUMENTS = 4.0, 50, 4
"""Texts a second of key B with `--bulk`, segments of each document beside it, and how many of these there are at a time."""


class Traffic:
    """Sends texts of one key, each another, and notes how long each took."""

    def __init__(self, service: TranslationService, account: str, seed: int) -> None:
        self.latencies_s: list[float] = []
        self.texts = 0
        self.errors = Counter[str]()
        self._service = service
        self._account = Account(account, account)
        self._rng = Random(f"{account} {seed}")
        self._numbers = count()
        self._tasks = set[asyncio.Task[None]]()

    def _text(self, number: int) -> str:
        words = self._rng.choices(
            ("town", "river", "old", "train"), k=self._rng.randint(WORDS // 2, WORDS * 3 // 2) - 2
        )
        return " ".join(["The", *words, str(number)])

    async def one(self, segments: int = 1) -> None:
        """Send one text, or the segments of a document, in bulk."""
        number = next(self._numbers)
        texts = tuple(self._text(number * segments + place) for place in range(segments))
        request = TranslationRequest(
            texts,
            "ja",
            "en",
            account=self._account,
            request_id=f"{self._account.id}-{number}",
            priority="bulk" if segments > 1 else "interactive",
            is_document=segments > 1,
        )
        began_s = perf_counter()
        try:
            await self._service.calls.translate(request)
        except DragomanError as error:
            self.errors[error.code] += 1
            await asyncio.sleep(0.01)
        else:
            self.latencies_s.append(perf_counter() - began_s)
            self.texts += segments

    async def at(self, rate_per_s: float) -> None:
        """Send at random times, whatever becomes of those before."""
        while True:
            await asyncio.sleep(self._rng.expovariate(rate_per_s))
            task = asyncio.create_task(self.one())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def from_clients(self, clients: int, segments: int = 1) -> None:
        async def client() -> None:
            while True:
                await self.one(segments)

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())


async def run(beside: Beside, seconds: float, seed: int) -> dict[str, Any]:
    """One run, after a second of warm-up."""
    settings = Settings(
        storage=StorageSettings(url=""), cache=CacheSettings(max_bytes=0), traffic=TrafficSettings(enabled=False)
    )
    model = stack.choose_model(settings.model)
    tokenizer = stack.text_tokenizer(str(phrasebook.model_dir()), False).backend
    pipeline = FakePipeline(circling(tokenizer), step_s=STEP_S, slots=SLOTS)
    spec = EngineSpec(
        str(phrasebook.model_dir()), "cpu", replace(EngineSettings(), max_num_seqs=SLOTS, max_model_len=1024)
    )
    service = TranslationService(settings, model, spec, pipeline)
    await service.start()
    a, b = Traffic(service, "a", seed), Traffic(service, "b", seed)
    is_bulk = beside in ("alone", "documents")
    traffic = [b.at(INTERACTIVE_PER_S if is_bulk else 0.1 * RATE_PER_S)]
    if beside == "documents":
        traffic.append(a.from_clients(DOCUMENTS, SEGMENTS))
    elif not is_bulk:
        traffic.append(a.at(0.8 * RATE_PER_S) if beside == "at 90%" else a.from_clients(10 * SLOTS))
    tasks = [asyncio.create_task(one) for one in traffic]
    await asyncio.sleep(1.0)
    for one in (a, b):
        one.latencies_s.clear()
        one.texts = 0
        one.errors.clear()
    await asyncio.sleep(seconds)
    result = {"beside": beside, "seed": seed, **_summary(a, "a", seconds), **_summary(b, "b", seconds)}
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    await service.stop()
    return result


def _summary(traffic: Traffic, name: str, seconds: float) -> dict[str, Any]:
    p50, p95 = np.percentile(traffic.latencies_s or [0.0], (50, 95)).tolist()
    return {
        f"{name}_texts_per_s": round(traffic.texts / seconds, 1),
        f"{name}_p50_s": round(p50, 4),
        f"{name}_p95_s": round(p95, 4),
        f"{name}_refused": dict(traffic.errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bulk", action="store_true", help="interactive texts beside documents")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = Measurement.begin("fairness")
    runs: list[dict[str, Any]] = []
    less, more = ("alone", "documents") if options.bulk else ("at 90%", "at 10 times")
    for seed in range(options.repeats):
        for beside in (less, more):
            runs.append(asyncio.run(run(beside, options.seconds, seed)))
            print(runs[-1], flush=True)
    p95_s = {one: [run["b_p95_s"] for run in runs if run["beside"] == one] for one in (less, more)}
    results.data.update(
        slots=SLOTS,
        step_s=STEP_S,
        words=WORDS,
        seconds=options.seconds,
        runs=runs,
        ratio_of_medians=round(median(p95_s[more]) / median(p95_s[less]), 3),
        ratios=[round(b / a, 3) for a, b in zip(p95_s[less], p95_s[more], strict=True)],
    )
    results.write(options.out)
    print(json.dumps(results.data))


if __name__ == "__main__":
    main()
