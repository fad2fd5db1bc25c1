"""The clock of one measurement: seconds since its start, the same in every process of the client.

The monotonic clock is the machine's, so processes that agree on a start agree on every time after it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic

_LOOK_UP_S = 0.1  # how long a stop may go unseen by somebody who waits for a send time


@dataclass(frozen=True, slots=True)
class Clock:
    start: float  # a `monotonic()` instant, possibly to come

    def now(self) -> float:
        return monotonic() - self.start

    async def reach(self, at_s: float, stop: asyncio.Event) -> bool:
        """Waits until `at_s`, yielding at least once; False as soon as `stop` is set."""
        while (remaining := at_s - self.now()) > 0 and not stop.is_set():
            await asyncio.sleep(min(remaining, _LOOK_UP_S))
        await asyncio.sleep(0)
        return not stop.is_set()
