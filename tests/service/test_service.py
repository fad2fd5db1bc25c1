"""The service as those above it see it, over the fake pipeline."""

from __future__ import annotations

from dragoman.types import TranslationRequest
from tests.serving import fake_service


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
