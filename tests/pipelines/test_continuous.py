"""Crash recovery of `continuous`, over a fake engine that crashes on command."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from time import monotonic

import pytest

from dragoman.errors import CrashingText, EngineDead, EngineFailed, EngineRestarting
from dragoman.pipelines import continuous
from dragoman.pipelines.continuous import ContinuousPipeline, StreamReplay, pause_s
from dragoman.types import Completion, Delta, EngineSequence, Sampling
from tests.pipelines.building import loaded, running
from tests.pipelines.crashing import CRASH, HOLD, CrashingEngine, either
from tests.pipelines.scripted import answer, sequence
from tests.waiting import until


@pytest.fixture
def engine() -> CrashingEngine:
    return CrashingEngine()


@pytest.fixture
async def pipeline(engine: CrashingEngine) -> AsyncIterator[ContinuousPipeline]:
    async with running(ContinuousPipeline(engine, first_pause_s=0)) as pipeline:
        yield pipeline


async def restarting(pipeline: ContinuousPipeline) -> None:
    await until(lambda: pipeline.stats().restarting, "a restart under way")


async def restarted(pipeline: ContinuousPipeline, restarts: int = 1) -> None:
    await until(lambda: pipeline.stats().restarts == restarts, f"restart {restarts}")


async def test_sequences_in_flight_at_a_crash_are_completed(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    work = [sequence(HOLD, number, name=str(number)) for number in range(20)]
    tasks = [asyncio.create_task(pipeline.generate(one)) for one in work]
    await loaded(pipeline, running=20, waiting=0)
    engine.gate.set()
    engine.crash()
    done = await asyncio.gather(*tasks)
    assert [one.text for one in done] == [answer(one) for one in work]
    assert sorted(engine.ran) == sorted([one.id for one in work] * 2)
    assert (pipeline.stats().restarts, engine.runs) == (1, 2)


async def test_sequences_in_flight_on_an_engine_that_hangs_are_completed(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    work = [sequence(HOLD, number, name=str(number)) for number in range(5)]
    tasks = [asyncio.create_task(pipeline.generate(one)) for one in work]
    await loaded(pipeline, running=5, waiting=0)
    engine.hang()
    await restarted(pipeline)
    engine.gate.set()
    assert [one.text for one in await asyncio.gather(*tasks)] == [answer(one) for one in work]
    assert (pipeline.stats().restarts, pipeline.stats().hangs) == (1, 1)


async def test_sequences_that_arrive_during_a_restart_wait_and_are_completed(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    engine.may_start.clear()
    engine.crash()
    await restarting(pipeline)
    tasks = [asyncio.create_task(pipeline.generate(sequence(number))) for number in range(5)]
    await loaded(pipeline, running=0, waiting=5)
    assert not any(task.done() for task in tasks)
    engine.may_start.set()
    assert len({one.text for one in await asyncio.gather(*tasks)}) == 5
    await loaded(pipeline, running=0, waiting=0)
    assert not pipeline.stats().restarting


async def test_an_idle_engine_that_crashes_is_restarted(pipeline: ContinuousPipeline, engine: CrashingEngine) -> None:
    engine.crash()
    await restarted(pipeline)
    await pipeline.check_health()


async def test_a_crash_that_only_a_sequence_notices_is_recovered_from(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    engine.crash_silently()
    assert (await pipeline.generate(sequence())).text
    assert pipeline.stats().restarts == 1


async def test_a_health_check_reports_the_restart(pipeline: ContinuousPipeline, engine: CrashingEngine) -> None:
    engine.may_start.clear()
    engine.crash_silently()
    for _ in range(2):  # the first check is the one that notices
        with pytest.raises(EngineRestarting, match="calls wait for it"):
            await pipeline.check_health()
    engine.may_start.set()
    await restarted(pipeline)
    await pipeline.check_health()


async def test_a_sequence_that_crashes_the_engine_alone_fails_and_others_go_on(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    with pytest.raises(CrashingText):
        await pipeline.generate(sequence(CRASH))
    assert (await pipeline.generate(sequence())).text
    await restarted(pipeline, 3)
    stats = pipeline.stats()
    assert (stats.restarts, stats.crashing_sequences, stats.slot_limit) == (3, 1, None)


async def test_it_is_refused_to_its_owner_for_an_hour_and_to_nobody_else(
    pipeline: ContinuousPipeline, engine: CrashingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await pipeline.generate(sequence())).text
    poison = replace(sequence(CRASH), owner="a")
    with pytest.raises(CrashingText):
        await pipeline.generate(poison)
    for again in (poison, replace(poison, id="again", max_tokens=9)):
        with pytest.raises(CrashingText):
            await pipeline.generate(again)
        with pytest.raises(CrashingText):
            await anext(pipeline.stream(again))
    await restarted(pipeline, 3)
    with pytest.raises(CrashingText):
        await pipeline.generate(replace(poison, owner="b"))
    await restarted(pipeline, 6)
    now_s = monotonic()
    monkeypatch.setattr(continuous, "monotonic", lambda: now_s + continuous.REFUSED_S + 60)
    with pytest.raises(CrashingText):
        await pipeline.generate(poison)
    await restarted(pipeline, 9)


async def test_a_stream_that_crashes_the_engine_is_searched_for_like_others(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    with pytest.raises(CrashingText):
        _ = [item async for item in pipeline.stream(sequence(CRASH))]
    await restarted(pipeline, 3)


async def test_a_suspect_whose_caller_leaves_is_found_all_the_same(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    poison = sequence(CRASH)
    engine.may_start.clear()
    leaving = asyncio.create_task(pipeline.generate(poison))
    await until(lambda: engine.starts == 2, "a second start")
    engine.may_start.set()
    engine.may_start.clear()  # the second start goes on, and the third waits
    await until(lambda: engine.starts == 3, "a third start")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    engine.may_start.set()
    await until(lambda: pipeline.stats().crashing_sequences == 1, "a verdict")
    with pytest.raises(CrashingText):
        await pipeline.generate(poison)
    await restarted(pipeline, 3)


async def left(task: asyncio.Task[Completion]) -> None:
    """A sequence's caller gives up."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_text_is_found_whose_caller_gives_up_at_each_crash_and_sends_it_again(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    poison = replace(sequence(CRASH), owner="a")
    for restarts in (1, 2):
        engine.may_start.clear()
        leaving = asyncio.create_task(pipeline.generate(replace(poison, id=f"attempt {restarts}")))
        await restarting(pipeline)
        await left(leaving)
        engine.may_start.set()
        await until(lambda: pipeline.stats().restarts >= restarts, "a restart")  # noqa: B023
    await until(lambda: pipeline.stats().crashing_sequences == 1, "a verdict")
    await restarted(pipeline, 3)
    with pytest.raises(CrashingText):
        await pipeline.generate(poison)
    assert (await pipeline.generate(replace(sequence(), owner="a"))).text


