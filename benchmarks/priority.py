"""Do short interactive calls stay quick while a bulk call of 5,000 segments runs, and what does bulk lose?

    python benchmarks/priority.py --out results/priority-fake.json
    python benchmarks/priority.py --engine --out results/priority-cpu.json

Interactive calls of one short text arrive at random times (Poisson), the same in every mode, while

    alone      as many sequences run as bulk is left slots, each client submitting its next when one ends: an equally full
               batch with an empty queue. Its rate is what those slots give
    priority   a bulk call runs, and interactive calls go first
    equal      both are of one class: calls have equal shares of the slots
    fcfs       all sequences are submitted immediately, and wait in the engine's queue, first come, first served

The modes are measured in turns, in this process and without HTTP: over the fake pipeline, whose steps take `--step` seconds
however full the batch is, or over the real engine with random weights and without prefix caching. Outputs have forced
lengths, so every mode generates the same tokens. The last lines of stdout are a JSON document: medians and ranges over
the turns. Wanted: `p95_to_alone` at most 1.2, `p95_to_fcfs` at most 0.2, `bulk_to_alone` at least 0.9.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from time import monotonic
from typing import Any

import numpy as np
from in_process import (
    InProcess,
    conditions_of,
    engine_settings,
    in_process,
    parser_of,
    run_until_interrupted,
    spread,
    workload,
    write,
)

from dragoman import heap
from dragoman.cli.console import error_console
from dragoman.pipelines.base import Engine
from dragoman.pipelines.fake import FakePipeline
from dragoman.service import stack
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import CallSlots, Dispatcher, LoopTurns
from dragoman.service.planner import Planner
from dragoman.service.translator import Translator
from dragoman.settings import INTERACTIVE_SHARE, ModelSettings
from dragoman.types import Priority, TranslationRequest
from dragoman_bench.bench.workload import Item

MODES = ("alone", "priority", "equal", "fcfs")
UNLIMITED = 1_000_000  # slots: more than sequences
SHORT_TOKENS = 20
Turns = list[dict[str, Any]]


@dataclass(frozen=True)
class OneClass:
    """A dispatcher that all calls of one translator enter with the same priority."""

    dispatcher: Dispatcher
    priority: Priority

    def call(self, *_: object) -> AbstractContextManager[CallSlots]:
        return self.dispatcher.call(self.priority)


@dataclass(frozen=True)
class Subject:
    """What is measured: an engine that runs `slots` sequences at the same time."""

    engine: Engine
    planner: Planner
    slots: int
    share: float

    @property
    def bulk_slots(self) -> int:
        return self.slots - math.ceil(self.slots * self.share)

    def translator(self, dispatcher: Dispatcher, priority: Priority) -> Translator:
        pipeline: Any = self.engine
        one_class: Any = OneClass(dispatcher, priority)
        return Translator(pipeline, self.planner, one_class, LoopTurns(), SegmentCache(0))

    def dispatcher(self, mode: str) -> Dispatcher:
        queued = max(self.slots // 8, 1)
        if mode == "fcfs":
            return Dispatcher(UNLIMITED, interactive_share=0.0)
        return Dispatcher(self.slots, queued=queued, interactive_share=self.share if mode == "priority" else 0.0)


def request_of(items: Sequence[Item], priority: Priority) -> TranslationRequest:
    return TranslationRequest(
        tuple(item.text for item in items),
        items[0].target,
        items[0].source,
        forced_output_tokens=tuple(item.output_tokens or 1 for item in items),
        priority=priority,
    )


async def interactive_calls(
    translator: Translator, short: Sequence[Item], rate: float, seed: int, until: asyncio.Event
) -> list[float]:
    """Seconds that each call took; they arrive `rate` times a second until the event is set."""
    random, taken_s = Random(seed), list[float]()

    async def call(item: Item) -> None:
        sent = monotonic()
        await translator.translate(request_of([item], "interactive"))
        taken_s.append(monotonic() - sent)

    async with asyncio.TaskGroup() as group:
        for item in itertools.cycle(short):
            try:
                async with asyncio.timeout(random.expovariate(rate)):
                    await until.wait()
                return taken_s
            except TimeoutError:
                group.create_task(call(item))
    return taken_s


async def keep_running(subject: Subject, bulk: Sequence[Item], turn: int) -> None:
    """The bulk call's sequences, so many at the same time as bulk has slots, without any queue."""
    made = InProcess(subject.engine, subject.planner).sequences(bulk)  # type: ignore[arg-type]
    sequences = (replace(one, id=f"{turn}.{n}") for n, one in enumerate(itertools.chain.from_iterable(made)))

    async def client() -> None:
        for sequence in sequences:
            await subject.engine.generate(sequence)

    await asyncio.gather(*(client() for _ in range(subject.bulk_slots)))


