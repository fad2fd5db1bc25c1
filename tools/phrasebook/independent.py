"""Measures a model on everyday lines that were written apart from its training data: `python -m tools.phrasebook.independent`.

Adequacy is judged by content checks (`adequacy`). `validation` is for choosing among models, `test` for the published figures;
`typed` is the list of lines that people type first, which is training data: its figures are of memory. For each translation the
log-probabilities of its tokens are kept, from which its confidence is fitted.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import click
from rich.console import Console

from dragoman.errors import ConfigError
from dragoman.phrasebook import LANGUAGES, model_dir
from tools.phrasebook import adequacy, data_dir, lines
from tools.phrasebook.adequacy import EvaluationRow, LineResult, Translate
from tools.phrasebook.translating import of_server, of_weights

SETS = ("validation", "test", "patterns_validation", "patterns_test", "typed")
_FAILURES = 40


def rows_of(name: str) -> list[EvaluationRow]:
    """The rows of an evaluation set, by name."""
    return typed_rows() if name == "typed" else adequacy.load_rows(adequacy.EVALUATION_FOLDER / f"{name}.jsonl")


def typed_rows() -> list[EvaluationRow]:
    """The most-typed lines that are read in each language; adequate is what equals one of a row's wordings."""
    found: list[EvaluationRow] = []
    for row in lines.load(data_dir()).lines:
        if row.is_typed_first and all(row.sources):
            texts = {
                language: list(dict.fromkeys((*row.sources[index], row.standard[index])))
                for index, language in enumerate(LANGUAGES)
            }
            checks = {language: [texts[language]] for language in LANGUAGES}
            found.append(EvaluationRow(row.name, row.topic, texts, checks, {}))
    return found


def measure(translated: Translate, name: str) -> dict[str, Any]:
    """Summary and every line's result on a set."""
    rows = rows_of(name)
    results = adequacy.judge(rows, translated)
    return {"set": name, "summary": adequacy.summarise(rows, results), "results": [asdict(one) for one in results]}


def judged_again(kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What `--out` kept, judged by the checks as they are now, without translations of texts that have changed since."""
    found: list[dict[str, Any]] = []
    for one in kept:
        rows = {row.id: row for row in rows_of(one["set"])}
        results = [
            replace(
                line,
                adequate=adequacy.adequate(row, line.target, line.translation),
                exact=adequacy.exact_match(row, line.target, line.translation),
            )
            for line in (LineResult(**result) for result in one["results"])
            if (row := rows.get(line.row_id)) is not None and row.texts[line.source][0] == line.source_text
        ]
        summary = adequacy.summarise(list(rows.values()), results)
        found.append({"set": one["set"], "summary": summary, "results": [asdict(line) for line in results]})
    return found


def unseen(results: Sequence[LineResult]) -> list[LineResult]:
    """Those whose source no row of the training data has, capitals and final marks aside.

    What everybody says was written on both sides: such a line is independent, but the model has read it.
    """
    known = lines.bare_texts()
    return [line for line in results if lines.bare(line.source_text) not in known[line.source]]


def published(measured: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What docs/phrasebook.md shows: summaries by set, those of another model, and failures drawn at random."""
    rng = Random("failures")
    sets: dict[str, Any] = {}
    for one in measured:
        failures = [line for line in one["results"] if not line["adequate"]]
        sample = rng.sample(failures, min(_FAILURES, len(failures)))
        rows = rows_of(one["set"])
        sets[one["set"]] = {**one["summary"], "rows": len(rows), "failures": sample}
        if one["set"] != "typed":  # which is all training data
            new = unseen([LineResult(**line) for line in one["results"]])
            sets[one["set"]]["unseen"] = adequacy.summarise(rows, new)
    return {"sets": sets, "before": {one["set"]: one["summary"] for one in earlier}}


@click.command(help="Measure a packaged model on independent everyday lines.")
@click.option("--model", "directory", type=click.Path(path_type=Path, file_okay=False), default=model_dir())
@click.option("--set", "names", type=click.Choice(SETS), multiple=True, default=("validation",))
@click.option("--url", help="Measure a running server instead of the weights alone.")
@click.option(
    "--kept", type=click.Path(path_type=Path, exists=True), help="Judge what --out kept again; translate nothing."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="JSON file of summaries and all lines.")
@click.option("--before", type=click.Path(path_type=Path, exists=True), help="--out of another model, to compare with.")
@click.option("--publish", type=click.Path(path_type=Path, dir_okay=False), help="JSON file for docs/phrasebook.md.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=512, show_default=True)
def main(
    directory: Path,
    names: Sequence[str],
    url: str | None,
    kept: Path | None,
    out: Path | None,
    before: Path | None,
    publish: Path | None,
    device: str,
    batch: int,
) -> None:
    console = Console()
    if kept is not None:
        measured = judged_again(json.loads(kept.read_text(encoding="utf-8")))
    else:
        try:
            translated = of_server(url) if url else of_weights(directory, device, batch)
        except ConfigError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)
        measured = [measure(translated, name) for name in names]
    if out is not None:
        out.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if publish is not None:
        earlier = judged_again(json.loads(before.read_text(encoding="utf-8"))) if before else []
        publish.write_text(
            json.dumps(published(measured, earlier), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    for one in measured:
        console.print_json(json.dumps({"set": one["set"], **one["summary"]}))


if __name__ == "__main__":
    main()
