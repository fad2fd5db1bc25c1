"""The service as those above it see it, over the fake pipeline."""

from __future__ import annotations

import pytest

from dragoman.errors import EngineDead, StorageUnavailable
from dragoman.pipelines.fake import FakePipeline
from dragoman.storage.database import Database
from dragoman.types import TranslationRequest
from tests.serving import fake_service, service_over


class FailingPipeline(FakePipeline):
    async def start(self) -> None:
        raise EngineDead("it does not start")


@pytest.mark.parametrize("pipeline", [FakePipeline(), FailingPipeline()])
async def test_the_database_is_closed_when_the_service_stops_or_cannot_start(pipeline: FakePipeline) -> None:
    database = Database("sqlite://")
    service = service_over(pipeline, database=database)
    if isinstance(pipeline, FailingPipeline):
        with pytest.raises(EngineDead):
            await service.start()
    else:
        await service.start()
        await service.stop()
    with pytest.raises(StorageUnavailable):
        await database.read(lambda _: None)


async def test_closing_a_stream_frees_its_sequences_before_it_returns() -> None:
    service = fake_service(lambda _: " ".join(["word"] * 400), step_s=0.002)
    await service.start()
    events = service.stream(TranslationRequest(("Good morning.", "Good night."), "ja", "en"))
    await anext(events)
    assert service.pipeline.stats().running == 2
    await events.aclose()
    assert service.pipeline.stats().running == 0
    assert (service.admission.calls, service.calls.in_flight) == (0, 0)
    await service.stop()
