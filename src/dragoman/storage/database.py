"""Opens the database, a SQLite file or a PostgreSQL server, migrates its schema, and runs transactions.

All work runs in threads, never on the event loop. A SQLite file has one thread that writes, the only one of this process, and a
few that read, each with a connection of its own: in WAL mode they read while another writes. Several processes that share the
file wait for each other (`busy_timeout`). A database in memory has one thread and one connection, PostgreSQL a small pool of
both for reading and writing. How accounts share the threads is in `threads.py`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, Literal, TypeVar

import alembic.command
import alembic.config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, MetaData, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.pool import QueuePool, StaticPool

from dragoman.errors import ConfigError, StorageUnavailable
from dragoman.storage.threads import SharedThreads

T = TypeVar("T")
StorageOperation = Literal["read", "write"]

log = logging.getLogger("dragoman.storage")

METADATA = MetaData()
"""All tables, as the newest migration leaves them."""

BUSY_TIMEOUT_S = 10  # to get SQLite's lock, or a connection to PostgreSQL
POSTGRES_CONNECTIONS = 4
SQLITE_READERS = 4
HANGS_S = 3  # what a caller waited for so long and then gave up has failed
_MESSAGE_CHARACTERS = 300
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x647261676F6D616E  # of PostgreSQL's advisory locks; any number that other programs do not use

_ALEMBIC = Lock()  # what a migration runs in is a global of alembic: two databases of one process migrate in turn


def utc_now() -> datetime:
    """Return the time as the database has it: in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


