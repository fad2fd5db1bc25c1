"""`dragoman keys` and `dragoman backup`, on a database of their own."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dragoman.cli import backup, keys
from dragoman.cli.console import error_console
from dragoman.errors import ConfigError
from dragoman.service.stack import account_store
from dragoman.storage.database import Database
from dragoman.storage.usage import UsageBatch, Used


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/dragoman.db"


def run(url: str, *arguments: str, command: click.Command = keys.command) -> Result:
    found = CliRunner().invoke(command, [*arguments, "--storage-url", url])
    if found.exception is not None:
        raise found.exception
    return found


def listed(url: str) -> list[dict[str, Any]]:
    return json.loads(run(url, "list", "--json").stdout)


def use(url: str, used: dict[tuple[str, str], Used]) -> None:
    """Write use into the database, by key and month."""

    async def write() -> None:
        database = Database(url)
        await database.open()
        await account_store(database).usage.add(UsageBatch("1", used))
        await database.close()

    asyncio.run(write())


def test_a_key_from_its_creation_to_its_revocation(url: str) -> None:
    limits = ("--characters-per-month", "1000", "--requests-per-second", "2.5", "--languages", "ko, ja")
    key = run(url, "create", "alice", *limits, "--priority", "bulk", "--expires", "2099-01-02").stdout
    assert key.startswith("drg_")
    [one] = listed(url)
    assert key.strip() not in str(one)
    assert (one["name"], one["role"], one["priority"], one["languages"]) == ("alice", "translate", "bulk", ["ja", "ko"])
    assert (one["characters_per_month"], one["requests_per_s"]) == (1000, 2.5)
    assert (one["expires_at"], one["revoked_at"]) == ("2099-01-02T00:00:00+00:00", None)
    assert run(url, "rotate", "alice", "--overlap", "0").stdout not in ("", key)
    with pytest.raises(ConfigError):
        run(url, "create", "alice")
    run(url, "revoke", one["id"])
    assert listed(url)[0]["revoked_at"] is not None
    table = run(url, "list").stdout
    assert "alice" in table
    assert "revoked" in table


@pytest.mark.parametrize(
    "arguments",
    [
        *(("create", "x", "--requests-per-second", value) for value in ("nan", "inf", "0", "-1", "1e-320")),
        *(("create", "x", "--characters-per-month", value) for value in ("0", "9" * 23)),
        *(("rotate", "alice", "--overlap", value) for value in ("nan", "inf", "-1", "1e300")),
    ],
)
def test_a_limit_out_of_bounds_is_refused(url: str, arguments: tuple[str, ...]) -> None:
    run(url, "create", "alice")
    with pytest.raises(ConfigError, match=arguments[-2]):
        run(url, *arguments)
    assert [one["name"] for one in listed(url)] == ["alice"]


def test_names_are_shown_as_they_are(url: str) -> None:
    names = ("[/b]", "[red]x", ":smile:")
    for name in names:
        run(url, "create", name)
    use(url, {(one["id"], "2026-11"): Used(1, 1) for one in listed(url)})
    for shown in (run(url, "list").stdout, run(url, "usage").stdout):
        assert all(name in shown for name in names)


def test_usage_is_shown_by_month_and_key(url: str) -> None:
    for name in ("alice", "bob"):
        run(url, "create", name)
    ids = {one["name"]: one["id"] for one in listed(url)}
    used = {("alice", "2026-10"): Used(7, 1), ("alice", "2026-11"): Used(5, 2), ("bob", "2026-11"): Used(1, 1)}
    use(url, {(ids[name], month): one for (name, month), one in used.items()})
    rows = json.loads(run(url, "usage", "--json").stdout)
    assert {(row["name"], row["month"]): Used(row["characters"], row["requests"]) for row in rows} == used
    assert len(json.loads(run(url, "usage", "bob", "--json").stdout)) == 1
    assert "2026-10" in run(url, "usage", "alice").stdout
    with pytest.raises(ConfigError):
        run(url, "usage", "carol")


def test_without_a_database_there_are_no_keys() -> None:
    with pytest.raises(ConfigError, match=r"storage\.url"):
        run("", "list")


def test_a_backup_has_the_keys(url: str, tmp_path: Path) -> None:
    run(url, "create", "alice")
    run(url, str(tmp_path / "copy.db"), command=backup.command)
    assert [one["name"] for one in listed(f"sqlite:///{tmp_path}/copy.db")] == ["alice"]
    with pytest.raises(ConfigError):
        run(url, str(tmp_path / "copy.db"), command=backup.command)
    with pytest.raises(ConfigError, match="pg_dump"):
        run("postgresql://localhost/none", str(tmp_path / "other.db"), command=backup.command)


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_each_change_is_a_line_on_standard_error(url: str, log_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_LOG_FORMAT", log_format)
    written = io.StringIO()
    monkeypatch.setattr(error_console, "_file", written)
    key = run(url, "create", "alice").stdout.strip()
    [one] = listed(url)
    run(url, "rotate", "alice")
    run(url, "revoke", "alice")
    lines = [line for line in written.getvalue().splitlines() if one["id"] in line and "command line" in line]
    assert key not in written.getvalue()
    if log_format == "json":
        found = [json.loads(line) for line in lines]
        assert {(line["logger"], line["by"]) for line in found} == {("dragoman.audit", f"uid {os.getuid()}")}
        assert [(line["change"], line["id"]) for line in found] == [
            ("key.create", one["id"]),
            ("key.rotate", one["id"]),
            ("key.revoke", one["id"]),
        ]
    else:
        assert [line.split()[1] for line in lines] == ["key.create", "key.rotate", "key.revoke"]
