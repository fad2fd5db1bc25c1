"""`dragoman memories`, on a database of its own. What it has in common with `dragoman glossaries` is tested there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.cli import memories as module
from dragoman.errors import BodyTooLarge, ConfigError, InvalidMemory
from dragoman.storage.collections import SERVER
from dragoman.storage.database import Database
from dragoman.storage.memories import EDITS, MemoryLimits, MemoryStore, NewEntry
from tests.cli.test_glossaries import keys as keys
from tests.cli.test_glossaries import stored
from tests.cli.test_keys import run as run_command
from tests.cli.test_keys import url as url

MOST = MemoryLimits(100, 10_000)
PAIR = {"source": "en", "target": "de", "entry_count": 1}


def run(url: str, *arguments: str) -> str:
    return run_command(url, *arguments, command=module.command).stdout


def listed(url: str) -> list[dict[str, Any]]:
    return json.loads(run(url, "list", "--json"))


def store(url: str, owner: str, name: str) -> str:
    """Store a memory of an entry; return its id."""

    async def write(database: Database) -> str:
        return await MemoryStore(database).add(owner, name, [NewEntry("en", "de", name, name)], MOST, create=True)

    return stored(url, write)


def test_a_memory_is_shared_given_and_deleted(url: str, keys: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    id = store(url, keys["alice"], "Zanzibar")
    [one] = listed(url)
    assert (one["id"], one["owner"], one["shared"], one["pairs"]) == (id, keys["alice"], False, [PAIR])
    caplog.clear()
    run(url, "share", "Zanzibar")
    assert [(one["owner"], one["shared"]) for one in listed(url)] == [(None, True)]
    run(url, "give", id, "bob")
    assert [(one["owner"], one["shared"]) for one in listed(url)] == [(keys["bob"], False)]
    run(url, "delete", "Zanzibar")
    assert listed(url) == []
    changes = [one.getMessage() for one in caplog.records if one.name == "dragoman.audit"]
    assert [line.split()[:2] for line in changes] == [[f"memory.{name}", id] for name in ("share", "give", "delete")]
    assert "Zanzibar" not in caplog.text


def test_what_is_wrong_is_one_error(url: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, unshared = store(url, keys["alice"], EDITS), store(url, SERVER, EDITS)
    assert {one["id"]: (one["owner"], one["shared"]) for one in listed(url)} == {
        mine: (keys["alice"], False),
        unshared: (None, False),
    }
    assert "without a key" in run(url, "list")
    with pytest.raises(InvalidMemory, match="never shared"):
        run(url, "share", mine)
    for arguments in (("share", "none"), ("give", mine, "carol"), ("delete", EDITS)):
        with pytest.raises(ConfigError):
            run(url, *arguments)
    store(url, keys["bob"], "m")
    monkeypatch.setenv("DRAGOMAN_MEMORY_MAX_ENTRIES_PER_KEY", "1")
    with pytest.raises(BodyTooLarge):
        run(url, "give", mine, "bob")
    assert len(listed(url)) == 3
