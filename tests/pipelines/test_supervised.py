"""An engine that dies under supervision, over a fake that dies on command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dragoman.errors import EngineDead, EngineFailed, EngineRestarting
from dragoman.pipelines.supervised import SupervisedPipeline, pause_s
from dragoman.types import Completion, Delta
from tests.pipelines.building import loaded, running
from tests.pipelines.mortal import HOLD, KILL, MortalPipeline
from tests.pipelines.scripted import answer, sequence
from tests.waiting import until


@pytest.fixture
def engine() -> MortalPipeline:
    return MortalPipeline()


@pytest.fixture
async def pipeline(engine: MortalPipeline) -> AsyncIterator[SupervisedPipeline]:
    async with running(SupervisedPipeline(engine, max_failed_starts=3, first_pause_s=0)) as pipeline:
        yield pipeline


async def restarting(pipeline: SupervisedPipeline) -> None:
    await until(lambda: pipeline.stats().restarting, "a restart under way")


async def restarted(pipeline: SupervisedPipeline, restarts: int = 1) -> None:
    await until(lambda: pipeline.stats().restarts == restarts, f"restart {restarts}")


async def test_what_was_in_flight_at_a_death_is_answered(pipeline: SupervisedPipeline, engine: MortalPipeline) -> None:
    work = [sequence(HOLD, number, name=str(number)) for number in range(20)]
    tasks = [asyncio.create_task(pipeline.generate(one)) for one in work]
    await loaded(pipeline, running=20, waiting=0)
    engine.gate.set()
    engine.die()
    done = await asyncio.gather(*tasks)
    assert [one.text for one in done] == [answer(one) for one in work]
    assert sorted(engine.ran) == sorted([one.id for one in work] * 2)
    assert (pipeline.stats().restarts, engine.lives) == (1, 2)


async def test_what_comes_during_a_restart_waits_and_is_answered(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    engine.starting.clear()
    engine.die()
    await restarting(pipeline)
    tasks = [asyncio.create_task(pipeline.generate(sequence(number))) for number in range(5)]
    await loaded(pipeline, running=0, waiting=5)
    assert not any(task.done() for task in tasks)
    engine.starting.set()
    assert len({one.text for one in await asyncio.gather(*tasks)}) == 5
    await loaded(pipeline, running=0, waiting=0)
    assert not pipeline.stats().restarting


async def test_an_idle_engine_that_dies_is_replaced(pipeline: SupervisedPipeline, engine: MortalPipeline) -> None:
    engine.die()
    await restarted(pipeline)
    await pipeline.check_health()


async def test_a_death_that_only_a_sequence_sees_is_survived(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    engine.die_unseen()
    assert (await pipeline.generate(sequence())).text
    assert pipeline.stats().restarts == 1


async def test_who_asks_for_its_health_is_told_of_the_restart(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    engine.starting.clear()
    engine.die_unseen()
    for _ in range(2):  # the first to ask is the one that notices
        with pytest.raises(EngineRestarting, match="is being started again, and calls wait for it"):
            await pipeline.check_health()
    engine.starting.set()
    await restarted(pipeline)
    await pipeline.check_health()


async def test_a_sequence_in_flight_at_two_deaths_fails_and_the_server_goes_on(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    [end] = await asyncio.gather(pipeline.generate(sequence(KILL)), return_exceptions=True)
    assert isinstance(end, EngineDead)
    assert (await pipeline.generate(sequence())).text
    assert pipeline.stats().restarts == 2


async def test_a_sequence_that_came_between_two_deaths_is_answered(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    engine.starting.clear()
    poison = asyncio.create_task(pipeline.generate(sequence(KILL)))
    await restarting(pipeline)
    innocent = asyncio.create_task(pipeline.generate(sequence(301)))
    await loaded(pipeline, running=0, waiting=2)
    engine.starting.set()
    assert (await innocent).text == answer(sequence(301))
    [end] = await asyncio.gather(poison, return_exceptions=True)
    assert isinstance(end, EngineDead)
    assert engine.lives == 3


async def test_a_caller_that_leaves_during_a_restart_takes_its_sequence_along(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    engine.starting.clear()
    leaving = asyncio.create_task(pipeline.generate(sequence(HOLD, name="leaving")))
    await loaded(pipeline, running=1, waiting=0)
    engine.die()
    await loaded(pipeline, running=0, waiting=1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await loaded(pipeline, running=0, waiting=0)
    engine.starting.set()
    await pipeline.generate(sequence(name="next"))
    assert engine.ran == ["leaving", "next"]


async def test_a_start_that_fails_is_tried_again(pipeline: SupervisedPipeline, engine: MortalPipeline) -> None:
    engine.failing_starts = 2
    engine.die()
    await restarted(pipeline)
    assert (await pipeline.generate(sequence())).text
    assert engine.starts == 1 + 3


async def test_after_too_many_failed_starts_the_engine_is_lost(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    assert (await pipeline.generate(sequence())).text
    engine.failing_starts = 1_000
    tasks = [asyncio.create_task(pipeline.generate(sequence(HOLD))) for _ in range(4)]
    await loaded(pipeline, running=4, waiting=0)
    engine.die()
    assert "3 starts failed in a row" in (await pipeline.died()).message
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, EngineDead) for end in ends)
    with pytest.raises(EngineDead):
        await pipeline.check_health()
    with pytest.raises(EngineDead):
        await pipeline.generate(sequence())
    assert engine.starts == 1 + 3
    await loaded(pipeline, running=0, waiting=0)


async def test_an_engine_that_comes_up_and_answers_nothing_is_lost_in_the_end(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    assert (await pipeline.generate(sequence())).text

    for _ in range(2):  # each is in flight at two deaths
        [end] = await asyncio.gather(pipeline.generate(sequence(KILL)), return_exceptions=True)
        assert isinstance(end, EngineDead)
    await pipeline.died()
    assert engine.lives == 1 + 3  # none of the three answered anything


async def test_a_first_start_that_fails_is_said_at_once(engine: MortalPipeline) -> None:
    engine.failing_starts = 1
    pipeline = SupervisedPipeline(engine)
    with pytest.raises(EngineDead, match="told not to start"):
        await pipeline.start()
    assert engine.starts == 1
    await pipeline.shutdown()


async def test_shutdown_during_a_restart_ends_what_waits(pipeline: SupervisedPipeline, engine: MortalPipeline) -> None:
    engine.starting.clear()
    task = asyncio.create_task(pipeline.generate(sequence(HOLD)))
    await loaded(pipeline, running=1, waiting=0)
    engine.die()
    await until(lambda: engine.starts == 2, "a second start")
    await pipeline.shutdown()
    [end] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(end, EngineDead)
    engine.starting.set()
    assert engine.lives == 1


async def test_a_stream_goes_on_where_it_was(pipeline: SupervisedPipeline, engine: MortalPipeline) -> None:
    stream = pipeline.stream(sequence(HOLD, 301, 302))
    first = await anext(stream)
    engine.gate.set()
    engine.die()
    *deltas, whole = [item async for item in stream]
    assert isinstance(first, Delta)
    assert isinstance(whole, Completion)
    assert "".join(item.text for item in (first, *deltas)) == whole.text == answer(sequence(HOLD, 301, 302))
    assert pipeline.stats().restarts == 1


async def test_a_stream_that_would_go_on_otherwise_ends_with_an_error_and_no_further_death() -> None:
    engine = MortalPipeline(lambda _: f"life{engine.lives} said")
    async with running(SupervisedPipeline(engine, first_pause_s=0)) as pipeline:
        stream = pipeline.stream(sequence(HOLD))
        assert await anext(stream) == Delta("life1")
        engine.gate.set()
        engine.die()
        with pytest.raises(EngineFailed, match="send the text again"):
            await anext(stream)
        assert pipeline.stats().restarts == 1


async def test_a_closed_stream_leaves_nothing_in_the_engine(
    pipeline: SupervisedPipeline, engine: MortalPipeline
) -> None:
    stream = pipeline.stream(sequence(HOLD))
    await anext(stream)
    await stream.aclose()
    assert pipeline.stats().running == 0


def test_pauses_grow_to_half_a_minute() -> None:
    assert [pause_s(failed, 1.0) for failed in range(7)] == [0, 1, 3, 7, 15, 30, 30]
