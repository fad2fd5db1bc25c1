"""A worker's place in a pool: the jobs that its present process holds, and what becomes of them.

Knows how one job ends and what one death means for it; who gets which job is the pool's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from time import monotonic

from dragoman.errors import EngineDead, EngineFailed, EngineRejected
from dragoman.pipelines.messages import Answered, Plan, Refused, Run, Withdraw
from dragoman.pipelines.process import WorkerProcess
from dragoman.types import Completion, Sequence, Timings

_REFUSALS = {cls.code: cls for cls in (EngineRejected, EngineFailed)}
_CRASHES_SURVIVED = 1


@dataclass(eq=False, slots=True)
class Job:
    """A sequence, and the future that its caller awaits; a cancelled caller leaves that future done."""

    number: int
    sequence: Sequence
    answer: asyncio.Future[Completion]
    crashes: int = 0  # of workers, with this job running
    submitted_s: float = field(default_factory=monotonic)
    began_s: float | None = None  # when its batch last began

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for it."""
        return not self.answer.done()

    def freeze_heap(self, outcome: Answered | Refused) -> None:
        if isinstance(outcome, Refused):
            self.fail(_REFUSALS[outcome.code](outcome.reason))
        elif self.is_open:
            waited_s = (self.began_s or monotonic()) - self.submitted_s
            self.answer.set_result(replace(outcome.completion, timings=Timings(waited_s)))

    def fail(self, error: Exception) -> None:
        if self.is_open:
            self.answer.set_exception(error)


@dataclass(eq=False, slots=True)
class WorkerSlot:
    """One worker's place. `running` are the numbers of the jobs in its engine now, dropped ones included."""

    name: str
    plan: Plan
    worker: WorkerProcess = field(init=False)
    ready: bool = False
    closed: bool = False
    held: dict[int, Job] = field(default_factory=dict[int, Job])
    running: tuple[int, ...] = ()
    withdrawn: set[int] = field(default_factory=set[int])  # of those held, what the worker is asked to forget

    def __post_init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """A process to be started, in the place of one that died."""
        self.worker = WorkerProcess(self.plan, self.name)

    @property
    def waiting(self) -> int:
        return len(self.held) - len(self.running) - len(self.withdrawn)

    def take(self, job: Job) -> None:
        self.held[job.number] = job
        self.worker.send(Run(job.number, job.sequence, alone=job.crashes > 0))

    def withdraw(self, job: Job) -> None:
        """Its caller has gone: ask for it back, unless it runs."""
        if job.number in self.held and job.number not in self.running:
            self.withdrawn.add(job.number)
            self.worker.send(Withdraw(job.number))

    def begin(self, numbers: tuple[int, ...]) -> None:
        """These run now, even if one was asked back a moment ago."""
        self.running = numbers
        self.withdrawn.difference_update(numbers)
        now_s = monotonic()
        for number in numbers:
            if number in self.held:
                self.held[number].began_s = now_s

    def end(self, outcomes: tuple[Answered | Refused, ...]) -> None:
        """The batch is done."""
        self.running = ()
        for outcome in outcomes:
            self.held.pop(outcome.job).freeze_heap(outcome)

    def forget(self, number: int) -> None:
        """The worker gave this one back."""
        self.withdrawn.discard(number)
        self.held.pop(number, None)

    def reclaim(self, ending: str) -> list[Job]:
        """Take back what a dead worker held. What may have killed it has one more life, or none."""
        suspects = self.running or tuple(self.held)
        for number in suspects:
            job = self.held[number]
            job.crashes += 1
            if job.crashes > _CRASHES_SURVIVED:
                job.fail(EngineDead(f"{self.name} died ({ending}) on this sequence, as a worker had before"))
        again = [job for job in self.held.values() if job.is_open]
        self._clear()
        return again

    def abandon(self, reason: str) -> None:
        """Take no more work, and fail what is held."""
        self.ready = False
        for job in self.held.values():
            job.fail(EngineDead(reason))
        self._clear()

    def _clear(self) -> None:
        self.held, self.running, self.withdrawn = {}, (), set()
