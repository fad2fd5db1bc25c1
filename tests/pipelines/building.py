"""Pipelines over the scripted engine, in real worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import psutil

from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.static_batch import StaticBatchPipeline
from dragoman.pipelines.workers import WorkersPipeline
from tests.pipelines.scripted import Stage
from tests.waiting import until

STEP_S = 0.0001  # the fake decodes step by step, as an engine does
P = TypeVar("P", bound=Pipeline)


def static_batch(stage: Stage, *, size: int = 4, timeout_ms: float = 5.0) -> StaticBatchPipeline:
    return StaticBatchPipeline(
        stage.spec, stage.log_file, batch_size=size, batch_timeout_ms=timeout_ms, engine=stage.engine
    )


def workers(stage: Stage, *, count: int = 2) -> WorkersPipeline:
    return WorkersPipeline(stage.spec, stage.log_file, workers=count, engine=stage.engine)


@asynccontextmanager
async def running(pipeline: P) -> AsyncIterator[P]:
    try:
        await pipeline.start()
        yield pipeline
    finally:
        await pipeline.shutdown()


async def loaded(pipeline: Pipeline, *, running: int, waiting: int) -> None:
    """Return when the pipeline says that so many run and wait."""

    def holds() -> bool:
        stats = pipeline.stats()
        return (stats.running, stats.waiting) == (running, waiting)

    await until(holds, f"{running} running and {waiting} waiting")


async def gone(pid: int) -> None:
    """Return when the process has ended (a zombie has: whoever adopted it may not look)."""
    await until(lambda: not _lives(pid), f"the end of process {pid}")


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Started:
    """The run's engine, which is up already and outlives whoever borrows it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __getattr__(self, name: str) -> object:
        return getattr(self._pipeline, name)

    async def start(self) -> None: ...
    async def shutdown(self) -> None: ...
