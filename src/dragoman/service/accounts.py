"""Accounts: which key may translate what, how fast and how much, and how much each has used.

Keys are known in memory, by digest; they are read when the server starts, every `auth.refresh_s`, on a reload, and when a
request has one that is not known. Usage is counted in memory and added to the database in batches, `COMMIT_S` after the
first request of each. So nothing here makes a request wait for the database but a key that is not known; when the database
fails, known keys are valid still, and what they use is added once it is back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING

from dragoman import languages
from dragoman.errors import (
    ConfigError,
    Forbidden,
    InvalidKey,
    QuotaExceeded,
    RateLimited,
    StorageUnavailable,
    Unauthenticated,
)
from dragoman.settings import AuthSettings, ServerSettings
from dragoman.types import ANONYMOUS, Account, AccountUsage, TranslationRequest

if TYPE_CHECKING:
    from dragoman.storage.keys import Keys, StoredKey
    from dragoman.storage.usage import UsageBatch, UsageLedger

log = logging.getLogger("dragoman.accounts")

COMMIT_S = 0.5
"""From the first request of a batch of usage to its commit: a server that is killed loses what is not committed."""
LOOKUPS_PER_S = 10.0
"""Of keys that are not known, in the database: others are refused without one, and known after `auth.refresh_s`."""
_LOOKUP_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 10.0
_REMEMBERED_CHARGES = 10_000


@dataclass(frozen=True, slots=True)
class AccountStore:
    """Where accounts are stored."""

    keys: Keys
    usage: UsageLedger


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def keys_required(auth: AuthSettings, server: ServerSettings) -> bool:
    """Whether a call without a key is refused. `auto`: unless only this machine's users can call."""
    if auth.mode == "auto":
        return not is_loopback(server.host) or bool(server.trusted_proxies)
    return auth.mode == "keys"


