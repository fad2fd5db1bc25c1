"""Stores documents, one row each: whose it is, its state and progress, and which server works on it.

A server owns the documents that it translates, and reports for each within `documents.owner_timeout_s`. All changes by an owner
are conditional: a server that was believed dead, and whose document another one has taken over, changes nothing more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, cast

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

from dragoman.errors import DocumentLost
from dragoman.storage.database import METADATA, Database, utc_now

DocumentState = Literal["queued", "translating", "done", "error"]
IN_FLIGHT: tuple[DocumentState, ...] = ("queued", "translating")
MAX_NAME_CHARACTERS = 100
RETRY_S = 15.0
"""How long a document waits after an engine or a disk has failed (`retry_at`)."""
FURTHEST_RETRY_S = 300.0
"""A `retry_at` further ahead is ignored: a clock that was far ahead has set it, and it may be hours away. It is far more than
`RETRY_S` since the clocks of servers that share a database differ, and each waits for the other's times, too."""

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
    Column("place", String(64), nullable=False, server_default=""),
)
_servers = Table(
    "document_servers",
    METADATA,
    Column("owner", String(100), primary_key=True),
    Column("place", String(64), nullable=False),
    Column("heartbeat_at", DateTime, nullable=False),
)
MOVING = "moving-"
"""Before the name of a place: of documents that are on their way from there into the database."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One document, without its options. `report` is the service's JSON; characters are those of its texts."""

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
    place: str = (
        ""  # where its files are (`DocumentFiles`); empty: in a folder of which no server has said that it has it
    )


