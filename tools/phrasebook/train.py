"""Trains the packaged model: `python -m tools.phrasebook.train --out DIR --minutes M`.

Fits the tokenizer, streams generated pairs to one device, and exports the model directory. Ctrl-C saves a checkpoint
and exports what there is; `--resume` goes on from there with what is left of the budget. `--init-from` starts a new run from
an exported model instead, such as a shorter one on the lines that people type first (`--typed-first`). It measures only the
loss; translations are measured by `evaluate`.
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import click
import torch
import torch.nn.functional as F  # noqa: N812
from rich.console import Console
from rich.progress import Progress
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM

from dragoman.engine.spec import cpu_flags, has_bf16
from dragoman.errors import ConfigError
from tools.phrasebook import data_dir, lines, tokenizer
from tools.phrasebook.batches import Batch, Stream, loader
from tools.phrasebook.corpus import load
from tools.phrasebook.model import SIZES, TRAINING, create, export, parameters_total, training_record
from tools.phrasebook.model import load as load_model
from tools.phrasebook.render import DIRECTIONS

_CHECKPOINT = "checkpoint.pt"
_REPORT_EVERY = 50
_SAVE_EVERY_S = 120.0
_WARM_UP_STEPS = 300
_DECAY_SHARE = 0.35
_CLIP = 1.0
_DROPOUT_WIDTH = 192

Report = Callable[[float, str], None]
"""Called with the share of the budget that is used, and a line of text."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run is asked for. The budget is in minutes or, if `steps` is given, in steps."""

    out: Path
    minutes: float = 8.0
    steps: int | None = None
    seed: int = 0
    tokens: int = 65_536
    rate: float = 2e-3
    dropout: float = 0.1
    workers: int = 0
    device: str = "cpu"
    compile: bool = False
    resume: bool = False
    init_from: Path | None = None
    keep_initial: float = 0.0
    typed_first: float = 0.0
    data: Path = field(default_factory=data_dir)
    sizes: Mapping[str, int] = field(default_factory=lambda: dict(SIZES))
    tokenizer_messages: int = 20_000
    held_out_messages: int = 64

    def progress(self, used: "Usage") -> float:
        """Share of the budget that is used up."""
        return used.step / self.steps if self.steps else used.elapsed_s / (60 * self.minutes)


@dataclass(slots=True)
class Usage:
    """What a run has used so far."""

    step: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0
    sessions: int = 0


def rate(step: int, progress: float) -> float:
    """The learning rate as a share of its peak: it warms up over the first steps, stays, and falls to zero over the last
    part of the budget (WSD: Hu et al. 2024, arXiv:2404.06395)."""
    warm = min(1.0, (step + 1) / _WARM_UP_STEPS)
    return warm * min(1.0, max(0.0, 1.0 - progress) / _DECAY_SHARE)


