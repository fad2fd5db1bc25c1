"""The steps of a journey as data: its servers in the story's order, and the loads of each.

A step is a server with its settings, a leg is a workload that is sent to it at several load levels. The module also defines
the model under test (`Subject`) and the command line of a step's server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.servers import Flags, ServerCommand, dragoman_serve, vllm_serve

Kind = Literal["dragoman", "vllm"]
WorkloadName = Literal["uniform", "variable"]
Mode = Literal["plain", "streamed"]
MODES: tuple[Mode, ...] = ("plain", "streamed")

BUSY = 25  # clients: the story's load
FEW = 5
GPU_LEVELS = (64, 128, 256)
ALL_CLIENTS = (1, FEW, 8, 10, BUSY, *GPU_LEVELS)  # their places decide which texts are sent
CPU_KV_CACHE_BYTES = 1 << 30
MODE, CEILING = "cudagraph-mode", "max-cudagraph-capture-size"
WHOLE_STEPS: Mapping[str, str] = {
    "attention-backend": "TRITON_ATTN",
    "compilation-config": '{"cudagraph_mode": "FULL"}',
}
"""Flags of `vllm serve` for what dragoman does by default."""
DRAGOMAN_CEILING = 1024  # tokens: dragoman's own default
VLLM_CEILING = 512  # tokens: vLLM's own default on most GPUs, or twice max_num_seqs where that is less


@dataclass(frozen=True, slots=True)
class Leg:
    """A workload in closed loops with several numbers of clients, with a results file for each mode."""

    workload: WorkloadName
    clients: tuple[int, ...]
    repeats: int = 1
    modes: tuple[Mode, ...] = ("plain",)


@dataclass(frozen=True, slots=True)
class Step:
    """A server and its legs. `title` is for display, `name` for file names and `--only`."""

    name: str
    title: str
    kind: Kind
    flags: Flags
    legs: tuple[Leg, ...]
    shaped: bool = True  # False: the server keeps its defaults, the subject's limits (its window) included

    def leg_name(self, leg: Leg) -> str:
        return f"{self.name}.{leg.workload}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each measurement lasts."""

    duration_s: float
    warmup_s: float
    timeout_s: float = 120.0


