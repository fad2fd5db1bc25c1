"""A fake service with a call of every kind that metrics count, and the metrics that the documentation lists."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from dragoman.gpu import NvmlGpus
from dragoman.pipelines.fake import FakePipeline
from dragoman.service.service import TranslationService
from dragoman.settings import CacheSettings, ServerSettings, Settings
from dragoman.telemetry.metrics import GpuCollector, StorageCollector, StorageGauges
from dragoman.telemetry.requests import DocumentRecord
from dragoman.types import EngineSequence
from dragoman.wire import EngineStats, RemoteEngineStats
from tests.serving import echoing, service_over, source_of
from tests.telemetry.nvml_stand_in import stand_in
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DOCUMENTATION = ROOT / "docs" / "operating.md"
_ROW = re.compile(r"^\| `(dragoman_\w+)` \| (\w+) \|([^|]*)\| .+ \|$", re.MULTILINE)
JSON = {"content-type": "application/json"}
TEXTS = ("Where is the train station?", "Good morning, my friend.", "Number 101 is on floor 3, next to {place}.", "42")


@dataclass(frozen=True)
class Documented:
    """A row of the table of metrics."""

    type: str
    labels: frozenset[str]


def documented() -> dict[str, Documented]:
    rows = _ROW.findall(DOCUMENTATION.read_text(encoding="utf-8"))
    return {name: Documented(kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def _answer(sequence: EngineSequence) -> str:
    """A model with faults: numbers and placeholders get lost, lines are joined, some things are said without end."""
    source = source_of(sequence)
    if "slow" in source:
        return " ".join(["word"] * 200)
    if "{place}" in source:
        return "somewhere"
    if "babble" in source:
        return " ".join(["word"] * 5000)
    if "\n" in source:
        return "ふたつの行が文章になります。"
    return echoing()(sequence)


class _Pipeline(FakePipeline):
    """The fake, which also reports an engine elsewhere, and the limit of sequences after crashes."""

    def stats(self) -> EngineStats:
        elsewhere = RemoteEngineStats(url="http://gpu-1:8000", slots=8, running=1, losses=1, busy=False, fault="")
        return super().stats().model_copy(update={"remote": [elsewhere], "slot_limit": 4})


def metered_service() -> TranslationService:
    """Over the fake pipeline, with GPUs and an engine elsewhere that are not there."""
    settings = Settings(server=ServerSettings(max_body_bytes=20_000, max_texts=40), cache=CacheSettings(max_bytes=0))
    service = service_over(_Pipeline(_answer, step_s=0.001), settings)
    gpus = NvmlGpus(stand_in(), (0, 1))
    service.metrics.registry.register(GpuCollector(gpus.describe(), gpus.read))
    keys = {"valid": 5, "near_quota": 1, "near_expiry": 2}
    storage = StorageGauges(True, 1, {"queued": 2, "translating": 1}, 2**20, 2**30, keys)
    service.metrics.registry.register(StorageCollector(lambda: storage))
    return service


async def post(client: httpx.AsyncClient, **body: object) -> int:
    return (await client.post("/v1/translate", json=body)).status_code


async def some_of_everything(client: httpx.AsyncClient, service: TranslationService) -> None:
    """Translations with and without warnings, a stream, refusals, a client that leaves, requests that are wrong."""
    for target in ("ja", "ko"):
        assert await post(client, text=list(TEXTS), source="en", target=target) == 200
    assert await post(client, text="Two lines\nmake a text.", source="en", target="ja") == 200
    assert await post(client, text="Please babble.", source="en", target="ja") == 200
    assert await post(client, text="Good evening.", source="en", target="ja", stream=True) == 200
    assert await post(client, text="Good evening.", target="tlh") == 400
    deepl = {"text": ["Good evening."], "source_lang": "EN", "target_lang": "JA"}
    headers = {"Authorization": "DeepL-Auth-Key any"}
    assert (await client.post("/v2/translate", json=deepl, headers=headers)).status_code == 200
    assert (await client.post("/v1/translate", content=b"{", headers=JSON)).status_code == 400
    assert (await client.get("/v1/no-such-thing")).status_code == 404
    full = asyncio.create_task(post(client, text=["slow"] * 30, source="en", target="ja"))
    await until(lambda: service.admission.calls == 1, "a call in flight")
    limit, service.admission.limit = service.admission.limit, 30
    assert await post(client, text="One more.", source="en", target="ja") == 429
    service.admission.limit = limit
    full.cancel()
    await asyncio.gather(full, return_exceptions=True)
    await until(lambda: service.admission.calls == 0, "no call in flight")
    for outcome in ("ok", "invalid_file"):
        service.metrics.document_ended(DocumentRecord("docx", outcome, 100, 2.0))
    service.metrics.document_worked_on("read", 0.3)
    for operation in ("read", "write"):
        service.metrics.storage_ended(operation, 0.002)
        service.metrics.storage_ended(operation, None)
