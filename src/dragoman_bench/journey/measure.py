"""Measures one leg: a workload at several load levels, each as often as its claim needs, against one server.

Every step of a journey sends the same texts at the same level and repeat: what differs between two results is the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman_bench.bench.benchmark import WARMUP_VARIATION, Plan, PreparedBenchmark, Warmup, prepared
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Load, Measurement, Point, Results, describe_machine
from dragoman_bench.bench.summary import spreads
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    Item,
    OutputRatio,
    PhrasebookTexts,
    Workload,
    parse_pairs,
    token_counter,
)
from dragoman_bench.journey.route import ALL_CLIENTS
from dragoman_bench.journey.steps import Leg, Level, Mode, Pace, Subject, WorkloadName

_WARMUP_TEXTS = 100
_FEWEST_TEXTS = 200
_CORES_PER_CLIENT_PROCESS, _STREAMS_PER_CLIENT_PROCESS = 4, 32
_STREAMED_VARIATION = WARMUP_VARIATION // 2  # other texts than those of plain measurements


@dataclass(frozen=True, slots=True)
class CachedWorkload:
    """A workload that makes each variation once: every step of a journey asks for the same ones.

    Another `first_variation` selects other texts of the same lengths.
    """

    workload: Workload
    first_variation: int = 0
    _made: dict[int, tuple[Item, ...]] = field(default_factory=dict[int, tuple[Item, ...]])

    @property
    def description(self) -> str:
        return self.workload.description

    @property
    def size(self) -> int | None:
        return self.workload.size

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        variation += self.first_variation
        if variation >= WARMUP_VARIATION:
            count = min(count, _WARMUP_TEXTS)
        if len(self._made.get(variation, ())) < count:
            self._made[variation] = self.workload.items(count, variation)
        return self._made[variation][:count]

    def samples(self) -> tuple[Item, ...]:
        return self.workload.samples()


def make_workloads(subject: Subject) -> dict[WorkloadName, CachedWorkload]:
    """Uniform and variable texts for the subject. Raises ConfigError where its tokenizer cannot be read."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    pairs, texts = parse_pairs(subject.pairs), partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    made: dict[WorkloadName, CachedWorkload] = {}
    for name, (low, high) in subject.lengths.items():
        made[name] = CachedWorkload(
            GeneratedWorkload(name, low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio)
        )
    return made


@dataclass(frozen=True, slots=True)
class LoadMeter:
    """What measuring needs beside a server and a leg."""

    workloads: dict[WorkloadName, CachedWorkload]
    pace: Pace
    observer: Observer
    interrupted: asyncio.Event
    seed: int = 0
    processes: int = 1  # of the client, at most
    path: str | None = None  # of the model: a server may report it, and results leave it out

    def of_mode(self, mode: Mode) -> LoadMeter:
        """The same for a mode: streams get other texts of the same lengths than whole answers, and several client
        processes, as one would be busy with reading the events of many streams."""
        if mode == "plain":
            return self
        processes = max(1, describe_machine().cores // _CORES_PER_CLIENT_PROCESS)
        workloads = {
            name: replace(workload, first_variation=_STREAMED_VARIATION) for name, workload in self.workloads.items()
        }
        return replace(self, workloads=workloads, processes=processes)

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
            for repeat, level in rounds(leg.levels):
                measurement = await self.measure_once(bench, level, repeat)
                check()
                if measurement is None:
                    break
                measured.setdefault(level.clients, []).append(measurement)
            return self.gather(bench, leg, measured, notes)

    async def measure_once(self, bench: PreparedBenchmark, level: Level, repeat: int) -> Measurement | None:
        """None where it was interrupted before it began."""
        if self.interrupted.is_set():
            return None
        load = Load("closed", clients=level.clients)
        number = bench.plan.loads.index(load)  # decides the texts; the plan's other loads are not measured here
        plan = replace(
            bench.plan,
            loads=(load,) * len(bench.plan.loads),
            texts=texts_for(level, self.pace),
            repeats=level.repeats,
            processes=max(1, min(self.processes, level.clients // _STREAMS_PER_CLIENT_PROCESS)),
        )
        return await replace(bench, plan=plan).measure(number, repeat, self.observer, self.interrupted)

    def gather(
        self, bench: PreparedBenchmark, leg: Leg, measured: dict[int, list[Measurement]], notes: dict[str, Any]
    ) -> Results:
        """Results of what was measured, by clients."""
        points = tuple(
            Point(Load("closed", clients=clients), tuple(found), spreads(found))
            for clients, found in sorted(measured.items())
        )
        repeats = {str(level.clients): level.repeats for level in leg.levels}
        conditions = replace(
            bench.conditions,
            server={name: value for name, value in bench.conditions.server.items() if value != self.path},
            loads=tuple(Load("closed", clients=clients) for clients in _clients(leg)),
            options=bench.conditions.options | {"repeats": repeats, "label": notes.get("label"), "journey": notes},
        )
        return Results(conditions, points, partial=self.interrupted.is_set())


def rounds(levels: Sequence[Level]) -> Iterator[tuple[int, Level]]:
    """(repeat, level): each repeat goes over all levels, so that a machine whose speed drifts affects all alike."""
    for repeat in range(max(level.repeats for level in levels)):
        for level in levels:
            if repeat < level.repeats:
                yield repeat, level


def texts_for(level: Level, pace: Pace) -> int:
    """As many as a fast GPU answers: where a server answers more, texts are sent again, which its results note."""
    answered_a_second = min(5 * level.clients, 75 + 2 * level.clients)
    return max(_FEWEST_TEXTS, round(answered_a_second * pace.duration_s))


def _clients(leg: Leg) -> list[int]:
    return sorted(level.clients for level in leg.levels)
