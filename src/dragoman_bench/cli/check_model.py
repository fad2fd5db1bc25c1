"""`dragoman check-model`: checks a checkpoint before it is served, and prints a report; or calibrates its confidence."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import check_url
from dragoman_bench.bench.measurement import describe_machine, git_commit, write_text
from dragoman_bench.bench.progress import INTERRUPTED, Observer, interrupts, observed
from dragoman_bench.bench.tables import Column, markdown, table
from dragoman_bench.bench.workload import parse_pairs
from dragoman_bench.cli.options import api_key_option
from dragoman_bench.cli.subject import describe_model
from dragoman_bench.eval.calibration import ADEQUATE_CHRF, Calibration, calibrate_model, read_texts
from dragoman_bench.eval.check_model import (
    CheckedModel,
    ModelToCheck,
    check_model,
    describe_served,
    directions_of,
)

FILE = click.Path(path_type=Path)


@click.command("check-model")
@click.argument("model", required=False, default="")
@click.argument("serve_arguments", nargs=-1, metavar="[-- SERVE OPTIONS]")
@click.option("--url", help="A running dragoman server to ask. [default: one is started for the check]")
@click.option("--profile", default="", help="The profile. [default: chosen by the model]")
@click.option("--directions", metavar="PAIRS",
              help="Such as en-ja,de-en. [default: from and to English, among en, ja, ko and zh]")  # fmt: skip
@click.option("--calibrate", "texts", type=FILE, metavar="FILE",
              help="Instead of the checks: fit the confidence in the model's translations of FILE, texts with translations by "
                   "people: JSON lines as of `dragoman eval`, or .mo, .po, .tmx or a folder of them.")  # fmt: skip
@click.option("--adequate-chrf", type=click.FloatRange(0, 100), default=ADEQUATE_CHRF, show_default=True,
              help="Of --calibrate: the chrF from which a translation without checks counts as adequate.")  # fmt: skip
@click.option("--out", type=FILE, default=Path("confidence.json"), show_default=True,
              help="Of --calibrate: the file to write.")  # fmt: skip
@api_key_option("Of --url.")
@click.option("--log", type=FILE, default=Path(".dragoman/check-model/serve.log"),
              show_default=True, help="The started server's output.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    model: str,
    serve_arguments: tuple[str, ...],
    url: str | None,
    profile: str,
    directions: str | None,
    texts: Path | None,
    adequate_chrf: float,
    out: Path,
    api_key: str | None,
    log: Path,
    as_json: bool,
) -> None:
    """Check MODEL (a folder or hub id; default: the packaged one) before you serve it: its prompt, twenty sentences of
    each direction, tags, a glossary, speed, memory, licence. With --calibrate, fit how confident the server is in it.

    The command starts a server for the model; options after -- are passed to `dragoman serve`. Exit code 1 if a check failed.
    """
    if model.startswith("-"):  # no MODEL before `--`
        model, serve_arguments = "", (model, *serve_arguments)
    if url is not None and serve_arguments:
        raise ConfigError("--url names a server that runs already; it takes no serve options", param="url")
    folder = Path(model)
    path = str(folder.resolve()) if model and folder.is_dir() else model

    async def model_to_check() -> ModelToCheck:
        running = check_url(url) if url is not None else None
        described = (
            await describe_served(running, lambda served: describe_model(path, profile or served))
            if running
            else await asyncio.to_thread(describe_model, path, profile)
        )
        pairs = [(pair.source, pair.target) for pair in parse_pairs(directions)] if directions else []
        return ModelToCheck(
            described,
            directions_of(described, pairs) if pairs or texts is None else (),
            running,
            serve_arguments=serve_arguments,
            log=log,
            api_key=api_key,
        )

    if texts is not None:
        references = read_texts(texts)

        async def calibrate(observer: Observer) -> Calibration:
            wanted = await model_to_check()
            with interrupts() as interrupted:
                return await calibrate_model(wanted, references, adequate_chrf, observer, interrupted)

        _write(observed(calibrate), out, as_json=as_json)
        return

    async def check(observer: Observer) -> CheckedModel:
        wanted = await model_to_check()
        with interrupts() as interrupted:
            return await check_model(wanted, observer, interrupted)

    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    report = observed(check)
    _print(report, started_at, as_json=as_json)
    if report.interrupted:
        click.get_current_context().exit(INTERRUPTED)
    if not report.ok:
        click.get_current_context().exit(1)


def _write(calibration: Calibration, out: Path, *, as_json: bool) -> None:
    write_text(out, json.dumps(calibration.document, indent=1) + "\n")
    click.echo(markdown(calibration.table()))
    click.echo(f"wrote {out}: serve the model with --confidence-file {out}, or with the file in its folder")
    if as_json:
        click.echo(json.dumps(calibration.figures, ensure_ascii=False))


def _print(report: CheckedModel, started_at: str, *, as_json: bool) -> None:
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
