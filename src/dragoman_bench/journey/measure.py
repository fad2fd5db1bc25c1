"""Runs a journey: starts each step's server, measures its legs and stores the results, a file for each leg.

`JourneyRun.compare` runs the servers of two steps at the same time and measures them in turn (A B, B A, A B): one server is
idle while the other is measured, and drift of the machine affects both.

All steps send the same texts at the same level and repeat, so that only the server differs. An interrupted journey keeps its
measurements; `--only` measures single steps, and `read_folder` reads all results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Plan, PreparedBenchmark, Warmup, prepared
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.measurement import describe_machine
from dragoman_bench.bench.progress import Observer, ProgressLines
from dragoman_bench.bench.results import Load, Repeat, Results, notes_of, read_results, without_path, write_results
from dragoman_bench.bench.servers import Interrupted, RunningServer, ServerCommand, ServerFault, serving
from dragoman_bench.bench.summary import point_of
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
    """Make uniform and variable texts for the subject. Raises ConfigError if its tokenizer cannot be read."""
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
    """A running server. `announce` is called before each measurement, `check` after it; `check` raises if the process has
    exited. `notes` are added to the conditions of its results."""

    name: str
    url: str
    target: TargetOptions
    check: Callable[[], None]
    announce: Callable[[], None] = lambda: None
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LoadMeter:
    """Measures legs of servers. Streams get different texts of the same lengths, so that no prompt is in a prefix cache, and
    several client processes, because one would be busy with reading events."""

    workloads: dict[WorkloadName, CachedWorkload]
    pace: Pace
    observer: Observer
    interrupted: asyncio.Event
    seed: int = 0
    path: str | None = None  # of the model: a server may report it, and results leave it out

    async def measure(self, leg: Leg, servers: Sequence[MeasuredServer]) -> dict[Mode, dict[str, Results]]:
        """Measure, and return results by mode and server: the n-th repeats of all servers belong together. A round that not all
        servers finished is dropped; results are partial after an interrupt. Each repeat measures all numbers of clients, so
        that drift of the machine affects all of them.

        Raises ConfigError if a server does not support the load, and what a server's `check` raises.
        """
        measured: dict[tuple[Mode, str], dict[int, list[Repeat]]] = {}
        async with AsyncExitStack() as stack:
            benches: dict[Mode, list[PreparedBenchmark]] = {}
            for mode in leg.modes:
                plans = [self.plan(server.url, server.target, leg, mode) for server in servers]
                benches[mode] = [await stack.enter_async_context(prepared(plan)) for plan in plans]
            for repeat, clients, mode in product(range(leg.repeats), leg.clients, leg.modes):
                found = await self._measure_round(benches[mode], servers, clients, repeat)
                for name, measurement in found.items():
                    measured.setdefault((mode, name), {}).setdefault(clients, []).append(measurement)
        return {
            mode: {
                server.name: self.gather(bench, measured.get((mode, server.name), {}), {**server.notes, "mode": mode})
                for server, bench in zip(servers, benches[mode], strict=True)
            }
            for mode in leg.modes
        }

    async def _measure_round(
        self, benches: Sequence[PreparedBenchmark], servers: Sequence[MeasuredServer], clients: int, repeat: int
    ) -> dict[str, Repeat]:
        """One measurement of each server, every second round in reverse; empty where it was interrupted."""
        found: dict[str, Repeat] = {}
        turns = list(zip(servers, benches, strict=True))
        for server, bench in turns[:: -1 if repeat % 2 else 1]:
            server.announce()
            measurement = None if self.interrupted.is_set() else await self._measure_once(bench, clients, repeat)
            server.check()
            if measurement is None or measurement.stopped == "interrupted":
                return {}
            found[server.name] = measurement
        return found

    def plan(self, url: str, target: TargetOptions, leg: Leg, mode: Mode = "plain") -> Plan:
        """Return one plan for all levels: a measurement's number, which selects its texts, must not depend on other levels."""
        workload, streamed = self.workloads[leg.workload], mode == "streamed"
        return Plan(
            url=url,
            target=replace(target, stream=True) if streamed else target,
            workload=replace(workload, first_variation=_STREAMED_VARIATION) if streamed else workload,
            loads=tuple(Load("closed", clients=n) for n in sorted({*ALL_CLIENTS, *leg.clients})),
            duration_s=self.pace.duration_s,
            warmup=Warmup(duration_s=self.pace.warmup_s),
            repeats=leg.repeats,
            timeout_s=self.pace.timeout_s,
            seed=self.seed,
        )

    async def _measure_once(self, bench: PreparedBenchmark, clients: int, repeat: int) -> Repeat | None:
        load, processes = Load("closed", clients=clients), 1
        if bench.plan.target.stream:
            most = describe_machine().cores // _CORES_PER_CLIENT_PROCESS
            processes = max(1, min(most, clients // _STREAMS_PER_CLIENT_PROCESS))
        plan = replace(
            bench.plan,
            loads=(load,) * len(bench.plan.loads),
            processes=processes,
        )
        number = bench.plan.loads.index(load)  # decides the texts; the plan's other loads are not measured here
        return await replace(bench, plan=plan).measure(number, repeat, self.observer, self.interrupted)

    def gather(
        self, bench: PreparedBenchmark, measured: Mapping[int, Sequence[Repeat]], notes: Mapping[str, Any]
    ) -> Results:
        """Return the results of all measurements, by clients."""
        points = tuple(point_of(Load("closed", clients=n), measured[n]) for n in sorted(measured))
        conditions = without_path(bench.conditions, self.path, label=notes.get("label"), journey=dict(notes))
        loads = tuple(point.load for point in points)
        return Results(replace(conditions, loads=loads), points, partial=self.interrupted.is_set())


@dataclass(slots=True)
class JourneyResults:
    """Results by leg name in the order of the steps, and the reasons why others are missing."""

    results: dict[str, Results] = field(default_factory=dict[str, Results])
    failures: dict[str, str] = field(default_factory=dict[str, str])  # by step: the whole message
    not_reached: list[str] = field(default_factory=list[str])
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results by mode and server name; empty after an interrupt before both servers were measured once."""

    names: tuple[str, str]
    results: dict[Mode, dict[str, Results]]
    partial: bool = False


def read_folder(folder: Path, *, quick: bool = False) -> JourneyResults:
    """Read all legs in a folder, which may come from another machine; steps without results count as not reached.

    Raises ConfigError if there are none, or a results file cannot be read.
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


@dataclass(frozen=True, slots=True)
class JourneyRun:
    """Runs the steps. `command` builds a server's command line."""

    steps: tuple[Step, ...]
    subject: Subject
    folder: Path
    meter: LoadMeter
    progress: ProgressLines
    command: Callable[[Step, Subject, Path], ServerCommand] = command_of

    async def run(self) -> JourneyResults:
        """Run all steps. Raises ConfigError if results cannot be written."""
        journey = JourneyResults()
        for place, step in enumerate(self.steps):
            if self.meter.interrupted.is_set():
                journey.not_reached.append(step.name)
                continue
            self.progress.note(f"{place + 1}/{len(self.steps)} {step.name}: {step.title}")
            await self._measure_step(step, journey)
        journey.interrupted = self.meter.interrupted.is_set()
        return journey

    async def compare(self) -> Comparison:
        """Run both steps' servers, and measure them in turn. Raises ServerFault if one does not start or exits, ConfigError if
        one does not support the load."""
        servers: list[MeasuredServer] = []
        names = (self.steps[0].name, self.steps[1].name)
        try:
            async with AsyncExitStack() as stack:
                for step in self.steps:
                    server = await stack.enter_async_context(self._serving(step))
                    servers.append(
                        self._measured_server(step, server, step.name, {"label": step.name, "versus": names})
                    )
                results = await self.meter.measure(self.steps[0].legs[0], servers)
        except Interrupted:
            return Comparison(names, {}, partial=True)
        return Comparison(names, results, partial=self.meter.interrupted.is_set())

    def _serving(self, step: Step) -> AbstractAsyncContextManager[RunningServer]:
        self.progress.where = step.name
        self.progress.phase("starting", None)
        logs = self.folder / "logs"
        command = self.command(step, self.subject, logs / f"{step.name}.engine.log")
        return serving(command, logs / f"{step.name}.log", self.meter.interrupted)

    def _measured_server(self, step: Step, server: RunningServer, name: str, notes: dict[str, Any]) -> MeasuredServer:
        target, announce = target_of(step, self.subject), partial(setattr, self.progress, "where", name)
        return MeasuredServer(name, server.url, target, server.check_alive, announce, notes)

    async def _measure_step(self, step: Step, journey: JourneyResults) -> None:
        try:
            async with self._serving(step) as server:
                for leg in step.legs:
                    name = step.leg_name(leg)
                    label = step.name if leg.workload == "variable" else f"{step.name} {leg.workload}"
                    notes = {"label": label, "step": step.name, "title": step.title, "start_s": server.start_s}
                    measured = self._measured_server(step, server, name, notes)
                    results = (await self.meter.measure(leg, [measured]))["plain"][name]
                    if results.points:
                        write_results(results, self.folder / f"{name}.json")
                        journey.results[name] = results
        except (ServerFault, ConfigError) as fault:
            journey.failures[step.name] = fault.message
            self.progress.note(f"{step.name} failed: {fault.message}")
        except Interrupted:
            journey.not_reached.append(step.name)
