"""What a journey consists of: a step is a server with its settings, a leg is a workload sent to it at several load levels.

Also the model that is measured (`Subject`), and the command line that a step's server gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.servers import Flags, ServerCommand, dragoman_serve, vllm_serve

Kind = Literal["dragoman", "vllm"]
WorkloadName = Literal["uniform", "variable"]
Mode = Literal["plain", "streamed"]
MODES: tuple[Mode, ...] = ("plain", "streamed")

OVERHEAD_S = 1.5  # of a measurement, beside its warm-up and itself: in-flight requests at the end of either are awaited


@dataclass(frozen=True, slots=True)
class Level:
    """The clients of a closed loop, and how often it is measured."""

    clients: int
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Leg:
    """One workload at several levels: one results file for each mode."""

    workload: WorkloadName
    levels: tuple[Level, ...]
    modes: tuple[Mode, ...] = ("plain",)

    @property
    def measurements(self) -> int:
        return sum(level.repeats for level in self.levels) * len(self.modes)


@dataclass(frozen=True, slots=True)
class Step:
    """One server and its legs. `title` is for display, `name` for file names and `--only`."""

    name: str
    title: str
    kind: Kind
    flags: Flags
    legs: tuple[Leg, ...]
    shaped: bool = True  # False: the server keeps its defaults, the subject's limits (its window) included

    def leg_name(self, leg: Leg) -> str:
        return f"{self.name}.{leg.workload}"

    def label(self, leg: Leg) -> str:
        """For charts: variable texts are the usual ones."""
        return self.name if leg.workload == "variable" else f"{self.name} {leg.workload}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each measurement lasts."""

    duration_s: float
    warmup_s: float
    timeout_s: float = 120.0

    def leg_s(self, leg: Leg) -> float:
        """The expected time of a leg."""
        return leg.measurements * (self.duration_s + self.warmup_s + OVERHEAD_S)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model under test, and how each kind of server is started with it and asked to translate.

    `path` is what vLLM is given; `name` is what results have (no folder of this machine). `forced` output lengths come
    with dummy weights.
    """

    path: str
    name: str
    dragoman: Flags  # which model, and its limits
    vllm: Flags  # what vLLM needs to load it and to apply its prompt
    limits: Flags  # for vLLM, where it does not keep its defaults
    asked: TargetOptions  # of `vllm serve`
    lengths: Mapping[WorkloadName, tuple[int, int]]  # source tokens
    forced: tuple[float, float] | None = None  # output tokens as a share of source tokens
    tokenizer: str | None = None  # tokenizer.json to measure lengths with
    pairs: str = "en-ja"
    seed: int = 0

    def describe(self, kind: Kind) -> dict[str, object]:
        """All of it that decides results of such a server, without paths: for results files."""
        common: dict[str, object] = {"model": self.name, "pairs": self.pairs}
        if kind == "dragoman":
            return common | {"flags": {name: value for name, value in self.dragoman.items() if name != "model"}}
        return common | {
            "flags": {**self.vllm, **self.limits},
            "prompt": {"kind": self.asked.kind, "system": self.asked.system, "user": self.asked.user},
            "max_tokens": self.asked.sampling.max_tokens,
        }


def target_of(step: Step, subject: Subject) -> TargetOptions:
    """How a step's server is asked."""
    return subject.asked if step.kind == "vllm" else TargetOptions()


def command_of(step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
    """The command line of a step's server."""
    if step.kind == "dragoman":
        model = {name: value for name, value in subject.dragoman.items() if step.shaped or name not in subject.limits}
        return dragoman_serve(step.name, {**model, **step.flags}, engine_log)
    loading = {**subject.vllm, **subject.limits} if step.shaped else subject.vllm
    return vllm_serve(step.name, subject.path, {**loading, **step.flags})
