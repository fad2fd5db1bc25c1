"""`dragoman eval`: scores translations against references, judges hard inputs, compares results."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp
import click

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import check_url
from dragoman_bench.bench.measurement import Measurement, write_text
from dragoman_bench.bench.progress import INTERRUPTED, Observer, interrupts, observed
from dragoman_bench.bench.tables import markdown
from dragoman_bench.cli.options import api_key_option
from dragoman_bench.eval.adapt import Adapt, begin, tables, write_adapt_page
from dragoman_bench.eval.apis import API_KINDS, ApiKind, ApiOptions, TranslationApi, translation_api
from dragoman_bench.eval.catalogues import choose, read_catalogues
from dragoman_bench.eval.documents import (
    CORPUS,
    DOCUMENTS,
    DocumentEval,
    DocumentResults,
    documents_table,
    read_corpus,
    write_page,
)
from dragoman_bench.eval.fidelity import fidelity_page, kind_table, run_fidelity
from dragoman_bench.eval.judge import HARD_INPUTS, read_inputs
from dragoman_bench.eval.libreoffice import LibreOffice
from dragoman_bench.eval.quality import compare_results, run_quality, score_table
from dragoman_bench.eval.results import FIDELITY, QUALITY, EvalResults

FILE = click.Path(path_type=Path)
_Found = TypeVar("_Found", EvalResults, Measurement)
Run = Callable[[TranslationApi, Observer, asyncio.Event], Coroutine[Any, Any, EvalResults]]


@click.command("eval")
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
@click.option("--fidelity", is_flag=True, help="Send the hard inputs, and judge what comes back.")
@click.option("--documents", is_flag=True,
              help="Send whole files of FILE, a list (default: public files of all formats), and judge what comes back. The "
                   "server runs with --pipeline fake.")  # fmt: skip
@click.option("--files", "folder", type=FILE, default=Path(".dragoman/documents-eval"), show_default=True,
              help="Of --documents: folder of the files; what is missing is fetched.")  # fmt: skip
@click.option("--rival", multiple=True, metavar="NAME=FOLDER",
              help="Of --documents: what another program made of the same files, to be judged alike.")  # fmt: skip
@click.option("--libreoffice", is_flag=True,
              help="Of --documents: compare what LibreOffice shows of both. Needs it and poppler-utils.")  # fmt: skip
@click.option("--adapt", is_flag=True,
              help="Translate messages of FILEs (.mo, .po, .tmx, or folders of them, with translations by people) with and "
                   "without similar ones in a memory.")  # fmt: skip
@click.option("--targets", metavar="TAGS", help="Of --adapt: languages, with commas between them; absent: all.")
@click.option("--number", type=click.IntRange(1), default=30, show_default=True,
              help="Of --adapt: messages of each band of similarity and language.")  # fmt: skip
@click.option("--growing", type=click.IntRange(0), default=200, show_default=True,
              help="Of --adapt: messages of each language that are translated while their memory grows.")  # fmt: skip
@click.option("--compare", nargs=2, type=FILE, metavar="A B", help="Compare two results files by paired bootstrap.")
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server.")
@click.option("--target", type=click.Choice(API_KINDS), default="dragoman", show_default=True, help="Its API.")
@api_key_option("Not stored with results.")
@click.option("--model", help="Model name, for OpenAI-compatible servers.")
@click.option("--plain", is_flag=True, help="Send every text as plain text, without naming its format.")
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Texts at a time.")
@click.option("--timeout", type=click.FloatRange(1), default=300.0, show_default=True, metavar="SECONDS",
              help="Of one text.")  # fmt: skip
@click.option("--inputs", type=FILE, default=HARD_INPUTS, help="Other hard inputs (JSONL).")
@click.option("--out", type=FILE, help="Results file (JSON, compressed where it ends in .gz).")
@click.option("--page", type=FILE, help="Write the results of --fidelity, or of such a FILE, as a Markdown page.")
@click.option("--without", type=FILE, metavar="RESULTS",
              help="Of --page: results of the same inputs to show beside, such as those of --plain.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document as the last line of stdout.")
def command(
    files: tuple[Path, ...],
    fidelity: bool,
    compare: tuple[Path, Path] | None,
    page: Path | None,
    out: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Score translations of FILE (JSON lines: source, reference, source_language, target_language): chrF, BLEU, warnings,
    latency.

    With --adapt, say what similar translations in a memory gain; with --out of a run that was interrupted, go on with it.
    With --fidelity, send hard inputs instead: tags,
    placeholders, lists, injections. With only --page, FILE has results of --fidelity. Ctrl-C stops and keeps all results.
    """
    for name, run in (("adapt", _adapt), ("documents", _documents)):
        if chosen[name]:
            run(files, out, page, chosen | {"fidelity": fidelity, "as_json": as_json})
            return
    if compare:
        for found in compare_results(*(QUALITY.read(path) for path in compare)):
            click.echo(markdown(found))
        return
    inputs: Path = chosen["inputs"]
    without = FIDELITY.read(chosen["without"]) if chosen["without"] else None
    if page and not fidelity:
        if len(files) != 1:
            raise ConfigError("--page needs --fidelity, or one results file", param="page")
        _write_page(page, FIDELITY.read(files[0]), without, inputs)
        return
    results = _run(_work(files, fidelity, inputs), chosen)
    if out is not None:
        (FIDELITY if fidelity else QUALITY).write(results, out)
    click.echo(markdown(kind_table(results, without) if fidelity else score_table(results)))
    if page:
        _write_page(page, results, without, inputs)
    if as_json:
        click.echo(json.dumps(_summary(results) if fidelity else results.scores, ensure_ascii=False))
    _exit_if_partial(results)