class TokenBucket:
    """Admits `per_s` requests a second, and as many immediately after a pause; at least one."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self._most = max(per_s, 1.0)
        self._tokens = self._most
        self._filled_s = monotonic()

    def take(self) -> float:
        """0 when a request is admitted, else the seconds after which it would be."""
        now_s = monotonic()
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self.per_s)
        self._filled_s = now_s
        if self._tokens < 1:
            return (1 - self._tokens) / self.per_s
        self._tokens -= 1
        return 0.0


class _Meter:
    """What one account has used of the current month, in characters."""

    def __init__(self) -> None:
        self.month = ""
        self.stored = 0  # by all servers, as last read, and by this one since
        self.unstored = 0  # by this server, not committed
        self.reserved = 0  # by requests in flight
        self.bucket: TokenBucket | None = None

    def begin(self, month: str) -> None:
        """Start from 0 in a new month; what is in flight is of the month in which it ends."""
        if self.month != month:
            self.month, self.stored, self.unstored = month, 0, 0

    @property
    def used(self) -> int:
        return self.stored + self.unstored


class Charge:
    """What a call is going to cost: its account is charged with it when the call has ended."""

    def __init__(self, request: TranslationRequest) -> None:
        self._request = request
        self._begun: set[int] = set()
        self.characters = 0

    def all(self) -> None:
        """The whole call: it is complete."""
        self.characters = sum(map(len, self._request.texts))

    def begun(self, index: int) -> None:
        """Text `index`: some of its translation is sent."""
        if index not in self._begun:
            self._begun.add(index)
            self.characters += len(self._request.texts[index])


class Accounts:
    """The accounts of one server. Without a store each call is `ANONYMOUS`'s, who may everything.

    `required`: whether a call needs a key. Where it does not, one that has a valid key is its account's nevertheless.
    `clock` returns Unix time.
    """

    def __init__(
        self,
        store: AccountStore | None = None,
        *,
        required: bool = False,
        refresh_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.required = required
        self._store = store
        self._refresh_s = refresh_s
        self._clock = clock
        self._keys: Mapping[str, StoredKey] = {}
        self._unknown: set[str] = set()  # digests that were looked up since the last refresh
        self._lookups = TokenBucket(LOOKUPS_PER_S)
        self._meters: dict[str, _Meter] = {}
        self._unstored: dict[tuple[str, str], tuple[int, int]] = {}  # characters and requests, by account id and month
        self._unconfirmed: UsageBatch | None = None  # its commit was begun
        self._storing = asyncio.Lock()  # a refresh and a commit would each undo the other's numbers
        self._charged = asyncio.Event()
        self._charges: OrderedDict[tuple[object, ...], int] = OrderedDict()  # characters, by what makes a request equal
        self._tasks: list[asyncio.Task[None]] = []
        self._is_failing = False

    # ---- start, reload, stop

    async def open(self) -> None:
        """Read keys and usage, and keep both up to date. Raises `ConfigError` where keys are required and there are none."""
        if self._store is None:
            if self.required:
                raise ConfigError(
                    "keys are stored in the database, and storage.url is empty: set it, or serve without keys with "
                    "--auth none",
                    param="storage.url",
                )
            return
        await self.reload()
        if self.required and not self._keys:
            raise ConfigError(
                "this server needs keys (auth.mode) and there are none: create one with `dragoman keys create NAME`, "
                "or let everybody who reaches it translate with --auth none",
                param="auth.mode",
            )
        if self._keys and not self.required:
            log.warning("%d keys exist, but calls without one are served too (auth.mode)", len(self._keys))
        self._tasks = [asyncio.create_task(self._refresh()), asyncio.create_task(self._commit())]

    async def reload(self) -> None:
        """Read keys, limits and usage now. Raises `StorageUnavailable`."""
        if self._store is None:
            return
        async with self._storing:
            await self._store_usage(self._store)
            month = self._month()
            keys, used = await self._store.keys.valid(), await self._store.usage.of_month(month)
            self._keys, self._unknown = keys, set()
            for account_id, one in used.items():
                meter = self._meter(account_id)
                if meter.month == month:
                    meter.stored = one.characters

    async def close(self) -> None:
        """Commit what is not committed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._store is not None:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S), self._storing:
                    await self._store_usage(self._store)
            except (StorageUnavailable, TimeoutError):
                log.error("the usage of the last requests is lost: the database fails")

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            try:
                await self.reload()
            except StorageUnavailable:
                if not self._is_failing:
                    log.warning("the database fails: known keys stay valid as they are")
                self._is_failing = True
            else:
                self._is_failing = False

    async def _commit(self) -> None:
        assert self._store is not None
        while True:
            await self._charged.wait()
            await asyncio.sleep(COMMIT_S)
            self._charged.clear()
            async with self._storing:
                try:
                    await self._store_usage(self._store)
                    continue
                except StorageUnavailable:
                    self._charged.set()  # again
            await asyncio.sleep(self._refresh_s)

    async def _store_usage(self, store: AccountStore) -> None:
        """Add to the database what is not there. A batch that may have been committed is added again as it was."""
        from dragoman.storage.usage import UsageBatch, Used

        while self._unconfirmed or self._unstored:
            if self._unconfirmed is None:
                used = {key: Used(*one) for key, one in self._unstored.items()}
                self._unstored = {}
                self._unconfirmed = UsageBatch(token_hex(16), used)
            await store.usage.add(self._unconfirmed)
            for (account_id, month), one in self._unconfirmed.used.items():
                meter = self._meter(account_id)
                if meter.month == month:
                    meter.stored += one.characters
                    meter.unstored -= one.characters
            self._unconfirmed = None

    # ---- who calls

    async def authenticate(self, key: str | None) -> Account:
        """The account of a key.

        Raises `Unauthenticated` where one is needed and None given, `InvalidKey`, and `StorageUnavailable` for a key that is
        not known while the database fails.
        """
        if self._store is None:
            return ANONYMOUS
        if not key:
            if self.required:
                raise Unauthenticated("this server needs a key: send the header Authorization: Bearer KEY")
            return ANONYMOUS
        from dragoman.storage.keys import digest_of

        digest = digest_of(key)
        stored = self._keys.get(digest)
        if stored is None:
            stored = await self._look_up(digest, self._store)
        if stored is not None and stored.is_valid(self._now()):
            return stored.account
        if self.required:
            raise InvalidKey("the key is unknown, revoked or expired")
        return ANONYMOUS

    async def _look_up(self, digest: str, store: AccountStore) -> StoredKey | None:
        """A key that was created since the last refresh."""
        if digest in self._unknown:
            return None
        if self._lookups.take():
            if self._is_failing and self.required:
                raise StorageUnavailable("the key is not known, and the server's database fails")
            return None
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                found = await store.keys.find(digest)
        except (StorageUnavailable, TimeoutError):
            if not self.required:
                return None
            raise StorageUnavailable("the key is not known, and the server's database fails") from None
        if found is None:
            self._unknown.add(digest)
        else:
            self._keys = {**self._keys, digest: found}
        return found

    # ---- what an account may, and has used

    def prepare(self, request: TranslationRequest) -> TranslationRequest:
        """The request as its account may make it: the calls of a `bulk` account are bulk, whatever they say."""
        if request.account.priority == "bulk" and request.priority != "bulk":
            return replace(request, priority="bulk")
        return request

    def check(self, request: TranslationRequest) -> None:
        """Before admission. Raises `Forbidden`, `QuotaExceeded` or `RateLimited` for what the request's account may not."""
        account = request.account
        meter = self._meter(account.id)
        if account.requests_per_s is not None:
            if meter.bucket is None or meter.bucket.per_s != account.requests_per_s:
                meter.bucket = TokenBucket(account.requests_per_s)
            if wait_s := meter.bucket.take():
                raise RateLimited(
                    f"this key may send {account.requests_per_s:g} requests a second; retry in {wait_s:.1f} s",
                    retry_after_s=wait_s,
                )
        if account.languages and languages.match(request.target, sorted(account.languages)) is None:
            raise Forbidden(
                f"this key may not translate into {languages.normalise(request.target)}; "
                f"it may into {', '.join(sorted(account.languages))}",
                param="target",
            )
        limit, characters = account.characters_per_month, sum(map(len, request.texts))
        if limit is not None and meter.used + meter.reserved + characters > limit:
            usage = self.usage(account)
            raise QuotaExceeded(
                f"this key may translate {limit} characters a month, and has used {usage.characters}; "
                f"the request has {characters}. The next month begins on {usage.period_end:%Y-%m-%d}"
            )

    @contextmanager
    def charging(self, request: TranslationRequest) -> Generator[Charge]:
        """Check the request; within, its characters are reserved; after, the account is charged with the yielded charge.

        Each call is charged once, when it ends, also one that fails or is cancelled: with what the charge says by then. One
        that repeats another (a retry: the same id, texts and target) costs only what it has more than that.
        """
        self.check(request)
        charge, meter = Charge(request), self._meter(request.account.id)
        characters = sum(map(len, request.texts))
        meter.reserved += characters
        try:
            yield charge
        finally:
            meter.reserved -= characters
            if charge.characters:
                self._add(request, charge.characters)

    def _add(self, request: TranslationRequest, characters: int) -> None:
        account = request.account
        meter = self._meter(account.id)
        if request.request_id:  # a client may choose it, so that it alone does not make two requests one
            same = (account.id, request.request_id, request.target, hash(request.texts))
            before = self._charges.pop(same, 0)
            self._charges[same] = max(characters, before)
            if len(self._charges) > _REMEMBERED_CHARGES:
                self._charges.popitem(last=False)
            characters = max(characters - before, 0)
        if self._store is None or account is ANONYMOUS:  # its usage is this process's alone
            meter.stored += characters
            return
        meter.unstored += characters
        key = (account.id, meter.month)
        of_characters, of_requests = self._unstored.get(key, (0, 0))
        self._unstored[key] = (of_characters + characters, of_requests + 1)
        self._charged.set()

    def usage(self, account: Account) -> AccountUsage:
        """What the account has used this month: by this server until now, by others as of the last refresh."""
        start = self._now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        return AccountUsage(self._meter(account.id).used, account.characters_per_month, start, end)

    def _meter(self, account_id: str) -> _Meter:
        meter = self._meters.get(account_id)
        if meter is None:
            meter = self._meters[account_id] = _Meter()
        meter.begin(self._month())
        return meter

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _month(self) -> str:
        return f"{self._now():%Y-%m}"
