"""The scripted engine's folder, and pipelines for the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tokenizers import Tokenizer

from dragoman import phrasebook
from dragoman.pipelines.base import Pipeline
from dragoman.pipelines.fake import FakePipeline
from dragoman.pipelines.remote import RemotePipeline
from dragoman.pipelines.remote_apis import API_OF
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service.stack import model_tokens
from dragoman.settings import RemoteSettings
from tests.pipelines.building import STEP_S, running, static_batch, workers
from tests.pipelines.scripted import ScriptFolder, answer
from tests.pipelines.upstream import Upstream, listening


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


TOKENIZER = Tokenizer.from_file(str(phrasebook.model_dir() / "tokenizer.json"))


def remote(
    *upstreams: Upstream, api: Literal["completions", "ollama"] = "completions", **settings: Any
) -> RemotePipeline:
    """A pipeline over these engines, not started."""
    own = API_OF[api](model_tokens(TextTokenizer(TOKENIZER)), logprobs=bool(settings.pop("logprobs", False)))
    return RemotePipeline(RemoteSettings(**settings), [(one.url, own) for one in upstreams], window=None)


@pytest.fixture(scope="module")
async def remote_pipeline() -> AsyncIterator[Pipeline]:
    async with listening(Upstream(TOKENIZER)) as upstream, running(remote(upstream)) as pipeline:
        yield pipeline
