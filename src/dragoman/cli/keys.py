"""`dragoman keys`: manages accounts and their keys directly in the database; no server needs to run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TypeVar

import click
from rich.table import Table

from dragoman.cli.console import console, say
from dragoman.cli.database import on_database
from dragoman.cli.options import settings_options
from dragoman.errors import ConfigError
from dragoman.service.accounts import AccountStore
from dragoman.service.stack import account_store
from dragoman.settings import Loaded
from dragoman.storage.keys import StoredAccount
from dragoman.types import Account, KeyRole, Priority

T = TypeVar("T")

_DATES = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


@click.group("keys")
def command() -> None:
    """Create, list, rotate and revoke keys, and show what each has used.

    NAME is the name or the id of a key. A running server reads changes within seconds (auth.refresh_s), or on SIGHUP or
    `POST /v1/reload`.
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["translate", "operator"]),
    default="translate",
    show_default=True,
    help="operator: also metrics, statistics and reload.",
)
@click.option("--characters-per-month", type=int, help="By default, no limit.")
@click.option("--requests-per-second", type=float, help="Of each server; by default, no limit.")
@click.option(
    "--languages", metavar="TAGS", default="", help="Targets that it may ask for, such as ja,ko; default: all."
)
@click.option(
    "--priority",
    type=click.Choice(["interactive", "bulk"]),
    default="interactive",
    show_default=True,
    help="bulk: all its calls leave capacity to interactive ones.",
)
@click.option("--expires", type=_DATES, metavar="DATE", help="From then on it is not valid (UTC).")
@settings_options("storage")
def create(
    loaded: Loaded,
    name: str,
    role: KeyRole,
    characters_per_month: int | None,
    requests_per_second: float | None,
    languages: str,
    priority: Priority,
    expires: datetime | None,
) -> None:
    """Create a key and print it. Only its digest is stored, so it cannot be shown again."""
    limits = Account(
        id="",
        name=name,
        role=role,
        characters_per_month=characters_per_month,
        requests_per_s=requests_per_second,
        languages=frozenset(filter(None, (tag.strip() for tag in languages.split(",")))),
        priority=priority,
    )
    expires_at = expires.replace(tzinfo=UTC) if expires else None
    _, key = _run(loaded, lambda store: store.keys.create(limits, expires_at))
    _print_key(key)


@command.command("rotate")
@click.argument("name")
@click.option(
    "--overlap",
    "overlap_h",
    type=float,
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="How long the key that it replaces stays valid.",
)
@settings_options("storage")
def rotate(loaded: Loaded, name: str, overlap_h: float) -> None:
    """Replace a key: print a new one with the same limits and usage."""
    _, key = _run(loaded, lambda store: store.keys.rotate(name, overlap_h * 3600))
    _print_key(key)


@command.command("revoke")
@click.argument("name")
@settings_options("storage")
def revoke(loaded: Loaded, name: str) -> None:
    """Make a key invalid. Its usage stays stored."""
    account = _run(loaded, lambda store: store.keys.revoke(name))
    say(f"revoked {account.name} ({account.id})")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@settings_options("storage")
def list_(loaded: Loaded, as_json: bool) -> None:
    """List all keys with their limits; the keys themselves are not stored."""
    stored = _run(loaded, lambda store: store.keys.list())
    if as_json:
        click.echo(json.dumps([_fields(one) for one in stored], ensure_ascii=False, indent=2))
        return
    table = Table("name", "id", "role", "limits", "state", box=None, pad_edge=False)
    for one in stored:
        account = one.account
        table.add_row(account.name, account.id, account.role, _limits(account), _state(one))
    console.print(table)


@command.command("usage")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@settings_options("storage")
def usage(loaded: Loaded, name: str | None, as_json: bool) -> None:
    """Show the usage of all keys, or of one, by calendar month (UTC)."""

    async def read(store: AccountStore) -> list[dict[str, object]]:
        accounts = {one.account.id: one.account for one in await store.keys.list()}
        if name is not None:
            accounts = {id_: one for id_, one in accounts.items() if name in (id_, one.name)}
            if not accounts:
                raise ConfigError(f"there is no key {name!r}; see dragoman keys list")
        return [
            {
                "month": month,
                "name": accounts[id_].name,
                "id": id_,
                "characters": used.characters,
                "characters_per_month": accounts[id_].characters_per_month,
                "requests": used.requests,
            }
            for (month, id_), used in (await store.usage.by_month()).items()
            if id_ in accounts
        ]

    rows = _run(loaded, read)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    table = Table("month", "name", "id", "characters", "of", "requests", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_number(value) if isinstance(value, int | None) else str(value) for value in row.values()))
    console.print(table)


def _run(loaded: Loaded, work: Callable[[AccountStore], Awaitable[T]]) -> T:
    return on_database(loaded, "keys", lambda opened: work(account_store(opened)))


def _print_key(key: str) -> None:
    """Print only the key to standard output, so that a program can read it."""
    say("Store this key now: it cannot be shown again.")
    click.echo(key)


def _number(value: int | None) -> str:
    return "no limit" if value is None else f"{value:,}"


def _limits(account: Account) -> str:
    limits = [
        f"{account.characters_per_month:,} characters/month" if account.characters_per_month is not None else "",
        f"{account.requests_per_s:g} requests/s" if account.requests_per_s is not None else "",
        "+".join(sorted(account.languages)),
        "bulk" if account.priority == "bulk" else "",
    ]
    return ", ".join(filter(None, limits)) or "none"


def _state(stored: StoredAccount) -> str:
    if stored.revoked_at is not None:
        return f"revoked {stored.revoked_at:%Y-%m-%d}"
    if stored.expires_at is None:
        return "valid"
    expired = stored.expires_at <= datetime.now(UTC)
    return f"{'expired' if expired else 'valid until'} {stored.expires_at:%Y-%m-%d %H:%M}"


def _fields(stored: StoredAccount) -> dict[str, object]:
    account = stored.account
    times = {"created_at": stored.created_at, "expires_at": stored.expires_at, "revoked_at": stored.revoked_at}
    return {
        **asdict(account),
        "languages": sorted(account.languages),
        **{name: time.isoformat() if time else None for name, time in times.items()},
    }
