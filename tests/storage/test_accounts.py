"""The repositories of accounts and of usage, and their use by a server, over each database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import Connection, text

from dragoman.errors import (
    ConfigError,
    Forbidden,
    InvalidKey,
    QuotaExceeded,
    StorageUnavailable,
    UnsupportedLanguage,
)
from dragoman.service.accounts import READS_PER_S, Accounts, Charge
from dragoman.service.stack import account_store
from dragoman.storage.database import Database
from dragoman.storage.keys import KEY_PREFIX, Keys, digest_of
from dragoman.storage.usage import UsageBatch, UsageLedger, Used
from dragoman.types import Account, TranslationRequest
from tests.waiting import HANG_S, until

ALICE = Account("", "alice", "operator", 1000, 2.5, frozenset({"ja", "zh-TW"}), "bulk")
NOVEMBER = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC).timestamp()


@pytest.fixture
def keys(database: Database) -> Keys:
    return Keys(database)


async def test_an_account_is_stored_with_its_limits_and_found_by_its_key(database: Database, keys: Keys) -> None:
    account, key = await keys.create(ALICE)
    assert replace(account, id="") == ALICE
    assert key.startswith(KEY_PREFIX)
    assert len(key) > 256 / 6
    digest = digest_of(f"{key}:fx")
    for found in (await keys.valid(), await keys.find([digest_of("drg_other"), digest])):
        assert list(found) == [digest]
        assert found[digest].account == account
    [listed] = await keys.list()
    assert (listed.account, listed.expires_at, listed.revoked_at) == (account, None, None)

    def everything(connection: Connection) -> str:
        return str(connection.execute(text("SELECT * FROM account_keys")).all())

    assert key.removeprefix(KEY_PREFIX) not in await database.read(everything)


async def test_names_are_of_one_valid_account_each(keys: Keys) -> None:
    first, _ = await keys.create(ALICE)
    with pytest.raises(ConfigError, match="already"):
        await keys.create(ALICE)
    await keys.revoke("alice")
    second, _ = await keys.create(ALICE)
    assert (await keys.revoke(second.id)).id == second.id != first.id
    for reference in ("alice", first.id, "bob"):
        with pytest.raises(ConfigError):
            await keys.revoke(reference)
        with pytest.raises(ConfigError):
            await keys.rotate(reference, 0)
    assert await keys.valid() == {}


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, "drg_abc"])
async def test_a_name_is_a_line_that_is_no_key(keys: Keys, name: str) -> None:
    with pytest.raises(ConfigError):
        await keys.create(replace(ALICE, name=name))


async def test_languages_are_known_ones(keys: Keys) -> None:
    with pytest.raises(UnsupportedLanguage):
        await keys.create(replace(ALICE, languages=frozenset({"no language"})))


async def test_expired_keys_are_not_valid(keys: Keys) -> None:
    now = datetime.now(UTC)
    _, old = await keys.create(replace(ALICE, name="old"), now - timedelta(seconds=1))
    _, new = await keys.create(replace(ALICE, name="new"), now + timedelta(days=1))
    [expired] = (await keys.find([digest_of(old)])).values()
    assert not expired.is_valid(now)
    assert set(await keys.valid()) == {digest_of(new)}


async def test_a_rotated_key_is_valid_for_the_overlap(keys: Keys) -> None:
    account, first = await keys.create(ALICE)
    _, second = await keys.rotate("alice", 3600)
    valid = await keys.valid()
    assert set(valid) == {digest_of(first), digest_of(second)}
    until = valid[digest_of(first)].expires_at
    assert until is not None
    assert timedelta(minutes=50) < until - datetime.now(UTC) <= timedelta(hours=1)
    assert valid[digest_of(second)].expires_at is None
    await keys.rotate(account.id, 0)
    assert len(await keys.valid()) == 1
    found = (await keys.find([digest_of(first), digest_of("drg_other")])).values()
    assert [key.is_valid(datetime.now(UTC)) for key in found] == [False]


async def test_usage_adds_up_and_a_batch_counts_once(database: Database, keys: Keys) -> None:
    ledger = UsageLedger(database)
    alice, _ = await keys.create(ALICE)
    bob, _ = await keys.create(replace(ALICE, name="bob"))
    batch = UsageBatch("1", {(alice.id, "2026-11"): Used(10, 1), (bob.id, "2026-11"): Used(5, 2)})
    for one in (batch, batch, UsageBatch("2", {(alice.id, "2026-11"): Used(1, 1), (alice.id, "2026-12"): Used(2, 1)})):
        await ledger.add(one)
    assert await ledger.of_month("2026-11") == {alice.id: Used(11, 2), bob.id: Used(5, 2)}
    assert (await ledger.by_month())[("2026-12", alice.id)] == Used(2, 1)


# ---- a server's accounts


@asynccontextmanager
async def open_accounts(
    database: Database, now: list[float] | None = None, refresh_s: float = 3600
) -> AsyncGenerator[Accounts]:
    clock = (lambda: now[0]) if now else datetime.now(UTC).timestamp
    accounts = Accounts(account_store(database), required=True, refresh_s=refresh_s, clock=clock)
    await accounts.open()
    yield accounts
    await accounts.close()


def request_of(account: Account, number: int = 0, characters: int = 10) -> TranslationRequest:
    return TranslationRequest(("x" * characters,), "ja", "en", account=account, request_id=f"id-{number}")


def charging(accounts: Accounts, request: TranslationRequest) -> AbstractAsyncContextManager[Charge]:
    return accounts.charging(request, sum(map(len, request.texts)))


async def test_what_is_not_committed_is_added_once_when_the_database_is_back(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a commit was done and its confirmation lost."""
    account, key = await keys.create(replace(ALICE, requests_per_s=None, characters_per_month=None))
    real, outcomes = UsageLedger.add, iter(("lost", "lost after the commit", "done", "done"))

    async def add(ledger: UsageLedger, batch: UsageBatch) -> None:
        outcome = next(outcomes)
        if outcome != "lost":
            await real(ledger, batch)
        if outcome != "done":
            raise StorageUnavailable("it fails")

    async with open_accounts(database) as accounts:
        monkeypatch.setattr(UsageLedger, "add", add)
        for number in range(3):
            async with charging(accounts, request_of(await accounts.authenticate(key), number)) as charge:
                charge.all()
            if number < 2:
                with pytest.raises(StorageUnavailable):
                    await accounts.reload()
            assert accounts.usage(account).characters == 10 * (number + 1)
        await accounts.reload()
        assert accounts.usage(account).characters == 30
    assert list((await UsageLedger(database).by_month()).values()) == [Used(30, 3)]


