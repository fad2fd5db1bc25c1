"""The stream of aligned messages that trains and tests the packaged model and loads a server in a benchmark.

`Generator(split, seed)` returns the same messages for the same seed and data. What the held-out side guarantees is in
`split`: no copied value, filling or composition of a held-out message occurs in training. Messages have one to ten
sentences, mostly of one topic; some carry inline tags, placeholders or emoji.
"""

from collections.abc import Callable, Sequence
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.clauses.sampler import Clauses
from tools.phrasebook.corpus import Corpus, CorpusError, Pattern, packaged
from tools.phrasebook.render import CANONICAL, PLAIN, Filling, Layout, Message, Style, compose, render
from tools.phrasebook.split import Fillings, Split, composition_held_out, value_held_out
from tools.phrasebook.values import (
    COPIED_KINDS,
    LISTED_KINDS,
    LOCALISED_KINDS,
    Value,
    draw_copied,
    draw_localised,
    listed_values,
    stock,
)

_TRIES = 60
_PLACEHOLDER_SHARE = 0.05
_REPLACEABLE = frozenset({"name", "company", "int", "room", "code", "file", "url", "email", "version", "phone"})
_WRAP_SHARE = 0.15
_TAG_LETTERS = "bbaaigggggutsp"


class Drawer:
    """A stream of filled patterns from one corpus and one side of the split."""

    def __init__(self, corpus: Corpus, split: Split, rng: Random) -> None:
        self._lexicon = corpus.lexicon
        self._fillings = Fillings(corpus)
        self._held_out = split == "heldout"
        self._rng = rng
        self._stock = stock()
        self._unsplittable: set[str] = set()

    def fill(self, pattern: Pattern, tag_share: float) -> tuple[Filling, bool]:
        """Values for `pattern` on this side of the split, and whether training never fills it so.

        On the held-out side a pattern may leave nothing to hold out; then the filling is one that training knows.
        """
        values = self._values(pattern, {})
        if values and pattern.templates[0].text not in self._unsplittable:
            values = self._on_this_side(pattern, values)
        novel = self._held_out and (
            pattern.held_out
            or any(value_held_out(value) for value in values.values())
            or self._fillings.held_out(pattern, values)
        )
        marked = tag_share > 0 and self._rng.random() < tag_share
        return self._marked(pattern, values) if marked else Filling(pattern, values, {}), novel

    def _on_this_side(self, pattern: Pattern, values: dict[str, Value]) -> dict[str, Value]:
        """`values`, those redrawn that are held out in combination, until the combination is on this side."""
        alone = {ref: value for ref, value in values.items() if value.split_key is not None}
        tries = _TRIES if len(alone) < len(values) else 0
        for _ in range(tries):
            if self._fillings.held_out(pattern, values) == self._held_out:
                return values
            values = self._values(pattern, alone)
        if tries and not self._held_out:
            raise CorpusError(f"{pattern.name}: the split holds out every filling")
        self._unsplittable.add(pattern.templates[0].text)
        return values

    def _values(self, pattern: Pattern, kept: dict[str, Value]) -> dict[str, Value]:
        values = dict(kept)
        for ref, kind in pattern.kinds.items():
            if ref in kept:
                continue
            value = self._value(kind)
            while any(a == b for other in values.values() for a, b in zip(value.texts, other.texts, strict=True)):
                value = self._value(kind)
            values[ref] = value
        return values

    def _value(self, kind: str) -> Value:
        if kind in _REPLACEABLE and self._rng.random() < _PLACEHOLDER_SHARE:
            kind = "placeholder"
        value = self._draw(kind)
        while value.split_key and value_held_out(value) != self._held_out:
            value = self._draw(kind)
        return value

    def _draw(self, kind: str) -> Value:
        if kind in COPIED_KINDS:
            return draw_copied(kind, self._rng, self._stock)
        if kind in LOCALISED_KINDS:
            return draw_localised(kind, self._rng)
        return self._rng.choice(self._lexicon[kind])

    def _marked(self, pattern: Pattern, values: dict[str, Value]) -> Filling:
        """A tag around one slot, among those that every language names exactly once, or around the sentence."""
        slots = [tuple(slot.ref for slot in template.slots) for template in pattern.templates]
        once = [ref for ref in values if all(refs.count(ref) == 1 for refs in slots)]
        tag = f"{self._rng.choice(_TAG_LETTERS)}{self._rng.randint(0, 9)}"
        if not once or self._rng.random() < _WRAP_SHARE:
            return Filling(pattern, values, {}, wrap=tag)
        return Filling(pattern, values, {self._rng.choice(once): tag})


_LENGTHS = (1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10)
_ONE_TOPIC_SHARE = 0.6
_NEWLINE_SHARE = 0.12
_MARKED_UP_SHARE = 0.15
_EMOJI_SHARE = 0.08
_WORD_SHARE = 0.06
_RARE_KINDS = frozenset({"url", "email", "phone", "file", "version", "code", "placeholder", "int", "company"})
_CANDIDATES = 12
_NOISY_SHARE = 0.15


