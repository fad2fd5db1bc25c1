"""What a key with little traffic gets beside a key with too much: the latency of key B at 10% of the capacity, beside key A.

Over the fake pipeline in this process, without HTTP: what is measured is admission and the dispatcher. Key B sends short texts at
random times (Poisson), of 6 to 18 words, at a tenth of the rate that the slots can serve. Key A sends the same texts, at 80% of that rate, so that
both are at 90%, or from ten times as many clients as there are slots, which each send one text after another. Runs alternate.

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
Beside = Literal["at 90%", "at 10 times"]


class Traffic:
    """Sends texts of one key, each another, and notes how long each took."""

    def __init__(self, service: TranslationService, account: str, seed: int) -> None:
        self.latencies_s: list[float] = []
        self.errors = Counter[str]()
        self._service = service
        self._account = Account(account, account)
        self._rng = Random(f"{account} {seed}")
        self._numbers = count()
        self._tasks = set[asyncio.Task[None]]()

    async def one(self) -> None:
        number = next(self._numbers)
        text = " ".join(
            [
                "The",
                *(
                    self._rng.choice(("town", "river", "old", "train"))
                    for _ in range(self._rng.randint(WORDS // 2, WORDS * 3 // 2) - 2)
                ),
                str(number),
            ]
        )
        request = TranslationRequest(
            (text,), "ja", "en", account=self._account, request_id=f"{self._account.id}-{number}"
        )
        began_s = perf_counter()
        try:
            await self._service.calls.translate(request)
        except DragomanError as error:
            self.errors[error.code] += 1
            await asyncio.sleep(0.01)
        else:
            self.latencies_s.append(perf_counter() - began_s)

    async def at(self, rate_per_s: float) -> None:
        """Send at random times, whatever becomes of those before."""
        while True:
            await asyncio.sleep(self._rng.expovariate(rate_per_s))
            task = asyncio.create_task(self.one())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def from_clients(self, clients: int) -> None:
        async def client() -> None:
            while True:
                await self.one()

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
    of_a = a.at(0.8 * RATE_PER_S) if beside == "at 90%" else a.from_clients(10 * SLOTS)
    tasks = [asyncio.create_task(of_a), asyncio.create_task(b.at(0.1 * RATE_PER_S))]
    await asyncio.sleep(1.0)
    for one in (a, b):
        one.latencies_s.clear()
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
    p50, p95 = np.percentile(traffic.latencies_s, (50, 95)).tolist()
    return {
        f"{name}_texts_per_s": round(len(traffic.latencies_s) / seconds, 1),
        f"{name}_p50_s": round(p50, 4),
        f"{name}_p95_s": round(p95, 4),
        f"{name}_refused": dict(traffic.errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = Measurement.begin("fairness")
    runs: list[dict[str, Any]] = []
    for seed in range(options.repeats):
        for beside in ("at 90%", "at 10 times"):
            runs.append(asyncio.run(run(beside, options.seconds, seed)))
            print(runs[-1], flush=True)
    p95_s = {one: [run["b_p95_s"] for run in runs if run["beside"] == one] for one in ("at 90%", "at 10 times")}
    results.data.update(
        slots=SLOTS,
        step_s=STEP_S,
        words=WORDS,
        seconds=options.seconds,
        runs=runs,
        ratio_of_medians=round(median(p95_s["at 10 times"]) / median(p95_s["at 90%"]), 3),
        ratios=[round(b / a, 3) for a, b in zip(p95_s["at 90%"], p95_s["at 10 times"], strict=True)],
    )
    results.write(options.out)
    print(json.dumps(results.data))


if __name__ == "__main__":
    main()
