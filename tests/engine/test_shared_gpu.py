"""A real engine that shares its GPU, on a CPU and on a GPU: its turn, its entry, and what follows its end.

No MPS runs here: the number of its daemon is what the test says.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.engine.spec import EngineSpec
from dragoman.sharedgpu import SharedGpu
from tests.pipelines.scripted import sequence
from tests.waiting import until

pytestmark = pytest.mark.engine


async def test_a_killed_engine_starts_again_under_another_daemon_and_one_that_is_stopped_leaves(
    engine_spec: EngineSpec, engine_log: Path, tmp_path: Path
) -> None:
    from dragoman.engine.async_engine import AsyncEngine
    from dragoman.pipelines.continuous import ContinuousPipeline

    gpu = SharedGpu(tmp_path)
    gpu.begin_daemon(1)
    eager = replace(engine_spec, engine=replace(engine_spec.engine, enforce_eager=True))  # it starts twice
    pipeline = ContinuousPipeline(AsyncEngine(eager, engine_log, gpu=gpu))
    async with gpu.turn():
        starting = asyncio.create_task(pipeline.start())
        await asyncio.sleep(0)
        assert gpu.engines() == ([], [])
    await starting
    try:
        (killed,), _ = gpu.engines()
        generating = asyncio.create_task(pipeline.generate(sequence(max_tokens=200, forced=True)))
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        killed.kill()
        await until(gpu.is_broken, "the report of the crash")
        assert not generating.done()
        gpu.forget([killed.pid])
        gpu.begin_daemon(2)
        assert (await generating).completion_tokens == 200
        (again,), lost = gpu.engines()
        assert again.pid != killed.pid
        assert lost == []
    finally:
        await pipeline.shutdown()
    assert gpu.engines() == ([], [])
    assert gpu.daemon() == 2
    assert not gpu.is_broken()
