"""Stores documents, one row each: whose it is, its state and progress, and which server works on it.

A server owns the documents that it translates, and reports for each within `documents.owner_timeout_s`. All changes by an owner
are conditional: a server that was believed dead, and whose document another one has taken over, changes nothing more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Integer,
    Row,
    Select,
    String,
    Table,
    Text,
    Update,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from dragoman.storage.database import METADATA, Database, utc_now

DocumentState = Literal["queued", "translating", "done", "error"]
IN_FLIGHT: tuple[DocumentState, ...] = ("queued", "translating")
MAX_NAME_CHARACTERS = 100

_documents = Table(
    "documents",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("account_id", String(16), nullable=False, index=True),
    Column("secret_digest", String(64), nullable=False),
    Column("api", String(16), nullable=False),
    Column("name", String(MAX_NAME_CHARACTERS), nullable=False),
    Column("format", String(16), nullable=False),
    Column("target", String(64), nullable=False),
    Column("source", String(64)),
    Column("detected", Boolean, nullable=False),
    Column("options", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("characters", BigInteger, nullable=False),
    Column("characters_done", BigInteger, nullable=False),
    Column("segments", Integer, nullable=False),
    Column("segments_done", Integer, nullable=False),
    Column("doubtful", Integer, nullable=False),
    Column("edits", Integer, nullable=False),
    Column("seconds_remaining", Float),
    Column("report", Text, nullable=False),
    Column("error_code", String(32)),
    Column("error_message", Text),
    Column("charged", Boolean, nullable=False),
    Column("created_at", DateTime, nullable=False),  # UTC, like the other times
    Column("expires_at", DateTime, nullable=False, index=True),
    Column("owner", String(100)),
    Column("heartbeat_at", DateTime),
    Column("attempts", Integer, nullable=False),
    Column("retry_at", DateTime),
)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One document. `options` and `report` are the service's JSON; characters are those of its texts."""

    id: str  # 32 upper-case hexadecimal digits
    account_id: str
    secret_digest: (
        str  # SHA-256 of what a client that has no key shows, or that DeepL's clients show besides; empty: nothing
    )
    api: str
    name: str  # of the file, without a path
    format: str
    target: str
    source: str | None  # as given or as detected; None: not detected yet
    detected: bool
    options: str
    created_at: datetime
    expires_at: datetime
    state: DocumentState = "queued"
    characters: int = 0
    characters_done: int = 0
    segments: int = 0
    segments_done: int = 0
    doubtful: int = 0
    edits: int = 0  # changes of its translation since it was done
    seconds_remaining: float | None = None
    report: str = "{}"
    error_code: str | None = None
    error_message: str | None = None
    charged: bool = False  # its account, for it
    owner: str | None = None  # the server that translates it
    heartbeat_at: datetime | None = None  # when that last reported
    attempts: int = 0  # how often it was begun, and not ended by a server that stopped
    retry_at: datetime | None = None  # not before


def _document(row: Row[tuple[object, ...]]) -> StoredDocument:
    return StoredDocument(**{field.name: getattr(row, field.name) for field in fields(StoredDocument)})


def _in_flight(account_id: str) -> Select[Any]:
    """How many documents of an account are queued or translated."""
    own = and_(_documents.c.account_id == account_id, _documents.c.state.in_(IN_FLIGHT))
    return select(func.count()).select_from(_documents).where(own)


def charge(id: str) -> Update:
    """Note that a document's account is charged for it; it changes no row if that was noted before."""
    return update(_documents).where(_documents.c.id == id, _documents.c.charged.is_(False)).values(charged=True)


def uncharged_characters(account_id: str) -> Select[Any]:
    """The characters of an account's documents that are translated, or are to be, and not delivered."""
    table = _documents.c
    own = and_(table.account_id == account_id, table.charged.is_(False), table.state != "error")
    return select(func.coalesce(func.sum(table.characters), 0)).where(own, table.expires_at > utc_now())


