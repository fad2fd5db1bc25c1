"""What glossaries and translation memories have in common, over each database: owners, names, versions, limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.errors import BodyTooLarge, GlossaryExists, InvalidMemory, UnknownGlossary, UnknownMemory
from dragoman.storage import glossaries as of_glossaries
from dragoman.storage.collections import SERVER
from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.memories import EDITS, SUGGESTIONS, MemoryLimits, MemoryStore, NewEntry

ENTRIES = {"server": "Server"}


@pytest.fixture(params=[Glossaries, MemoryStore])
def store(request: pytest.FixtureRequest, database: Database) -> Any:
    return request.param(database)


async def test_a_collection_is_found_by_id_and_by_name_by_its_owner_alone(store: Any) -> None:
    made = await store.create("a", " m 用語 ")
    assert (made.account_id, made.name, made.version, made.pairs, made.entry_count) == ("a", "m 用語", 1, (), 0)
    assert not made.is_shared
    assert await store.get("a", made.id) == await store.get("a", "m 用語") == made
    assert (await store.create("b", "m 用語")).id != made.id
    for account, reference in (
        ("b", made.id),
        ("", made.id),
        ("a", "x" * 300),
        ("a", "a\nb"),
        ("a", "\ud800"),
        ("a", ""),
    ):
        for work in (store.get, store.delete, lambda *one: store.rename(*one, "x")):
            with pytest.raises(store.unknown):
                await work(account, reference)
    assert await store.list("a") == (made,)
    assert [one.account_id for one in await store.list(None)] == ["a", "b"]
    await store.delete("a", "m 用語")
    assert await store.list("a") == ()
    with pytest.raises(store.unknown):
        await store.get("a", made.id)


async def test_a_collection_is_renamed_and_keeps_id_and_version(store: Any) -> None:
    made = await store.create("a", "m")
    await store.create("a", "taken")
    await store.create("b", "new")
    renamed = await store.rename("a", "m", " new ")
    assert (renamed.id, renamed.name, renamed.version) == (made.id, "new", 1)
    assert (await store.rename("a", "new", "new")).name == "new"
    for reference, name, error in (
        ("new", "taken", store.exists),
        ("m", "x", store.unknown),
        ("new", "", store.invalid),
    ):
        with pytest.raises(error):
            await store.rename("a", reference, name)


async def test_a_name_is_used_once_by_an_owner(store: Any) -> None:
    made = await store.create("a", "m")
    with pytest.raises(store.exists, match=made.id):
        await store.create("a", "m")
    for name in ("", "  ", "a\nb", "a/b", "x" * 201, made.id):
        with pytest.raises(store.invalid):
            await store.create("a", name)
    outcomes = await asyncio.gather(*(store.create("a", "same") for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(one, store.exists) for one in outcomes) == 3


async def test_an_owner_has_so_many(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "most", 2)
    for name in "mn":
        await store.create("a", name)
    with pytest.raises(store.too_many):
        await store.create("a", "o")
    if isinstance(store, MemoryStore):
        with pytest.raises(store.too_many):
            await store.add("a", "o", (), MemoryLimits(9, 9), create=True)
    await store.create("b", "o")
    assert [one.name for one in await store.list("a")] == ["m", "n"]


# ---- what the server shares


async def test_all_accounts_see_what_is_shared_and_none_of_them_changes_it(store: Any) -> None:
    shared = await store.create(SERVER, "IT")
    own = await store.create("a", "it")
    assert (shared.is_shared, own.is_shared) == (True, False)
    assert await store.list("a") == (shared, own)
    assert await store.list("b") == await store.list(SERVER) == (shared,)
    assert await store.get("a", "IT") == await store.get("b", shared.id) == shared
    for work in (
        store.rename("a", "IT", "x"),
        store.give("a", "IT", "a"),
        store.delete("a", shared.id),
        store.get(SERVER, own.id),
        store.get("b", "it"),
    ):
        with pytest.raises(store.unknown):
            await work
    assert await store.get("a", "IT") == shared


async def test_an_account_s_own_is_found_before_the_shared_one_of_its_name(store: Any) -> None:
    shared, own = await store.create(SERVER, "IT"), await store.create("a", "IT")
    assert [one.id for one in await store.list("a")] == [own.id, shared.id]
    assert (await store.get("a", "IT"), await store.get("a", shared.id)) == (own, shared)
    assert await store.get("b", "IT") == shared
    await store.delete("a", "IT")
    assert await store.get("a", "IT") == shared


async def test_what_is_shared_and_given_keeps_id_and_version(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await store.create("a", "m")
    shared = await store.give("a", "m", SERVER)
    assert (shared.id, shared.version, shared.is_shared) == (made.id, 1, True)
    with pytest.raises(store.unknown):
        await store.give("a", "m", "b")
    await store.create("a", "m")
    with pytest.raises(store.exists):
        await store.give(SERVER, "m", "a")
    with pytest.raises(store.exists):
        await store.give("a", "m", SERVER)
    given = await store.give(SERVER, "m", "b")
    assert (given.account_id, given.id, given.is_shared) == ("b", made.id, False)
    with pytest.raises(store.unknown):
        await store.get("c", made.id)
    monkeypatch.setattr(type(store), "most", 1)
    await store.rename("b", "m", "n")
    with pytest.raises(store.too_many):
        await store.give("b", made.id, "a")
    assert (await store.get("b", made.id)).account_id == "b"


# ---- memories that the server shares


async def test_what_callers_without_a_key_have_edited_and_suggested_is_never_shared(database: Database) -> None:
    store = MemoryStore(database)
    for name in (EDITS, SUGGESTIONS):
        unshared, own = await store.create(SERVER, name), await store.create("a", name)
        assert not unshared.is_shared
        assert await store.list("b") == ()
        assert await store.get("a", name) == own
        assert await store.get(SERVER, name) == unshared
        for reference in (name, unshared.id):
            with pytest.raises(UnknownMemory):
                await store.get("b", reference)
        with pytest.raises(InvalidMemory, match="never shared"):
            await store.give("a", name, SERVER)
        await store.delete("a", name)
        await store.delete(SERVER, name)
        shared = await store.create(SERVER, "m")
        with pytest.raises(InvalidMemory, match="never shared"):
            await store.rename(SERVER, "m", name)
        assert await store.get("b", "m") == shared
        await store.delete(SERVER, "m")


async def test_an_owner_is_given_no_more_entries_than_it_may_have(database: Database) -> None:
    most = MemoryLimits(2, 1_000)
    store = MemoryStore(database, most)
    for account, texts in (("a", ("x", "y")), ("b", ("z",))):
        await store.add(account, account, [NewEntry("en", "de", text, text) for text in texts], most, create=True)
    with pytest.raises(BodyTooLarge):
        await store.give("a", "a", "b")
    await store.give("a", "a", SERVER)
    with pytest.raises(BodyTooLarge):
        await store.give("b", "b", SERVER)
    assert [(one.name, one.is_shared) for one in await store.list("b")] == [("a", True), ("b", False)]
    assert {one.name: one.is_shared for one in await store.versions()} == {"a": True, "b": False}


# ---- glossaries that the server shares


async def test_all_accounts_see_what_the_server_shares_and_none_changes_it(glossaries: Glossaries) -> None:
    shared = await glossaries.create(SERVER, "IT", {("en", "de"): ENTRIES})
    own = await glossaries.create("a", "it")
    assert await glossaries.list("a") == (shared, own)
    assert await glossaries.list("b") == await glossaries.list(SERVER) == (shared,)
    assert await glossaries.get("a", "IT") == await glossaries.get("b", shared.id) == shared
    assert (await glossaries.dictionary("b", "IT", "en", "de")).entries == ENTRIES
    for work in (
        glossaries.replace("a", shared.id, "en", "de", {"x": "y"}),
        glossaries.merge("a", "IT", "en", "de", {"x": "y"}),
        glossaries.delete_dictionary("a", "IT", "en", "de"),
        glossaries.rename("a", "IT", "x"),
        glossaries.give("a", "IT", "a"),
        glossaries.delete("a", shared.id),
        glossaries.get(SERVER, own.id),
    ):
        with pytest.raises(UnknownGlossary):
            await work
    assert await glossaries.get("a", "IT") == shared


async def test_an_account_s_own_glossary_is_found_before_the_server_s_of_this_name(glossaries: Glossaries) -> None:
    shared = await glossaries.create(SERVER, "IT", {("en", "de"): ENTRIES})
    own = await glossaries.create("a", "IT", {("en", "de"): {"server": "Diener"}})
    assert [one.id for one in await glossaries.list("a")] == [own.id, shared.id]
    assert (await glossaries.get("a", "IT")).id == own.id
    assert (await glossaries.dictionary("a", "IT", "en", "de")).entries == {"server": "Diener"}
    assert (await glossaries.dictionary("a", shared.id, "en", "de")).entries == ENTRIES
    assert (await glossaries.dictionary("b", "IT", "en", "de")).entries == ENTRIES
    await glossaries.merge("a", "IT", "en", "de", {"queue": "Schlange"})
    assert (await glossaries.get(SERVER, "IT")) == shared
    await glossaries.delete("a", "IT")
    assert await glossaries.get("a", "IT") == shared


async def test_what_has_its_owner_and_name_already_is_left(
    glossaries: Glossaries, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="dragoman.audit")
    own, shared = await glossaries.create("a", "own"), await glossaries.create(SERVER, "shared")
    caplog.clear()
    assert await glossaries.give("a", "own", "a") == await glossaries.rename("a", own.id, " own ") == own
    assert await glossaries.give(SERVER, "shared", SERVER) == shared
    assert not caplog.records
    assert (await glossaries.give("a", "own", "b")).updated_at > own.updated_at
    assert len(caplog.records) == 1


async def test_a_glossary_is_shared_and_given_with_its_id_and_its_entries(
    glossaries: Glossaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await glossaries.create("a", "g", {("en", "de"): ENTRIES})
    with pytest.raises(UnknownGlossary):
        await glossaries.dictionary("b", made.id, "en", "de")
    shared = await glossaries.give("a", "g", SERVER)
    assert (shared.id, shared.version, shared.pairs, shared.is_shared) == (made.id, 1, made.pairs, True)
    before = await glossaries.dictionary("b", "g", "en", "de")
    given = await glossaries.give(SERVER, "g", "b")
    assert (given.account_id, given.id) == ("b", made.id)
    assert await glossaries.dictionary("b", "g", "en", "de") is before
    with pytest.raises(UnknownGlossary):
        await glossaries.get("a", made.id)
    await glossaries.create("a", "g")
    with pytest.raises(GlossaryExists):
        await glossaries.give("b", "g", "a")
    monkeypatch.setattr(of_glossaries, "MAX_DICTIONARIES", 1)
    await glossaries.create("c", "x", {("en", "de"): ENTRIES})
    with pytest.raises(BodyTooLarge):
        await glossaries.give("b", "g", "c")
    assert (await glossaries.get("b", made.id)).account_id == "b"
