"""Pipelines over the scripted engine, in real worker processes, and waiting for their load."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import psutil

from dragoman.pipelines.base import Engine, Pipeline
from dragoman_bench.story import baselines
from dragoman_bench.story.baselines import WorkerPipeline
from tests.pipelines.scripted import ScriptFolder
from tests.waiting import until

STEP_S = 0.0001  # the fake decodes step by step, as an engine does
P = TypeVar("P", bound=Pipeline)


def static_batch(script: ScriptFolder, *, size: int = 4, timeout_ms: float = 5.0) -> WorkerPipeline:
    return baselines.static_batch(
        script.spec, script.log_file, batch_size=size, batch_timeout_ms=timeout_ms, engine=script.engine
    )


def workers(script: ScriptFolder, *, count: int = 2) -> WorkerPipeline:
    return baselines.workers(script.spec, script.log_file, workers=count, engine=script.engine)


@asynccontextmanager
async def running(pipeline: P) -> AsyncIterator[P]:
    try:
        await pipeline.start()
        yield pipeline
    finally:
        await pipeline.shutdown()


async def loaded(pipeline: Pipeline, *, running: int, waiting: int) -> None:
    """Return when the pipeline reports that so many run and wait."""

    def holds() -> bool:
        stats = pipeline.stats()
        return (stats.running, stats.waiting) == (running, waiting)

    await until(holds, f"{running} running and {waiting} waiting")


async def exited(pid: int) -> None:
    """Return when the process has exited (it may stay a zombie)."""
    await until(lambda: not _is_alive(pid), f"the exit of process {pid}")


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Started:
    """The run's engine, which has started already and goes on after a test that uses it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    async def start(self) -> None: ...
    async def shutdown(self) -> None: ...
