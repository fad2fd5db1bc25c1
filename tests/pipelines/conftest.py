"""The scripted engine's folder, and pipelines for the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.fake import FakePipeline
from tests.pipelines.building import STEP_S, running, static_batch, workers
from tests.pipelines.scripted import ScriptFolder, answer


@pytest.fixture
def script(tmp_path: Path) -> ScriptFolder:
    return ScriptFolder(tmp_path)


@pytest.fixture(scope="module")
async def fake_pipeline() -> AsyncIterator[Pipeline]:
    async with running(FakePipeline(answer, slots=4, step_s=STEP_S)) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
async def static_batch_pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(static_batch(ScriptFolder(tmp_path_factory.mktemp("static_batch")))) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
async def workers_pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(workers(ScriptFolder(tmp_path_factory.mktemp("workers")))) as pipeline:
        yield pipeline
