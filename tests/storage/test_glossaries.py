"""The repository of glossaries, over each database."""

from __future__ import annotations

import asyncio
from datetime import UTC

import pytest
from sqlalchemy import text

from dragoman.errors import (
    BodyTooLarge,
    DragomanError,
    GlossaryExists,
    InvalidGlossary,
    UnknownGlossary,
    UnsupportedLanguage,
)
from dragoman.storage import glossaries as module
from dragoman.storage.collections import MAX_NAME_CHARACTERS, PairCount
from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries

ENTRIES = {"server": "Server", "queue": "Warteschlange"}


async def test_a_glossary_is_created_and_found_by_id_and_by_name(glossaries: Glossaries) -> None:
    made = await glossaries.create("a", " IT 用語 ", {("EN_us", "de"): {" server ": "Server"}, ("de", "en"): ENTRIES})
    assert (made.name, made.version) == ("IT 用語", 1)
    assert made.pairs == (PairCount("en-US", "de", 1), PairCount("de", "en", 2))
    assert made.created_at == made.updated_at
    assert made.created_at.tzinfo is UTC
    assert await glossaries.get("a", made.id) == await glossaries.get("a", "IT 用語") == made
    assert (await glossaries.dictionary("a", made.id, "en-US", "de")).entries == {"server": "Server"}


async def test_glossaries_are_listed_by_name(glossaries: Glossaries) -> None:
    assert await glossaries.list("a") == ()
    for name in ("b", "a", "C"):
        await glossaries.create("a", name, {("en", "de"): ENTRIES} if name == "a" else None)
    assert [(one.name, len(one.pairs)) for one in await glossaries.list("a")] == [("C", 0), ("a", 1), ("b", 0)]


async def test_each_change_is_a_version(glossaries: Glossaries) -> None:
    await glossaries.create("a", "g", {("en", "de"): ENTRIES, ("en", "fr"): {"queue": "file"}})
    merged = await glossaries.merge("a", "g", "en", "de", {"queue": "Schlange", "cache": "Cache"})
    assert (merged.version, merged.pairs[0].entry_count) == (2, 3)
    assert merged.updated_at >= merged.created_at
    stored = await glossaries.dictionary("a", "g", "en", "de")
    assert list(stored.entries.items()) == [("cache", "Cache"), ("queue", "Schlange"), ("server", "Server")]
    assert stored.key == (merged.id, 2, "en", "de")
    replaced = await glossaries.replace("a", "g", "en", "de", {"only": "nur"})
    assert replaced.version == 3
    assert (await glossaries.dictionary("a", "g", "en", "de")).entries == {"only": "nur"}
    left = await glossaries.delete_dictionary("a", "g", "en", "de")
    assert (left.version, left.pairs) == (4, (PairCount("en", "fr", 1),))
    assert (await glossaries.dictionary("a", "g", "en", "de")).entries == {}


async def test_dictionaries_are_in_the_order_in_which_they_were_created(glossaries: Glossaries) -> None:
    created = await glossaries.create("a", "a", {("ja", "en"): {"猫": "cat"}, ("en", "ko"): {"cat": "고양이"}})
    await glossaries.merge("a", created.id, "en", "de", {"cat": "Katze"})
    await glossaries.replace("a", created.id, "ja", "en", {"犬": "dog"})
    pairs = [("ja", "en"), ("en", "ko"), ("en", "de")]
    assert [(one.source, one.target) for one in (await glossaries.get("a", "a")).pairs] == pairs
    await glossaries.delete_dictionary("a", created.id, "ja", "en")
    await glossaries.merge("a", created.id, "ja", "en", {"猫": "cat"})
    assert [(one.source, one.target) for one in (await glossaries.get("a", "a")).pairs] == [*pairs[1:], pairs[0]]


async def test_a_dictionary_serves_regions_of_its_languages(glossaries: Glossaries) -> None:
    await glossaries.create("a", "g", {("en", "pt"): ENTRIES, ("en", "zh"): {"queue": "队列"}})
    assert (await glossaries.dictionary("a", "g", "en-GB", "pt-BR")).entries == ENTRIES
    assert (await glossaries.dictionary("a", "g", "en", "zh-Hant")).entries == {}
    first = await glossaries.dictionary("a", "g", "en", "zh")
    assert await glossaries.dictionary("a", "g", "English", "zh-CN") is first


async def test_a_deleted_glossary_is_unknown(glossaries: Glossaries) -> None:
    made = await glossaries.create("a", "g", {("en", "de"): ENTRIES})
    await glossaries.delete("a", "g")
    again = await glossaries.create("a", "g")
    assert again.pairs == ()
    for reference in (made.id, "other", "", "x" * 300, "a\x00b"):
        with pytest.raises(UnknownGlossary):
            await glossaries.get("a", reference)
        with pytest.raises(UnknownGlossary):
            await glossaries.delete("a", reference)
    with pytest.raises(UnknownGlossary):
        await glossaries.merge("a", made.id, "en", "de", ENTRIES)


