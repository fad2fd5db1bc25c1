"""How much GPU memory a model needs, and how many sequences run beside its weights: pure arithmetic, on sizes in bytes.

Where a checkpoint's config is there, its KV cache is known (`checkpoint.kv_bytes_per_token`); of a published model only the
number of weights is, and the cache is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "4-bit": 0.6}
"""Of a weight; that of 4 bits has scales, and some layers stay in bf16."""
BESIDE_BYTES = 2 << 30
"""CUDA's context, graphs and activations of an engine."""
BLOCK_TOKENS = 16
"""The KV cache of a sequence is in blocks of so many tokens."""
SEQUENCE_TOKENS = 512
"""Of a sequence, prompt and output, where no traffic was recorded: texts of up to 200 tokens and their translations."""
MOST_SEQUENCES = 256
"""Slots of an engine on a GPU by default: more are not counted."""
_KV_KIB_PER_TOKEN = ((2.0, 112), (15.0, 160), (float("inf"), 256))
"""By billions of weights up to which: the most of common shapes of that size with grouped queries, in bf16."""


@dataclass(frozen=True, slots=True)
class KvNeed:
    """The KV cache that an engine needs: for all slots at once, or for one sequence as long as the window, if that is more."""

    slots: int
    sequence_tokens: int
    window: int
    bytes_per_token: int

    @property
    def size_bytes(self) -> int:
        blocks = -(-self.sequence_tokens // BLOCK_TOKENS) + 1  # one that a step may add
        tokens = max(self.slots * blocks * BLOCK_TOKENS, self.window + BLOCK_TOKENS)
        return tokens * self.bytes_per_token


def kv_bytes_per_token(parameters_b: float) -> int:
    """Estimate the KV cache of a token, in bf16, for a model with so many billions of weights."""
    return next(kib for most_b, kib in _KV_KIB_PER_TOKEN if parameters_b <= most_b) * 1024


def sequences(parameters_b: float, weight_bytes: float, memory_bytes: float, sequence_tokens: int) -> int:
    """Estimate how many sequences run at once in so much GPU memory, at most `MOST_SEQUENCES`; 0: the model does not fit."""
    left = memory_bytes - BESIDE_BYTES - parameters_b * 1e9 * weight_bytes
    per_sequence = KvNeed(1, sequence_tokens, 0, kv_bytes_per_token(parameters_b)).size_bytes
    return max(min(int(left // per_sequence), MOST_SEQUENCES), 0)


def memory_share(weights_bytes: float, kv_cache_bytes: int, gpu_bytes: float) -> float:
    """Return the share of a GPU's memory that an engine with this KV cache takes, at most 1."""
    return min(round((weights_bytes + kv_cache_bytes + BESIDE_BYTES) / gpu_bytes, 3), 1.0)
