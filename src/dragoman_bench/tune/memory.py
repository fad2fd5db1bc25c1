"""The KV cache that a demand needs: computed, and checked under more clients than the peak and longer texts.

Needed is the most that the peak's texts took in any simulated draw, each at its full length, with a margin; and no less than
the check will hold. vLLM allocates the cache in blocks, and does not start with less than one sequence of its window. Bytes
of a token and the present capacity are what the running server reports. The check holds where nothing is preempted and
nothing fails for lack of memory; else larger sizes are tried, then the server's own, then fewer sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Literal

from dragoman_bench.bench.results import whole
from dragoman_bench.tune.compare import Attempt, Best, Context
from dragoman_bench.tune.demand import ROUNDS, Demand
from dragoman_bench.tune.ladder import check_level
from dragoman_bench.tune.outcome import Choice, Hardware, Knobs, LevelResult, Memory, Search, Trial

MARGIN = 1.25
LARGER = (1.6, 2.5)
"""Times the computed size, where that did not hold."""
BLOCK_TOKENS = {"cuda": 16, "cpu": 128}  # vLLM's
MOST_OF_A_GPU = 0.95
MOST_OF_A_MACHINE = 0.5  # its memory is shared with everything else
_NEARLY_FULL = 0.9  # below it, requests do not fail for lack of cache
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizer:
    """Sizes for one demand, from what the server of `trial` reports."""

    demand: Demand
    hardware: Hardware
    trial: Trial

    def size(self, slots: int, factor: float = 1.0) -> Memory:
        """For so many sequences; `factor` times as much where a check has shown that it is too little."""
        needed, wanted, text = self._tokens(slots, factor)
        cache = self.trial.kv_cache
        setting: Literal["kv_cache_memory_bytes", "gpu_memory_utilization"] = (
            "kv_cache_memory_bytes" if self.hardware.device == "cpu" else "gpu_memory_utilization"
        )
        capacity, per_token = (cache.tokens, cache.bytes_per_token) if cache else (None, None)
        if capacity is None or per_token is None:
            because = f"{text}. The server does not report the size of a token: its own memory setting is kept"
            return Memory(needed, MARGIN, wanted, capacity, per_token, setting, None, None, because)
        given = min(wanted, self.most_tokens() or wanted)
        if given < wanted:
            text += f", more than the {given:,} that fit"
        because = f"{text}. A token takes {per_token / 1024:,.1f} KiB; the measured server had {capacity:,}"
        saved = round((capacity - given) * per_token)
        value = self._value(given, capacity, per_token)
        return Memory(needed, MARGIN, wanted, capacity, per_token, setting, value, saved, because)

    def most_tokens(self) -> int | None:
        """What fits this hardware; None where the server does not report enough to compute it."""
        cache = self.trial.kv_cache
        if cache is None or cache.bytes_per_token is None:
            return None
        if self.hardware.device == "cpu":
            return max(cache.tokens, floor(MOST_OF_A_MACHINE * self.hardware.memory_bytes / cache.bytes_per_token))
        more = MOST_OF_A_GPU - (self.trial.gpu_memory_utilization or MOST_OF_A_GPU)
        return cache.tokens + floor(max(0.0, more) * self.hardware.memory_bytes / cache.bytes_per_token)

    def slots_that_fit(self, slots: int) -> int:
        """The most sequences, at most `slots` and at least one, whose cache fits."""
        most, low, high = self.most_tokens(), 1, slots
        if most is None or self._tokens(slots, 1.0)[1] <= most:
            return slots
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._tokens(middle, 1.0)[1] <= most else (low, middle - 1)
        return low

    def _tokens(self, slots: int, factor: float) -> tuple[int, int, str]:
        """Needed, wanted, and why so many. Texts beyond the sequences wait outside the cache."""
        peak = min(self.demand.levels.peak, slots)
        checked = min(check_level(self.demand).clients, slots)
        needed = round(self.demand.peak_tokens(peak) * self._excess()) + self._blocks(peak)
        check = round(self.demand.long_tokens(checked) * self._excess()) + self._blocks(checked)
        window = whole(self.trial.engine.get("max_model_len")) or self.demand.shape.window or 0
        reasons = {
            ceil(MARGIN * needed): "with the margin",
            check: f"for the check with {checked} at once and longer texts",
            window: "at least, for one sequence of the model's window",
        }
        wanted = max(reasons)
        text = f"{needed:,} tokens are needed by {peak} texts at once, the most in {ROUNDS:,} draws"
        text += f"; {ceil(wanted * factor):,} {reasons[wanted]}"
        if factor != 1:
            text += f", {factor:g} times as much as computed, as that did not hold"
        return needed, ceil(wanted * factor), text

    def _blocks(self, texts: int) -> int:
        """The last block of each sequence is not full."""
        return self.demand.sequences(texts) * BLOCK_TOKENS[self.hardware.device]

    def _excess(self) -> float:
        """How far the cache's measured use exceeded the simulation, whose lengths may be estimates."""
        cache, busy = self.trial.kv_cache, self.demand.levels.busy
        used = max((one.peak_kv_cache_usage or 0.0 for one in self.trial.results if one.level.draw == "mix"), default=0)
        if cache is None or not used:
            return 1.0
        return max(1.0, (used * cache.tokens - self._blocks(busy)) / self.demand.peak_tokens(busy))

    def _value(self, tokens: int, capacity: int, per_token: float) -> float | int | None:
        if self.hardware.device == "cpu":
            return ceil(tokens * per_token / _MIB) * _MIB
        now = self.trial.gpu_memory_utilization
        if now is None:
            return None
        share = now - (capacity - tokens) * per_token / self.hardware.memory_bytes
        return min(MOST_OF_A_GPU, max(0.01, ceil(share * 100 - 1e-9) / 100))