class Generator:
    """Messages of one side of the split. Deterministic by `seed`; not shared between threads.

    `clause_share` of the sentences are joined from clauses; the others fill the corpus' patterns."""

    def __init__(self, split: Split, seed: int, corpus: Corpus | None = None, clause_share: float = 0.0) -> None:
        self._corpus = corpus or packaged()
        self._rng = Random(f"{split} {seed}")
        self._split: Split = split
        self._drawer = Drawer(self._corpus, split, self._rng)
        self._by_topic = _by_topic(self._corpus)
        self._weights = [_weight(pattern) for pattern in self._corpus.patterns]
        self._words = _words(self._corpus)
        self._clause_share = clause_share
        self._clauses = Clauses(split, self._rng) if clause_share else None

    def sentence(self) -> Message:
        """A message of one sentence."""
        return self.message(1)

    def message(self, sentences: int | None = None) -> Message:
        """A message of that many sentences, or of one to ten. In training a short one may be a single word."""
        count = sentences or self._rng.choice(_LENGTHS)
        if sentences is None and count == 1 and self._split == "train" and self._rng.random() < _WORD_SHARE:
            return self._word()
        fillings, novel = self._one() if count == 1 else self._many(count)
        return compose(fillings, self._layout(), novel)

    def message_of_tokens(self, language: str, tokens: int, tokens_of: Callable[[str], int]) -> Message:
        """A message of about `tokens` tokens in `language`, as `tokens_of` counts them; one sentence at least.

        Sentences are added while they bring the message closer, each the best of a few candidates; long messages may
        have more than ten.
        """
        index = LANGUAGES.index(language)
        fillings: list[Filling] = []
        missing = tokens
        while True:
            candidates = [self._fill(self._pick(1)[0])[0] for _ in range(_CANDIDATES)]
            sizes = [tokens_of(render(filling, index)) for filling in candidates]
            average = sum(sizes) / len(sizes)
            best = 0 if missing > 2 * average else min(range(len(sizes)), key=lambda i: abs(missing - sizes[i]))
            if fillings and abs(missing - sizes[best]) >= abs(missing):
                return compose(fillings, PLAIN, novel=False)
            fillings.append(candidates[best])
            missing -= sizes[best]

    def _pick(self, count: int) -> list[Pattern]:
        patterns: Sequence[Pattern] = self._corpus.patterns
        weights: Sequence[float] = self._weights
        if count > 1 and self._rng.random() < _ONE_TOPIC_SHARE:
            topic = self._rng.choices(patterns, weights)[0].topic
            patterns, weights = self._by_topic[topic]
        picked = self._rng.choices(patterns, weights, k=count)
        if clauses := self._clauses:
            picked = [clauses.sample() if self._rng.random() < self._clause_share else pattern for pattern in picked]
        return picked

    def _fill(self, pattern: Pattern, tag_share: float = 0.0) -> tuple[Filling, bool]:
        return self._drawer.fill(pattern, tag_share)

    def _tag_share(self) -> float:
        return 0.5 if self._rng.random() < _MARKED_UP_SHARE else 0.0

    def _one(self) -> tuple[list[Filling], bool]:
        """One sentence; on the held-out side a novel one, unless the corpus has none."""
        share = self._tag_share()
        filling, novel = self._fill(self._pick(1)[0], share)
        for _ in range(1000):
            if novel or self._split == "train":
                break
            filling, novel = self._fill(self._pick(1)[0], share)
        return [filling], novel

    def _many(self, count: int) -> tuple[list[Filling], bool]:
        held_out = self._split == "heldout"
        patterns = self._pick(count)
        while composition_held_out(patterns) != held_out:
            patterns = self._pick(count)
        share = self._tag_share()
        return [self._fill(pattern, share)[0] for pattern in patterns], held_out

    def _word(self) -> Message:
        value = self._rng.choice(self._words)
        texts = dict(zip(LANGUAGES, value.texts, strict=True))
        return Message(texts, texts, (), 1, novel=False)

    def _layout(self) -> Layout:
        rng = self._rng
        joint = rng.choice(("\n", "\n", "\n\n")) if rng.random() < _NEWLINE_SHARE else ""
        tail = stock().pick(rng, "emoji") if rng.random() < _EMOJI_SHARE else ""
        return Layout(joint, tail, _styles(rng))


def _weight(pattern: Pattern) -> float:
    """More draws for patterns with more to vary, and most for the few that teach copying."""
    kinds = set(pattern.kinds.values())
    return 1.0 + min(len(kinds), 2) + 3.0 * len(kinds & _RARE_KINDS)


def _by_topic(corpus: Corpus) -> dict[str, tuple[list[Pattern], list[float]]]:
    topics: dict[str, tuple[list[Pattern], list[float]]] = {}
    for pattern in corpus.patterns:
        patterns, weights = topics.setdefault(pattern.topic, ([], []))
        patterns.append(pattern)
        weights.append(_weight(pattern))
    return topics


def _words(corpus: Corpus) -> list[Value]:
    """Values that are clear on their own: no other value shares a text with them in any language."""
    values = {value.texts: value for entries in corpus.lexicon.values() for value in entries}
    values |= {value.texts: value for kind in LISTED_KINDS for value in listed_values(kind)}
    counts: list[dict[str, int]] = [{} for _ in LANGUAGES]
    for texts in values:
        for count, text in zip(counts, texts, strict=True):
            count[text.lower()] = count.get(text.lower(), 0) + 1
    return [
        value
        for texts, value in values.items()
        if all(count[text.lower()] == 1 for count, text in zip(counts, texts, strict=True))
    ]


def _styles(rng: Random) -> tuple[Style, ...]:
    """A style for each language; most are CANONICAL."""
    return tuple(_style(rng, language) if rng.random() < _NOISY_SHARE else CANONICAL for language in LANGUAGES)


def _style(rng: Random, language: str) -> Style:
    bare = rng.random() < 0.5
    if language == "en":
        return Style(lower=rng.random() < 0.5, bare=bare, curly=rng.random() < 0.3)
    return Style(bare=bare, half_width=language in ("ja", "zh") and rng.random() < 0.6)
