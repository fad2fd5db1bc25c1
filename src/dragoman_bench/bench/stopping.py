"""Watches a measurement: tells the observer how it goes, and ends it on an interrupt or past saturation.

Knows nothing of how requests are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dragoman_bench.bench.clock import Clock
from dragoman_bench.bench.drive import Tally
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Stopped
from dragoman_bench.bench.saturation import Saturation

_TICK_S = 0.1
_SAMPLES = 40  # before saturation is judged


@dataclass(slots=True)
class Stop:
    """Ends a measurement, and says why and when. The first reason stands."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    why: Stopped = "finished"
    at_s: float | None = None

    def set(self, why: Stopped, at_s: float) -> None:
        if not self.event.is_set():
            self.why, self.at_s = why, max(at_s, 0.0)
            self.event.set()


@dataclass(frozen=True, slots=True)
class Watchman:
    """`saturation_after_s` None: saturation is not looked for."""

    interrupted: asyncio.Event
    observer: Observer
    saturation_after_s: float | None = None

    @asynccontextmanager
    async def watching(self, clock: Clock, tally: Tally) -> AsyncGenerator[Stop]:
        """Yields the `Stop` that the measurement must heed."""
        stop = Stop()
        watch = asyncio.create_task(self._watch(clock, tally, stop))
        try:
            yield stop
        finally:
            watch.cancel()

    async def _watch(self, clock: Clock, tally: Tally, stop: Stop) -> None:
        saturation = Saturation(self.saturation_after_s) if self.saturation_after_s else None
        step_s = self.saturation_after_s / _SAMPLES if self.saturation_after_s else _TICK_S
        latencies_s: list[float] = []
        due_s = step_s
        while not stop.event.is_set():
            self.observer.update(tally.done, tally.failed, tally.in_flight)
            latencies_s.extend(e2e_s for _, e2e_s in tally.take_ended())
            now_s = clock.now()
            if self.interrupted.is_set():
                stop.set("interrupted", now_s)
            elif saturation and now_s >= due_s:
                due_s = now_s + step_s
                if saturation.observe(now_s, tally.in_flight, latencies_s):
                    stop.set("saturated", now_s)
                latencies_s.clear()
            await asyncio.sleep(min(_TICK_S, step_s))
