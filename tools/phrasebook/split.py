"""What is held out from training, decided by hashes so that it holds by construction, in any process and any draw.

Four things are split, about one tenth each:

- copied values (names, codes, numbers, addresses) by their text: a held-out one fills no slot of a training message.
  Numbers go by their digits, whether they stand alone, as a percentage or in a price. Placeholders are few by nature
  and are not split.
- fillings: a pattern together with its localised and lexicon values. Every lexicon value keeps one pattern, its
  anchor, where it is never held out, and so occurs in training. A pattern without such slots has nothing to hold out.
- sentences that clauses are joined to, by their English template.
- compositions: the sequence of patterns in a message of several sentences.

A training message has no part that is held out. A held-out message has held-out copied values only, a held-out
composition, and held-out fillings wherever the pattern allows it; a held-out message of one sentence therefore never
comes from a pattern that leaves nothing to hold out.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Literal

from tools.phrasebook.corpus import Corpus, Pattern
from tools.phrasebook.values import LISTED_KINDS, Value, listed_values

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")

_SHARE = 10
"""One in so many is held out."""


def _hash(*parts: str) -> int:
    return zlib.crc32("\x1f".join(parts).encode())


def value_held_out(value: Value) -> bool:
    """Whether a value that is split by itself belongs to the held-out side; False for all other values."""
    return bool(value.split_key) and _hash("value", value.split_key or "") % _SHARE == 0


def composition_held_out(patterns: Iterable[Pattern]) -> bool:
    """Whether these patterns in this order are held out together."""
    return _hash("composition", *(pattern.templates[0].text for pattern in patterns)) % _SHARE == 0


def sentence_held_out(english: str) -> bool:
    """Whether a sentence that clauses were joined to is held out, by its English template."""
    return _hash("sentence", english.casefold()) % _SHARE == 0


class Fillings:
    """Which values of a pattern's slots are held out together."""

    def __init__(self, corpus: Corpus) -> None:
        self._anchors = dict(_anchors(corpus))

    def held_out(self, pattern: Pattern, values: Mapping[str, Value]) -> bool:
        """Whether `values`, by slot reference, are held out in `pattern`."""
        english = pattern.templates[0].text
        parts: list[str] = []
        for ref in sorted(values):
            value = values[ref]
            if value.split_key is not None:
                continue
            if self._anchors.get((value.kind, value.texts[0])) == english:
                return False
            parts += (ref, value.texts[0])
        return bool(parts) and _hash("filling", english, *parts) % _SHARE == 0


def _anchors(corpus: Corpus) -> Iterable[tuple[tuple[str, str], str]]:
    """(kind, English text) of every value to learn as a word, with the pattern that keeps it in training."""
    using: dict[str, list[str]] = {}
    for pattern in corpus.patterns:
        for kind in dict.fromkeys(pattern.kinds.values()):
            using.setdefault(kind, []).append(pattern.templates[0].text)
    words = {kind: values for kind, values in corpus.lexicon.items() if kind in using}
    words |= {kind: listed_values(kind) for kind in LISTED_KINDS if kind in using}
    for kind, values in words.items():
        for value in values:
            choices = using[kind]
            yield (kind, value.texts[0]), choices[_hash("anchor", kind, value.texts[0]) % len(choices)]
