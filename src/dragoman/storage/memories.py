"""Stores translation memories: people's translations of texts, by account, with a name and a version.

An entry is a text in a source language with its translation into a target language. Within a memory a text has one translation
in a direction; a new one replaces it. Each change increases the memory's version, which its entries carry, so that a server
reads only what is new to it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from dragoman.errors import BodyTooLarge, InvalidMemory, MemoryExists, UnknownMemory
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.named import MAX_NAME_CHARACTERS, Pair, PairCount, checked_name
from dragoman.telemetry.logs import audit

MAX_MEMORIES = 100
"""Of one account: each text of its calls is looked for in all of them."""
MAX_TEXT_CHARACTERS = 20_000
"""Of an entry's text, and of its translation."""
DIGEST_BYTES = 16

_memories = Table(
    "memories",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("account_id", String(16), nullable=False),
    Column("name", String(MAX_NAME_CHARACTERS), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", DateTime, nullable=False),  # UTC, like the other times
    Column("updated_at", DateTime, nullable=False),
    UniqueConstraint("account_id", "name"),
)
_entries = Table(
    "memory_entries",
    METADATA,
    Column("memory_id", String(36), ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("digest", LargeBinary(DIGEST_BYTES), primary_key=True),  # of the text, which is too long for an index
    Column("target", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("translation", Text, nullable=False),
    Column("version", Integer, nullable=False),  # of the memory, when the entry was written
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    Index("ix_memory_entries_version", "memory_id", "version"),
)
_jobs = Table(
    "memory_jobs",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("account_id", String(16), nullable=False, index=True),
    Column("operation", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("secret", String(64), nullable=False),
    Column("memory_id", String(36)),
    Column("name", String(MAX_NAME_CHARACTERS), nullable=False),
    Column("content_type", String(127), nullable=False),
    Column("content_length", BigInteger, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("error_message", Text),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    Column("expires_at", DateTime, nullable=False, index=True),
)

DigestRow = tuple[str, str, bytes]
"""Source, target and digest of an entry."""


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory without its entries. Times are in UTC; the pair with the most entries comes first."""

    id: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    pairs: tuple[PairCount, ...]

    @property
    def entry_count(self) -> int:
        return sum(one.entry_count for one in self.pairs)


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """What a server must know of each memory: whose it is, and whether its entries have changed."""

    id: str
    account_id: str
    version: int


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A text and its translation, checked by `service.memories`: with marks in canonical form, or without any."""

    source: str
    target: str
    text: str
    translation: str

    @property
    def key(self) -> tuple[str, bytes, str]:
        return self.source, digest_of(self.text), self.target


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry. Times are in UTC."""

    source: str
    target: str
    digest: bytes
    text: str
    translation: str
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        """What it is called within its memory; it stays when its translation changes."""
        return f"{self.source}.{self.digest.hex()}.{self.target}"


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries in the order of source language and text, and where the next page begins; None: there is none."""

    entries: list[StoredEntry]
    cursor: str | None


JobStatus = Literal["awaiting_input", "processing", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """An import or an export that a client of DeepL's has begun. Times are in UTC, without a zone."""

    id: str
    account_id: str
    operation: Literal["import", "export"]
    status: JobStatus
    secret: str  # in the address of its upload or download, which needs no key
    name: str  # of the memory that an import makes
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    memory_id: str | None = None  # that is exported, or that was imported
    content_type: str = ""
    content_length: int = 0
    skipped: int = 0
    error_message: str | None = None


def digest_of(text: str) -> bytes:
    """Return what texts are found by."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


class MemoryStore:
    """The repository of memories. A `reference` is a memory's id or name; an account sees its own memories alone.

    All methods raise `StorageUnavailable`; those with a reference raise `UnknownMemory`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # ---- memories

    async def create(self, account_id: str, name: str) -> StoredMemory:
        """Create an empty memory. Raises `MemoryExists`, `InvalidMemory`, also where the account has `MAX_MEMORIES`."""
        name = checked_name(name, "memory", InvalidMemory)

        def create(connection: Connection) -> StoredMemory:
            if connection.execute(_named(account_id, name)).first() is not None:
                raise MemoryExists(f"there is a memory named {name!r} already", param="name")
            return _info(connection, _row(connection, account_id, _create(connection, account_id, name)))

        created = await self._database.write(create)
        audit("memory.create", created.id)
        return created

    async def list(self, account_id: str) -> tuple[StoredMemory, ...]:
        """Return the account's memories, by name."""

        def read(connection: Connection) -> tuple[StoredMemory, ...]:
            own = _memories.c.account_id == account_id
            pairs = _pairs(connection, own)
            rows = connection.execute(select(_memories).where(own)).all()
            return tuple(sorted((_memory(row, pairs.get(row.id, ())) for row in rows), key=lambda one: one.name))

        return await self._database.read(read)

    async def get(self, account_id: str, reference: str) -> StoredMemory:
        """Return a memory without its entries."""
        return await self._database.read(lambda connection: _info(connection, _row(connection, account_id, reference)))

    async def rename(self, account_id: str, reference: str, name: str) -> StoredMemory:
        """Rename a memory without a new version. Raises `MemoryExists`, `InvalidMemory`."""
        name = checked_name(name, "memory", InvalidMemory)

        def rename(connection: Connection) -> StoredMemory:
            row = _row(connection, account_id, reference, for_update=True)
            changed = update(_memories).where(_memories.c.id == row.id).values(name=name, updated_at=utc_now())
            try:
                connection.execute(changed)
            except IntegrityError:
                raise MemoryExists(f"there is a memory named {name!r} already", param="name") from None
            return _info(connection, _row(connection, account_id, row.id))

        renamed = await self._database.write(rename)
        audit("memory.rename", renamed.id)
        return renamed

    async def delete(self, account_id: str, reference: str) -> None:
        """Delete a memory with all its entries."""

        def remove(connection: Connection) -> str:
            row = _row(connection, account_id, reference, for_update=True)
            connection.execute(delete(_entries).where(_entries.c.memory_id == row.id))
            connection.execute(delete(_memories).where(_memories.c.id == row.id))
            return str(row.id)

        audit("memory.delete", await self._database.write(remove))

    async def versions(self) -> list[MemoryVersion]:
        """Return the versions of the memories of all accounts."""
        columns = select(_memories.c.id, _memories.c.account_id, _memories.c.version)
        return await self._database.read(
            lambda connection: [MemoryVersion(*row) for row in connection.execute(columns).all()]
        )

    # ---- entries

    async def add(
        self, account_id: str, reference: str, entries: Iterable[NewEntry], most: int, *, create: bool = False
    ) -> str:
        """Add entries, which replace those of the same text and direction; return the memory's id.

        `most`: of all entries of the account; with more, `BodyTooLarge` is raised and none is added. `create`: where the
        account has no such memory, one of this name is made.
        """
        new = {entry.key: entry for entry in entries}

        def add(connection: Connection) -> tuple[str, bool]:
            is_new = False
            try:
                memory_id = str(_row(connection, account_id, reference, for_update=True).id)
            except UnknownMemory:
                if not create:
                    raise
                memory_id = _create(connection, account_id, checked_name(reference, "memory", InvalidMemory))
                is_new = True
            now, version = utc_now(), _next_version(connection, memory_id)
            rows = [
                {
                    "memory_id": memory_id,
                    "source": entry.source,
                    "digest": digest,
                    "target": entry.target,
                    "text": entry.text,
                    "translation": entry.translation,
                    "version": version,
                    "created_at": now,
                    "updated_at": now,
                }
                for (_, digest, _), entry in new.items()
            ]
            if rows:
                insert_into = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
                statement: Any = insert_into(_entries)
                changed = {name: statement.excluded[name] for name in ("translation", "version", "updated_at")}
                keys = [column.name for column in _entries.primary_key.columns]
                connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)
            of_account = select(func.count()).select_from(_entries.join(_memories))
            if (connection.scalar(of_account.where(_memories.c.account_id == account_id)) or 0) > most:
                raise BodyTooLarge(f"the memories of one key have at most {most:,} entries", param="entries")
            return memory_id, is_new

        try:
            memory_id, is_new = await self._database.write(add)
        except MemoryExists:  # made by another server in between
            memory_id, is_new = await self._database.write(add)
        if is_new:
            audit("memory.create", memory_id)
        return memory_id

    async def remove(self, account_id: str, reference: str, entry_id: str) -> None:
        """Delete an entry by its id. Raises `UnknownMemory`, also where there is no such entry."""

        def remove(connection: Connection) -> None:
            row = _row(connection, account_id, reference, for_update=True)
            source, digest, target = _place_of(entry_id) or ("", b"", "")
            c = _entries.c
            own = and_(c.memory_id == row.id, c.source == source, c.digest == digest, c.target == target)
            if connection.execute(delete(_entries).where(own)).rowcount == 0:
                raise UnknownMemory("the memory has no such entry")
            _next_version(connection, row.id)

        await self._database.write(remove)

    async def page(
        self,
        account_id: str,
        reference: str,
        limit: int,
        cursor: str | None = None,
        *,
        find: str = "",
        case_sensitive: bool = False,
        pair: Pair | None = None,
    ) -> EntryPage:
        """Return entries from `cursor` on; `find`: of those whose text or translation has it; `pair`: of this direction.

        A cursor is the id of the last entry of the page before. Raises `InvalidMemory` for another one.
        """
        c = _entries.c
        after = _place_of(cursor) if cursor else None
        if cursor and after is None:
            raise InvalidMemory("the cursor is none that this server gave", param="cursor")

        def read(connection: Connection) -> EntryPage:
            query = select(_entries).where(c.memory_id == _row(connection, account_id, reference).id)
            if after is not None:
                query = query.where(tuple_(c.source, c.digest, c.target) > tuple_(*map(literal, after)))
            if pair is not None:
                query = query.where(c.source == pair[0], c.target == pair[1])
            if find:
                query = query.where(or_(*(_has(column, find, case_sensitive) for column in (c.text, c.translation))))
            rows = connection.execute(query.order_by(c.source, c.digest, c.target).limit(limit + 1)).all()
            entries = [_entry(row) for row in rows[:limit]]
            return EntryPage(entries, entries[-1].id if len(rows) > limit else None)

        return await self._database.read(read)

    async def digests(self, memory_id: str, after: int) -> list[DigestRow]:
        """Return source, target and digest of the entries that were written after a version, in the order of digests."""
        c = _entries.c
        query = select(c.source, c.target, c.digest).where(c.memory_id == memory_id, c.version > after)
        query = query.order_by(c.source, c.digest, c.target)
        return await self._database.read(
            lambda connection: [(source, target, bytes(digest)) for source, target, digest in connection.execute(query)]
        )

    async def find(
        self, memory_ids: Sequence[str], pairs: Sequence[Pair], digests: Sequence[bytes]
    ) -> list[StoredEntry]:
        """Return the entries of these texts in these directions, the last to be changed first."""
        c = _entries.c
        query = select(_entries).where(
            c.memory_id.in_(memory_ids), tuple_(c.source, c.target).in_(pairs), c.digest.in_(digests)
        )
        query = query.order_by(c.updated_at.desc(), c.memory_id)
        return await self._database.read(lambda connection: [*map(_entry, connection.execute(query))])

    # ---- jobs

    async def add_job(self, job: StoredJob) -> None:
        """Store a job, and delete those that have expired."""

        def add(connection: Connection) -> None:
            connection.execute(delete(_jobs).where(_jobs.c.expires_at < utc_now()))
            connection.execute(insert(_jobs), [{field.name: getattr(job, field.name) for field in fields(StoredJob)}])

        await self._database.write(add)

    async def job(self, id: str) -> StoredJob | None:
        """Return a job that has not expired."""
        query = select(_jobs).where(_jobs.c.id == id, _jobs.c.expires_at >= utc_now())
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return None if row is None else StoredJob(**{one.name: getattr(row, one.name) for one in fields(StoredJob)})

    async def update_job(self, id: str, was: JobStatus, **values: object) -> bool:
        """Set columns of a job, while it has the status `was`. False: it has another."""
        changed = update(_jobs).where(_jobs.c.id == id, _jobs.c.status == was).values(updated_at=utc_now(), **values)
        return await self._database.write(lambda connection: connection.execute(changed).rowcount > 0)


# ---- statements


def _named(account_id: str, name: str) -> Any:
    return select(_memories.c.id).where(_memories.c.account_id == account_id, _memories.c.name == name)


def _create(connection: Connection, account_id: str, name: str) -> str:
    own = select(func.count()).select_from(_memories).where(_memories.c.account_id == account_id)
    if (connection.scalar(own) or 0) >= MAX_MEMORIES:
        raise InvalidMemory(f"a key has at most {MAX_MEMORIES} memories", param="name")
    now, id = utc_now(), str(uuid.uuid4())
    row = {"id": id, "account_id": account_id, "name": name, "version": 1, "created_at": now, "updated_at": now}
    try:
        connection.execute(insert(_memories), [row])
    except IntegrityError:  # created by another server in between
        raise MemoryExists(f"there is a memory named {name!r} already", param="name") from None
    return id


def _row(connection: Connection, account_id: str, reference: str, *, for_update: bool = False) -> Row[tuple[Any, ...]]:
    """Return the account's memory with this id, else the one with this name."""
    if len(reference) > MAX_NAME_CHARACTERS or not reference.isprintable():
        raise UnknownMemory("there is no such memory")
    either = or_(_memories.c.id == reference, _memories.c.name == reference)
    wanted = select(_memories).where(_memories.c.account_id == account_id, either)
    found = connection.execute(wanted.with_for_update() if for_update else wanted).first()
    if found is None:
        raise UnknownMemory(f"there is no memory {reference!r}; see GET /v1/memories")
    return found


def _next_version(connection: Connection, memory_id: str) -> int:
    """Increase a memory's version and return it: two that write wait for each other until the first one's commit."""
    changed = update(_memories).where(_memories.c.id == memory_id)
    changed = changed.values(version=_memories.c.version + 1, updated_at=utc_now())
    return int(connection.execute(changed.returning(_memories.c.version)).scalar_one())


def _info(connection: Connection, row: Row[tuple[Any, ...]]) -> StoredMemory:
    return _memory(row, _pairs(connection, _memories.c.id == row.id).get(row.id, ()))


def _pairs(connection: Connection, of_memories: ColumnElement[bool]) -> dict[str, tuple[PairCount, ...]]:
    """Return the pairs of these memories, by memory; the pair with the most entries comes first."""
    columns = (_entries.c.memory_id, _entries.c.source, _entries.c.target)
    counts = select(*columns, func.count()).select_from(_entries.join(_memories)).where(of_memories).group_by(*columns)
    found: dict[str, tuple[PairCount, ...]] = {}
    for memory_id, source, target, count in sorted(
        connection.execute(counts), key=lambda one: (-one[3], one[1], one[2])
    ):
        found[memory_id] = (*found.get(memory_id, ()), PairCount(source, target, count))
    return found


def _memory(row: Row[tuple[Any, ...]], pairs: tuple[PairCount, ...]) -> StoredMemory:
    times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
    return StoredMemory(row.id, row.name, row.version, *times, pairs)


def _entry(row: Row[tuple[Any, ...]]) -> StoredEntry:
    times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
    return StoredEntry(row.source, row.target, bytes(row.digest), row.text, row.translation, *times)


def _has(column: Any, wanted: str, case_sensitive: bool) -> Any:
    """Whether a column has a text in it. LIKE would ignore case in SQLite, and not in PostgreSQL."""
    if not case_sensitive:
        column, wanted = func.lower(column), wanted.lower()
    return func.replace(column, wanted, "") != column


_ENTRY_ID = re.compile(r"([A-Za-z0-9-]{1,64})\.([0-9a-f]{32})\.([A-Za-z0-9-]{1,64})")


def _place_of(entry_id: str) -> tuple[str, bytes, str] | None:
    """The key of an entry, by its id; None for what is no id."""
    found = _ENTRY_ID.fullmatch(entry_id)
    return (found[1], bytes.fromhex(found[2]), found[3]) if found else None