async def measure(
    subject: Subject, mode: str, bulk: Sequence[Item], short: Sequence[Item], turn: int, rate: float
) -> dict[str, Any]:
    dispatcher, ended = subject.dispatcher(mode), asyncio.Event()
    of_bulk: Priority = "bulk" if mode == "priority" else "interactive"
    work: Callable[[], Coroutine[Any, Any, Any]]
    if mode == "alone":
        work = lambda: keep_running(subject, bulk, turn)  # noqa: E731
    else:
        work = lambda: subject.translator(dispatcher, of_bulk).translate(request_of(bulk, of_bulk))  # noqa: E731
    calls = asyncio.create_task(
        interactive_calls(subject.translator(dispatcher, "interactive"), short, rate, turn, ended)
    )
    began = monotonic()
    await work()
    bulk_s = monotonic() - began
    ended.set()
    taken_s = await calls
    p50_s, p95_s, p99_s = (float(value) for value in np.percentile(taken_s, (50, 95, 99)))
    row = {
        "mode": mode,
        "turn": turn,
        "calls": len(taken_s),
        "p50_s": p50_s,
        "p95_s": p95_s,
        "p99_s": p99_s,
        "bulk_s": bulk_s,
        "bulk_rps": len(bulk) / bulk_s,
    }
    error_console.print(row)
    return row


def summary_of(turns: Turns) -> dict[str, Any]:
    """Each mode's median and range, and the ratios of turns that all modes have."""
    by_mode = {mode: [row for row in turns if row["mode"] == mode] for mode in MODES}
    found: dict[str, Any] = {
        mode: {key: spread([row[key] for row in rows]) for key in ("p50_s", "p95_s", "p99_s", "bulk_rps")}
        for mode, rows in by_mode.items()
        if rows
    }

    def ratio(key: str, other: str) -> dict[str, float] | None:
        pairs = list(zip(by_mode["priority"], by_mode[other], strict=False))
        return spread([one[key] / two[key] for one, two in pairs]) if pairs else None

    ratios = {"p95_to_alone": ("p95_s", "alone"), "p95_to_fcfs": ("p95_s", "fcfs"), "p95_to_equal": ("p95_s", "equal")}
    ratios |= {"bulk_to_alone": ("bulk_rps", "alone"), "bulk_to_fcfs": ("bulk_rps", "fcfs")}
    return found | {name: ratio(*terms) for name, terms in ratios.items()}


@asynccontextmanager
async def subject_of(options: argparse.Namespace) -> AsyncGenerator[Subject]:
    if options.engine:
        settings = replace(engine_settings(options), enable_prefix_caching=False)
        async with in_process(options, settings, options.logs.resolve() / "priority.engine.log") as alone:
            yield Subject(alone.engine, alone._planner, settings.max_num_seqs or 1, options.share)
        return
    encoder, lengths = stack.load_prompts(stack.choose_model(ModelSettings()))
    pipeline = FakePipeline(
        lambda sequence: " ".join(["word"] * sequence.max_tokens), step_s=options.step, slots=options.slots
    )
    await pipeline.start()
    heap.freeze_heap()
    planner = Planner(encoder, lengths, pipeline.max_model_len, forced_lengths=True)
    yield Subject(pipeline, planner, options.slots, options.share)


async def run(options: argparse.Namespace, document: dict[str, Any]) -> None:
    work = workload(options)
    work = replace(work, pairs=work.pairs[:1])  # a call has one target
    bulk = work.items(options.segments, 1)
    short = [item for item in bulk if (item.wanted_tokens or 0) <= SHORT_TOKENS][:500]
    async with subject_of(options) as subject:
        document |= {
            "kind": "priority",
            "conditions": conditions_of(options, work)
            | {
                "pipeline": "continuous" if options.engine else f"fake, {options.step:g} s a step",
                "slots": subject.slots,
                "bulk_slots": subject.bulk_slots,
                "texts": len(bulk),
                "segments": sum(map(len, InProcess(subject.engine, subject.planner).sequences(bulk))),  # type: ignore[arg-type]
                "interactive_calls_per_s": options.rate,
            },
            "turns": (turns := Turns()),
        }
        await keep_running(subject, bulk[: 2 * subject.slots], -1)  # warm-up
        for turn in range(options.repeats):
            for mode in options.modes if turn % 2 == 0 else reversed(options.modes):
                turns.append(await measure(subject, mode, bulk, short, turn, options.rate))


def main() -> None:
    parser = parser_of(__doc__, ".dragoman/priority")
    parser.add_argument("--engine", action="store_true", help="the real engine, instead of the fake pipeline")
    parser.add_argument("--segments", type=int, default=5000, help="of the bulk call")
    parser.add_argument("--rate", type=float, default=4.0, help="interactive calls a second")
    parser.add_argument("--share", type=float, default=INTERACTIVE_SHARE, help="of the slots, left free by bulk")
    parser.add_argument("--slots", type=int, default=64, help="of the fake pipeline")
    parser.add_argument("--step", type=float, default=0.01, help="seconds of a step of the fake pipeline")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    options = parser.parse_args()
    document: dict[str, Any] = {}
    run_until_interrupted(run(options, document), document)
    if document.get("turns"):
        document["summary"] = summary_of(document["turns"])
        write(document, options.out)
        print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
