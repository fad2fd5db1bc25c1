"""Shares the event loop and the engine's slots among calls, so that a large call does not hold up small ones.

`TimeSlices` bounds the work that calls do on the event loop without giving control back. `Dispatcher` bounds the sequences that
one call has submitted to the engine at the same time, and shares the slots evenly among the calls that want more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType

SLICE_S = 0.003
"""How long a call works on the event loop before it gives control back."""


class LoopTurns:
    """Resumes one waiting call in each iteration of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Give control back to the event loop; return when it is this caller's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._resume)
        await turn

    def _resume(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its call was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._resume)


class TimeSlices:
    """Time slices of one call. `pause` returns immediately unless the call has worked for `SLICE_S` without a pause."""

    def __init__(self, turns: LoopTurns) -> None:
        self._turns = turns
        self._until_s = perf_counter() + SLICE_S

    async def pause(self) -> None:
        if perf_counter() >= self._until_s:
            await self._turns.next()
            self._until_s = perf_counter() + SLICE_S


class Dispatcher:
    """Engine slots (sequences that run at the same time), shared among calls.

    A call has at most `slots` sequences submitted; calls that wait for a slot have equal shares of them. A call that needs
    no more than its share never waits here: the engine has its own queue.
    """

    def __init__(self, slots: int) -> None:
        self._slots = max(slots, 1)
        self._waiting: deque[CallSlots] = deque()  # calls with waiting sequences, the next to be served first

    @contextmanager
    def call(self) -> Generator[CallSlots]:
        """Within: the slots of one call. Afterwards it holds none."""
        slots = CallSlots(self)
        try:
            yield slots
        finally:
            slots.submitted = 0
            slots.waiting.clear()
            self.grant()

    def share(self, call: CallSlots) -> int:
        """Sequences that `call` may have submitted now."""
        return max(self._slots // (len(self._waiting) + (call not in self._waiting)), 1)

    def wait(self, call: CallSlots) -> None:
        """`call` has a waiting sequence."""
        if call not in self._waiting:
            self._waiting.append(call)

    def grant(self) -> None:
        """Give waiting sequences the slots that they may have, in turns."""
        for call in tuple(self._waiting):
            if not call.waiting:
                self._waiting.remove(call)
        refused = 0
        while self._waiting and refused < len(self._waiting):
            call = self._waiting[0]
            self._waiting.rotate(-1)
            if call.submitted >= self.share(call):
                refused += 1
                continue
            refused = 0
            call.grant()
            if not call.waiting:
                self._waiting.remove(call)


class CallSlots:
    """The slots of one call. Used as a context manager, one slot."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.submitted = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._dispatcher = dispatcher

    async def acquire(self) -> None:
        """Wait for a slot; `release` it once."""
        if not self.waiting and self.submitted < self._dispatcher.share(self):
            self.submitted += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(granted)
        self._dispatcher.wait(self)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release()
            elif granted in self.waiting:
                self.waiting.remove(granted)
                self._dispatcher.grant()
            raise

    def release(self) -> None:
        self.submitted -= 1
        self._dispatcher.grant()

    def grant(self) -> None:
        """Give a slot to the sequence that has waited longest."""
        while self.waiting:
            granted = self.waiting.popleft()
            if not granted.done():
                self.submitted += 1
                granted.set_result(None)
                return

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()
