"""What a service records of its traffic: everything that comes, warm-up apart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.settings import AdmissionSettings, Settings, TrafficSettings
from dragoman.telemetry.traffic.entry import TrafficEntry, TrafficReader
from dragoman.telemetry.traffic.recorder import Recorder
from tests.serving import echoing, served, service_over
from tests.waiting import until


def recording_service(folder: Path, *, record_text: bool = False, step_s: float = 0.0) -> TranslationService:
    """With two places in all, for slots and queue."""
    traffic = TrafficSettings(folder=str(folder), record_text=record_text)
    settings = Settings(admission=AdmissionSettings(max_in_flight_characters=1), traffic=traffic)
    settings = replace(settings, engine=replace(settings.engine, max_num_seqs=2))
    return service_over(FakePipeline(echoing(), step_s=step_s), settings, Recorder(traffic))


async def recorded(service: TranslationService, folder: Path) -> list[TrafficEntry]:
    """What is on disk, with the service still running."""
    assert service.recorder is not None
    await asyncio.to_thread(service.recorder.flush)
    return list(TrafficReader([folder]))


async def test_what_the_recorder_wrote_is_in_the_statistics(tmp_path: Path) -> None:
    service = recording_service(tmp_path)
    async with served(service) as client:
        for text in ("Where is the station?", "Good morning.", "12 + 3"):
            await client.post("/v1/translate", json={"text": text, "source": "en", "target": "ja"})
        refused = await client.post("/v1/translate", json={"text": ["one", "two"], "source": "en", "target": "xx"})
        assert refused.status_code == 400
        entries = await recorded(service, tmp_path)
        answer = (await client.get("/v1/stats")).json()
    assert [entry.outcome for entry in entries] == ["ok"] * 3 + ["unsupported_language"] * 2
    assert answer["recorder"] == {"state": "on", "written": 5, "lost": 0}  # the warm-up is no traffic


async def test_a_refused_text_and_one_that_its_client_gave_up_are_recorded_with_their_outcomes(tmp_path: Path) -> None:
    service = recording_service(tmp_path, step_s=0.05)
    async with served(service) as client:
        body = {"text": "Where is the station? " * 20, "source": "en", "target": "ja"}
        leaving = asyncio.create_task(client.post("/v1/translate", json=body))
        await until(lambda: service.admission.calls == 1, "a full queue")
        assert (await client.post("/v1/translate", json={**body, "text": "three"})).status_code == 429
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await until(lambda: service.calls.registry.in_flight == 0, "no call in flight")
        entries = await recorded(service, tmp_path)
    assert [entry.outcome for entry in entries] == ["queue_full", "cancelled"]
    assert entries[0].in_flight == 2
    assert all(entry.source_characters and not entry.source_tokens for entry in entries)


async def test_what_a_stop_cuts_off_is_recorded(tmp_path: Path) -> None:
    service = recording_service(tmp_path, step_s=0.05)
    async with served(service) as client:
        body = {"text": "Where is the station? " * 20, "source": "en", "target": "ja"}
        call = asyncio.create_task(client.post("/v1/translate", json=body))
        await until(lambda: service.pipeline.stats().running == 1, "a running sequence")
        await service.stop()
        assert (await call).status_code == 503
    assert [entry.outcome for entry in TrafficReader([tmp_path])] == ["engine_dead"]


async def test_texts_are_kept_only_where_the_operator_asked_for_it(tmp_path: Path) -> None:
    for folder, wanted in ((tmp_path / "without", False), (tmp_path / "with", True)):
        async with served(recording_service(folder, record_text=wanted)) as client:
            await client.post("/v1/translate", json={"text": "Secret plans.", "source": "en", "target": "ja"})
            await client.post("/v1/translate", json={"text": "More of them.", "source": "en", "target": "xx"})
    assert [entry.text for entry in TrafficReader([tmp_path / "without"])] == [None, None]
    assert [entry.text for entry in TrafficReader([tmp_path / "with"])] == ["Secret plans.", "More of them."]
    assert not any("Secret" in path.read_text() for path in (tmp_path / "without").iterdir())


def test_a_service_from_settings_records_unless_it_is_switched_off(tmp_path: Path) -> None:
    settings = replace(Settings(), pipeline=replace(Settings().pipeline, name="fake"))
    on = TranslationService.from_settings(replace(settings, traffic=TrafficSettings(folder=str(tmp_path))))
    off = TranslationService.from_settings(replace(settings, traffic=TrafficSettings(enabled=False)))
    assert on.recorder is not None
    assert off.recorder is None
