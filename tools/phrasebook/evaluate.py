"""Measures an exported model on held-out messages: `python -m tools.phrasebook.evaluate --model DIR --out FILE`.

Every direction gets the same messages, typed as users type them, and, apart, the same single sentences. Decoding is
greedy, by transformers, in bfloat16 on a GPU and in float32 on a CPU. What "held out" means is in `split`. The figures go
to one JSON file with the conditions they were measured under, and with `--docs` to a page.

chrF is `adequacy`'s. Numbers count as copied when a translation
has exactly the digit runs of its reference; tags, placeholders and other copied text when it occurs as often as in the
reference.
"""

import hashlib
import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast

import click
import torch
from jinja2 import Environment, StrictUndefined
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.phrasebook import model_dir
from tools.phrasebook import adequacy, data_dir, lines, tokenizer
from tools.phrasebook.adequacy import Translate
from tools.phrasebook.corpus import Corpus, load
from tools.phrasebook.generator import Generator
from tools.phrasebook.model import WEIGHTS, parameters_total, training_record
from tools.phrasebook.model import load as load_model
from tools.phrasebook.render import DIRECTIONS, Copied, Message
from tools.phrasebook.tokenizer import encode
from tools.phrasebook.translating import greedy, of_server

BANDS = (20, 50, 100, 200)
"""Upper ends of the length bands, in source tokens; longer ones form the last band."""
_PAGE = Path(__file__).with_name("phrasebook.md.jinja")


@dataclass(frozen=True, slots=True)
class Task:
    """One text to translate, with what the translation should be. `tokens` is the length of the source."""

    direction: tuple[str, str]
    text: str
    reference: str = ""
    tokens: int = 0
    copied: tuple[Copied, ...] = ()


@dataclass(frozen=True, slots=True)
class Translated:
    """A task with the model's answer."""

    task: Task
    answer: str

    @property
    def exact(self) -> bool:
        return self.answer == self.task.reference


def translate_all(translated: Translate, tasks: Sequence[Task]) -> list[Translated]:
    """Every task translated, in order; one call a direction."""
    answers = [""] * len(tasks)
    for direction in DIRECTIONS:
        chosen = [index for index, task in enumerate(tasks) if task.direction == direction]
        some = translated([tasks[index].text for index in chosen], *direction) if chosen else []
        for index, answer in zip(chosen, some, strict=True):
            answers[index] = answer
    return [Translated(task, answer) for task, answer in zip(tasks, answers, strict=True)]


def tasks_of(messages: Iterable[Message], fitted: Tokenizer) -> list[Task]:
    """Each message in every direction."""
    tasks: list[Task] = []
    for message in messages:
        lengths = {language: len(encode(fitted, text)) for language, text in message.sources.items()}
        tasks += (Task((s, t), message.sources[s], message.texts[t], lengths[s], message.copied) for s, t in DIRECTIONS)
    return tasks


def measure(
    translated: Translate,
    fitted: Tokenizer,
    corpus: Corpus,
    messages: int,
    seed: int,
) -> dict[str, Any]:
    """Scores on that many held-out messages of one to ten sentences, and on as many single sentences."""
    generator = Generator("heldout", seed, corpus)
    texts = {
        "messages": [generator.message() for _ in range(messages)],
        "sentences": [generator.sentence() for _ in range(messages)],
    }
    return {name: summarise(translate_all(translated, tasks_of(some, fitted))) for name, some in texts.items()}


def summarise(translations: Sequence[Translated]) -> dict[str, Any]:
    """Every score of `translations`: in all, by direction, by length band, of copying by kind; and some misses."""
    bands: dict[str, list[Translated]] = {}
    for translated in sorted(translations, key=lambda t: t.task.tokens):
        bands.setdefault(_band(translated.task.tokens), []).append(translated)
    misses = islice((t for t in translations if not t.exact), 20)
    return {
        "all": quality(translations),
        "directions": {
            f"{source}-{target}": quality([t for t in translations if t.task.direction == (source, target)])
            for source, target in DIRECTIONS
        },
        "bands": {band: quality(some) for band, some in bands.items()},
        "copies": copies(translations),
        "misses": [
            {"direction": "-".join(t.task.direction), "reference": t.task.reference, "answer": t.answer} for t in misses
        ],
    }


def quality(translations: Sequence[Translated]) -> dict[str, float | int]:
    """Corpus chrF (0 to 100) and the share of translations that equal their reference; zeros if there are none."""
    score = adequacy.chrf([t.answer for t in translations], [[t.task.reference] for t in translations])
    exact = sum(t.exact for t in translations) / max(len(translations), 1)
    return {"count": len(translations), "chrf": round(score, 2), "exact": round(exact, 4)}


def copies(translations: Iterable[Translated]) -> dict[str, dict[str, float | int]]:
    """By kind of copied text: how many there were and the share that was copied exactly."""
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for translated in translations:
        answer, reference = translated.answer, translated.task.reference
        for item in dict.fromkeys(translated.task.copied):
            total[item.kind] += 1
            right[item.kind] += answer.count(item.text) == reference.count(item.text)
        if numbers := Counter(re.findall(r"\d+", reference)):
            total["numbers of a message"] += 1
            right["numbers of a message"] += numbers == Counter(re.findall(r"\d+", answer))
    return {kind: {"count": count, "exact": round(right[kind] / count, 5)} for kind, count in sorted(total.items())}


