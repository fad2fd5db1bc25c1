"""Clients of DeepL, LibreTranslate, Google and the plug-ins that give up: their retry joins the generation in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from dragoman.api.compat import exchange
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, Settings
from tests.serving import HeldPipeline, echoing, served, service_over
from tests.waiting import until

REQUESTS: dict[str, dict[str, Any]] = {
    "/v2/translate": {"text": ["Good morning."], "source_lang": "EN", "target_lang": "JA"},
    "/translate": {"q": ["Good morning."], "source": "en", "target": "ja"},
    "/language/translate/v2": {"q": ["Good morning."], "source": "en", "target": "ja"},
    "/deeplx/translate": {"text": "Good morning.", "source_lang": "en", "target_lang": "ja"},
    "/immersive/translate": {"text_list": ["Good morning."], "source_lang": "en", "target_lang": "ja"},
    "/kiss/translate": {"text": "Good morning.", "from": "en", "to": "ja"},
}


def held() -> tuple[TranslationService, HeldPipeline]:
    pipeline = HeldPipeline(echoing())
    return service_over(pipeline, Settings(cache=CacheSettings(max_bytes=2**20))), pipeline


async def give_up(client: httpx.AsyncClient, pipeline: HeldPipeline, path: str) -> None:
    """Send a request and disconnect once its sequence runs."""
    sent = asyncio.create_task(client.post(path, json=REQUESTS[path]))
    await until(lambda: pipeline.generations > 0, "the sequence")
    sent.cancel()
    await asyncio.gather(sent, return_exceptions=True)


async def test_a_retry_joins_the_generation() -> None:
    service, pipeline = held()
    async with served(service) as client:
        for path, body in REQUESTS.items():
            service.cache.clear()
            pipeline.hold()
            await give_up(client, pipeline, path)
            pipeline.release.set()
            answer = await client.post(path, json=body)
            assert (answer.status_code, pipeline.generations) == (200, 1), path
            await until(lambda: service.admission.calls == 0, "the end of the first call")


async def test_without_a_retry_the_sequences_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RETRY_GRACE_S", 0.01)
    service, pipeline = held()
    async with served(service) as client:
        pipeline.hold()
        await give_up(client, pipeline, "/translate")
        await until(lambda: service.admission.calls == 0, "the end of the call")
        await until(lambda: pipeline.stats().running == 0, "no running sequence")
