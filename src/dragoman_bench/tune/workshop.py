"""What making trials needs, and its two acts: bring a server up, measure it at a level.

What an earlier run measured under the same conditions is taken instead. Knows neither why something is measured nor what
follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic

from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.tables import about as told
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.display import Display
from dragoman_bench.tune.estimate import Estimate
from dragoman_bench.tune.faults import told_by
from dragoman_bench.tune.meter import Meter, seen_of
from dragoman_bench.tune.points import Level, Phase, Seen, Setup
from dragoman_bench.tune.running import Facts, Running, Starter, engine_log, running, server_log
from dragoman_bench.tune.store import Store

BY_HAND = "stopped by hand"


@dataclass(frozen=True, slots=True)
class Workshop:
    """`deadline_s`: on the clock; nothing is begun that would not end before it."""

    subject: Subject
    meter: Meter
    store: Store
    starter: Starter
    display: Display
    estimate: Estimate
    deadline_s: float | None = None
    clock: Callable[[], float] = monotonic

    def begin(self, phase: Phase, title: str) -> None:
        """Tells that a part of the tune begins."""
        self.estimate.reached(phase)
        self.display.left(self.estimate.left_s)
        self.display.heading(title)

    def stopped(self, *, starts: int = 0, measurements: int = 1) -> str | None:
        """Why nothing more is begun, where that is so; of what is to be begun, what it takes."""
        if self.meter.interrupted.is_set():
            return BY_HAND
        needed_s = measurements * self.meter.measurement_s + starts * self.estimate.start_s
        if self.deadline_s is not None and self.clock() + needed_s > self.deadline_s:
            return f"it takes {told(needed_s)}, and would not have ended within the time limit"
        return None

    def up(self, name: str, setup: Setup) -> AbstractAsyncContextManager[Running]:
        """See `running.running`."""
        return running(name, setup, self.meter, self.subject, self.starter, self.store.logs)

    def recall(self, name: str, setup: Setup, level: Level, repeat: int) -> tuple[Seen, Facts] | None:
        """What an earlier run saw, judged by today's SLO."""
        stored = self.store.load(name, setup, level, repeat)
        if stored is None:
            return None
        return seen_of(self.meter.judged_again(stored.measurement), level, stored.file), stored.facts

    async def measure(
        self, name: str, setup: Setup, phase: Phase, server: Running, level: Level, repeat: int, note: str = ""
    ) -> Seen | None:
        """Measured and stored; None where it was interrupted. Raises ServerFault where the server died, or answered
        nothing at all; ConfigError where results cannot be written."""
        self.display.left(self.estimate.left_s)
        self.display.measuring(name, level, note)
        measurement = await self.meter.measure(server.bench, level, repeat)
        if measurement is None:
            return None
        await server.check()
        if not measurement.summary.completed:
            raise ServerFault(_nothing_answered(name, measurement.summary.requests, self.meter.pace.timeout_s))
        self.estimate.measured(phase)
        notes = self.store.notes(name, setup, level, server.facts)
        file = self.store.save(name, level, repeat, self.meter.results(server.bench, level, measurement, notes))
        return seen_of(measurement, level, file)

    def reason(self, name: str, fault: ServerFault) -> str:
        """Why a server did not start or died, in a line."""
        return told_by(fault.message, engine_log(self.store.logs, name), server_log(self.store.logs, name))


def _nothing_answered(name: str, requests: int, timeout_s: float) -> str:
    return f"{name} answered none of {requests} requests within {timeout_s:g} s"
