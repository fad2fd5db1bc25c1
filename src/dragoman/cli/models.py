"""`dragoman models`: the profiles, what each serves and what each needs."""

from __future__ import annotations

import click
from rich.table import Table

from dragoman.cli.console import console
from dragoman.prompts import catalog


@click.command("models")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List model profiles; with NAME, one of them in full."""
    profiles = catalog.profiles()
    if name is not None:
        _show(catalog.named(name))
        return
    table = Table("profile", "for", "languages", "memory (bf16)", "licence", box=None, pad_edge=False)
    for profile in profiles.values():
        table.add_row(profile.name, profile.title, str(len(profile.languages)), profile.memory, profile.licence)
    console.print(table)
    console.print(
        "\nA profile is picked from the model's config; name one with --profile, or bring your own with --profile-file.",
        style="dim",
    )


def _show(profile: object) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for field in getattr(profile, "__dataclass_fields__", {}):
        value = getattr(profile, field)
        table.add_row(field, str(value), style="")
    console.print(table)
