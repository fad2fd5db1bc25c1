"""Supervision: an engine that dies is started again, and what it had in flight runs once more.

A pipeline around a pipeline. Translations are idempotent: a sequence that was in flight at a death waits for the engine to
come back and runs again. One that was in flight at two deaths may be their cause, and ends with `EngineDead`. What is asked
of it while it starts waits as well; how much may, and for how long, is for those above to say. When starts fail too often
in a row the engine is lost, and everything ends with `EngineDead`. Knows neither the engine nor why it died.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic

from dragoman.errors import DragomanError, EngineDead, EngineRestarting
from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.rerun import Fate, Speech
from dragoman.telemetry.engine import EngineStats
from dragoman.types import Completion, Delta, Sequence

_LONGEST_PAUSE_S = 30.0
log = logging.getLogger("dragoman.pipelines")


def pause_s(failed: int, first_s: float) -> float:
    """Before a start, when so many before it have failed: none at first, then longer and longer."""
    return min(first_s * (2**failed - 1), _LONGEST_PAUSE_S)


@dataclass(eq=False, slots=True)
class _Life:
    """One life of the engine: from a start to a death. `end` is set once, with the reason."""

    end: asyncio.Future[EngineDead] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    in_flight: int = 0
    asked: int = 0
    answered: int = 0

    @property
    def is_barren(self) -> bool:
        """It came up and could not do the work: no better than a start that failed."""
        return self.asked > 0 and self.answered == 0


class SupervisedPipeline:
    """The contract over a pipeline that can be started again after `shutdown`; it is ours from `start` on."""

    def __init__(self, pipeline: Pipeline, *, max_failed_starts: int = 3, first_pause_s: float = 1.0) -> None:
        self.name = pipeline.name
        self._pipeline = pipeline
        self._max_failed_starts = max_failed_starts
        self._first_pause_s = first_pause_s
        self._life: _Life | None = None
        self._over: EngineDead | None = EngineDead("the engine is not running")
        self._settled = asyncio.Event()  # cleared from a death until there is a new life, or none will come
        self._settled.set()
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._told = ""  # for those who ask during a restart
        self._waiting = 0
        self._restarts = 0
        self._max_model_len: int | None = None

    @property
    def max_model_len(self) -> int:
        return self._pipeline.max_model_len if self._max_model_len is None else self._max_model_len

    async def start(self) -> None:
        """The first start is not tried again: what is wrong with it is most often a setting."""
        await self._pipeline.start()
        self._max_model_len = self._pipeline.max_model_len
        self._lost.clear()
        self._keeper = asyncio.create_task(self._keep(self._begin()), name="dragoman-engine-supervisor")

    # ---- sequences

    async def generate(self, sequence: Sequence) -> Completion:
        fate = Fate()
        while True:
            async with self._in_flight(fate):
                return fate.told(await self._pipeline.generate(sequence))

    async def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas that were given before a death are not given again. `EngineFailed` when the new run contradicts them."""
        fate, deltas, whole = Fate(), Speech(sequence), None
        while whole is None:
            deltas.begin()
            async with self._in_flight(fate), aclosing(self._pipeline.stream(sequence)) as items:
                async for item in items:
                    if isinstance(item, Completion):
                        whole = deltas.ended(item)
                    elif fresh := deltas.heard(item):
                        yield fresh
        yield fate.told(whole)

    @asynccontextmanager
    async def _in_flight(self, fate: Fate) -> AsyncGenerator[None]:
        """Within: a sequence is the engine's. The death that it may survive is swallowed, for it to try again."""
        life = await self._present(fate)
        life.in_flight += 1
        life.asked += 1
        try:
            yield
            life.answered += 1
        except EngineDead as death:
            self._end(life, death)
            if self._over is not None:
                raise
            fate.bear(death)
        finally:
            life.in_flight -= 1

    async def _present(self, fate: Fate) -> _Life:
        """The engine's life, once it has one. Raises `EngineDead` when there is none and none will come."""
        while not self._settled.is_set():
            self._waiting += 1
            try:
                await self._settled.wait()
            finally:
                self._waiting -= 1
            fate.waited_s = monotonic() - fate.submitted_s
        if self._over is not None or self._life is None:
            raise EngineDead(self._over.message if self._over else "the engine is not running")
        return self._life

    # ---- lives

    def _begin(self) -> _Life:
        self._life = life = _Life()
        self._over = None
        self._settled.set()
        return life

    def _end(self, life: _Life, death: EngineDead) -> None:
        """Somebody saw it dead: the first to say so is heard."""
        if life.end.done() or self._over is not None:
            return
        self._settled.clear()
        self._told = death.message
        log.warning("%s; starting it again (%d sequences in flight run again)", death.message, life.in_flight)
        life.end.set_result(death)

    async def _keep(self, life: _Life) -> None:
        """Follow the engine through its lives, until shutdown or until it cannot be started again."""
        failed = 0  # starts in a row
        while True:
            await self._until_dead(life)
            failed = failed + 1 if life.is_barren else 0
            while failed < self._max_failed_starts and not await self._start_again(failed):
                failed += 1
            if failed >= self._max_failed_starts:
                return self._give_up(failed)
            self._restarts += 1
            life = self._begin()

    async def _until_dead(self, life: _Life) -> None:
        watcher = asyncio.create_task(self._pipeline.died())
        try:
            await asyncio.wait({watcher, life.end}, return_when=asyncio.FIRST_COMPLETED)
            if not life.end.done():
                self._end(life, watcher.result())
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _start_again(self, failed: int) -> bool:
        """One attempt, after a pause that grows with those that failed. Whether the engine is up."""
        began_s = monotonic()
        try:
            await self._pipeline.shutdown()
            await asyncio.sleep(pause_s(failed, self._first_pause_s))
            await self._pipeline.start()
        except DragomanError as error:
            log.error("start %d of %d failed: %s", failed + 1, self._max_failed_starts, error.message)
        except Exception:  # whatever it is, those who wait must not wait for ever
            log.exception("start %d of %d failed", failed + 1, self._max_failed_starts)
        else:
            log.info("the engine is back after %.1f s", monotonic() - began_s)
            return True
        self._told = "the engine died, and its last start failed"
        return False

    def _give_up(self, failed: int) -> None:
        self._over = EngineDead(f"the engine died and could not be started again ({failed} starts failed in a row)")
        log.error("%s; giving up", self._over.message)
        self._lost.set()
        self._settled.set()

    # ---- the contract's rest

    def stats(self) -> EngineStats:
        """Of all lives; what waits for the engine to come back is waiting."""
        stats = self._pipeline.stats()
        return replace(
            stats,
            waiting=stats.waiting + self._waiting,
            restarts=self._restarts,
            restarting=not self._settled.is_set(),
        )

    async def check_health(self) -> None:
        if self._settled.is_set() and self._over is None and self._life is not None:
            try:
                return await self._pipeline.check_health()
            except EngineDead as death:
                self._end(self._life, death)
        if self._over is not None:
            raise EngineDead(self._over.message)
        raise EngineRestarting(f"{self._told}; it is being started again, and calls wait for it")

    async def died(self) -> EngineDead:
        """When it was given up."""
        await self._lost.wait()
        return self._over or EngineDead("the engine died")

    async def shutdown(self) -> None:
        self._over = EngineDead("the engine was shut down")
        self._settled.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        await self._pipeline.shutdown()