class Database:
    """Runs functions in transactions, each in a thread. Raises `ConfigError` for an unusable URL."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise ConfigError(
                "storage.url is not a database URL: give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
                param="storage.url",
            ) from None
        self.name = parsed.render_as_string(hide_password=True)
        backend = parsed.get_backend_name()
        if backend not in {"sqlite", "postgresql"}:
            raise ConfigError(f"storage.url {self.name}: {backend} is not supported; use sqlite or postgresql")
        self._is_sqlite = backend == "sqlite"
        self._file = parsed.database if self._is_sqlite else None
        self._url = parsed if self._is_sqlite else parsed.set(drivername="postgresql+psycopg")
        self._engine: Engine | None = None
        self._reading_engine: Engine | None = None
        self._closed = False
        self.observe: Callable[[StorageOperation, float | None], None] = lambda operation, elapsed_s: None
        """Called after each transaction, on the event loop: with its seconds, those in the queue included; None: it failed."""
        self.waiting = 0  # transactions that run, or wait for a thread
        threads = 1 if self._is_sqlite else POSTGRES_CONNECTIONS
        self._threads = _shared_threads("dragoman-storage", threads)
        has_readers = self._is_sqlite and not self._in_memory
        self._readers = _shared_threads("dragoman-reader", SQLITE_READERS) if has_readers else self._threads

    async def open(self) -> None:
        """Connect and migrate the schema. Raises `ConfigError` if the database cannot be used."""
        await self._threads.run(self._open)

    async def close(self) -> None:
        """Wait for running transactions, and disconnect."""

        def disconnect() -> None:
            for engine in (self._reading_engine, self._engine):
                if engine is not None:
                    engine.dispose()
            self._engine = self._reading_engine = None

        if not self._closed:
            self._closed = True
            await asyncio.gather(*(threads.close() for threads in {self._readers, self._threads}))
            await asyncio.to_thread(disconnect)

    async def back_up(self, target: Path) -> None:
        """Make a consistent copy of a SQLite database while others use it. Raises `ConfigError`."""
        if not self._is_sqlite or self._in_memory:
            raise ConfigError("only a SQLite file is backed up so; use pg_dump for PostgreSQL", param="storage.url")
        source = Path(self._file or "")

        def copy() -> None:
            if not source.is_file():
                raise ConfigError(f"there is no database {source}", param="storage.url")
            try:
                target.touch(mode=0o600, exist_ok=False)  # only this user may read digests of keys and glossaries
                with closing(sqlite3.connect(source)) as of, closing(sqlite3.connect(target)) as to:
                    of.backup(to)
            except FileExistsError:
                raise ConfigError(f"{target} exists already") from None
            except (OSError, sqlite3.Error) as fault:
                raise ConfigError(f"{source} cannot be copied to {target}: {fault}") from None

        await self._threads.run(copy)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read-only transaction, and return its result. Raises `StorageUnavailable`."""
        with self._observed("read"):
            return await self._readers.run(lambda: self._transaction(work, writes=False))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction, and return its result. Rolls back if it raises. Raises `StorageUnavailable`.

        Nothing else of this process writes to a SQLite file meanwhile, heartbeats included: long work is cut into several.
        """
        with self._observed("write"):
            return await self._threads.run(lambda: self._transaction(work, writes=True))

    @contextmanager
    def _observed(self, operation: StorageOperation) -> Generator[None]:
        """Within: a transaction. One that raises an error of its work's, such as an unknown name, has not failed; one that its
        caller gave up has, after `HANGS_S`."""
        began_s, failed = monotonic(), False
        self.waiting += 1
        try:
            yield
        except StorageUnavailable:
            failed = True
            raise
        except asyncio.CancelledError:
            failed = monotonic() - began_s > HANGS_S
            raise
        finally:
            self.waiting -= 1
            self.observe(operation, None if failed else monotonic() - began_s)

    def _transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        engine = self._engine if writes else self._reading_engine
        if engine is None:
            raise StorageUnavailable("the database is not open")
        try:
            with engine.connect().execution_options(dragoman_writes=writes) as connection, connection.begin():
                return work(connection)
        except (DBAPIError, NoConnection, sqlite3.Error) as fault:
            log.error("the database %s failed: %s", self.name, failure_of(fault, self._url.password))
            log.debug("the database failed", exc_info=fault)
            raise StorageUnavailable("the server's database failed; see its log") from None

    # ---- opening, in a thread

    def _open(self) -> None:
        if self._engine is not None:
            return
        try:
            engine = self._sqlite() if self._is_sqlite else self._postgres()
            try:
                self._migrate(engine)
            except BaseException:
                engine.dispose()
                raise
        except (SQLAlchemyError, OSError, ImportError) as fault:
            raise ConfigError(
                f"storage.url {self.name} cannot be used: {_reason(fault)}", param="storage.url"
            ) from None
        except CommandError:  # there is no migration of this number
            raise ConfigError(
                f"the database {self.name} was written by a newer version of dragoman: install that version or a newer one, "
                "or set storage.url to the backup from before the upgrade",
                param="storage.url",
            ) from None
        self._engine = engine
        self._reading_engine = engine if self._readers is self._threads else self._sqlite(SQLITE_READERS)

    def _migrate(self, engine: Engine) -> None:
        config = alembic.config.Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with _ALEMBIC, engine.connect().execution_options(dragoman_writes=True) as connection, connection.begin():
            if not self._is_sqlite:  # servers that start at the same time migrate one after the other
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")

    @property
    def _in_memory(self) -> bool:
        return self._file in (None, "", ":memory:")

    def _sqlite(self, readers: int = 0) -> Engine:
        """An engine with so many connections that only read, or with the one that writes."""
        if self._file and not self._in_memory:
            Path(self._file).parent.mkdir(parents=True, exist_ok=True)
            if not Path(self._file).exists():
                Path(self._file).touch(mode=0o600)  # SQLite gives its other files the same mode
        pool: Any = (
            {"poolclass": QueuePool, "pool_size": readers, "max_overflow": 0} if readers else {"poolclass": StaticPool}
        )
        engine = create_engine(
            self._url,
            **pool,
            connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_S, "isolation_level": None},
            hide_parameters=True,
        )
        event.listen(engine, "connect", _set_pragmas)
        if readers:
            event.listen(engine, "connect", _only_read)
        event.listen(engine, "begin", _begin)
        return engine

    def _postgres(self) -> Engine:
        return create_engine(
            self._url,
            pool_size=POSTGRES_CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={"connect_timeout": BUSY_TIMEOUT_S},
            hide_parameters=True,
        )


def _shared_threads(name: str, threads: int) -> SharedThreads:
    """Threads of which accounts leave one for the server's own work, where there are several."""
    return SharedThreads(name, threads, of_accounts=max(1, threads - 1), of_account=max(1, threads // 2))


def _set_pragmas(connection: Any, _: object) -> None:
    until_s = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError:  # another process changes it now: SQLite does not wait for that by itself
            if monotonic() > until_s:
                raise
            sleep(0.02)
    connection.execute("PRAGMA foreign_keys=ON")


def _only_read(connection: Any, _: object) -> None:
    connection.execute("PRAGMA query_only=ON")


def _begin(connection: Connection) -> None:
    """The driver's own BEGIN comes before the first write only, and a lock that is taken so late can fail."""
    writes = connection.get_execution_options().get("dragoman_writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def failure_of(fault: Exception, password: str | None) -> str:
    """What a driver says of a failure, in a line. Not the statement: it may have a caller's texts, and so may the message of
    any error but those of the server, of its connections and of the file."""
    error = getattr(fault, "orig", None) or fault
    name, state = type(error).__name__, getattr(error, "sqlstate", None)
    if not isinstance(fault, OperationalError | InterfaceError) and not isinstance(error, sqlite3.OperationalError):
        return f"{name} {state}" if state else name
    message = " ".join(str(error).split("DETAIL:")[0].split("CONTEXT:")[0].split())[:_MESSAGE_CHARACTERS]
    return f"{name}: {message.replace(password, '***') if password else message}"


def _reason(fault: Exception) -> str:
    if isinstance(fault, ImportError):
        return "psycopg is not installed: pip install 'dragoman[postgres]'"
    shown = fault.orig if isinstance(fault, OperationalError) and fault.orig else fault
    return str(shown).strip().splitlines()[0]
