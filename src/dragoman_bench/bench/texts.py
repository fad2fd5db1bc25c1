"""Generated texts for load tests: the package's sentences, measured and joined to a wanted length."""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from random import Random
from typing import Protocol

from dragoman.errors import ConfigError

TokensOf = Callable[[str], int]
LANGUAGES = ("en", "ja", "ko", "zh")
"""Languages of the sentences, in the order of the file."""
_DATA = resources.files("dragoman") / "phrasebook"  # data alone: nothing of the server is imported
_TRIES = 100
_AT_HAND = 24  # sentences to choose the best fitting one from
_SPACED = frozenset({"en", "ko"})


class Texts(Protocol):
    """Makes texts of about a wanted length, in `languages`."""

    @property
    def languages(self) -> tuple[str, ...]: ...

    def make(self, language: str, tokens: int) -> str: ...


class PhrasebookTexts:
    """Plain messages that the phrasebook's model was not trained on; the same seed makes the same ones.

    Every sentence is used once before any is used again.
    """

    def __init__(self, seed: int, tokens_of: TokensOf) -> None:
        self.languages = LANGUAGES
        self._random = Random(seed)
        self._tokens_of = tokens_of
        self._at_hand: dict[str, list[tuple[int, str]]] = {}
        self._unused: dict[str, list[str]] = {}
        self._made: set[str] = set()

    def make(self, language: str, tokens: int) -> str:
        """One sentence at least; more while they bring the text closer to `tokens`. No text twice."""
        text = self._text(language, tokens)
        for _ in range(_TRIES):
            if text not in self._made:
                break
            text = self._text(language, tokens)  # short sentences with nothing to vary come up again
        self._made.add(text)
        return text

    def _text(self, language: str, tokens: int) -> str:
        chosen: list[str] = []
        missing = tokens
        while True:
            at_hand = self._refilled(language)
            best = self._fitting(at_hand, missing)
            size, sentence = at_hand[best]
            if chosen and abs(missing - size) >= abs(missing):
                return (" " if language in _SPACED else "").join(chosen)
            del at_hand[best]
            chosen.append(sentence)
            missing -= size

    def _fitting(self, at_hand: list[tuple[int, str]], missing: int) -> int:
        """Any, as long as much is missing; the closest fit for the end."""
        average = sum(size for size, _ in at_hand) / len(at_hand)
        if missing > 2 * average:
            return self._random.randrange(len(at_hand))
        return min(range(len(at_hand)), key=lambda place: abs(missing - at_hand[place][0]))

    def _refilled(self, language: str) -> list[tuple[int, str]]:
        at_hand = self._at_hand.setdefault(language, [])
        while len(at_hand) < _AT_HAND:
            unused = self._unused.setdefault(language, [])
            if not unused:
                unused.extend(_sentences()[language])
                self._random.shuffle(unused)
            sentence = unused.pop()
            at_hand.append((self._tokens_of(sentence), sentence))
        return at_hand


@cache
def _sentences() -> dict[str, list[str]]:
    with (_DATA / "sentences.jsonl.gz").open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        aligned = [json.loads(line) for line in lines]
    return {language: [texts[index] for texts in aligned] for index, language in enumerate(LANGUAGES)}


def estimated_tokens(text: str) -> int:
    """Without a tokenizer: one token for four narrow characters, two for three wide ones (CJK, kana, hangul)."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return max(1, round((len(text) - wide) / 4 + wide * 2 / 3))


def token_counter(tokenizer: Path | None = None) -> tuple[TokensOf, str]:
    """A counter and its name, for the conditions: of the tokenizer.json given, else the phrasebook's, else an estimate.

    Raises ConfigError where the file given is not a tokenizer.
    """
    packaged = Path(str(_DATA / "weights" / "tokenizer.json"))
    path = tokenizer or (packaged if packaged.is_file() else None)
    if path is None:
        return estimated_tokens, "estimated from characters"
    library = import_module("tokenizers")  # a compiled library that an estimate has no use for
    try:
        loaded = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception for every fault of the file
        raise ConfigError(f"cannot load the tokenizer {path}: {error}", param="tokenizer") from error
    name = "phrasebook tokenizer" if tokenizer is None else path.name

    def tokens_of(text: str) -> int:
        return len(loaded.encode(text, add_special_tokens=False).ids)

    return tokens_of, name
