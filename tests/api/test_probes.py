"""Probes while an engine restarts after a crash, and when it does not."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from dragoman.pipelines.continuous import ContinuousPipeline
from dragoman.service.service import TranslationService
from dragoman.settings import AdmissionSettings, CacheSettings, EngineSettings, Settings
from tests.pipelines.crashing import CrashingEngine
from tests.serving import echoing, served, service_over
from tests.waiting import until

BODY = {"text": "Hello there.", "source": "en", "target": "ja"}


@pytest.fixture
def engine() -> CrashingEngine:
    return CrashingEngine(echoing())


@pytest.fixture
def service(engine: CrashingEngine) -> TranslationService:
    """Full with three calls."""
    settings = Settings(
        engine=EngineSettings(max_num_seqs=2),
        admission=AdmissionSettings(max_in_flight_characters=3 * len(BODY["text"])),
        cache=CacheSettings(max_bytes=0),
    )
    return service_over(ContinuousPipeline(engine, first_pause_s=0), settings)


async def probe(client: httpx.AsyncClient) -> tuple[int, str]:
    answer = await client.get("/readyz")
    said = answer.json()
    return answer.status_code, said["error"]["code"] if "error" in said else said["status"]


async def test_a_restart_shows_and_calls_wait_up_to_the_limit(
    service: TranslationService, engine: CrashingEngine
) -> None:
    async with served(service) as client:
        assert await probe(client) == (200, "ready")
        engine.may_start.clear()
        engine.crash()
        await until(lambda: service.pipeline.stats().restarting, "a restart under way")
        assert await probe(client) == (503, "restarting")
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "engine": "restarting"})
        calls = [asyncio.create_task(client.post("/v1/translate", json=BODY)) for _ in range(3)]
        await until(lambda: service.pipeline.stats().waiting == 3, "three waiting sequences")
        refused = await client.post("/v1/translate", json=BODY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        stats = (await client.get("/v1/stats")).json()
        assert (stats["state"], stats["engine"]["restarts"], stats["in_flight"]) == ("restarting", 0, 3)
        engine.may_start.set()
        answers = await asyncio.gather(*calls)
        assert [answer.json()["translations"][0]["text"] for answer in answers] == ["~Hello there."] * 3
        assert await probe(client) == (200, "ready")
        stats = (await client.get("/v1/stats")).json()
        assert (stats["state"], stats["engine"]["restarts"]) == ("serving", 1)


async def test_a_client_that_hangs_up_during_a_restart_gives_its_place_back(
    service: TranslationService, engine: CrashingEngine
) -> None:
    async with served(service) as client:
        engine.may_start.clear()
        engine.crash()
        leaving = asyncio.create_task(client.post("/v1/translate", json=BODY))
        await until(lambda: service.pipeline.stats().waiting == 1, "a waiting sequence")
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await until(lambda: service.admission.calls == 0, "no call in flight")
        assert service.pipeline.stats().waiting == 0


async def test_an_engine_that_is_lost_refuses_calls(service: TranslationService, engine: CrashingEngine) -> None:
    async with served(service) as client:
        engine.failing_starts = 1_000
        engine.crash()
        await service.lost()
        assert await probe(client) == (503, "engine_dead")
        answer = await client.post("/v1/translate", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_dead")
        assert (await client.get("/healthz")).status_code == 200
