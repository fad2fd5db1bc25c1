"""What `dragoman tune` tells a tune of the server's side: how a text becomes prompts, where servers run, what measures them.

The one place where both sides are known: `tune` itself knows the server by its command line alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import psutil

from dragoman.engine.spec import device
from dragoman.errors import ConfigError
from dragoman.prompts.encoder import PromptEncoder
from dragoman.service.planner import Planner
from dragoman.service.stack import choose_model, load_prompts
from dragoman.settings import ModelSettings
from dragoman.types import TranslationRequest
from dragoman_bench.bench.gpu import find_gpus
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Machine, describe_machine, whole
from dragoman_bench.bench.summary import Slo
from dragoman_bench.bench.texts import PhrasebookTexts
from dragoman_bench.bench.workload import Pair, Workload, parse_pairs
from dragoman_bench.cli.observing import error_console
from dragoman_bench.journey.measure import CachedWorkload
from dragoman_bench.journey.run import this_machine
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand, PromptShape, parse_clients
from dragoman_bench.tune.display import Display
from dragoman_bench.tune.estimate import Estimate
from dragoman_bench.tune.meter import Meter
from dragoman_bench.tune.points import Draw, Place
from dragoman_bench.tune.running import starter_for
from dragoman_bench.tune.store import Fingerprints, Store, content_of
from dragoman_bench.tune.trace import demand_of_subject, demand_of_trace
from dragoman_bench.tune.workshop import Workshop


@dataclass(frozen=True, slots=True)
class Bench:
    """With what a tune measures, and where it keeps that. `fresh`: nothing of an earlier run is taken."""

    pace: Pace
    slo: Slo | None
    folder: Path
    fresh: bool = False
    deadline_s: float | None = None  # of time.monotonic: nothing is begun that would end after it


_WINDOWS = 4  # how long a text is that is surely cut, in windows
_LONGEST = 32_768  # tokens: no demand has texts that are longer than this and matter


def make_demand(subject: Subject, profile: str, trace: Path | None, clients: str | None) -> Demand:
    """From a trace, or stated. Raises ConfigError where it cannot be read, or says nothing of concurrency."""
    levels = parse_clients(clients) if clients is not None else None
    if trace is None and levels is None:
        told = "a tune needs a demand: say --trace FILE (recorded traffic), or --clients 2-25 (usually, at busy times)"
        raise ConfigError(told, param="clients")
    shape = prompt_shape(subject, profile)
    if trace is not None:
        return demand_of_trace(trace, subject, shape, levels)
    assert levels is not None
    return demand_of_subject(subject, shape, levels)


def open_workshop(
    subject: Subject, demand: Demand, bench: Bench, estimate: Estimate, observer: Observer, interrupted: asyncio.Event
) -> Workshop:
    """Where this machine's servers are started and measured."""
    display = Display(error_console, observer)
    workloads: dict[Draw, Workload] = {draw: CachedWorkload(workload) for draw, workload in demand.workloads.items()}
    meter = Meter(workloads, bench.pace, bench.slo, display, interrupted, subject.seed, subject.path)
    prints = Fingerprints(subject, workloads, content_of(demand), bench.pace, meter.stream, this_machine())
    store = Store(bench.folder, prints, bench.fresh)
    return Workshop(subject, meter, store, starter_for(subject), display, estimate, bench.deadline_s)


def prompt_shape(subject: Subject, profile: str) -> PromptShape:
    """As the server itself would do it with a long text: the most over the subject's directions."""
    window = whole(subject.dragoman.get("max-model-len"))
    prompts, lengths = load_prompts(choose_model(ModelSettings(path=subject.path, profile=profile)))
    pairs = [pair for pair in parse_pairs(subject.pairs) if pair.source is not None]
    overhead = max(prompts.overhead(pair.source, pair.target) for pair in pairs)
    if window is None:
        return PromptShape(overhead)
    planner = Planner(prompts, lengths, window)
    longest = [_piece_tokens(planner, prompts, pair, window) for pair in pairs]
    return PromptShape(overhead, min((tokens for tokens in longest if tokens), default=None), window)


def _piece_tokens(planner: Planner, prompts: PromptEncoder, pair: Pair, window: int) -> int | None:
    """The longest piece that a text of several windows is cut into; None where it is not cut."""
    tokens = min(_WINDOWS * window, _LONGEST)
    text = PhrasebookTexts(0, prompts.tokenizer.count).make(str(pair.source), tokens)
    (job,) = planner.jobs(TranslationRequest((text,), pair.target, pair.source))
    return max(map(prompts.tokenizer.count, job.wanted)) if len(job.wanted) > 1 else None


def here() -> tuple[Place, Machine]:
    """Where servers are started. Memory is one GPU's, or the machine's where there is none."""
    gpus = find_gpus() if device() == "cuda" else None
    machine = describe_machine(gpus.describe() if gpus else ())
    if machine.gpus:
        return Place("cuda", round(machine.gpus[0].memory_mib * 2**20), len(machine.gpus)), machine
    return Place("cpu", psutil.virtual_memory().total), machine
