"""Shares the event loop and the engine's slots among calls, so that a large call does not hold up small ones.

`TimeSlices` bounds the work that calls do on the event loop without giving control back. `Dispatcher` bounds the sequences that
are submitted to the engine at the same time, shares the slots evenly among the accounts that want more, and those of each among
its calls, and serves interactive calls before bulk ones.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from time import perf_counter
from types import TracebackType

from dragoman.errors import QueueFull
from dragoman.settings import INTERACTIVE_SHARE
from dragoman.types import Priority

SLICE_S = 0.003
"""Seconds that a call may work on the event loop before it yields control."""
INTERACTIVE_QUIET_S = 10.0
"""Seconds after the end of the last interactive call for which slots are still kept free for the next."""
RATE_WINDOW_S = 20.0
"""Seconds over which the rate is measured at which a queue gets slots."""
FEWEST_GRANTS = 20
"""Slots from which on that rate is known."""
SHARED_S = 10.0
"""Seconds after calls of several accounts for which the engine's queue is kept short for the next."""
FEWEST_ORDERED = 64
"""Entries up to which an account's order is never cleared of those that don't count."""
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


@dataclass(eq=False, slots=True)
class AccountSlots:
    """The slots of all calls of an account that have the same priority.

    `order`: its calls with waiting sequences, those with the fewest submitted first, among these who has waited longest. An
    entry counts only while its call has as many submitted; of several of a call the first counts.
    """

    calls: int = 0
    submitted: int = 0
    waiting: set[CallSlots] = field(default_factory=set["CallSlots"])
    order: list[tuple[int, int, CallSlots]] = field(default_factory=list[tuple[int, int, "CallSlots"]])

    def next(self) -> CallSlots | None:
        """Return the call to be served next."""
        while self.order:
            submitted, _, call = self.order[0]
            if call.waiting and call.submitted == submitted:
                return call
            heappop(self.order)
        return None


@dataclass(slots=True)
class QueueRate:
    """How fast a queue gets slots, while there is one."""

    since_s: float | None = None
    grants: float = 0.0

    def grant(self, now_s: float) -> None:
        """Count a slot. After a time the older half of the measurement is forgotten."""
        self.grants += 1
        if self.since_s is not None and now_s - self.since_s > RATE_WINDOW_S:
            self.since_s, self.grants = now_s - (now_s - self.since_s) / 2, self.grants / 2

    def per_s(self, now_s: float) -> float | None:
        """Return the slots a second; None: too few are known."""
        if self.since_s is None or self.grants < FEWEST_GRANTS:
            return None
        return self.grants / max(now_s - self.since_s, 1e-3)


