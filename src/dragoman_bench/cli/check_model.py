"""`dragoman check-model`: checks a checkpoint before it is served, and prints a report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import check_url
from dragoman_bench.bench.measurement import describe_machine, git_commit
from dragoman_bench.bench.progress import INTERRUPTED, Observer, interrupts, observed
from dragoman_bench.bench.tables import Column, markdown, table
from dragoman_bench.bench.workload import parse_pairs
from dragoman_bench.cli.options import api_key_option
from dragoman_bench.cli.subject import describe_model
from dragoman_bench.eval.check_model import (
    CheckedModel,
    ModelToCheck,
    check_model,
    describe_served,
    directions_of,
)


@click.command("check-model")
@click.argument("model", required=False, default="")
@click.argument("serve_arguments", nargs=-1, metavar="[-- SERVE OPTIONS]")
@click.option("--url", help="A running dragoman server to ask. [default: one is started for the check]")
@click.option("--profile", default="", help="The profile. [default: chosen by the model]")
@click.option("--directions", metavar="PAIRS",
              help="Such as en-ja,de-en. [default: from and to English, among en, ja, ko and zh]")  # fmt: skip
@api_key_option("Of --url.")
@click.option("--log", type=click.Path(path_type=Path), default=Path(".dragoman/check-model/serve.log"),
              show_default=True, help="The started server's output.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    model: str,
    serve_arguments: tuple[str, ...],
    url: str | None,
    profile: str,
    directions: str | None,
    api_key: str | None,
    log: Path,
    as_json: bool,
) -> None:
    """Check MODEL (a folder or hub id; default: the packaged one) before you serve it: its prompt, twenty sentences of
    each direction, tags, a glossary, speed, memory, licence.

    The command starts a server for the model; options after -- are passed to `dragoman serve`. Exit code 1 if a check failed.
    """
    if model.startswith("-"):  # no MODEL before `--`
        model, serve_arguments = "", (model, *serve_arguments)
    if url is not None and serve_arguments:
        raise ConfigError("--url names a server that runs already; it takes no serve options", param="url")
    folder = Path(model)
    path = str(folder.resolve()) if model and folder.is_dir() else model

    async def check(observer: Observer) -> CheckedModel:
        running = check_url(url) if url is not None else None
        described = (
            await describe_served(running, lambda served: describe_model(path, profile or served))
            if running
            else await asyncio.to_thread(describe_model, path, profile)
        )
        pairs = [(pair.source, pair.target) for pair in parse_pairs(directions)] if directions else []
        wanted = ModelToCheck(
            described,
            directions_of(described, pairs),
            running,
            serve_arguments=serve_arguments,
            log=log,
            api_key=api_key,
        )
        with interrupts() as interrupted:
            return await check_model(wanted, observer, interrupted)

    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    report = observed(check)
    if as_json:
        document = {
            "model": report.model,
            "ok": report.ok,
            "findings": [asdict(one) for one in report.findings],
            "conditions": {"started_at": started_at, "git_commit": git_commit(), "machine": asdict(describe_machine())},
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        columns = [Column(name, "left") for name in ("finding", "state", "details")]
        rows = [(finding.what, finding.state, finding.details) for finding in report.findings]
        click.echo(markdown(table("", columns, rows)))
    if report.interrupted:
        click.get_current_context().exit(INTERRUPTED)
    if not report.ok:
        click.get_current_context().exit(1)