def sizer(context: Context) -> Sizer:
    return Sizer(context.demand, context.hardware, context.ladder_trial)


def confirm_memory(context: Context, best: Best) -> Search[Best]:
    """The best with its memory sized and checked, on a server of its own where no trial has checked it."""
    if best.memory is not None and best.memory.checked != "not checked":
        return best
    sized = best.sized(best.memory or sizer(context).size(best.slots))
    assert sized.memory is not None
    attempt = Attempt("memory", "memory", sized.knobs, f"the size that the demand needs: {sized.memory.because}")
    checked = yield from check_memory(context, sized, attempt)
    return replace(checked, trial=best.trial)


def check_memory(
    context: Context, best: Best, attempt: Attempt, phase: Literal["memory", "recommended"] = "memory"
) -> Search[Best]:
    """The best with its memory checked on the attempt's server, and with more memory where it does not hold."""
    level, memory = check_level(context.demand), best.memory or _own_size(context, best)
    trial = yield attempt.measure(level, 0, f"memory: {level.label}", phase)
    fault = yield from _fault_of(context, trial)
    names = [*memory.trials, trial.name]
    if trial.outcome in ("interrupted", "skipped"):
        return best.sized(replace(memory, checked="not checked", trials=tuple(names)))
    if not fault:
        return best.sized(replace(memory, checked="held", trials=tuple(names)))
    for size, knobs in _larger_sizes(context, best):
        fewer = knobs.max_num_seqs != best.slots
        change = "fewer sequences, as there is no more memory" if fewer else "a larger cache"
        why = f"{names[-1]} did not hold ({fault}): {change}"
        trial = yield Attempt(f"{phase}-{len(names) + 1}", phase, knobs, why).measure(level, 0)
        names.append(trial.name)
        if trial.outcome in ("interrupted", "skipped"):
            break
        fault = yield from _fault_of(context, trial)
        if not fault:
            if fewer and knobs.max_num_seqs is not None:
                best = best.choose(Choice("max_num_seqs", knobs.max_num_seqs, why))
            return _with_size(best, replace(size, checked="held", trials=tuple(names)))
    return _with_size(best, replace(_own_size(context, best), checked="did not hold", trials=tuple(names)))


def _larger_sizes(context: Context, best: Best) -> Iterator[tuple[Memory, Knobs]]:
    """What is tried after the computed size."""
    most, own, last = sizer(context).most_tokens(), _own_size(context, best), best.knobs
    for factor in LARGER:
        size = sizer(context).size(best.slots, factor)
        if size.value is None or most is None or size.wanted_tokens >= most:
            continue
        knobs = _with_size(best, size).knobs
        if knobs != last:  # a share of a GPU is rounded to hundredths: a little more may be the same
            yield size, knobs
        last = knobs
    bare = _with_size(best, own).knobs
    if bare != best.knobs:
        yield own, bare
    if best.slots > 1:
        yield own, replace(bare, max_num_seqs=best.slots // 2)


def _own_size(context: Context, best: Best) -> Memory:
    """As the ladder's server had it."""
    size = sizer(context).size(best.slots)
    value = getattr(context.ladder.setup.knobs, size.setting)
    return replace(size, value=value, saved_bytes=None, because=f"{size.because}. The server's own size is kept")


def _with_size(best: Best, memory: Memory) -> Best:
    """The best with this memory setting alone; where it has no value, with the server's own."""
    kept = tuple(one for one in best.choices if one.name not in ("gpu_memory_utilization", "kv_cache_memory_bytes"))
    return replace(best, choices=kept).sized(memory)


def _fault_of(context: Context, trial: Trial) -> Search[str]:
    """Why the size did not hold, recorded where the trial does not say it itself; empty where it held."""
    if trial.outcome != "measured":
        return trial.reason or trial.ending
    result = trial.at(check_level(context.demand))[-1]
    fault = _under_load(result)
    if fault:
        yield replace(trial, outcome="failed_under_load", reason=fault)
    return fault


def _under_load(result: LevelResult) -> str:
    usage = result.peak_kv_cache_usage
    cache = f", the cache {usage:.0%} full" if usage is not None else ""
    if result.preemptions:
        return f"{result.preemptions} preemptions with {result.level.label}{cache}"
    if result.failed and (usage is None or usage >= _NEARLY_FULL):
        return f"{result.failed} of {result.requests} requests failed with {result.level.label}{cache}"
    return ""
