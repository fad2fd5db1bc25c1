"""Computes the limit of output tokens of a translation from the number of source tokens.

A constant ratio would be wrong: English from Chinese needs four times the characters, Chinese from English a quarter, and
the number of tokens depends on the tokenizer. Therefore the loaded tokenizer encodes one short text in many languages,
which gives R = target tokens per source token for every pair.

The factor of 2 over R: in the Universal Declaration of Human Rights, 650 ordered pairs of 26 languages, the article that
differs most from its pair's mean is 1.92 times as long as expected (99% are under 1.67). The constant of 32 and the minimum
of 48 are for short texts, whose ratio varies: "OK" may become a sentence. A translation that reaches the limit has the
finish reason `length`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from dragoman.languages import is_cjk, match
from dragoman.prompts.tokenizer import TextTokenizer

_SPREAD = 2.0
_CONSTANT_TOKENS = 32
_SHORT_SOURCE_TOKENS = 20
_SHORT_MIN_TOKENS = 48
_UNKNOWN_RATIO = 2.5
_UNKNOWN_RATIO_DENSE = 4.0  # source tokens may be words, or the source is unknown


@dataclass(frozen=True, slots=True)
class LengthTable:
    """The number of tokens of the same text in each language, for one tokenizer."""

    tokens: Mapping[str, int]

    @classmethod
    def measure(cls, tokenizer: TextTokenizer) -> LengthTable:
        """Count the parallel text's tokens in each language."""
        return cls({tag: sum(map(tokenizer.count, sentences)) for tag, sentences in parallel_text().items()})

    def ratio(self, source: str | None, target: str | None) -> float:
        """Return target tokens per source token; an estimate if one of the languages is not known."""
        given, wanted = self._measured(source), self._measured(target)
        if given and wanted:
            return wanted / given
        return _UNKNOWN_RATIO_DENSE if source is None or is_cjk(source) else _UNKNOWN_RATIO

    def _measured(self, tag: str | None) -> int | None:
        """Return the count for the tag, or for the nearest tag of the same language and script: `pt` for `pt-BR`."""
        known = None if tag is None else match(tag, tuple(self.tokens))
        return None if known is None else self.tokens[known]


@cache
def character_ratio(source: str, target: str) -> float:
    """Return target characters per source character, of the same text; 1.0 if one of the languages is not known."""
    known = tuple(parallel_text())
    tags = match(source, known), match(target, known)
    if tags[0] is None or tags[1] is None:
        return 1.0
    given, wanted = (sum(map(len, parallel_text()[tag])) for tag in tags if tag)
    return wanted / given


def max_output_tokens(ratio: float, source_tokens: int, available_tokens: int) -> int:
    """Bound the output of a source of `source_tokens`, for a `ratio` of target to source tokens, and at most by what the
    model's context window has left."""
    bound = math.ceil(_SPREAD * ratio * source_tokens) + _CONSTANT_TOKENS
    if source_tokens < _SHORT_SOURCE_TOKENS:
        bound = max(bound, _SHORT_MIN_TOKENS)
    return min(available_tokens, bound)


@cache
def parallel_text() -> Mapping[str, tuple[str, ...]]:
    """Load the parallel text: its sentences in each language."""
    table = tomllib.loads((files("dragoman.prompts") / "data" / "parallel.toml").read_text(encoding="utf-8"))
    return {tag: tuple(sentences) for tag, sentences in table.items()}
