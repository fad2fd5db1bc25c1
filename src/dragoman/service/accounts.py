"""Accounts: which key may translate what, how fast and how much, and how much each has used.

Keys are known in memory, by digest; they are read when the server starts, every `auth.refresh_s`, on a reload, and, several
together, when requests have some that are not known. Usage is counted in memory and added to the database in batches,
`COMMIT_S` after the first request of each. So nothing here makes a request wait for the database but a key that is not known;
when the database fails, known keys are valid still, and what they use is added once it is back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
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
"""Seconds from the first request of a batch of usage to its commit. A killed server loses what is not committed."""
READS_PER_S = 10
"""Reads of unknown keys from the database a second, however many clients send them."""
_KEYS_OF_A_READ = 100
_MAX_KEYS_WAITING = 1000  # to be read; a request with one more may be repeated
_MAX_UNKNOWN_KEYS = 10_000  # that are remembered
_READ_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class AccountStore:
    """What accounts are stored in."""

    keys: Keys
    usage: UsageLedger


@lru_cache(maxsize=256)  # each request's Host header is one
def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def keys_required(auth: AuthSettings, server: ServerSettings) -> bool:
    """Return whether a call without a key is refused. `auto`: unless only users of this machine can call."""
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
        """Admit a request and return 0, or return the seconds after which it would be admitted."""
        now_s = monotonic()
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self.per_s)
        self._filled_s = now_s
        if self._tokens < 1:
            return (1 - self._tokens) / self.per_s
        self._tokens -= 1
        return 0.0


@dataclass(slots=True)
class _Meter:
    """The state of an account's limits: its request rate, and the characters of its requests in flight."""

    reserved: int = 0
    bucket: TokenBucket | None = None


@dataclass(slots=True)
class Charge:
    """What a call costs, in `characters`: nothing yet. Its account is charged with it when the call has ended."""

    texts: tuple[str, ...] = field(repr=False)
    characters: int = 0
    texts_begun: set[int] = field(default_factory=set[int])
    texts_free: set[int] = field(default_factory=set[int])  # or samples of such texts

    def all(self) -> None:
        """Charge the whole call: it is complete."""
        self.characters = sum(len(text) for index, text in enumerate(self.texts) if index not in self.texts_free)

    def begun(self, index: int) -> None:
        """Charge text `index`: some of its translation is sent."""
        if index not in self.texts_begun and index not in self.texts_free:
            self.texts_begun.add(index)
            self.characters += len(self.texts[index])

    def free(self, index: int) -> None:
        """Do not charge text `index`, also where it was: it was not translated, because its language is not served."""
        self.texts_free.add(index)
        if index in self.texts_begun:
            self.characters -= len(self.texts[index])