def _band(tokens: int) -> str:
    low = 1
    for high in BANDS:
        if tokens <= high:
            return f"{low}-{high}"
        low = high + 1
    return f"over {BANDS[-1]}"


def conditions(model: LlamaForCausalLM, directory: Path, corpus: Corpus, messages: int, seed: int) -> dict[str, Any]:
    """What the figures depend on."""
    on_gpu = model.device.type == "cuda"
    return {
        "dragoman": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if on_gpu else f"CPU ({platform.machine()})",
        "torch": torch.__version__,
        "decoding": f"greedy, {str(model.dtype).removeprefix('torch.')}",
        "split": "heldout",
        "seed": seed,
        "messages": messages,
        "parameters": parameters_total(model),
        "weights_bytes": (directory / WEIGHTS).stat().st_size,
        "patterns": len(corpus.patterns),
        "lexicon_entries": sum(len(values) for values in corpus.lexicon.values()),
        "lines": len(lines.packaged().lines),
        "words": len(lines.packaged().words),
        "data_sha256": _fingerprint(data_dir()),
        "training": _training(training_record(directory)),
    }


def _fingerprint(directory: Path) -> str:
    """A hash of the data files, which identifies the corpus that a figure belongs to."""
    digest = hashlib.sha256()
    for path in sorted((*directory.rglob("*.toml"), *directory.rglob("*.tsv"))):
        digest.update(path.relative_to(directory).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _training(record: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The training runs that led to a model, the first one first; none where they are not known."""
    if record is None:
        return []
    used = record["used"]
    run = {
        "device": record["device"],
        "minutes": round(used["elapsed_s"] / 60, 1),
        "steps": used["step"],
        "tokens": used["tokens"],
        "seed": record["plan"]["seed"],
        "rate": record["plan"]["rate"],
        "tokens_per_batch": record["plan"]["tokens"],
        "typed_first": record["plan"].get("typed_first", 0.0),
        "keep_initial": record["plan"].get("keep_initial", 0.0),
    }
    return [*_training(record.get("init_from")), run]


def page(
    result: Mapping[str, Any], independent: Mapping[str, Any] | None, confidence: Mapping[str, Any] | None = None
) -> str:
    """docs/phrasebook.md for one result, and for the figures on independent lines and of confidence where there are some."""
    # Markdown for a file of the repository, not HTML for a browser: nothing to escape.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(_PAGE.read_text(encoding="utf-8")).render(
        result, independent=independent, confidence=confidence
    )


def _beside(out: Path, name: str) -> dict[str, Any] | None:
    """What `independent` or `calibrate` has written for the page."""
    path = out.with_name(f"phrasebook-{name}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def table(result: Mapping[str, Any]) -> Table:
    """The scores by direction, for a terminal."""
    shown = Table(title="Packaged model on held-out text: chrF, and share of exact matches")
    for column in ("direction", "messages", "exact", "sentences", "exact"):
        shown.add_column(column, justify="left" if column == "direction" else "right")
    parts = (result["messages"], result["sentences"])
    for name in (*result["messages"]["directions"], "all"):
        rows = [part["all"] if name == "all" else part["directions"][name] for part in parts]
        shown.add_row(name, *(cell for row in rows for cell in (f"{row['chrf']:.2f}", f"{row['exact']:.1%}")))
    return shown


@click.command(help="Measure a packaged model on held-out messages.")
@click.option("--model", "directory", type=click.Path(path_type=Path, file_okay=False), default=model_dir())
@click.option("--url", help="Translate by this running server, which has these weights.")
@click.option("--messages", type=click.IntRange(min=1), default=500, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("results/phrasebook.json"))
@click.option("--docs", type=click.Path(path_type=Path, dir_okay=False), help="Also write the figures as Markdown.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=512, show_default=True)
def main(
    directory: Path, url: str | None, messages: int, seed: int, out: Path, docs: Path | None, device: str, batch: int
) -> None:
    console = Console()
    try:
        corpus = load(data_dir())
        # Few CPUs compute bfloat16 faster than float32.
        model = load_model(directory, torch.float32 if device == "cpu" else torch.bfloat16)
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    model = cast(LlamaForCausalLM, cast(Any, model).to(device))
    began = time.monotonic()
    fitted = tokenizer.load(directory)
    figures = measure(of_server(url) if url else greedy(model, fitted, batch), fitted, corpus, messages, seed)
    result = {"conditions": conditions(model, directory, corpus, messages, seed), **figures}
    if url:
        result["conditions"]["decoding"] = "greedy, by the server"
    result["conditions"]["measuring_s"] = round(time.monotonic() - began, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if docs is not None:
        docs.write_text(page(result, *(_beside(out, name) for name in ("independent", "confidence"))), encoding="utf-8")
    console.print(table(result))
    for kind, copied in result["messages"]["copies"].items():
        console.print(f"{kind}: {copied['exact']:.2%} of {copied['count']} copied exactly")


if __name__ == "__main__":
    main()
