"""Opening, migrating and losing a database; what runs on which thread."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing, contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import Connection, MetaData, text

from dragoman.errors import ConfigError, StorageUnavailable
from dragoman.storage import database as module
from dragoman.storage import document_blobs, documents, keys, memories, usage
from dragoman.storage.database import METADATA, Database
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.threads import caller

T = TypeVar("T")


async def test_what_was_stored_is_there_after_a_restart(url: str) -> None:
    for expected in ([], ["g"]):
        database = Database(url)
        await database.open()
        await database.open()
        stored = Glossaries(database)
        assert [one.name for one in await stored.list("a")] == expected
        if not expected:
            await stored.create("a", "g")
        await database.close()


async def test_migrations_make_the_tables_that_the_code_uses(database: Database) -> None:
    def columns(metadata: MetaData) -> dict[str, dict[str, tuple[str, bool]]]:
        return {
            table.name: {column.name: (str(column.type), column.primary_key) for column in table.columns}
            for table in metadata.tables.values()
            if table.name != "alembic_version"
        }

    def reflected(connection: Connection) -> MetaData:
        metadata = MetaData()
        metadata.reflect(connection)
        return metadata

    made = columns(await database.read(reflected))
    wanted = columns(METADATA)
    assert {keys.ACCOUNTS.name, usage.USAGE.name} < wanted.keys()
    assert documents.DocumentStore and document_blobs and memories.MemoryStore  # whose tables are among them
    assert made.keys() == wanted.keys()
    for table, expected in wanted.items():
        assert {name: key for name, (_, key) in made[table].items()} == {
            name: key for name, (_, key) in expected.items()
        }


async def test_servers_that_start_at_the_same_time_migrate_once(url: str) -> None:
    servers = [Database(url) for _ in range(4)]
    await asyncio.gather(*(server.open() for server in servers))
    versions = await servers[0].read(lambda connection: connection.scalar(text("SELECT count(*) FROM alembic_version")))
    assert versions == 1
    for server in servers:
        await server.close()


async def test_work_runs_off_the_event_loop_and_is_undone_when_it_fails(database: Database) -> None:
    def fail(connection: Connection) -> None:
        assert threading.current_thread() is not threading.main_thread()
        connection.execute(text("DELETE FROM alembic_version"))
        raise KeyError("x")

    with pytest.raises(KeyError):
        await database.write(fail)
    count = await database.read(lambda connection: connection.scalar(text("SELECT count(*) FROM alembic_version")))
    assert count == 1


async def test_a_database_that_fails_is_unavailable_and_its_texts_are_not_logged(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StorageUnavailable) as caught:
        await database.read(lambda connection: connection.execute(text("SELECT 'secret' FROM nothing")))
    assert "secret" not in caught.value.message + caplog.text


async def test_a_database_of_a_newer_version_is_refused(url: str, database: Database) -> None:
    await database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    newer = Database(url)
    with pytest.raises(ConfigError, match="newer version"):
        await newer.open()
    await newer.close()


@contextmanager
def blocked(database: Database) -> Generator[tuple[threading.Event, Callable[[Connection], int]]]:
    """An event, and work that waits for it in its thread; it returns 1."""
    release = threading.Event()

    def work(connection: Connection) -> int:
        assert release.wait(60)
        return connection.execute(text("SELECT 1")).scalar_one()

    try:
        yield release, work
    finally:
        release.set()


def read_one(connection: Connection) -> int:
    return connection.execute(text("SELECT 1")).scalar_one()


def as_caller(account: str, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
    context = Context()
    context.run(caller.set, account)
    return asyncio.get_running_loop().create_task(work(), context=context)


async def test_one_account_s_reads_hold_up_neither_another_s_nor_the_server_s(database: Database) -> None:
    with blocked(database) as (release, work):
        held = [as_caller("a", lambda: database.read(work)) for _ in range(20)]
        assert await database.read(read_one) == 1
        assert await as_caller("b", lambda: database.read(read_one)) == 1
        held += [as_caller(name, lambda: database.read(work)) for name in "bcde"]
        await asyncio.sleep(0)
        assert await database.read(read_one) == 1  # accounts never take all threads
        for cancelled in held[2:10]:  # what was not begun is never run
            cancelled.cancel()
        assert not any(one.done() for one in held[10:])
        release.set()
        found = await asyncio.gather(*held, return_exceptions=True)
        assert found.count(1) == len(held) - 8


async def test_accounts_that_wait_have_turns(url: str) -> None:
    database = Database("sqlite://")  # one thread
    await database.open()
    order: list[str] = []

    async def note(name: str) -> None:
        await database.write(lambda connection: order.append(name))

    with blocked(database) as (release, work):
        tasks: list[asyncio.Task[Any]] = [as_caller("x", lambda: database.read(work))]
        await asyncio.sleep(0)
        tasks += [as_caller("a", lambda: note("a")) for _ in range(3)]
        tasks += [as_caller("b", lambda: note("b")) for _ in range(2)]
        await asyncio.sleep(0)
        system = asyncio.create_task(note("server"))
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*tasks, system)
    assert order == ["server", "a", "b", "a", "b", "a"]
    await database.close()


async def test_a_write_to_a_file_does_not_hold_up_reads(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a.db")
    await database.open()
    with blocked(database) as (release, work):
        writing = asyncio.create_task(database.write(work))
        assert await database.read(read_one) == 1
        release.set()
        await writing
    with pytest.raises(StorageUnavailable):
        await database.read(lambda connection: connection.execute(text("DELETE FROM memories")))
    await database.close()


async def test_what_waits_when_the_database_is_closed_is_unavailable(database: Database) -> None:
    with blocked(database) as (release, work):
        begun = as_caller("a", lambda: database.write(work))
        waiting = [as_caller("a", lambda: database.write(work)) for _ in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        release.set()
        await closing
        found = await asyncio.gather(begun, *waiting, return_exceptions=True)
    assert found[0] == 1
    assert isinstance(found[-1], StorageUnavailable)


async def test_a_locked_file_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0.01)
    database = Database(f"sqlite:///{tmp_path}/a.db")
    await database.open()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable):
            await Glossaries(database).create("a", "g")
        other.execute("ROLLBACK")
    (tmp_path / "a.db").rename(tmp_path / "b.db")  # a connection that is made now fails
    (tmp_path / "a.db").mkdir()
    with pytest.raises(StorageUnavailable):
        await Glossaries(database).list("a")
    await database.close()


async def test_a_database_that_is_not_open_is_unavailable() -> None:
    with pytest.raises(StorageUnavailable):
        await Glossaries(Database("sqlite://")).list("a")


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://user:secret@host/db"])
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(url)
    assert "secret" not in caught.value.message


async def test_an_unusable_database_is_named_without_its_password(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a database, " * 100)
    for url, name in (
        (f"sqlite:///{tmp_path}/file", "file"),
        (f"sqlite:///{tmp_path}/file/inside.db", "inside.db"),
        ("postgresql://user:secret@127.0.0.1:9/none", "127.0.0.1:9"),
    ):
        database = Database(url)
        with pytest.raises(ConfigError) as caught:
            await database.open()
        assert name in caught.value.message
        assert "secret" not in caught.value.message
        await database.close()


async def test_sqlite_is_in_wal_mode_with_foreign_keys_and_readable_by_its_user_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a%20b.db")
    await database.open()

    def pragmas(connection: Connection) -> list[object]:
        return [connection.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "foreign_keys", "busy_timeout")]

    assert await database.read(pragmas) == ["wal", 1, 10_000]
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    await database.close()


@pytest.mark.acceptance
async def test_connections_that_postgresql_closed_are_made_again(postgres_url: str) -> None:
    database = Database(f"{postgres_url}/postgres")
    await database.open()
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL"
    )

    def hold(connection: Connection) -> None:
        with psycopg.connect(f"{postgres_url}/postgres") as other:
            other.execute(others)
        connection.execute(text("SELECT 1"))

    with pytest.raises(StorageUnavailable):
        await database.read(hold)
    assert await database.read(lambda connection: connection.scalar(text("SELECT 1"))) == 1
    await database.close()


@pytest.mark.acceptance
async def test_the_reason_has_no_password_and_no_text(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    url = f"{postgres_url.replace('dragoman@', 'dragoman:geheim@')}/postgres"
    database = Database(url)
    await database.open()
    for statement in ("SELECT pg_terminate_backend(pg_backend_pid())", "SELECT CAST('Zanzibar' AS integer)"):
        with caplog.at_level(logging.ERROR), pytest.raises(StorageUnavailable):
            await database.read(lambda connection, statement=statement: connection.execute(text(statement)).all())
    await database.close()
    connection, value = [one.getMessage() for one in caplog.records if one.name == "dragoman.storage"]
    assert "127.0.0.1" in connection
    assert "terminating connection" in connection
    assert "InvalidTextRepresentation 22P02" in value
    assert not any(secret in line for line in (connection, value) for secret in ("geheim", "Zanzibar", "SELECT"))
