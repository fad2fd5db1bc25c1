"""The KV cache that a demand needs, and the setting that gives it.

Needed is the most that the peak's texts took in any simulated draw, each at its full length, with a margin; and no less
than what the check load (more clients, longer texts) will hold, so that a size is not tried that is known to fail. vLLM
hands the cache out in blocks, and does not start with less than one sequence of its window. What a token takes and what
there is now are the running server's own numbers. Knows nothing of trials' order (`knobs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Literal

from dragoman_bench.bench.results import whole
from dragoman_bench.tune.demand import ROUNDS, Demand
from dragoman_bench.tune.ladder import check_level
from dragoman_bench.tune.outcome import Memory
from dragoman_bench.tune.points import Knobs, Place, Trial

MARGIN = 1.25
BLOCK_TOKENS = {"cuda": 16, "cpu": 128}  # vLLM's, for either kind of device
MOST_OF_A_GPU = 0.95
MOST_OF_A_MACHINE = 0.5  # its memory is shared with everything else
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizer:
    """Sizes for one demand, from what one running server says."""

    demand: Demand
    place: Place
    trial: Trial

    def size(self, slots: int, factor: float = 1.0) -> Memory:
        """For so many slots; `factor` times as much where a check has shown that it is too little."""
        needed, wanted, told = self._tokens(slots, factor)
        cache, setting = self.trial.kv_cache, self._setting
        capacity, per_token = (cache.tokens, cache.bytes_per_token) if cache else (None, None)
        if factor != 1:
            told += f", {factor:g} times as much as computed, as that did not hold"
        if capacity is None or per_token is None:
            because = f"{told}. The server does not say what a token takes: its own size is kept"
            return Memory(needed, MARGIN, wanted, capacity, per_token, setting, None, None, because)
        given = min(wanted, self.most_tokens() or wanted)
        if given < wanted:
            told += f", more than the {given:,} that there is room for"
        value = self._value(given, capacity, per_token)
        saved = round((capacity - given) * per_token)
        because = f"{told}. A token takes {per_token / 1024:,.1f} KiB; the server measured had {capacity:,}"
        return Memory(needed, MARGIN, wanted, capacity, per_token, setting, value, saved, because)

    def most_tokens(self) -> int | None:
        """What there is room for; None where the server does not say enough."""
        cache = self.trial.kv_cache
        if cache is None or cache.bytes_per_token is None:
            return None
        if self.place.device == "cpu":
            return max(cache.tokens, floor(MOST_OF_A_MACHINE * self.place.memory_bytes / cache.bytes_per_token))
        more = MOST_OF_A_GPU - (self.trial.gpu_memory_utilization or MOST_OF_A_GPU)
        return cache.tokens + floor(max(0.0, more) * self.place.memory_bytes / cache.bytes_per_token)

    def slots_that_fit(self, slots: int) -> int:
        """The most slots, at most `slots` and at least one, whose need there is room for."""
        room, low, high = self.most_tokens(), 1, slots
        if room is None or self._tokens(slots, 1.0)[1] <= room:
            return slots
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._tokens(middle, 1.0)[1] <= room else (low, middle - 1)
        return low

    @property
    def _setting(self) -> Literal["kv_cache_memory_bytes", "gpu_memory_utilization"]:
        return "kv_cache_memory_bytes" if self.place.device == "cpu" else "gpu_memory_utilization"

    def _tokens(self, slots: int, factor: float) -> tuple[int, int, str]:
        """Needed, wanted, and why so many. Texts beyond the slots wait outside the cache."""
        peak = min(self.demand.levels.peak, slots)
        checked = min(check_level(self.demand).clients, slots)
        needed = round(self.demand.peak_tokens(peak) * self._beyond()) + self._blocks(peak)
        check = round(self.demand.long_tokens(checked) * self._beyond()) + self._blocks(checked)
        reasons = {
            ceil(MARGIN * needed): "with the margin",
            check: f"for the check with {checked} at once and longer texts",
            self._window(): "at least, as vLLM wants room for one sequence of its window",
        }
        wanted = max(reasons)
        told = f"{needed:,} tokens are needed by {peak} texts at once, in the fullest of {ROUNDS:,} draws"
        return needed, ceil(wanted * factor), f"{told}; {ceil(wanted * factor):,} {reasons[wanted]}"

    def _blocks(self, texts: int) -> int:
        """The last block of each sequence is not full."""
        return self.demand.sequences(texts) * BLOCK_TOKENS[self.place.device]

    def _beyond(self) -> float:
        """How far what the server's cache really held went beyond the simulation: a demand's lengths may be estimates."""
        cache, busy = self.trial.kv_cache, self.demand.levels.busy
        used = max(
            (seen.peak_kv_cache_usage or 0.0 for seen in self.trial.seen if seen.level.draw == "mix"), default=0.0
        )
        if cache is None or not used:
            return 1.0
        return max(1.0, (used * cache.tokens - self._blocks(busy)) / self.demand.peak_tokens(busy))

    def _window(self) -> int:
        told = whole(self.trial.engine.get("max_model_len"))
        return told or self.demand.shape.window or 0

    def _value(self, tokens: int, capacity: int, per_token: float) -> float | int | None:
        if self.place.device == "cpu":
            return ceil(tokens * per_token / _MIB) * _MIB
        now = self.trial.gpu_memory_utilization
        if now is None:
            return None
        share = now - (capacity - tokens) * per_token / self.place.memory_bytes
        return min(MOST_OF_A_GPU, max(0.01, ceil(share * 100 - 1e-9) / 100))


def with_memory(knobs: Knobs, memory: Memory | None) -> Knobs:
    """The knobs with the size in them; unchanged where none could be computed."""
    if memory is None or memory.value is None:
        return knobs
    return replace(knobs, **{memory.setting: memory.value})
