"""Measures a model on everyday lines that were written apart from its training data: `python -m tools.phrasebook.independent`.

Adequacy is judged by content checks (`adequacy`). `validation` is for choosing among models, `test` for the published figures;
`typed` is the list of lines that people type first, which is training data: its figures are of memory. For each translation the
log-probabilities of its tokens are kept, from which its confidence is fitted.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import click
import torch
from rich.console import Console
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from dragoman.errors import ConfigError
from dragoman.phrasebook import LANGUAGES, model_dir
from tools.phrasebook import adequacy, data_dir, lines, tokenizer
from tools.phrasebook.adequacy import EvaluationRow
from tools.phrasebook.evaluate import Task, translate
from tools.phrasebook.model import load as load_model

SETS = ("validation", "test", "typed")


def rows_of(name: str) -> list[EvaluationRow]:
    """The rows of an evaluation set, by name."""
    return typed_rows() if name == "typed" else adequacy.load_rows(adequacy.EVALUATION_FOLDER / f"{name}.jsonl")


def typed_rows() -> list[EvaluationRow]:
    """The most-typed lines that are read in each language; adequate is what equals one of a row's wordings."""
    found: list[EvaluationRow] = []
    for row in lines.load(data_dir()).lines:
        if row.file.startswith("typed_") and all(row.sources):
            texts = {
                language: list(dict.fromkeys((*row.sources[index], row.standard[index])))
                for index, language in enumerate(LANGUAGES)
            }
            checks = {language: [texts[language]] for language in LANGUAGES}
            found.append(EvaluationRow(row.name, row.topic, texts, checks, {}))
    return found


def measure(model: LlamaForCausalLM, fitted: Tokenizer, name: str, batch: int) -> dict[str, Any]:
    """Summary and every line's result on a set."""
    rows = rows_of(name)

    def translated(texts: list[str], source: str, target: str) -> list[str]:
        tasks = [Task((source, target), text) for text in texts]
        return [one.answer for one in translate(model, fitted, tasks, batch)]

    results = adequacy.judge(rows, translated)
    return {"set": name, "summary": adequacy.summarise(rows, results), "results": [asdict(one) for one in results]}


@click.command(help="Measure a packaged model on independent everyday lines.")
@click.option("--model", "directory", type=click.Path(path_type=Path, file_okay=False), default=model_dir())
@click.option("--set", "names", type=click.Choice(SETS), multiple=True, default=("validation",))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="JSON file of summaries and lines.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=512, show_default=True)
def main(directory: Path, names: Sequence[str], out: Path | None, device: str, batch: int) -> None:
    console = Console()
    try:
        model = load_model(directory, torch.float32 if device == "cpu" else torch.bfloat16)
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    model = cast(LlamaForCausalLM, cast(Any, model).to(device))
    fitted = tokenizer.load(directory)
    measured = [measure(model, fitted, name, batch) for name in names]
    if out is not None:
        out.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for one in measured:
        console.print_json(json.dumps({"set": one["set"], **one["summary"]}))


if __name__ == "__main__":
    main()
