"""`dragoman models`: lists the profiles, their languages and the memory that they need."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

import click
from rich.table import Table

from dragoman.cli.console import console
from dragoman.prompts import catalog
from dragoman.prompts.profile import Profile
from dragoman.service.stack import Model, choose_model
from dragoman.settings import ModelSettings
from dragoman.types import PromptOption, Sampling
from dragoman.wire import ModelDescription, PromptTemplate


@click.command("models")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Describe one model and its profile as JSON, for programs.")
@click.option("--model", default="", help="Of --json: model folder or hub id.  [default: the packaged phrasebook]")
def command(name: str | None, as_json: bool, model: str) -> None:
    """List the model profiles, or show the profile NAME in full."""
    if as_json:
        click.echo(describe(choose_model(ModelSettings(path=model, profile=name or ""))).model_dump_json())
        return
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


def describe(model: Model) -> ModelDescription:
    """Describe a model, with its prompt for each direction without options."""
    profile = model.profile
    served = [(one, other) for one in profile.languages for other in profile.languages if one != other]
    templates = {
        f"{source}>{target}": profile.template(source, target)
        for source, target in served
        if profile.serves(source, target)
    }
    distinct = list(dict.fromkeys(templates.values()))
    return ModelDescription(
        path=model.path,
        name=model.name,
        profile=profile.name,
        title=profile.title,
        mode=profile.mode,
        wire=profile.wire,
        chat_arguments=dict(profile.chat_arguments),
        max_source_tokens=profile.max_source_tokens,
        licence=f"{profile.licence} {profile.territory}".strip(),
        templates=[PromptTemplate(text=template.text, system=template.system) for template in distinct],
        directions={direction: distinct.index(template) for direction, template in templates.items()},
    )


def weights(profile: Profile) -> str:
    """Return the memory of the published checkpoints' weights."""
    sizes = sorted(model.bf16_gib for model in profile.models)
    if not sizes:
        return "-"
    ends = dict.fromkeys(f"{size:.2g}" if size < 10 else f"{size:.0f}" for size in (sizes[0], sizes[-1]))
    return f"{' to '.join(ends)} GiB"


def _details(profile: Profile) -> Table:
    defaults = asdict(Sampling())
    sampling = ", ".join(
        f"{name}={value}" for name, value in asdict(profile.sampling).items() if value != defaults[name]
    )
    every = frozenset(get_args(PromptOption))
    expressed = {name for template in profile.templates for name in template.covers(every)}
    rows = {
        "for": profile.title,
        "models": "\n".join(f"{model.id}  ({model.bf16_gib:.1f} GiB in bf16)" for model in profile.models),
        "languages": ", ".join(profile.languages),
        "source language": "needed" if profile.needs_source else "not needed",
        "directions": f"to or from {', '.join(profile.pivots)}" if profile.pivots else "all",
        "prompts for": ", ".join(name for name in get_args(PromptOption) if name in expressed) or "the text alone",
        "sampling": sampling or "greedy",
        "longest text": f"{profile.max_source_tokens} tokens, then segments" if profile.max_source_tokens else "-",
        "licence": f"{profile.licence} {profile.territory}",
        "notes": "\n".join(profile.notes),
    }
    table = Table(box=None, show_header=False, pad_edge=False, title=profile.name, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
