"""A language mix: `en-ja:3,en-ko:1,zh-en:1`, directions with weights.

Knows the text form only; which languages exist is the text source's or the server's to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from dragoman.errors import ConfigError

_TAG = r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*"
_SIMPLE = re.compile(r"(?P<source>[A-Za-z]{2,3}|auto)-(?P<target>[A-Za-z]{2,3})")
_ARROW = re.compile(rf"(?P<source>{_TAG}|auto)>(?P<target>{_TAG})")


@dataclass(frozen=True, slots=True)
class Pair:
    """A direction; `source` None: the server detects it."""

    source: str | None
    target: str
    weight: float = 1.0

    @property
    def label(self) -> str:
        return f"{self.source or 'auto'}-{self.target}"


def parse_pairs(text: str) -> tuple[Pair, ...]:
    """`source-target[:weight],...`; tags with regions are written `zh-Hant>en`. Raises ConfigError."""
    pairs = tuple(_pair(term.strip()) for term in text.split(",") if term.strip())
    if not pairs:
        raise ConfigError("no language pairs: say for example en-ja:3,zh-en:1", param="pairs")
    return pairs


def choose(pairs: tuple[Pair, ...], random: Random) -> Pair:
    return random.choices(pairs, weights=[pair.weight for pair in pairs])[0]


def describe(pairs: tuple[Pair, ...]) -> str:
    return ",".join(f"{pair.label}:{pair.weight:g}" for pair in pairs)


def _pair(term: str) -> Pair:
    direction, colon, weight_text = term.partition(":")
    match = _SIMPLE.fullmatch(direction) or _ARROW.fullmatch(direction)
    if match is None:
        raise ConfigError(f"language pair {term!r} is not like en-ja:3 (or zh-Hant>en)", param="pairs")
    try:
        weight = float(weight_text) if colon else 1.0
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise ConfigError(f"language pair {term!r}: the weight is a number above 0", param="pairs")
    source = None if match["source"] == "auto" else match["source"]
    if source == match["target"]:
        raise ConfigError(f"language pair {term!r} translates a language into itself", param="pairs")
    return Pair(source, match["target"], weight)
