"""`dragoman models`: the profiles, their languages and the memory that they need."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from dragoman.cli.console import console
from dragoman.prompts import catalog
from dragoman.prompts.profile import Profile


@click.command("models")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the model profiles, or show the profile NAME in full."""
    if name is not None:
        console.print(_details(catalog.select("", {}, name)))
        return
    table = Table("profile", "for", "languages", "weights (bf16)", "licence", box=None, pad_edge=False)
    for profile in catalog.profiles().values():
        licence = f"{profile.licence} ({profile.territory})" if profile.territory else profile.licence
        table.add_row(profile.name, profile.title, str(len(profile.languages)), weights(profile), licence)
    console.print(table)
    console.print(
        "\nThe profile is chosen by the model's name and config.json; --profile names another, --profile-file reads your own.",
        style="dim",
    )


def weights(profile: Profile) -> str:
    """The memory that the published checkpoints' weights take."""
    sizes = sorted(model.bf16_gib for model in profile.models)
    if not sizes:
        return "-"
    ends = dict.fromkeys(f"{size:.2g}" if size < 10 else f"{size:.0f}" for size in (sizes[0], sizes[-1]))
    return f"{' to '.join(ends)} GiB"


def _details(profile: Profile) -> Table:
    sampling = ", ".join(f"{name}={value}" for name, value in asdict(profile.sampling).items() if value)
    rows = {
        "for": profile.title,
        "models": "\n".join(f"{model.id}  ({model.bf16_gib:.1f} GiB in bf16)" for model in profile.models),
        "languages": ", ".join(profile.languages),
        "source language": "needed" if profile.needs_source else "not needed",
        "directions": f"to or from {', '.join(profile.pivots)}" if profile.pivots else "all",
        "sampling": sampling or "greedy",
        "longest text": f"{profile.max_source_tokens} tokens, then segments" if profile.max_source_tokens else "-",
        "licence": f"{profile.licence} {profile.territory}",
        "notes": "\n".join(profile.notes),
    }
    table = Table(box=None, show_header=False, pad_edge=False, title=profile.name, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
