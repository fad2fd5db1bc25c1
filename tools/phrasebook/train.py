"""Trains the phrasebook model from nothing: `python -m tools.phrasebook.train --out DIR --minutes M`.

Fits the tokenizer, streams generated pairs to one device, and exports the model directory. Ctrl-C saves a checkpoint
and exports what there is; `--resume` goes on from there with what is left of the budget. It measures only the loss;
translations are measured by `evaluate`.
"""

import json
import math
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import torch
from tokenizers import Tokenizer

from dragoman.errors import ConfigError
from tools.phrasebook import data_dir, tokenizer
from tools.phrasebook.batches import Batch, Stream, loader
from tools.phrasebook.corpus import Corpus, load
from tools.phrasebook.export import export
from tools.phrasebook.learner import Learner
from tools.phrasebook.message import DIRECTIONS
from tools.phrasebook.progress import Progress
from tools.phrasebook.shape import Shape

_CHECKPOINT = "checkpoint.pt"
_TOKENIZER_MESSAGES = 20_000
_HELD_OUT_MESSAGES = 64
_REPORT_EVERY = 50
_SAVE_EVERY_S = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run is asked for. The budget is in minutes or, if `steps` is given, in steps."""

    out: Path
    minutes: float = 8.0
    steps: int | None = None
    seed: int = 0
    tokens: int = 65_536
    rate: float = 2e-3
    workers: int = 0
    device: str = "cpu"
    compile: bool = False
    resume: bool = False
    data: Path = field(default_factory=data_dir)
    shape: Shape = field(default_factory=Shape)
    tokenizer_messages: int = _TOKENIZER_MESSAGES
    held_out_messages: int = _HELD_OUT_MESSAGES

    def progress(self, step: int, elapsed_s: float) -> float:
        """Share of the budget that is used up."""
        return step / self.steps if self.steps else elapsed_s / (60 * self.minutes)


def run(plan: Plan, report: Progress) -> Learner:
    """Trains to the end of the budget or to Ctrl-C, and exports either way. Raises ConfigError on broken data."""
    corpus = load(plan.data)
    learner = Learner(plan.shape, torch.device(plan.device), plan.seed, plan.rate, plan.compile)
    fitted = _start(plan, corpus, learner, report)
    report.note(
        f"{learner.model.parameters_total():,} parameters, {fitted.get_vocab_size()} tokens, "
        f"{len(corpus.patterns)} patterns, {sum(map(len, corpus.lexicon.values()))} lexicon entries"
    )
    losses: list[dict[str, float]] = []
    try:
        _train(plan, learner, fitted, report, losses)
    except KeyboardInterrupt:
        report.note("interrupted: saving")
    _save(plan, learner, fitted)
    export(learner.model, fitted, plan.out)
    _write_record(plan, learner, losses)
    return learner


def _start(plan: Plan, corpus: Corpus, learner: Learner, report: Progress) -> Tokenizer:
    """The tokenizer, new or from the checkpoint that `learner` is set to."""
    checkpoint = plan.out / _CHECKPOINT
    if plan.resume:
        if not checkpoint.is_file():
            raise ConfigError(f"{checkpoint}: nothing to resume")
        state = learner.restore(checkpoint)
        report.note(f"resuming at step {learner.tally.step}")
        return Tokenizer.from_str(state["tokenizer"])
    plan.out.mkdir(parents=True, exist_ok=True)
    texts = tokenizer.training_texts(corpus, plan.tokenizer_messages, plan.seed)
    return tokenizer.train(texts, plan.shape.vocabulary)


def _train(plan: Plan, learner: Learner, fitted: Tokenizer, report: Progress, losses: list[dict[str, float]]) -> None:
    tally = learner.tally
    stream = Stream(plan.data, fitted.to_str(), "train", plan.seed * 101 + tally.sessions, plan.tokens)
    held_out = _held_out(plan, fitted)
    tally.sessions += 1
    batches = iter(loader(stream, plan.workers, pin=learner.device.type == "cuda"))
    batch = next(batches)
    before, began = tally.elapsed_s, time.monotonic()
    saved = began
    while (used := plan.progress(tally.step, tally.elapsed_s)) < 1.0:
        loss = learner.step(batch, used)
        if tally.step % _REPORT_EVERY == 0:
            losses.append(_measured(learner, float(loss), held_out))
            report.step(min(used, 1.0), tally, losses[-1])
        if time.monotonic() - saved > _SAVE_EVERY_S:
            _save(plan, learner, fitted)
            saved = time.monotonic()
        batch = next(batches)
        tally.elapsed_s = before + time.monotonic() - began


def _held_out(plan: Plan, fitted: Tokenizer) -> list[Batch]:
    """One fixed set of held-out pairs, in every direction."""
    stream = Stream(
        plan.data,
        fitted.to_str(),
        "heldout",
        plan.seed,
        plan.tokens,
        messages=plan.held_out_messages,
        pairs_per_message=len(DIRECTIONS),
    )
    return stream.chunk()


def _measured(learner: Learner, loss: float, held_out: list[Batch]) -> dict[str, float]:
    if not math.isfinite(loss):
        raise ConfigError(f"the loss became {loss} at step {learner.tally.step}; try a lower --rate")
    return {"step": learner.tally.step, "loss": loss, "held_out_loss": learner.held_out_loss(held_out)}


def _save(plan: Plan, learner: Learner, fitted: Tokenizer) -> None:
    learner.save(plan.out / _CHECKPOINT, {"tokenizer": fitted.to_str()})


def _write_record(plan: Plan, learner: Learner, losses: list[dict[str, float]]) -> None:
    """`training.json`: the conditions of the run and its losses."""
    device = torch.cuda.get_device_name() if learner.device.type == "cuda" else platform.processor() or "CPU"
    record: dict[str, Any] = {
        "plan": {**asdict(plan), "out": plan.out.name, "data": plan.data.name},
        "used": asdict(learner.tally),
        "parameters": learner.model.parameters_total(),
        "device": device,
        "torch": torch.__version__,
        "losses": losses,
    }
    (plan.out / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


@click.command(help="Train the phrasebook model and export it to a Hugging Face model directory.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Model directory.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), default=8.0, show_default=True)
@click.option("--steps", type=click.IntRange(min=1), help="Budget in steps instead of minutes.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--tokens", type=click.IntRange(min=1024), default=65_536, show_default=True, help="Tokens a batch.")
@click.option("--rate", type=float, default=2e-3, show_default=True, help="Peak learning rate.")
@click.option("--workers", type=click.IntRange(min=0), help="Generating processes [default: cores less two].")
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu", show_default=True)
@click.option("--compile", is_flag=True, help="Use torch.compile.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in --out.")
def main(workers: int | None, **options: Any) -> None:
    if workers is None:
        workers = max(0, (os.cpu_count() or 1) - 2)
    torch.set_float32_matmul_precision("high")
    try:
        with Progress() as report:
            run(Plan(workers=workers, **options), report)
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
