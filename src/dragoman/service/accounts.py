"""Accounts: which key may translate what, how fast and how much, and how much each has used.

Keys are known in memory, by digest; they are read when the server starts, every `auth.refresh_s`, on a reload, and, several
together, when requests have some that are not known. Usage is counted in memory and added to the database in batches,
`COMMIT_S` after the first request of each. So a request waits for the database only where its key is not known, or where it has
a quota of which too little is set aside for this server (`Accounts._reserve`); when the database fails, known keys are valid
still, and what they use is added once it is back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from dragoman.telemetry import requests
from dragoman.types import ANONYMOUS, Account, AccountUsage, TranslationRequest

if TYPE_CHECKING:
    from dragoman.storage.documents import DocumentStore, StoredDocument
    from dragoman.storage.keys import Keys, StoredKey
    from dragoman.storage.usage import UsageBatch, UsageLedger

log = logging.getLogger("dragoman.accounts")

COMMIT_S = 0.5
"""Seconds from the first request of a batch of usage to its commit. A killed server loses what is not committed."""
READS_PER_S = 10
"""Reads of unknown keys from the database a second, however many clients send them."""
NEAR_QUOTA = 0.9
"""The share of its characters of this month from which on a key is near its quota."""
NEAR_EXPIRY = timedelta(days=14)
"""How long before its end a key is near it."""
_KEYS_OF_A_READ = 100
_MAX_KEYS_WAITING = 1000  # to be read; a request with one more may be repeated
_MAX_UNKNOWN_KEYS = 10_000  # that are remembered
_READ_TIMEOUT_S = 5.0
_LEASE_REFRESHES = 4  # after which what a dead server had set aside of a quota is free again, and at least
_MIN_LEASE_S = 60.0
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
    """The state of an account's limits on this server: its request rate, and characters of its requests."""

    in_flight: int = 0
    leased: int = 0  # set aside in the database, for those in flight and those that are charged and not stored yet
    elsewhere: int = 0  # set aside by other servers and for documents, as of the last lease
    is_active: bool = False  # since the last refresh
    leasing: asyncio.Lock = field(default_factory=asyncio.Lock)
    bucket: TokenBucket | None = None


