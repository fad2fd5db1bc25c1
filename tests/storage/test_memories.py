"""The repository of translation memories, over each database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, text

from dragoman.errors import BodyTooLarge, InvalidMemory, StorageUnavailable, UnknownMemory
from dragoman.storage import memories as module
from dragoman.storage.collections import PairCount
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

FIVE = MemoryLimits(5, 1_000_000)
T = TypeVar("T")
MOST = MemoryLimits(1_000, 1_000_000)


def entry(text: str, translation: str = "はい", source: str = "en", target: str = "ja") -> NewEntry:
    return NewEntry(source, target, text, translation)


@pytest.fixture
def store(database: Database) -> MemoryStore:
    return MemoryStore(database)


async def texts(store: MemoryStore, memory: str, account: str = "a") -> dict[str, str]:
    page = await store.page(account, memory, 100)
    return {one.text: one.translation for one in page.entries}


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


FOLDED = [
    ("Привет, мир", "привет", "Привет", "ПРИВЕТ", "рив"),
    ("Die STRASSE", "straße", "strasse", "Straße"),
    ("die Straße", "STRASSE", "strasse", "ẞE"),
    ("İstanbul, IĞDIR", "istanbul", "İSTANBUL", "ISTANBUL", "iğdır", "IĞDIR"),
    ("ΌΣΟΣ καλός", "όσος", "ΚΑΛΌΣ", "καλόσ"),
    ("Cafe\u0301 français", "café", "CAFÉ", "FRANC\u0327AIS"),
    ("Ｐｒｉｃｅ ｶﾞｷﾞ", "price", "ガギ", "PRICE"),
    ("Größe \ufb01ne", "GRÖSSE", "fine"),
    ("a" + "\u0301\u0316" * 9_000, "A\u0301"),
]


@pytest.mark.parametrize("side", ["text", "translation"])
async def test_texts_are_found_in_any_case_of_any_script(store: MemoryStore, side: str) -> None:
    new = [entry(one, str(n)) if side == "text" else entry(str(n), one) for n, (one, *_) in enumerate(FOLDED)]
    await store.add("a", "m", new, MOST, create=True)
    for n, (whole, *wanted) in enumerate(FOLDED):
        for find in (whole, *wanted):
            page = await store.page("a", "m", 100, find=find)
            assert new[n] in [NewEntry(one.source, one.target, one.text, one.translation) for one in page.entries], find
        assert not (await store.page("a", "m", 100, find=f"{whole}z")).entries
    for find, expected in (
        ("ПРИВЕТ", 0),
        ("Привет", 1),
        ("STRASSE", 1),
        ("Straße", 1),
        ("Café", 1),
        ("café", 0),
        ("\x00", 0),
    ):
        page = await store.page("a", "m", 100, find=find, case_sensitive=True)
        assert len(page.entries) == expected, find


async def test_entries_that_a_server_of_before_wrote_are_found(store: MemoryStore, database: Database) -> None:
    await store.add("a", "m", [entry("Привет", "Straße"), entry("Yes.")], MOST, create=True)
    unfolded = text("UPDATE memory_entries SET folded_text = NULL, folded_translation = NULL")
    await database.write(lambda connection: connection.execute(unfolded))
    for find in ("привет", "STRASSE"):
        assert [one.text for one in (await store.page("a", "m", 9, find=find)).entries] == ["Привет"]


async def pages(store: MemoryStore, **options: Any) -> list[EntryPage]:
    """All pages of the memory `m`."""
    found = [await store.page("a", "m", 100, **options)]
    while found[-1].cursor is not None:
        found.append(await store.page("a", "m", 100, found[-1].cursor, **options))
    return found


async def test_a_search_looks_at_a_bounded_part_in_each_transaction_and_goes_on(
    store: MemoryStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = [entry("a" * 200 + str(n), "b" * 200, target=("ja", "ko")[n % 2]) for n in range(300)]
    await store.add("a", "m", [*new, entry("needle")], MOST, create=True)
    monkeypatch.setattr(module, "SCAN_CHARACTERS", 10_000)
    transactions = 0
    read = database.read

    async def counted(work: Callable[[Connection], T]) -> T:
        nonlocal transactions
        transactions += 1
        return await read(work)

    monkeypatch.setattr(database, "read", counted)
    found = await pages(store, find="NEEDLE")
    assert [one.text for page in found for one in page.entries] == ["needle"]
    assert found[0].entries  # it went on until there was one
    assert transactions >= 120_000 / 20_000
    monkeypatch.setattr(module, "SEARCH_S", 0.0)
    found = await pages(store, find="needle")
    assert len(found) >= 120_000 / 20_000 > sum(bool(page.entries) for page in found) == 1
    for options in ({}, {"find": "A"}, {"pair": ("en", "ko")}, {"find": "a", "pair": ("en", "ja")}):
        listed = [one for page in await pages(store, **options) for one in page.entries]
        keys = [(one.source, one.digest, one.target) for one in listed]
        wanted = [one for one in new if one.target in options.get("pair", ("ja", "ko"))]
        assert keys == sorted({one.key for one in wanted} | ({entry("needle").key} if not options else set()))
    assert max(len(page.entries) for page in await pages(store)) * 400 <= 2 * 10_000  # nor is a page larger


async def test_a_memory_that_is_deleted_is_gone_at_once_and_its_entries_are_deleted_in_parts(
    store: MemoryStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELETE_BYTES", 1_000)
    id = await store.add("a", "m", [entry("x" * 100 + str(n)) for n in range(95)], MOST, create=True)
    write, writes = database.write, 0

    async def failing(work: Callable[[Connection], T]) -> T:
        nonlocal writes
        writes += 1
        if writes > 2:
            raise StorageUnavailable("the server stops")
        return await write(work)

    monkeypatch.setattr(database, "write", failing)
    with pytest.raises(StorageUnavailable):
        await store.delete("a", "m")
    monkeypatch.undo()
    assert await store.list("a") == ()
    assert await store.versions() == []
    for account in ("a", ""):
        with pytest.raises(UnknownMemory):
            await store.get(account if account else "b", id)
    count = text("SELECT count(*) FROM memory_entries")
    left = await database.read(lambda connection: connection.scalar(count))
    assert left == 95 - module.FEWEST_ROWS
    await store.create("a", "m")  # the name is free
    await store.delete_rest()
    assert await database.read(lambda connection: connection.scalar(count)) == 0
    assert [one.name for one in await store.list("a")] == ["m"]


async def test_bytes_are_limited_and_counted_as_entries_come_change_and_go(store: MemoryStore) -> None:
    most = MemoryLimits(100, 40)
    await store.add("a", "m", [entry("ä" * 5, "b" * 10), entry("c", "d" * 9)], most, create=True)  # 30 bytes
    await store.add("a", "n", [entry("e", "f" * 9)], most, create=True)  # 40
    for new in (entry("x", "y"), entry("c", "d" * 10)):
        with pytest.raises(BodyTooLarge):
            await store.add("a", "n" if new.text == "x" else "m", [new], most)
    await store.add("a", "m", [entry("c", "d")], most)  # 32
    await store.add("a", "n", [entry("x" * 4, "y" * 4)], most)  # 40
    await store.remove("a", "n", f"en.{digest_of('e').hex()}.ja")  # 30
    await store.add("a", "n", [entry("z", "z" * 9)], most)
    await store.add("a", "n", [entry("z", "z" * 8)], MemoryLimits(1, 1))  # what is stored stays, and may become less
    await store.delete("a", "m")
    await store.add("a", "n", [entry("v", "w" * 20)], most)
    await store.add("b", "m", [entry("ä" * 5, "b" * 30)], most, create=True)


async def test_the_pairs_of_an_account_are_limited(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 3)
    await store.add("a", "m", [entry("Yes.", target=target) for target in ("ja", "ko", "zh")], MOST, create=True)
    with pytest.raises(BodyTooLarge):
        await store.add("a", "m", [entry("Yes.", target="de")], MOST)
    assert len((await store.get("a", "m")).pairs) == 3


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
    assert version == MemoryVersion(id, "a", "m", 2)
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


async def test_the_jobs_of_an_account_are_limited(store: MemoryStore) -> None:
    now = utc_now()
    job = StoredJob("0", "a", "import", "awaiting_input", "secret", "m", now, now, now + timedelta(hours=1))
    stale = now - timedelta(minutes=10)
    assert await store.add_job(job, 2, 4, stale)
    assert await store.add_job(replace(job, id="1", status="processing", updated_at=stale), 2, 4, stale)
    assert not await store.add_job(replace(job, id="2"), 2, 4, stale)
    assert await store.add_job(replace(job, id="2"), 2, 4, now)  # the server of the second has died
    assert await store.add_job(replace(job, id="3", operation="export", status="completed"), 2, 4, stale)
    assert not await store.add_job(replace(job, id="4", operation="export", status="completed"), 2, 4, stale)
    assert await store.add_job(replace(job, id="4", account_id="b"), 2, 4, stale)
