"""Crash recovery of `continuous` over the fake engine as a process, which signals kill and stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from dragoman.errors import EngineDead
from dragoman.pipelines.continuous import ContinuousPipeline
from dragoman.pipelines.fake import circling
from dragoman.pipelines.fake_process import FakeEnginePlan, FakeEngineProcess
from dragoman.types import Completion, Delta, EngineSequence
from tests.pipelines.building import exited, loaded, running
from tests.pipelines.conftest import TOKENIZER
from tests.waiting import until


def sentence(number: int) -> EngineSequence:
    """Some words, in so many steps."""
    text = f"Where is the old train station of town {number} and when does it open"
    return EngineSequence(str(number), tuple(TOKENIZER.encode(text, add_special_tokens=False).ids), 64)


@pytest.fixture
def engine() -> FakeEngineProcess:
    plan = FakeEnginePlan(TOKENIZER.to_str(), slots=8, max_model_len=512, step_s=0.02)
    return FakeEngineProcess(plan, hang_timeout_s=1.0)


@pytest.fixture
async def pipeline(engine: FakeEngineProcess) -> AsyncIterator[ContinuousPipeline]:
    async with running(ContinuousPipeline(engine, name="fake", first_pause_s=0)) as pipeline:
        await pipeline.generate(sentence(0))  # an engine that has completed nothing is not expected to make steps
        yield pipeline


@pytest.mark.parametrize(("number", "hangs"), [(signal.SIGKILL, 0), (signal.SIGSTOP, 1)])
async def test_what_was_in_flight_at_a_signal_is_completed_each_with_its_own_answer(
    pipeline: ContinuousPipeline, engine: FakeEngineProcess, number: signal.Signals, hangs: int
) -> None:
    work = [sentence(number) for number in range(20)]
    tasks = [asyncio.create_task(pipeline.generate(one)) for one in work]
    await loaded(pipeline, running=8, waiting=12)
    before = engine.pid
    os.kill(before, number)
    answer = circling(TOKENIZER)
    assert [one.text for one in await asyncio.gather(*tasks)] == [answer(one) for one in work]
    assert (pipeline.stats().restarts, pipeline.stats().hangs) == (1, hangs)
    await exited(before)


async def test_a_stream_continues_after_what_it_has_sent(
    pipeline: ContinuousPipeline, engine: FakeEngineProcess
) -> None:
    stream = pipeline.stream(sentence(1))
    first = await anext(stream)
    os.kill(engine.pid, signal.SIGKILL)
    *deltas, whole = [item async for item in stream]
    assert isinstance(whole, Completion)
    texts = [item.text for item in (first, *deltas) if isinstance(item, Delta)]
    assert "".join(texts) == whole.text == circling(TOKENIZER)(sentence(1))


async def test_an_idle_process_that_is_killed_is_restarted(
    pipeline: ContinuousPipeline, engine: FakeEngineProcess
) -> None:
    os.kill(engine.pid, signal.SIGKILL)
    await until(lambda: pipeline.stats().restarts == 1, "a restart")
    await pipeline.check_health()


async def test_cancelling_frees_what_ran_and_what_waited(pipeline: ContinuousPipeline) -> None:
    tasks = [asyncio.create_task(pipeline.generate(sentence(number))) for number in range(20)]
    await loaded(pipeline, running=8, waiting=12)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loaded(pipeline, running=0, waiting=0)
    assert (await pipeline.generate(sentence(21))).text


async def test_after_shutdown_nothing_runs(engine: FakeEngineProcess) -> None:
    await engine.start()
    pid, task = engine.pid, asyncio.create_task(engine.generate(sentence(1)))
    await until(lambda: engine.stats().running == 1, "a sequence")
    await engine.shutdown()
    with pytest.raises(EngineDead):
        await task
    await exited(pid)
