"""Computes the KV cache that a demand needs, and checks it with more clients than the peak and longer texts.

The size is the most that the peak's texts need in any simulated draw, each at its full length, with a margin, and at least
what the check needs. vLLM allocates the cache in blocks, and does not start with less than one sequence of its window and one
reserved block. The running server reports bytes per token and its capacity. The check passes if no sequence is preempted and
no request fails for lack of memory; otherwise the server's own size is checked.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Literal

from dragoman_bench.bench.measurement import number, whole
from dragoman_bench.tune.compare import Best, ComparedTrial, Context
from dragoman_bench.tune.demand import ROUNDS, Demand
from dragoman_bench.tune.outcome import LoadLevel, Memory, Search, Trial

CHECK_FACTOR = 1.5
"""Times the peak: the concurrency that memory is checked under, and for which the ladder's engine has sequences."""
MARGIN = 1.25
GPU_BLOCK_TOKENS, CPU_BLOCK_TOKENS = 16, 128  # vLLM's
MOST_OF_A_GPU = 0.95
_NEARLY_FULL = 0.9  # below it, requests do not fail for lack of cache
_MIB = 1 << 20


def check_level(demand: Demand) -> LoadLevel:
    """Return the level of the check: more clients than the peak, and longer texts."""
    return LoadLevel(ceil(CHECK_FACTOR * demand.levels.peak), draw="long")


def size_for(context: Context, slots: int) -> Memory:
    """Compute the size for this number of sequences from the ladder server's report; without one, keep its own size."""
    machine, cache = context.machine, context.ladder_trial.kv_cache
    needed, wanted, text = _tokens(context, slots)
    setting: Literal["kv_cache_memory_bytes", "gpu_memory_utilization"] = (
        "gpu_memory_utilization" if machine.gpus else "kv_cache_memory_bytes"
    )
    now, value = number(context.ladder_trial.engine.get(setting)), getattr(context.ladder.setup.knobs, setting)
    capacity, per_token = (cache.tokens, cache.bytes_per_token) if cache else (None, None)
    if capacity is None or per_token is None:
        text += ". The server does not report the size of a token: its own memory setting is kept"
    else:
        text += f". A token takes {per_token / 1024:,.1f} KiB; the measured server had {capacity:,}"
        if not machine.gpus:
            value = ceil(wanted * per_token / _MIB) * _MIB
        elif now is not None:
            share = now + (wanted - capacity) * per_token / machine.engine_memory_bytes
            value = min(MOST_OF_A_GPU, max(0.01, ceil(share * 100 - 1e-9) / 100))
    return Memory(needed, wanted, capacity, per_token, setting, value, text)


def _tokens(context: Context, slots: int) -> tuple[int, int, str]:
    """Needed, wanted, and why so many. Texts beyond the sequences wait outside; a sequence's last block is not full."""
    demand, block = context.demand, GPU_BLOCK_TOKENS if context.machine.gpus else CPU_BLOCK_TOKENS
    peak, checked = min(demand.levels.peak, slots), min(check_level(demand).clients, slots)
    needed = demand.peak_tokens(peak) + demand.sequences(peak) * block
    window = whole(context.ladder_trial.engine.get("max_model_len")) or demand.shape.window or 0
    reasons = {
        ceil(MARGIN * needed): "with the margin",
        demand.long_tokens(checked) + demand.sequences(checked) * block: (
            f"for the check with {checked} at once and longer texts"
        ),
        window + block: "at least, for one sequence of the model's window",
    }
    wanted = max(reasons)
    text = f"{needed:,} tokens are needed by {peak} texts at once, the most in {ROUNDS:,} draws"
    return needed, wanted, f"{text}; {wanted:,} {reasons[wanted]}"


def own_size(context: Context, slots: int) -> Memory:
    """Return the memory setting of the ladder's server."""
    size = size_for(context, slots)
    value = getattr(context.ladder.setup.knobs, size.setting)
    return replace(size, value=value, because=f"{size.because}. The server's own size is kept")


def confirm_memory(context: Context, best: Best) -> Search[Best]:
    """Size and check the memory of the best settings, on a new server if no trial has checked it."""
    if best.memory is not None and best.memory.checked != "not checked":
        return best
    memory = best.memory or size_for(context, best.slots)
    sized = best.sized(memory)
    attempt = ComparedTrial("memory", "memory", sized.knobs, f"the size that the demand needs: {memory.because}")
    return replace((yield from check_memory(context, sized, attempt)), trial=best.trial)


def check_memory(context: Context, best: Best, attempt: ComparedTrial) -> Search[Best]:
    """Check the memory of the best settings on the attempt's server. If the check fails, check the server's own size in the
    same way."""
    level, size = check_level(context.demand), best.memory or own_size(context, best.slots)
    trial = yield attempt.measure(level, 0, f"memory: {level.label}", "memory")
    names, fault = [*size.trials, trial.name], (yield from _fault(trial, level))
    own = own_size(context, best.slots)
    knobs = best.sized(own).knobs
    if fault and not trial.not_reached and knobs != attempt.knobs:
        size, why = own, f"{trial.name} did not hold ({fault})"
        trial = yield ComparedTrial(f"memory-{len(names) + 1}", "memory", knobs, why).measure(level)
        names, fault = [*names, trial.name], (yield from _fault(trial, level))
    checked = "held" if not fault else "not checked" if trial.not_reached else "did not hold"
    return best.sized(replace(size, checked=checked, trials=tuple(names)))


def _fault(trial: Trial, level: LoadLevel) -> Search[str]:
    """Why the size did not hold, recorded where the trial does not say it itself; empty where it held."""
    if trial.outcome != "measured":
        return trial.reason or trial.ending
    result = trial.at(level)[-1]
    usage = result.peak_kv_cache_usage
    if result.preemptions:
        fault = f"{result.preemptions} preemptions"
    elif result.failed and (usage is None or usage >= _NEARLY_FULL):
        fault = f"{result.failed} of {result.requests} requests failed"
    else:
        return ""
    fault += f" with {level.label}" + (f", the cache {usage:.0%} full" if usage is not None else "")
    yield replace(trial, outcome="failed_under_load", reason=fault)
    return fault