class Dispatcher:
    """The engine's slots (sequences that run at the same time), shared among accounts, and those of each among its calls.

    Interactive calls: together they have `slots + queued` sequences submitted, and the accounts that want more have equal
    shares of them, as have the calls of one account. What is below its share is submitted at once, also where all slots are
    taken: an account that sends little never waits here for one that sends much, nor a small call for a large one. While there
    are several, and for `SHARED_S` after, those with their share or more leave the engine's queue short, which is first come,
    first served: who sends little would wait there.

    Bulk calls: together they have at most `slots + queued` sequences submitted, with equal shares in the same way. While
    an interactive call is in flight, and for `INTERACTIVE_QUIET_S` after the last, they leave `interactive_share` of the
    slots free, and get none while all slots are taken: the engine's queue is first come, first served, so a bulk sequence in
    it would run before the next interactive one. So that bulk does not starve, a bulk sequence that has waited for
    `BULK_AGEING_S` goes into this queue like an interactive one, within the slots that bulk may have.
    """

    def __init__(self, slots: int, *, queued: int = 0, interactive_share: float = INTERACTIVE_SHARE) -> None:
        """`queued` sequences may wait in the engine beyond its `slots`, so that a free slot is taken at once."""
        self._slots = max(slots, 1)
        self._capacity = self._slots + queued
        self._shared_capacity = self._slots + math.ceil(queued / 4)
        self._bulk_slots = max(self._slots - math.ceil(self._slots * interactive_share), 1)
        self.submitted: dict[Priority, int] = {"interactive": 0, "bulk": 0}
        self._accounts: dict[Priority, dict[str, AccountSlots]] = {
            "interactive": {},
            "bulk": {},
        }  # with calls in flight
        self._rates: dict[Priority, QueueRate] = {"interactive": QueueRate(), "bulk": QueueRate()}
        self.has_queue = False  # sequences may wait: some did when slots were last granted, or were queued since
        self.refused = 0  # calls, since their deadlines cannot be met
        self._numbers = count()
        self._interactive_calls = 0
        self._quiet_from_s = -math.inf  # of the event loop's clock
        self._shared_until_s = -math.inf  # likewise
        self._quiet_timer: asyncio.TimerHandle | None = None

    @contextmanager
    def call(self, priority: Priority = "interactive", account_id: str = "") -> Generator[CallSlots]:
        """Open a call of an account that may take slots; it holds none after the context."""
        interactive, accounts = priority == "interactive", self._accounts[priority]
        self._interactive_calls += interactive
        if (account := accounts.get(account_id)) is None:
            account = accounts[account_id] = AccountSlots()
        account.calls += 1
        if interactive and len(accounts) > 1:
            self._shared_until_s = asyncio.get_running_loop().time() + SHARED_S
        slots = CallSlots(self, priority, account)
        try:
            yield slots
        finally:
            self.submitted[priority] -= slots.submitted
            account.submitted -= slots.submitted
            account.calls -= 1
            slots.submitted = 0
            slots.waiting.clear()
            account.waiting.discard(slots)
            if not account.calls:
                del accounts[account_id]
            if interactive:
                self._interactive_calls -= 1
                self._quiet_from_s = asyncio.get_running_loop().time() + INTERACTIVE_QUIET_S
            if self.has_queue:
                self.grant()

    def refusal(self, call: CallSlots, deadline_s: float) -> QueueFull | None:
        """Return the error of a call that would still wait for its first slot at its deadline, by the rate at which those that
        wait now get theirs; with the time after which it would not."""
        now_s, account = asyncio.get_running_loop().time(), call.account
        rate = self._rates[call.priority].per_s(now_s)
        if rate is None:
            return None
        accounts = self._accounts[call.priority].values()
        first = sum(not one.submitted for one in account.waiting)  # those that have a slot come after this call
        ahead = sum(min(first, len(one.waiting)) for one in accounts)  # each account has as many turns as this one
        if (wait_s := ahead / rate) <= deadline_s:
            return None
        return QueueFull(
            f"the deadline of {deadline_s:.3g} s cannot be met: {ahead} calls wait, which takes about {wait_s:.3g} s",
            retry_after_s=max(wait_s - deadline_s, 1.0),
        )

    def may_submit(self, call: CallSlots, waiting_since_s: float, now_s: float) -> bool:
        """Return whether `call` may submit one more sequence at `now_s`, which has waited since `waiting_since_s`."""
        total = self.submitted["interactive"] + self.submitted["bulk"]
        if call.priority == "interactive":
            account, is_shared = call.account, now_s < self._shared_until_s
            if total < (self._shared_capacity if is_shared else self._capacity):
                return True
            share = self._capacity // len(self._accounts["interactive"])
            if account.submitted < share:
                return call.submitted < max(share // (len(account.waiting) + (call not in account.waiting)), 1)
            return account.submitted == share and not call.submitted and not is_shared
        if not self._interactive_calls and now_s >= self._quiet_from_s:
            return total < self._capacity
        has_aged = waiting_since_s + BULK_AGEING_S <= now_s
        return self.submitted["bulk"] < self._bulk_slots and (total < self._slots or has_aged)

    def wait(self, call: CallSlots, now_s: float) -> None:
        """Queue `call`, which has a sequence that may not be submitted at `now_s`."""
        rate = self._rates[call.priority]
        if rate.since_s is None:
            rate.since_s, rate.grants = now_s, 0.0
        self.queue(call)
        if call.priority == "bulk":
            self._watch_quiet(now_s)

    def queue(self, call: CallSlots) -> None:
        """Note where a call with waiting sequences stands in its account's order."""
        waiting, order = call.account.waiting, call.account.order
        self.has_queue = True
        waiting.add(call)
        heappush(order, (call.submitted, next(self._numbers), call))
        if len(order) > FEWEST_ORDERED + 4 * len(waiting):  # entries that don't count stay behind those that do
            counting: dict[CallSlots, tuple[int, int, CallSlots]] = {}
            for entry in sorted(order):
                if entry[2].waiting and entry[2].submitted == entry[0]:
                    counting.setdefault(entry[2], entry)
            order[:] = counting.values()

    def grant(self) -> None:
        """Give waiting sequences the slots that they may have: interactive ones first, then bulk."""
        now_s = asyncio.get_running_loop().time()
        waiting: list[AccountSlots] = []
        has_queue = False
        for priority, accounts in self._accounts.items():  # bulk last
            waiting = [one for one in accounts.values() if one.waiting]
            while waiting:
                account = min(waiting, key=attrgetter("submitted"))
                if (call := account.next()) is None:
                    account.waiting.clear()
                    waiting.remove(account)
                    continue
                if not self.may_submit(call, call.waiting[0].since_s, now_s):
                    break
                heappop(account.order)
                call.grant()
                self._rates[priority].grant(now_s)
                if call.waiting:
                    self.queue(call)
                else:
                    account.waiting.discard(call)
                waiting.remove(account)  # who was served comes last among those with equally many
                if account.waiting:
                    waiting.append(account)
            has_queue |= bool(waiting)
            if not waiting:
                self._rates[priority].since_s = None
        self.has_queue = has_queue
        if waiting:
            self._watch_quiet(now_s)

    def _watch_quiet(self, now_s: float) -> None:
        """Set a timer for the end of the quiet time, for which bulk waits.

        `now_s` is when bulk was refused its slots: a later time may be after the end, and nothing would grant them.
        """
        is_quiet_later = not self._interactive_calls and now_s < self._quiet_from_s
        if self._quiet_timer is None and is_quiet_later:
            self._quiet_timer = asyncio.get_running_loop().call_at(self._quiet_from_s, self._quiet_ended)

    def _quiet_ended(self) -> None:
        self._quiet_timer = None
        self.grant()  # waits again where interactive calls came meanwhile


@dataclass(eq=False, slots=True)
class CallSlots:
    """The slots of one call. As a context manager it holds one slot.

    `refusal`: its deadline cannot be met. It neither takes nor waits for slots: what needs the engine ends with this error.
    """

    _dispatcher: Dispatcher
    priority: Priority
    account: AccountSlots
    submitted: int = 0
    waiting: deque[Waiter] = field(default_factory=deque[Waiter])
    refusal: QueueFull | None = None
    is_refused: bool = False

    async def acquire(self) -> None:
        """Wait for a slot; `release` it once."""
        if self.refusal is not None:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if not self.waiting and self._dispatcher.may_submit(self, now_s, now_s):
            self.submitted += 1
            self.account.submitted += 1
            self._dispatcher.submitted[self.priority] += 1
            return
        waiter = Waiter(loop.create_future(), now_s)
        self.waiting.append(waiter)
        if len(self.waiting) == 1:
            self._dispatcher.wait(self, now_s)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.release()
            elif waiter in self.waiting:
                self.waiting.remove(waiter)
                if not self.waiting:
                    self.account.waiting.discard(self)
                self._dispatcher.grant()
            raise

    def set_deadline(self, deadline_s: float) -> None:
        """Take no slots, and have a `refusal`, if the call would still wait for its first one then."""
        self.refusal = self._dispatcher.refusal(self, deadline_s)

    def refuse(self) -> None:
        """Raise the `refusal`, if there is one. However many sequences raise it, the call counts once."""
        if self.refusal is None:
            return
        self._dispatcher.refused += not self.is_refused
        self.is_refused = True
        raise self.refusal

    def release(self) -> None:
        """Return a slot."""
        if self.submitted:  # else the call has ended, and returned all its slots, or has taken none
            self.submitted -= 1
            self.account.submitted -= 1
            self._dispatcher.submitted[self.priority] -= 1
            if self.waiting:
                self._dispatcher.queue(self)
            if self._dispatcher.has_queue:
                self._dispatcher.grant()

    def grant(self) -> None:
        """Give a slot to the sequence that has waited longest."""
        while self.waiting:
            granted = self.waiting.popleft().granted
            if not granted.done():
                self.submitted += 1
                self.account.submitted += 1
                self._dispatcher.submitted[self.priority] += 1
                granted.set_result(None)
                return

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()