def _exit_if_partial(results: EvalResults | DocumentResults | Measurement) -> None:
    if results.partial:
        click.get_current_context().exit(INTERRUPTED)


def _documents(files: tuple[Path, ...], out: Path | None, page: Path | None, chosen: dict[str, Any]) -> None:
    """Judge a corpus, or only write the page of results (a FILE that ends in .json)."""
    if len(files) > 1:
        raise ConfigError("--documents needs one FILE at most", param="file")
    if files and files[0].suffix == ".json":
        results = DOCUMENTS.read(files[0])
    else:
        corpus = read_corpus(files[0] if files else CORPUS)
        headers = {"Authorization": f"Bearer {chosen['api_key']}"} if chosen["api_key"] else {}

        rivals = {name: Path(path) for name, _, path in (one.partition("=") for one in chosen["rival"])}
        for path in rivals.values():
            if not path.is_dir():
                raise ConfigError(f"--rival needs NAME=FOLDER: {path} is no folder", param="rival")

        office = LibreOffice() if chosen["libreoffice"] else None

        async def run(observer: Observer) -> DocumentResults:
            async with aiohttp.ClientSession(headers=headers) as session:
                judge = DocumentEval(session, check_url(chosen["url"]), chosen["folder"], rivals, office)
                with interrupts(signal.SIGINT) as interrupted:
                    return await judge.run(corpus, chosen["concurrency"], observer, interrupted)

        results = observed(run)
    if out is not None:
        DOCUMENTS.write(results, out)
    click.echo(markdown(documents_table(results)))
    if page:
        write_page(page, results)
    _exit_if_partial(results)


def _adapt(files: tuple[Path, ...], out: Path | None, page: Path | None, chosen: dict[str, Any]) -> None:
    """Measure what similar translations gain, or only write the page of results (a FILE that ends in .json)."""
    if len(files) == 1 and files[0].suffix in (".json", ".gz"):
        results = Measurement.read(files[0])
    else:
        if not files or chosen["target"] != "dragoman":
            raise ConfigError("--adapt needs catalogues, and a server of dragoman's", param="file")
        catalogues = read_catalogues(files)
        targets = [one.strip() for one in (chosen["targets"] or "").split(",") if one.strip()]
        inputs = choose(catalogues, targets, chosen["number"], chosen["growing"])

        async def work(api: TranslationApi, observer: Observer, interrupted: asyncio.Event) -> Measurement:
            found = begin(inputs, out, await api.settings(), [one.name for one in files])
            await Adapt(api, found, out, observer, interrupted).run(inputs)
            return found

        results = _run(work, chosen)
    for found in tables(results):
        click.echo(markdown(found))
    if page:
        write_adapt_page(page, results)
    _exit_if_partial(results)


def _work(files: tuple[Path, ...], fidelity: bool, inputs: Path) -> Run:
    """What is to be run. Raises ConfigError where the arguments do not say one thing."""
    if fidelity:
        if files:
            raise ConfigError("--fidelity takes no FILE; other inputs are given with --inputs", param="fidelity")
        read_inputs(inputs)
        return lambda api, observer, interrupted: run_fidelity(api, inputs, observer, interrupted)
    if len(files) != 1:
        raise ConfigError("specify one FILE to score, --fidelity, --compare or --page", param="file")
    return lambda api, observer, interrupted: run_quality(api, files[0], observer, interrupted)


def _run(
    work: Callable[[TranslationApi, Observer, asyncio.Event], Coroutine[Any, Any, _Found]],
    chosen: dict[str, Any],
) -> _Found:
    options = ApiOptions(
        url=check_url(chosen["url"]),
        kind=cast("ApiKind", chosen["target"]),
        api_key=chosen["api_key"],
        model=chosen["model"],
        plain=chosen["plain"],
        timeout_s=chosen["timeout"],
        concurrency=chosen["concurrency"],
    )

    async def run(observer: Observer) -> _Found:
        async with translation_api(options) as api:
            with interrupts(signal.SIGINT) as interrupted:
                return await work(api, observer, interrupted)

    return observed(partial(run))


def _write_page(page: Path, results: EvalResults, without: EvalResults | None, inputs: Path) -> None:
    write_text(page, fidelity_page(results, without, read_inputs(inputs)), "page")
    click.echo(f"wrote {page}")


def _summary(results: EvalResults) -> dict[str, Any]:
    rows = [row.judgement for row in results.judged]
    checks = ("structure", "kept", "content", "clean", "whole")
    found = {name: [value for row in rows if (value := getattr(row, name)) is not None] for name in checks}
    return {"inputs": len(rows), **{name: round(sum(some) / max(len(some), 1), 4) for name, some in found.items()}}