async def test_a_month_begins_at_zero_and_its_predecessor_stays(database: Database, keys: Keys) -> None:
    account, key = await keys.create(replace(ALICE, characters_per_month=15, requests_per_s=None))
    now = [NOVEMBER]
    async with open_accounts(database, now) as accounts:
        assert await accounts.authenticate(key) == account

        async def translate(number: int) -> None:
            async with charging(accounts, request_of(account, number)) as charge:
                charge.all()

        await translate(1)
        with pytest.raises(QuotaExceeded):
            await translate(2)
        assert accounts.usage(account).period_end == datetime(2026, 12, 1, tzinfo=UTC)
        now[0] += 1
        await translate(3)
        usage = accounts.usage(account)
        assert (usage.characters, usage.period_start.month, usage.period_end) == (
            10,
            12,
            datetime(2027, 1, 1, tzinfo=UTC),
        )
    stored = await UsageLedger(database).by_month()
    assert stored == {("2026-11", account.id): Used(10, 1), ("2026-12", account.id): Used(10, 1)}


async def test_a_key_expires_while_the_server_runs(database: Database, keys: Keys) -> None:
    now = datetime.now(UTC)
    _, key = await keys.create(ALICE, now + timedelta(hours=1))
    clock = [now.timestamp()]
    async with open_accounts(database, clock) as accounts:
        await accounts.authenticate(key)
        clock[0] += 3600
        with pytest.raises(InvalidKey):
            await accounts.authenticate(key)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When keys were read from the database: all of them, at intervals, or those that requests wait for."""
    times: list[float] = []
    for name in ("valid", "find"):
        record_reads(monkeypatch, name, times)
    return times


@pytest.fixture
def wanted_reads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When keys that requests wait for were read from the database."""
    times: list[float] = []
    record_reads(monkeypatch, "find", times)
    return times


