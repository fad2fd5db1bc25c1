"""Walks a route: starts each step's server, measures its legs, stores them, goes on to the next.

A step that fails (its server does not start, or dies) is told and passed over; an interrupt ends the walk and keeps what
was measured; what an earlier walk stored under the same conditions is not measured again. Knows nothing of claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results
from dragoman_bench.bench.servers import (
    Interrupted,
    RunningServer,
    ServerCommand,
    ServerFault,
    dragoman_serve,
    serving,
    vllm_serve,
)
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.journey.display import Display
from dragoman_bench.journey.estimate import Estimate
from dragoman_bench.journey.measure import Meter
from dragoman_bench.journey.steps import Leg, Step, Subject
from dragoman_bench.journey.store import Store, start_s_of

Starter = Callable[[Step], ServerCommand]


@dataclass(slots=True)
class Travelled:
    """What a walk brought home: results by leg name, and why the rest is missing."""

    steps: tuple[Step, ...]
    results: dict[str, Results] = field(default_factory=dict[str, Results])
    failures: dict[str, str] = field(default_factory=dict[str, str])  # by step: the whole message
    not_reached: list[str] = field(default_factory=list[str])
    interrupted: bool = False

    def in_order(self) -> dict[str, Results]:
        """Results as the route goes."""
        names = [step.leg_name(leg) for step in self.steps for leg in step.legs]
        return {name: self.results[name] for name in names if name in self.results}


@dataclass(frozen=True, slots=True)
class Walk:
    """`chosen` are the names of the steps that may be measured now; what is stored of the others counts all the same.
    `time_limit_s`: no step is begun that would not end within it."""

    steps: tuple[Step, ...]
    chosen: frozenset[str]
    subject: Subject
    store: Store
    meter: Meter
    display: Display
    fresh: bool = False
    time_limit_s: float | None = None
    starter: Starter | None = None  # another way to start servers

    async def go(self) -> Travelled:
        """All of it. Raises ConfigError where results cannot be written."""
        began, travelled = monotonic(), Travelled(self.steps)
        estimate = self._look_up(travelled)
        self.display.begin(len(estimate.left), len(travelled.results), estimate.left_s)
        for number, (step, legs) in enumerate(tuple(estimate.left), 1):
            if self.meter.interrupted.is_set() or self._too_late(began, estimate, step, legs):
                travelled.not_reached.append(step.name)
                continue
            self.display.step(number, step, estimate.left_s)
            await self._visit(step, legs, travelled, estimate)
            estimate.finished(step)
        travelled.interrupted = self.meter.interrupted.is_set()
        return travelled

    def _look_up(self, travelled: Travelled) -> Estimate:
        """Takes what is stored, and says what is left."""
        estimate = Estimate(self.meter.pace, [])
        for step in self.steps:
            measuring = step.name in self.chosen
            missing: list[Leg] = []
            for leg in step.legs:
                stored = None if self.fresh and measuring else self.store.load(step, leg)
                if stored is not None:
                    travelled.results[step.leg_name(leg)] = stored
                    start_s = start_s_of(stored)
                    if start_s is not None:
                        estimate.started(step, start_s)
                if stored is None or stored.partial:
                    missing.append(leg)
            if missing and measuring:
                estimate.left.append((step, tuple(missing)))
        return estimate

    def _too_late(self, began: float, estimate: Estimate, step: Step, legs: Sequence[Leg]) -> bool:
        if self.time_limit_s is None:
            return False
        return monotonic() - began + estimate.step_s(step, legs) > self.time_limit_s

    async def _visit(self, step: Step, legs: tuple[Leg, ...], travelled: Travelled, estimate: Estimate) -> None:
        self.display.starting(step, estimate.start_s(step))
        try:
            async with serving(self._command(step), self.store.log(step), self.meter.interrupted) as server:
                estimate.started(step, server.start_s)
                for leg in legs:
                    await self._measure(step, leg, server, travelled)
        except (ServerFault, ConfigError) as fault:
            travelled.failures[step.name] = fault.message
            self.display.failed(step, fault.message)
        except Interrupted:
            travelled.not_reached.append(step.name)

    async def _measure(self, step: Step, leg: Leg, server: RunningServer, travelled: Travelled) -> None:
        self.display.leg(step, leg)
        notes = self.store.notes(step, leg, server.start_s)
        results = await self.meter.measure_leg(
            server.url, target_of(step, self.subject), leg, server.check_alive, notes
        )
        if results.points:
            self.store.save(step, leg, results)
            travelled.results[step.leg_name(leg)] = results

    def _command(self, step: Step) -> ServerCommand:
        if self.starter is not None:
            return self.starter(step)
        return command_of(step, self.subject, self.store.engine_log(step))


def target_of(step: Step, subject: Subject) -> TargetOptions:
    """How a step's server is asked."""
    return subject.asked if step.kind == "vllm" else TargetOptions()


def command_of(step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
    """The command line of a step's server."""
    if step.kind == "dragoman":
        limits = {name: value for name, value in subject.dragoman.items() if step.shaped or name not in subject.limits}
        return dragoman_serve(step.name, {**limits, **step.flags}, engine_log)
    loading = {**subject.vllm, **subject.limits} if step.shaped else subject.vllm
    return vllm_serve(step.name, subject.path, {**loading, **step.flags})
