"""Migrations over data of the version before, up and down, on each database: nothing is lost."""

from __future__ import annotations

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
from dragoman.storage.database import Database, utc_now
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.memories import MemoryLimits, MemoryStore, NewEntry, digest_of
from dragoman.storage.named import PairCount

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
    listed = {one.name: one for one in await glossaries.list()}
    assert listed["g"].dictionaries == (PairCount("en", "de", 3), PairCount("de", "en", 2))
    assert (listed["g"].version, listed["empty"].dictionaries) == (7, ())
    for pair, terms in TERMS.items():
        assert (await glossaries.dictionary("g", *pair)).entries == terms
    await database.close()
    migrate(url, "0005", alembic.command.downgrade)
    after = {name: rows_of(url, name) for name in tables}
    before["memories"][0]["version"] += 2
    before["memories"][0]["updated_at"] = after["memories"][0]["updated_at"]
    assert after == before
