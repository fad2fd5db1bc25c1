"""Computes how likely a translation is right, from token probabilities, lengths, and words that translate each other.

A calibrated model (`dragoman check-model --calibrate`, `tools/phrasebook/calibrate.py`) has a file `confidence.json`: a
logistic regression over `inputs`, the usual lengths by direction and the threshold of the warning `low_confidence`. A second
file may say which words of the training text translate each other.

For any other model a regression that is shipped (`data/confidence.json`, fitted by `benchmarks/confidence.py` on models that it
says) gives a score, which is not the probability that the translation is right: models differ, and so do languages. What can be
known without a reference is how a translation compares with others of the same model. So its confidence is the rank of its
score among the model's own recent ones of the same pair of languages, in which the shipped scores stand for the first ones.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dragoman.errors import ConfigError
from dragoman.types import ConfidenceKind, Features, TokenLogprobs

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
RECENT: Final = 512
"""Translations of a pair of languages among which a new one is ranked."""
ENOUGH: Final = 128
"""From so many translations of a pair on their scores alone rank a new one; before, the shipped ones do so the rest."""
MOST_PAIRS: Final = 512
"""Pairs of languages whose scores are kept; those used longest ago are forgotten."""
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


_COPIED_WORD = re.compile(r"[^\W\d_]+")


def copied_share(source: str, output: str) -> float:
    """Return the share of the output's letters that are in words which the source has too; 0 where it has no letters."""
    own = set(_COPIED_WORD.findall(source.casefold()))
    words = _COPIED_WORD.findall(output.casefold())
    letters = sum(map(len, words))
    return sum(len(word) for word in words if word in own) / letters if letters else 0.0


def inputs(features: Features) -> dict[str, float]:
    """Return the regression's inputs by name: logarithms of the tokens' surprise (nats), and of lengths and counts plus 1."""
    mean, least = (-min(max(one, _LEAST_LOGPROB), 0.0) for one in (features.mean_logprob, features.least_logprob))
    deviation = min(features.length_deviation, 3.0)
    return {
        "mean_surprise": math.log(mean + 0.001),
        "most_surprise": math.log(least + 0.01),
        "total_surprise": math.log1p(mean * features.target_characters),
        "source_length": math.log1p(features.source_characters),
        "source_unmatched": features.source_unmatched,
        "output_unmatched": features.output_unmatched,
        "length_deviation": deviation,
        "length_deviation_squared": deviation**2,
        "copied": features.copied,
        "has_findings": float(features.has_findings),
        "retried": float(features.retried),
        "cut_around": float(features.cut_around),
    }


@dataclass(frozen=True, slots=True)
class Regression:
    """Logistic regression: `weights` are of the inputs as `inputs` gives them. `directions` are added to the bias, by
    "source-target"."""

    bias: float
    weights: Mapping[str, float]
    directions: Mapping[str, float] = field(default_factory=dict[str, float])

    def probability(self, values: Mapping[str, float], direction: tuple[str, str]) -> float:
        """Return the probability, 0 to 1, that a translation with these inputs is right."""
        score = self.bias + self.directions.get("-".join(direction), 0.0)
        score += sum(weight * values[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(min(score, 30.0), -30.0)))


class RecentScores:
    """Ranks the scores of a model's translations among its own recent ones of the same direction.

    `shipped`: scores in ascending order that stand for a direction's first translations.
    """

    def __init__(self, shipped: Sequence[float]) -> None:
        self._shipped = shipped
        self._directions: OrderedDict[tuple[str, str], tuple[deque[float], list[float]]] = OrderedDict()

    def add(self, direction: tuple[str, str], score: float) -> None:
        """Count a translation's score among the direction's recent ones."""
        recent, ordered = self._directions.setdefault(direction, (deque(), []))
        self._directions.move_to_end(direction)
        if len(recent) == RECENT:
            del ordered[bisect_left(ordered, recent.popleft())]
        recent.append(score)
        insort(ordered, score)
        if len(self._directions) > MOST_PAIRS:
            self._directions.popitem(last=False)

    def rank(self, direction: tuple[str, str], score: float) -> float:
        """Return the share of translations with a lower score, 0 to 1; equal ones count half."""
        _, ordered = self._directions.get(direction, (None, ()))
        own = min(len(ordered) / ENOUGH, 1.0)
        return own * _share_below(ordered, score) + (1 - own) * _share_below(self._shipped, score)


