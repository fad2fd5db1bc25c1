"""The adapter over a real vLLM: the same tests on a CPU and on a GPU, on the oldest and the newest supported version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from dragoman.errors import EngineRejected
from dragoman.pipelines.base import Pipeline
from dragoman.types import Completion, Delta, Sequence
from tests.waiting import until

if TYPE_CHECKING:
    from dragoman.engine.async_engine import AsyncEngine

pytestmark = pytest.mark.engine

PROMPT = (1, 4, 5, 56, 772, 709, 29, 3)


def sequence(max_tokens: int = 8, *, forced: bool = True, prompt: tuple[int, ...] = PROMPT) -> Sequence:
    return Sequence(uuid4().hex, prompt, max_tokens, forced=forced)


async def idle(pipeline: Pipeline) -> None:
    await until(lambda: pipeline.stats().running + pipeline.stats().waiting == 0, "an idle engine")


async def test_forced_lengths_are_exact(engine_pipeline: Pipeline) -> None:
    lengths = (1, 2, 7, 40)
    done = await asyncio.gather(*(engine_pipeline.generate(sequence(n)) for n in lengths))
    assert tuple(one.completion_tokens for one in done) == lengths
    assert {one.prompt_tokens for one in done} == {len(PROMPT)}
    assert {one.reason for one in done} == {"length"}


async def test_same_prompt_gives_same_text(engine_pipeline: Pipeline) -> None:
    first, second = [await engine_pipeline.generate(sequence(24)) for _ in range(2)]
    assert first.text == second.text


async def test_stream_says_what_generate_says(engine_pipeline: Pipeline) -> None:
    whole = await engine_pipeline.generate(sequence(24))
    items = [item async for item in engine_pipeline.stream(sequence(24))]
    *deltas, last = items
    assert isinstance(last, Completion)
    assert len(deltas) > 1
    assert "".join(item.text for item in deltas if isinstance(item, Delta)) == last.text == whole.text
    assert last.completion_tokens == whole.completion_tokens == 24


async def test_answers_and_streams_have_the_log_probabilities_of_their_tokens(
    engine: AsyncEngine, engine_pipeline: Pipeline
) -> None:
    if engine.spec.engine.load_format == "dummy":
        pytest.skip("random weights have no probabilities that mean anything")
    whole = await engine_pipeline.generate(sequence(24))
    *_, last = [item async for item in engine_pipeline.stream(sequence(24))]
    assert isinstance(last, Completion)
    assert whole.logprobs is not None
    assert last.logprobs is not None
    assert whole.logprobs.least <= whole.logprobs.mean <= 0
    assert last.logprobs.mean == pytest.approx(whole.logprobs.mean, abs=0.05)
    assert last.logprobs.least == pytest.approx(whole.logprobs.least, abs=0.2)


async def test_many_sequences_run_at_once_and_short_ones_leave_first(engine_pipeline: Pipeline) -> None:
    finished: list[int] = []

    async def run(length: int) -> None:
        await engine_pipeline.generate(sequence(length))
        finished.append(length)

    long = [asyncio.create_task(run(400)) for _ in range(4)]
    await until(lambda: engine_pipeline.stats().running == 4, "four running sequences")
    short = [asyncio.create_task(run(5)) for _ in range(8)]
    await asyncio.gather(*long, *short)
    assert finished[:8] == [5] * 8
    assert engine_pipeline.stats().peak_running >= 5
    await idle(engine_pipeline)


async def test_more_sequences_than_slots_wait_and_finish(engine_pipeline: Pipeline) -> None:
    waited = False

    async def watch() -> None:
        nonlocal waited
        await until(lambda: engine_pipeline.stats().waiting > 0, "a waiting sequence")
        waited = True

    watcher = asyncio.create_task(watch())
    done = await asyncio.gather(*(engine_pipeline.generate(sequence(64)) for _ in range(80)))
    await watcher
    assert waited
    assert [one.completion_tokens for one in done] == [64] * 80


async def test_cancelling_frees_the_sequence(engine_pipeline: Pipeline) -> None:
    await idle(engine_pipeline)
    task = asyncio.create_task(engine_pipeline.generate(sequence(900)))
    await until(lambda: engine_pipeline.stats().running == 1, "a running sequence")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(engine_pipeline)


async def test_closing_a_stream_frees_the_sequence(engine_pipeline: Pipeline) -> None:
    stream = engine_pipeline.stream(sequence(900))
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    await idle(engine_pipeline)


async def test_a_prompt_beyond_the_window_is_refused_and_others_go_on(engine_pipeline: Pipeline) -> None:
    too_long = tuple([300] * (engine_pipeline.max_model_len + 1))
    good, bad = await asyncio.gather(
        engine_pipeline.generate(sequence(4)),
        engine_pipeline.generate(sequence(4, prompt=too_long)),
        return_exceptions=True,
    )
    assert isinstance(good, Completion)
    assert isinstance(bad, EngineRejected)
    await engine_pipeline.check_health()


async def test_statistics_count_what_ran(engine_pipeline: Pipeline) -> None:
    await idle(engine_pipeline)
    before = engine_pipeline.stats()
    await asyncio.gather(*(engine_pipeline.generate(sequence(10)) for _ in range(3)))
    await until(lambda: engine_pipeline.stats().finished == before.finished + 3, "three finished sequences")
    after = engine_pipeline.stats()
    assert after.completion_tokens - before.completion_tokens == 30
    assert after.prompt_tokens - before.prompt_tokens == 3 * len(PROMPT)
    assert after.busy_s > before.busy_s
    assert after.steps > before.steps
    assert after.ttft_s.p50
    assert after.inter_token_latency_count - before.inter_token_latency_count == 3  # of each sequence, the mean
    assert after.inter_token_latency_sum_s > before.inter_token_latency_sum_s