QUICK_PACE = Pace(duration_s=8.0, warmup_s=1.0)
FULL_PACE = Pace(duration_s=10.0, warmup_s=2.0)
LEFT_OUT_OF_QUICK = (
    "`--quick` leaves out: 5 clients and more than 25, a third repeat, uniform data for the baselines, "
    "max_num_seqs 8, 32 and 256, the CUDA-graph limit, max_num_batched_tokens, memory, `vllm serve` with its defaults."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model under test, and how each kind of server is started and called with it.

    `path` is vLLM's model argument; `name` is the name in results (no folder of this machine). `forced`: output lengths are
    forced, with dummy weights.
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
        """Return all values that affect the results of such a server, without paths, for results files."""
        common: dict[str, object] = {"model": self.name, "pairs": self.pairs}
        if kind == "dragoman":
            return common | {"flags": {name: value for name, value in self.dragoman.items() if name != "model"}}
        return common | {
            "flags": {**self.vllm, **self.limits},
            "prompt": {"kind": self.asked.kind, "system": self.asked.system, "user": self.asked.user},
            "max_tokens": self.asked.max_tokens,
        }


def target_of(step: Step, subject: Subject) -> TargetOptions:
    """Return how to send requests to a step's server."""
    return subject.asked if step.kind == "vllm" else TargetOptions()


def command_of(step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
    """Return the command line of a step's server."""
    if step.kind == "dragoman":
        model = {name: value for name, value in subject.dragoman.items() if step.shaped or name not in subject.limits}
        return dragoman_serve(step.name, {**model, **step.flags}, engine_log)
    loading = {**subject.vllm, **subject.limits} if step.shaped else subject.vllm
    return vllm_serve(step.name, subject.path, {**loading, **step.flags})


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A step before the device is known.

    `clients` send variable texts; `high` adds `GPU_LEVELS`, `uniform` adds uniform texts. `quick`: the clients in a quick
    journey; empty: it omits the step. `without`: flags that keep the server's default; `defaults`: all flags do.
    """

    name: str
    title: str
    slots: int | None = None  # max_num_seqs; None: dragoman's default, 256 on a GPU, 64 on a CPU
    flags: Flags = field(default_factory=dict[str, str | int | float | bool])
    kind: Kind = "dragoman"
    on: Literal["any", "gpu", "cpu"] = "any"  # in a whole journey
    clients: tuple[int, ...] = (BUSY,)
    high: bool = False
    uniform: bool = False
    quick: tuple[int, ...] = ()
    quick_uniform: bool = False
    without: tuple[str, ...] = ()
    defaults: bool = False

    def step(self, gpu: bool, quick: bool, repeats: int) -> Step:
        """Return the step for a device."""
        clients = self.quick if quick else (*self.clients, *(GPU_LEVELS if self.high and gpu else ()))
        legs = (Leg("variable", clients, repeats),)
        if self.quick_uniform if quick else self.uniform:
            legs = (Leg("uniform", (BUSY,), repeats), *legs)
        return Step(self.name, self.title, self.kind, self._flags(gpu), legs, shaped=not self.defaults)

    def _flags(self, gpu: bool) -> Flags:
        """Flags of every engine, so that nothing differs by a default. What runs as a CUDA graph is as in
        vLLM, its limit vLLM's own for so many slots: the settings have the effect that they have there."""
        flags: dict[str, str | int | float | bool] = {}
        slots = self.slots or (256 if gpu else 64)
        if self.defaults:
            if self.kind == "vllm" and not gpu:  # by default vLLM takes most of the machine's memory
                flags["kv-cache-memory-bytes"] = CPU_KV_CACHE_BYTES
        elif gpu:
            ceiling = min(2 * slots, VLLM_CEILING)
            flags |= {"max-num-batched-tokens": 8192, "gpu-memory-utilization": 0.9, CEILING: ceiling}
        else:
            flags |= {"max-num-batched-tokens": 2048, "kv-cache-memory-bytes": CPU_KV_CACHE_BYTES}
        if not self.defaults:
            flags["max-num-seqs"] = slots
            if self.kind == "dragoman":
                flags["pipeline"] = "continuous"
                if gpu:
                    flags[MODE] = "FULL_AND_PIECEWISE"
        return {name: value for name, value in {**flags, **self.flags}.items() if name not in self.without}


CONTINUOUS = "continuous batching, max_num_seqs"
ROUTE: tuple[RouteStep, ...] = (
    RouteStep(
        "workers-1",
        "one worker process, one request at a time",
        flags={"pipeline": "workers", "workers": 1},
        uniform=True,
        clients=(1, FEW, BUSY),
        quick=(1, BUSY),
    ),
    RouteStep(
        "workers-2",
        "2 worker processes on one device, one request at a time",
        flags={"pipeline": "workers", "workers": 2},
        quick=(BUSY,),
    ),
    RouteStep(
        "static",
        "static batches, 16 requests or 50 ms",
        16,
        {"pipeline": "static_batch", "batch-size": 16, "batch-timeout-ms": 50},
        uniform=True,
        clients=(1, BUSY),
        quick=(BUSY,),
    ),
    RouteStep(
        "continuous-64",
        f"{CONTINUOUS} 64",
        64,
        uniform=True,
        clients=(1, FEW, BUSY),
        high=True,
        quick=(1, BUSY),
        quick_uniform=True,
    ),
    RouteStep("continuous-8", f"{CONTINUOUS} 8", 8, clients=(FEW, BUSY)),
    RouteStep("continuous-16", f"{CONTINUOUS} 16", 16, clients=(1, FEW, BUSY), quick=(BUSY,)),
    RouteStep("continuous-32", f"{CONTINUOUS} 32", 32),
    RouteStep("continuous-256", f"{CONTINUOUS} 256", 256, clients=(1, FEW, BUSY), high=True),
    RouteStep("graphs-16", f"{CONTINUOUS} 16, CUDA graphs up to 512 tokens", 16, {CEILING: 512}, on="gpu"),
    RouteStep("graphs-32", f"{CONTINUOUS} 32, CUDA graphs up to 1024 tokens", 32, {CEILING: 1024}, on="gpu"),
    RouteStep(
        "defaults",
        "dragoman with its defaults: continuous batching, max_num_seqs 256, each step of up to 1024 tokens one CUDA graph",
        without=(MODE, CEILING),
        on="gpu",
        clients=(1, FEW, BUSY),
        high=True,
    ),
    RouteStep(
        "tokens-16384",
        f"{CONTINUOUS} 64, max_num_batched_tokens 16384",
        64,
        {"max-num-batched-tokens": 16384},
        on="gpu",
    ),
    RouteStep(
        "memory-0.3",
        f"{CONTINUOUS} 64, gpu_memory_utilization 0.3",
        64,
        {"gpu-memory-utilization": 0.3},
        on="gpu",
    ),
    RouteStep("vllm-defaults", "`vllm serve` with its defaults", kind="vllm", defaults=True),
    RouteStep(
        "vllm-64",
        "`vllm serve`, settings of continuous-64",
        64,
        kind="vllm",
        on="cpu",
        clients=(1, FEW, BUSY),
        quick=(BUSY,),
    ),
    RouteStep(
        "vllm-256",
        "`vllm serve`, settings of continuous-256",
        256,
        kind="vllm",
        on="gpu",
        clients=(1, FEW, BUSY),
        high=True,
    ),
)


def plan_route(gpu: bool, quick: bool = False, repeats: int = 3) -> tuple[Step, ...]:
    """Return all steps, in order."""
    device = ("any", "gpu" if gpu else "cpu")
    rows = [row for row in ROUTE if (row.quick if quick else row.on in device)]
    return tuple(row.step(gpu, quick, repeats) for row in rows)


def plan_versus(gpu: bool, leg: Leg, *, defaults: bool = False) -> tuple[Step, Step]:
    """Return steps of dragoman and `vllm serve` that run at the same time, each with less than half of a GPU's memory.

    The settings are the same for both, dragoman's defaults; with `defaults` each server has its own.
    """
    slots = 256 if gpu else 64
    if defaults:
        rows = (
            RouteStep("dragoman-defaults", "dragoman with its defaults", defaults=True),
            RouteStep("vllm-defaults", "`vllm serve` with its defaults", kind="vllm", defaults=True),
        )
    else:
        rows = (
            RouteStep(f"continuous-{slots}", f"{CONTINUOUS} {slots}", slots, without=(MODE,)),
            RouteStep(
                f"vllm-{slots}",
                f"`vllm serve`, settings of continuous-{slots}",
                slots,
                WHOLE_STEPS if gpu else {},
                kind="vllm",
            ),
        )
    same: dict[str, str | int | float | bool] = {"gpu-memory-utilization": 0.4} if gpu else {}
    if gpu and not defaults:
        same[CEILING] = DRAGOMAN_CEILING
    steps = [row.step(gpu, False, 1) for row in rows]
    first, second = (replace(step, legs=(leg,), flags={**step.flags, **same}) for step in steps)
    return first, second


def only(steps: Sequence[Step], wanted: Iterable[str]) -> tuple[Step, ...]:
    """Select the steps with these names, or all without names. Raises ConfigError for an unknown name."""
    names = {step.name for step in steps}
    chosen = set(wanted)
    for name in sorted(chosen - names):
        raise ConfigError(f"no step {name!r}; there are {', '.join(step.name for step in steps)}", param="only")
    return tuple(step for step in steps if step.name in chosen) if chosen else tuple(steps)
