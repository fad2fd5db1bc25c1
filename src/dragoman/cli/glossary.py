"""`dragoman glossary`: stored glossaries of a running server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
from rich.table import Table

from dragoman.cli.client import no_server, request, request_json
from dragoman.cli.console import console
from dragoman.errors import ConfigError

FORMATS = {"tsv": "text/tab-separated-values", "csv": "text/csv", "json": "application/json"}

_url = click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The running server.")
_source = click.option("--from", "source", required=True, metavar="TAG", help="Language of the terms.")
_target = click.option("--to", "target", required=True, metavar="TAG", help="Language of the translations.")
_format = click.option(
    "--format", "format_", type=click.Choice(list(FORMATS)), help="By default, as the file's name says, or TSV."
)


@click.group("glossary")
def command() -> None:
    """List, create, import, export and delete the glossaries that a running server stores.

    GLOSSARY is the id or the name of one.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="The server's answer as it is.")
@_url
def list_(url: str, as_json: bool) -> None:
    """List all glossaries with their languages."""
    answer = request_json(url, "/v1/glossaries")
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    table = Table("name", "version", "entries", "id", box=None, pad_edge=False)
    try:
        for one in answer["glossaries"]:
            pairs = (f"{of['source']}>{of['target']}: {of['entry_count']:,}" for of in one["dictionaries"])
            table.add_row(one["name"], str(one["version"]), ", ".join(pairs) or "-", one["id"])
    except (LookupError, TypeError) as error:
        raise no_server(url, repr(error)) from None
    console.print(table)


@command.command("create")
@click.argument("name")
@_url
def create(name: str, url: str) -> None:
    """Create an empty glossary NAME, and print its id."""
    click.echo(_field(request_json(url, "/v1/glossaries", method="POST", body={"name": name}), "id", url))


@command.command("import")
@click.argument("glossary")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_source
@_target
@_format
@click.option("--add", is_flag=True, help="Keep entries that are not in the file.")
@_url
def import_(glossary: str, file: Path, source: str, target: str, format_: str | None, add: bool, url: str) -> None:
    """Replace the entries of one pair of languages by those of FILE (- is standard input).

    TSV and CSV have a term and its translation in each line; JSON is {"entries": {"term": "translation"}}.
    """
    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    answer = request(
        url,
        _entries(glossary, source, target),
        method="PATCH" if add else "PUT",
        body=body,
        content_type=_media_type(file, format_),
    )
    click.echo(f"version {_field(json.loads(answer), 'version', url)}")


@command.command("export")
@click.argument("glossary")
@_source
@_target
@_format
@click.option("--output", "-o", type=click.Path(path_type=Path), help="A file instead of standard output.")
@_url
def export(glossary: str, source: str, target: str, format_: str | None, output: Path | None, url: str) -> None:
    """Write the entries of one pair of languages."""
    answer = request(url, _entries(glossary, source, target), accept=_media_type(output, format_))
    if output is None:
        sys.stdout.buffer.write(answer)
        return
    try:
        output.write_bytes(answer)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from None


@command.command("delete")
@click.argument("glossary")
@click.option("--from", "source", metavar="TAG", help="With --to: delete the entries of this pair of languages alone.")
@click.option("--to", "target", metavar="TAG")
@_url
def delete(glossary: str, source: str | None, target: str | None, url: str) -> None:
    """Delete a glossary, or its entries of one pair of languages."""
    if bool(source) != bool(target):
        raise ConfigError("specify both --from and --to, or neither")
    whole = f"/v1/glossaries/{quote(glossary, safe='')}"
    request(url, _entries(glossary, source, target) if source and target else whole, method="DELETE")


def _entries(glossary: str, source: str, target: str) -> str:
    return f"/v1/glossaries/{quote(glossary, safe='')}/entries?{urlencode({'source': source, 'target': target})}"


def _media_type(file: Path | None, chosen: str | None) -> str:
    """That of the chosen format, or else of the file's ending."""
    return FORMATS.get(chosen or (file.suffix.removeprefix(".").lower() if file else ""), FORMATS["tsv"])


def _field(answer: Any, name: str, url: str) -> Any:
    try:
        return answer[name]
    except (LookupError, TypeError) as error:
        raise no_server(url, repr(error)) from None
