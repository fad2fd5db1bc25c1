"""Makes the commands that say whose each stored glossary or translation memory is: `dragoman glossaries`, `dragoman memories`.

They change the database directly; no server needs to run.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import click
from rich.table import Column, Table

from dragoman.cli.console import console, say
from dragoman.cli.database import on_database
from dragoman.cli.options import settings_options
from dragoman.errors import ConfigError
from dragoman.service.stack import account_store
from dragoman.settings import Loaded, Settings
from dragoman.storage.collections import SERVER, StoredCollection
from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries
from dragoman.storage.memories import MemoryStore

T = TypeVar("T")

SHARED = "shared"
"""The owner of what the server shares, as the list shows it."""
_WITHOUT_KEY = "without a key"
"""The owner of what the server has and does not share: it is of calls without a key."""


@dataclass(frozen=True, slots=True)
class OwnedKind:
    """A kind of collections as the commands name it. `pairs`: what its pairs of languages are called in JSON."""

    name: str
    plural: str
    pairs: str
    store: Callable[[Database, Settings], Glossaries | MemoryStore]


def commands(kind: OwnedKind, help: str) -> click.Group:
    """Return the group `list`, `share`, `give` and `delete` of a kind."""
    group = click.Group(kind.plural, help=help)
    group.add_command(_list_command(kind))
    group.add_command(_share_command(kind))
    group.add_command(_give_command(kind))
    group.add_command(_delete_command(kind))
    return group


def _list_command(kind: OwnedKind) -> click.Command:
    @click.command("list", help=f"List the {kind.plural} of all keys, and those that are shared.")
    @click.option("--json", "as_json", is_flag=True, help="For programs.")
    @settings_options("storage")
    def list_(loaded: Loaded, as_json: bool) -> None:
        async def read(database: Database) -> tuple[tuple[StoredCollection, ...], dict[str, str]]:
            return await kind.store(database, loaded.settings).list(None), await _key_names(database)

        stored, names = on_database(loaded, kind.plural, read)
        if as_json:
            click.echo(json.dumps([_fields(kind, one) for one in stored], ensure_ascii=False, indent=2, default=str))
            return
        table = Table(
            "name", Column("id", no_wrap=True, min_width=36), "owner", "entries", "languages", box=None, pad_edge=False
        )
        for one in stored:
            pairs = ", ".join(f"{pair.source} → {pair.target}" for pair in one.pairs)
            table.add_row(one.name, one.id, _owner(one, names), f"{one.entry_count:,}", pairs or "none")
        console.print(table)

    return list_


def _share_command(kind: OwnedKind) -> click.Command:
    @click.command(
        "share",
        help=f"Make a key's {kind.name} the server's: all keys use it, and no key but an operator's changes it.",
    )
    @click.argument("reference", metavar=kind.name.upper())
    @settings_options("storage")
    def share(loaded: Loaded, reference: str) -> None:
        changed = _change(kind, loaded, reference, lambda store, one: store.give(one.account_id, one.id, SERVER))
        say(f"shared {changed.name} ({changed.id}) with all keys")

    return share


def _give_command(kind: OwnedKind) -> click.Command:
    @click.command(
        "give",
        help=f"Give a {kind.name} to KEY, the name or the id of a key, which alone sees, uses and changes it then.",
    )
    @click.argument("reference", metavar=kind.name.upper())
    @click.argument("key")
    @settings_options("storage")
    def give(loaded: Loaded, reference: str, key: str) -> None:
        async def change(database: Database) -> StoredCollection:
            names = await _key_names(database)
            owner = next((id for id, name in names.items() if key in (id, name)), None)
            if owner is None:
                raise ConfigError(f"there is no key {key!r}; see dragoman keys list")
            store = kind.store(database, loaded.settings)
            one = await _found(kind, store, reference)
            return await store.give(one.account_id, one.id, owner)

        changed = on_database(loaded, kind.plural, change)
        say(f"gave {changed.name} ({changed.id}) to {key}")

    return give


def _delete_command(kind: OwnedKind) -> click.Command:
    @click.command("delete", help=f"Delete a {kind.name}, whosever it is, with all its entries.")
    @click.argument("reference", metavar=kind.name.upper())
    @settings_options("storage")
    def delete(loaded: Loaded, reference: str) -> None:
        _change(kind, loaded, reference, lambda store, one: store.delete(one.account_id, one.id))
        say(f"deleted {reference}")

    return delete


def _change(
    kind: OwnedKind,
    loaded: Loaded,
    reference: str,
    work: Callable[[Glossaries | MemoryStore, StoredCollection], Awaitable[T]],
) -> T:
    """Return the result of `work` on the collection of this reference."""

    async def run(database: Database) -> T:
        store = kind.store(database, loaded.settings)
        return await work(store, await _found(kind, store, reference))

    return on_database(loaded, kind.plural, run)


async def _found(kind: OwnedKind, store: Glossaries | MemoryStore, reference: str) -> StoredCollection:
    """The collection of whichever owner. Raises `ConfigError` for none, and for a name that several owners have."""
    found = [one for one in await store.list(None) if reference in (one.id, one.name)]
    if not found:
        raise ConfigError(f"there is no {kind.name} {reference!r}; see dragoman {kind.plural} list")
    if len(found) > 1:
        listed = ", ".join(f"{one.id} ({_owner(one, {})})" for one in found)
        raise ConfigError(f"{len(found)} {kind.plural} are named {reference!r}; give the id: {listed}")
    return found[0]


async def _key_names(database: Database) -> dict[str, str]:
    """The names of all keys that are not revoked, by id."""
    stored = await account_store(database).keys.list()
    return {one.account.id: one.account.name for one in stored if one.revoked_at is None}


def _owner(one: StoredCollection, names: dict[str, str]) -> str:
    if one.account_id == SERVER:
        return SHARED if one.is_shared else _WITHOUT_KEY
    return f"{names.get(one.account_id, 'a key')} ({one.account_id})"


def _fields(kind: OwnedKind, stored: StoredCollection) -> dict[str, Any]:
    """A collection as the server's API shows it, with its owner: a key's id; null: the server."""
    fields = asdict(stored)
    owner, pairs, is_shared = fields.pop("account_id"), fields.pop("pairs"), fields.pop("is_shared")
    owner = None if owner == SERVER else owner
    return {**fields, "owner": owner, "shared": is_shared, kind.pairs: pairs}
