"""`dragoman glossaries`, on a database of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.cli import glossaries as module
from dragoman.cli import owners
from dragoman.errors import ConfigError, GlossaryExists
from dragoman.storage.collections import SERVER
from dragoman.storage.database import Database
from dragoman.storage.glossaries import Glossaries
from tests.cli.test_keys import listed as listed_keys
from tests.cli.test_keys import run as run_command
from tests.cli.test_keys import url as url

PAIR = {"source": "en", "target": "de", "entry_count": 1}


def run(url: str, *arguments: str) -> str:
    return run_command(url, *arguments, command=module.command).stdout


def listed(url: str) -> list[dict[str, Any]]:
    return json.loads(run(url, "list", "--json"))


def stored(url: str, write: Callable[[Database], Awaitable[str]]) -> str:
    """Store something as a server does; return its id."""

    async def written() -> str:
        database = Database(url)
        await database.open()
        id = await write(database)
        await database.close()
        return id

    return asyncio.run(written())


def store(url: str, owner: str, name: str) -> str:
    """Store a glossary; return its id."""

    async def write(database: Database) -> str:
        return (await Glossaries(database).create(owner, name, {("en", "de"): {"server": "Server"}})).id

    return stored(url, write)


@pytest.fixture
def keys(url: str) -> dict[str, str]:
    """The ids of keys by name."""
    for name in ("alice", "bob"):
        run_command(url, "create", name)
    return {one["name"]: one["id"] for one in listed_keys(url)}


def test_a_glossary_is_shared_given_and_deleted(url: str, keys: dict[str, str]) -> None:
    id = store(url, keys["alice"], "IT")
    [one] = listed(url)
    assert (one["id"], one["name"], one["owner"], one["dictionaries"]) == (id, "IT", keys["alice"], [PAIR])
    assert "alice" in run(url, "list")
    assert id in run(url, "list")  # whole, however wide the terminal is
    run(url, "share", "IT")
    assert [one["owner"] for one in listed(url)] == [None]
    assert owners.SHARED in run(url, "list")
    run(url, "give", id, "bob")
    assert [one["owner"] for one in listed(url)] == [keys["bob"]]
    run(url, "give", "IT", keys["alice"])
    assert [one["owner"] for one in listed(url)] == [keys["alice"]]
    run(url, "delete", "IT")
    assert listed(url) == []


def test_what_is_wrong_is_one_error(url: str, keys: dict[str, str]) -> None:
    first, second = (store(url, owner, "IT") for owner in (keys["alice"], SERVER))
    run_command(url, "revoke", "bob")
    for arguments in (("share", "none"), ("delete", "none"), ("give", first, "carol"), ("give", first, "bob")):
        with pytest.raises(ConfigError):
            run(url, *arguments)
    with pytest.raises(ConfigError, match=f"{first}.*{second}|{second}.*{first}"):
        run(url, "delete", "IT")
    with pytest.raises(GlossaryExists, match=second):
        run(url, "share", first)
    with pytest.raises(ConfigError, match=r"storage\.url"):
        run("", "list")
    assert {one["id"] for one in listed(url)} == {first, second}


def test_each_change_is_a_line(url: str, keys: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    id = store(url, keys["alice"], "Zanzibar")
    caplog.clear()
    for arguments in (("share", id), ("give", id, "bob"), ("delete", id)):
        run(url, *arguments)
    changes = [one.getMessage() for one in caplog.records if one.name == "dragoman.audit"]
    assert [line.split()[:2] for line in changes] == [[f"glossary.{name}", id] for name in ("share", "give", "delete")]
    assert "Zanzibar" not in caplog.text
