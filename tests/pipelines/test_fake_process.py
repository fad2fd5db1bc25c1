"""Crash recovery of `continuous` over the fake engine as a process, which signals kill and stop."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.errors import CrashingText, EngineDead
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


@asynccontextmanager
async def served(**crashes: Any) -> AsyncIterator[ContinuousPipeline]:
    """A pipeline whose process crashes by a rule, and which has completed something."""
    plan = FakeEnginePlan(TOKENIZER.to_str(), slots=64, max_model_len=512, step_s=0.01, **crashes)
    pipeline = ContinuousPipeline(FakeEngineProcess(plan, hang_timeout_s=5.0), name="fake", first_pause_s=0)
    async with running(pipeline) as started:
        await started.generate(sentence(900))
        yield started


@pytest.mark.parametrize("poisons", [(5,), (1, 14)])
async def test_of_many_in_flight_only_those_fail_that_crash_the_process_and_others_come_and_go(
    poisons: tuple[int, ...],
) -> None:
    planted = tuple(f"town {number} and" for number in poisons)
    answer = circling(TOKENIZER)
    async with served(crashes_on=planted) as pipeline:
        work = [sentence(number) for number in range(16)]
        tasks = [asyncio.create_task(pipeline.generate(one)) for one in work]
        await until(lambda: pipeline.stats().restarts >= 2, "a second crash")
        others = [sentence(number) for number in range(100, 110)]
        assert [(await pipeline.generate(one)).text for one in others] == [answer(one) for one in others]
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for one, end in zip(work, ends, strict=True):
            if int(one.id) in poisons:
                assert isinstance(end, CrashingText)
            else:
                assert isinstance(end, Completion), one.id
                assert end.text == answer(one)
        stats = pipeline.stats()
        assert (stats.crashing_sequences, stats.slot_limit) == (len(poisons), None)
        assert stats.restarts <= 2 + len(poisons) * (math.ceil(math.log2(16)) + 3) - 2 * (len(poisons) == 1)


async def test_a_process_that_crashes_under_load_refuses_nothing_and_runs_less_at_the_same_time() -> None:
    answer = circling(TOKENIZER)
    async with served(crashes_beyond=12) as pipeline:
        work = [sentence(number) for number in range(20)]
        ends = await asyncio.gather(*map(pipeline.generate, work))
        assert [one.text for one in ends] == [answer(one) for one in work]
        stats = pipeline.stats()
        assert stats.crashing_sequences == 0
        assert stats.slot_limit is not None
        assert stats.slot_limit <= 12
        work = [sentence(number) for number in range(30, 60)]
        ends = await asyncio.gather(*map(pipeline.generate, work))
        assert [one.text for one in ends] == [answer(one) for one in work]
        assert pipeline.stats().restarts == stats.restarts  # the load is below what crashes it


async def test_after_shutdown_nothing_runs(engine: FakeEngineProcess) -> None:
    await engine.start()
    pid, task = engine.pid, asyncio.create_task(engine.generate(sentence(1)))
    await until(lambda: engine.stats().running == 1, "a sequence")
    await engine.shutdown()
    with pytest.raises(EngineDead):
        await task
    await exited(pid)
