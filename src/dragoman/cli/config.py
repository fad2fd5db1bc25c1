"""`dragoman config show`: the effective settings and where each came from."""

from __future__ import annotations

import re

import click
from rich.table import Table
from rich.text import Text

from dragoman.cli.console import console
from dragoman.cli.options import settings_options
from dragoman.settings import Loaded, options

_PASSWORD = re.compile(r"(://[^:/@]*:).*@")


@click.group("config")
def command() -> None:
    """Show the effective settings and where each came from."""


@command.command("show")
@settings_options(
    "server", "auth", "model", "engine", "pipeline", "admission", "cache", "log", "traffic", "storage", "tracing"
)
@click.option("--changed", is_flag=True, help="Only what differs from the defaults.")
def show(loaded: Loaded, changed: bool) -> None:
    """Print every setting, its value, its origin and the variable that sets it."""
    table = Table("setting", "value", "from", "variable", box=None, pad_edge=False)
    for path, option in options().items():
        origin = loaded.origins[path]
        if changed and origin == "default":
            continue
        value = getattr(getattr(loaded.settings, option.section), option.key)
        if path == "storage.url":
            value = _PASSWORD.sub(r"\1***@", value)
        shown = Text("auto", "dim") if value is None else str(value) or '""'
        table.add_row(path, shown, origin, option.variable, style="" if origin == "default" else "bold")
    console.print(table)
