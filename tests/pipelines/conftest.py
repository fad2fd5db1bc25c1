"""The scripted engine's stage, and pipelines for the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.fake import FakePipeline
from dragoman.pipelines.supervised import SupervisedPipeline
from tests.pipelines.building import STEP_S, Started, running, static_batch, workers
from tests.pipelines.scripted import Stage, answer


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture(scope="module")
async def fake_pipeline() -> AsyncIterator[Pipeline]:
    async with running(FakePipeline(answer, slots=4, step_s=STEP_S)) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
async def static_batch_pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(static_batch(Stage(tmp_path_factory.mktemp("static_batch")))) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
async def workers_pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(workers(Stage(tmp_path_factory.mktemp("workers")))) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
async def supervised_pipeline(engine_pipeline: Pipeline) -> AsyncIterator[Pipeline]:
    """The run's engine, under supervision that it does not need."""
    async with running(SupervisedPipeline(Started(engine_pipeline))) as pipeline:  # type: ignore[arg-type]
        yield pipeline
