"""The demand that a tune is for: how long texts are, how many come at once, and how many tokens that makes.

A text takes its prompt (its tokens and those around it) and its output; a long text is served in pieces, each with a prompt
of its own, all at once. Sums over many are simulated: draws of so many texts, the largest of which is told beside the worst
case. Among the texts that are there at a moment long ones are more frequent than among those that come, as they stay longer.
Knows nothing of files (`trace`), of servers or of what memory a token takes (`sizing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import nearest_rank
from dragoman_bench.bench.workload import Item, Workload
from dragoman_bench.tune.draws import longest
from dragoman_bench.tune.outcome import DemandSummary, Lengths, Levels
from dragoman_bench.tune.points import Draw

ROUNDS = 2000  # of the simulation: the largest of so many draws is beyond its 99.9th percentile
UNKNOWN_RATIO = 1.5  # output tokens for each source token, until it was measured: more than most directions take


@dataclass(frozen=True, slots=True)
class PromptShape:
    """What the server makes of a text. `overhead`: prompt tokens around it; `piece_tokens`: source tokens of the longest
    piece that it is served in, None: never cut; `window`: tokens that a prompt and its output may share."""

    overhead: int = 0
    piece_tokens: int | None = None
    window: int | None = None

    def pieces(self, source_tokens: int) -> int:
        return 1 if self.piece_tokens is None else max(1, ceil(source_tokens / self.piece_tokens))


@dataclass(frozen=True, slots=True)
class Demand:
    """Texts with their lengths, and levels of concurrency. `outputs`: expected output tokens, a number a text."""

    description: str
    items: tuple[Item, ...]
    outputs: tuple[int, ...]
    levels: Levels
    shape: PromptShape
    workloads: Mapping[Draw, Workload]
    seed: int = 0
    output_estimated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def prompts(self) -> list[int]:
        """Prompt tokens of each text, all its pieces together."""
        return [item.source_tokens + self.shape.overhead * self.shape.pieces(item.source_tokens) for item in self.items]

    @property
    def totals(self) -> list[int]:
        """Prompt and output tokens of each text."""
        return [prompt + output for prompt, output in zip(self.prompts, self.outputs, strict=True)]

    def sequences(self, texts: int) -> int:
        """How many sequences so many texts are, at most in 99 of 100 draws."""
        pieces = [self.shape.pieces(item.source_tokens) for item in self.items]
        if max(pieces) == 1:
            return texts
        return ceil(float(np.percentile(self._sums(pieces, self._present(), texts), 99)))

    def peak_tokens(self, texts: int) -> int:
        """The most tokens that so many texts took in any of the draws, each at its full length."""
        return int(self._sums(self.totals, self._present(), texts).max())

    def prompt_tokens(self, texts: int) -> int:
        """The most that the prompts of so many took, which come at once: what one step could hold."""
        return int(self._sums(self.prompts, None, texts).max())

    def long_tokens(self, texts: int) -> int:
        """The most that so many texts take while they are served, half of those sent being of the longest tenth: each
        one's prompt, and of its output a part between nothing and all."""
        tail = longest(self.totals)
        sent = np.full(len(self.items), 1 / len(self.items))
        sent[tail] += 1 / len(tail)
        random = self._random()
        chosen = random.choice(len(self.items), (ROUNDS, texts), p=_shares(sent * self._present()))
        held = np.asarray(self.prompts)[chosen] + np.asarray(self.outputs)[chosen] * random.random((ROUNDS, texts))
        return int(held.sum(axis=1).max())

    def with_output_ratio(self, ratio: float) -> Demand:
        """The same with outputs of `ratio` tokens for each source token, as it was measured. Recorded ones are kept."""
        if not self.output_estimated:
            return self
        return replace(self, outputs=tuple(max(1, round(ratio * item.source_tokens)) for item in self.items))

    def summary(self) -> DemandSummary:
        totals = self.totals
        return DemandSummary(
            description=self.description,
            texts=len(self.items),
            source=_lengths([item.source_tokens for item in self.items]),
            output=_lengths(self.outputs),
            levels=self.levels,
            prompt_overhead=self.shape.overhead,
            longest_sequence=max(totals),
            peak_tokens_drawn=self.peak_tokens(self.levels.peak),
            peak_tokens_worst=self.levels.peak * max(totals),
            output_estimated=self.output_estimated,
            notes=self.notes,
        )

    def _present(self) -> np.ndarray:
        """How likely a text is among those that are there: one of twice the output stays twice as long."""
        return _shares(np.asarray(self.outputs, dtype=float))

    def _sums(self, sizes: Sequence[int], shares: np.ndarray | None, texts: int) -> np.ndarray:
        return self._random().choice(np.asarray(sizes), (ROUNDS, texts), p=shares).sum(axis=1)

    def _random(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def parse_clients(text: str) -> Levels:
    """`2-25`: usually 2 at once, 25 at busy times; `25`: always. Raises ConfigError."""
    low, dash, high = text.partition("-")
    numbers = [int(part) if part.strip().isdigit() else 0 for part in ((low, high) if dash else (low, low))]
    if not 1 <= numbers[0] <= numbers[1]:
        raise ConfigError(f"clients {text!r} are not like 2-25 (usually, at busy times) or 25", param="clients")
    return Levels(numbers[0], numbers[1], numbers[1], stated=True)


def counted(in_flight: Sequence[int]) -> Levels:
    """Median, 95th percentile and maximum of how many texts were in the house when each came, itself included."""
    ordered = sorted(in_flight)
    median, busy = (round(nearest_rank(ordered, percent)) for percent in (50, 95))
    return Levels(median, busy, ordered[-1])


def expected_outputs(items: Sequence[Item]) -> tuple[tuple[int, ...], bool]:
    """Output tokens of each text, and whether any is an estimate. Where some are recorded, their ratio is used."""
    known = [(item.source_tokens, item.output_tokens) for item in items if item.output_tokens is not None]
    source, output = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    ratio = output / source if source else UNKNOWN_RATIO
    outputs = tuple(item.output_tokens or max(1, round(ratio * item.source_tokens)) for item in items)
    return outputs, not known


def _lengths(tokens: Sequence[int]) -> Lengths:
    ordered = sorted(tokens)
    p50, p95, p99 = (round(nearest_rank(ordered, percent)) for percent in (50, 95, 99))
    return Lengths(sum(ordered) / len(ordered), p50, p95, p99, ordered[-1])
