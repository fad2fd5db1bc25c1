"""Measures an exported model on held-out messages: `python -m tools.phrasebook.evaluate --model DIR --out FILE`.

Every direction gets the same messages, typed as users type them, and, apart, the same single sentences. Decoding is
greedy, in bfloat16, as an engine would serve it. What "held out" means is in `split`; the figures go to one JSON file
with the conditions they were measured under.
"""

import hashlib
import json
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.phrasebook import LANGUAGES, model_dir
from tools.phrasebook import data_dir, tokenizer
from tools.phrasebook.corpus import Corpus, load
from tools.phrasebook.decode import Job, translate
from tools.phrasebook.docs import render
from tools.phrasebook.export import WEIGHTS
from tools.phrasebook.export import load as load_model
from tools.phrasebook.generator import Generator
from tools.phrasebook.message import DIRECTIONS, Message
from tools.phrasebook.model import Phrasebook
from tools.phrasebook.scores import Translated, summarise


def measure(
    model: Phrasebook, fitted: Tokenizer, corpus: Corpus, messages: int, seed: int, batch: int = 512
) -> dict[str, Any]:
    """Scores on that many held-out messages of one to ten sentences, and on as many single sentences."""
    generator = Generator("heldout", seed, corpus)
    return {
        "messages": summarise(_translated(model, fitted, [generator.message() for _ in range(messages)], batch)),
        "sentences": summarise(_translated(model, fitted, [generator.sentence() for _ in range(messages)], batch)),
    }


def _translated(model: Phrasebook, fitted: Tokenizer, messages: Sequence[Message], batch: int) -> list[Translated]:
    cases = [(message, source, target) for message in messages for source, target in DIRECTIONS]
    answers = translate(model, fitted, [Job(s, t, message.sources[s]) for message, s, t in cases], batch)
    lengths = {
        (id(message), language): len(tokenizer.encode(fitted, message.sources[language]))
        for message in messages
        for language in LANGUAGES
    }
    return [
        Translated((s, t), message.texts[t], answer, lengths[id(message), s], message.copied)
        for (message, s, t), answer in zip(cases, answers, strict=True)
    ]


def fingerprint(directory: Path) -> str:
    """A hash of the data files, to tell which corpus a figure belongs to."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*.toml")):
        digest.update(path.relative_to(directory).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def conditions(model: Phrasebook, directory: Path, corpus: Corpus, messages: int, seed: int) -> dict[str, Any]:
    """What the figures depend on."""
    device = next(model.parameters()).device
    training = directory / "training.json"
    return {
        "dragoman": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({platform.machine()})",
        "torch": torch.__version__,
        "decoding": "greedy, bfloat16",
        "split": "heldout",
        "seed": seed,
        "messages": messages,
        "parameters": model.parameters_total(),
        "weights_bytes": (directory / WEIGHTS).stat().st_size,
        "patterns": len(corpus.patterns),
        "lexicon_entries": sum(len(values) for values in corpus.lexicon.values()),
        "data_sha256": fingerprint(data_dir()),
        "training": _training(json.loads(training.read_text(encoding="utf-8"))) if training.is_file() else None,
    }


def _training(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": record["device"],
        "minutes": round(record["used"]["elapsed_s"] / 60, 1),
        "steps": record["used"]["step"],
        "tokens": record["used"]["tokens"],
        "seed": record["plan"]["seed"],
    }


def table(result: dict[str, Any]) -> Table:
    shown = Table(title="Phrasebook on held-out text: chrF, and share of exact matches")
    for column in ("direction", "messages", "exact", "sentences", "exact"):
        shown.add_column(column, justify="left" if column == "direction" else "right")
    for name in (*result["messages"]["directions"], "all"):
        rows = [part["all"] if name == "all" else part["directions"][name] for part in _parts(result)]
        shown.add_row(name, *(cell for row in rows for cell in (f"{row['chrf']:.2f}", f"{row['exact']:.1%}")))
    return shown


def _parts(result: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return result["messages"], result["sentences"]


@click.command(help="Measure a phrasebook model on held-out messages.")
@click.option("--model", "directory", type=click.Path(path_type=Path, file_okay=False), default=model_dir())
@click.option("--messages", type=click.IntRange(min=1), default=500, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("results/phrasebook.json"))
@click.option("--docs", type=click.Path(path_type=Path, dir_okay=False), help="Also write the figures as Markdown.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=512, show_default=True)
def main(directory: Path, messages: int, seed: int, out: Path, docs: Path | None, device: str, batch: int) -> None:
    console = Console()
    try:
        corpus = load(data_dir())
        model = load_model(directory).to(device)
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    began = time.monotonic()
    figures = measure(model, tokenizer.load(directory), corpus, messages, seed, batch)
    result = {"conditions": conditions(model, directory, corpus, messages, seed), **figures}
    result["conditions"]["measuring_s"] = round(time.monotonic() - began, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if docs is not None:
        docs.write_text(render(result), encoding="utf-8")
    console.print(table(result))
    for kind, copied in result["messages"]["copies"].items():
        console.print(f"{kind}: {copied['exact']:.2%} of {copied['count']} copied exactly")


if __name__ == "__main__":
    main()