def record_reads(monkeypatch: pytest.MonkeyPatch, name: str, times: list[float]) -> None:
    real = getattr(Keys, name)

    async def read(*arguments: Any) -> object:
        times.append(monotonic())
        return await real(*arguments)

    monkeypatch.setattr(Keys, name, read)


async def test_a_new_key_is_valid_for_each_of_its_first_requests(
    database: Database, keys: Keys, reads: list[float]
) -> None:
    await keys.create(replace(ALICE, name="first"))
    async with open_accounts(database) as accounts:
        before = len(reads)
        created = [await keys.create(replace(ALICE, name=f"new-{number}")) for number in range(30)]
        calls = [(account, accounts.authenticate(key)) for account, key in created for _ in range(3)]
        for (account, _), authenticated in zip(calls, await asyncio.gather(*(one for _, one in calls)), strict=True):
            assert authenticated == account
        assert len(reads) - before <= 2


async def test_a_flood_of_wrong_keys_costs_few_reads_and_a_new_key_is_valid_within_it(
    database: Database, keys: Keys, wanted_reads: list[float]
) -> None:
    await keys.create(replace(ALICE, name="first"))
    async with open_accounts(database) as accounts:
        before = len(wanted_reads)

        async def wrong(number: int) -> type[BaseException]:
            with pytest.raises((InvalidKey, StorageUnavailable)) as refused:
                await accounts.authenticate(f"drg_{number}")
            return refused.type

        few = [asyncio.create_task(wrong(number)) for number in range(40)]
        await asyncio.sleep(0)
        account, key = await keys.create(ALICE)
        assert await accounts.authenticate(key) == account
        assert set(await asyncio.gather(*few)) == {InvalidKey}
        many = [asyncio.create_task(wrong(number)) for number in range(40, 10_000)]
        assert await accounts.authenticate(key) == account  # known: not held up
        _, other = await keys.create(replace(ALICE, name="other"))
        with suppress(StorageUnavailable):  # or: too many wait, which its client may repeat
            assert (await accounts.authenticate(other)).name == "other"
        assert set(await asyncio.gather(*many)) == {InvalidKey, StorageUnavailable}
        pauses = [later - sooner for sooner, later in pairwise(wanted_reads[before:])]
        assert min(pauses) >= 0.9 / READS_PER_S
        assert len(wanted_reads) - before < 500  # of 10,000 keys
        known = len(wanted_reads)
        assert await wrong(0) is InvalidKey  # without a read
        assert len(wanted_reads) == known