@dataclass(slots=True)
class Charge:
    """What a call costs, in `characters`: nothing yet. Its account is charged with it when the call has ended."""

    texts: tuple[str, ...] = field(repr=False)
    whole: int  # characters of all texts
    characters: int = 0
    texts_begun: set[int] = field(default_factory=set[int])
    texts_free: set[int] = field(default_factory=set[int])  # or samples of such texts

    def all(self) -> None:
        """Charge the whole call: it is complete."""
        free = (self.texts[index] for index in self.texts_free if index < len(self.texts))
        self.characters = self.whole - sum(map(len, free))

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
        # By digest, since the last refresh: None, or a key that has expired or was revoked when it was read.
        self._unknown: dict[str, StoredKey | None] = {}
        self._wanted: dict[str, asyncio.Future[StoredKey | None]] = {}  # by digest, the first to come first
        self._reader: asyncio.Task[None] | None = None  # of those
        self._reading = asyncio.Lock()  # of two reads of keys, the later one counts
        self._meters: dict[str, _Meter] = defaultdict(_Meter)
        # By account id and month, which a clock that is set may also step back to:
        self._stored: dict[tuple[str, str], int] = {}  # characters, of all servers as last read, and of this one since
        self._unstored: dict[tuple[str, str], tuple[int, int]] = {}  # characters and requests of this server
        self._unconfirmed: UsageBatch | None = None  # its commit was begun
        self._no_lease_until_s = 0.0  # the database has failed
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
            await self._renew_leases(self._store)

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
                    if any(meter.leased for meter in self._meters.values()):
                        await self._store.usage.release()
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
                meter = self._meters[key[0]]
                meter.leased = max(meter.leased - one.characters, 0)
            self._unconfirmed = None

    # ---- who calls

    async def authenticate(self, key: str | None) -> Account:
        """Return the account of a key.

        Raises `Unauthenticated` where one is needed and None given, `InvalidKey`, and `StorageUnavailable` for a key that is
        not known while the database fails, or while too many such keys wait to be read.
        """
        if self._store is None:
            return ANONYMOUS
        from dragoman.storage.threads import caller

        account = await self._account_of(key, self._store)
        caller.set(account.id)
        return account

    async def _account_of(self, key: str | None, store: AccountStore) -> Account:
        if not key:
            if self.required:
                raise Unauthenticated("this server needs a key: send the header Authorization: Bearer KEY")
            return ANONYMOUS
        from dragoman.storage.keys import digest_of

        digest = digest_of(key)
        stored = self._keys.get(digest)
        if stored is None:
            stored = await self._find(digest, store)
        is_valid = stored is not None and stored.is_valid(self._now())
        if stored is not None and (is_valid or self.required):
            if (trace := requests.current.get()) is not None:
                trace.key = stored.account.id
            if is_valid:
                return stored.account
        if self.required:
            raise InvalidKey("the key is unknown, revoked or expired")
        return ANONYMOUS

    async def _find(self, digest: str, store: AccountStore) -> StoredKey | None:
        """Return a key that was created since the last refresh, or is not valid; None where there is none, or, if no key is
        required, where the database fails. Raises `StorageUnavailable`."""
        if digest in self._unknown:
            return self._unknown[digest]
        try:
            return await self._read(digest, store)
        except StorageUnavailable:
            if self.required:
                raise
        return None

    async def _read(self, digest: str, store: AccountStore) -> StoredKey | None:
        """Look up a key. Requests with the same key share one read."""
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
                    found = await store.keys.find(digests)
                    now = self._now()
                    if valid := {digest: key for digest, key in found.items() if key.is_valid(now)}:
                        self._keys = {**self._keys, **valid}
                if len(self._unknown) >= _MAX_UNKNOWN_KEYS:
                    self._unknown.clear()
                self._unknown |= {digest: found.get(digest) for digest in digests if digest not in valid}
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

    def count_by_condition(self) -> dict[str, int] | None:
        """Return how many accounts have a valid key, have used `NEAR_QUOTA` of their quota, and have no key that is valid for
        `NEAR_EXPIRY` more; None where no keys are read."""
        if self._store is None:
            return None
        now = self._now()
        ends: dict[str, datetime | None] = {}
        accounts: dict[str, Account] = {}
        for key in self._keys.values():
            if key.is_valid(now):
                id = key.account.id
                accounts[id] = key.account
                last = ends.get(id, key.expires_at)
                ends[id] = max(last, key.expires_at) if last and key.expires_at else None
        limits = [(id, one.characters_per_month) for id, one in accounts.items() if one.characters_per_month]
        return {
            "valid": len(accounts),
            "near_quota": sum(self._used(id) >= NEAR_QUOTA * limit for id, limit in limits),
            "near_expiry": sum(end is not None and end - now < NEAR_EXPIRY for end in ends.values()),
        }

    # ---- what an account may, and has used

    def check(self, account: Account, target: str, characters: int) -> None:
        """Check a request against its account, before admission. Raises `Forbidden`, `QuotaExceeded` or `RateLimited`.

        Of the quota, only what this server knows of is looked at: not what others have in flight, nor documents.
        """
        meter = self._meters[account.id]
        if account.requests_per_s is not None:
            if meter.bucket is None or meter.bucket.per_s != account.requests_per_s:
                meter.bucket = TokenBucket(account.requests_per_s)
            if wait_s := meter.bucket.take():
                raise RateLimited(
                    f"this key may send {account.requests_per_s:g} requests a second; retry in {wait_s:.1f} s",
                    retry_after_s=wait_s,
                )
        if account.languages and languages.match(target, tuple(sorted(account.languages))) is None:
            raise Forbidden(
                f"this key may not translate into {languages.normalise(target)}; "
                f"it may into {', '.join(sorted(account.languages))}",
                param="target",
            )
        limit = account.characters_per_month
        if limit is not None and self._known(account.id) + characters > limit:
            raise self._quota_exceeded(account, characters)

    async def check_document(self, account: Account, characters: int) -> None:
        """Check that the quota has the characters of the account's documents, to which those of a new one were added.

        Raises `QuotaExceeded`.
        """
        if account.characters_per_month is not None and not await self._lease(account, account.characters_per_month, 0):
            raise self._quota_exceeded(account, characters)

    @asynccontextmanager
    async def charging(self, request: TranslationRequest, characters: int) -> AsyncGenerator[Charge]:
        """Check the request, whose texts have so many characters, and reserve these within the context, for an alternative as
        many as for its text; then charge the account with the yielded charge.

        Each call is charged once, when it ends, also one that fails or is cancelled: with what the charge says by then.
        """
        account, charge = request.account, Charge(request.texts, characters)
        characters *= 1 + request.alternatives
        if account is not ANONYMOUS:  # which has no limits
            self.check(account, request.target, characters)
            if account.characters_per_month is not None:
                await self._reserve(account, account.characters_per_month, characters)
        meter = self._meters[account.id]
        meter.in_flight += characters
        try:
            yield charge
        finally:
            meter.in_flight -= characters
            if charge.characters:
                self.charge(account.id, charge.characters)

    async def _reserve(self, account: Account, limit: int, characters: int) -> None:
        """Return when so many characters more are set aside for this server. Raises `QuotaExceeded` if the quota has not
        as many that no server and no document of the account has set aside or used.

        A lease has some to spare, so that a request waits for the database seldom, but near the end of a quota.
        """
        meter = self._meters[account.id]
        meter.is_active = True
        if self._outstanding(account.id) + characters <= meter.leased:
            return
        async with meter.leasing:
            has_space = self._outstanding(account.id) + characters <= meter.leased  # by the lease of another request
            if not has_space and not await self._lease(account, limit, characters):
                raise self._quota_exceeded(account, characters)

    async def _lease(self, account: Account, limit: int, characters: int) -> bool:
        """Have the database set aside what the account's requests of this server may cost, and so many characters more.

        False: the quota has not as many. While the database fails, this goes by what was last read.
        """
        meter, key = self._meters[account.id], (account.id, self._month())
        if self._store is not None and monotonic() >= self._no_lease_until_s:
            try:
                async with asyncio.timeout(_READ_TIMEOUT_S), self._storing:
                    if self._unconfirmed is not None:  # it may be counted in the database, and would be twice
                        await self._store_usage(self._store)
                    meter.leased, outstanding = 0, self._outstanding(account.id)  # requests that come meanwhile wait
                    lease = await self._store.usage.lease(*key, limit, outstanding, characters, self._lease_s)
                    meter.leased, meter.elsewhere = lease.characters, lease.elsewhere
                    self._stored[key] = lease.used
                    left = limit - lease.used - lease.elsewhere - outstanding - characters
                    return left >= 0
            except (StorageUnavailable, TimeoutError):
                self._no_lease_until_s = monotonic() + self._refresh_s
        return self._known(account.id) + meter.elsewhere + characters <= limit

    async def _renew_leases(self, store: AccountStore) -> None:
        """Renew this server's leases; what is spare of those without a request since the last refresh is given back."""
        leased = {account_id: meter for account_id, meter in self._meters.items() if meter.leased}
        reduced = {
            account_id: self._outstanding(account_id) for account_id, meter in leased.items() if not meter.is_active
        }
        for account_id, meter in leased.items():
            meter.leased, meter.is_active = reduced.get(account_id, meter.leased), False
        if leased:
            await store.usage.renew(reduced, self._lease_s)

    @property
    def _lease_s(self) -> float:
        return max(_LEASE_REFRESHES * self._refresh_s, _MIN_LEASE_S)

    def _quota_exceeded(self, account: Account, characters: int) -> QuotaExceeded:
        usage, meter = self.usage(account), self._meters[account.id]
        pending = self._known(account.id) - usage.characters + meter.elsewhere
        also = f", and {pending} more are in flight or of documents that are not delivered" if pending else ""
        return QuotaExceeded(
            f"this key may translate {account.characters_per_month} characters a month, and has used {usage.characters}{also}; "
            f"the request has {characters}. The next month begins on {usage.period_end:%Y-%m-%d}"
        )

    def charge(self, account_id: str, characters: int) -> None:
        """Charge an account with a request of so many characters."""
        key = (account_id, self._month())
        if self._store is None or account_id == ANONYMOUS.id:  # its usage is this process's alone
            self._stored[key] = self._stored.get(key, 0) + characters
        else:
            of_characters, of_requests = self._unstored.get(key, (0, 0))
            self._unstored[key] = (of_characters + characters, of_requests + 1)
            self._charged.set()

    async def charge_document(self, documents: DocumentStore, document: StoredDocument) -> bool:
        """Charge the account of a document at its first delivery, and note that with the document, in one transaction.

        False: it was charged before.
        """
        account_id, month = key = (document.account_id, self._month())
        if self._store is None or account_id == ANONYMOUS.id:
            if is_first := await documents.charge(document.id):
                self.charge(account_id, document.characters)
            return is_first
        async with self._storing:
            is_first = await self._store.usage.charge_document(document.id, account_id, month, document.characters)
            if is_first:
                self._stored[key] = self._stored.get(key, 0) + document.characters
            return is_first

    def _known(self, account_id: str) -> int:
        """Characters of this month, as far as this server knows, those in flight included."""
        return self._used(account_id) + self._meters[account_id].in_flight

    def _outstanding(self, account_id: str) -> int:
        """Of these, what is not in the database yet."""
        return self._known(account_id) - self._stored.get((account_id, self._month()), 0)

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


def _unexpected(error: Exception) -> Exception | None:
    """Return the error if its traceback belongs in the log: not for a database that fails."""
    return None if isinstance(error, StorageUnavailable | TimeoutError) else error
