"""Which words of the training text translate each other: the lexicon from which serving sees what a translation left out.

IBM model 1 (Brown et al. 1993) over the written lines, in all their wordings, and generated sentences: for each direction,
how probable a unit of the source (`dragoman.text.confidence.units`) is, given one of the translation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import permutations

import numpy as np
import numpy.typing as npt

from dragoman.phrasebook import LANGUAGES
from dragoman.text.confidence import HASH, LEVELS, Lexicon, pair_hashes, unit_hashes, units
from tools.phrasebook import data_dir, lines
from tools.phrasebook.corpus import load as load_corpus
from tools.phrasebook.generator import Generator

PATTERNS, CLAUSES = 8_000, 12_000  # generated sentences of each kind
LEAST_PROBABILITY = 0.04  # of a pair that is kept
_WORDINGS = 5  # of a cell
_ITERATIONS = 4

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pairs = dict[tuple[str, str], float]
"""The probability of a unit of the source given a unit of the translation."""


def build() -> Lexicon:
    """The lexicon of the packaged model's training text; takes some minutes."""
    rows = list(_rows())
    frequencies = {
        language: Counter(unit for row in rows for wording in row[language] for unit in wording)
        for language in LANGUAGES
    }
    return lexicon_of(
        frequencies, {(one, other): _probabilities(rows, one, other) for one, other in permutations(LANGUAGES, 2)}
    )


def lexicon_of(
    frequencies: Mapping[str, Mapping[str, int]],
    probabilities: Mapping[tuple[str, str], Mapping[tuple[str, str], float]],
) -> Lexicon:
    """Of the units' frequencies by language, and of the probabilities of pairs by both languages.

    A pair that has a probability in both directions has the larger one.
    """
    levels: dict[int, int] = {}
    for language, counts in frequencies.items():
        hashes = unit_hashes(language, list(counts)) & HASH
        levels.update(zip(hashes.tolist(), map(_frequency_level, counts.values()), strict=True))
    for (language, other), table in probabilities.items():
        left = unit_hashes(language, [unit for unit, _ in table])
        right = unit_hashes(other, [unit for _, unit in table])
        hashes = pair_hashes(left, right, language < other).tolist()
        for pair, level in zip(hashes, map(_probability_level, table.values()), strict=True):
            levels[pair] = min(level, levels.get(pair, LEVELS))
    return Lexicon(np.array(sorted(entry | level for entry, level in levels.items()), np.uint32))


def _frequency_level(count: int) -> int:
    return min(int(math.log2(count) / 2), LEVELS - 1)


def _probability_level(probability: float) -> int:
    return min(int(math.log(max(probability, 0.01), 0.01) * LEVELS), LEVELS - 1)


def _rows() -> Iterator[Mapping[str, list[list[str]]]]:
    """By language the units of each wording of a sentence; the first wording is the one that the model learns to write."""
    for row in lines.load(data_dir()).rows:
        cells = zip(LANGUAGES, row.standard, row.sources, strict=True)
        yield {
            language: [units(text) for text in list(dict.fromkeys((standard, *sources)))[:_WORDINGS]]
            for language, standard, sources in cells
        }
    corpus = load_corpus(data_dir())
    for count, clause_share in ((PATTERNS, 0.0), (CLAUSES, 1.0)):
        generator = Generator("train", 1, corpus, clause_share=clause_share)
        for message in (generator.sentence() for _ in range(count)):
            yield {
                language: [units(text) for text in dict.fromkeys((message.texts[language], message.sources[language]))]
                for language in LANGUAGES
            }


def _probabilities(rows: list[Mapping[str, list[list[str]]]], source: str, target: str) -> Pairs:
    """Of the pairs of units that stand in one sentence and its translation, those that are probable."""
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    read, written, slots = list[Integers](), list[Integers](), list[Integers]()
    count = 0
    for row in rows:
        output = _numbered(row[target][0], numbers[1])
        for wording in row[source]:
            some = _numbered(wording, numbers[0])
            read.append(np.repeat(some, len(output)))
            written.append(np.tile(output, len(some)))
            slots.append(np.repeat(np.arange(count, count + len(some)), len(output)))
            count += len(some)
    keys, of_pair = np.unique(np.concatenate(read) * len(numbers[1]) + np.concatenate(written), return_inverse=True)
    probabilities = _expectation_maximisation(keys, of_pair, np.concatenate(slots), len(numbers[1]))
    names = [list(one) for one in numbers]
    kept = np.flatnonzero(probabilities >= LEAST_PROBABILITY)
    return {
        (names[0][keys[at] // len(names[1])], names[1][keys[at] % len(names[1])]): float(probabilities[at])
        for at in kept
    }


def _expectation_maximisation(keys: Integers, of_pair: Integers, slots: Integers, outputs: int) -> Floats:
    """Of each key, the probability of its source unit given its output unit.

    `of_pair` and `slots`: of each pair of units in a sentence, the place of its key and the number of its source unit's
    occurrence. A unit may also come from no unit of the output, with the share that it has of all.
    """
    sources, given = keys // outputs, keys % outputs
    nothing = np.bincount(sources[of_pair]) / len(of_pair)
    share = nothing[sources]
    probabilities = 1 / np.bincount(given, minlength=outputs)[given]
    for _ in range(_ITERATIONS):
        of_occurrence = probabilities[of_pair]
        total = np.bincount(slots, of_occurrence)[slots] + share[of_pair]
        expected = np.bincount(of_pair, of_occurrence / total)
        probabilities = expected / np.bincount(given, expected, outputs)[given]
    return probabilities


def _numbered(some: list[str], numbers: dict[str, int]) -> Integers:
    return np.array([numbers.setdefault(unit, len(numbers)) for unit in some], np.int64)
