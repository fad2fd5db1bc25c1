"""Who is in the final: the finalist, and the configurations that somebody who tunes nothing would serve with.

Knows their settings and how they share a machine's memory while they are compared; how they are measured is `final`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from dragoman.errors import ConfigError
from dragoman.settings import vllm_graph_ceiling
from dragoman_bench.bench.results import Machine
from dragoman_bench.tune.outcome import Contender, Memory
from dragoman_bench.tune.points import Knobs, Place, Setup, Trial
from dragoman_bench.tune.recommend import FINALIST

BASELINES = ("vllm-serve", "embedder", "story")
SIMPLEST_FIRST = ("vllm-serve", "embedder", FINALIST, "story")
"""Defaults decide nothing, so of equals they are the simplest; another's tuned numbers are no simpler than one's own."""

VLLM_UTILIZATION = 0.92  # vLLM's own default of gpu_memory_utilization
SHARED = 0.96  # of a GPU's memory: what drivers and contexts take is not for sharing
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whether all can be up at once, and what is said of it. `share`: of a GPU's memory, for each."""

    together: bool
    told: str
    share: float | None = None


def parse_baselines(text: str) -> tuple[str, ...]:
    """`vllm-serve,story`, or `none`. Raises ConfigError naming what is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip() and word.strip() != "none"]
    for word in words:
        if word not in BASELINES:
            raise ConfigError(f"no baseline {word!r}: say none, or some of {', '.join(BASELINES)}", param="baselines")
    return tuple(name for name in BASELINES if name in words)


def contenders(
    finalist: Knobs, baselines: Sequence[str], place: Place, machine: Machine, kv_cache_bytes: int | None
) -> tuple[Contender, ...]:
    """The finalist, then the baselines named. `kv_cache_bytes`: what each gets where there is no GPU, whose defaults would
    take what others need."""
    made = [Contender(FINALIST, "what the search found", Setup(finalist), finalist, SIMPLEST_FIRST.index(FINALIST))]
    made += [_baseline(name, place, machine) for name in BASELINES if name in baselines]
    if place.device == "cpu" and kv_cache_bytes is not None:
        made = [_with_memory(one, kv_cache_memory_bytes=kv_cache_bytes) for one in made]
    return tuple(made)


def shared(contender: Contender, sharing: Sharing) -> Contender:
    """As it is started beside the others."""
    if sharing.share is None:
        return contender
    return _with_memory(contender, gpu_memory_utilization=sharing.share)


def sharing_of(count: int, place: Place, memory: Memory | None, trials: Sequence[Trial]) -> Sharing:
    """Of a GPU's memory each gets an equal share, where it holds the model and the cache that the demand needs. A CPU's
    memory is looked at when servers are up: only then is it known what one takes."""
    if place.device == "cpu":
        return Sharing(True, "all servers were up at once, each with the same KV cache")
    share = floor(SHARED / count * 100) / 100
    needed = _needed_bytes(place, memory, trials)
    if needed is not None and needed > share * place.memory_bytes:
        told = (
            f"one server was up at a time, with the memory that it asks for: {count} do not fit beside each other "
            f"({needed / _GIB:.1f} GiB each)"
        )
        return Sharing(False, told)
    told = f"all servers were up at once, each with {share:.0%} of the GPU's memory"
    return Sharing(True, f"{told}; speed does not depend on it while nothing is preempted", share)


def _baseline(name: str, place: Place, machine: Machine) -> Contender:
    simplicity = SIMPLEST_FIRST.index(name)
    if name == "embedder":
        knobs = Knobs(128, 2048, _graph_ceiling(place, 128), gpu_memory_utilization=_on_gpu(place))
        return Contender(name, "vLLM's embedder defaults", Setup(knobs), knobs, simplicity)
    if name == "story":
        memory = 0.3 if place.device == "cuda" else None
        knobs = Knobs(16, 8192, _graph_ceiling(place, 16), gpu_memory_utilization=memory)
        told = "16/8192/0.3" if place.device == "cuda" else "16/8192"
        return Contender(name, f"the story's {told}", Setup(knobs), knobs, simplicity)
    seqs, tokens = serve_defaults(place, machine)
    knobs = Knobs(seqs, tokens, _graph_ceiling(place, seqs), gpu_memory_utilization=_on_gpu(place))
    return Contender(name, "`vllm serve` with its defaults", Setup(Knobs(), "vllm"), knobs, simplicity)


def serve_defaults(place: Place, machine: Machine) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens that `vllm serve` takes by itself (vLLM 0.32, EngineArgs.get_batch_defaults),
    so that dragoman can be told the same."""
    if place.device == "cpu":
        return 128, 2048
    a100 = any("a100" in gpu.name.lower() for gpu in machine.gpus)
    if place.memory_bytes >= 160 * _GIB:
        return 1024, 16384
    return (1024, 8192) if place.memory_bytes >= 70 * _GIB and not a100 else (256, 2048)


def _graph_ceiling(place: Place, max_num_seqs: int) -> int | None:
    """That of vLLM, where dragoman's own default would be another."""
    return vllm_graph_ceiling(max_num_seqs) if place.device == "cuda" else None


def _on_gpu(place: Place) -> float | None:
    return VLLM_UTILIZATION if place.device == "cuda" else None


def _with_memory(contender: Contender, **memory: int | float) -> Contender:
    knobs = replace(contender.setup.knobs, **memory)
    return replace(contender, setup=replace(contender.setup, knobs=knobs))


def _needed_bytes(place: Place, memory: Memory | None, trials: Sequence[Trial]) -> float | None:
    """What one server takes with just the cache that the demand needs; None where nobody tells."""
    for trial in trials:
        cache, used = trial.kv_cache, trial.gpu_memory_utilization
        if memory is None or cache is None or cache.bytes_per_token is None or used is None:
            continue
        beside_cache = used * place.memory_bytes - cache.tokens * cache.bytes_per_token
        return beside_cache + memory.wanted_tokens * cache.bytes_per_token
    return None
