"""Workshops over stand-in servers, and searches that ask for what a test tells them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.journey.measure import CachedWorkload
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.display import Display
from dragoman_bench.tune.estimate import Estimate
from dragoman_bench.tune.meter import Meter
from dragoman_bench.tune.points import Ask, Knobs, Level, Phase, Setup, Steps, Trial
from dragoman_bench.tune.store import Fingerprints, Store
from dragoman_bench.tune.workshop import Workshop
from tests.bench.making import workload

STAND_IN = str(Path(__file__).parent.parent / "bench" / "stand_in.py")
SUBJECT = Subject(
    path="/models/small",
    name="small",
    dragoman={"model": "/models/small", "max-model-len": 1024},
    vllm={"load-format": "auto"},
    limits={"max-model-len": 1024},
    asked=TargetOptions("openai-completions", user="<{source}>{text}"),
    lengths={"variable": (10, 20)},
)
PACE = Pace(duration_s=0.2, warmup_s=0.05, timeout_s=5.0)
MACHINE = {"cpu": "a CPU", "cores": 2, "vllm": "1.0"}


class Shop:
    """A folder, and workshops into it. `manners` says how each server behaves: one for all its starts, or one a start."""

    def __init__(self, folder: Path, **manners: str | list[str]) -> None:
        self.folder = folder
        self.manners = {name.replace("_", "-"): manner for name, manner in manners.items()}
        self.started: list[str] = []
        self.said = StringIO()
        self.interrupted = asyncio.Event()

    def start(self, name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        self.started.append(name)
        manner = self.manners.get(name, "well")
        if not isinstance(manner, str):
            manner = manner.pop(0) if len(manner) > 1 else manner[0]
        return ServerCommand(name, (sys.executable, STAND_IN, manner), "/readyz")

    def open(self, *, slo: str | None = None, fresh: bool = False, content: str = "", **limits: Any) -> Workshop:
        """As a new run would."""
        self.started.clear()
        texts = CachedWorkload(workload(*(f"text {n}" for n in range(50))))
        workloads = {"mix": texts, "long": texts}
        display = Display(Console(file=self.said, width=300), Silent())
        meter = Meter(workloads, PACE, parse_slo(slo) if slo else None, display, self.interrupted)
        prints = Fingerprints(SUBJECT, workloads, content, PACE, meter.stream, MACHINE)
        store = Store(self.folder, prints, fresh)
        estimate = Estimate.of(meter.measurement_s, ())
        return Workshop(SUBJECT, meter, store, self.start, display, estimate, **limits)


def ask(trial: str, clients: int = 2, repeat: int = 0, phase: Phase = "slots", **more: Any) -> Ask:
    knobs = more.pop("knobs", Knobs(max_num_seqs=8))
    return Ask(trial, phase, Setup(knobs), Level(clients, **more), "because it was asked", repeat)


def asking(steps: Iterable[Ask | Trial]) -> Steps[list[Trial]]:
    """A search that asks for the steps whatever it is told, and returns what it was told."""
    told: list[Trial] = []
    for step in steps:
        told += [(yield step)]
    return told