_COLUMNS: list[Column[Any]] = [_documents.c[field.name] for field in fields(StoredDocument)]
"""Without the options, which older versions have put whole glossaries into."""


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

    async def add(self, document: StoredDocument, options: str, most_in_flight: int) -> bool:
        """Store a new document; `options`: the service's JSON. False: the account has `most_in_flight` that are queued or
        translated."""

        def add(connection: Connection) -> bool:
            if (connection.scalar(_in_flight(document.account_id)) or 0) >= most_in_flight:
                return False
            row = {field.name: getattr(document, field.name) for field in fields(StoredDocument)}
            connection.execute(insert(_documents), [{**row, "options": options}])
            return True

        return await self._database.write(add)

    async def get(self, id: str) -> StoredDocument | None:
        """Return a document that has not expired."""
        query = select(*_COLUMNS).where(_documents.c.id == id, _documents.c.expires_at > utc_now())
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return _document(row) if row is not None else None

    async def options(self, id: str) -> str | None:
        """Return a document's options; None: there is no such document."""
        query = select(_documents.c.options).where(_documents.c.id == id)
        return await self._database.read(lambda connection: connection.scalar(query))

    async def of_account(self, account_id: str, offset: int = 0, limit: int = 100) -> list[StoredDocument]:
        """Return some of an account's documents, the newest first."""
        query = select(*_COLUMNS).where(_documents.c.account_id == account_id, _documents.c.expires_at > utc_now())
        query = query.order_by(_documents.c.created_at.desc(), _documents.c.id).limit(limit).offset(offset)
        return await self._database.read(lambda connection: [*map(_document, cast(Any, connection.execute(query)))])

    async def in_flight(self, account_id: str) -> int:
        """Return how many documents of an account are queued or translated."""
        return await self._database.read(lambda connection: connection.scalar(_in_flight(account_id)) or 0)

    async def count_in_flight(self) -> dict[str, int]:
        """Return how many documents of all accounts are in each state in which they are in flight."""
        query = select(_documents.c.state, func.count()).group_by(_documents.c.state)
        query = query.where(_documents.c.state.in_(IN_FLIGHT), _documents.c.expires_at > utc_now())
        counts = await self._database.read(lambda connection: connection.execute(query).all())
        return {**dict.fromkeys(IN_FLIGHT, 0), **{str(state): int(count) for state, count in counts}}

    async def existing(self, ids: Collection[str]) -> set[str]:
        """Return which of these ids are documents'."""
        query = select(_documents.c.id).where(_documents.c.id.in_(ids))
        return await self._database.read(lambda connection: set(connection.scalars(query)))

    async def claim(self, owner: str, stale_before: datetime, places: Collection[str]) -> StoredDocument | None:
        """Make `owner` the owner of a document that waits, or whose owner has not reported since `stale_before`.

        Of those whose files are in `places`, the first to come of the account that has the fewest translated now. None: there
        is none.
        """
        now, table = utc_now(), _documents.c
        latest = now + timedelta(seconds=FURTHEST_RETRY_S)
        other = _documents.alias()
        of_account = select(func.count()).where(other.c.account_id == table.account_id, other.c.state == "translating")
        free = or_(
            and_(table.state == "queued", or_(table.retry_at.is_(None), ~table.retry_at.between(now, latest))),
            and_(table.state == "translating", table.heartbeat_at < stale_before),
        )
        free = and_(free, table.place.in_(places))
        first = select(table.id).where(free).order_by(of_account.scalar_subquery(), table.created_at, table.id).limit(1)
        values = {"state": "translating", "owner": owner, "heartbeat_at": now, "attempts": table.attempts + 1}

        def claim(connection: Connection) -> StoredDocument | None:
            while (found := connection.scalar(first)) is not None:
                # PostgreSQL looks at the condition again once another server's claim is committed.
                claimed = update(_documents).where(table.id == found, free).values(**values).returning(*_COLUMNS)
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

    async def add_edit(self, id: str, doubtful: int, *, changes: bool = True) -> bool:
        """Set how many segments are doubtful of a document that is done; `changes`: count a change of its translation."""
        done = and_(_documents.c.id == id, _documents.c.state == "done")
        edits = _documents.c.edits + int(changes)
        return await self._changes(update(_documents).where(done).values(edits=edits, doubtful=doubtful))

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

    # ---- where documents' files are

    async def report_server(self, owner: str, place: str) -> None:
        """Note that a server lives, and where the files of its documents are."""
        now = utc_now()

        def report(connection: Connection) -> None:
            own = update(_servers).where(_servers.c.owner == owner).values(place=place, heartbeat_at=now)
            if not connection.execute(own).rowcount:
                connection.execute(insert(_servers), [{"owner": owner, "place": place, "heartbeat_at": now}])

        await self._database.write(report)

    async def date_server(self, owner: str, heartbeat_at: datetime) -> None:
        """Note that a server has last reported then, as one that stops."""
        await self._changes(update(_servers).where(_servers.c.owner == owner).values(heartbeat_at=heartbeat_at))

    async def places(self, since: datetime) -> set[str]:
        """Return the places that servers have reported since then."""
        query = select(_servers.c.place).where(_servers.c.heartbeat_at >= since)
        return await self._database.read(lambda connection: set(connection.scalars(query)))

    async def outside(self, places: Collection[str]) -> dict[str, str]:
        """Return the ids of all documents whose files are in none of these places, each with its place."""
        query = select(_documents.c.id, _documents.c.place).where(_documents.c.place.not_in(places))
        query = query.order_by(_documents.c.created_at.desc())
        return await self._database.read(lambda connection: {row.id: row.place for row in connection.execute(query)})

    async def move(self, id: str, place: str, stale_before: datetime, *, was: str) -> bool:
        """Note that a document's files are in another place, unless a server that reports translates it. One that was lost, for
        want of its files, is as it was before. False: nothing was changed."""
        table = _documents.c
        free = or_(table.state != "translating", table.heartbeat_at < stale_before)
        moved = update(_documents).where(table.id == id, table.place == was)
        is_lost = and_(table.state == "error", table.error_code == DocumentLost.code)
        is_whole = and_(table.segments > 0, table.segments_done == table.segments)
        found = {"error_code": None, "error_message": None, "attempts": 0}

        def move(connection: Connection) -> bool:
            if not connection.execute(moved.where(free).values(place=place)).rowcount:
                return False
            now_there = update(_documents).where(table.id == id, is_lost)
            connection.execute(now_there.where(is_whole).values(state="done", **found))
            connection.execute(now_there.values(state="queued", **found))
            return True

        return await self._database.write(move)

    async def lose(self, places: Collection[str], stale_before: datetime, message: str) -> int:
        """End the documents whose files are in none of `places`, but those that a server that reports translates; return their
        number."""
        table = _documents.c
        elsewhere = and_(table.place.not_in(places), table.state != "error")
        ended = or_(table.state != "translating", table.heartbeat_at < stale_before)
        values = {
            "state": "error",
            "error_code": DocumentLost.code,
            "error_message": message,
            "owner": None,
            "heartbeat_at": None,
        }
        lost = update(_documents).where(elsewhere, ended).values(**values, seconds_remaining=None)
        return await self._database.write(lambda connection: connection.execute(lost).rowcount)

    async def forget_servers(self, before: datetime) -> None:
        """Delete what servers that died before have reported."""
        await self._changes(delete(_servers).where(_servers.c.heartbeat_at < before))

    async def _changes(self, statement: object) -> bool:
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0)  # type: ignore[call-overload]
