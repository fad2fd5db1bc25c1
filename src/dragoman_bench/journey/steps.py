"""The nouns of a journey: a step is a server with its settings, a leg is what is sent to it.

Knows neither which steps there are (`route`) nor how one is done (`walk`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dragoman_bench.bench.servers import Flags
from dragoman_bench.bench.targets import TargetOptions

Kind = Literal["dragoman", "vllm"]
WorkloadName = Literal["uniform", "variable"]
Mode = Literal["plain", "streamed"]
MODES: tuple[Mode, ...] = ("plain", "streamed")

OVERHEAD_S = 1.5  # of a measurement beside its warm-up and itself: what is in flight at the end of either is awaited


@dataclass(frozen=True, slots=True)
class Level:
    """So many clients in a closed loop, measured so many times."""

    clients: int
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Leg:
    """One workload at several levels: one results file."""

    workload: WorkloadName
    levels: tuple[Level, ...]
    modes: tuple[Mode, ...] = ("plain",)

    @property
    def measurements(self) -> int:
        return sum(level.repeats for level in self.levels) * len(self.modes)


@dataclass(frozen=True, slots=True)
class Step:
    """One server and its legs. `title` is for people, `name` for file names and `--only`."""

    name: str
    title: str
    kind: Kind
    flags: Flags
    legs: tuple[Leg, ...]
    shaped: bool = True  # False: defaults; the subject's own limits (its window) are not passed on either

    def leg_name(self, leg: Leg) -> str:
        return f"{self.name}.{leg.workload}"

    def label(self, leg: Leg) -> str:
        """For charts: variable texts are the rule."""
        return self.name if leg.workload == "variable" else f"{self.name} {leg.workload}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each measurement lasts."""

    duration_s: float
    warmup_s: float
    timeout_s: float = 120.0

    def leg_s(self, leg: Leg) -> float:
        """What a leg is expected to take."""
        return leg.measurements * (self.duration_s + self.warmup_s + OVERHEAD_S)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model under test, and how each kind of server is told and asked.

    `path` is what vLLM is given; `name` is what results say (no folder of this machine). `forced` output lengths come
    with dummy weights.
    """

    path: str
    name: str
    dragoman: Flags  # which model, and its limits
    vllm: Flags  # what vLLM needs to load it and to ask it well
    limits: Flags  # for vLLM, where it is not left to its defaults
    asked: TargetOptions  # of `vllm serve`
    lengths: Mapping[WorkloadName, tuple[int, int]]  # source tokens
    forced: tuple[float, float] | None = None  # output tokens as a share of source tokens
    tokenizer: str | None = None  # tokenizer.json to measure lengths with
    pairs: str = "en-ja"
    seed: int = 0

    def telling(self, kind: Kind) -> dict[str, object]:
        """All of it that decides results of such a server, without paths: for results files."""
        told: dict[str, object] = {"model": self.name, "pairs": self.pairs}
        if kind == "dragoman":
            return told | {"flags": {name: value for name, value in self.dragoman.items() if name != "model"}}
        prompt = {"kind": self.asked.kind, "system": self.asked.system, "user": self.asked.user}
        return told | {
            "flags": {**self.vllm, **self.limits},
            "prompt": prompt,
            "max_tokens": self.asked.sampling.max_tokens,
        }