class DocumentStore:
    """The repository of documents. All methods raise `StorageUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, document: StoredDocument, most_in_flight: int) -> bool:
        """Store a new document. False: the account has `most_in_flight` that are queued or translated."""

        def add(connection: Connection) -> bool:
            if (connection.scalar(_in_flight(document.account_id)) or 0) >= most_in_flight:
                return False
            row = {field.name: getattr(document, field.name) for field in fields(StoredDocument)}
            connection.execute(insert(_documents), [row])
            return True

        return await self._database.write(add)

    async def get(self, id: str) -> StoredDocument | None:
        """Return a document that has not expired."""
        query = select(_documents).where(_documents.c.id == id, _documents.c.expires_at > utc_now())
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return _document(row) if row is not None else None

    async def of_account(self, account_id: str, offset: int = 0, limit: int = 100) -> list[StoredDocument]:
        """Return some of an account's documents, the newest first."""
        query = select(_documents).where(_documents.c.account_id == account_id, _documents.c.expires_at > utc_now())
        query = query.order_by(_documents.c.created_at.desc(), _documents.c.id).limit(limit).offset(offset)
        return await self._database.read(lambda connection: [*map(_document, connection.execute(query))])

    async def in_flight(self, account_id: str) -> int:
        """Return how many documents of an account are queued or translated."""
        return await self._database.read(lambda connection: connection.scalar(_in_flight(account_id)) or 0)

    async def count_in_flight(self) -> dict[str, int]:
        """Return how many documents of all accounts are in each state in which they are in flight."""
        query = select(_documents.c.state, func.count()).group_by(_documents.c.state)
        query = query.where(_documents.c.state.in_(IN_FLIGHT), _documents.c.expires_at > utc_now())
        counts = await self._database.read(lambda connection: [tuple(row) for row in connection.execute(query)])
        return {**dict.fromkeys(IN_FLIGHT, 0), **dict(counts)}

    async def existing(self, ids: Collection[str]) -> set[str]:
        """Return which of these ids are documents'."""
        query = select(_documents.c.id).where(_documents.c.id.in_(ids))
        return await self._database.read(lambda connection: set(connection.scalars(query)))

    async def claim(self, owner: str, stale_before: datetime) -> StoredDocument | None:
        """Make `owner` the owner of a document that waits, or whose owner has not reported since `stale_before`.

        The first to come of the account that has the fewest translated now. None: there is none.
        """
        now, table = utc_now(), _documents.c
        other = _documents.alias()
        of_account = select(func.count()).where(other.c.account_id == table.account_id, other.c.state == "translating")
        free = or_(
            and_(table.state == "queued", or_(table.retry_at.is_(None), table.retry_at <= now)),
            and_(table.state == "translating", table.heartbeat_at < stale_before),
        )
        first = select(table.id).where(free).order_by(of_account.scalar_subquery(), table.created_at, table.id).limit(1)
        values = {"state": "translating", "owner": owner, "heartbeat_at": now, "attempts": table.attempts + 1}

        def claim(connection: Connection) -> StoredDocument | None:
            while (found := connection.scalar(first)) is not None:
                # PostgreSQL looks at the condition again once another server's claim is committed.
                claimed = update(_documents).where(table.id == found, free).values(**values).returning(_documents)
                if (row := connection.execute(claimed).first()) is not None:
                    return _document(row)
            return None

        return await self._database.write(claim)

    async def update(self, id: str, held_by: str | None = None, /, **values: object) -> bool:
        """Set columns of a document; with `held_by`, only while that server translates it. False: nothing was changed."""
        changed = update(_documents).where(_documents.c.id == id)
        if held_by is not None:
            changed = changed.where(_documents.c.owner == held_by, _documents.c.state == "translating")
        return await self._changes(changed.values(**values))

    async def release(self, owner: str) -> None:
        """Put the documents of a server that stops back to those that wait."""
        own = and_(_documents.c.owner == owner, _documents.c.state == "translating")
        values = {"state": "queued", "owner": None, "attempts": _documents.c.attempts - 1}
        await self._changes(update(_documents).where(own).values(**values))

    async def add_edit(self, id: str, doubtful: int) -> bool:
        """Count a change of a translation that is done, and set how many segments are doubtful."""
        done = and_(_documents.c.id == id, _documents.c.state == "done")
        return await self._changes(
            update(_documents).where(done).values(edits=_documents.c.edits + 1, doubtful=doubtful)
        )

    async def charge(self, id: str) -> bool:
        """Note that its account is charged for it. False: it was before."""
        return await self._changes(charge(id))

    async def delete(self, id: str) -> bool:
        """Delete a document. False: there was none."""
        return await self._changes(delete(_documents).where(_documents.c.id == id))

    async def delete_expired(self) -> list[str]:
        """Delete the documents that have expired and are not being translated; return their ids."""
        expired = and_(_documents.c.expires_at <= utc_now(), _documents.c.state != "translating")
        deleted = delete(_documents).where(expired).returning(_documents.c.id)
        return await self._database.write(lambda connection: list(connection.scalars(deleted)))

    async def _changes(self, statement: object) -> bool:
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0)  # type: ignore[call-overload]
