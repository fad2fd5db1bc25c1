"""What a scrape and the log show of a database: a failure with its reason, documents in flight, keys near their limits."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.errors import ConfigError, StorageUnavailable
from dragoman.service.service import TranslationService
from dragoman.settings import AuthSettings, CacheSettings, DocumentSettings, Settings
from dragoman.storage import database as storage
from dragoman.storage.database import Database
from dragoman.storage.documents import DocumentStore
from dragoman.storage.keys import Keys
from dragoman.storage.usage import UsageBatch, UsageLedger, Used
from dragoman.types import Account, TranslationRequest
from tests.serving import keyed_service
from tests.storage.test_documents import document

Samples = dict[str, float]


@asynccontextmanager
async def serving(folder: Path, *accounts: Account) -> AsyncIterator[tuple[TranslationService, Database]]:
    settings = Settings(
        auth=AuthSettings(refresh_s=3600),
        cache=CacheSettings(max_bytes=0),
        documents=DocumentSettings(folder=str(folder / "documents")),
    )
    service, database, _ = await keyed_service(folder, *accounts, settings=settings)
    await service.start()
    try:
        yield service, database
    finally:
        await service.stop()


async def scraped(service: TranslationService) -> Samples:
    """Samples by name and labels' values."""
    families = text_string_to_metric_families((await service.exposition()).decode())
    samples = [sample for family in families for sample in family.samples]
    return {" ".join([one.name, *one.labels.values()]): one.value for one in samples if "bucket" not in one.name}


async def test_a_database_that_fails_shows_in_the_metrics_and_in_the_log_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(storage, "BUSY_TIMEOUT_S", 0.05)
    async with serving(tmp_path, Account("", "a")) as (service, database):
        before = await scraped(service)
        assert (before["dragoman_storage_up"], before["dragoman_storage_errors_total write"]) == (1, 0)
        assert before["dragoman_storage_seconds_count read"] > 0
        other = sqlite3.connect(tmp_path / "dragoman.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with caplog.at_level(logging.ERROR), pytest.raises(StorageUnavailable):
            await Keys(database).create(Account("", "b"))
        assert service.metrics.is_storage_up is False
        other.execute("ROLLBACK")
        other.close()
        await Keys(database).create(Account("", "b"))
        after = await scraped(service)
        assert (after["dragoman_storage_up"], after["dragoman_storage_errors_total write"]) == (1, 1)
    [line] = [one.getMessage() for one in caplog.records if one.name == "dragoman.storage"]
    assert str(tmp_path / "dragoman.db") in line
    assert "OperationalError: database is locked" in line


async def test_a_scrape_does_not_wait_for_a_database_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.service.service._SCRAPE_READ_S", 0.01)
    begun, ends = asyncio.Event(), asyncio.Event()

    async def hangs(_: DocumentStore) -> dict[str, int]:
        begun.set()
        await ends.wait()
        return {}

    async with serving(tmp_path) as (service, _):
        monkeypatch.setattr(DocumentStore, "count_in_flight", hangs)
        samples = await scraped(service)
        assert begun.is_set()
        assert not any(name.startswith("dragoman_documents_in_flight") for name in samples)
        assert "dragoman_keys valid" in samples


async def test_documents_in_flight_and_the_folder_are_gauges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as (service, database):
        await service.documents.stop()  # none begins
        store = DocumentStore(database)
        for number, state in enumerate(("queued", "queued", "translating", "done", "error")):
            await store.add(document(f"d{number}", state=state), "{}", 20)
        samples = await scraped(service)
        assert samples["dragoman_documents_in_flight queued"] == 2
        assert samples["dragoman_documents_in_flight translating"] == 1
        assert samples["dragoman_documents_folder_bytes"] == 0
        assert samples["dragoman_documents_folder_bytes_limit"] == service.settings.documents.max_folder_bytes


async def test_keys_near_a_limit_are_counted_and_not_named(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    names = ("far", "near", "used", "soon", "later")
    limits = {name: replace(Account("", name), characters_per_month=1_000) for name in names}
    async with serving(tmp_path, *(limits[name] for name in names[:3])) as (service, database):
        keys = Keys(database)
        await keys.create(limits["soon"], now + timedelta(days=13))
        await keys.create(limits["later"], now + timedelta(days=15))
        await keys.create(replace(Account("", "rotated")))
        await keys.rotate("rotated", 3600)  # its new key does not end
        ids = {one.account.name: one.account.id for one in await keys.list()}
        month = f"{now:%Y-%m}"
        used = {"far": 899, "near": 900, "used": 1_000}
        await UsageLedger(database).add(
            UsageBatch("1", {(ids[name], month): Used(characters, 1) for name, characters in used.items()})
        )
        await service.accounts.reload()
        samples = await scraped(service)
        found = {name: samples[f"dragoman_keys {name}"] for name in ("valid", "near_quota", "near_expiry")}
        assert found == {"valid": 6, "near_quota": 2, "near_expiry": 1}
        account = service.accounts.account(ids["far"])
        assert account is not None
        await service.calls.translate(TranslationRequest(("x",), "ja", "en", account=account))
        assert (await scraped(service))["dragoman_keys near_quota"] == 3
        assert not any(id in name for id in ids.values() for name in samples)


async def test_an_error_of_a_transaction_s_own_is_no_failure_of_the_database(tmp_path: Path) -> None:
    async with serving(tmp_path) as (service, database):
        with pytest.raises(ConfigError):
            await Keys(database).revoke("nobody")
        assert (await scraped(service))["dragoman_storage_errors_total write"] == 0
