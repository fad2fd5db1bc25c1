from __future__ import annotations

import asyncio
from time import monotonic

from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.gpu import Reading, chosen
from dragoman_bench.bench.results import Gpu, GpuSample, ServerSample
from dragoman_bench.bench.server_stats import Sampler
from tests.waiting import until


class _Stats:
    def __init__(self, *, silent: bool = False, blocks: bool = False) -> None:
        self.asked = 0
        self._silent = silent
        self._blocks = blocks
        self.unblocked = asyncio.Event()

    async def sample(self, clock: Clock) -> ServerSample | None:
        self.asked += 1
        if self._blocks:
            await self.unblocked.wait()
        return None if self._silent else ServerSample(clock.now(), running=self.asked)

    async def settings(self) -> dict[str, object]:
        return {}


class _Gpus:
    """Two GPUs, the second in use."""

    def describe(self) -> tuple[Gpu, ...]:
        return ()

    def read(self) -> tuple[Reading, ...]:
        return (Reading(0, 0.0, 3.0), Reading(1, 95.0, 20_000.0))


async def test_samples_are_taken_until_the_end_and_once_at_it() -> None:
    stats = _Stats()
    async with Sampler(stats, None, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.server) >= 3, "three samples")
        asked = stats.asked

    assert stats.asked > asked
    assert [sample.running for sample in samples.server] == list(range(1, stats.asked + 1))
    assert all(earlier.t_s <= later.t_s for earlier, later in zip(samples.server, samples.server[1:], strict=False))


async def test_a_server_that_does_not_answer_leaves_no_samples() -> None:
    stats = _Stats(silent=True)
    async with Sampler(stats, None, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: stats.asked >= 3, "three questions")

    assert samples.server == []


async def test_a_slow_server_is_not_asked_again_before_it_answered() -> None:
    stats = _Stats(blocks=True)
    async with Sampler(stats, _Gpus(), every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.gpu) >= 5, "other samples go on meanwhile")
        assert stats.asked == 1
        stats.unblocked.set()


async def test_the_gpu_in_use_is_sampled() -> None:
    async with Sampler(None, _Gpus(), every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.gpu) >= 2, "two samples")

    assert {(sample.gpu, sample.utilisation_percent, sample.memory_mib) for sample in samples.gpu} == {
        (1, 95.0, 20_000.0)
    }
    assert isinstance(samples.gpu[0], GpuSample)


async def test_nothing_to_sample_is_no_trouble() -> None:
    async with Sampler(None, None).running(Clock(monotonic())) as samples:
        pass

    assert (samples.server, samples.gpu) == ([], [])


def test_gpus_are_the_wanted_ones_else_those_loaded_else_all() -> None:
    idle, loaded = Reading(0, 0.0, 3.0), Reading(1, 0.0, 5000.0)

    assert chosen([idle, loaded], frozenset({0})) == {0}
    assert chosen([idle, loaded], None) == {1}
    assert chosen([idle], None) == {0}
