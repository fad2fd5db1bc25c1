"""`dragoman config show`: the effective settings and where each came from."""

from __future__ import annotations

import re

import click
from rich.table import Column, Table
from rich.text import Text

from dragoman.cli.console import console
from dragoman.cli.options import SettingsCommand, settings_options
from dragoman.settings import Loaded, options

_PASSWORD = re.compile(r"(://[^:/@]*:).*@")


@click.group("config")
def command() -> None:
    """Show the effective settings and where each came from."""


@command.command("show", cls=SettingsCommand)
@settings_options()
@click.option(
    "--all", "with_all", is_flag=True, help="Every setting, also those that `dragoman serve --help` leaves out."
)
def show(loaded: Loaded, with_all: bool) -> None:
    """Print settings, their values, and where each came from.

    Without --all: those that `dragoman serve --help` lists, and all that differ from the defaults. The variable of
    server.port is DRAGOMAN_SERVER_PORT, and so on.
    """
    table = Table(Column("setting", no_wrap=True), Column("value", overflow="fold"), "from", box=None, pad_edge=False)
    for path, option in options().items():
        origin = loaded.origins[path]
        if origin == "default" and not (with_all or option.group):
            continue
        value = getattr(getattr(loaded.settings, option.section), option.key)
        if option.secret and value:
            value = _PASSWORD.sub(r"\1***@", value)
        shown = Text("none", "dim") if value is None else str(value) or '""'
        table.add_row(path, shown, origin, style="" if origin == "default" else "bold")
    console.print(table)
