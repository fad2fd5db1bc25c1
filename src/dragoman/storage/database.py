"""Opens the database, a SQLite file or a PostgreSQL server, migrates its schema, and runs transactions.

All work runs in threads, never on the event loop. SQLite has one thread, the only writer of this process; several processes
that share the file wait for each other (`busy_timeout`). PostgreSQL has a small pool of threads and connections.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
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
from sqlalchemy.pool import StaticPool

from dragoman.errors import ConfigError, StorageUnavailable

T = TypeVar("T")
StorageOperation = Literal["read", "write"]

log = logging.getLogger("dragoman.storage")

METADATA = MetaData()
"""All tables, as the newest migration leaves them."""

BUSY_TIMEOUT_S = 10  # to get SQLite's lock, or a connection to PostgreSQL
POSTGRES_CONNECTIONS = 4
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
        self._closed = False
        self.observe: Callable[[StorageOperation, float | None], None] = lambda operation, elapsed_s: None
        """Called after each transaction, on the event loop: with its seconds, those in the queue included; None: it failed."""
        self.waiting = 0  # transactions that run, or wait for a thread
        workers = 1 if self._is_sqlite else POSTGRES_CONNECTIONS
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="dragoman-storage")

    async def open(self) -> None:
        """Connect and migrate the schema. Raises `ConfigError` if the database cannot be used."""
        await self._in_thread(self._open)

    async def close(self) -> None:
        """Wait for running transactions, and disconnect."""

        def close() -> None:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

        if not self._closed:
            await self._in_thread(close)
            self._closed = True
            self._threads.shutdown(wait=False)

    async def back_up(self, target: Path) -> None:
        """Make a consistent copy of a SQLite database while others use it. Raises `ConfigError`."""
        if self._file in (None, "", ":memory:"):
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

        await self._in_thread(copy)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read-only transaction, and return its result. Raises `StorageUnavailable`."""
        with self._observed("read"):
            return await self._in_thread(lambda: self._transaction(work, writes=False))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction, and return its result. Rolls back if it raises. Raises `StorageUnavailable`."""
        with self._observed("write"):
            return await self._in_thread(lambda: self._transaction(work, writes=True))

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

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("the server stops")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        if self._engine is None:
            raise StorageUnavailable("the database is not open")
        try:
            with self._engine.connect().execution_options(dragoman_writes=writes) as connection, connection.begin():
                return work(connection)
        except DBAPIError as fault:
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
        except CommandError as fault:
            raise ConfigError(
                f"the database {self.name} was written by another version of dragoman: {fault}", param="storage.url"
            ) from None
        self._engine = engine

    def _migrate(self, engine: Engine) -> None:
        config = alembic.config.Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with _ALEMBIC, engine.connect().execution_options(dragoman_writes=True) as connection, connection.begin():
            if not self._is_sqlite:  # servers that start at the same time migrate one after the other
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")

    def _sqlite(self) -> Engine:
        in_memory = self._file in (None, "", ":memory:")
        if self._file and not in_memory:
            Path(self._file).parent.mkdir(parents=True, exist_ok=True)
            if not Path(self._file).exists():
                Path(self._file).touch(mode=0o600)  # SQLite gives its other files the same mode
        engine = create_engine(
            self._url,
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_S, "isolation_level": None},
            hide_parameters=True,
        )
        event.listen(engine, "connect", _set_pragmas)
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
