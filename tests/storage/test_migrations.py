"""Migrations over data of the version before, up and down, on each database: nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import pytest
import sqlalchemy as sa

import dragoman.storage
from dragoman.errors import BodyTooLarge
from dragoman.storage.collections import SERVER, PairCount
from dragoman.storage.database import Database, utc_now
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.memories import MemoryLimits, MemoryStore, NewEntry, digest_of

TEXTS = [("Привет, МИР", "Große Straße"), ("Yes.", "はい"), *((f"Text {n}.", f"文{n}") for n in range(1_200))]
TERMS = {("en", "de"): {"queue": "Schlange", "b": "B", "ä": "a"}, ("de", "en"): {'"': "\\", "x": "日本"}}


@contextmanager
def connected(url: str) -> Generator[sa.Connection]:
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def migrate(url: str, revision: str, change: Callable[..., None] = alembic.command.upgrade) -> None:
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir(exist_ok=True)
    config = alembic.config.Config()
    config.set_main_option("script_location", str(Path(dragoman.storage.__file__).parent / "migrations"))
    with connected(url) as connection:
        config.attributes["connection"] = connection
        change(config, revision)


def rows_of(url: str, table: str) -> list[dict[str, Any]]:
    with connected(url) as connection:
        found = sa.Table(table, sa.MetaData(), autoload_with=connection)
        return [
            dict(row) for row in connection.execute(sa.select(found).order_by(*found.primary_key.columns)).mappings()
        ]


def fill_version_5(url: str) -> None:
    times = {"created_at": utc_now(), "updated_at": utc_now()}
    entries = [
        {"memory_id": "m", "source": "en", "target": target, "digest": digest_of(text), "version": 2, **times}
        | {"text": text, "translation": translation}
        for target in ("de", "ja")
        for text, translation in TEXTS
    ]
    terms = [
        {
            "glossary_id": "g",
            "source": pair[0],
            "target": pair[1],
            "term": term,
            "translation": of,
            "dictionary": number,
        }
        for number, (pair, dictionary) in enumerate(TERMS.items())
        for term, of in dictionary.items()
    ]
    with connected(url) as connection:
        for name, rows in (
            ("memories", [{"id": "m", "account_id": "a", "name": "manuals", "version": 2, **times}]),
            ("memory_entries", entries),
            ("glossaries", [{"id": name, "name": name, "version": 7, **times} for name in ("g", "empty")]),
            ("glossary_entries", terms),
        ):
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            connection.execute(sa.insert(table), rows)


async def test_data_of_version_5_is_there_after_the_upgrade_and_after_the_way_back(url: str) -> None:
    migrate(url, "0005")
    fill_version_5(url)
    tables = ("memories", "memory_entries", "glossaries", "glossary_entries")
    before = {name: rows_of(url, name) for name in tables}
    database = Database(url)
    await database.open()
    store, glossaries = MemoryStore(database), Glossaries(database)
    memory = await store.get("a", "manuals")
    assert memory.pairs == (PairCount("en", "de", len(TEXTS)), PairCount("en", "ja", len(TEXTS)))
    for find, expected in (("привет", TEXTS[0][0]), ("STRASSE", TEXTS[0][0]), ("はい", "Yes.")):
        found = await store.page("a", "m", 100, find=find)
        assert {one.text for one in found.entries} == {expected}, find
    size = sum(len(part.encode()) for texts in TEXTS for part in texts) * 2
    with pytest.raises(BodyTooLarge):
        await store.add("a", "m", [NewEntry("en", "ja", "x", "y")], MemoryLimits(10_000, size + 1))
    await store.add("a", "m", [NewEntry("en", "ja", "x", "y")], MemoryLimits(10_000, size + 2))
    await store.remove("a", "m", f"en.{digest_of('x').hex()}.ja")
    listed = {one.name: one for one in await glossaries.list("a")}
    assert listed["g"].pairs == (PairCount("en", "de", 3), PairCount("de", "en", 2))
    assert (listed["g"].version, listed["empty"].pairs) == (7, ())
    for pair, terms in TERMS.items():
        assert (await glossaries.dictionary("a", "g", *pair)).entries == terms
    await database.close()
    migrate(url, "0005", alembic.command.downgrade)
    after = {name: rows_of(url, name) for name in tables}
    before["memories"][0]["version"] += 2
    before["memories"][0]["updated_at"] = after["memories"][0]["updated_at"]
    assert after == before


# ---- owners of glossaries

OF_8 = ("glossaries", "glossary_dictionaries", "memories", "memory_entries", "memory_pairs")


def insert_rows(url: str, **rows: list[dict[str, Any]]) -> None:
    with connected(url) as connection:
        for name, of_table in rows.items():
            connection.execute(sa.insert(sa.Table(name, sa.MetaData(), autoload_with=connection)), of_table)


def dictionaries_of(glossary_id: str) -> list[dict[str, Any]]:
    return [
        {"glossary_id": glossary_id, "source": source, "target": target, "number": number}
        | {"entry_count": len(terms), "entries": json.dumps(terms)}
        for number, ((source, target), terms) in enumerate(TERMS.items())
    ]


def fill_version_8(url: str) -> None:
    head = {"version": 7, "created_at": utc_now(), "updated_at": utc_now()}
    entry = {"memory_id": "m", "source": "en", "target": "ja", "digest": digest_of("Yes."), "text": "Yes.", **head}
    insert_rows(
        url,
        glossaries=[{"id": name, "name": f"{name} 用語", **head} for name in ("g", "h", "empty")],
        glossary_dictionaries=[*dictionaries_of("g"), *dictionaries_of("h")],
        memories=[{"id": "m", "account_id": "a", "name": "manuals", **head}],
        memory_entries=[{**entry, "translation": "はい", "folded_text": "yes.", "folded_translation": "はい"}],
        memory_pairs=[{"memory_id": "m", "source": "en", "target": "ja", "entry_count": 1, "bytes": 10}],
    )


async def test_glossaries_of_version_8_are_shared_and_memories_keep_their_owner(url: str) -> None:
    migrate(url, "0008")
    fill_version_8(url)
    before = {name: rows_of(url, name) for name in OF_8}
    database = Database(url)
    await database.open()
    glossaries, memories = Glossaries(database), MemoryStore(database)
    for account in ("a", "b"):
        listed = await glossaries.list(account)
        assert [(one.id, one.version, one.account_id, one.is_shared) for one in listed] == [
            (name, 7, SERVER, True) for name in ("empty", "g", "h")
        ]
        for pair, terms in TERMS.items():
            assert (await glossaries.dictionary(account, "g 用語", *pair)).entries == terms
            assert (await glossaries.dictionary(account, "h", *pair)).entries == terms
    assert [one.entry_count for one in await memories.list("a")] == [1]
    assert await memories.list("b") == await memories.list(SERVER) == ()
    assert [one.translation for one in (await memories.page("a", "manuals", 9)).entries] == ["はい"]
    await glossaries.delete(SERVER, "g")  # with its dictionaries, and no other's
    assert len(rows_of(url, "glossary_dictionaries")) == len(TERMS)
    await glossaries.create("a", "g 用語", TERMS)
    await database.close()
    own = [one for one in rows_of(url, "glossaries") if one["account_id"] == "a"]
    insert_rows(url, glossaries=[{**before["glossaries"][1]}], glossary_dictionaries=dictionaries_of("g"))
    migrate(url, "0008", alembic.command.downgrade)
    after = {name: rows_of(url, name) for name in OF_8}
    [kept] = [one for one in after["glossaries"] if one["id"] == own[0]["id"]]  # under a name of its own
    assert kept["name"] != "g 用語"
    for name in ("glossaries", "glossary_dictionaries"):
        after[name] = [one for one in after[name] if kept["id"] not in (one.get("id"), one.get("glossary_id"))]
    assert after == before


async def test_a_server_of_version_8_works_on_beside_a_new_one(url: str) -> None:
    """Its statements, which know of no owners: what it stores is shared, and so is what it changes."""
    migrate(url, "0008")
    fill_version_8(url)
    with connected(url) as connection:
        of_8 = sa.MetaData()
        of_8.reflect(connection, only=OF_8)
    table, dictionaries = of_8.tables["glossaries"], of_8.tables["glossary_dictionaries"]
    database = Database(url)
    await database.open()
    glossaries = Glossaries(database)
    own = await glossaries.create("a", "g 用語", {("en", "de"): {"queue": "eigen"}})
    times = {"created_at": utc_now(), "updated_at": utc_now()}
    with connected(url) as connection:
        assert len(connection.execute(sa.select(table)).all()) == 4
        by_name = sa.select(table.c.id).where(sa.or_(table.c.id == "g 用語", table.c.name == "g 用語"))
        assert connection.execute(by_name).all() == [("g",)]  # and not a key's own of this name
        connection.execute(sa.insert(table), [{"id": "new", "name": "new", "version": 1, **times}])
        connection.execute(sa.insert(dictionaries), dictionaries_of("new"))
        connection.execute(sa.update(table).where(table.c.id == "h").values(version=8, name="renamed"))
        connection.execute(sa.delete(dictionaries).where(dictionaries.c.glossary_id == "g"))
        connection.execute(sa.delete(table).where(table.c.id == "g"))
    with pytest.raises(sa.exc.IntegrityError), connected(url) as connection:  # by which it knows that a name is used
        connection.execute(sa.insert(table), [{"id": "again", "name": "new", "version": 1, **times}])
    assert [(one.name, one.version) for one in await glossaries.list("b")] == [
        ("empty 用語", 7),
        ("new", 1),
        ("renamed", 8),
    ]
    assert all(one.is_shared for one in await glossaries.list("b"))
    assert (await glossaries.dictionary("b", "new", "en", "de")).entries == TERMS["en", "de"]
    assert (await glossaries.get("a", "g 用語")) == own
    await database.close()
