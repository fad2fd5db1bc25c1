"""When new sequences join a batch that is running: together, once every few steps, instead of each at the next step.

A step that only decodes is one CUDA graph. A step that takes prompts in as well is launched in pieces around attention, or,
beyond the graph ceiling, kernel by kernel: with a model of some billion parameters it is this launching that a step waits
for, and ten prompts need no more of it than one. Many clients send a prompt into almost every step. So prompts wait here, in
front of the scheduler, for each other for a few steps. vLLM has the same idea between data-parallel ranks alone
(`prefill_schedule_interval`).

Knows steps and the number of running sequences; nothing of sequences, of vLLM or of what a step costs.
"""

from __future__ import annotations

import asyncio
from collections import deque

MIN_RUNNING = 16
"""Running sequences below which none waits: so few clients seldom meet in a step, and waiting costs more than it saves."""
MAX_WAIT_S = 0.1
"""The longest wait, however long steps take."""


class PrefillGate:
    """Sequences enter at most at one step in `interval`; with 1 none ever waits. For one event loop."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self._running = 0
        self._steps = 0  # since sequences last entered
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def waiting(self) -> int:
        """Sequences that wait here."""
        return len(self._waiting)

    async def wait(self) -> float:
        """Return when a sequence may be handed to the scheduler: the seconds that it waited."""
        if self.interval <= 1:
            return 0.0
        loop = asyncio.get_running_loop()
        if not self._waiting and self._is_open():
            if not self._closing:
                self._closing = True
                loop.call_soon(self._close)
            return 0.0
        arrived = loop.time()
        entry: asyncio.Future[None] = loop.create_future()
        self._waiting.append(entry)
        if self._timer is None:
            self._timer = loop.call_later(MAX_WAIT_S, self.open)
        try:
            await entry
        except asyncio.CancelledError:
            self._leave(entry)
            raise
        return loop.time() - arrived

    def _leave(self, entry: asyncio.Future[None]) -> None:
        """A cancelled waiter must not hold back those that arrive after it."""
        if entry in self._waiting:
            self._waiting.remove(entry)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stepped(self, running: int) -> None:
        """The scheduler has done a step, after which so many sequences run."""
        self._running = running
        self._steps += 1
        if self._waiting and self._is_open():
            self.open()

    def open(self) -> None:
        """Let all that wait enter: also where no step is to be expected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._steps = 0
        while self._waiting:
            entry = self._waiting.popleft()
            if not entry.done():  # cancelled, and its task has not run since
                entry.set_result(None)

    def _is_open(self) -> bool:
        return self._running < MIN_RUNNING or self._steps >= self.interval

    def _close(self) -> None:
        """After all that arrived in the same turn of the event loop: the texts of one call stay together."""
        self._closing = False
        self._steps = 0
