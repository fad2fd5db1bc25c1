"""Stores the usage of accounts: characters and requests by calendar month, in UTC.

Several servers add to the same rows, in batches. The transaction that adds a batch also stores its id. So a batch whose
commit was not confirmed can be added again with the same id, and counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import BigInteger, Column, Connection, DateTime, ForeignKey, String, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from dragoman.storage.database import METADATA, Database, utc_now
from dragoman.storage.keys import ACCOUNTS

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


class UsageLedger:
    """The repository of usage. All methods raise `StorageUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._until_deletion = 0

    async def add(self, batch: UsageBatch) -> None:
        """Add a batch to the stored sums, unless it was added before. Usage of accounts that are not stored is dropped.

        Such accounts were deleted by hand or by restoring a backup, and must not prevent that other usage is stored.
        """
        self._until_deletion = (self._until_deletion or _BATCHES_BETWEEN_DELETIONS) - 1
        deletes = self._until_deletion == 0

        def add(connection: Connection) -> None:
            now = utc_now()
            insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
            marked = insert(_batches).values(id=batch.id, added_at=now).on_conflict_do_nothing()
            if connection.execute(marked.returning(_batches.c.id)).first() is None:
                return
            ids = {account_id for account_id, _ in batch.used}
            stored = set(connection.scalars(select(ACCOUNTS.c.id).where(ACCOUNTS.c.id.in_(ids))))
            for (account_id, month), used in sorted(batch.used.items()):  # one order, so that servers cannot deadlock
                if account_id not in stored:
                    continue
                new = insert(USAGE).values(
                    account_id=account_id, month=month, characters=used.characters, requests=used.requests
                )
                added = {name: USAGE.c[name] + new.excluded[name] for name in ("characters", "requests")}
                connection.execute(new.on_conflict_do_update(index_elements=["account_id", "month"], set_=added))
            if deletes:
                connection.execute(delete(_batches).where(_batches.c.added_at < now - _BATCH_IDS_KEPT))

        await self._database.write(add)

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
