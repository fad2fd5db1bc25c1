"""Computes how likely a translation is right, from token probabilities, lengths, and words that translate each other.

A calibrated model (`dragoman eval --calibrate`, `tools/phrasebook/calibrate.py`) has a file `confidence.json` in its
folder: a logistic regression over `inputs`, the usual lengths by direction and the threshold of the warning
`low_confidence`. A second file may say which words of the training text translate each other. For any other model the
confidence is the geometric mean of the token probabilities: it ranks translations of one model, and is not the
probability that a translation is right.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dragoman.errors import ConfigError
from dragoman.types import Features, TokenLogprobs

FILE = "confidence.json"
LEXICON_FILE = "confidence.lexicon"
FORMAT = 1
_LEAST_LOGPROB = -12.0  # less than this says no more
_WORD = re.compile(  # Han characters, runs of Hangul, of kana, and of other letters and digits
    r"[\u4e00-\u9fff]|[\uac00-\ud7a3]+|[\u3040-\u30ff]+|[^\W_\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]+(?:'[a-z]+)?"
)
_ALPHABETIC_UNTIL = "\u3040"
_STEM_LETTERS = 5
_MOST_UNITS = 64  # of one text: the time for a pair of texts grows with the product
LEVELS = 8
HASH = np.uint32(2**32 - LEVELS)  # the bits of an entry that are not its level

Hashes = npt.NDArray[np.uint32]
Levels = npt.NDArray[np.uint32]


def units(text: str) -> list[str]:
    """Return the units by which two texts are compared: stems of words, Han characters, pairs of kana and of Hangul."""
    found = dict[str, None]()
    for word in _WORD.findall(text.lower()):
        if word < _ALPHABETIC_UNTIL:
            found[word[:_STEM_LETTERS]] = None
        elif len(word) < 3:
            found[word] = None
        else:
            found.update((word[at : at + 2], None) for at in range(len(word) - 1))
    return list(found)


class Lexicon:
    """Stores which units of two languages translate each other, and how frequent each unit is in the training text."""

    def __init__(self, entries: Hashes) -> None:
        """`entries` are sorted: the hash of a unit or of a pair of units, and in the lowest bits its level.

        Level 0 is that of the rarest units and of the most likely pairs.
        """
        self.entries = entries

    def unmatched(self, source: str, output: str, direction: tuple[str, str]) -> tuple[float, float]:
        """Return how much of the source has no translation in the output, and how much of the output has none in the source.

        Both are 0 if each unit has a likely translation, and near 1 if none has. Rare units count more. Letters and digits
        that are copied count as translated.
        """
        some, others = units(source)[:_MOST_UNITS], units(output)[:_MOST_UNITS]
        if not some or not others:
            return 0.0, 0.0
        left, right = unit_hashes(direction[0], some), unit_hashes(direction[1], others)
        pairs = pair_hashes(left[:, None], right[None, :], direction[0] < direction[1])
        levels = self._levels(np.concatenate((left & HASH, right & HASH, pairs.ravel())))
        lacking = levels[len(left) + len(right) :].reshape(pairs.shape)
        for row, unit in enumerate(some):
            if unit < _ALPHABETIC_UNTIL and unit in others:
                lacking[row, others.index(unit)] = 0
        of_source, of_output = levels[: len(left)], levels[len(left) : len(left) + len(right)]
        return _weighted(of_source, lacking.min(axis=1)), _weighted(of_output, lacking.min(axis=0))

    def _levels(self, hashes: Hashes) -> Levels:
        """Return the level of each hash; one above the highest level for a hash that is not in the lexicon."""
        entries = self.entries.take(np.searchsorted(self.entries, hashes), mode="clip")
        return np.where(entries & HASH == hashes, entries & ~HASH, LEVELS)


def _weighted(frequencies: Levels, lacking: Levels) -> float:
    """Return the mean of the missing levels, as a share of all levels, weighted by rarity. It is lower for few units.

    A unit that is not in the training text counts like the rarest ones.
    """
    weights = LEVELS - frequencies % LEVELS
    return float((weights @ lacking) / (LEVELS * (weights.sum() + LEVELS / 2)))


def unit_hashes(language: str, some: Sequence[str]) -> Hashes:
    """Return the hashes of a language's units."""
    return np.array([crc32(f"{language} {unit}".encode("utf-8", "surrogatepass")) for unit in some], np.uint32)


