"""The route of a journey as data: which servers are started, in the story's order, and which loads each gets.

Claims need repeats, so the levels that they use are repeated and the others are measured once. Levels that no claim needs
are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from dragoman.errors import ConfigError
from dragoman_bench.bench.servers import Flags
from dragoman_bench.journey.steps import MODES, Kind, Leg, Level, Mode, Pace, Step

BUSY = 25  # clients: the story's load
FEW = 5
GPU_LEVELS = (64, 128, 256)
ALL_CLIENTS = (1, FEW, 8, 10, BUSY, *GPU_LEVELS)
CPU_KV_CACHE_BYTES, LARGE_KV_CACHE_BYTES = 1 << 30, 3 << 30
INTERVAL, CEILING = "prefill-schedule-interval", "max-cudagraph-capture-size"
DRAGOMAN_CEILING = 1024  # tokens: dragoman's own default
VLLM_CEILING = 512  # tokens: vLLM's own default on most GPUs, or twice max_num_seqs where that is less

QUICK_PACE = Pace(duration_s=8.0, warmup_s=1.0)
FULL_PACE = Pace(duration_s=10.0, warmup_s=2.0)
LEFT_OUT_OF_QUICK = (
    "`--quick` leaves out: 5 and 10 clients and more than 25, a third repeat, uniform data for the baselines, "
    "max_num_seqs 8, 32 and 256, the CUDA-graph limit, max_num_batched_tokens, memory, `vllm serve` with its defaults."
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a route depends on. `repeats` is for the levels that claims use, `elsewhere` for the others."""

    gpu: bool
    quick: bool = False
    high_levels: bool = False  # 64 clients and more
    repeats: int = 3
    elsewhere: int = 1
    vllm_serve: bool = True

    @property
    def slots(self) -> int:
        """dragoman's default max_num_seqs."""
        return 256 if self.gpu else 64

    def engine(self, slots: int) -> dict[str, str | int | float | bool]:
        """Flags of every engine, so that nothing differs by a default. The limit on CUDA graphs is vLLM's own for so many
        slots: the story's settings have the effect that they have in vLLM."""
        flags: dict[str, str | int | float | bool] = {"max-num-seqs": slots}
        if not self.gpu:
            return {"max-num-batched-tokens": 2048, "kv-cache-memory-bytes": CPU_KV_CACHE_BYTES, **flags}
        ceiling = min(2 * slots, VLLM_CEILING)
        return {"max-num-batched-tokens": 8192, "gpu-memory-utilization": 0.9, CEILING: ceiling, **flags}


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A step before it is known where it runs. `{slots}` in name and title stands for max_num_seqs.

    `repeated` and `once` are clients on variable texts, `high` adds `GPU_LEVELS`, measured once; `uniform` adds uniform
    texts. `quick` are the clients of a quick journey (25 of them repeated); empty: it leaves the step out. `without`
    names flags that are left to the server; `defaults` leaves all.
    """

    name: str
    title: str
    kind: Kind = "dragoman"
    slots: int | None = None  # None: dragoman's default on the device
    flags: Flags = field(default_factory=dict[str, str | int | float | bool])
    without: tuple[str, ...] = ()
    defaults: bool = False
    on: Literal["any", "gpu", "cpu"] = "any"
    repeated: tuple[int, ...] = (BUSY,)
    once: tuple[int, ...] = ()
    high: bool = False
    uniform: bool = False
    quick: tuple[int, ...] = ()
    quick_uniform: bool = False
    full: bool = True

    def included(self, terms: Terms) -> bool:
        device_fits = self.on in ("any", "gpu" if terms.gpu else "cpu")
        return (
            device_fits and bool(self.quick if terms.quick else self.full) and (terms.vllm_serve or self.kind != "vllm")
        )

    def step(self, terms: Terms) -> Step:
        slots = self.slots or terms.slots
        names = {"slots": slots}
        flags = {} if self.defaults else {**terms.engine(slots), **self._pipeline(terms)}
        if self.defaults and self.kind == "vllm" and not terms.gpu:
            flags = {"kv-cache-memory-bytes": CPU_KV_CACHE_BYTES}  # by default vLLM takes most of the machine's memory
        flags = {name: value for name, value in {**flags, **self.flags}.items() if name not in self.without}
        return Step(
            name=self.name.format(**names),
            title=self.title.format(**names),
            kind=self.kind,
            flags=flags,
            legs=tuple(self._legs(terms)),
            shaped=not self.defaults,
        )

    def _pipeline(self, terms: Terms) -> Flags:
        """Continuous batching is AsyncLLM in the event loop and nothing more: each sequence is handed over as it comes."""
        if self.kind == "vllm":
            return {}
        return {"pipeline": "continuous", **({INTERVAL: 1} if terms.gpu and "pipeline" not in self.flags else {})}

    def _legs(self, terms: Terms) -> Iterable[Leg]:
        if self.quick_uniform if terms.quick else self.uniform:
            yield Leg("uniform", (Level(BUSY, terms.repeats),))
        repeated = (BUSY,) if terms.quick else self.repeated
        high = GPU_LEVELS if self.high and terms.high_levels else ()
        clients = self.quick if terms.quick else (*sorted({*self.repeated, *self.once}), *high)
        yield Leg("variable", tuple(Level(n, terms.repeats if n in repeated else terms.elsewhere) for n in clients))


ROUTE: tuple[RouteStep, ...] = (
    RouteStep(
        "workers-1",
        "one worker process, one request at a time",
        flags={"pipeline": "workers", "workers": 1},
        uniform=True,
        repeated=(1, BUSY),
        once=(FEW, 10),
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
        slots=16,
        flags={"pipeline": "static_batch", "batch-size": 16, "batch-timeout-ms": 50},
        uniform=True,
        once=(1, FEW, 10),
        quick=(BUSY,),
    ),
    RouteStep(
        "continuous-64",
        "continuous batching, max_num_seqs 64",
        slots=64,
        uniform=True,
        repeated=(FEW, BUSY),
        once=(1, 10),
        high=True,
        quick=(1, BUSY),
        quick_uniform=True,
    ),
    RouteStep("continuous-8", "continuous batching, max_num_seqs 8", slots=8, repeated=(FEW, BUSY)),
    RouteStep(
        "continuous-16",
        "continuous batching, max_num_seqs 16",
        slots=16,
        repeated=(FEW, BUSY),
        once=(1, 10),
        quick=(BUSY,),
    ),
    RouteStep("continuous-32", "continuous batching, max_num_seqs 32", slots=32),
    RouteStep(
        "continuous-256",
        "continuous batching, max_num_seqs 256",
        slots=256,
        repeated=(FEW, BUSY),
        once=(1, 10),
        high=True,
    ),
    RouteStep(
        "graphs-16",
        "continuous batching, max_num_seqs 16, CUDA graphs up to 512 tokens",
        slots=16,
        flags={CEILING: 512},
        on="gpu",
    ),
    RouteStep(
        "graphs-32",
        "continuous batching, max_num_seqs 32, CUDA graphs up to 1024 tokens",
        slots=32,
        flags={CEILING: 1024},
        on="gpu",
    ),
    RouteStep(
        "defaults",
        "dragoman with its defaults: continuous batching, max_num_seqs {slots}, CUDA graphs up to 1024 tokens, new prompts "
        "every 8 steps",
        without=(INTERVAL, CEILING),
        on="gpu",
        once=(1, FEW, 10),
        high=True,
    ),
    RouteStep(
        "tokens-8192",
        "continuous batching, max_num_seqs 64, max_num_batched_tokens 8192",
        slots=64,
        flags={"max-num-batched-tokens": 8192},
        on="cpu",  # on a GPU continuous-64 has this already
    ),
    RouteStep(
        "tokens-16384",
        "continuous batching, max_num_seqs 64, max_num_batched_tokens 16384",
        slots=64,
        flags={"max-num-batched-tokens": 16384},
    ),
    RouteStep(
        "memory-0.3",
        "continuous batching, max_num_seqs 64, gpu_memory_utilization 0.3",
        slots=64,
        flags={"gpu-memory-utilization": 0.3},
        on="gpu",
    ),
    RouteStep(
        "memory-roomy",
        "continuous batching, max_num_seqs 64, a KV cache of 3 GiB instead of 1",
        slots=64,
        flags={"kv-cache-memory-bytes": LARGE_KV_CACHE_BYTES},
        on="cpu",
    ),
    RouteStep("vllm-defaults", "`vllm serve` with its defaults", "vllm", defaults=True),
    RouteStep(
        "vllm-{slots}",
        "`vllm serve`, settings of continuous-{slots}",
        "vllm",
        once=(1, FEW, 10),
        high=True,
    ),
    RouteStep("vllm-64", "`vllm serve`, settings of continuous-64", "vllm", slots=64, quick=(BUSY,), full=False),
)


def plan_route(terms: Terms) -> tuple[Step, ...]:
    """All steps, in order."""
    return tuple(row.step(terms) for row in ROUTE if row.included(terms))


def plan_versus(
    terms: Terms,
    clients: Sequence[int] = (),
    both: Flags = MappingProxyType({}),
    *,
    modes: tuple[Mode, ...] = MODES,
    defaults: bool = False,
) -> tuple[Step, Step]:
    """dragoman and `vllm serve`, both to run together: less than half of a GPU's memory each. At least three repeats,
    because pairs are compared.

    `clients` are the load levels and `both` engine flags of both servers, where they are not to be the usual ones. The
    settings are the same for both, dragoman's defaults; with `defaults` each server has its own. How dragoman feeds its
    engine (`prefill-schedule-interval`) is no setting of the engine's and is left to it.
    """
    usual = (BUSY,) if terms.quick else (1, BUSY, 128, 256) if terms.high_levels else (1, 8, BUSY)
    levels = tuple(Level(n, max(3, terms.repeats)) for n in dict.fromkeys(clients or usual))
    legs = (Leg("variable", levels, modes),)
    same: Flags = {"gpu-memory-utilization": 0.4} if terms.gpu else {}
    if defaults:
        ours = RouteStep("dragoman-defaults", "dragoman with its defaults", defaults=True)
        theirs = RouteStep("vllm-defaults", "`vllm serve` with its defaults", "vllm", defaults=True)
    else:
        same = {**same, CEILING: DRAGOMAN_CEILING} if terms.gpu else same
        ours = RouteStep("continuous-{slots}", "continuous batching, max_num_seqs {slots}", without=(INTERVAL,))
        theirs = RouteStep("vllm-{slots}", "`vllm serve`, settings of continuous-{slots}", "vllm")
    first, second = ours.step(terms), theirs.step(terms)
    return (
        replace(first, legs=legs, flags={**first.flags, **same, **both}),
        replace(second, legs=legs, flags={**second.flags, **same, **both}),
    )


def only(steps: Sequence[Step], wanted: Iterable[str]) -> tuple[Step, ...]:
    """The steps with these names; all where none is given. Raises ConfigError on an unknown name."""
    names = {step.name for step in steps}
    chosen = set(wanted)
    for name in sorted(chosen - names):
        raise ConfigError(f"no step {name!r}; there are {', '.join(step.name for step in steps)}", param="only")
    return tuple(step for step in steps if step.name in chosen) if chosen else tuple(steps)
