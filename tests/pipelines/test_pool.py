"""What a death of a worker means for those who wait, with real processes and real kills."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import pytest

from dragoman.errors import EngineDead
from dragoman.pipelines.base import Pipeline
from dragoman.types import Completion
from tests.pipelines.building import gone, loaded, running, static_batch, workers
from tests.pipelines.scripted import BREAK, KILL, KILL_ONCE, Stage, sequence
from tests.waiting import until


@pytest.fixture(params=["static_batch", "workers"])
def pipeline(request: pytest.FixtureRequest, stage: Stage) -> Pipeline:
    """One worker each, so that its death stops everything."""
    return static_batch(stage) if request.param == "static_batch" else workers(stage, count=1)


async def test_what_a_killed_worker_ran_and_queued_is_answered(pipeline: Pipeline, stage: Stage) -> None:
    gate = stage.gate()
    async with running(pipeline):
        held = asyncio.create_task(pipeline.generate(sequence(gate)))
        await until(lambda: pipeline.stats().running == 1, "the held sequence in the engine")
        others = [asyncio.create_task(pipeline.generate(sequence(number))) for number in range(6)]
        await loaded(pipeline, running=1, waiting=6)
        os.kill(stage.started()[0], signal.SIGKILL)
        await gone(stage.started()[0])  # its end of the gate is closed, so that the next worker is let through
        await stage.open(gate)
        done = await asyncio.gather(held, *others)
        await loaded(pipeline, running=0, waiting=0)
        assert pipeline.stats().restarts == 1
    assert len({completion.text for completion in done}) == 7
    assert len(stage.started()) == 2


async def test_an_idle_worker_that_dies_is_replaced(pipeline: Pipeline, stage: Stage) -> None:
    async with running(pipeline):
        os.kill(stage.started()[0], signal.SIGKILL)
        assert (await pipeline.generate(sequence())).text
        await pipeline.check_health()


@pytest.mark.parametrize("deadly", [KILL, BREAK])
async def test_a_sequence_that_kills_twice_fails_and_takes_no_other_with_it(stage: Stage, deadly: int) -> None:
    async with running(static_batch(stage, size=4, timeout_ms=3_600_000)) as pipeline:
        work = [sequence(), sequence(deadly), sequence(), sequence()]
        ends = await asyncio.gather(*(pipeline.generate(one) for one in work), return_exceptions=True)
        again = [pipeline.generate(sequence()) for _ in range(4)]
        assert len(await asyncio.gather(*again)) == 4
    assert [type(end) for end in ends] == [Completion, EngineDead, Completion, Completion]
    assert [len(batch) for batch in stage.batches()] == [4, 1, 1, 1, 1, 4]


async def test_a_sequence_whose_worker_dies_once_is_answered(pipeline: Pipeline) -> None:
    async with running(pipeline):
        assert (await pipeline.generate(sequence(KILL_ONCE))).text


async def test_a_cancelled_sequence_does_not_run_again(pipeline: Pipeline, stage: Stage) -> None:
    gate = stage.gate()
    async with running(pipeline):
        task = asyncio.create_task(pipeline.generate(sequence(gate, name="cancelled")))
        await loaded(pipeline, running=1, waiting=0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        os.kill(stage.started()[0], signal.SIGKILL)
        await pipeline.generate(sequence(name="next"))
    assert stage.batches() == [["cancelled"], ["next"]]


async def test_when_no_worker_comes_back_everything_ends(pipeline: Pipeline, stage: Stage) -> None:
    gate = stage.gate()
    async with running(pipeline):
        tasks = [asyncio.create_task(pipeline.generate(sequence(gate))) for _ in range(6)]
        await until(lambda: pipeline.stats().running > 0, "a running batch")
        stage.set("broken")
        os.kill(stage.started()[0], signal.SIGKILL)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, EngineDead) for end in ends)
        with pytest.raises(EngineDead):
            await pipeline.check_health()
        with pytest.raises(EngineDead):
            await pipeline.generate(sequence())
        assert "no worker is left" in (await pipeline.died()).message
        assert pipeline.stats().running + pipeline.stats().waiting == 0
        assert pipeline.stats().restarts == 0


async def test_one_worker_that_does_not_come_back_leaves_the_other(stage: Stage) -> None:
    async with running(workers(stage, count=2)) as pipeline:
        stage.set("broken")
        os.kill(stage.started()[0], signal.SIGKILL)
        done = await asyncio.gather(*(pipeline.generate(sequence(number)) for number in range(8)))
        assert len({completion.text for completion in done}) == 8
        await pipeline.check_health()


async def test_a_start_that_fails_says_why_and_leaves_no_process(stage: Stage) -> None:
    before = set(multiprocessing.active_children())  # the run's engine may be up
    stage.set("broken")
    pipeline = workers(stage, count=2)
    with pytest.raises(EngineDead, match="told to be broken"):
        await pipeline.start()
    assert set(multiprocessing.active_children()) <= before


async def test_shutdown_interrupts_a_start(pipeline: Pipeline, stage: Stage) -> None:
    stage.set("slow")
    starting = asyncio.create_task(pipeline.start())
    await until(lambda: len(stage.started()) == 1, "a starting engine")
    await pipeline.shutdown()
    with pytest.raises(EngineDead):
        await starting
    await gone(stage.started()[0])


async def test_a_cancelled_start_leaves_no_process(pipeline: Pipeline, stage: Stage) -> None:
    stage.set("slow")
    starting = asyncio.create_task(pipeline.start())
    await until(lambda: len(stage.started()) == 1, "a starting engine")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await gone(stage.started()[0])


async def test_a_pipeline_that_was_shut_down_can_start_again(pipeline: Pipeline) -> None:
    for _ in range(2):
        async with running(pipeline):
            assert (await pipeline.generate(sequence())).text


async def test_an_answer_that_arrives_during_shutdown_is_too_late(stage: Stage) -> None:
    gate = stage.gate()
    async with running(static_batch(stage, size=1)) as pipeline:
        tasks = [asyncio.create_task(pipeline.generate(one)) for one in (sequence(), sequence(gate))]
        await asyncio.sleep(0)  # both are handed over
        _block_until(lambda: len(stage.batches()) == 2)  # so the first's answer has been sent, and not been read
        await pipeline.shutdown()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, EngineDead) for end in ends)


def _block_until(condition: Callable[[], bool]) -> None:
    """Hold the event loop, so that nothing is read meanwhile."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_shutdown_ends_an_idle_worker_cleanly(pipeline: Pipeline, stage: Stage) -> None:
    async with running(pipeline):
        pass
    assert stage.closed() == stage.started()
    await gone(stage.started()[0])
