"""Stores what glossaries and translation memories have in common: owner, name, version, and entries by pair of languages.

The owner is an account, or the server (`SERVER`). An account changes its own collections, and sees besides what the server
shares: all that it owns but those of some names, if the kind has such. Names are unique for an owner; by a name that both have,
an account's own is found. Who may change what the server owns is not known here. How entries are stored is the kind's.
"""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Integer,
    Row,
    String,
    Table,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from dragoman.errors import DragomanError
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.telemetry.logs import Change, audit
from dragoman.types import ANONYMOUS

MAX_NAME_CHARACTERS = 200

SERVER = ANONYMOUS.id
"""The owner of what a server shares: whoever calls a server that needs no keys is the server itself."""

Pair = tuple[str, str]
"""Source and target language, as normalised tags."""


@dataclass(frozen=True, slots=True)
class PairCount:
    """A pair of languages, with its number of entries."""

    source: str
    target: str
    entry_count: int


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection without its entries. Times are in UTC; the order of the pairs is the kind's."""

    id: str
    account_id: str  # of the owner
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    pairs: tuple[PairCount, ...]
    is_shared: bool  # with all accounts

    @property
    def entry_count(self) -> int:
        return sum(one.entry_count for one in self.pairs)


def collection_table(name: str, *of_kind: Column[Any]) -> Table:
    """Return the table of a kind, with columns of its own."""
    return Table(
        name,
        METADATA,
        Column("id", String(36), primary_key=True),
        Column("account_id", String(16), nullable=False),
        Column("name", String(MAX_NAME_CHARACTERS), nullable=False),
        Column("version", Integer, nullable=False),
        Column("created_at", DateTime, nullable=False),  # UTC, like the other times
        Column("updated_at", DateTime, nullable=False),
        *of_kind,
    )


