"""Runs a journey: starts each step's server, measures its legs and keeps the results, one file a leg.

Every step sends the same texts at the same level and repeat: what differs between two results is the server. An
interrupted journey keeps what was measured; the next run measures what is missing. A file is used again where everything
that decides its numbers is what it would be now: server settings, model, texts, levels, pace, machine, and the versions of
dragoman and vLLM. The commit is not part of this: it changes with each edit of the documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Plan, PreparedBenchmark, Warmup, prepared, texts_needed
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.progress import Observer, RunProgress
from dragoman_bench.bench.results import (
    Load,
    Measurement,
    Results,
    describe_machine,
    read_results,
    write_results,
)
from dragoman_bench.bench.servers import Interrupted, ServerCommand, ServerFault, serving
from dragoman_bench.bench.stored import (
    STOP_S,
    UNKNOWN_START_S,
    fingerprint,
    notes_of,
    read_stored,
    this_machine,
    without_path,
)
from dragoman_bench.bench.summary import point_of
from dragoman_bench.bench.tables import about
from dragoman_bench.bench.workload import (
    WARMUP_VARIATION,
    CachedWorkload,
    GeneratedWorkload,
    OutputRatio,
    PhrasebookTexts,
    parse_pairs,
    token_counter,
)
from dragoman_bench.journey.steps import (
    ALL_CLIENTS,
    Leg,
    Level,
    Mode,
    Pace,
    Step,
    Subject,
    WorkloadName,
    command_of,
    plan_route,
    target_of,
)

_CORES_PER_CLIENT_PROCESS, _STREAMS_PER_CLIENT_PROCESS = 4, 32
_STREAMED_VARIATION = WARMUP_VARIATION // 2  # other texts than those of plain measurements


def make_workloads(subject: Subject) -> dict[WorkloadName, CachedWorkload]:
    """Uniform and variable texts for the subject. Raises ConfigError where its tokenizer cannot be read."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    pairs, texts = parse_pairs(subject.pairs), partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    return {
        name: CachedWorkload(
            GeneratedWorkload(name, low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio)
        )
        for name, (low, high) in subject.lengths.items()
    }


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """A running server. `announce` is called before each measurement, `check` after it; `check` raises where the process
    has exited. `notes` go into the conditions of its results."""

    name: str
    url: str
    target: TargetOptions
    check: Callable[[], None]
    announce: Callable[[], None] = lambda: None
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LoadMeter:
    """What measuring needs beside a server and a leg. Streams get other texts of the same lengths than whole answers, and
    several client processes, as one would be busy with reading the events of many streams."""

    workloads: dict[WorkloadName, CachedWorkload]
    pace: Pace
    observer: Observer
    interrupted: asyncio.Event
    seed: int = 0
    path: str | None = None  # of the model: a server may report it, and results leave it out
    mode: Mode = "plain"

    async def measure(self, leg: Leg, servers: Sequence[MeasuredServer]) -> dict[Mode, dict[str, Results]]:
        """Results by mode and server: the n-th repeat of one belongs to the n-th of the others. A round that not all
        servers finished is dropped, and results are partial where it was interrupted.

        Raises ConfigError where a server cannot do what is asked, and what a server's `check` raises.
        """
        meters: dict[Mode, LoadMeter] = {mode: replace(self, mode=mode) for mode in leg.modes}
        measured: dict[tuple[Mode, str], dict[int, list[Measurement]]] = {}
        async with AsyncExitStack() as stack:
            benches: dict[Mode, list[PreparedBenchmark]] = {}
            for mode, meter in meters.items():
                plans = [meter.plan(server.url, server.target, leg) for server in servers]
                benches[mode] = [await stack.enter_async_context(prepared(plan)) for plan in plans]
            for repeat, level in rounds(leg.levels):
                for mode, meter in meters.items():
                    found = await meter.measure_round(benches[mode], servers, level, repeat)
                    for name, measurement in found.items():
                        measured.setdefault((mode, name), {}).setdefault(level.clients, []).append(measurement)
        return {
            mode: {
                server.name: self.gather(
                    bench, leg, measured.get((mode, server.name), {}), {**server.notes, "mode": mode}
                )
                for server, bench in zip(servers, benches[mode], strict=True)
            }
            for mode in leg.modes
        }

    async def measure_round(
        self, benches: Sequence[PreparedBenchmark], servers: Sequence[MeasuredServer], level: Level, repeat: int
    ) -> dict[str, Measurement]:
        """One measurement of each server, every second round in reverse; empty where it was interrupted."""
        found: dict[str, Measurement] = {}
        turns = list(zip(servers, benches, strict=True))
        for server, bench in turns[:: -1 if repeat % 2 else 1]:
            server.announce()
            measurement = None if self.interrupted.is_set() else await self._measure_once(bench, level, repeat)
            server.check()
            if measurement is None or measurement.stopped == "interrupted":
                return {}
            found[server.name] = measurement
        return found

    def plan(self, url: str, target: TargetOptions, leg: Leg) -> Plan:
        """One for all levels: a measurement's number, and with it its texts, must not depend on what else is measured."""
        workload, streamed = self.workloads[leg.workload], self.mode == "streamed"
        return Plan(
            url=url,
            target=replace(target, stream=True) if streamed else target,
            workload=replace(workload, first_variation=_STREAMED_VARIATION) if streamed else workload,
            loads=tuple(
                Load("closed", clients=n) for n in sorted({*ALL_CLIENTS, *(level.clients for level in leg.levels)})
            ),
            duration_s=self.pace.duration_s,
            warmup=Warmup(duration_s=self.pace.warmup_s),
            repeats=max(level.repeats for level in leg.levels),
            timeout_s=self.pace.timeout_s,
            seed=self.seed,
        )

    async def _measure_once(self, bench: PreparedBenchmark, level: Level, repeat: int) -> Measurement | None:
        load, processes = Load("closed", clients=level.clients), 1
        if self.mode == "streamed":
            most = describe_machine().cores // _CORES_PER_CLIENT_PROCESS
            processes = max(1, min(most, level.clients // _STREAMS_PER_CLIENT_PROCESS))
        plan = replace(
            bench.plan,
            loads=(load,) * len(bench.plan.loads),
            texts=texts_needed(level.clients, self.pace.duration_s),
            repeats=level.repeats,
            processes=processes,
        )
        number = bench.plan.loads.index(load)  # decides the texts; the plan's other loads are not measured here
        return await replace(bench, plan=plan).measure(number, repeat, self.observer, self.interrupted)

    def gather(
        self, bench: PreparedBenchmark, leg: Leg, measured: dict[int, list[Measurement]], notes: dict[str, Any]
    ) -> Results:
        """Results of what was measured, by clients."""
        loads = {clients: Load("closed", clients=clients) for clients in sorted(level.clients for level in leg.levels)}
        repeats = {str(level.clients): level.repeats for level in leg.levels}
        kept = {"repeats": repeats, "label": notes.get("label"), "journey": notes}
        conditions = replace(without_path(bench.conditions, self.path, **kept), loads=tuple(loads.values()))
        points = tuple(point_of(loads[clients], found) for clients, found in sorted(measured.items()))
        return Results(conditions, points, partial=self.interrupted.is_set())


def rounds(levels: Sequence[Level]) -> Iterator[tuple[int, Level]]:
    """(repeat, level): each repeat goes over all levels, so that a machine whose speed drifts affects all alike."""
    for repeat in range(max(level.repeats for level in levels)):
        yield from ((repeat, level) for level in levels if repeat < level.repeats)


@dataclass(slots=True)
class JourneyResults:
    """Results by leg name in the route's order, and why others are missing."""

    results: dict[str, Results] = field(default_factory=dict[str, Results])
    failures: dict[str, str] = field(default_factory=dict[str, str])  # by step: the whole message
    not_reached: list[str] = field(default_factory=list[str])
    interrupted: bool = False


def read_folder(folder: Path, *, quick: bool = False) -> JourneyResults:
    """All legs in a folder, of another machine too; steps without any count as not reached.

    Raises ConfigError where there are none, or a results file cannot be read.
    """
    found: dict[str, Results] = {}
    for path in sorted([*folder.glob("*.*.json"), *folder.glob("*.*.json.gz")]):
        results = read_results(path)
        if notes_of(results, "journey").get("step"):  # a comparison has none
            found[path.name.removesuffix(".gz").removesuffix(".json")] = results
    if not found:
        raise ConfigError(f"no results of a journey in {folder}", param="render")
    route = plan_route(any(results.conditions.machine.gpus for results in found.values()), quick)
    legs = {step.name: [step.leg_name(leg) for leg in step.legs] for step in route}
    ordered = {name: found[name] for names in legs.values() for name in names if name in found}
    return JourneyResults(ordered, not_reached=[step for step, names in legs.items() if not set(names) & set(found)])


Todo = Sequence[tuple[Step, Sequence[Leg]]]


def expected_s(todo: Todo, pace: Pace, starts_s: Sequence[float] = ()) -> float:
    """The time that legs take with their servers' starts and stops; `starts_s` are starts that were seen."""
    start_s = median(starts_s) if starts_s else UNKNOWN_START_S
    return sum(start_s + STOP_S + sum(pace.leg_s(leg) for leg in legs) for _, legs in todo)


@dataclass(frozen=True, slots=True)
class JourneyRun:
    """`chosen` are the names of the steps that may be measured now; stored results of the others count too, and those of
    chosen ones unless `fresh`. `command` builds a server's command line."""

    steps: tuple[Step, ...]
    chosen: frozenset[str]
    subject: Subject
    folder: Path
    meter: LoadMeter
    progress: RunProgress
    machine: dict[str, Any] = field(default_factory=this_machine)
    fresh: bool = False
    command: Callable[[Step, Subject, Path], ServerCommand] = command_of

    async def run(self) -> JourneyResults:
        """All steps. Raises ConfigError where results cannot be written."""
        journey, todo = JourneyResults(), list[tuple[Step, list[Leg]]]()
        for step in self.steps:
            reuse = not (self.fresh and step.name in self.chosen)
            stored = {leg: self.stored(step, leg) if reuse else None for leg in step.legs}
            journey.results |= {step.leg_name(leg): found for leg, found in stored.items() if found}
            missing = [leg for leg, found in stored.items() if found is None or found.partial]
            if missing and step.name in self.chosen:
                todo.append((step, missing))
        starts_s = [
            s for found in journey.results.values() if (s := notes_of(found, "journey").get("start_s")) is not None
        ]
        kept = f"{len(journey.results)} results of an earlier run are kept; " if journey.results else ""
        self.progress.note(f"{kept}{len(todo)} steps to measure")
        for place, (step, legs) in enumerate(todo):
            if self.meter.interrupted.is_set():
                journey.not_reached.append(step.name)
                continue
            left = about(expected_s(todo[place:], self.meter.pace, starts_s))
            self.progress.note(f"{place + 1}/{len(todo)} {step.name}: {step.title} ({left} left)")
            await self._measure_step(step, legs, journey, starts_s)
        names = [step.leg_name(leg) for step in self.steps for leg in step.legs]
        journey.results = {name: journey.results[name] for name in names if name in journey.results}
        journey.interrupted = self.meter.interrupted.is_set()
        return journey

    async def _measure_step(
        self, step: Step, legs: Sequence[Leg], journey: JourneyResults, starts_s: list[float]
    ) -> None:
        self.progress.where = step.name
        self.progress.phase("starting", None)
        logs = self.folder / "logs"
        command = self.command(step, self.subject, logs / f"{step.name}.engine.log")
        try:
            async with serving(command, logs / f"{step.name}.log", self.meter.interrupted) as server:
                starts_s.append(server.start_s)
                for leg in legs:
                    name = self.progress.where = step.leg_name(leg)
                    notes = self.notes(step, leg, server.start_s)
                    target = target_of(step, self.subject)
                    measured = MeasuredServer(name, server.url, target, server.check_alive, notes=notes)
                    results = (await self.meter.measure(leg, [measured]))["plain"][name]
                    if results.points:
                        write_results(results, self.folder / f"{name}.json")
                        journey.results[name] = results
        except (ServerFault, ConfigError) as fault:
            journey.failures[step.name] = fault.message
            self.progress.note(f"{step.name} failed: {fault.message}")
        except Interrupted:
            journey.not_reached.append(step.name)

    def stored(self, step: Step, leg: Leg) -> Results | None:
        """What an earlier run measured under the same conditions, whole or in part."""
        file = self.folder / f"{step.leg_name(leg)}.json"
        return read_stored(file, "journey", self.fingerprint(step, leg))

    def notes(self, step: Step, leg: Leg, start_s: float) -> dict[str, Any]:
        """What a results file keeps of its place in the journey."""
        label = step.name if leg.workload == "variable" else f"{step.name} {leg.workload}"
        place = {"label": label, "step": step.name, "title": step.title, "start_s": start_s}
        return {**place, "fingerprint": self.fingerprint(step, leg)}

    def fingerprint(self, step: Step, leg: Leg) -> dict[str, Any]:
        """Everything that decides a leg's numbers, as JSON."""
        return fingerprint(
            {
                "server": step.kind,
                "flags": dict(step.flags),
                "shaped": step.shaped,
                "subject": self.subject.describe(step.kind),
                "workload": self.meter.workloads[leg.workload].description,
                "seed": self.subject.seed,
                "levels": [[level.clients, level.repeats] for level in leg.levels],
                "pace": asdict(self.meter.pace),
                "machine": self.machine,
            }
        )
