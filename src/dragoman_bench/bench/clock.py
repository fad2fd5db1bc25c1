"""The clock of one measurement: seconds since its start, the same in every process of the client.

The monotonic clock is the machine's, so processes that agree on a start agree on every time after it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class Clock:
    start: float  # a `monotonic()` instant, possibly to come

    def now(self) -> float:
        return monotonic() - self.start

    async def reach(self, at_s: float, stop: asyncio.Event) -> bool:
        """Waits until `at_s`, yielding at least once; False as soon as `stop` is set."""
        remaining_s = at_s - self.now()
        if remaining_s <= 0:
            await asyncio.sleep(0)
            return not stop.is_set()
        with suppress(TimeoutError):
            async with asyncio.timeout(remaining_s):
                await stop.wait()
        return not stop.is_set()
