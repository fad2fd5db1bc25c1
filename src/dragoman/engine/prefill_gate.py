"""When new sequences join a batch that is running: together, once every few steps, instead of each at the next step.

A step that only decodes is one CUDA graph. A step that takes prompts in as well is launched in pieces around attention, or,
beyond the graph ceiling, kernel by kernel: with a model of some billion parameters it is this launching that a step waits
for, and ten prompts need no more of it than one. Many clients at once put a prompt into almost every step. So here, in front
of the scheduler, prompts wait for each other for a few steps. vLLM has the same idea between data-parallel ranks alone
(`prefill_schedule_interval`).

Knows steps and how many sequences run; nothing of sequences, of vLLM or of what a step costs.
"""

from __future__ import annotations

import asyncio
from collections import deque

MIN_RUNNING = 16
"""Running sequences below which nobody waits: so few clients seldom meet in a step, and waiting costs more than it saves."""
MAX_WAIT_S = 0.1
"""Nobody waits longer, however long steps take."""


class PrefillGate:
    """A gate. `interval`: at most one step in so many takes new sequences in; 1: nobody ever waits. One event loop's."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self._running = 0
        self._steps = 0  # since sequences were last let in
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def waiting(self) -> int:
        """Sequences that wait here."""
        return sum(not turn.done() for turn in self._waiting)

    async def join(self) -> float:
        """Returns when a sequence may be handed to the scheduler: the seconds that it waited."""
        if self.interval <= 1:
            return 0.0
        loop = asyncio.get_running_loop()
        if not self._waiting and self._open():
            if not self._closing:
                self._closing = True
                loop.call_soon(self._close)
            return 0.0
        came = loop.time()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._timer = loop.call_later(MAX_WAIT_S, self.open)
        await turn
        return loop.time() - came

    def stepped(self, running: int) -> None:
        """The scheduler has done a step, after which so many sequences run."""
        self._running = running
        self._steps += 1
        if self._waiting and self._open():
            self.open()

    def open(self) -> None:
        """Let in all that wait: also where no step is to be hoped for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._steps = 0
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # cancelled: nobody waits for it any more
                turn.set_result(None)

    def _open(self) -> bool:
        return self._running < MIN_RUNNING or self._steps >= self.interval

    def _close(self) -> None:
        """After whoever came in the same turn of the event loop: the texts of one call stay together."""
        self._closing = False
        self._steps = 0