class Collections:
    """The repository of a kind. A `reference` is a collection's id or name.

    All methods raise `StorageUnavailable`; those with a reference raise `unknown`, those with a new name or owner `invalid`,
    `exists` and `too_many`.
    """

    kind: ClassVar[Literal["glossary", "memory"]]
    plural: ClassVar[str]
    has_own_names: ClassVar[bool] = False
    """Whether an account's own have their names in a column `own_name`; see `_names`."""
    unshared: ClassVar[frozenset[str]] = frozenset()
    """Names of those of the server that no account sees, and that nothing that is shared can get."""
    most: ClassVar[int]
    """Collections of one owner, all of which a list shows."""
    table: ClassVar[Table]
    pairs: ClassVar[Table]
    """Counts of entries; the first column is the collection's id."""
    pair_order: ClassVar[tuple[ColumnElement[Any], ...]]
    invalid: ClassVar[type[DragomanError]]
    too_many: ClassVar[type[DragomanError]]
    unknown: ClassVar[type[DragomanError]]
    exists: ClassVar[type[DragomanError]]

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, account_id: str | None) -> tuple[StoredCollection, ...]:
        """Return what an account sees, or, for None, those of all owners; by name, the account's own first."""
        owner = self.table.c.account_id
        seen = owner != "" if account_id is None else self._is_seen_by(account_id)

        def read(connection: Connection) -> tuple[StoredCollection, ...]:
            pairs = self._counts(connection, seen)
            rows = connection.execute(select(self.table).where(seen)).all()
            found = (self._collection(row, pairs.get(row.id, ())) for row in rows)
            return tuple(sorted(found, key=lambda one: (one.name, one.account_id != account_id, one.account_id)))

        return await self._database.read(read)

    async def get(self, account_id: str, reference: str) -> StoredCollection:
        """Return what an account sees by this reference."""

        def read(connection: Connection) -> StoredCollection:
            row = self._row(connection, account_id, reference)
            return self._collection(row, self._counts(connection, self.table.c.id == row.id).get(row.id, ()))

        return await self._database.read(read)

    async def id_of(self, account_id: str, reference: str) -> str:
        """Return the id of what an account sees by this reference: for calls, which need no more."""
        return await self._database.read(lambda connection: str(self._row(connection, account_id, reference).id))

    async def rename(self, account_id: str, reference: str, name: str) -> StoredCollection:
        """Rename an account's own collection without a new version."""
        return await self._move("rename", account_id, reference, account_id, self.checked_name(name))

    async def give(self, account_id: str, reference: str, new_owner: str, name: str | None = None) -> StoredCollection:
        """Give an account's own collection to another one, or, with `SERVER`, share it; with `name` under another name.

        Raises what creation raises for the new owner, and what `_check_new_owner` does; `invalid` for a name that is never
        shared.
        """
        change, name = "share" if new_owner == SERVER else "give", None if name is None else self.checked_name(name)
        return await self._move(change, account_id, reference, new_owner, name)

    async def _move(
        self, change: str, account_id: str, reference: str, new_owner: str, new_name: str | None = None
    ) -> StoredCollection:
        """Give an account's own collection to an owner, or another name; none that it has already."""

        def move(connection: Connection) -> tuple[StoredCollection, bool]:
            row = self._row(connection, account_id, reference, own=True)
            name = new_name or _name(row)
            if (new_owner, name) == (account_id, _name(row)):
                return self._info(connection, row.id), False
            if new_owner == SERVER and name in self.unshared:
                raise self.invalid(f"a {self.kind} named {name!r} is never shared: give it another name", param="name")
            self._check_name(connection, new_owner, name, but=row.id)
            values = {"account_id": new_owner, "updated_at": utc_now(), **self._names(new_owner, row.id, name)}
            try:
                connection.execute(update(self.table).where(self.table.c.id == row.id).values(**values))
            except IntegrityError:
                raise self._taken(name) from None
            if new_owner != account_id:
                self._check_new_owner(connection, new_owner)
            return self._info(connection, row.id), True

        moved, is_changed = await self._database.write(move)
        if is_changed:
            self._audit(change, moved.id)
        return moved

    def checked_name(self, name: str) -> str:
        """Return a name without white space around it. Raises `invalid`."""
        name = name.strip()
        if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable() or "/" in name:
            most = MAX_NAME_CHARACTERS
            raise self.invalid(
                f"a {self.kind}'s name has 1 to {most} characters, no line breaks and no slash", param="name"
            )
        try:
            uuid.UUID(name)
        except ValueError:
            return name
        raise self.invalid(f"a {self.kind}'s name must not be a UUID, which is the form of ids", param="name")

    # ---- for the transactions of a kind

    def _names(self, account_id: str, id: str, name: str) -> dict[str, str | None]:
        """Return the columns that have a name. Of a kind with own names, an account's own has its id as `name`.

        So a server of before, for which all of this kind are the server's, finds by a name what the server shares.
        """
        if not self.has_own_names:
            return {"name": name}
        return {"name": name, "own_name": None} if account_id == SERVER else {"name": id, "own_name": name}

    def _is_named(self, name: str) -> ColumnElement[bool]:
        c = self.table.c
        return (func.coalesce(c.own_name, c.name) if self.has_own_names else c.name) == name

    def shares(self, account_id: str, name: str) -> bool:
        """Whether an owner's collection of this name is shared."""
        return account_id == SERVER and name not in self.unshared

    def _is_seen_by(self, account_id: str) -> ColumnElement[bool]:
        c = self.table.c
        return or_(c.account_id == account_id, and_(c.account_id == SERVER, c.name.not_in(sorted(self.unshared))))

    def _row(
        self, connection: Connection, account_id: str, reference: str, *, own: bool = False
    ) -> Row[tuple[Any, ...]]:
        """Return what the account sees by this id, else by this name: its own before the server's.

        `own`: to change it, of the account's own alone; others that change it wait.
        """
        c, found = self.table.c, list[Row[tuple[Any, ...]]]()
        if len(reference) <= MAX_NAME_CHARACTERS and reference.isprintable():
            is_seen = c.account_id == account_id if own else self._is_seen_by(account_id)
            wanted = select(self.table).where(is_seen, or_(c.id == reference, self._is_named(reference)))
            found.extend(connection.execute(wanted.with_for_update() if own else wanted))
        if not found:
            named = repr(reference[:MAX_NAME_CHARACTERS])
            raise self.unknown(f"there is no {self.kind} {named} among those that the caller can list")
        return min(found, key=lambda row: row.account_id != account_id)

    def _insert(
        self,
        connection: Connection,
        account_id: str,
        name: str,
        fill: Callable[[str], None] = lambda id: None,
    ) -> str:
        """Create a collection with version 1, `fill` it, and return its id."""
        name = self.checked_name(name)
        self._check_name(connection, account_id, name)
        now, id = utc_now(), str(uuid.uuid4())
        row = {"id": id, "account_id": account_id, "version": 1, "created_at": now, "updated_at": now}
        try:
            connection.execute(insert(self.table), [row | self._names(account_id, id, name)])
        except IntegrityError:  # created by another server in between
            raise self._taken(name) from None
        fill(id)
        self._check_counts(connection, account_id)
        return id

    def _check_name(self, connection: Connection, account_id: str, name: str, but: str = "") -> None:
        """Raise `exists` where an owner has another collection of this name than the one with the id `but`."""
        c = self.table.c
        named = select(c.id).where(c.account_id == account_id, self._is_named(name), c.id != but)
        if (taken := connection.scalar(named)) is not None:
            raise self._taken(name, f": {taken}")

    def _check_counts(self, connection: Connection, account_id: str) -> None:
        """Raise `too_many` where an owner has more now than it may."""
        own = select(func.count()).select_from(self.table).where(self.table.c.account_id == account_id)
        if (connection.scalar(own) or 0) > self.most:
            raise self.too_many(f"one owner has at most {self.most:,} {self.plural}", param="name")

    def _check_new_owner(self, connection: Connection, account_id: str) -> None:
        """Raise `too_many`, or another error of the kind, where an owner has more than it may, now that it was given one."""
        self._check_counts(connection, account_id)

    def _taken(self, name: str, by: str = "") -> DragomanError:
        return self.exists(f"there is a {self.kind} named {name!r} already{by}", param="name")

    def _next_version(self, connection: Connection, id: str) -> int:
        """Increase a collection's version and return it: two that write wait for each other until the first one's commit."""
        c = self.table.c
        changed = update(self.table).where(c.id == id).values(version=c.version + 1, updated_at=utc_now())
        return int(connection.execute(changed.returning(c.version)).scalar_one())

    def _info(self, connection: Connection, id: str) -> StoredCollection:
        of_id = self.table.c.id == id
        row = connection.execute(select(self.table).where(of_id)).one()
        return self._collection(row, self._counts(connection, of_id).get(id, ()))

    def _collection(self, row: Row[tuple[Any, ...]], pairs: Iterable[PairCount]) -> StoredCollection:
        times = row.created_at.replace(tzinfo=UTC), row.updated_at.replace(tzinfo=UTC)
        name, is_shared = _name(row), self.shares(row.account_id, _name(row))
        return StoredCollection(row.id, row.account_id, name, row.version, *times, tuple(pairs), is_shared)

    def _counts(self, connection: Connection, where: ColumnElement[bool]) -> dict[str, builtins.list[PairCount]]:
        """Return the pairs of the collections that a condition holds for, by collection."""
        pairs = self.pairs
        columns = (pairs.columns.values()[0], pairs.c.source, pairs.c.target, pairs.c.entry_count)
        counts = select(*columns).select_from(pairs.join(self.table)).where(where).order_by(*self.pair_order)
        found: dict[str, list[PairCount]] = {}
        for id, *pair in connection.execute(counts):
            found.setdefault(id, []).append(PairCount(*pair))
        return found

    def _audit(self, change: str, id: str) -> None:
        audit(cast(Change, f"{self.kind}.{change}"), id)


def _name(row: Row[tuple[Any, ...]]) -> str:
    """See `Collections._names`."""
    return getattr(row, "own_name", None) or str(row.name)


def insert_into(connection: Connection, table: Table) -> Any:
    """An insertion that can say what it does where the row is there."""
    return {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name](table)
