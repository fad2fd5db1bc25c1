"""Measures one leg: a workload at several load levels, each as often as its claim needs, against one server.

Every step of a journey sends the same texts at the same level and repeat: what differs between two results is the server.
Knows nothing of how the server was started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.bench.benchmark import Bench, prepared
from dragoman.bench.journey.route import ALL_CLIENTS
from dragoman.bench.journey.steps import Leg, Level, Pace, Subject, WorkloadName
from dragoman.bench.pairs import parse_pairs
from dragoman.bench.plan import Plan, Warmup
from dragoman.bench.progress import Observer
from dragoman.bench.records import Load
from dragoman.bench.results import Measurement, Point, Results
from dragoman.bench.runner import WARMUP_VARIATION, Runner
from dragoman.bench.spread import spreads
from dragoman.bench.stopping import Watchman
from dragoman.bench.targets import TargetOptions
from dragoman.bench.texts import PhrasebookTexts, token_counter
from dragoman.bench.workload import Item, MadeUp, OutputRatio, Workload

_WARMUP_TEXTS = 100
_TEXTS_A_CLIENT_S = 5  # what a fast GPU answers in a second for each client; where more are asked for, texts repeat
_FEWEST_TEXTS = 200


@dataclass(frozen=True, slots=True)
class Remembered:
    """A workload that makes each variation once: every step of a journey asks for the same ones."""

    workload: Workload
    _made: dict[int, tuple[Item, ...]] = field(default_factory=dict[int, tuple[Item, ...]])

    @property
    def description(self) -> str:
        return self.workload.description

    @property
    def size(self) -> int | None:
        return self.workload.size

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        if variation >= WARMUP_VARIATION:
            count = min(count, _WARMUP_TEXTS)
        if len(self._made.get(variation, ())) < count:
            self._made[variation] = self.workload.items(count, variation)
        return self._made[variation][:count]


def make_workloads(subject: Subject) -> dict[WorkloadName, Workload]:
    """Uniform and variable texts for the subject. Raises ConfigError where its tokenizer cannot be read."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    pairs, texts = parse_pairs(subject.pairs), partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    made: dict[WorkloadName, Workload] = {
        name: Remembered(MadeUp(name, low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio))
        for name, (low, high) in subject.lengths.items()
    }
    return made


@dataclass(frozen=True, slots=True)
class Meter:
    """What measuring needs beside a server and a leg."""

    workloads: dict[WorkloadName, Workload]
    pace: Pace
    observer: Observer
    interrupted: asyncio.Event
    seed: int = 0

    def plan(self, url: str, target: TargetOptions, leg: Leg) -> Plan:
        """One for all levels: a measurement's number, and with it its texts, must not depend on what else is measured."""
        return Plan(
            url=url,
            target=target,
            workload=self.workloads[leg.workload],
            loads=tuple(Load("closed", clients=clients) for clients in sorted({*ALL_CLIENTS, *_clients(leg)})),
            duration_s=self.pace.duration_s,
            warmup=Warmup(duration_s=self.pace.warmup_s),
            repeats=max(level.repeats for level in leg.levels),
            timeout_s=self.pace.timeout_s,
            seed=self.seed,
        )

    async def measure_leg(
        self, url: str, target: TargetOptions, leg: Leg, check: Callable[[], None], notes: dict[str, Any]
    ) -> Results:
        """All levels; partial where it was interrupted. `check` is called after each measurement and may raise; `notes`
        go into the conditions. Raises ConfigError where the server cannot do what is asked."""
        measured: dict[int, list[Measurement]] = {}
        async with prepared(self.plan(url, target, leg)) as bench:
            for repeat, clients in rounds(leg.levels):
                measurement = await self.measure_once(bench, clients, repeat)
                check()
                if measurement is None:
                    break
                measured.setdefault(clients, []).append(measurement)
            return self.gather(bench, leg, measured, notes)

    async def measure_once(self, bench: Bench, clients: int, repeat: int) -> Measurement | None:
        """None where it was interrupted before it began."""
        if self.interrupted.is_set():
            return None
        number = bench.plan.loads.index(Load("closed", clients=clients))
        texts = max(_FEWEST_TEXTS, round(_TEXTS_A_CLIENT_S * clients * self.pace.duration_s))
        plan = replace(bench.plan, texts=texts)
        return await Runner(plan, bench.sampler, Watchman(self.interrupted, self.observer)).measure(number, repeat)

    def gather(self, bench: Bench, leg: Leg, measured: dict[int, list[Measurement]], notes: dict[str, Any]) -> Results:
        """Results of what was measured, by clients."""
        points = tuple(
            Point(Load("closed", clients=clients), tuple(found), spreads(found))
            for clients, found in sorted(measured.items())
        )
        repeats = {str(level.clients): level.repeats for level in leg.levels}
        conditions = replace(
            bench.conditions,
            loads=tuple(Load("closed", clients=clients) for clients in _clients(leg)),
            options=bench.conditions.options | {"repeats": repeats, "label": notes.get("label"), "journey": notes},
        )
        return Results(conditions, points, partial=self.interrupted.is_set())


def rounds(levels: Sequence[Level]) -> Iterator[tuple[int, int]]:
    """(repeat, clients): round the levels rather than through them, so that drift spreads over all."""
    for repeat in range(max(level.repeats for level in levels)):
        for level in levels:
            if repeat < level.repeats:
                yield repeat, level.clients


def _clients(leg: Leg) -> list[int]:
    return sorted(level.clients for level in leg.levels)
