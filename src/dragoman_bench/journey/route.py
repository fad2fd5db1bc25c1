"""Which servers a journey visits, in the story's order, and what each is asked.

Levels that no claim needs are left out; a claim needs repeats (`claims`), so what it looks at has them and the rest is
measured once. Knows no model and measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dragoman.errors import ConfigError
from dragoman.settings import GRAPH_CEILING, PREFILL_INTERVAL, vllm_graph_ceiling
from dragoman_bench.bench.servers import Flags
from dragoman_bench.journey.steps import MODES, Leg, Level, Mode, Pace, Step

BUSY = 25  # the story's load
FEW = 5
CPU_KV_CACHE_BYTES = 1 << 30
ROOMY_KV_CACHE_BYTES = 3 << 30
SOME = 8
INTERVAL, CEILING = "prefill-schedule-interval", "max-cudagraph-capture-size"
GPU_LEVELS = (64, 128, 256)
ALL_CLIENTS = (1, FEW, SOME, 10, BUSY, *GPU_LEVELS)
VERSUS_LEVELS, GPU_VERSUS_LEVELS = (1, SOME, BUSY), (1, BUSY, 128, 256)

QUICK_PACE = Pace(duration_s=8.0, warmup_s=1.0)
FULL_PACE = Pace(duration_s=10.0, warmup_s=2.0)
LEFT_OUT_OF_QUICK = (
    "`--quick` leaves out: 5 and 10 clients and more than 25, a third repeat, uniform data for the baselines, "
    "max_num_seqs 8, 32 and 256, the CUDA-graph ceiling, max_num_batched_tokens, memory, `vllm serve` with its defaults."
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a route depends on. `repeats` is at the levels that claims look at, `elsewhere` at the others."""

    gpu: bool
    quick: bool = False
    high_levels: bool = False  # 64 clients and more
    repeats: int = 3
    elsewhere: int = 1
    vllm_serve: bool = True


def plan_route(terms: Terms) -> tuple[Step, ...]:
    """All steps, in order."""
    steps = _quick(terms) if terms.quick else _full(terms)
    return tuple(step for step in steps if terms.vllm_serve or step.kind != "vllm")


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
    settings are the same for both, dragoman's defaults; with `defaults` each server has its own.
    """
    slots, repeats = _served_slots(terms), max(3, terms.repeats)
    usual = (BUSY,) if terms.quick else GPU_VERSUS_LEVELS if terms.high_levels else VERSUS_LEVELS
    legs = (Leg("variable", tuple(Level(n, repeats) for n in dict.fromkeys(clients or usual)), modes),)
    memory: Flags = {"gpu-memory-utilization": 0.4} if terms.gpu else {}
    if defaults:
        theirs = _vllm(terms, None, legs)
        ours = Step("dragoman-defaults", "dragoman with its defaults", "dragoman", {**memory, **both}, legs, False)
        return ours, replace(theirs, flags={**theirs.flags, **memory, **both})
    ours, theirs = _continuous(terms, slots, legs), _vllm(terms, slots, legs)
    same: Flags = {**memory, CEILING: GRAPH_CEILING} if terms.gpu else {}
    # How dragoman feeds its engine is its own affair: no setting of the engine's.
    return replace(ours, flags={**_without(ours.flags, INTERVAL), **same, **both}), replace(
        theirs, flags={**theirs.flags, **same, **both}
    )


def only(steps: Sequence[Step], wanted: Iterable[str]) -> tuple[Step, ...]:
    """The steps named. Raises ConfigError on a name that is none."""
    names = {step.name for step in steps}
    chosen = set(wanted)
    for name in sorted(chosen - names):
        raise ConfigError(f"no step {name!r}; there are {', '.join(step.name for step in steps)}", param="only")
    return tuple(step for step in steps if step.name in chosen) if chosen else tuple(steps)


def _quick(terms: Terms) -> Iterator[Step]:
    compared, once = Level(BUSY, terms.repeats), Level(1, terms.elsewhere)
    yield _workers(terms, 1, (Leg("variable", (once, compared)),))
    yield _workers(terms, 2, (Leg("variable", (compared,)),))
    yield _static(terms, (Leg("variable", (compared,)),))
    yield _continuous(terms, 64, (Leg("uniform", (compared,)), Leg("variable", (once, compared))))
    yield _continuous(terms, 16, (Leg("variable", (compared,)),))
    yield _vllm(terms, 64, (Leg("variable", (compared,)),))


def _full(terms: Terms) -> Iterator[Step]:
    busy = Level(BUSY, terms.repeats)
    uniform, at_busy = Leg("uniform", (busy,)), Leg("variable", (busy,))
    few_and_busy = Leg("variable", (Level(FEW, terms.repeats), busy))
    yield _workers(terms, 1, (uniform, _climb(terms, repeated=(1, BUSY))))
    yield _workers(terms, 2, (at_busy,))
    yield _static(terms, (uniform, _climb(terms, repeated=(BUSY,))))
    yield _continuous(terms, 64, (uniform, _climb(terms, repeated=(FEW, BUSY), high=True)))
    yield _continuous(terms, 8, (few_and_busy,))
    yield _continuous(terms, 16, (_climb(terms, repeated=(FEW, BUSY)),))
    yield _continuous(terms, 32, (at_busy,))
    yield _continuous(terms, 256, (_climb(terms, repeated=(FEW, BUSY), high=True),))
    if terms.gpu:
        yield from (_graphs(terms, slots, ceiling, (at_busy,)) for slots, ceiling in ((16, 512), (32, 1024)))
        yield _as_served(terms, (_climb(terms, repeated=(BUSY,), high=True),))
    yield from _knobs(terms, (at_busy,))
    yield _vllm(terms, None, (at_busy,))
    yield _vllm(terms, _served_slots(terms), (_climb(terms, repeated=(BUSY,), high=True),))


def _climb(terms: Terms, repeated: tuple[int, ...], *, high: bool = False) -> Leg:
    """All levels of the story; those that claims look at are `repeated`."""
    clients = (1, FEW, 10, BUSY, *(GPU_LEVELS if high and terms.high_levels else ()))
    return Leg("variable", tuple(Level(n, terms.repeats if n in repeated else terms.elsewhere) for n in clients))


def _engine(terms: Terms, slots: int) -> dict[str, str | int | float | bool]:
    """What every engine is told, so that nothing differs by a default. The ceiling is vLLM's own for so many slots: what the
    story's settings do is what they do with it."""
    told: dict[str, str | int | float | bool] = {"max-num-seqs": slots}
    if not terms.gpu:
        return {"max-num-batched-tokens": 2048, "kv-cache-memory-bytes": CPU_KV_CACHE_BYTES, **told}
    return {"max-num-batched-tokens": 8192, "gpu-memory-utilization": 0.9, CEILING: vllm_graph_ceiling(slots), **told}