async def test_a_key_that_is_not_known_is_not_called_invalid_while_the_database_fails(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, known = await keys.create(replace(ALICE, name="first"))
    async with open_accounts(database) as accounts:
        account, key = await keys.create(ALICE)
        for error in (StorageUnavailable("it fails"), RuntimeError("a bug")):

            async def fail(*_: object, error: Exception = error) -> None:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(Keys, "valid", fail)
                patched.setattr(Keys, "find", fail)
                with pytest.raises(StorageUnavailable):
                    await accounts.authenticate(key)
                assert (await accounts.authenticate(known)).name == "first"
        assert await accounts.authenticate(key) == account


async def test_keys_are_read_again_while_usage_cannot_be_stored(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the error is: a revoked key is refused, a batch that has failed is added later, and no task has ended."""
    account, key = await keys.create(replace(ALICE, requests_per_s=None))
    real, errors = UsageLedger.add, (StorageUnavailable("it fails"), OverflowError("a bug"))
    failed: list[Exception] = []

    async def add(_: UsageLedger, __: UsageBatch) -> None:
        failed.append(errors[len(failed) % 2])
        raise failed[-1]

    monkeypatch.setattr("dragoman.service.accounts.COMMIT_S", 0.0)
    monkeypatch.setattr(UsageLedger, "add", add)
    async with open_accounts(database, refresh_s=0.01) as accounts:
        await keys.create(replace(ALICE, name="other"))
        async with charging(accounts, request_of(account)) as charge:
            charge.all()
        await until(lambda: len(failed) > 4, "refreshes and commits that failed")
        await keys.revoke("alice")

        async def is_refused() -> bool:
            await asyncio.sleep(0.01)
            try:
                await accounts.authenticate(key)
            except InvalidKey:
                return True
            return False

        async with asyncio.timeout(HANG_S):
            while not await is_refused():
                pass
        monkeypatch.setattr(UsageLedger, "add", real)
        async with asyncio.timeout(HANG_S):
            while not await UsageLedger(database).by_month():
                pass
    assert list((await UsageLedger(database).by_month()).values()) == [Used(10, 1)]


async def test_keys_are_read_again_while_a_commit_of_usage_hangs(
    database: Database, keys: Keys, reads: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    account, key = await keys.create(replace(ALICE, requests_per_s=None))
    real, begun, ends = UsageLedger.add, asyncio.Event(), asyncio.Event()

    async def add(ledger: UsageLedger, batch: UsageBatch) -> None:
        begun.set()
        await ends.wait()
        await real(ledger, batch)

    monkeypatch.setattr("dragoman.service.accounts.COMMIT_S", 0.0)
    monkeypatch.setattr(UsageLedger, "add", add)
    async with open_accounts(database, refresh_s=0.01) as accounts:
        await keys.create(replace(ALICE, name="other"))
        async with charging(accounts, request_of(account)) as charge:
            charge.all()
        await begun.wait()
        await keys.revoke("alice")
        before = len(reads)
        await until(lambda: len(reads) > before + 1, "the end of a refresh that began after the revocation")
        with pytest.raises(InvalidKey):
            await accounts.authenticate(key)
        ends.set()


async def test_usage_of_an_account_that_was_deleted_does_not_keep_that_of_others(
    database: Database, keys: Keys
) -> None:
    ledger = UsageLedger(database)
    alice, _ = await keys.create(ALICE)
    await ledger.add(UsageBatch("1", {("deleted", "2026-11"): Used(5, 1), (alice.id, "2026-11"): Used(10, 1)}))
    assert await ledger.by_month() == {("2026-11", alice.id): Used(10, 1)}


async def test_a_clock_that_steps_back_over_a_months_boundary_forgets_no_usage(database: Database, keys: Keys) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None))
    now = [NOVEMBER]

    async with open_accounts(database, now) as accounts:

        async def translate(number: int, characters: int) -> None:
            async with charging(accounts, request_of(account, number, characters)) as charge:
                charge.all()

        await translate(1, 600)
        await accounts.reload()
        await translate(2, 300)
        now[0] += 2
        await translate(3, 100)
        now[0] -= 2
        for _ in range(2):
            assert accounts.usage(account).characters == 900
            with pytest.raises(QuotaExceeded):
                await translate(4, 101)
            await accounts.reload()
        now[0] += 2
        assert accounts.usage(account).characters == 100


async def test_only_the_languages_of_a_key_are_translated_into(database: Database, keys: Keys) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None))
    async with open_accounts(database) as accounts:
        accounts.check(account, "ja-JP", 10)
        for target in ("ko", "zh-Hans"):
            with pytest.raises(Forbidden):
                accounts.check(account, target, 10)


# ---- backup


async def test_a_backup_is_the_database_as_of_one_moment_while_it_is_written(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    await database.open()
    keys = Keys(database)
    await keys.create(ALICE)
    writing = asyncio.gather(*(keys.create(replace(ALICE, name=f"key-{number}")) for number in range(50)))
    other = Database(f"sqlite:///{tmp_path}/dragoman.db")
    await other.back_up(tmp_path / "copy.db")
    await writing
    with pytest.raises(ConfigError, match="exists"):
        await other.back_up(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    restored = Database(f"sqlite:///{tmp_path}/copy.db")
    await restored.open()
    assert "alice" in {one.account.name for one in await Keys(restored).list()}
    assert len(await Keys(restored).list()) == len(await Keys(restored).valid())
    for one in (database, other, restored):
        await one.close()


# ---- a quota


async def translated(accounts: Accounts, account: Account, characters: int, number: int = 0) -> bool:
    """Whether a request was admitted; it ends a little later, charged."""
    try:
        async with charging(accounts, request_of(account, number, characters)) as charge:
            await asyncio.sleep(0)  # others come
            charge.all()
    except QuotaExceeded:
        return False
    return True


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("limit", [100, 400_000])
async def test_servers_never_exceed_a_quota_together(
    database: Database, keys: Keys, url: str, count: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them reads what the others have used, and all send as fast as they can."""
    monkeypatch.setattr("dragoman.service.accounts._READ_TIMEOUT_S", 300.0)  # a loaded machine is no failed database
    account, _ = await keys.create(replace(ALICE, requests_per_s=None, characters_per_month=limit))
    size = limit // 25
    async with AsyncExitStack() as stack:
        servers: list[Accounts] = []
        for _ in range(count):
            of_server = Database(url)
            await of_server.open()
            stack.push_async_callback(of_server.close)
            servers.append(await stack.enter_async_context(open_accounts(of_server)))
        admitted = await asyncio.gather(*(translated(servers[n % count], account, size, n) for n in range(12 * count)))
        for server in servers:
            await server.reload()
        rest = [await translated(servers[n % count], account, size, n) for n in range(30)]
    used = (await UsageLedger(database).by_month()).values()
    total = size * (sum(admitted) + sum(rest))
    assert sum(one.characters for one in used) == total <= limit
    if limit < 1_000:  # nothing is kept to spare
        assert total == limit


async def test_what_a_server_keeps_to_spare_is_free_for_others_once_it_is_idle_or_has_stopped(
    database: Database, keys: Keys
) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None, characters_per_month=100_000))
    async with open_accounts(database) as first, open_accounts(database) as second:
        assert await translated(first, account, 10)
        assert not await translated(second, account, 99_000)
        await first.reload()  # it was active
        assert not await translated(second, account, 99_000)
        await first.reload()
        assert await translated(second, account, 90_000)
    async with open_accounts(database) as third:
        assert await translated(third, account, 9_990)
        assert not await translated(third, account, 1)