def _share_below(ordered: Sequence[float], score: float) -> float:
    """The share of scores below one; neither 0 nor 1, since there may be lower and higher ones than have been seen."""
    return (bisect_left(ordered, score) + bisect_right(ordered, score) + 1) / (2 * len(ordered) + 2)


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """Computes features of translations and the confidence in them.

    `recent`: the model is not calibrated, and its confidence is a rank among these.
    """

    regression: Regression
    threshold: float = 0.0  # below it a translation is doubtful
    length_ratios: Mapping[str, float] = field(default_factory=dict[str, float])  # of characters, by "source-target"
    lexicon: Lexicon | None = None
    recent: RecentScores | None = None
    usual_ratio: Callable[[str, str], float] = lambda source, target: 1.0  # of what `length_ratios` does not have

    @property
    def kind(self) -> ConfidenceKind:
        """What its confidence is."""
        return "calibrated" if self.recent is None else "rank"

    def features(
        self, source: str, output: str, direction: tuple[str, str], logprobs: TokenLogprobs | None
    ) -> tuple[Features, ...]:
        """Return the features of a segment and its translation, both without marks; none without token probabilities."""
        if logprobs is None:
            return ()
        usual = self.length_ratios.get("-".join(direction)) or self.usual_ratio(*direction)
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
                copied=copied_share(source, output),
            ),
        )

    def scores(self, features: Iterable[Features], direction: tuple[str, str]) -> tuple[float, ...]:
        """Return the regression's result for each segment, 0 to 1."""
        return tuple(self.regression.probability(inputs(one), direction) for one in features)

    def observe(self, scores: Iterable[float], direction: tuple[str, str]) -> None:
        """Count segments that the model has just translated among those with which others are compared."""
        if self.recent is not None:
            for score in scores:
                self.recent.add(direction, score)

    def confidence(self, scores: Sequence[float], direction: tuple[str, str]) -> float:
        """Return the confidence in a text by the scores of its segments, one at least.

        Calibrated, it is that of the least certain segment. As a rank it is that of this segment among the least certain ones
        of as many: of many segments one is nearly always low.
        """
        least = min(scores)
        if self.recent is None:
            return least
        return 1 - (1 - self.recent.rank(direction, least)) ** len(scores)

    def is_doubtful(self, confidence: float) -> bool:
        """Whether the confidence is below the threshold."""
        return confidence < self.threshold


@cache
def _shipped() -> dict[str, Any]:
    return json.loads((files("dragoman.text") / "data" / FILE).read_text(encoding="utf-8"))


def uncalibrated(usual_ratio: Callable[[str, str], float] = lambda source, target: 1.0) -> ConfidenceModel:
    """Return a confidence model, with nothing in its memory, for a model that was not calibrated.

    `usual_ratio`: of the characters of a text in two languages, target to source.
    """
    document = _shipped()
    regression = Regression(document["bias"], document["weights"])
    recent = RecentScores(document["scores"])
    return ConfidenceModel(regression, document["threshold"], recent=recent, usual_ratio=usual_ratio)


def _numbers(table: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in table.items()}


def load(file: Path) -> ConfidenceModel:
    """Load a fitted `confidence.json`, with the lexicon beside it where it has one. Raises `ConfigError` for a bad file."""
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}; this version reads {FORMAT}")
        weights = _numbers(document["weights"])
        if unknown := weights.keys() - inputs(Features(0.0, 0.0, 0.0)).keys():
            raise ValueError(f"unknown inputs: {', '.join(sorted(unknown))}")
        return ConfidenceModel(
            Regression(float(document["bias"]), weights, _numbers(document.get("directions", {}))),
            float(document["threshold"]),
            _numbers(document["length_ratios"]),
            Lexicon(np.frombuffer(file.with_name(LEXICON_FILE).read_bytes(), "<u4"))
            if document.get("lexicon")
            else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used: {error!r}; fit it again, or delete it") from None