@pytest.mark.parametrize(
    "entries",
    [
        {"": "x"},
        {"x": " "},
        {"a\tb": "x"},
        {"a": "x\ny"},
        {"a": "\ud800"},
        {"a\x00": "x"},
        {"a": "x" * 501},
        {"a": "x", " a": "y"},
    ],
)
async def test_wrong_entries_are_refused_and_nothing_changes(glossaries: Glossaries, entries: dict[str, str]) -> None:
    await glossaries.create("a", "g", {("en", "de"): ENTRIES})
    with pytest.raises(InvalidGlossary):
        await glossaries.replace("a", "g", "en", "de", entries)
    stored = await glossaries.dictionary("a", "g", "en", "de")
    assert (stored.version, stored.entries) == (1, ENTRIES)


async def test_wrong_languages_are_refused(glossaries: Glossaries) -> None:
    await glossaries.create("a", "g")
    with pytest.raises(UnsupportedLanguage):
        await glossaries.merge("a", "g", "klingon?", "de", ENTRIES)
    with pytest.raises(InvalidGlossary):
        await glossaries.merge("a", "g", "zh", "cmn", ENTRIES)


async def test_entries_are_limited_and_too_many_change_nothing(
    glossaries: Glossaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    await glossaries.create("a", "g", {("en", "de"): ENTRIES})
    with pytest.raises(BodyTooLarge):
        await glossaries.merge("a", "g", "en", "fr", ENTRIES)
    with pytest.raises(BodyTooLarge):
        await glossaries.merge("a", "g", "en", "de", {"a": "1", "b": "2"})
    assert (await glossaries.get("a", "g")).version == 1
    assert (await glossaries.merge("a", "g", "en", "de", {"a": "1", "queue": "2"})).version == 2


async def test_the_longest_entries_are_stored(glossaries: Glossaries) -> None:
    term = "𠮷" * module.MAX_TERM_CHARACTERS
    await glossaries.create("a", "𠮷" * MAX_NAME_CHARACTERS, {("zh-Hant-TW", "sr-Latn-RS"): {term: term}})
    [made] = await glossaries.list("a")
    assert (await glossaries.dictionary("a", made.name, "zh-Hant-TW", "sr-Latn-RS")).entries == {term: term}


async def test_changes_at_the_same_time_all_count(glossaries: Glossaries, url: str) -> None:
    made = await glossaries.create("a", "g")
    other = Database(url)  # as another server has it
    await other.open()
    try:
        await asyncio.gather(
            *(
                one.merge("a", "g", "en", "de", {f"term {n}": "x"})
                for n in range(12)
                for one in (glossaries, Glossaries(other))
            )
        )
        outcomes = await asyncio.gather(
            *(one.create("a", "same") for one in (glossaries, Glossaries(other)) * 3), return_exceptions=True
        )
    finally:
        await other.close()
    changed = await glossaries.get("a", made.id)
    assert (changed.version, changed.pairs[0].entry_count) == (25, 12)
    assert sum(isinstance(outcome, GlossaryExists) for outcome in outcomes) == 5
    assert not [one for one in outcomes if isinstance(one, Exception) and not isinstance(one, DragomanError)]


async def test_what_a_list_shows_is_bounded_and_so_is_what_one_write_writes(
    glossaries: Glossaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Glossaries, "most", 2)
    monkeypatch.setattr(module, "MAX_DICTIONARIES", 3)
    monkeypatch.setattr(module, "MAX_DICTIONARY_CHARACTERS", 60)
    await glossaries.create("a", "a", {("en", "de"): ENTRIES})
    await glossaries.create("a", "b", {("en", "de"): ENTRIES, ("en", "fr"): ENTRIES})
    for work in (
        glossaries.create("a", "c"),
        glossaries.merge("a", "a", "en", "fr", ENTRIES),
        glossaries.merge("a", "a", "en", "de", {"x" * 20: "y"}),
    ):
        with pytest.raises(BodyTooLarge):
            await work
    assert {one.name: len(one.pairs) for one in await glossaries.list("a")} == {"a": 1, "b": 2}
    await glossaries.replace("a", "a", "en", "de", {"x": "y"})


async def test_a_list_does_not_read_the_entries(glossaries: Glossaries, database: Database) -> None:
    await glossaries.create("a", "g", {("en", "de"): ENTRIES})
    await database.write(
        lambda connection: connection.execute(text("UPDATE glossary_dictionaries SET entries = 'broken'"))
    )
    assert [one.pairs for one in await glossaries.list("a")] == [(PairCount("en", "de", 2),)]


async def test_servers_that_merge_at_the_same_time_lose_nothing(url: str) -> None:
    databases = [Database(url) for _ in range(3)]
    for one in databases:
        await one.open()
    servers = [Glossaries(one) for one in databases]
    await servers[0].create("a", "g")
    await asyncio.gather(
        *(servers[n % 3].merge("a", "g", "en", "de", {f"{n} {m}": "x" for m in range(50)}) for n in range(12))
    )
    [stored] = await servers[0].list("a")
    assert (stored.version, stored.pairs) == (13, (PairCount("en", "de", 600),))
    for one in databases:
        await one.close()
