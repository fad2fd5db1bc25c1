"""`dragoman memory`: the translation memories of a key, on a running server."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.table import Table

from dragoman.cli.client import KEY_SOURCE, Server
from dragoman.cli.console import console, say
from dragoman.errors import ConfigError

_PATH = "/v1/memories"

_url = click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The dragoman server.")


@click.group(
    "memory",
    epilog=f"The server's key is read from {KEY_SOURCE}.",
)
def command() -> None:
    """List, import, export and delete translation memories.

    MEMORY is the name or the id of a memory. A key sees its own memories and those that are shared, which an operator's key
    changes by their ids: a text that is in one of them, in the same direction and with the same inline codes, is answered with
    the stored translation. Whose each memory is: dragoman memories.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@_url
def list_(url: str, as_json: bool) -> None:
    """List the memories with their languages."""
    memories = _field(Server(url).json("GET", _PATH), "memories")
    if as_json:
        click.echo(json.dumps(memories, ensure_ascii=False, indent=2))
        return
    table = Table("name", "id", "owner", "entries", "languages", "changed", box=None, pad_edge=False)
    for one in memories:
        pairs = ", ".join(f"{pair['source']} → {pair['target']}" for pair in one["pairs"])
        owner = "shared" if one.get("shared") else "own"
        changed = one["updated_at"][:16]
        table.add_row(one["name"], one["id"], owner, f"{one['entry_count']:,}", pairs or "none", changed)
    console.print(table)


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="MEMORY", help="The memory to add to, made if there is none; absent: the file's name.")
@_url
def import_(file: Path, name: str | None, url: str) -> None:
    """Add the entries of a TMX file. A text that is there gets the file's translation."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    path = f"{_PATH}/import?name={quote(name or file.stem, safe='')}"
    answer = _parsed(Server(url).call("POST", path, content, "application/x-tmx+xml"), url)
    memory = _field(answer, "memory")
    say(f"{memory['name']}: {answer['added']:,} added, {memory['entry_count']:,} entries in all")
    for reason, number in sorted(answer["skipped"].items()):
        say(f"{number:,} not stored: {_REASONS.get(reason, reason)}")


_REASONS = {
    "codes": "their inline codes are not those of the text",
    "language": "their language is unknown, or the text's own",
    "text": "empty, too long, or they read like a mark",
    "variants": "units without a translation",
}


@command.command("export")
@click.argument("memory")
@click.option("--out", type=click.Path(path_type=Path), help="The file to write; absent: standard output.")
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
@_url
def export(memory: str, out: Path | None, url: str, *, overwrite: bool) -> None:
    """Write a memory as a TMX file."""
    if out is not None and out.exists() and not overwrite:
        raise ConfigError(f"{out} exists already: give --overwrite to replace it")
    content = Server(url).call("GET", f"{_PATH}/{quote(memory, safe='')}/export")
    if out is None:
        sys.stdout.buffer.write(content)
        return
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"{out} cannot be written: {error.strerror or error}") from None


@command.command("delete")
@click.argument("memory")
@_url
def delete(memory: str, url: str) -> None:
    """Delete a memory with all its entries."""
    Server(url).call("DELETE", f"{_PATH}/{quote(memory, safe='')}")
    say(f"deleted {memory}")


def _parsed(answer: bytes, url: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        raise ConfigError(f"{url} did not answer as a dragoman server: no JSON") from None


def _field(answer: Any, name: str) -> Any:
    try:
        return answer[name]
    except (LookupError, TypeError):
        raise ConfigError("the server did not answer as a dragoman server") from None
