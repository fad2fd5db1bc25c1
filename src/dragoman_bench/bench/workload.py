"""What is sent: texts with their languages and lengths, made up (`uniform`, `variable`) or read from a file.

A workload gives items for one measurement at a time. The same seed gives the same lengths, pairs and order to every
measurement, so that load levels compare; a made-up workload gives each measurement other texts, so that neither a
translation memory nor a prefix cache answers in the engine's place. A file's texts are what they are.

Knows nothing of when items are sent (`arrivals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Protocol

from dragoman.errors import ConfigError
from dragoman_bench.bench.pairs import Pair, choose, describe
from dragoman_bench.bench.texts import Texts, TokensOf


@dataclass(frozen=True, slots=True)
class Item:
    """One text to translate. `source_tokens` is measured; `wanted_tokens` what the generator was asked for."""

    text: str
    source: str | None
    target: str
    source_tokens: int
    wanted_tokens: int | None = None
    output_tokens: int | None = None  # forced: with dummy weights, lengths mean nothing
    at_s: float | None = None  # traces only

    @property
    def pair(self) -> tuple[str | None, str]:
        return self.source, self.target


class Workload(Protocol):
    """`items` gives `count` of them for the measurement numbered `variation`; asked again, the same ones."""

    @property
    def description(self) -> str: ...

    @property
    def size(self) -> int | None:
        """How many items there are before they repeat; None: as many as asked for."""
        ...

    def items(self, count: int, variation: int) -> tuple[Item, ...]: ...

    def samples(self) -> tuple[Item, ...]:
        """One item of each language pair."""
        ...


@dataclass(frozen=True, slots=True)
class OutputRatio:
    """Forced output lengths: source tokens times a ratio drawn evenly from `low..high`."""

    low: float
    high: float

    def draw(self, source_tokens: int, random: Random) -> int:
        return max(1, round(source_tokens * random.uniform(self.low, self.high)))


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Generated texts whose lengths lie log-evenly in `low..high` tokens: as many of 10 to 20 as of 100 to 200, so
    short and long are mixed as in messages. `low == high` is uniform."""

    name: str
    low: int
    high: int
    pairs: tuple[Pair, ...]
    texts: Callable[[int], Texts]  # by seed
    tokens_of: TokensOf
    tokens_are: str
    seed: int = 0
    ratio: OutputRatio | None = None

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ConfigError(f"token lengths {self.low}..{self.high} are not a range", param="tokens")

    @property
    def description(self) -> str:
        lengths = f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"
        forced = f", outputs forced to {self.ratio.low:g}..{self.ratio.high:g} × source" if self.ratio else ""
        return f"{self.name}: {lengths} source tokens ({self.tokens_are}), {describe(self.pairs)}{forced}"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        texts = self.texts(Random(f"{self.seed}/{variation}").getrandbits(32))
        self._check_languages(texts)
        shape = Random(self.seed)  # lengths, pairs and ratios: the same in every variation
        return tuple(self._item(texts, shape) for _ in range(count))

    def samples(self) -> tuple[Item, ...]:
        texts = self.texts(self.seed)
        self._check_languages(texts)
        return tuple(self._sample(pair, texts.make(str(pair.source), self.low)) for pair in self.pairs)

    def _sample(self, pair: Pair, text: str) -> Item:
        return Item(text, pair.source, pair.target, self.tokens_of(text), self.low, 8 if self.ratio else None)

    def _item(self, texts: Texts, shape: Random) -> Item:
        pair = choose(self.pairs, shape)
        wanted = round(exp(shape.uniform(log(self.low), log(self.high))))
        text = texts.make(str(pair.source), wanted)
        tokens = self.tokens_of(text)
        ratio_seed = Random(shape.getrandbits(32))  # drawn always, so that forcing changes no text
        output = self.ratio.draw(tokens, ratio_seed) if self.ratio else None
        return Item(text, pair.source, pair.target, tokens, wanted, output)

    def _check_languages(self, texts: Texts) -> None:
        for pair in self.pairs:
            if pair.source not in texts.languages:
                known = ", ".join(texts.languages)
                raise ConfigError(f"no made-up texts for the pair {pair.label}: sources are {known}", param="pairs")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Texts of a file, in its order; never more than it has. `note`: what must be known of them."""

    name: str
    recorded: tuple[Item, ...]
    note: str = ""

    @property
    def description(self) -> str:
        return f"{self.name}: {len(self.recorded)} texts" + (f" ({self.note})" if self.note else "")

    @property
    def size(self) -> int:
        return len(self.recorded)

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        return self.recorded[:count]

    def samples(self) -> tuple[Item, ...]:
        return tuple({item.pair: item for item in reversed(self.recorded)}.values())