async def test_a_lease_of_a_server_that_died_ends(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None))
    died = UsageLedger(database)
    assert (await died.lease(account.id, "2026-11", 1000, 0, 900, lease_s=0.0)).characters == 900
    other = UsageLedger(database)
    assert (await other.lease(account.id, "2026-11", 1000, 0, 900, lease_s=60.0)).characters == 900
    third = await UsageLedger(database).lease(account.id, "2026-11", 1000, 0, 101, lease_s=60.0)
    assert (third.characters, third.elsewhere) == (0, 900)


async def test_a_key_far_from_its_quota_waits_for_the_database_seldom(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None, characters_per_month=10_000_000))
    real, count = UsageLedger.lease, 0

    async def lease(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return await real(*arguments)

    monkeypatch.setattr(UsageLedger, "lease", lease)
    async with open_accounts(database) as accounts:
        for number in range(300):
            assert await translated(accounts, account, 100, number)
    assert count == 1


async def test_without_the_database_a_quota_is_what_was_last_read(
    database: Database, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, _ = await keys.create(replace(ALICE, requests_per_s=None))

    async def fails(*_: Any) -> Any:
        raise StorageUnavailable("it fails")

    async with open_accounts(database) as accounts:
        assert await translated(accounts, account, 500)
        monkeypatch.setattr(UsageLedger, "lease", fails)
        assert [await translated(accounts, account, 400), await translated(accounts, account, 101)] == [True, False]
        assert await translated(accounts, account, 100)
