"""Samples a server and its GPUs at a steady pace while a measurement runs.

A sample's time is when its answer came. A slow server is sampled less often, not with a queue of questions. Knows
nothing of the requests being measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dragoman_bench.bench.clock import Clock
from dragoman_bench.bench.gpu import Gpus, chosen
from dragoman_bench.bench.records import GpuSample, ServerSample
from dragoman_bench.bench.stats import ServerStats


@dataclass(slots=True)
class Samples:
    server: list[ServerSample] = field(default_factory=list[ServerSample])
    gpu: list[GpuSample] = field(default_factory=list[GpuSample])


@dataclass(frozen=True, slots=True)
class Sampler:
    """What is sampled, and how often. None: there is nothing to ask."""

    stats: ServerStats | None
    gpus: Gpus | None
    wanted_gpus: frozenset[int] | None = None
    every_s: float = 0.1

    @asynccontextmanager
    async def running(self, clock: Clock) -> AsyncGenerator[Samples]:
        """Samples from now until the block ends, with one sample at either end; yields the growing `Samples`."""
        samples = Samples()
        takers = [taker for taker in (self._server_taker(clock, samples), self._gpu_taker(clock, samples)) if taker]
        stop = asyncio.Event()
        tasks = [asyncio.create_task(_pace(taker, self.every_s, stop)) for taker in takers]
        try:
            yield samples
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    def _server_taker(self, clock: Clock, samples: Samples) -> Callable[[], Awaitable[None]] | None:
        stats = self.stats
        if stats is None:
            return None

        async def take() -> None:
            sample = await stats.sample(clock)
            if sample is not None:
                samples.server.append(sample)

        return take

    def _gpu_taker(self, clock: Clock, samples: Samples) -> Callable[[], Awaitable[None]] | None:
        gpus = self.gpus
        if gpus is None:
            return None
        picked: frozenset[int] = frozenset()

        async def take() -> None:
            nonlocal picked
            readings = await asyncio.to_thread(gpus.read)
            picked = picked or chosen(readings, self.wanted_gpus)
            t_s = round(clock.now(), 6)
            samples.gpu.extend(
                GpuSample(t_s, r.gpu, r.utilisation_percent, round(r.memory_mib, 1))
                for r in readings
                if r.gpu in picked
            )

        return take


async def _pace(take: Callable[[], Awaitable[None]], every_s: float, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not stop.is_set():
        await take()
        due = max(due + every_s, loop.time())
        try:
            async with asyncio.timeout_at(due):
                await stop.wait()
        except TimeoutError:
            continue
    await take()
