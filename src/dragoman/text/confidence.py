"""How likely a translation is right, from what is known when it is made: probabilities, lengths, and rare source text.

A model that was fitted (`dragoman eval --calibrate`, `tools/phrasebook/calibrate.py`) has a file `confidence.json` in its
folder: a logistic regression over `inputs`, the usual lengths by direction, the threshold of the warning `low_confidence`,
and, in a file beside it, the character n-grams of the text that the model was trained on, where that is known. For any other
model the confidence is the geometric mean of its tokens' probabilities: it ranks translations of one model, and is no
probability of being right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from dragoman.errors import ConfigError
from dragoman.types import Features, TokenLogprobs

FILE = "confidence.json"
NGRAMS_FILE = "confidence.ngrams"
FORMAT = 1
_LEAST_LOGPROB = -12.0  # less than this says no more
_DENSE_FROM = "\u1100"  # from here on scripts whose characters say more than letters do: Hangul, kana, Han


def ngrams(text: str) -> Iterator[str]:
    """Trigrams of letters and bigrams of the East Asian scripts, in lower case, with a space before and after the text."""
    padded = f" {' '.join(text.lower().split())} "
    for at in range(len(padded) - 1):
        size = 2 if padded[at] >= _DENSE_FROM or padded[at + 1] >= _DENSE_FROM else 3
        if at + size <= len(padded):
            yield padded[at : at + size]


class NgramSet:
    """Hashes of n-grams as bits: an n-gram that was added is always found, another one now and then."""

    def __init__(self, bits: bytes | bytearray) -> None:
        """`bits`: their number is a power of two."""
        self.bits = bits
        self._mask = 8 * len(bits) - 1

    def add(self, text: str) -> None:
        """All n-grams of a text; `bits` must be a bytearray."""
        bits = cast(bytearray, self.bits)
        for ngram in ngrams(text):
            place = crc32(ngram.encode("utf-8", "surrogatepass")) & self._mask
            bits[place >> 3] |= 1 << (place & 7)

    def rarity(self, text: str) -> float:
        """The share of a text's n-grams that are not in the set; 0 of none."""
        found = missing = 0
        for ngram in ngrams(text):
            place = crc32(ngram.encode("utf-8", "surrogatepass")) & self._mask
            found += 1
            missing += not self.bits[place >> 3] >> (place & 7) & 1
        return missing / found if found else 0.0


def inputs(features: Features) -> dict[str, float]:
    """The regression's inputs, by name: of the probabilities in nats; lengths and counts as the logarithm of 1 more."""
    least = max(features.least_logprob, _LEAST_LOGPROB)
    mean = max(features.mean_logprob, _LEAST_LOGPROB)
    source_length = math.log1p(features.source_characters)
    return {
        "mean_logprob": mean,
        "least_logprob": least,
        "total_logprob": -math.log1p(-min(mean, 0.0) * features.target_characters),
        "mean_logprob_by_length": mean * source_length,
        "source_length": source_length,
        "source_rare": math.log1p(features.source_rarity * features.source_characters),
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
        """That the translation is right, 0 to 1."""
        values = inputs(features)
        score = self.bias + sum(weight * values[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(min(score, 30.0), -30.0)))


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """Features of translations, and the confidence in them. Without `regression`: uncalibrated, and without a threshold."""

    regression: Regression | None = None
    threshold: float = 0.0  # below it a translation is doubtful
    length_ratios: Mapping[str, float] = field(default_factory=dict[str, float])  # of characters, by "source-target"
    known_ngrams: NgramSet | None = None

    @property
    def calibrated(self) -> bool:
        """Whether the confidence is a probability of being right, fitted on lines that were judged."""
        return self.regression is not None

    def features(
        self, source: str, output: str, direction: tuple[str, str], logprobs: TokenLogprobs | None
    ) -> tuple[Features, ...]:
        """Of one segment and its translation, both without marks; nothing where the engine reports no probabilities."""
        if logprobs is None:
            return ()
        usual = self.length_ratios.get("-".join(direction), 1.0)
        ratio = (len(output) + 1) / (len(source) + 1)  # + 1: of a word the ratio says less
        rarity = self.known_ngrams.rarity(source) if self.known_ngrams else 0.0
        return (
            Features(
                mean_logprob=logprobs.mean,
                least_logprob=logprobs.least,
                length_deviation=abs(math.log(ratio / usual)),
                source_rarity=rarity,
                source_characters=len(source),
                target_characters=len(output),
            ),
        )

    def confidence(self, features: tuple[Features, ...]) -> float | None:
        """Of a text, the least of its segments': it is as doubtful as its most doubtful part. None: nothing is known."""
        return min(map(self._of_segment, features), default=None)

    def _of_segment(self, features: Features) -> float:
        if self.regression is None:
            return math.exp(min(features.mean_logprob, 0.0))
        return self.regression.probability(features)

    def is_doubtful(self, confidence: float | None) -> bool:
        """Whether it is below the fitted threshold."""
        return self.calibrated and confidence is not None and confidence < self.threshold


UNCALIBRATED = ConfidenceModel()
"""For models that were not fitted."""


def load(model: str | Path) -> ConfidenceModel:
    """Of the model in this folder; `UNCALIBRATED` where it has no `confidence.json`. Raises `ConfigError`."""
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
            NgramSet(file.with_name(NGRAMS_FILE).read_bytes()) if document["ngrams"] else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used: {error!r}; fit it again, or delete it") from None
