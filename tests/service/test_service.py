"""The service as those above it see it, over the fake pipeline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from dragoman import phrasebook
from dragoman.engine.spec import resolve
from dragoman.errors import EngineDead, StorageUnavailable
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.service.stack import choose_model
from dragoman.settings import CacheSettings, ModelSettings, PipelineSettings, RemoteSettings, Settings, StorageSettings
from dragoman.storage.database import Database
from dragoman.types import Planned, TextDelta, TranslationRequest
from tests.pipelines.upstream import Upstream, listening
from tests.serving import service_over, slow_service
from tests.waiting import HANG_S, until
from wholetext.markup.spans import pseudolocalized


class FailingPipeline(FakePipeline):
    async def start(self) -> None:
        raise EngineDead("it does not start")


class EndlessStart(FakePipeline):
    async def start(self) -> None:
        await asyncio.Event().wait()


def _failing(_: object) -> str:
    raise EngineDead("it does not answer")


@pytest.mark.parametrize("pipeline", [FakePipeline(), FailingPipeline(), FakePipeline(_failing)])
async def test_the_database_is_closed_when_the_service_stops_or_cannot_start(pipeline: FakePipeline) -> None:
    """Its engine may not start, or not answer the warm-up."""
    database = Database("sqlite://")
    service = service_over(pipeline, database=database)
    try:
        await service.start()
        await service.stop()
    except EngineDead:
        assert service.admission.state != "serving"
    with pytest.raises(StorageUnavailable):
        await database.read(lambda _: None)


async def test_prompts_that_cannot_be_loaded_end_the_start_of_the_engine(tmp_path: Path) -> None:
    settings = Settings(storage=StorageSettings(""))
    model = replace(choose_model(ModelSettings()), path=str(tmp_path))  # has no tokenizer
    spec = resolve(str(phrasebook.model_dir()), settings.engine, "cpu")
    service = TranslationService(settings, model, spec, EndlessStart())
    async with asyncio.timeout(HANG_S):
        with pytest.raises(Exception) as failed:
            await service.start()
    assert not isinstance(failed.value, TimeoutError)


async def test_closing_a_stream_frees_its_sequences_before_it_returns() -> None:
    service = slow_service()
    await service.start()
    events = service.calls.events(TranslationRequest(("Good morning.", "Good night."), "ja", "en"), streamed=True)
    assert [type(await anext(events)) for _ in range(2)] == [Planned, TextDelta]
    assert service.pipeline.stats().running == 2
    await events.aclose()
    assert service.pipeline.stats().running == 0
    assert (service.admission.calls, service.calls.registry.in_flight) == (0, 0)
    await service.stop()


async def test_no_more_sequences_leave_the_fair_order_than_engines_elsewhere_have_slots() -> None:
    tokenizer = Tokenizer.from_file(str(phrasebook.model_dir() / "tokenizer.json"))
    engine = FakePipeline(lambda sequence: pseudolocalized(tokenizer.decode(sequence.prompt_token_ids)))
    async with listening(Upstream(tokenizer, software="llamacpp", pipeline=engine)) as upstream:  # of 4 slots
        settings = Settings(
            pipeline=PipelineSettings("remote"), remote=RemoteSettings(upstream.url), cache=CacheSettings(max_bytes=0)
        )
        service = TranslationService.from_settings(settings)
        await service.start()
        upstream.gate.clear()
        texts = tuple(f"Good morning number {number}." for number in range(12))
        task = asyncio.create_task(service.calls.translate(TranslationRequest(texts, "ja", "en")))
        await until(lambda: service.pipeline.stats().waiting == 1, "what waits in the engine")
        assert service.pipeline.stats().running == 4
        upstream.gate.set()
        assert [one.text for one in await task] == [pseudolocalized(text) for text in texts]
        await service.stop()
