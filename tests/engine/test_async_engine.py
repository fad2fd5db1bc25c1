"""The adapter over a real vLLM, beyond the contract of tests/pipelines, which it also keeps: on a CPU and on a GPU."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dragoman.pipelines.base import Pipeline
from dragoman.types import Completion, Delta, Sampling
from tests.pipelines.building import loaded
from tests.pipelines.scripted import PROMPT, sequence
from tests.waiting import until

if TYPE_CHECKING:
    from dragoman.engine.async_engine import AsyncEngine

pytestmark = pytest.mark.engine


async def test_answers_and_streams_have_the_log_probabilities_of_their_tokens(
    engine: AsyncEngine, engine_pipeline: Pipeline
) -> None:
    if engine.spec.engine.load_format == "dummy":
        pytest.skip("random weights have no probabilities that mean anything")
    whole = await engine_pipeline.generate(sequence(max_tokens=24, forced=True))
    *_, last = [item async for item in engine_pipeline.stream(sequence(max_tokens=24, forced=True))]
    assert isinstance(last, Completion)
    assert whole.logprobs is not None
    assert last.logprobs is not None
    assert whole.logprobs.least <= whole.logprobs.mean <= 0
    assert last.logprobs.mean == pytest.approx(whole.logprobs.mean, abs=0.05)
    assert last.logprobs.least == pytest.approx(whole.logprobs.least, abs=0.2)


async def test_a_stream_ends_before_a_stop_string_that_is_found_among_several_tokens(engine_pipeline: Pipeline) -> None:
    whole = await engine_pipeline.generate(sequence(max_tokens=48))
    stop = whole.text[len(whole.text) // 2 :][:2]
    stopping = replace(sequence(max_tokens=48), sampling=Sampling(stop=(stop,)))
    *deltas, last = [item async for item in engine_pipeline.stream(stopping)]
    assert isinstance(last, Completion)
    assert last.text == "".join(item.text for item in deltas if isinstance(item, Delta))
    assert (last.text, last.reason) == (whole.text[: whole.text.index(stop)], "stop")


async def test_many_sequences_run_at_once_and_short_ones_leave_first(engine_pipeline: Pipeline) -> None:
    finished: list[int] = []

    async def run(length: int) -> None:
        await engine_pipeline.generate(sequence(max_tokens=length, forced=True))
        finished.append(length)

    long = [asyncio.create_task(run(100)) for _ in range(4)]
    await until(lambda: engine_pipeline.stats().running == 4, "four running sequences")
    short = [asyncio.create_task(run(5)) for _ in range(8)]
    await asyncio.gather(*long, *short)
    assert finished[:8] == [5] * 8
    assert engine_pipeline.stats().peak_running >= 5
    await loaded(engine_pipeline, running=0, waiting=0)


async def test_more_sequences_than_slots_wait_and_finish(engine_pipeline: Pipeline) -> None:
    waited = False

    async def watch() -> None:
        nonlocal waited
        await until(lambda: engine_pipeline.stats().waiting > 0, "a waiting sequence")
        waited = True

    watcher = asyncio.create_task(watch())
    done = await asyncio.gather(*(engine_pipeline.generate(sequence(max_tokens=32, forced=True)) for _ in range(50)))
    await watcher
    assert waited
    assert [one.completion_tokens for one in done] == [32] * 50


async def test_statistics_count_what_ran(engine_pipeline: Pipeline) -> None:
    await loaded(engine_pipeline, running=0, waiting=0)
    before = engine_pipeline.stats()
    await asyncio.gather(*(engine_pipeline.generate(sequence(max_tokens=10, forced=True)) for _ in range(3)))
    await until(lambda: engine_pipeline.stats().finished == before.finished + 3, "three finished sequences")
    after = engine_pipeline.stats()
    assert after.completion_tokens - before.completion_tokens == 30
    assert after.prompt_tokens - before.prompt_tokens == 3 * len(PROMPT)
    assert after.busy_s > before.busy_s
    assert after.steps > before.steps
    assert after.ttft_s.p50
    assert after.inter_token_latency_count - before.inter_token_latency_count == 3  # of each sequence, the mean
    assert after.inter_token_latency_sum_s > before.inter_token_latency_sum_s
