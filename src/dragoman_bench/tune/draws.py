"""What a tune sends: texts drawn from a demand so that every stretch of them has the demand's mix of lengths.

A measurement ends with time, not with a count, and lasts for some hundred texts; drawn freely, the mean length of so few
moves by several percent, and with it every rate. So draws are stratified: of any twenty in a row one is from each
twentieth of the lengths. Knows nothing of levels, servers or caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from random import Random

from dragoman_bench.bench.texts import Texts, TokensOf
from dragoman_bench.bench.workload import Item, MadeUp, Pair, Workload
from dragoman_bench.tune.points import Draw

STRATA = 20
LONG_SHARE = 0.1  # the longest tenth is what "long" means


def stratified(sizes: Sequence[int], random: Random) -> Iterator[int]:
    """Places in `sizes`, without end: each twentieth by size once in a run of twenty, each place as often as the others
    of its twentieth."""
    ordered = sorted(range(len(sizes)), key=lambda place: sizes[place])
    count = min(STRATA, len(ordered))
    edges = [len(ordered) * number // count for number in range(count + 1)]
    strata = [ordered[low:high] for low, high in pairwise(edges)]
    at_hand: list[list[int]] = [[] for _ in strata]
    while True:
        run: list[int] = []
        for stratum, left in zip(strata, at_hand, strict=True):
            if not left:
                left.extend(random.sample(stratum, len(stratum)))
            run.append(left.pop())
        random.shuffle(run)
        yield from run


def longest(sizes: Sequence[int]) -> list[int]:
    """Places of the longest tenth, one at least."""
    ordered = sorted(range(len(sizes)), key=lambda place: sizes[place])
    return ordered[-max(1, round(len(ordered) * LONG_SHARE)) :]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Recorded texts in a drawn order, another one for each variation; they repeat when all were sent."""

    name: str
    recorded: tuple[Item, ...]
    sizes: tuple[int, ...]  # by item: what the draw is stratified by
    seed: int = 0

    @property
    def description(self) -> str:
        return f"{self.name}: drawn from {len(self.recorded)} texts"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        places = stratified(self.sizes, Random(f"{self.seed}/{variation}"))
        return tuple(self.recorded[place] for place in islice(places, count))

    def samples(self) -> tuple[Item, ...]:
        return tuple({item.pair: item for item in reversed(self.recorded)}.values())


@dataclass(frozen=True, slots=True)
class Written:
    """Texts made up at recorded lengths: the same lengths in the same order in every variation, other texts. A source
    language in which none can be made up is replaced (`stand_in`)."""

    name: str
    recorded: tuple[Item, ...]  # with lengths; their texts are not used
    sizes: tuple[int, ...]
    texts: Callable[[int], Texts]  # by seed
    tokens_of: TokensOf
    seed: int = 0

    @property
    def description(self) -> str:
        return f"{self.name}: made up at lengths drawn from {len(self.recorded)} recorded texts"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        texts = self.texts(Random(f"{self.seed}/{variation}").getrandbits(32))
        places = stratified(self.sizes, Random(self.seed))
        return tuple(self._item(texts, self.recorded[place]) for place in islice(places, count))

    def samples(self) -> tuple[Item, ...]:
        texts = self.texts(self.seed)
        return tuple({item.pair: self._item(texts, item) for item in reversed(self.recorded)}.values())

    def _item(self, texts: Texts, shape: Item) -> Item:
        source = stand_in(shape.source, shape.target, texts.languages)
        text = texts.make(source, shape.source_tokens)
        return replace(
            shape, text=text, source=source, source_tokens=self.tokens_of(text), wanted_tokens=shape.source_tokens
        )


def stand_in(source: str | None, target: str, languages: Sequence[str]) -> str:
    """The source itself where texts can be made up in it, else the first language that is not the target."""
    if source in languages:
        return str(source)
    return next(language for language in languages if language != target)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Of both in turn."""

    name: str
    first: Workload
    second: Workload

    @property
    def description(self) -> str:
        return f"{self.name}: half {self.first.description}; half {self.second.description}"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        half = (count + 1) // 2
        both = zip(self.first.items(half, variation), self.second.items(half, variation), strict=True)
        return tuple(item for pair in both for item in pair)[:count]

    def samples(self) -> tuple[Item, ...]:
        return self.first.samples()


def drawn(
    name: str,
    recorded: tuple[Item, ...],
    sizes: tuple[int, ...],
    seed: int,
    written: tuple[Callable[[int], Texts], TokensOf] | None,
) -> dict[Draw, Workload]:
    """A trace as it is, and half of it from its longest tenth. `written`: how its texts are made up, where it has none."""

    def over(places: Sequence[int], told: str) -> Workload:
        items, lengths = tuple(recorded[place] for place in places), tuple(sizes[place] for place in places)
        if written is None:
            return Drawn(told, items, lengths, seed)
        return Written(told, items, lengths, *written, seed=seed)

    mix = over(range(len(recorded)), name)
    return {"mix": mix, "long": Mixed(f"{name}, long", mix, over(longest(sizes), "the longest tenth"))}


def made_up(workload: MadeUp) -> dict[Draw, Workload]:
    """A made-up workload as it is, and half of it from its longest tenth: lengths lie log-evenly, so the tenth does too."""
    low = round(workload.low * (workload.high / workload.low) ** (1 - LONG_SHARE))
    tail = replace(workload, name="the longest tenth", low=low, seed=workload.seed + 1)
    return {"mix": workload, "long": Mixed(f"{workload.name}, long", workload, tail)}


def pairs_without_texts(recorded: Sequence[Item], languages: Sequence[str]) -> list[str]:
    """Directions whose source no text can be made up in, for people."""
    return sorted({Pair(*item.pair).label for item in recorded if item.source not in languages})
