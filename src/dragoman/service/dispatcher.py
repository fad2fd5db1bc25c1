"""Shares the event loop and the engine's slots among calls, so that a large call does not hold up small ones.

`TimeSlices` bounds the work that calls do on the event loop without giving control back. `Dispatcher` bounds the sequences that
one call has submitted to the engine at the same time, shares the slots evenly among the calls that want more, and serves
interactive calls before bulk ones.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from time import perf_counter
from types import TracebackType

from dragoman.settings import INTERACTIVE_SHARE
from dragoman.types import Priority

SLICE_S = 0.003
"""Seconds that a call may work on the event loop before it yields control."""
INTERACTIVE_QUIET_S = 10.0
"""Seconds after the end of the last interactive call for which slots are still kept free for the next."""
BULK_AGEING_S = 10.0
"""Seconds after which a waiting bulk sequence no longer waits for interactive ones."""


class LoopTurns:
    """Resumes one waiting call in each iteration of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Yield control to the event loop until it is this caller's turn."""
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

    async def turn(self) -> None:
        """Wait for a turn of the event loop, of which each iteration gives one, and begin a time slice."""
        await self._turns.next()
        self._until_s = perf_counter() + SLICE_S

    async def pause(self) -> None:
        if perf_counter() >= self._until_s:
            await self.turn()


@dataclass(eq=False, slots=True)
class Waiter:
    """A sequence that has waited for a slot since `since_s` of the event loop's clock."""

    granted: asyncio.Future[None]
    since_s: float


class Dispatcher:
    """The engine's slots (sequences that run at the same time), shared among calls.

    Interactive calls: each has at most `slots + queued` sequences submitted, and those that wait have equal shares. One that
    needs no more than its share never waits here: the engine has its own queue.

    Bulk calls: together they have at most `slots + queued` sequences submitted, and those that wait have equal shares. While
    an interactive call is in flight, and for `INTERACTIVE_QUIET_S` after the last, they leave `interactive_share` of the
    slots free, and get none while all slots are taken: the engine's queue is first come, first served, so a bulk sequence in
    it would run before the next interactive one. So that bulk does not starve, a bulk sequence that has waited for
    `BULK_AGEING_S` goes into this queue like an interactive one, within the slots that bulk may have.
    """

    def __init__(self, slots: int, *, queued: int = 0, interactive_share: float = INTERACTIVE_SHARE) -> None:
        """`queued` sequences may wait in the engine beyond its `slots`, so that a free slot is taken at once."""
        self._slots = max(slots, 1)
        self._capacity = self._slots + queued
        self._bulk_slots = max(self._slots - math.ceil(self._slots * interactive_share), 1)
        self.submitted: dict[Priority, int] = {"interactive": 0, "bulk": 0}
        # Calls with waiting sequences; among those with equally many submitted, the next to be served first.
        self._waiting: dict[Priority, deque[CallSlots]] = {"interactive": deque(), "bulk": deque()}
        self._interactive_calls = 0
        self._quiet_from_s = -math.inf  # of the event loop's clock
        self._quiet_timer: asyncio.TimerHandle | None = None

    @contextmanager
    def call(self, priority: Priority = "interactive") -> Generator[CallSlots]:
        """Open a call that may take slots; it holds none after the context."""
        interactive = priority == "interactive"
        self._interactive_calls += interactive
        slots = CallSlots(self, priority)
        try:
            yield slots
        finally:
            self.submitted[priority] -= slots.submitted
            slots.submitted = 0
            slots.waiting.clear()
            if interactive:
                self._interactive_calls -= 1
                self._quiet_from_s = asyncio.get_running_loop().time() + INTERACTIVE_QUIET_S
            self.grant()

    def may_submit(self, call: CallSlots, waiting_since_s: float, now_s: float) -> bool:
        """Return whether `call` may submit one more sequence at `now_s`, which has waited since `waiting_since_s`."""
        total = self.submitted["interactive"] + self.submitted["bulk"]
        if call.priority == "interactive":
            waiting = self._waiting["interactive"]
            share = self._capacity // (len(waiting) + (call not in waiting))
            return call.submitted < share or total < self._capacity
        if not self._interactive_calls and now_s >= self._quiet_from_s:
            return total < self._capacity
        has_aged = waiting_since_s + BULK_AGEING_S <= now_s
        return self.submitted["bulk"] < self._bulk_slots and (total < self._slots or has_aged)

    def wait(self, call: CallSlots, now_s: float) -> None:
        """Queue `call`, which has a sequence that may not be submitted at `now_s`."""
        if call not in self._waiting[call.priority]:
            self._waiting[call.priority].append(call)
        self._watch_quiet(now_s)

    def grant(self) -> None:
        """Give waiting sequences the slots that they may have: interactive ones first, then bulk."""
        now_s = asyncio.get_running_loop().time()
        for waiting in self._waiting.values():
            while waiting:
                call = min(waiting, key=attrgetter("submitted"))
                waiting.remove(call)
                if call.waiting:
                    if not self.may_submit(call, call.waiting[0].since_s, now_s):
                        waiting.appendleft(call)
                        break
                    call.grant()
                if call.waiting:
                    waiting.append(call)
        if self._waiting["bulk"]:
            self._watch_quiet(now_s)

    def _watch_quiet(self, now_s: float) -> None:
        """Set a timer for the end of the quiet time, if bulk waits for it.

        `now_s` is when bulk was refused its slots: a later time may be after the end, and nothing would grant them.
        """
        is_quiet_later = not self._interactive_calls and now_s < self._quiet_from_s
        if self._quiet_timer is None and self._waiting["bulk"] and is_quiet_later:
            self._quiet_timer = asyncio.get_running_loop().call_at(self._quiet_from_s, self._quiet_ended)

    def _quiet_ended(self) -> None:
        self._quiet_timer = None
        self.grant()  # waits again where interactive calls came meanwhile


@dataclass(eq=False, slots=True)
class CallSlots:
    """The slots of one call. As a context manager it holds one slot."""

    _dispatcher: Dispatcher
    priority: Priority
    submitted: int = 0
    waiting: deque[Waiter] = field(default_factory=deque[Waiter])

    async def acquire(self) -> None:
        """Wait for a slot; `release` it once."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if not self.waiting and self._dispatcher.may_submit(self, now_s, now_s):
            self.submitted += 1
            self._dispatcher.submitted[self.priority] += 1
            return
        waiter = Waiter(loop.create_future(), now_s)
        self.waiting.append(waiter)
        self._dispatcher.wait(self, now_s)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.release()
            elif waiter in self.waiting:
                self.waiting.remove(waiter)
                self._dispatcher.grant()
            raise

    def release(self) -> None:
        """Return a slot."""
        if self.submitted:  # else the call has ended, and returned all its slots
            self.submitted -= 1
            self._dispatcher.submitted[self.priority] -= 1
            self._dispatcher.grant()

    def grant(self) -> None:
        """Give a slot to the sequence that has waited longest."""
        while self.waiting:
            granted = self.waiting.popleft().granted
            if not granted.done():
                self.submitted += 1
                self._dispatcher.submitted[self.priority] += 1
                granted.set_result(None)
                return

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()