def pair_hashes(left: Hashes, right: Hashes, in_order: bool) -> Hashes:
    """Return the hash of each pair of units, which is the same in both directions."""
    first, second = (left, right) if in_order else (right, left)
    return (first * np.uint32(2654435761) ^ second * np.uint32(2246822519)) & HASH


def inputs(features: Features) -> dict[str, float]:
    """Return the regression's inputs by name: logarithms of the tokens' surprise (nats), and of lengths and counts plus 1."""
    mean, least = (-min(max(one, _LEAST_LOGPROB), 0.0) for one in (features.mean_logprob, features.least_logprob))
    return {
        "mean_surprise": math.log(mean + 0.001),
        "most_surprise": math.log(least + 0.01),
        "total_surprise": math.log1p(mean * features.target_characters),
        "source_length": math.log1p(features.source_characters),
        "source_unmatched": features.source_unmatched,
        "output_unmatched": features.output_unmatched,
        "length_deviation": min(features.length_deviation, 3.0),
        "retried": float(features.retried),
        "cut_around": float(features.cut_around),
    }


@dataclass(frozen=True, slots=True)
class Regression:
    """Logistic regression: `weights` are of the inputs as `inputs` gives them."""

    bias: float
    weights: Mapping[str, float]

    def probability(self, features: Features) -> float:
        """Return the probability that the translation is right, 0 to 1."""
        values = inputs(features)
        score = self.bias + sum(weight * values[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(min(score, 30.0), -30.0)))


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """Computes features of translations and the confidence in them. Without `regression` the model is not calibrated."""

    regression: Regression | None = None
    threshold: float = 0.0  # below it a translation is doubtful
    length_ratios: Mapping[str, float] = field(default_factory=dict[str, float])  # of characters, by "source-target"
    lexicon: Lexicon | None = None

    @property
    def calibrated(self) -> bool:
        """Whether the confidence is a probability of being right, fitted on lines that were judged."""
        return self.regression is not None

    def features(
        self, source: str, output: str, direction: tuple[str, str], logprobs: TokenLogprobs | None
    ) -> tuple[Features, ...]:
        """Return the features of a segment and its translation, both without marks; none without token probabilities."""
        if logprobs is None:
            return ()
        usual = self.length_ratios.get("-".join(direction), 1.0)
        ratio = (len(output) + 1) / (len(source) + 1)  # + 1: of a word the ratio says less
        unmatched = self.lexicon.unmatched(source, output, direction) if self.lexicon else (0.0, 0.0)
        return (
            Features(
                mean_logprob=logprobs.mean,
                least_logprob=logprobs.least,
                length_deviation=abs(math.log(ratio / usual)),
                source_unmatched=unmatched[0],
                output_unmatched=unmatched[1],
                source_characters=len(source),
                target_characters=len(output),
            ),
        )

    def confidence(self, features: tuple[Features, ...]) -> float | None:
        """Return the confidence in a text: the lowest of its segments. None: the segments have no features."""
        return min(map(self._of_segment, features), default=None)

    def _of_segment(self, features: Features) -> float:
        if self.regression is None:
            return math.exp(min(features.mean_logprob, 0.0))
        return self.regression.probability(features)

    def is_doubtful(self, confidence: float | None) -> bool:
        """Whether the confidence is below the fitted threshold."""
        return self.calibrated and confidence is not None and confidence < self.threshold


UNCALIBRATED = ConfidenceModel()
"""The confidence model of any model without a `confidence.json`."""


def load(model: str | Path) -> ConfidenceModel:
    """Load `confidence.json` of a model's folder; `UNCALIBRATED` if there is none. Raises `ConfigError` for a bad file."""
    file = Path(model) / FILE
    if not file.is_file():
        return UNCALIBRATED
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}; this version reads {FORMAT}")
        weights = {str(name): float(weight) for name, weight in document["weights"].items()}
        if unknown := weights.keys() - inputs(Features(0.0, 0.0, 0.0)).keys():
            raise ValueError(f"unknown inputs: {', '.join(sorted(unknown))}")
        return ConfidenceModel(
            Regression(float(document["bias"]), weights),
            float(document["threshold"]),
            {str(name): float(ratio) for name, ratio in document["length_ratios"].items()},
            Lexicon(np.frombuffer(file.with_name(LEXICON_FILE).read_bytes(), "<u4"))
            if document.get("lexicon")
            else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used: {error!r}; fit it again, or delete it") from None