class Learner:
    """Trains one model on one device: the model, its optimiser, its tokenizer, and the checkpoint that resumes them."""

    def __init__(self, plan: Plan) -> None:
        """Fits the tokenizer, takes that of `plan.init_from`, or resumes from the checkpoint in `plan.out`. Raises ConfigError
        on invalid data, or where there is nothing to resume or to start from."""
        self.plan = plan
        self.used = Usage()
        self.device = torch.device(plan.device)
        model = _exported(plan.init_from, plan.sizes) if plan.init_from else create(plan.sizes, plan.seed)
        self.model = model.to(self.device)  # pyright: ignore[reportArgumentType]
        self.optimiser = torch.optim.AdamW(_groups(self.model), lr=plan.rate, betas=(0.9, 0.95), fused=True)
        self._trunk = cast(Any, self.model.model)
        self._has_bf16 = self.device.type == "cuda" or has_bf16(cpu_flags())
        self._dropout = _Dropout(self._trunk, plan.dropout)
        if plan.compile:
            # Layer by layer: they share one compiled function, where the whole model would take minutes to compile.
            for layer in self._trunk.layers:
                layer.compile(dynamic=True)
        self.corpus = load(plan.data)
        if plan.resume:
            self.tokenizer = self._restore()
            return
        plan.out.mkdir(parents=True, exist_ok=True)
        if plan.init_from:
            self.tokenizer = tokenizer.load(plan.init_from)
            return
        rows = lines.load(plan.data)
        texts = tokenizer.training_texts(self.corpus, rows, plan.tokenizer_messages, plan.seed)
        self.tokenizer = tokenizer.train(texts, plan.sizes["vocab_size"])

    def step(self, batch: Batch, progress: float) -> Tensor:
        """One optimiser step; the mean loss per answer token, still on the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.rate * rate(self.used.step, progress)
        self._dropout.next_batch(batch.ids.shape[1])
        loss = self.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.used.step += 1
        self.used.tokens += batch.ids.numel()
        return loss.detach()

    def loss(self, batch: Batch) -> Tensor:
        """Of the answers' tokens alone: only their positions are projected to the vocabulary."""
        ids = batch.ids.to(self.device, torch.long, non_blocking=True)
        learn = batch.learn.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._has_bf16):
            # Rows are padded at the right, where causal attention hides the padding: no mask is needed.
            hidden: Tensor = self._trunk(input_ids=ids, use_cache=False).last_hidden_state
            logits = cast(Tensor, self.model.lm_head(hidden.flatten(0, 1).index_select(0, learn)))
        return F.cross_entropy(logits.float(), ids.flatten().index_select(0, learn + 1))

    @torch.no_grad()
    def held_out_loss(self, batches: list[Batch]) -> float:
        """The mean of the batches' losses. Raises ConfigError where it is not finite."""
        self.model.eval()
        mean = sum(float(self.loss(batch)) for batch in batches) / len(batches)
        self.model.train()
        if not math.isfinite(mean):
            raise ConfigError(f"the loss became {mean} at step {self.used.step}; try a lower --rate")
        return mean

    def save(self) -> None:
        """Writes everything that resuming needs, in one step: an interrupted save leaves the old file."""
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "used": asdict(self.used),
            "tokenizer": self.tokenizer.to_str(),
        }
        path = self.plan.out / _CHECKPOINT
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def average(self) -> None:
        """Moves the weights back by `plan.keep_initial` of the way to those that the run started from: what was learnt last
        stays, and less is forgotten of what was there (Wortsman et al. 2022, arXiv:2109.01903)."""
        if self.plan.keep_initial:
            initial = _exported(self.plan.init_from, self.plan.sizes).to(self.device)  # pyright: ignore[reportArgumentType]
            with torch.no_grad():
                for trained, before in zip(self.model.parameters(), initial.parameters(), strict=True):
                    trained.lerp_(before, self.plan.keep_initial)

    def _restore(self) -> Tokenizer:
        path = self.plan.out / _CHECKPOINT
        if not path.is_file():
            raise ConfigError(f"{path}: nothing to resume")
        state = cast("dict[str, Any]", torch.load(path, map_location=self.device, weights_only=True))
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.used = Usage(**state["used"])
        return Tokenizer.from_str(state["tokenizer"])


def _exported(directory: Path, sizes: Mapping[str, int]) -> LlamaForCausalLM:
    """An exported model, ready to train. Raises ConfigError if there is none, or if it has other sizes."""
    model = load_model(directory, torch.float32)
    other = {name: found for name, size in sizes.items() if (found := getattr(model.config, name, None)) != size}
    if other:
        raise ConfigError(f"{directory}: a model of other sizes than those to train: {other}")
    return model.train()


class _Dropout:
    """While training, zeroes a share of what the embeddings and the two halves of each layer write to the residual stream
    (Vaswani et al. 2017, section 5.4, which transformers' Llama leaves out): the hand-written lines are seen many times.

    Long messages, which hardly ever come twice, are left whole: there the model has to learn to copy exactly over a distance.
    """

    def __init__(self, trunk: torch.nn.Module, share: float) -> None:
        self._share = self._of_batch = share
        for name, module in cast("Iterable[tuple[str, torch.nn.Module]]", trunk.named_modules()):
            if share and name.rpartition(".")[2] in ("embed_tokens", "o_proj", "down_proj"):
                module.register_forward_hook(self._drop)

    def next_batch(self, width: int) -> None:
        """Of that many tokens a row."""
        self._of_batch = self._share if width <= _DROPOUT_WIDTH else 0.0

    def _drop(self, module: torch.nn.Module, _: object, output: Tensor) -> Tensor:
        return F.dropout(output, self._of_batch, module.training)


