"""The repository of translation memories, over each database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dragoman.errors import BodyTooLarge, InvalidMemory, MemoryExists, UnknownMemory
from dragoman.storage import memories as module
from dragoman.storage.database import Database, utc_now
from dragoman.storage.memories import (
    EntryPage,
    MemoryLimits,
    MemoryStore,
    MemoryVersion,
    NewEntry,
    StoredJob,
    digest_of,
)
from dragoman.storage.named import PairCount

FIVE = MemoryLimits(5, 1_000_000)
MOST = MemoryLimits(1_000, 1_000_000)


def entry(text: str, translation: str = "はい", source: str = "en", target: str = "ja") -> NewEntry:
    return NewEntry(source, target, text, translation)


@pytest.fixture
def store(database: Database) -> MemoryStore:
    return MemoryStore(database)


async def texts(store: MemoryStore, memory: str, account: str = "a") -> dict[str, str]:
    page = await store.page(account, memory, 100)
    return {one.text: one.translation for one in page.entries}


async def test_a_memory_is_found_by_id_and_by_name_by_its_account_alone(store: MemoryStore) -> None:
    made = await store.create("a", " manuals ")
    assert (made.name, made.version, made.pairs, made.entry_count) == ("manuals", 1, (), 0)
    assert await store.get("a", made.id) == await store.get("a", "manuals") == made
    assert (await store.create("b", "manuals")).id != made.id
    for work in (
        store.get("b", made.id),
        store.rename("b", made.id, "x"),
        store.delete("b", made.id),
        store.add("b", made.id, [entry("Yes.")], MOST),
        store.page("b", made.id, 10),
        store.remove("b", made.id, f"en.{'0' * 32}.ja"),
        store.get("a", "x" * 300),
        store.get("a", "a\nb"),
    ):
        with pytest.raises(UnknownMemory):
            await work
    with pytest.raises(MemoryExists):
        await store.create("a", "manuals")
    for name in ("", "a/b", "a\nb", "x" * 201, made.id):
        with pytest.raises(InvalidMemory):
            await store.create("a", name)
    assert [one.name for one in await store.list("a")] == ["manuals"]


async def test_an_account_has_so_many_memories(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMORIES", 2)
    await store.create("a", "1")
    await store.add("a", "2", [entry("Yes.")], MOST, create=True)
    with pytest.raises(InvalidMemory):
        await store.create("a", "3")
    with pytest.raises(InvalidMemory):
        await store.add("a", "3", [entry("Yes.")], MOST, create=True)
    await store.create("b", "3")


async def test_a_text_has_one_translation_in_a_direction_and_the_last_one_stays(store: MemoryStore) -> None:
    memory = await store.add(
        "a", "m", [entry("Yes.", "はい"), entry("Yes.", "ええ"), entry("No.", "いいえ")], MOST, create=True
    )
    assert await texts(store, "m") == {"Yes.": "ええ", "No.": "いいえ"}
    await store.add(
        "a",
        memory,
        [entry("Yes.", "はい。"), entry("Yes.", "예", target="ko"), entry("Hai.", "Yes.", "ja", "en")],
        MOST,
    )
    stored = await store.get("a", "m")
    assert stored.version == 3
    assert stored.pairs == (PairCount("en", "ja", 2), PairCount("en", "ko", 1), PairCount("ja", "en", 1))
    found = await store.page("a", "m", 100, pair=("en", "ja"))
    assert {one.text: one.translation for one in found.entries} == {"Yes.": "はい。", "No.": "いいえ"}
    assert all(one.updated_at >= one.created_at for one in found.entries)


async def test_entries_are_read_by_pages_in_an_order_that_stays(store: MemoryStore) -> None:
    new = [entry(f"Text {number}.", target=target) for number in range(7) for target in ("ja", "ko")]
    await store.add("a", "m", new, MOST, create=True)
    read: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page: EntryPage = await store.page("a", "m", 3, cursor)
        assert 0 < len(page.entries) <= 3
        read += (one.id for one in page.entries)
        cursor = page.cursor
    assert len(read) == len(set(read)) == 14
    assert read == [one.id for one in (await store.page("a", "m", 100)).entries]
    with pytest.raises(InvalidMemory):
        await store.page("a", "m", 3, "' OR 1=1")


async def test_entries_are_found_by_what_they_have(store: MemoryStore) -> None:
    await store.add(
        "a",
        "m",
        [entry("The Old map.", "古い地図"), entry("100% of it_", "全部"), entry("100 of it", "百")],
        MOST,
        create=True,
    )

    async def found(wanted: str, *, case_sensitive: bool = False) -> set[str]:
        page = await store.page("a", "m", 100, find=wanted, case_sensitive=case_sensitive)
        return {one.text for one in page.entries}

    assert await found("old MAP") == {"The Old map."}
    assert await found("old map", case_sensitive=True) == set()
    assert await found("Old map", case_sensitive=True) == {"The Old map."}
    assert await found("地図") == {"The Old map."}
    assert await found("0%") == {"100% of it_"}
    assert await found("it_") == {"100% of it_"}


async def test_an_entry_is_deleted_by_its_id(store: MemoryStore) -> None:
    await store.add("a", "m", [entry("Yes."), entry("No.")], MOST, create=True)
    first, second = (await store.page("a", "m", 10)).entries
    await store.remove("a", "m", first.id)
    assert await texts(store, "m") == {second.text: second.translation}
    for id in (first.id, "x", f"{second.id}.x"):
        with pytest.raises(UnknownMemory):
            await store.remove("a", "m", id)
    await store.delete("a", "m")
    assert await store.list("a") == ()
    assert await store.versions() == []
    await store.create("a", "m")
    assert await texts(store, "m") == {}


async def test_the_entries_of_an_account_are_limited_and_all_or_none_are_added(store: MemoryStore) -> None:
    await store.add("a", "m", [entry(f"{number}.") for number in range(3)], FIVE, create=True)
    await store.add("a", "n", [entry("0.")], FIVE, create=True)
    with pytest.raises(BodyTooLarge):
        await store.add("a", "n", [entry("1."), entry("2.")], FIVE)
    assert await texts(store, "n") == {"0.": "はい"}
    await store.add("a", "m", [entry("0.", "零"), entry("1.", "一"), entry("3.")], FIVE)  # two of them replace others
    await store.add("b", "m", [entry(f"{number}.") for number in range(5)], FIVE, create=True)


async def test_a_server_reads_what_is_new_to_it(store: MemoryStore) -> None:
    id = await store.add("a", "m", [entry("Yes."), entry("No."), entry("Yes.", target="ko")], MOST, create=True)
    [version] = await store.versions()
    assert version == MemoryVersion(id, "a", 2)
    first = await store.digests(id, 0)
    assert sorted(first) == sorted(
        [("en", "ja", digest_of("Yes.")), ("en", "ja", digest_of("No.")), ("en", "ko", digest_of("Yes."))]
    )
    assert [digest for _, _, digest in first] == sorted(digest for _, _, digest in first)
    assert await store.digests(id, version.version) == []
    await store.add("a", id, [entry("New.")], MOST)
    assert await store.digests(id, version.version) == [("en", "ja", digest_of("New."))]


async def test_texts_are_looked_up_in_several_memories_and_the_last_change_is_first(store: MemoryStore) -> None:
    one = await store.add("a", "1", [entry("Yes.", "はい"), entry("No.", "いいえ")], MOST, create=True)
    two = await store.add("a", "2", [entry("Yes.", "ええ"), entry("Yes.", "예", target="ko")], MOST, create=True)
    digests = [digest_of(text) for text in ("Yes.", "Never.")]
    found = await store.find([one, two], [("en", "ja")], digests)
    assert [(each.text, each.translation) for each in found] == [("Yes.", "ええ"), ("Yes.", "はい")]
    assert [each.translation for each in await store.find([one], [("en", "ja"), ("en", "ko")], digests)] == ["はい"]


async def test_two_that_write_at_the_same_time_lose_nothing(store: MemoryStore) -> None:
    await store.create("a", "m")
    await asyncio.gather(*(store.add("a", "m", [entry(f"{number}.")], MOST) for number in range(20)))
    assert (await store.get("a", "m")).version == 21
    versions = [await store.digests((await store.get("a", "m")).id, after) for after in range(1, 21)]
    assert [len(one) for one in versions] == [*range(20, 0, -1)]


async def test_a_job_is_changed_once_from_a_status_and_forgotten_when_it_has_expired(store: MemoryStore) -> None:
    now = utc_now()
    job = StoredJob("1", "a", "import", "awaiting_input", "secret", "m", now, now, now + timedelta(hours=1))
    assert await store.add_job(job, 10, 10, now)
    assert await store.job("1") == job
    assert await store.update_job("1", "awaiting_input", status="processing")
    assert not await store.update_job("1", "awaiting_input", status="processing")
    assert await store.add_job(replace(job, id="2", expires_at=now - timedelta(seconds=1)), 10, 10, now)
    assert await store.job("2") is None
