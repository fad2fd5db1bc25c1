"""Draws sentences: a pattern's values, on one side of the split, with a tag or a placeholder here and there.

It obeys `split` and knows nothing of messages: which sentences stand together is the generator's business.
"""

from random import Random

from tools.phrasebook.corpus import Corpus, CorpusError, Pattern
from tools.phrasebook.localised import LOCALISED_KINDS, draw_localised
from tools.phrasebook.render import Filling
from tools.phrasebook.split import Fillings, Split, value_held_out
from tools.phrasebook.values import COPIED_KINDS, Value, draw_copied, stock

_TRIES = 60
_PLACEHOLDER_SHARE = 0.05
_REPLACEABLE = frozenset({"name", "company", "int", "room", "code", "file", "url", "email", "version", "phone"})
_WRAP_SHARE = 0.15
_TAG_LETTERS = "bbbbaaaiguxtsp"


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
        if pattern.templates[0].text not in self._unsplittable:
            values = self._on_this_side(pattern, values)
        novel = self._held_out and (
            any(value_held_out(value) for value in values.values()) or self._fillings.held_out(pattern, values)
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
