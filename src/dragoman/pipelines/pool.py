"""Worker processes behind the pipeline contract: who gets which sequence, and what a death means.

Everything here runs in the event loop, so nothing is locked. Sequences wait here until a worker has room for them, in order
of arrival. A worker that dies is started again; what it was running runs once more, each in a batch of its own so that a
sequence that kills its worker takes no other with it, and ends with `EngineDead` if that kills a worker too. What merely
waited in its queue waits again. Knows neither the engine nor how a batch is made: that is in the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import count

from dragoman.errors import ConfigError, EngineDead, EngineFailed, EngineRejected
from dragoman.pipelines.messages import Answered, Began, Ended, FromWorker, Plan, Refused, Run, Withdraw, Withdrawn
from dragoman.pipelines.process import STOP_GRACE_S, WorkerProcess
from dragoman.sequence import Completion, Delta, Sequence
from dragoman.telemetry.engine import EngineGauge, EngineStats

VLLM_ENGINE = "dragoman.engine.vllm_sync:SyncEngine"
_REFUSALS = {cls.code: cls for cls in (EngineRejected, EngineFailed)}
_DEATHS_SURVIVED = 1
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Job:
    """A sequence, and who waits for it."""

    number: int
    sequence: Sequence
    answer: asyncio.Future[Completion]
    deaths: int = 0

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(eq=False, slots=True)
class _Lane:
    """The place of one worker: its present process, and what it holds."""

    plan: Plan
    worker: WorkerProcess
    ready: bool = False
    closed: bool = False
    held: dict[int, _Job] = field(default_factory=dict[int, _Job])
    running: tuple[int, ...] = ()

    def waiting(self) -> int:
        return sum(not job.answer.done() for job in self.held.values() if job.number not in self.running)


class WorkerPool:
    """The contract over workers; each pipeline says what its workers are told and how much each may hold."""

    name = "pool"

    def __init__(self, plans: Iterable[Plan], *, held_by_worker: int | None, starting_at_once: int) -> None:
        self._plans = tuple(plans)
        self._held_by_worker = held_by_worker
        self._starting = asyncio.Semaphore(starting_at_once)
        self._lanes: list[_Lane] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._pending: deque[_Job] = deque()
        self._numbers = count()
        self._gauge = EngineGauge()
        self._max_model_len: int | None = None

    @property
    def max_model_len(self) -> int:
        if self._max_model_len is None:
            raise EngineDead("the workers are not running")
        return self._max_model_len

    async def start(self) -> None:
        """Start every worker. Raises `EngineDead` when one does not come up, and leaves none behind."""
        for plan in self._plans:
            if plan.spec.engine.data_parallel_size > 1:
                raise ConfigError(f"data_parallel_size needs pipeline continuous, not {self.name}")
        lanes = [_Lane(plan, WorkerProcess(plan, self._named(number))) for number, plan in enumerate(self._plans)]
        self._lanes = lanes
        opening = [asyncio.create_task(self._open(lane)) for lane in lanes]
        try:
            await asyncio.gather(*opening)
        except BaseException:
            await self.shutdown()
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        self._keepers = [asyncio.create_task(self._keep(lane), name=lane.worker.name) for lane in lanes]
        self._dispatch()

    def _named(self, number: int) -> str:
        return f"dragoman-{self.name}-{number}"

    async def _open(self, lane: _Lane) -> None:
        async with self._starting:
            if lane.closed:
                raise EngineDead("shut down while starting")
            ready = await lane.worker.start()
            self._max_model_len = ready.max_model_len
            lane.ready = True

    async def generate(self, sequence: Sequence) -> Completion:
        """Run one sequence. A cancelled caller's is withdrawn if it still waits; if it runs, its result is dropped."""
        if not self._lanes:
            raise EngineDead("the workers are not running")
        job = _Job(next(self._numbers), sequence, asyncio.get_running_loop().create_future())
        self._pending.append(job)
        self._dispatch()
        try:
            return await job.answer
        finally:
            if job.answer.cancelled():
                self._withdraw(job)

    async def stream(self, sequence: Sequence) -> AsyncIterator[Delta | Completion]:
        """One `Delta` with the whole text, then the `Completion`: a batch comes back whole, so nothing can stream."""
        completion = await self.generate(sequence)
        if completion.text:
            yield Delta(completion.text)
        yield completion

    def stats(self) -> EngineStats:
        """`running` is in a batch now, dropped results included; `steps` are batches."""
        return self._gauge.snapshot()

    async def check_health(self) -> None:
        """A worker that is being started again counts: what waits for it will be served."""
        if not self._lanes:
            raise EngineDead("no worker is running")

    async def shutdown(self) -> None:
        lanes, self._lanes = self._lanes, []
        keepers, self._keepers = self._keepers, []
        for lane in lanes:
            lane.closed = True
            self._fail(lane.held.values(), "the workers were shut down")
        self._fail(self._pending, "the workers were shut down")
        self._pending.clear()
        # A batch cannot be interrupted and nobody waits for it any more: only an idle worker is asked.
        graces = [STOP_GRACE_S if lane.ready and not lane.running else 0 for lane in lanes]
        await asyncio.gather(*(lane.worker.stop(grace_s=grace_s) for lane, grace_s in zip(lanes, graces, strict=True)))
        await asyncio.gather(*keepers)

    async def _keep(self, lane: _Lane) -> None:
        """Follow one worker through its lives, until shutdown or until it cannot be started again."""
        try:
            while True:
                async for message in lane.worker.messages():
                    self._on(lane, message)
                lane.ready = False
                ending = await lane.worker.stop(grace_s=0)
                if lane.closed:
                    return
                self._bury(lane, ending)
                lane.worker = WorkerProcess(lane.plan, lane.worker.name)
                await self._open(lane)
                self._dispatch()
        except EngineDead as error:
            if not lane.closed:
                _log.error("%s is lost: %s", lane.worker.name, error)
        finally:
            self._abandon(lane)

    def _on(self, lane: _Lane, message: FromWorker) -> None:
        match message:
            case Began(jobs):
                lane.running = jobs
                self._report()
            case Ended(outcomes):
                lane.running = ()
                self._gauge.steps += 1
                for outcome in outcomes:
                    self._settle(lane.held.pop(outcome.job), outcome)
                self._dispatch()
            case Withdrawn(job):
                del lane.held[job]
                self._dispatch()
            case _:
                raise TypeError(f"{lane.worker.name} said {message!r}")

    def _settle(self, job: _Job, outcome: Answered | Refused) -> None:
        if isinstance(outcome, Refused):
            job.fail(_REFUSALS[outcome.code](outcome.reason))
            return
        self._gauge.finished += 1
        self._gauge.prompt_tokens += outcome.completion.prompt_tokens
        self._gauge.completion_tokens += outcome.completion.completion_tokens
        if not job.answer.done():
            job.answer.set_result(outcome.completion)

    def _dispatch(self) -> None:
        """Hand what waits to workers with room, the least laden first."""
        while self._pending:
            lane = min(filter(self._has_room, self._lanes), key=lambda lane: len(lane.held), default=None)
            if lane is None:
                break
            job = self._pending.popleft()
            lane.held[job.number] = job
            lane.worker.send(Run(job.number, job.sequence, alone=job.deaths > 0))
        self._report()

    def _has_room(self, lane: _Lane) -> bool:
        return lane.ready and (self._held_by_worker is None or len(lane.held) < self._held_by_worker)

    def _withdraw(self, job: _Job) -> None:
        if job in self._pending:
            self._pending.remove(job)
        for lane in self._lanes:
            if job.number in lane.held and job.number not in lane.running:
                lane.worker.send(Withdraw(job.number))
        self._report()

    def _bury(self, lane: _Lane, ending: str) -> None:
        """Take back what a dead worker held; what may have killed it is counted, and has had its last chance or not."""
        suspects = lane.running or tuple(lane.held)
        again: list[_Job] = []
        for job in lane.held.values():
            job.deaths += job.number in suspects
            if job.deaths > _DEATHS_SURVIVED:
                job.fail(EngineDead(f"{lane.worker.name} died ({ending}) on this sequence, as one had before"))
            if not job.answer.done():
                again.append(job)
        _log.warning("%s died (%s); starting it again, %d sequences run again", lane.worker.name, ending, len(again))
        lane.held, lane.running = {}, ()
        self._pending.extendleft(reversed(again))
        self._dispatch()

    def _abandon(self, lane: _Lane) -> None:
        """This lane takes no more work; without any, nothing can be served."""
        lane.ready, lane.running = False, ()
        self._fail(lane.held.values(), f"{lane.worker.name} is gone")
        lane.held.clear()
        if lane in self._lanes:
            self._lanes.remove(lane)
        if not self._lanes:
            self._fail(self._pending, "no worker is left")
            self._pending.clear()
        self._report()

    def _fail(self, jobs: Iterable[_Job], reason: str) -> None:
        for job in jobs:
            job.fail(EngineDead(reason))

    def _report(self) -> None:
        running = sum(len(lane.running) for lane in self._lanes)
        waiting = len(self._pending) + sum(lane.waiting() for lane in self._lanes)
        self._gauge.load(running, waiting, 0.0)
