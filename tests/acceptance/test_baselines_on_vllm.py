"""Both baselines once with a real vLLM in their workers: what a scripted engine cannot show."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineRejected
from dragoman.pipelines.base import Pipeline
from dragoman.types import Completion
from dragoman_bench.story import baselines
from tests.pipelines.building import exited, loaded, running
from tests.pipelines.scripted import sequence

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(600)]

OUT_OF_VOCABULARY = 10_000_000


@pytest.fixture(params=["static_batch", "workers"])
def pipeline(request: pytest.FixtureRequest, engine_spec: EngineSpec, engine_log: Path) -> Pipeline:
    spec = replace(engine_spec, engine=replace(engine_spec.engine, enforce_eager=True))  # starts sooner
    if request.param == "workers":
        return baselines.workers(spec, engine_log, workers=2)
    return baselines.static_batch(spec, engine_log, batch_size=8, batch_timeout_ms=50)


async def test_a_real_engine_in_a_worker_serves_refuses_and_ends(pipeline: Pipeline) -> None:
    before = _children()
    async with running(pipeline):
        started = [process.pid for process in _children() - before]
        lengths = [3, 20, 7, 1, 12, 5, 9, 2, 16]
        fitting = [sequence(max_tokens=length, forced=True) for length in lengths]
        bad = [sequence(*[300] * pipeline.max_model_len), sequence(OUT_OF_VOCABULARY)]
        ends = await asyncio.gather(*map(pipeline.generate, [*bad, *fitting]), return_exceptions=True)
        assert [type(end) for end in ends[:2]] == [EngineRejected] * 2
        assert [end.completion_tokens for end in ends[2:] if isinstance(end, Completion)] == lengths
        first, second = [await pipeline.generate(sequence(max_tokens=16, forced=True)) for _ in range(2)]
        assert first == second
        await loaded(pipeline, running=0, waiting=0)
        assert pipeline.stats().completion_tokens == sum(lengths) + 2 * 16
        await pipeline.check_health()
    for pid in started:
        await exited(pid)


def _children() -> set[psutil.Process]:
    """All processes below this one, but for multiprocessing's own and the guard, which serve all of them."""
    found = psutil.Process().children(recursive=True)
    lasting = ("resource_tracker", "dragoman.guard")
    return {process for process in found if not any(name in " ".join(process.cmdline()) for name in lasting)}