async def test_a_text_is_found_whose_caller_gives_up_before_it_is_known_that_the_engine_hangs(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    for restarts in (1, 2):
        leaving = asyncio.create_task(pipeline.generate(sequence(HOLD, name="held")))
        await until(lambda: engine.ran.count("held") == restarts, "its begin")  # noqa: B023
        await left(leaving)
        engine.hang()
        await restarted(pipeline, restarts)
    await until(lambda: engine.ran.count("held") == 3, "its run alone")
    engine.hang()
    await until(lambda: pipeline.stats().crashing_sequences == 1, "a verdict")
    await restarted(pipeline, 3)
    with pytest.raises(CrashingText):
        await pipeline.generate(sequence(HOLD))


class OwnGates(CrashingEngine):
    """What it holds waits for a gate of its own, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = defaultdict[str, asyncio.Event](asyncio.Event)

    async def _obey(self, sequence: EngineSequence) -> None:
        if HOLD in sequence.prompt_token_ids:
            await either(self.gates[sequence.id], self._crash)


@pytest.mark.parametrize("is_guilty", [False, True])
async def test_one_that_runs_alone_is_not_convicted_for_one_whose_caller_has_left(is_guilty: bool) -> None:
    engine = OwnGates()
    async with running(ContinuousPipeline(engine, first_pause_s=0)) as pipeline:
        assert (await pipeline.generate(sequence())).text
        texts = sequence(HOLD, 301, name="first"), sequence(HOLD, 302, name="last")
        first, last = (asyncio.create_task(pipeline.generate(one)) for one in texts)
        for restarts in (1, 2):
            await loaded(pipeline, running=2, waiting=0)
            engine.crash()
            await restarted(pipeline, restarts)
        await until(lambda: engine.ran.count("first") == 3, "the first half")
        hanging = asyncio.create_task(pipeline.generate(replace(sequence(HOLD, 303, name="hanging"), owner="other")))
        await until(lambda: "hanging" in engine.ran, "another one beside it")
        engine.gates["first"].set()
        assert (await first).text
        await left(hanging)
        await until(lambda: engine.ran.count("last") == 3, "the second half")  # alone, but not from the run's start
        engine.hang()
        await restarted(pipeline, 3)
        assert pipeline.stats().crashing_sequences == 0
        await until(lambda: engine.ran.count("last") == 4, "a run of its own")
        if is_guilty:
            engine.hang()
            with pytest.raises(CrashingText):
                await last
        else:
            engine.gates["last"].set()
            assert (await last).text
        assert pipeline.stats().crashing_sequences == is_guilty


@pytest.mark.parametrize("copies", [1, 4, 16])
@pytest.mark.parametrize("callers", ["leave", "stay"])
async def test_equal_texts_are_one_suspect(
    callers: str, copies: int, pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    held = sequence(HOLD, name="held")
    tasks = list[asyncio.Task[Completion]]()
    for restarts in (1, 2):
        while engine.ran.count("held") < restarts * copies:
            begun = engine.ran.count("held")
            if callers == "leave" or restarts == 1:
                tasks.append(asyncio.create_task(pipeline.generate(held)))
            await until(lambda: engine.ran.count("held") > begun, "its begin")  # noqa: B023
            if callers == "leave":
                await left(tasks.pop())
        engine.hang()
        await restarted(pipeline, restarts)
    await until(lambda: engine.ran.count("held") > 2 * copies, "its run alone")
    assert engine.ran.count("held") == 2 * copies + 1
    engine.hang()
    await restarted(pipeline, 3)
    assert pipeline.stats().crashing_sequences == 1
    ends = await asyncio.gather(*tasks, pipeline.generate(held), return_exceptions=True)
    assert all(isinstance(end, CrashingText) for end in ends)
    assert engine.ran.count("held") == 2 * copies + 1


async def test_equal_texts_run_once_it_is_known_that_they_crash_nothing(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    tasks = [asyncio.create_task(pipeline.generate(sequence(HOLD, name="held"))) for _ in range(4)]
    for restarts in (1, 2):
        await loaded(pipeline, running=4, waiting=0)
        engine.crash()
        await restarted(pipeline, restarts)
    await loaded(pipeline, running=1, waiting=3)
    await left(tasks.pop(0))
    await loaded(pipeline, running=1, waiting=3)  # what runs it for the search is one of these
    engine.gate.set()
    assert all(one.text for one in await asyncio.gather(*tasks))
    await loaded(pipeline, running=0, waiting=0)
    assert pipeline.stats().crashing_sequences == 0


async def test_a_sampled_stream_is_searched_for_although_it_cannot_continue(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    poison = replace(sequence(CRASH), sampling=Sampling(temperature=0.7))
    for restarts in (1, 2):
        with pytest.raises(EngineFailed):
            _ = [item async for item in pipeline.stream(poison)]
        await until(lambda: pipeline.stats().restarts >= restarts, "a restart")  # noqa: B023
    await restarted(pipeline, 3)
    with pytest.raises(CrashingText):
        _ = [item async for item in pipeline.stream(poison)]


@pytest.mark.parametrize("in_flight", [0, 1, 2])
async def test_fewer_run_after_crashes_that_none_causes_alone_only_if_several_ran(
    in_flight: int, pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    """With none in flight it is one whose caller has left that is searched for."""
    assert (await pipeline.generate(sequence())).text
    names = [str(number) for number in range(in_flight)]
    held = [asyncio.create_task(pipeline.generate(sequence(HOLD, int(one), name=one))) for one in names]
    for restarts in (1, 2):
        await until(lambda: all(engine.ran.count(one) == restarts for one in names), "all in flight")  # noqa: B023
        if not in_flight:
            leaving = asyncio.create_task(pipeline.generate(sequence(HOLD, name="left")))
            await until(lambda: engine.ran.count("left") == restarts, "its begin")  # noqa: B023
            await left(leaving)
        if restarts == 2:
            engine.gate.set()  # after these two crashes nothing is wrong
        engine.crash()
        await restarted(pipeline, restarts)
    assert all(one.text for one in await asyncio.gather(*held))
    await until(lambda: engine.ran.count("left" if not held else "0") == 3, "its run in the search")
    await loaded(pipeline, running=0, waiting=0)
    stats = pipeline.stats()
    assert (stats.crashing_sequences, stats.slot_limit) == (0, 1 if in_flight > 1 else None)


@pytest.mark.parametrize("what", ["another is completed before", "it is completed between"])
async def test_a_text_whose_caller_has_left_is_not_blamed_for_later_crashes(
    what: str, pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    for restarts in (1, 2):
        leaving = asyncio.create_task(pipeline.generate(sequence(HOLD, name="held")))
        await loaded(pipeline, running=1, waiting=0)
        await left(leaving)
        if what == "another is completed before":
            assert (await pipeline.generate(sequence())).text
        engine.crash()
        await restarted(pipeline, restarts)
        if what == "it is completed between":
            engine.gate.set()
            assert (await pipeline.generate(sequence(HOLD))).text
            engine.gate.clear()
    held = asyncio.create_task(pipeline.generate(sequence(HOLD)))
    await loaded(pipeline, running=1, waiting=0)
    other = asyncio.create_task(pipeline.generate(sequence(HOLD, 301)))
    await loaded(pipeline, running=2, waiting=0)  # beside it: it is no suspect
    engine.gate.set()
    assert all(one.text for one in await asyncio.gather(held, other))


class LateCrashes(CrashingEngine):
    """What crashes it does so when all that were submitted run, and before any of them ends."""

    async def _obey(self, sequence: EngineSequence) -> None:
        for step in range(60):
            await asyncio.sleep(0)
            if step == 30 and CRASH in sequence.prompt_token_ids:
                self.crash()
            if not self._is_running:
                raise EngineDead("the fake engine crashed")


@pytest.mark.parametrize(("owner", "most_restarts"), [("a", 2 + 5), ("b", 2 + 5 + 5)])
async def test_another_one_that_crashes_the_engine_is_not_blamed_on_those_that_are_searched(
    owner: str, most_restarts: int
) -> None:
    """Two crashes make 16 suspects, of which one is found in 5; another caller's is searched for after it. The same text of
    its caller is no further suspect, and ends with it."""
    engine = LateCrashes()
    async with running(ContinuousPipeline(engine, first_pause_s=0)) as pipeline:
        assert (await pipeline.generate(sequence())).text
        engine.may_start.clear()
        poison = replace(sequence(CRASH), owner="a")
        innocent = [sequence(300, number, name=str(number)) for number in range(15)]
        tasks = [asyncio.create_task(pipeline.generate(one)) for one in (poison, *innocent)]
        await loaded(pipeline, running=0, waiting=16)
        again = asyncio.create_task(pipeline.generate(replace(poison, id="again", owner=owner)))
        await loaded(pipeline, running=0, waiting=17)
        engine.may_start.set()
        for crashing in (tasks[0], again):
            with pytest.raises(CrashingText):
                await crashing
        assert [one.text for one in await asyncio.gather(*tasks[1:])] == [answer(one) for one in innocent]
        assert pipeline.stats().restarts <= most_restarts


async def test_a_sequence_that_arrives_between_two_crashes_is_completed(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    engine.may_start.clear()
    crashing = asyncio.create_task(pipeline.generate(sequence(CRASH)))
    await restarting(pipeline)
    other = asyncio.create_task(pipeline.generate(sequence(301)))
    await loaded(pipeline, running=0, waiting=2)
    engine.may_start.set()
    assert (await other).text == answer(sequence(301))
    with pytest.raises(CrashingText):
        await crashing
    assert engine.runs == 4


async def test_a_sequence_that_is_cancelled_during_a_restart_does_not_run_again(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    engine.may_start.clear()
    leaving = asyncio.create_task(pipeline.generate(sequence(HOLD, name="leaving")))
    await loaded(pipeline, running=1, waiting=0)
    engine.crash()
    await loaded(pipeline, running=0, waiting=1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await loaded(pipeline, running=0, waiting=0)
    engine.may_start.set()
    await pipeline.generate(sequence(name="next"))
    assert engine.ran == ["leaving", "next"]


async def test_a_failed_restart_is_repeated(pipeline: ContinuousPipeline, engine: CrashingEngine) -> None:
    engine.failing_starts = 2
    engine.crash()
    await restarted(pipeline)
    assert (await pipeline.generate(sequence())).text
    assert engine.starts == 1 + 3


async def test_after_too_many_failed_starts_the_pipeline_gives_up(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    engine.failing_starts = 1_000
    tasks = [asyncio.create_task(pipeline.generate(sequence(HOLD))) for _ in range(4)]
    await loaded(pipeline, running=4, waiting=0)
    engine.crash()
    assert "3 starts failed in a row" in (await pipeline.crashed()).message
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, EngineDead) for end in ends)
    with pytest.raises(EngineDead):
        await pipeline.check_health()
    with pytest.raises(EngineDead):
        await pipeline.generate(sequence())
    assert engine.starts == 1 + 3
    await loaded(pipeline, running=0, waiting=0)


async def test_an_engine_that_starts_and_completes_nothing_is_given_up(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    assert (await pipeline.generate(sequence())).text
    engine.is_broken = True
    ends = await asyncio.gather(*(pipeline.generate(sequence()) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(end, EngineDead) for end in ends)  # no text is blamed
    await pipeline.crashed()
    assert engine.runs == 1 + 3  # none of the three completed anything
    assert pipeline.stats().crashing_sequences == 0


async def test_a_failed_first_start_is_not_repeated(engine: CrashingEngine) -> None:
    engine.failing_starts = 1
    pipeline = ContinuousPipeline(engine)
    with pytest.raises(EngineDead, match="this start fails"):
        await pipeline.start()
    assert engine.starts == 1
    await pipeline.shutdown()


async def test_shutdown_during_a_restart_ends_waiting_sequences(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    engine.may_start.clear()
    task = asyncio.create_task(pipeline.generate(sequence(HOLD)))
    await loaded(pipeline, running=1, waiting=0)
    engine.crash()
    await until(lambda: engine.starts == 2, "a second start")
    await pipeline.shutdown()
    [end] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(end, EngineDead)
    engine.may_start.set()
    assert engine.runs == 1


async def test_a_stream_continues_after_what_it_has_sent(pipeline: ContinuousPipeline, engine: CrashingEngine) -> None:
    stream = pipeline.stream(sequence(HOLD, 301, 302))
    first = await anext(stream)
    engine.gate.set()
    engine.crash()
    *deltas, whole = [item async for item in stream]
    assert isinstance(first, Delta)
    assert isinstance(whole, Completion)
    assert "".join(item.text for item in (first, *deltas)) == whole.text == answer(sequence(HOLD, 301, 302))
    assert pipeline.stats().restarts == 1


async def test_a_stream_whose_new_run_differs_ends_with_an_error() -> None:
    engine = CrashingEngine(lambda _: f"run{engine.runs} word")
    async with running(ContinuousPipeline(engine, first_pause_s=0)) as pipeline:
        stream = pipeline.stream(sequence(HOLD))
        assert await anext(stream) == Delta("run1")
        engine.gate.set()
        engine.crash()
        with pytest.raises(EngineFailed, match="differs"):
            await anext(stream)
        assert pipeline.stats().restarts == 1


async def test_a_closed_stream_leaves_nothing_in_the_engine(
    pipeline: ContinuousPipeline, engine: CrashingEngine
) -> None:
    stream = pipeline.stream(sequence(HOLD))
    await anext(stream)
    await stream.aclose()
    assert pipeline.stats().running == 0


def test_pauses_grow_to_half_a_minute() -> None:
    assert [pause_s(failed, 1.0) for failed in range(7)] == [0, 1, 3, 7, 15, 30, 30]


def sent(replay: StreamReplay, *texts: str) -> list[str]:
    """What is sent on of a run that generates `texts`."""
    return [new.text for text in texts if (new := replay.delta(Delta(text)))]


def second_run_after(*texts: str) -> StreamReplay:
    """A stream that sent `texts` before its engine crashed."""
    replay = StreamReplay(sequence())
    replay.restart()
    assert sent(replay, *texts) == list(texts)
    replay.restart()
    return replay


@pytest.mark.parametrize("again", [("one", " two", " three"), ("one two three",), ("o", "ne two th", "ree")])
def test_a_second_run_sends_only_what_is_new(again: tuple[str, ...]) -> None:
    replay = second_run_after("one", " tw")
    assert "".join(sent(replay, *again)) == "o three"
    replay.check_end()


def test_a_second_run_that_differs_or_ends_early_is_an_error() -> None:
    with pytest.raises(EngineFailed):
        sent(second_run_after("one", " two"), "one", " twelve")
    replay = second_run_after("one", " two")
    assert sent(replay, "one") == []
    with pytest.raises(EngineFailed):
        replay.check_end()


def test_a_sampled_stream_has_a_second_run_only_while_nothing_was_sent() -> None:
    replay = StreamReplay(replace(sequence(), sampling=Sampling(temperature=0.7)))
    replay.restart()
    replay.restart()
    sent(replay, "one")
    with pytest.raises(EngineFailed):
        replay.restart()
