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
from collections.abc import AsyncGenerator, Iterable
from itertools import count

from dragoman.errors import ConfigError, EngineDead
from dragoman.pipelines.lane import Job, WorkerSlot
from dragoman.pipelines.messages import Answered, Began, Ended, FromWorker, Plan, Refused, Withdrawn
from dragoman.pipelines.process import STOP_GRACE_S
from dragoman.telemetry.engine import EngineGauge, EngineStats
from dragoman.types import Completion, Delta, Sequence

VLLM_ENGINE = "dragoman.engine.sync_engine:SyncEngine"
_NO_WORKER = "no worker is left, and none could be started again"
_log = logging.getLogger(__name__)


class WorkerPool:
    """The contract over workers; each pipeline says what its workers are told and how much each may hold."""

    name = "pool"

    def __init__(self, plans: Iterable[Plan], *, held_by_worker: int | None, starting_at_once: int) -> None:
        self.plans = tuple(plans)
        self._held_by_worker = held_by_worker
        self._starting = asyncio.Semaphore(starting_at_once)
        self._lanes: list[WorkerSlot] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._pending: deque[Job] = deque()
        self._numbers = count()
        self._gauge = EngineGauge()
        self._max_model_len: int | None = None
        self._all_lost = asyncio.Event()

    @property
    def max_model_len(self) -> int:
        if self._max_model_len is None:
            raise EngineDead("the workers are not running")
        return self._max_model_len

    async def start(self) -> None:
        """Start every worker. Raises `EngineDead` when one does not come up, and leaves none behind."""
        for plan in self.plans:
            if plan.spec.engine.data_parallel_size > 1:
                raise ConfigError(f"engine.data_parallel_size needs the pipeline continuous, not {self.name}")
        lanes = [WorkerSlot(f"dragoman-{self.name}-{number}", plan) for number, plan in enumerate(self.plans)]
        self._lanes = list(lanes)
        self._all_lost.clear()
        opening = [asyncio.create_task(self._open(slot)) for slot in lanes]
        try:
            await asyncio.gather(*opening)
        except BaseException:
            await self.shutdown()
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        self._keepers = [asyncio.create_task(self._keep(slot), name=slot.name) for slot in lanes]
        self._dispatch()

    async def _open(self, slot: WorkerSlot) -> None:
        async with self._starting:
            if slot.closed:
                raise EngineDead("shut down while starting")
            ready = await slot.worker.start()
            self._max_model_len = ready.max_model_len
            slot.ready = True

    async def generate(self, sequence: Sequence) -> Completion:
        """Run one sequence. A cancelled caller's is withdrawn if it still waits; if it runs, its result is dropped."""
        if not self._lanes:
            raise EngineDead("the workers are not running")
        job = Job(next(self._numbers), sequence, asyncio.get_running_loop().create_future())
        self._pending.append(job)
        self._dispatch()
        try:
            return await job.answer
        finally:
            if job.answer.cancelled():
                self._withdraw(job)

    async def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
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

    async def died(self) -> EngineDead:
        """When the last worker is lost; its own log line says why."""
        await self._all_lost.wait()
        return EngineDead(_NO_WORKER)

    async def shutdown(self) -> None:
        lanes, self._lanes = self._lanes, []
        keepers, self._keepers = self._keepers, []
        # A batch cannot be interrupted and nobody will wait for it: only an idle worker is asked to end.
        graces = [STOP_GRACE_S if slot.ready and not slot.held else 0 for slot in lanes]
        for slot in lanes:
            slot.closed = True
            slot.abandon("the workers were shut down")
        self._fail_pending("the workers were shut down")
        await asyncio.gather(*(slot.worker.stop(grace_s=grace_s) for slot, grace_s in zip(lanes, graces, strict=True)))
        await asyncio.gather(*keepers)

    async def _keep(self, slot: WorkerSlot) -> None:
        """Follow one worker through its lives, until shutdown or until it cannot be started again."""
        try:
            while await self._live(slot):
                slot.renew()
                await self._open(slot)
                self._gauge.restarts += 1
                self._dispatch()
        except EngineDead as error:
            if not slot.closed:
                _log.error("%s is lost: %s", slot.name, error)
        finally:
            self._lose(slot)
            await slot.worker.stop(grace_s=0)

    async def _live(self, slot: WorkerSlot) -> bool:
        """One life of a worker. Whether it shall have another."""
        async for message in slot.worker.messages():
            if not slot.closed:
                self._on(slot, message)
        slot.ready = False
        ending = await slot.worker.stop(grace_s=0)
        if slot.closed:
            return False
        again = slot.reclaim(ending)
        self._pending.extendleft(reversed(again))
        _log.warning("%s died (%s); starting it again, %d sequences run again", slot.name, ending, len(again))
        self._dispatch()
        return True

    def _on(self, slot: WorkerSlot, message: FromWorker) -> None:
        match message:
            case Began(jobs):
                slot.begin(jobs)
                self._report()
            case Ended(outcomes):
                slot.end(outcomes)
                self._count(outcomes)
                self._dispatch()
            case Withdrawn(job):
                slot.forget(job)
                self._dispatch()
            case _:
                raise TypeError(f"{slot.name} said {message!r}")

    def _count(self, outcomes: tuple[Answered | Refused, ...]) -> None:
        done = [outcome.completion for outcome in outcomes if isinstance(outcome, Answered)]
        self._gauge.steps += 1
        self._gauge.finished += len(done)
        self._gauge.prompt_tokens += sum(completion.prompt_tokens for completion in done)
        self._gauge.completion_tokens += sum(completion.completion_tokens for completion in done)

    def _dispatch(self) -> None:
        """Hand what waits to workers with room, the least laden first."""
        while self._pending:
            slot = min(filter(self._has_room, self._lanes), key=lambda slot: len(slot.held), default=None)
            if slot is None:
                break
            slot.take(self._pending.popleft())
        self._report()

    def _has_room(self, slot: WorkerSlot) -> bool:
        return slot.ready and (self._held_by_worker is None or len(slot.held) < self._held_by_worker)

    def _withdraw(self, job: Job) -> None:
        if job in self._pending:
            self._pending.remove(job)
        for slot in self._lanes:
            slot.withdraw(job)
        self._report()

    def _lose(self, slot: WorkerSlot) -> None:
        """This place serves no more; when it was the last, nothing can be served."""
        slot.abandon(f"{slot.name} is gone")
        if slot in self._lanes:
            self._lanes.remove(slot)
        if not self._lanes:
            self._fail_pending(_NO_WORKER)
            if not slot.closed:
                self._all_lost.set()

    def _fail_pending(self, reason: str) -> None:
        for job in self._pending:
            job.fail(EngineDead(reason))
        self._pending.clear()
        self._report()

    def _report(self) -> None:
        running = sum(len(slot.running) for slot in self._lanes)
        waiting = len(self._pending) + sum(slot.waiting for slot in self._lanes)
        self._gauge.load(running, waiting, 0.0)
