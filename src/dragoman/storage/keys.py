"""Stores accounts and their keys. Only the SHA-256 digest of a key is stored; keys are 256 random bits and need no salt.

An account has an id, which never changes, a name, limits, and one key or, for a while after a rotation, several.
"""

from __future__ import annotations

import builtins
import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Float,
    ForeignKey,
    Row,
    Select,
    String,
    Table,
    insert,
    or_,
    select,
    update,
)

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.storage.database import METADATA, Database
from dragoman.telemetry.logs import audit
from dragoman.types import Account, KeyRole, Priority

KEY_PREFIX = "drg_"
"""Programs that search for leaked secrets can recognise keys by this prefix."""
_DEEPL_SUFFIX = ":fx"  # which DeepL's clients expect of keys of the free plan
_MAX_NAME_CHARACTERS = 100
_MAX_LANGUAGES_CHARACTERS = 2000
_CHARACTERS_PER_MONTH = (1, 10**15)  # lowest and highest, which leaves space for the sum in a column of 64 bits
_REQUESTS_PER_S = (0.001, 1_000_000)
_OVERLAP_H = (0, 10 * 365 * 24)

ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("name", String(_MAX_NAME_CHARACTERS), nullable=False),  # of one account that is not revoked
    Column("role", String(16), nullable=False),
    Column("characters_per_month", BigInteger),
    Column("requests_per_s", Float),
    Column("languages", String(_MAX_LANGUAGES_CHARACTERS), nullable=False),  # tags, separated by commas
    Column("priority", String(16), nullable=False),
    Column("created_at", DateTime, nullable=False),  # UTC
    Column("expires_at", DateTime),
    Column("revoked_at", DateTime),
)
_keys = Table(
    "account_keys",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("account_id", String(16), ForeignKey("accounts.id"), nullable=False, index=True),
    Column("created_at", DateTime, nullable=False),
    Column("expires_at", DateTime),  # of a key that was replaced by another
)


def digest_of(key: str) -> str:
    """Return the digest of a key, which is stored. DeepL's suffix for free plans is ignored."""
    return hashlib.sha256(key.removesuffix(_DEEPL_SUFFIX).encode("utf-8", "surrogatepass")).hexdigest()


def _new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key: its account, its expiry (None: never), and whether it was revoked."""

    account: Account
    expires_at: datetime | None
    is_revoked: bool = False

    def is_valid(self, now: datetime) -> bool:
        """Whether the key has not expired, and was not revoked."""
        return not self.is_revoked and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """An account with its times, in UTC."""

    account: Account
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Keys:
    """The repository of accounts and their keys. A `reference` is an account's id or its name.

    All methods raise `StorageUnavailable`; those with a reference raise `ConfigError` for an unknown one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, limits: Account, expires_at: datetime | None = None) -> tuple[Account, str]:
        """Create an account with these limits (their id is ignored). Return it and its key, which is not stored.

        Raises `ConfigError` for a name that is in use or a limit out of bounds, and `UnsupportedLanguage`.
        """
        _check_bounds("--characters-per-month", limits.characters_per_month, *_CHARACTERS_PER_MONTH)
        _check_bounds("--requests-per-second", limits.requests_per_s, *_REQUESTS_PER_S)
        name = _checked_name(limits.name)
        tags = ",".join(sorted({languages.normalise(tag) for tag in limits.languages}))
        if len(tags) > _MAX_LANGUAGES_CHARACTERS:
            raise ConfigError("--languages: too many; leave it out to allow all")
        key, now = _new_key(), _now()
        row: dict[str, object] = {
            "id": secrets.token_hex(6),
            "name": name,
            "role": limits.role,
            "characters_per_month": limits.characters_per_month,
            "requests_per_s": limits.requests_per_s,
            "languages": tags,
            "priority": limits.priority,
            "created_at": now,
            "expires_at": _naive(expires_at),
        }

        def create(connection: Connection) -> Account:
            taken = select(ACCOUNTS.c.id).where(ACCOUNTS.c.name == name, ACCOUNTS.c.revoked_at.is_(None))
            if connection.execute(taken).first() is not None:
                raise ConfigError(f"there is a key named {name!r} already: rotate or revoke it, or choose another name")
            connection.execute(insert(ACCOUNTS), [row])
            connection.execute(insert(_keys), [{"digest": digest_of(key), "account_id": row["id"], "created_at": now}])
            return _account(connection.execute(select(ACCOUNTS).where(ACCOUNTS.c.id == row["id"])).one())

        account = await self._database.write(create)
        audit("key.create", account.id)
        return account, key

    async def list(self) -> tuple[StoredAccount, ...]:
        """Return all accounts, also revoked ones, the oldest first."""

        def read(connection: Connection) -> tuple[StoredAccount, ...]:
            rows = connection.execute(select(ACCOUNTS).order_by(ACCOUNTS.c.created_at, ACCOUNTS.c.id)).all()
            return tuple(map(_stored, rows))

        return await self._database.read(read)

    async def revoke(self, reference: str) -> Account:
        """Make all keys of the account invalid. Its usage stays."""

        def revoke(connection: Connection) -> Account:
            account = _lock(connection, reference)
            connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account.id).values(revoked_at=_now()))
            return account

        account = await self._database.write(revoke)
        audit("key.revoke", account.id)
        return account

    async def rotate(self, reference: str, overlap_s: float) -> tuple[Account, str]:
        """Create a new key for the account. Its other keys stay valid for `overlap_s`, or until they expire.

        Raises `ConfigError` for an overlap out of bounds.
        """
        _check_bounds("--overlap, in hours,", overlap_s / 3600, *_OVERLAP_H)
        key, now = _new_key(), _now()
        until = now + timedelta(seconds=overlap_s)

        def rotate(connection: Connection) -> Account:
            account = _lock(connection, reference)
            sooner = or_(_keys.c.expires_at.is_(None), _keys.c.expires_at > until)
            connection.execute(update(_keys).where(_keys.c.account_id == account.id, sooner).values(expires_at=until))
            connection.execute(insert(_keys), [{"digest": digest_of(key), "account_id": account.id, "created_at": now}])
            return account

        account = await self._database.write(rotate)
        audit("key.rotate", account.id)
        return account, key

    async def valid(self) -> Mapping[str, StoredKey]:
        """Return all keys that are neither revoked nor expired, by digest."""
        selected = _selected().where(ACCOUNTS.c.revoked_at.is_(None))

        def read(connection: Connection) -> dict[str, StoredKey]:
            now = _utc_now()
            return {digest: key for digest, key in map(_key, connection.execute(selected)) if key.is_valid(now)}

        return await self._database.read(read)

    async def find(self, digests: Collection[str]) -> Mapping[str, StoredKey]:
        """Return the keys with one of these digests, by digest, also those that have expired or are revoked."""
        selected = _selected().where(_keys.c.digest.in_(digests))
        return await self._database.read(lambda connection: dict(map(_key, connection.execute(selected))))


