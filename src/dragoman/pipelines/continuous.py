"""`continuous`, the product: `AsyncEngine` in the event loop, restarted when it crashes.

Every sequence is submitted immediately, and the engine decides at each step which run: one that ends leaves its slot to one
that waits, while all others go on decoding.

Crash recovery: translations are idempotent, so a sequence that was in flight when the engine crashed waits for the restart
and runs again. One that was in flight at two crashes may be their cause, and ends with `EngineDead`. Sequences that arrive
during a restart wait as well; how many may, and for how long, is admission's to decide. When too many starts fail in a row,
the pipeline gives up and everything ends with `EngineDead`. An engine that hangs is killed, which is a crash like others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import monotonic

from dragoman.errors import DragomanError, EngineDead, EngineFailed, EngineHung, EngineRestarting
from dragoman.pipelines.base import Engine
from dragoman.types import Completion, Delta, EngineSequence
from dragoman.wire import EngineStats

LONGEST_PAUSE_S = 30.0
MAX_FAILED_STARTS = 3
"""In a row; then the pipeline gives up."""
CRASHES_SURVIVED = 1
"""By one sequence: it runs again after the first crash, and fails with the second."""
log = logging.getLogger("dragoman.pipelines")


def pause_s(failed: int, first_s: float) -> float:
    """Before a start, after so many failed ones: none at first, then twice as long each time."""
    return min(first_s * (2**failed - 1), LONGEST_PAUSE_S)


@dataclass(eq=False, slots=True)
class _EngineRun:
    """The engine from one start to one crash. `crash` is set once, with the reason."""

    crash: asyncio.Future[EngineDead] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    in_flight: int = 0
    submitted: int = 0
    completed: int = 0

    def begin(self) -> None:
        """A sequence begins; who calls counts it out of `in_flight` again."""
        self.in_flight += 1
        self.submitted += 1


@dataclass(eq=False, slots=True)
class _Attempts:
    """One sequence over the runs of the engine that it needs."""

    submitted_s: float = field(default_factory=monotonic)
    lost_s: float = 0.0  # until the present run took it
    crashes: int = 0

    def completed(self, completion: Completion) -> Completion:
        """With the time that was lost to crashes counted as waiting."""
        timings = completion.timings
        if timings is None or not self.lost_s:
            return completion
        return replace(completion, timings=replace(timings, queue_s=timings.queue_s + self.lost_s))


class StreamReplay:
    """What a stream has sent already, which cannot be taken back, against what the present run generates.

    Greedy decoding generates the same again, except near ties between tokens, which another batch may decide differently.
    """

    def __init__(self, sequence: EngineSequence) -> None:
        self._sequence = sequence
        self._sent: list[str] = []
        self._to_repeat = ""  # of what was sent, by the present run

    def restart(self) -> None:
        """A run begins. Raises `EngineFailed` when it cannot be expected to repeat what was sent."""
        if self._sent and self._sequence.sampling.temperature > 0:
            raise EngineFailed("the engine crashed in the middle of this stream, which is sampled: send the text again")
        self._to_repeat = "".join(self._sent)

    def delta(self, delta: Delta) -> Delta | None:
        """The new part of it, if any. Raises `EngineFailed` when the run differs from what was sent."""
        if self._to_repeat:
            repeated = min(len(self._to_repeat), len(delta.text))
            if delta.text[:repeated] != self._to_repeat[:repeated]:
                raise self._differs()
            self._to_repeat = self._to_repeat[repeated:]
            if repeated == len(delta.text):
                return None
            delta = Delta(delta.text[repeated:])
        self._sent.append(delta.text)
        return delta

    def check_end(self) -> None:
        """The run ended. Raises `EngineFailed` when it did before all that was sent."""
        if self._to_repeat:
            raise self._differs()

    def _differs(self) -> EngineFailed:
        return EngineFailed(
            "the engine crashed in the middle of this stream, and its new run differs: send the text again"
        )


class ContinuousPipeline:
    """The contract over an engine that can be started again after `shutdown`, and that this pipeline starts and stops."""

    def __init__(self, engine: Engine, *, name: str = "continuous", first_pause_s: float = 1.0) -> None:
        self.name = name
        self._engine = engine
        self._first_pause_s = first_pause_s
        self._run: _EngineRun | None = None
        self._ended: EngineDead | None = EngineDead("the engine is not running")  # why nothing can be served any more
        self._settled = asyncio.Event()  # cleared from a crash until the engine runs again, or is given up
        self._settled.set()
        self._given_up = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._crash_reason = ""
        self._waiting = 0
        self._restarts = self._hangs = 0
        self._max_model_len: int | None = None

    @property
    def max_model_len(self) -> int:
        return self._engine.max_model_len if self._max_model_len is None else self._max_model_len

    async def start(self) -> None:
        """The first start is not repeated: its usual cause of failure is a setting."""
        await self._engine.start()
        self._max_model_len = self._engine.max_model_len
        self._given_up.clear()
        self._supervisor = asyncio.create_task(self._supervise(self._begin_run()), name="dragoman-engine-supervisor")

    # ---- sequences

    async def generate(self, sequence: EngineSequence) -> Completion:
        attempts = _Attempts()
        while True:
            run = await self._running_engine(attempts)
            run.begin()
            try:
                completion = await self._engine.generate(sequence)
                run.completed += 1
                return attempts.completed(completion)
            except EngineDead as crash:
                self._survive(run, attempts, crash)
            finally:
                run.in_flight -= 1

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas that were sent before a crash are not sent again. `EngineFailed` when the new run contradicts them."""
        attempts, replay = _Attempts(), StreamReplay(sequence)
        completion: Completion | None = None
        while completion is None:
            replay.restart()
            run = await self._running_engine(attempts)
            run.begin()
            try:
                async with aclosing(self._engine.stream(sequence)) as items:
                    async for item in items:
                        if isinstance(item, Completion):
                            replay.check_end()
                            completion = item
                        elif new := replay.delta(item):
                            yield new
                run.completed += 1
            except EngineDead as crash:
                self._survive(run, attempts, crash)
            finally:
                run.in_flight -= 1
        yield attempts.completed(completion)

    def _survive(self, run: _EngineRun, attempts: _Attempts, crash: EngineDead) -> None:
        """Count a crash against a sequence that was in flight, which may run again. Raises `EngineDead` if it may not."""
        self._on_crash(run, crash)
        if self._ended is not None:
            raise crash
        attempts.crashes += 1
        if attempts.crashes > CRASHES_SURVIVED:
            raise EngineDead(
                "the engine crashed with this sequence in flight, as it had before; other sequences are not affected"
            ) from crash

    async def _running_engine(self, attempts: _Attempts) -> _EngineRun:
        """The engine's present run, after a restart if need be. Raises `EngineDead` when there will be none."""
        while not self._settled.is_set():
            self._waiting += 1
            try:
                await self._settled.wait()
            finally:
                self._waiting -= 1
            attempts.lost_s = monotonic() - attempts.submitted_s
        if self._ended is not None or self._run is None:
            raise EngineDead(self._ended.message if self._ended else "the engine is not running")
        return self._run

    # ---- crash and restart

    def _begin_run(self) -> _EngineRun:
        self._run = run = _EngineRun()
        self._ended = None
        self._settled.set()
        return run

    def _on_crash(self, run: _EngineRun, crash: EngineDead) -> None:
        """Several sequences notice a crash: the first counts."""
        if run.crash.done() or self._ended is not None:
            return
        self._settled.clear()
        self._crash_reason = crash.message
        log.warning("%s; restarting it (%d sequences in flight will run again)", crash.message, run.in_flight)
        run.crash.set_result(crash)

    async def _supervise(self, run: _EngineRun) -> None:
        """Restart the engine after each crash, until shutdown or until it cannot be started."""
        failed = 0  # starts in a row
        while True:
            await self._until_crash(run)
            # A run that took sequences and completed none is no better than a start that failed.
            failed = failed + 1 if run.submitted and not run.completed else 0
            while failed < MAX_FAILED_STARTS and not await self._restart(failed):
                failed += 1
            if failed >= MAX_FAILED_STARTS:
                self._ended = EngineDead(
                    f"the engine crashed and could not be restarted ({failed} starts failed in a row)"
                )
                log.error("%s; giving up", self._ended.message)
                self._given_up.set()
                self._settled.set()
                return
            self._restarts += 1
            self._hangs += isinstance(run.crash.result(), EngineHung)
            run = self._begin_run()

    async def _until_crash(self, run: _EngineRun) -> None:
        watcher = asyncio.create_task(self._engine.crashed())
        try:
            await asyncio.wait({watcher, run.crash}, return_when=asyncio.FIRST_COMPLETED)
            if not run.crash.done():
                self._on_crash(run, watcher.result())
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _restart(self, failed: int) -> bool:
        """One attempt, after a pause that grows with the failed ones. Whether the engine runs."""
        began_s = monotonic()
        try:
            await self._engine.shutdown()
            await asyncio.sleep(pause_s(failed, self._first_pause_s))
            await self._engine.start()
        except DragomanError as error:
            log.error("start %d of %d failed: %s", failed + 1, MAX_FAILED_STARTS, error.message)
        except Exception:  # of whatever kind: waiting sequences must not wait for ever
            log.exception("start %d of %d failed", failed + 1, MAX_FAILED_STARTS)
        else:
            log.info("the engine runs again after %.1f s", monotonic() - began_s)
            return True
        self._crash_reason = "the engine crashed, and its last start failed"
        return False

    # ---- the rest of the contract

    def stats(self) -> EngineStats:
        """Over all runs of the engine; what waits for its restart counts as waiting."""
        stats = self._engine.stats()
        return stats.model_copy(
            update={
                "waiting": stats.waiting + self._waiting,
                "restarts": self._restarts,
                "hangs": self._hangs,
                "restarting": not self._settled.is_set(),
            }
        )

    async def check_health(self) -> None:
        if self._settled.is_set() and self._ended is None and self._run is not None:
            try:
                return await self._engine.check_health()
            except EngineDead as crash:
                self._on_crash(self._run, crash)
        if self._ended is not None:
            raise EngineDead(self._ended.message)
        raise EngineRestarting(f"{self._crash_reason}; it is being restarted, and calls wait for it")

    async def crashed(self) -> EngineDead:
        """When its restart was given up."""
        await self._given_up.wait()
        return self._ended or EngineDead("the engine crashed")

    async def shutdown(self) -> None:
        self._ended = EngineDead("the engine was shut down")
        self._settled.set()
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            await asyncio.gather(supervisor, return_exceptions=True)
        await self._engine.shutdown()
