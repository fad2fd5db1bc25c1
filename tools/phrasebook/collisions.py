"""Finds where translation would not be a function: one text in one language, two different texts in another.

A model cannot learn such a pair, so the data may hold none. Three looks: patterns that differ only in slots whose
values overlap, lexicon entries of one class that share a text, and a sample of sentences for what only shows when
filled. Nothing here decides which side of a collision is wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.corpus import Corpus, Pattern
from tools.phrasebook.generator import Drawer
from tools.phrasebook.render import render
from tools.phrasebook.values import LISTED_KINDS, listed_values

_NUMBERS = frozenset({"int", "digit", "room"})
_NAMES = frozenset({"name", "company"})


@dataclass(frozen=True, slots=True)
class Collision:
    """`text` in `language` stands for both `first` and `second`."""

    language: str
    text: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.language} {self.text!r}: {self.first} | {self.second}"


def collisions(corpus: Corpus) -> list[Collision]:
    """Every collision that the data shows without being filled, patterns first."""
    return [*_pattern_collisions(corpus), *_lexicon_collisions(corpus)]


def sampled_collisions(corpus: Corpus, sentences: int, seed: int) -> list[Collision]:
    """Collisions among that many random sentences, compared without regard to capitals."""
    rng = Random(seed)
    drawer = Drawer(corpus, "train", rng)
    known: list[dict[str, tuple[tuple[str, ...], Pattern]]] = [{} for _ in LANGUAGES]
    found: dict[tuple[str, str, str], Collision] = {}
    for _ in range(sentences):
        pattern = rng.choice(corpus.patterns)
        filling, _ = drawer.fill(pattern, tag_share=0.0)
        texts = tuple(render(filling, index).casefold() for index in range(len(LANGUAGES)))
        for index, language in enumerate(LANGUAGES):
            other, rival = known[index].setdefault(texts[index], (texts, pattern))
            if other != texts:
                key = (language, *sorted((rival.name, pattern.name)))
                found.setdefault(key, Collision(language, texts[index], str(other), str(texts)))  # type: ignore[arg-type]
    return list(found.values())


def _pattern_collisions(corpus: Corpus) -> Iterator[Collision]:
    values = _values(corpus)
    for index, language in enumerate(LANGUAGES):

        def shape(pattern: Pattern, index: int = index) -> str:
            return pattern.templates[index].wildcard().casefold()

        for text, group in groupby(sorted(corpus.patterns, key=shape), key=shape):
            for first, second in combinations(group, 2):
                if _overlap(first, second, index, values) and _differ(first, second):
                    yield Collision(language, text, first.name, second.name)


def _differ(first: Pattern, second: Pattern) -> bool:
    """Whether the two say something different in some language, apart from the kinds of their slots."""
    return any(a.wildcard() != b.wildcard() for a, b in zip(first.templates, second.templates, strict=True)) or any(
        a.abstract() == b.abstract() for a, b in zip(first.templates, second.templates, strict=True)
    )


def _overlap(first: Pattern, second: Pattern, index: int, values: Mapping[str, tuple[frozenset[str], ...]]) -> bool:
    """Whether some values make both patterns the same text in the language at `index`."""
    for one, other in zip(first.templates[index].slots, second.templates[index].slots, strict=True):
        if one.kind == other.kind or {one.kind, other.kind} <= _NUMBERS or {one.kind, other.kind} <= _NAMES:
            continue
        if one.kind not in values or other.kind not in values:
            return False
        if not values[one.kind][index] & values[other.kind][index]:
            return False
    return True


def _values(corpus: Corpus) -> dict[str, tuple[frozenset[str], ...]]:
    """The texts of every listed kind, by language."""
    kinds = {**corpus.lexicon, **{kind: listed_values(kind) for kind in LISTED_KINDS}}
    return {
        kind: tuple(frozenset(value.texts[index] for value in values) for index in range(len(LANGUAGES)))
        for kind, values in kinds.items()
    }


def _lexicon_collisions(corpus: Corpus) -> Iterator[Collision]:
    for kind, values in corpus.lexicon.items():
        for first, second in combinations(values, 2):
            for index, language in enumerate(LANGUAGES):
                if first.texts[index].casefold() == second.texts[index].casefold():
                    yield Collision(language, first.texts[index], f"{kind} {first.texts}", f"{kind} {second.texts}")