def _selected() -> Select[tuple[object, ...]]:
    """Select keys with their accounts."""
    selected = select(_keys.c.digest, _keys.c.expires_at.label("key_expires_at"), *ACCOUNTS.c)
    return cast("Select[tuple[object, ...]]", selected.join(ACCOUNTS, ACCOUNTS.c.id == _keys.c.account_id))


def _lock(connection: Connection, reference: str) -> Account:
    """Select an account that is not revoked, and lock its row. Raises `ConfigError` if there is none."""
    wanted = select(ACCOUNTS).where(
        or_(ACCOUNTS.c.id == reference, ACCOUNTS.c.name == reference), ACCOUNTS.c.revoked_at.is_(None)
    )
    row = connection.execute(wanted.with_for_update()).first()
    if row is None:
        raise ConfigError(f"there is no key {reference!r}; see dragoman keys list")
    return _account(row)


def _check_bounds(what: str, value: float | None, lowest: float, highest: float) -> None:
    """Raises `ConfigError` for a value that is out of bounds or not a number."""
    if value is not None and not lowest <= value <= highest:
        raise ConfigError(f"{what} is {value:,}: specify {lowest:,} to {highest:,}")


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > _MAX_NAME_CHARACTERS or not name.isprintable():
        raise ConfigError(f"a key's name has 1 to {_MAX_NAME_CHARACTERS} printable characters")
    if name.startswith(KEY_PREFIX):
        raise ConfigError(f"a key's name must not look like a key: it begins with {KEY_PREFIX}")
    return name


def _key(row: Row[tuple[object, ...]]) -> tuple[str, StoredKey]:
    ends: builtins.list[datetime] = [end for end in (row.key_expires_at, row.expires_at) if end is not None]
    is_revoked = row.revoked_at is not None
    return str(row.digest), StoredKey(_account(row), _aware(min(ends, default=None)), is_revoked)


def _account(row: Row[tuple[object, ...]]) -> Account:
    return Account(
        id=row.id,
        name=row.name,
        role=cast(KeyRole, row.role),
        characters_per_month=row.characters_per_month,
        requests_per_s=row.requests_per_s,
        languages=frozenset(filter(None, str(row.languages).split(","))),
        priority=cast(Priority, row.priority),
    )


def _stored(row: Row[tuple[object, ...]]) -> StoredAccount:
    created_at: datetime = row.created_at.replace(tzinfo=UTC)
    return StoredAccount(_account(row), created_at, _aware(row.expires_at), _aware(row.revoked_at))


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _now() -> datetime:
    """Return the time as it is stored: in UTC, without a time zone."""
    return _utc_now().replace(tzinfo=None)


def _aware(stored: datetime | None) -> datetime | None:
    return stored.replace(tzinfo=UTC) if stored is not None else None


def _naive(given: datetime | None) -> datetime | None:
    return given.astimezone(UTC).replace(tzinfo=None) if given is not None else None