class Accounts:
    """The accounts of one server. Without a store, each call is made by `ANONYMOUS`, which has no limits.

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
        self._unknown: set[str] = set()  # digests that no key had when they were read, since the last refresh
        self._wanted: dict[str, asyncio.Future[StoredKey | None]] = {}  # by digest, the first to come first
        self._reader: asyncio.Task[None] | None = None  # of those
        self._reading = asyncio.Lock()  # of two reads of keys, the later one counts
        self._meters: dict[str, _Meter] = defaultdict(_Meter)
        # By account id and month, which a clock that is set may also step back to:
        self._stored: dict[tuple[str, str], int] = {}  # characters, of all servers as last read, and of this one since
        self._unstored: dict[tuple[str, str], tuple[int, int]] = {}  # characters and requests of this server
        self._unconfirmed: UsageBatch | None = None  # its commit was begun
        self._storing = asyncio.Lock()  # a refresh and a commit would each undo the other's numbers
        self._charged = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

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
        self._tasks = [
            asyncio.create_task(work)
            for work in (
                self._repeat(self._read_keys, "known keys stay valid"),
                self._repeat(self._update_usage, "usage is counted, and stored later"),
                self._commit(),
            )
        ]

    async def reload(self) -> None:
        """Read keys and limits now, then store and read usage. Raises `StorageUnavailable`.

        Keys come first, and alone: a key that was revoked is refused also while usage cannot be stored.
        """
        await self._read_keys()
        await self._update_usage()

    async def _read_keys(self) -> None:
        if self._store is None:
            return
        async with self._reading:
            self._keys = await self._store.keys.valid()
            self._unknown.clear()

    async def _update_usage(self) -> None:
        """Store this server's usage, and read that of all servers."""
        if self._store is None:
            return
        async with self._storing:
            await self._store_usage(self._store)
            month = self._month()
            used = await self._store.usage.of_month(month)
            self._stored |= {(account_id, month): one.characters for account_id, one in used.items()}

    async def close(self) -> None:
        """Commit the usage that is not committed yet, and stop refreshing."""
        tasks = [*self._tasks, *([self._reader] if self._reader else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        if self._store is not None:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S), self._storing:
                    await self._store_usage(self._store)
            except Exception as error:  # of whatever kind: the rest of the server stops all the same
                log.error("the usage of the last requests is lost: the database fails", exc_info=_unexpected(error))

    async def _repeat(self, refresh: Callable[[], Awaitable[None]], meanwhile: str) -> None:
        """Call `refresh` every `refresh_s`. `meanwhile`: for the log, what holds while it fails."""
        is_failing = False
        while True:
            await asyncio.sleep(self._refresh_s)
            try:
                await refresh()
            except Exception as error:  # of whatever kind: it must be tried again
                if not is_failing:
                    log.warning("the database fails: %s", meanwhile, exc_info=_unexpected(error))
                is_failing = True
            else:
                is_failing = False

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
                except Exception as error:  # of whatever kind: usage is counted on
                    if unexpected := _unexpected(error):
                        log.error("usage cannot be stored", exc_info=unexpected)
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
            for key, one in self._unconfirmed.used.items():
                self._stored[key] = self._stored.get(key, 0) + one.characters
            self._unconfirmed = None

    # ---- who calls

    async def authenticate(self, key: str | None) -> Account:
        """Return the account of a key.

        Raises `Unauthenticated` where one is needed and None given, `InvalidKey`, and `StorageUnavailable` for a key that is
        not known while the database fails, or while too many such keys wait to be read.
        """
        account = await self._account_of(key)
        if self._store is not None:
            from dragoman.storage.threads import caller

            caller.set(account.id)
        return account

    async def _account_of(self, key: str | None) -> Account:
        if self._store is None:
            return ANONYMOUS
        if not key:
            if self.required:
                raise Unauthenticated("this server needs a key: send the header Authorization: Bearer KEY")
            return ANONYMOUS
        from dragoman.storage.keys import digest_of

        digest = digest_of(key)
        stored = self._keys.get(digest)
        if stored is None and digest not in self._unknown:
            try:
                stored = await self._read(digest, self._store)
            except StorageUnavailable:
                if self.required:
                    raise
        if stored is not None and stored.is_valid(self._now()):
            return stored.account
        if self.required:
            raise InvalidKey("the key is unknown, revoked or expired")
        return ANONYMOUS

    async def _read(self, digest: str, store: AccountStore) -> StoredKey | None:
        """Look up a key that may have been created since the last refresh. Requests with the same key share one read."""
        wanted = self._wanted.get(digest)
        if wanted is None:
            if len(self._wanted) >= _MAX_KEYS_WAITING:
                raise StorageUnavailable("too many keys that are not known wait to be read; retry in a few seconds")
            wanted = self._wanted[digest] = asyncio.get_running_loop().create_future()
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read_wanted(store), context=Context())
        return await asyncio.shield(wanted)

    async def _read_wanted(self, store: AccountStore) -> None:
        """Read the keys that requests wait for, in batches, at most `READS_PER_S` times a second, until none is left."""
        try:
            while self._wanted:
                digests = tuple(islice(self._wanted, _KEYS_OF_A_READ))
                async with self._reading, asyncio.timeout(_READ_TIMEOUT_S):
                    found = await store.keys.valid(digests)
                    if found:
                        self._keys = {**self._keys, **found}
                if len(self._unknown) >= _MAX_UNKNOWN_KEYS:
                    self._unknown.clear()
                self._unknown.update(digest for digest in digests if digest not in found)
                for digest in digests:
                    self._wanted.pop(digest).set_result(found.get(digest))
                await asyncio.sleep(1 / READS_PER_S)
        except Exception as error:  # of whatever kind: no request waits for ever
            if unexpected := _unexpected(error):
                log.error("keys cannot be read", exc_info=unexpected)
        finally:
            wanted, self._wanted = self._wanted, {}
            for one in wanted.values():
                one.set_exception(StorageUnavailable("the key is not known, and the server's database fails"))
                one.exception()  # asyncio would log one that no request was left to receive

    def account(self, account_id: str) -> Account | None:
        """Return an account by its id; None where it has no valid key now."""
        if account_id == ANONYMOUS.id:
            return None if self.required else ANONYMOUS
        valid = (one.account for one in self._keys.values() if one.is_valid(self._now()))
        return next((account for account in valid if account.id == account_id), None)

    # ---- what an account may, and has used

    def check(self, request: TranslationRequest) -> None:
        """Check a request against its account, before admission. Raises `Forbidden`, `QuotaExceeded` or `RateLimited`."""
        account = request.account
        meter = self._meters[account.id]
        if account.requests_per_s is not None:
            if meter.bucket is None or meter.bucket.per_s != account.requests_per_s:
                meter.bucket = TokenBucket(account.requests_per_s)
            if wait_s := meter.bucket.take():
                raise RateLimited(
                    f"this key may send {account.requests_per_s:g} requests a second; retry in {wait_s:.1f} s",
                    retry_after_s=wait_s,
                )
        if account.languages and languages.match(request.target, tuple(sorted(account.languages))) is None:
            raise Forbidden(
                f"this key may not translate into {languages.normalise(request.target)}; "
                f"it may into {', '.join(sorted(account.languages))}",
                param="target",
            )
        self.check_quota(account, _characters(request))

    def check_quota(self, account: Account, characters: int, pending: int = 0) -> None:
        """Raise `QuotaExceeded` if the account may not have so many more characters translated this month.

        `pending` are characters that it will be charged with besides.
        """
        limit = account.characters_per_month
        if (
            limit is not None
            and self._used(account.id) + self._meters[account.id].reserved + pending + characters > limit
        ):
            usage = self.usage(account)
            raise QuotaExceeded(
                f"this key may translate {limit} characters a month, and has used {usage.characters}; "
                f"the request has {characters}. The next month begins on {usage.period_end:%Y-%m-%d}"
            )

    @contextmanager
    def charging(self, request: TranslationRequest) -> Generator[Charge]:
        """Check the request and reserve its characters within the context; then charge the account with the yielded charge.

        Each call is charged once, when it ends, also one that fails or is cancelled: with what the charge says by then.
        """
        account = request.account
        if account is not ANONYMOUS:  # which has no limits
            self.check(request)
        charge, meter = Charge(request.texts), self._meters[account.id]
        characters = _characters(request)
        meter.reserved += characters
        try:
            yield charge
        finally:
            meter.reserved -= characters
            if charge.characters:
                self.charge(account.id, charge.characters)

    def charge(self, account_id: str, characters: int) -> None:
        """Charge an account with a request of so many characters."""
        key = (account_id, self._month())
        if self._store is None or account_id == ANONYMOUS.id:  # its usage is this process's alone
            self._stored[key] = self._stored.get(key, 0) + characters
        else:
            of_characters, of_requests = self._unstored.get(key, (0, 0))
            self._unstored[key] = (of_characters + characters, of_requests + 1)
            self._charged.set()

    def usage(self, account: Account) -> AccountUsage:
        """Return the account's usage of this month: by this server until now, by others as of the last refresh."""
        start = self._now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        return AccountUsage(self._used(account.id), account.characters_per_month, start, end)

    def _used(self, account_id: str) -> int:
        """Return the characters of the current month. A call counts to the month in which it ends."""
        key = (account_id, self._month())
        unconfirmed = self._unconfirmed.used.get(key) if self._unconfirmed else None
        unstored, _ = self._unstored.get(key, (0, 0))
        return self._stored.get(key, 0) + unstored + (unconfirmed.characters if unconfirmed else 0)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _month(self) -> str:
        return time.strftime("%Y-%m", time.gmtime(self._clock()))


def _characters(request: TranslationRequest) -> int:
    """What a request may cost: an alternative as much as its text."""
    return sum(map(len, request.texts)) * (1 + request.alternatives)


def _unexpected(error: Exception) -> Exception | None:
    """Return the error if its traceback belongs in the log: not for a database that fails."""
    return None if isinstance(error, StorageUnavailable | TimeoutError) else error
