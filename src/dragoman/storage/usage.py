"""Stores the usage of accounts: characters and requests by calendar month, in UTC; and what is set aside of their quotas.

Several servers add to the same rows, in batches. The transaction that adds a batch also stores its id. So a batch whose
commit was not confirmed can be added again with the same id, and counts once.

A server translates for an account with a quota within a lease: characters that it has set aside for requests that are not
charged yet. Usage, all servers' leases and documents that wait for their delivery are together never more than the quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    String,
    Table,
    and_,
    case,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from dragoman.storage import documents
from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.keys import ACCOUNTS

SPARE_SHARE = 16
"""A lease has at most one of so many characters that are left besides what it is asked for: a call in thousands then waits for
the database, and other servers lack little of the quota."""
SPARE_CHARACTERS = (1_000, 100_000)
"""The least and the most of that; near the end of a quota there is none, so that all of it can be used by any server."""
_BATCH_IDS_KEPT = timedelta(days=1)
_BATCHES_BETWEEN_DELETIONS = 1000

USAGE = Table(
    "usage",
    METADATA,
    Column("account_id", String(16), ForeignKey("accounts.id"), primary_key=True),
    Column("month", String(7), primary_key=True),  # such as 2026-11
    Column("characters", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
)
_batches = Table(
    "usage_batches",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("added_at", DateTime, nullable=False),  # UTC
)
_leases = Table(
    "quota_leases",
    METADATA,
    Column("account_id", String(16), primary_key=True),
    Column("server", String(16), primary_key=True),
    Column("characters", BigInteger, nullable=False),
    Column("expires_at", DateTime, nullable=False),  # UTC; of a server that does not renew it
)


@dataclass(frozen=True, slots=True)
class Used:
    """The number of source characters and of requests."""

    characters: int = 0
    requests: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(self.characters + other.characters, self.requests + other.requests)


@dataclass(frozen=True, slots=True)
class UsageBatch:
    """The usage since the previous batch, by account id and month."""

    id: str
    used: Mapping[tuple[str, str], Used]


@dataclass(frozen=True, slots=True)
class Lease:
    """What a server may translate for an account: so many characters that are not charged yet, those in flight included.

    `used` of the quota this month, and set aside `elsewhere`: by other servers, and for documents.
    """

    characters: int
    used: int
    elsewhere: int


class UsageLedger:
    """The repository of usage, and of one server's leases. All methods raise `StorageUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._until_deletion = 0
        self._server = token_hex(8)

    async def add(self, batch: UsageBatch) -> None:
        """Add a batch to the stored sums, unless it was added before, and take it off this server's leases. Usage of accounts
        that are not stored is dropped.

        Such accounts were deleted by hand or by restoring a backup, and must not prevent that other usage is stored.
        """
        self._until_deletion = (self._until_deletion or _BATCHES_BETWEEN_DELETIONS) - 1
        deletes = self._until_deletion == 0

        def add(connection: Connection) -> None:
            now = utc_now()
            marked = _insert(connection, _batches).values(id=batch.id, added_at=now).on_conflict_do_nothing()
            if connection.execute(marked.returning(_batches.c.id)).first() is None:
                return
            ids = {account_id for account_id, _ in batch.used}
            stored = set(connection.scalars(select(ACCOUNTS.c.id).where(ACCOUNTS.c.id.in_(ids))))
            for (account_id, month), used in sorted(batch.used.items()):  # one order, so that servers cannot deadlock
                if account_id in stored:
                    _add(connection, account_id, month, used)
                    left = case(
                        (_leases.c.characters > used.characters, _leases.c.characters - used.characters), else_=0
                    )
                    connection.execute(update(_leases).where(self._own(account_id)).values(characters=left))
            if deletes:
                connection.execute(delete(_batches).where(_batches.c.added_at < now - _BATCH_IDS_KEPT))

        await self._database.write(add)

    async def charge_document(self, id: str, account_id: str, month: str, characters: int) -> bool:
        """Note that an account is charged for a document, and add that to its usage. False: it was before."""

        def charge(connection: Connection) -> bool:
            if not connection.execute(documents.charge(id)).rowcount:
                return False
            if connection.scalar(select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == account_id)) is not None:
                _add(connection, account_id, month, Used(characters, 1))
            return True

        return await self._database.write(charge)

    async def lease(
        self, account_id: str, month: str, limit: int, outstanding: int, characters: int, lease_s: float
    ) -> Lease:
        """Set aside what an account's requests may cost: `outstanding`, of those of this server that are not stored yet, and
        `characters` more with some to spare, if the quota has them. It holds for `lease_s`, unless it is renewed."""

        def lease(connection: Connection) -> Lease:
            row = select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == account_id)
            connection.execute(row.with_for_update(key_share=True))  # servers take turns
            now = utc_now()
            others = and_(
                _leases.c.account_id == account_id, _leases.c.server != self._server, _leases.c.expires_at > now
            )
            of_month = select(USAGE.c.characters).where(USAGE.c.account_id == account_id, USAGE.c.month == month)
            leased = select(func.coalesce(func.sum(_leases.c.characters), 0)).where(others)
            # One statement: characters that another transaction moves from one of these to another are seen once.
            parts = (of_month, leased, documents.uncharged_characters(account_id))
            numbers = connection.execute(select(*(part.scalar_subquery() for part in parts))).one()
            used, *set_aside = (int(number or 0) for number in numbers)
            left = limit - used - sum(set_aside) - outstanding - characters
            held = outstanding if left < 0 else outstanding + characters + _spare(left)
            expires_at = now + timedelta(seconds=lease_s)
            new = _insert(connection, _leases).values(
                account_id=account_id, server=self._server, characters=held, expires_at=expires_at
            )
            values = {"characters": held, "expires_at": expires_at}
            connection.execute(new.on_conflict_do_update(index_elements=["account_id", "server"], set_=values))
            return Lease(held, used, sum(set_aside))

        return await self._database.write(lease)

    async def renew(self, reduced: Mapping[str, int], lease_s: float) -> None:
        """Renew this server's leases, and set those of some accounts, by id, to so many characters; delete what has expired."""

        def renew(connection: Connection) -> None:
            now = utc_now()
            own = _leases.c.server == self._server
            connection.execute(update(_leases).where(own).values(expires_at=now + timedelta(seconds=lease_s)))
            for account_id, characters in reduced.items():
                connection.execute(update(_leases).where(self._own(account_id)).values(characters=characters))
            empty = and_(own, _leases.c.characters == 0)
            connection.execute(delete(_leases).where(empty | (_leases.c.expires_at <= now)))

        await self._database.write(renew)

    async def release(self) -> None:
        """Delete this server's leases."""
        own = delete(_leases).where(_leases.c.server == self._server)
        await self._database.write(lambda connection: connection.execute(own))

    def _own(self, account_id: str) -> Any:
        return and_(_leases.c.account_id == account_id, _leases.c.server == self._server)

    async def of_month(self, month: str) -> Mapping[str, Used]:
        """Return the usage of all accounts in a month, by account id."""

        def read(connection: Connection) -> dict[str, Used]:
            rows = connection.execute(select(USAGE).where(USAGE.c.month == month))
            return {row.account_id: Used(row.characters, row.requests) for row in rows}

        return await self._database.read(read)

    async def by_month(self) -> Mapping[tuple[str, str], Used]:
        """Return all stored usage, sorted by month and account id."""

        def read(connection: Connection) -> dict[tuple[str, str], Used]:
            rows = connection.execute(select(USAGE).order_by(USAGE.c.month, USAGE.c.account_id))
            return {(row.month, row.account_id): Used(row.characters, row.requests) for row in rows}

        return await self._database.read(read)


def _insert(connection: Connection, table: Table) -> Any:
    """An insert of the database's dialect, which can be told what to do about a row that is there."""
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)


def _add(connection: Connection, account_id: str, month: str, used: Used) -> None:
    new = _insert(connection, USAGE).values(
        account_id=account_id, month=month, characters=used.characters, requests=used.requests
    )
    added = {name: USAGE.c[name] + new.excluded[name] for name in ("characters", "requests")}
    connection.execute(new.on_conflict_do_update(index_elements=["account_id", "month"], set_=added))


def _spare(left: int) -> int:
    """What a lease has besides, of so many characters that are left of the quota."""
    least, most = SPARE_CHARACTERS
    spare = left // SPARE_SHARE
    return 0 if spare < least else min(spare, most)
