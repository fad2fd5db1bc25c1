"""Documents in the database: who works on which, over several servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dragoman.storage.database import Database, utc_now
from dragoman.storage.documents import RETRY_S, DocumentStore, StoredDocument, uncharged_characters


def document(name: str, account: str = "a", **values: object) -> StoredDocument:
    now = utc_now()
    made = StoredDocument(
        id=name,
        account_id=account,
        secret_digest="",
        api="native",
        name=f"{name}.txt",
        format="txt",
        target="ja",
        source=None,
        detected=True,
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    return replace(made, **values)  # type: ignore[arg-type]


@pytest.fixture
async def store(database: Database) -> DocumentStore:
    return DocumentStore(database)


async def add(store: DocumentStore, *documents: StoredDocument) -> None:
    for one in documents:
        assert await store.add(one, "{}", most_in_flight=100)


def long_ago() -> object:
    return utc_now() - timedelta(minutes=1)


async def claimed(store: DocumentStore, owner: str) -> str | None:
    found = await store.claim(owner, utc_now() - timedelta(seconds=20), [""])
    return found.id if found else None


async def test_each_document_is_one_servers(url: str, store: DocumentStore) -> None:
    await add(store, *(document(f"d{number}") for number in range(12)))
    other = Database(url)
    await other.open()
    owners = [store, DocumentStore(other)]
    found = await asyncio.gather(*(claimed(owners[number % 2], f"o{number % 2}") for number in range(16)))
    await other.close()
    assert sorted(one for one in found if one) == sorted(f"d{number}" for number in range(12))
    assert found.count(None) == 4


async def test_an_account_with_few_documents_does_not_wait_for_one_with_many(store: DocumentStore) -> None:
    await add(store, document("a1"), document("a2"), document("a3"), document("b1", "b"))
    assert [await claimed(store, "o") for _ in range(4)] == ["a1", "b1", "a2", "a3"]


async def test_a_server_that_does_not_report_loses_its_document(store: DocumentStore) -> None:
    await add(store, document("d"))
    assert await claimed(store, "dead") == "d"
    assert await claimed(store, "other") is None
    assert await store.update("d", "dead", heartbeat_at=long_ago())
    assert await claimed(store, "other") == "d"
    assert not await store.update("d", "dead", state="done")
    found = await store.get("d")
    assert found is not None
    assert (found.owner, found.state, found.attempts) == ("other", "translating", 2)


async def test_what_a_server_releases_waits_again_and_was_not_tried(store: DocumentStore) -> None:
    await add(store, document("d"), document("e"))
    assert [await claimed(store, owner) for owner in ("o", "p")] == ["d", "e"]
    await store.release("o")
    found = await store.get("d")
    assert found is not None
    assert (found.state, found.owner, found.attempts) == ("queued", None, 0)
    assert [await claimed(store, "p") for _ in range(2)] == ["d", None]


async def test_a_document_is_not_tried_before_its_time(store: DocumentStore) -> None:
    await add(store, document("d", retry_at=utc_now() + timedelta(seconds=RETRY_S)))
    assert await claimed(store, "o") is None
    await store.update("d", retry_at=long_ago())
    assert await claimed(store, "o") == "d"


async def test_a_document_waits_for_the_time_of_a_server_whose_clock_is_a_minute_ahead(store: DocumentStore) -> None:
    await add(store, document("d", retry_at=utc_now() + timedelta(seconds=60 + RETRY_S)))
    assert await claimed(store, "o") is None


async def test_a_document_does_not_wait_for_a_time_of_a_clock_that_was_ahead(store: DocumentStore) -> None:
    await add(store, document("d", retry_at=utc_now() + timedelta(hours=1)))
    assert await claimed(store, "o") == "d"


async def test_an_account_has_so_many_documents_in_flight(store: DocumentStore) -> None:
    assert [await store.add(document(name), "{}", 2) for name in ("d", "e", "f")] == [True, True, False]
    assert await store.add(document("g", "b"), "{}", 2)
    await store.update("d", state="done")
    assert await store.add(document("f"), "{}", 2)


async def pending(store: DocumentStore, account_id: str) -> int:
    query = uncharged_characters(account_id)
    return await store._database.read(lambda connection: int(connection.scalar(query) or 0))


async def test_a_document_is_charged_once(store: DocumentStore) -> None:
    await add(store, document("d", state="done", characters=5), document("e", state="translating", characters=7))
    await add(store, document("f", state="error", characters=9), document("g", "b", state="done", characters=11))
    assert await pending(store, "a") == 12
    assert await asyncio.gather(*(store.charge("d") for _ in range(3))) in (
        [True, False, False],
        [False, True, False],
        [False, False, True],
    )
    assert await pending(store, "a") == 7


async def test_what_has_expired_is_gone_unless_it_is_translated_now(store: DocumentStore) -> None:
    await add(
        store, *(document(state, state=state, expires_at=long_ago()) for state in ("done", "translating", "error"))
    )
    await add(store, document("new"))
    assert await store.get("done") is None
    assert [one.id for one in await store.of_account("a")] == ["new"]
    assert sorted(await store.delete_expired()) == ["done", "error"]
    assert await store.existing(["done", "translating", "new"]) == {"translating", "new"}