def _groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Decay for the matrices, none for embeddings and norms."""
    decayed = {name: p.dim() == 2 and "embed" not in name for name, p in model.named_parameters()}
    matrices = [p for name, p in model.named_parameters() if decayed[name]]
    rest = [p for name, p in model.named_parameters() if not decayed[name]]
    return [{"params": matrices, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]


def run(plan: Plan, report: Report) -> Learner:
    """Trains to the end of the budget or to Ctrl-C, and exports either way. Raises ConfigError on invalid data."""
    learner = Learner(plan)
    corpus = learner.corpus
    report(
        0.0,
        f"{parameters_total(learner.model):,} parameters, {learner.tokenizer.get_vocab_size()} tokens, "
        f"{len(corpus.patterns)} patterns, {sum(map(len, corpus.lexicon.values()))} lexicon entries",
    )
    losses: list[dict[str, float]] = []
    try:
        _train(learner, report, losses)
    except KeyboardInterrupt:
        report(plan.progress(learner.used), "interrupted: saving")
    learner.save()
    learner.average()
    export(learner.model, plan.sizes, learner.tokenizer, plan.out)
    device = torch.cuda.get_device_name() if learner.device.type == "cuda" else platform.processor() or "CPU"
    record: dict[str, Any] = {
        "plan": {
            **asdict(plan),
            "out": plan.out.name,
            "data": plan.data.name,
            "init_from": plan.init_from and plan.init_from.name,
        },
        "init_from": training_record(plan.init_from) if plan.init_from else None,
        "used": asdict(learner.used),
        "parameters": parameters_total(learner.model),
        "device": device,
        "torch": torch.__version__,
        "losses": losses,
    }
    (plan.out / TRAINING).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return learner


def _train(learner: Learner, report: Report, losses: list[dict[str, float]]) -> None:
    plan, used = learner.plan, learner.used
    fitted = plan.out / "tokenizer.json"
    learner.tokenizer.save(str(fitted))
    seed = plan.seed * 101 + used.sessions
    torch.manual_seed(seed)  # of what is dropped out
    stream = Stream(plan.data, fitted, "train", seed, plan.tokens, typed_first=plan.typed_first)
    held_out = Stream(
        plan.data,
        fitted,
        "heldout",
        plan.seed,
        plan.tokens,
        messages=plan.held_out_messages,
        pairs_per_message=len(DIRECTIONS),
    ).chunk()
    used.sessions += 1
    batches = iter(loader(stream, plan.workers, pin=learner.device.type == "cuda"))
    batch = next(batches)
    before, began = used.elapsed_s, time.monotonic()
    saved = began
    while (progress := plan.progress(used)) < 1.0:
        loss = learner.step(batch, progress)
        if used.step % _REPORT_EVERY == 0:
            losses.append({"step": used.step, "loss": float(loss), "held_out_loss": learner.held_out_loss(held_out)})
            report(progress, _line(used, losses[-1]))
        if time.monotonic() - saved > _SAVE_EVERY_S:
            learner.save()
            saved = time.monotonic()
        batch = next(batches)
        used.elapsed_s = before + time.monotonic() - began


def _line(used: Usage, measured: Mapping[str, float]) -> str:
    speed = used.tokens / max(used.elapsed_s, 1e-9)
    return (
        f"step {used.step}  loss {measured['loss']:.4f}  held out {measured['held_out_loss']:.4f}  "
        f"{used.tokens / 1e6:.1f} M tokens  {speed / 1e3:.0f} k/s"
    )


@click.command(help="Train the packaged model and export it to a Hugging Face model directory.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Model directory.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), default=8.0, show_default=True)
@click.option("--steps", type=click.IntRange(min=1), help="Budget in steps instead of minutes.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--tokens", type=click.IntRange(min=1024), default=65_536, show_default=True, help="Tokens a batch.")
@click.option("--rate", type=float, default=2e-3, show_default=True, help="Peak learning rate.")
@click.option("--dropout", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True)
@click.option("--workers", type=click.IntRange(min=0), help="Generating processes [default: cores less two].")
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu", show_default=True)
@click.option("--compile", is_flag=True, help="Use torch.compile.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in --out.")
@click.option(
    "--init-from",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Start from this model directory.",
)
@click.option(
    "--keep-initial",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the weights of --init-from in those that are exported.",
)
@click.option(
    "--typed-first",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of messages that are one of the lines typed first, beside the usual ones.",
)
def main(workers: int | None, **options: Any) -> None:
    if workers is None:
        workers = max(0, (os.cpu_count() or 1) - 2)
    torch.set_float32_matmul_precision("high")
    console = Console()
    try:
        if options["keep_initial"] and not options["init_from"]:
            raise ConfigError("--keep-initial keeps weights of --init-from: name that model directory, or leave it out")
        with Progress(console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("training", total=1.0)

            def report(progress: float, text: str) -> None:
                bar.update(task, completed=min(progress, 1.0))
                console.print(f"{progress:6.1%}  {text}", highlight=False, soft_wrap=True)

            run(Plan(workers=workers, **options), report)
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
