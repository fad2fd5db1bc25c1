"""`dragoman backup`: a copy of the database while servers use it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from dragoman.cli.options import settings_options
from dragoman.errors import ConfigError
from dragoman.service.stack import database
from dragoman.settings import Loaded


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("storage")
def command(loaded: Loaded, file: Path) -> None:
    """Copy the SQLite database (keys, usage, glossaries, translation memories) to FILE, as of one moment.

    Servers may use it meanwhile.

    To restore, stop the servers and copy FILE to the path in storage.url, or set storage.url to FILE. A PostgreSQL
    database is backed up with pg_dump and restored with pg_restore.
    """
    opened = database(loaded.settings.storage)
    if opened is None:
        raise ConfigError("there is no database: storage.url is empty", param="storage.url")
    asyncio.run(opened.back_up(file))
