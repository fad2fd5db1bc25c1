"""`dragoman glossaries`: whose each stored glossary is, changed directly in the database; no server needs to run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

import click
from rich.table import Column, Table

from dragoman.cli.console import console, say
from dragoman.cli.database import on_database
from dragoman.cli.options import settings_options
from dragoman.errors import ConfigError
from dragoman.service.stack import account_store, glossaries
from dragoman.settings import Loaded
from dragoman.storage.collections import SERVER, StoredCollection
from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries

T = TypeVar("T")

SHARED = "shared"
"""The owner of what the server shares, as the list shows it."""


@click.group("glossaries")
def command() -> None:
    """List stored glossaries with their owners, share them with all keys, give them to a key, and delete them.

    GLOSSARY is a name or an id. A glossary is of the key that stored it, which alone sees and changes it; all keys see those
    that are shared, and only operators change them. Running servers know of changes at once.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@settings_options("storage")
def list_(loaded: Loaded, as_json: bool) -> None:
    """List the glossaries of all keys, and those that are shared."""

    async def read(database: Database) -> tuple[tuple[StoredCollection, ...], dict[str, str]]:
        return await glossaries(database).list(None), await _key_names(database)

    stored, names = on_database(loaded, "glossaries", read)
    if as_json:
        click.echo(json.dumps([_fields(one) for one in stored], ensure_ascii=False, indent=2, default=str))
        return
    table = Table(
        "name", Column("id", no_wrap=True, min_width=36), "owner", "entries", "languages", box=None, pad_edge=False
    )
    for one in stored:
        pairs = ", ".join(f"{pair.source} → {pair.target}" for pair in one.pairs)
        owner = SHARED if one.is_shared else f"{names.get(one.account_id, 'a key')} ({one.account_id})"
        table.add_row(one.name, one.id, owner, f"{one.entry_count:,}", pairs or "none")
    console.print(table)


@command.command("share")
@click.argument("glossary")
@settings_options("storage")
def share(loaded: Loaded, glossary: str) -> None:
    """Make a key's glossary the server's: all keys see it, and no key but an operator's changes it."""
    changed = _change(loaded, glossary, lambda store, one: store.give(one.account_id, one.id, SERVER))
    say(f"shared {changed.name} ({changed.id}) with all keys")


@command.command("give")
@click.argument("glossary")
@click.argument("key")
@settings_options("storage")
def give(loaded: Loaded, glossary: str, key: str) -> None:
    """Give a glossary to KEY, the name or the id of a key, which alone sees and changes it then."""

    async def change(database: Database) -> StoredCollection:
        names = await _key_names(database)
        owner = next((id for id, name in names.items() if key in (id, name)), None)
        if owner is None:
            raise ConfigError(f"there is no key {key!r}; see dragoman keys list")
        store = glossaries(database)
        one = await _found(store, glossary)
        return await store.give(one.account_id, one.id, owner)

    changed = on_database(loaded, "glossaries", change)
    say(f"gave {changed.name} ({changed.id}) to {key}")


@command.command("delete")
@click.argument("glossary")
@settings_options("storage")
def delete(loaded: Loaded, glossary: str) -> None:
    """Delete a glossary, whosever it is, with all its entries."""
    _change(loaded, glossary, lambda store, one: store.delete(one.account_id, one.id))
    say(f"deleted {glossary}")


def _change(loaded: Loaded, reference: str, work: Callable[[Glossaries, StoredCollection], Awaitable[T]]) -> T:
    """Return the result of `work` on the glossary of this reference."""

    async def run(database: Database) -> T:
        store = glossaries(database)
        return await work(store, await _found(store, reference))

    return on_database(loaded, "glossaries", run)


async def _found(store: Glossaries, reference: str) -> StoredCollection:
    """The glossary of whichever owner. Raises `ConfigError` for none, and for a name that several owners have."""
    found = [one for one in await store.list(None) if reference in (one.id, one.name)]
    if not found:
        raise ConfigError(f"there is no glossary {reference!r}; see dragoman glossaries list")
    if len(found) > 1:
        listed = ", ".join(f"{one.id} ({SHARED if one.is_shared else f'of {one.account_id}'})" for one in found)
        raise ConfigError(f"{len(found)} glossaries are named {reference!r}; give the id: {listed}")
    return found[0]


async def _key_names(database: Database) -> dict[str, str]:
    """The names of all keys that are not revoked, by id."""
    stored = await account_store(database).keys.list()
    return {one.account.id: one.account.name for one in stored if one.revoked_at is None}


def _fields(stored: StoredCollection) -> dict[str, object]:
    """A glossary as the server's API shows it, with its owner: a key's id; null: it is shared."""
    fields = asdict(stored)
    owner, pairs = fields.pop("account_id"), fields.pop("pairs")
    return {**fields, "owner": None if owner == SERVER else owner, "dictionaries": pairs}