def _served_slots(terms: Terms) -> int:
    """dragoman's default."""
    return 256 if terms.gpu else 64


def _workers(terms: Terms, workers: int, legs: tuple[Leg, ...]) -> Step:
    processes = "one worker process" if workers == 1 else f"{workers} worker processes on one device"
    flags = {**_engine(terms, _served_slots(terms)), "pipeline": "workers", "workers": workers}
    return Step(f"workers-{workers}", f"{processes}, one request at a time", "dragoman", flags, legs)


def _static(terms: Terms, legs: tuple[Leg, ...]) -> Step:
    batches: Flags = {"pipeline": "static_batch", "batch-size": 16, "batch-timeout-ms": 50}
    return Step("static", "static batches, 16 requests or 50 ms", "dragoman", {**_engine(terms, 16), **batches}, legs)


def _continuous(terms: Terms, slots: int, legs: tuple[Leg, ...]) -> Step:
    """AsyncLLM in the event loop and nothing more: every sequence is handed over as it comes."""
    plain: Flags = {INTERVAL: 1} if terms.gpu else {}
    flags = {**_engine(terms, slots), "pipeline": "continuous", **plain}
    return Step(f"continuous-{slots}", f"continuous batching, max_num_seqs {slots}", "dragoman", flags, legs)


def _as_served(terms: Terms, legs: tuple[Leg, ...]) -> Step:
    """What dragoman adds on a GPU: its graph ceiling, and prompts that wait for each other."""
    step = _continuous(terms, _served_slots(terms), legs)
    adds = f"CUDA graphs up to {GRAPH_CEILING} tokens, new prompts every {PREFILL_INTERVAL} steps"
    title = f"dragoman with its defaults: {step.title}, {adds}"
    return Step("defaults", title, "dragoman", _without(step.flags, INTERVAL, CEILING), legs)


def _without(flags: Flags, *names: str) -> Flags:
    """The others: those named are left to the server."""
    return {name: value for name, value in flags.items() if name not in names}


def _changed(terms: Terms, name: str, title: str, change: Flags, legs: tuple[Leg, ...], slots: int = 64) -> Step:
    step = _continuous(terms, slots, legs)
    return Step(name, f"{step.title}, {title}", step.kind, {**step.flags, **change}, legs)


def _graphs(terms: Terms, slots: int, ceiling: int, legs: tuple[Leg, ...]) -> Step:
    change: Flags = {CEILING: ceiling}
    return _changed(terms, f"graphs-{slots}", f"CUDA graphs up to {ceiling} tokens", change, legs, slots)


def _knobs(terms: Terms, legs: tuple[Leg, ...]) -> Iterator[Step]:
    """What continuous-64 has already is not measured again."""
    for tokens in (8192, 16384):
        if _engine(terms, 64)["max-num-batched-tokens"] != tokens:
            change: Flags = {"max-num-batched-tokens": tokens}
            yield _changed(terms, f"tokens-{tokens}", f"max_num_batched_tokens {tokens}", change, legs)
    if terms.gpu:
        yield _changed(terms, "memory-0.3", "gpu_memory_utilization 0.3", {"gpu-memory-utilization": 0.3}, legs)
    else:
        roomy: Flags = {"kv-cache-memory-bytes": ROOMY_KV_CACHE_BYTES}
        yield _changed(terms, "memory-roomy", "a KV cache of 3 GiB instead of 1", roomy, legs)


def _vllm(terms: Terms, slots: int | None, legs: tuple[Leg, ...]) -> Step:
    if slots is None:
        # A CPU's memory is shared with everything else: by default vLLM would take most of it.
        given = {} if terms.gpu else {"kv-cache-memory-bytes": CPU_KV_CACHE_BYTES}
        return Step("vllm-defaults", "`vllm serve` with its defaults", "vllm", given, legs, shaped=False)
    return Step(f"vllm-{slots}", f"`vllm serve`, settings of continuous-{slots}", "vllm", _engine(terms, slots), legs)
