"""One suite over every pipeline: the fake, both baselines over the scripted engine, and `continuous` over the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.errors import EngineDead, EngineRejected
from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.continuous import ContinuousPipeline
from dragoman.pipelines.fake import FakePipeline
from dragoman.types import Completion, Delta
from dragoman_bench.story.baselines import WorkerPipeline
from tests.pipelines.building import STEP_S, loaded, running, static_batch, workers
from tests.pipelines.scripted import PROMPT, ScriptFolder, answer, sequence
from tests.waiting import until

REAL = pytest.param("engine_pipeline", marks=pytest.mark.engine, id="continuous")
BASELINES = ["static_batch_pipeline", "workers_pipeline"]


@pytest.fixture(params=["fake_pipeline", "remote_pipeline", *BASELINES, REAL])
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["remote_pipeline", *BASELINES, REAL])
def bounded_pipeline(request: pytest.FixtureRequest) -> Pipeline:
    """Those with a window to overrun: the fake has none."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["fake", "continuous", "static_batch", "workers"])
def own_pipeline(request: pytest.FixtureRequest, script: ScriptFolder) -> Pipeline:
    """A pipeline of the test's own, not started."""
    built: dict[str, Callable[[], Pipeline]] = {
        "fake": lambda: FakePipeline(answer, step_s=STEP_S),
        "continuous": lambda: ContinuousPipeline(FakePipeline(answer, step_s=STEP_S)),
        "static_batch": lambda: static_batch(script),
        "workers": lambda: workers(script),
    }
    return built[request.param]()


async def test_each_of_many_gets_its_own_answer_once(pipeline: Pipeline) -> None:
    lengths = [1 + number * 7 % 29 for number in range(40)]
    done = await asyncio.gather(*(pipeline.generate(sequence(max_tokens=n, forced=True)) for n in lengths))
    assert [one.completion_tokens for one in done] == lengths
    assert {one.reason for one in done} == {"length"}
    assert {one.prompt_tokens for one in done} == {len(PROMPT)}


async def test_the_same_prompt_gives_the_same_answer(pipeline: Pipeline) -> None:
    first, second = [await pipeline.generate(sequence(301, max_tokens=16)) for _ in range(2)]
    assert first == second
    assert first.text


async def test_an_answer_that_is_cut_has_the_reason_length(pipeline: Pipeline) -> None:
    cut = await pipeline.generate(sequence(max_tokens=2))
    assert cut.reason == "length"
    assert cut.completion_tokens == 2


async def test_a_stream_is_deltas_and_then_the_completion(pipeline: Pipeline) -> None:
    whole = await pipeline.generate(sequence(max_tokens=12, forced=True))
    *deltas, last = [item async for item in pipeline.stream(sequence(max_tokens=12, forced=True))]
    assert last == whole
    assert len(deltas) > (not isinstance(pipeline, WorkerPipeline))
    assert all(isinstance(item, Delta) for item in deltas)
    assert "".join(item.text for item in deltas if isinstance(item, Delta)) == whole.text


async def test_cancelling_frees_what_ran_and_what_waited(pipeline: Pipeline) -> None:
    await loaded(pipeline, running=0, waiting=0)
    tasks = [asyncio.create_task(pipeline.generate(sequence(max_tokens=900, forced=True))) for _ in range(40)]
    await asyncio.sleep(0)  # each is handed to the pipeline, none can have ended
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    await loaded(pipeline, running=0, waiting=0)
    assert (await pipeline.generate(sequence(max_tokens=3, forced=True))).completion_tokens == 3


async def test_a_closed_stream_frees_its_sequence(pipeline: Pipeline) -> None:
    stream = pipeline.stream(sequence(max_tokens=900, forced=True))
    first = await anext(stream)
    assert isinstance(first, Delta)
    await stream.aclose()  # type: ignore[attr-defined]
    await loaded(pipeline, running=0, waiting=0)


async def test_a_prompt_beyond_the_window_is_refused_alone(bounded_pipeline: Pipeline) -> None:
    too_long = sequence(*[300] * bounded_pipeline.max_model_len)
    fitting = [sequence(max_tokens=5, forced=True) for _ in range(5)]
    work = [*fitting[:2], too_long, *fitting[2:]]
    ends = await asyncio.gather(*(bounded_pipeline.generate(one) for one in work), return_exceptions=True)
    assert isinstance(ends.pop(2), EngineRejected)
    assert [end.completion_tokens for end in ends if isinstance(end, Completion)] == [5] * 5
    await bounded_pipeline.check_health()


async def test_statistics_count_what_was_answered(pipeline: Pipeline) -> None:
    await loaded(pipeline, running=0, waiting=0)
    before = pipeline.stats()
    await asyncio.gather(*(pipeline.generate(sequence(max_tokens=10, forced=True)) for _ in range(3)))
    await until(lambda: pipeline.stats().finished == before.finished + 3, "three finished sequences")
    after = pipeline.stats()
    assert after.completion_tokens - before.completion_tokens == 30
    assert after.busy_s > before.busy_s
    assert after.peak_running >= 1
    await loaded(pipeline, running=0, waiting=0)


async def test_before_its_start_a_pipeline_serves_nothing(own_pipeline: Pipeline) -> None:
    with pytest.raises(EngineDead):
        await own_pipeline.check_health()
    with pytest.raises(EngineDead):
        await own_pipeline.generate(sequence())
    await own_pipeline.shutdown()


async def test_shutdown_is_final_and_safe_to_repeat(own_pipeline: Pipeline) -> None:
    await own_pipeline.start()
    assert (await own_pipeline.generate(sequence())).text
    await own_pipeline.shutdown()
    await own_pipeline.shutdown()
    with pytest.raises(EngineDead):
        await own_pipeline.check_health()
    with pytest.raises(EngineDead):
        await own_pipeline.generate(sequence())


async def test_shutdown_ends_what_is_in_flight(own_pipeline: Pipeline, script: ScriptFolder) -> None:
    gate = script.gate()
    async with running(own_pipeline):
        work = [sequence(gate, max_tokens=900, forced=True) for _ in range(12)]
        tasks = [asyncio.create_task(own_pipeline.generate(one)) for one in work]
        await asyncio.sleep(0)  # each is handed to the pipeline; the gate stays closed
        await own_pipeline.shutdown()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, EngineDead) for end in ends)
    assert own_pipeline.stats().running + own_pipeline.stats().waiting == 0


async def test_a_slot_of_the_fake_is_free_when_the_answer_is_returned() -> None:
    async with running(FakePipeline(lambda _: "one two", slots=1)) as pipeline:
        await pipeline.generate(sequence(1))
        assert pipeline.stats().running == 0


async def test_deltas_of_the_fake_have_the_words_of_an_interval() -> None:
    fake = FakePipeline(lambda _: "one two three four five six", step_s=0.001, stream_interval_s=0.002)
    async with running(fake) as pipeline:
        *deltas, last = [item async for item in pipeline.stream(sequence(1))]
    assert deltas == [Delta("one"), Delta(" two three"), Delta(" four five"), Delta(" six")]
    assert isinstance(last, Completion)
    assert last.text == "one two three four five six"
