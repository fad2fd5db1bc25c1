"""How batches are made and answered, with a scripted engine in a real worker process."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import ConfigError, EngineFailed, EngineRejected
from dragoman.pipelines.static_batch import StaticBatchPipeline
from dragoman.types import Completion
from tests.pipelines.building import loaded, running, static_batch
from tests.pipelines.scripted import FAIL, REJECT, Stage, sequence
from tests.waiting import until

NEVER_MS = 3_600_000.0  # a batch that starts is full


async def test_a_full_batch_does_not_wait_for_the_timeout(stage: Stage) -> None:
    async with running(static_batch(stage, size=4, timeout_ms=NEVER_MS)) as pipeline:
        names = [f"s{number}" for number in range(8)]
        await asyncio.gather(*(pipeline.generate(sequence(name=name)) for name in names))
    assert stage.batches() == [names[:4], names[4:]]


async def test_a_batch_that_does_not_fill_goes_at_the_timeout(stage: Stage) -> None:
    async with running(static_batch(stage, size=1000)) as pipeline:
        done = await asyncio.gather(*(pipeline.generate(sequence()) for _ in range(3)))
    assert len(done) == 3
    assert sum(map(len, stage.batches())) == 3


async def test_all_of_a_batch_wait_for_its_slowest_and_what_follows_waits_for_the_batch(stage: Stage) -> None:
    gate = stage.gate()
    async with running(static_batch(stage, size=2, timeout_ms=NEVER_MS)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(sequence(*held))) for held in [(), (gate,), (), ()]]
        await loaded(pipeline, running=2, waiting=2)
        assert not any(task.done() for task in tasks)
        await stage.open(gate)
        await asyncio.gather(*tasks)
        await loaded(pipeline, running=0, waiting=0)
        assert (pipeline.stats().steps, pipeline.stats().finished, pipeline.stats().peak_running) == (2, 4, 2)


async def test_a_queued_sequence_that_is_cancelled_never_reaches_the_engine(stage: Stage) -> None:
    gate = stage.gate()
    async with running(static_batch(stage, size=1)) as pipeline:
        first = asyncio.create_task(pipeline.generate(sequence(gate, name="first")))
        await loaded(pipeline, running=1, waiting=0)
        second, third = (asyncio.create_task(pipeline.generate(sequence(name=name))) for name in ("second", "third"))
        await loaded(pipeline, running=1, waiting=2)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert pipeline.stats().waiting == 1  # at once, whatever the worker has heard
        await until(
            lambda: not any(slot.withdrawn for slot in pipeline._lanes), "the worker's word that it is forgotten"
        )
        await stage.open(gate)
        await asyncio.gather(first, third)
    assert stage.batches() == [["first"], ["third"]]


async def test_a_running_sequence_that_is_cancelled_runs_to_its_end_and_is_dropped(stage: Stage) -> None:
    gate = stage.gate()
    async with running(static_batch(stage, size=1)) as pipeline:
        task = asyncio.create_task(pipeline.generate(sequence(gate)))
        await loaded(pipeline, running=1, waiting=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pipeline.stats().running == 1
        await stage.open(gate)
        await loaded(pipeline, running=0, waiting=0)
        assert (await pipeline.generate(sequence())).text


async def test_what_is_refused_does_not_fail_its_batch(stage: Stage) -> None:
    async with running(static_batch(stage, size=3, timeout_ms=NEVER_MS)) as pipeline:
        work = [sequence(REJECT), sequence(), sequence(FAIL)]
        ends = await asyncio.gather(*(pipeline.generate(one) for one in work), return_exceptions=True)
    assert [type(end) for end in ends] == [EngineRejected, Completion, EngineFailed]
    assert len(stage.batches()) == 1


async def test_the_engine_gets_no_more_slots_than_a_batch_can_fill(stage: Stage) -> None:
    def slots(size: int) -> int | None:
        pipeline = StaticBatchPipeline(stage.spec, None, batch_size=size, batch_timeout_ms=1, engine=stage.engine)
        return pipeline.plans[0].spec.engine.max_num_seqs

    assert slots(16) == 16
    assert slots(1000) == stage.spec.engine.max_num_seqs


async def test_data_parallelism_is_refused_at_start(stage: Stage) -> None:
    stage.configure(data_parallel_size=2)
    with pytest.raises(ConfigError, match="data_parallel_size"):
        await static_batch(stage).start()
