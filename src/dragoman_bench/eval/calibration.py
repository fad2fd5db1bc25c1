"""`dragoman check-model --calibrate`: fits the confidence in a model's translations, and writes its `confidence.json`.

The server translates texts that have references, and reports the inputs of the confidence for each
(`confidence_inputs`: probabilities of tokens, lengths). A translation is adequate if it has the words that its line
requires, or without such words if its chrF against the reference reaches a limit. A logistic regression predicts this from
the inputs, with an intercept for each direction; the AUC is from cross-validation with all translations of a text in one fold.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Table, number, percent, table
from dragoman_bench.eval.apis import Answer, ApiOptions, Ask, TranslationApi, translation_api
from dragoman_bench.eval.catalogues import read_catalogues
from dragoman_bench.eval.check_model import ModelToCheck, server_of
from dragoman_bench.eval.quality import read_references
from dragoman_bench.eval.results import Reference

Floats = npt.NDArray[np.float64]
Inputs = Mapping[str, float]
"""What a server reports of one translation, by name; the regression's weights have the same names."""

FORMAT = 1  # of `confidence.json`
L2 = 1.0
MOST_ADEQUATE_FLAGGED = 0.125  # readers ignore a warning that is often wrong
ADEQUATE_CHRF = 50.0
FOLDS = 5
BINS = 10
COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
_OF_LEXICON = {"source_unmatched", "output_unmatched"}  # which the packaged model alone has
LEAST_OF_EACH = 20  # adequate and inadequate translations; of fewer a fit says nothing
MOST_OF_DIRECTION = 500  # texts of catalogues
_DIRECTION = "direction "  # the beginning of an input's name that is 1 for one direction, else 0
_INPUTS_WANTED = (("confidence_inputs", True),)


@dataclass(frozen=True, slots=True)
class Fit:
    """A logistic regression: the logarithm of the odds is the bias and the weighted sum of the inputs."""

    bias: float
    weights: Mapping[str, float]

    def scores(self, inputs: Sequence[Inputs]) -> Floats:
        """Return the probability that each translation is adequate."""
        sums = [self.bias + sum(weight * one[name] for name, weight in self.weights.items()) for one in inputs]
        return _sigmoid(np.array(sums, dtype=np.float64))


def fit(inputs: Sequence[Inputs], adequate: Floats, l2: float = L2) -> Fit:
    """Fit by Newton's method, with an L2 penalty on the weights of the standardised inputs. Constant inputs get weight 0."""
    names = tuple(inputs[0])
    values = np.array([[one[name] for name in names] for one in inputs])
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    varies = deviation > 1e-9
    scale = np.where(varies, deviation, 1.0)
    design = np.column_stack([np.ones(len(values)), np.where(varies, (values - mean) / scale, 0.0)])
    penalty = np.diag([0.0, *[l2] * len(names)])
    weights = np.zeros(len(names) + 1)
    for _ in range(50):
        chance = _sigmoid(design @ weights)
        gradient = design.T @ (adequate - chance) - penalty @ weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + penalty + 1e-9 * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    raw = weights[1:] / scale
    used = {name: float(weight) for name, weight, one in zip(names, raw, varies, strict=True) if one}
    return Fit(float(weights[0] - (weights[1:] * mean / scale)[varies].sum()), used)


def cross_validated(inputs: Sequence[Inputs], adequate: Floats, groups: Sequence[str], folds: int = FOLDS) -> Floats:
    """Return the score of each translation from a fit on the other folds; all items of a group are in one fold."""
    numbers = {group: place % folds for place, group in enumerate(sorted(set(groups)))}
    places = np.array([numbers[group] for group in groups])
    scores = np.zeros(len(inputs))
    for fold in sorted(set(places.tolist())):
        held = places == fold
        fitted = fit([one for one, other in zip(inputs, held, strict=True) if not other], adequate[~held])
        scores[held] = fitted.scores([one for one, other in zip(inputs, held, strict=True) if other])
    return scores


def _sigmoid(score: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(score, -30, 30)))


def choose_threshold(scores: Floats, adequate: Floats, most_flagged: float = MOST_ADEQUATE_FLAGGED) -> float:
    """Choose the threshold with the largest difference between the flagged shares of inadequate and adequate translations.

    At most `most_flagged` of the adequate ones are flagged.
    """
    right, wrong = np.sort(scores[adequate == 1]), np.sort(scores[adequate == 0])
    candidates = np.unique(scores)
    flagged_right = np.searchsorted(right, candidates) / max(len(right), 1)
    flagged_wrong = np.searchsorted(wrong, candidates) / max(len(wrong), 1)
    gain = np.where(flagged_right <= most_flagged, flagged_wrong - flagged_right, -1.0)
    return float(candidates[int(gain.argmax())])


def usual_length_ratios(pairs: Iterable[tuple[str, str, str]]) -> dict[str, float]:
    """Return the median ratio of target to source characters by direction, from (direction, source, target)."""
    ratios: dict[str, list[float]] = {}
    for direction, source, target in pairs:
        ratios.setdefault(direction, []).append((len(target) + 1) / (len(source) + 1))
    return {direction: round(statistics.median(some), 4) for direction, some in ratios.items()}


def document(
    fitted: Fit, threshold: float, length_ratios: Mapping[str, float], origin: Mapping[str, Any], *, lexicon: bool
) -> dict[str, Any]:
    """Return the content of `confidence.json`. `lexicon`: whether its file is in the same folder."""
    rounded_weights = {name: round(weight, 6) for name, weight in fitted.weights.items()}
    return {
        "format": FORMAT,
        "bias": round(fitted.bias, 6),
        "weights": {name: weight for name, weight in rounded_weights.items() if not name.startswith(_DIRECTION)},
        "directions": {
            name.removeprefix(_DIRECTION): weight
            for name, weight in rounded_weights.items()
            if name.startswith(_DIRECTION)
        },
        "threshold": round(threshold, 4),
        "length_ratios": dict(length_ratios),
        "lexicon": lexicon,
        "fitted": dict(origin),
    }


# ---- figures


def auc(scores: Floats, adequate: Floats) -> float:
    """Return the probability that an adequate translation has a higher score than an inadequate one; ties count half."""
    right, wrong = scores[adequate == 1], np.sort(scores[adequate == 0])
    if not len(right) or not len(wrong):
        return math.nan
    below = (np.searchsorted(wrong, right, "left") + np.searchsorted(wrong, right, "right")) / 2
    return float(below.mean() / len(wrong))


def figures(scores: Floats, adequate: Floats, threshold: float) -> dict[str, Any]:
    """Return AUC, risk by coverage, reliability, and the shares that the threshold flags, for these confidences."""
    order = np.argsort(-scores, kind="stable")
    risk = 1 - np.cumsum(adequate[order]) / np.arange(1, len(order) + 1)
    counts = {coverage: max(round(coverage * len(order)), 1) for coverage in COVERAGES}
    flagged = scores < threshold
    bins = list(_bins(scores, adequate))
    return {
        "translations": len(scores),
        "adequate": rounded(adequate.mean()),
        "auc": rounded(auc(scores, adequate)),
        "expected_calibration_error": rounded(
            sum(one["translations"] * abs(one["confidence"] - one["adequate"]) for one in bins) / len(scores)
        ),
        "flagged_inadequate": rounded(flagged[adequate == 0].mean()),
        "flagged_adequate": rounded(flagged[adequate == 1].mean()),
        "adequate_unflagged": rounded(adequate[~flagged].mean()),
        "risk_coverage": [{"coverage": c, "risk": rounded(risk[n - 1])} for c, n in counts.items()],
        "reliability": bins,
    }


def _bins(scores: Floats, adequate: Floats) -> Iterator[dict[str, Any]]:
    places = np.minimum((scores * BINS).astype(int), BINS - 1)
    for place in range(BINS):
        chosen = places == place
        if chosen.any():
            yield {
                "from": place / BINS,
                "translations": int(chosen.sum()),
                "confidence": rounded(scores[chosen].mean()),
                "adequate": rounded(adequate[chosen].mean()),
            }


def rounded(value: float | np.floating[Any]) -> float:
    """Round to four digits after the point."""
    return round(float(value), 4)


# ---- the command


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fit for the model of a running server. `figures` are from cross-validation."""

    document: dict[str, Any]
    figures: dict[str, Any]
    skipped: int  # texts without an answer, of several segments, or of one that was not translated

    def table(self) -> Table:
        """Return a table of the fit and the quality of its predictions."""
        found = self.figures
        row = (
            number(found["translations"]),
            number(self.skipped),
            percent(found["adequate"], 1),
            f"{found['auc']:.3f}",
            f"{found['expected_calibration_error']:.3f}",
            f"{self.document['threshold']:.2f}",
            percent(found["flagged_inadequate"], 1),
            percent(found["flagged_adequate"], 1),
        )
        columns = ("texts", "left out", "adequate", "AUC", "calibration error", "threshold")
        columns += ("inadequate below it", "adequate below it")
        note = f"By cross-validation in {FOLDS} folds; the weights are of a fit of all texts."
        return table("Confidence", columns, [row], note=note)


def read_texts(path: Path) -> tuple[Reference, ...]:
    """Read texts with translations by people: JSON lines, or catalogues (.mo, .po, .tmx; all in a folder), of which up to
    `MOST_OF_DIRECTION` messages of each language are chosen, evenly. Raises ConfigError."""
    if path.is_dir() or path.suffix in (".mo", ".po", ".tmx"):
        found: list[Reference] = []
        for target, by_file in read_catalogues([path]).items():
            pairs = sorted({source: text for pairs in by_file.values() for source, text in pairs.items()}.items())
            chosen = random.Random(1).sample(pairs, min(MOST_OF_DIRECTION, len(pairs)))
            found += (Reference(source, text, "en", target) for source, text in chosen)
        return tuple(found)
    return read_references(path)


async def calibrate_model(
    wanted: ModelToCheck,
    references: Sequence[Reference],
    adequate_chrf: float,
    observer: Observer,
    interrupted: asyncio.Event,
) -> Calibration:
    """Fit the confidence of a model, for which a server is started unless one runs. Raises ConfigError, ServerFault.

    Texts in languages that it does not serve, or in other directions than the wanted ones where there are any, are left out.
    """
    references = _served(references, wanted)
    async with server_of(wanted, interrupted, observer) as (url, _):
        options = ApiOptions(url, api_key=wanted.api_key, extra=_INPUTS_WANTED)
        async with translation_api(options) as api:
            return await run_calibration(api, references, adequate_chrf, observer, interrupted)


def _served(references: Sequence[Reference], wanted: ModelToCheck) -> list[Reference]:
    pairs = wanted.directions or [tuple(one.split(">")) for one in wanted.described.directions]
    targets: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for source, target in pairs:
        targets[source] += (target,)
    found = [one for one in references if languages.match(one.target, targets[one.source]) is not None]
    if not found:
        raise ConfigError("the file has no text in a direction that the model serves", param="calibrate")
    return found


async def run_calibration(
    api: TranslationApi,
    references: Sequence[Reference],
    adequate_chrf: float,
    observer: Observer,
    interrupted: asyncio.Event,
) -> Calibration:
    """Translate texts, judge the translations, and fit. Raises ConfigError if the server or the texts do not allow it."""
    observer.phase(f"{len(references)} texts", len(references))
    asks = [Ask(one.text, one.source, one.target) for one in references]
    answers = await api.translate_all(asks, observer, interrupted)
    if interrupted.is_set():
        raise ConfigError("interrupted: nothing was fitted")
    ratios = usual_length_ratios((f"{one.source}-{one.target}", one.text, one.reference) for one in references)
    # A text of several segments is as doubtful as its most doubtful one: the fit is on texts of one.
    single = [
        (one, answer)
        for one, answer in zip(references, answers, strict=True)
        if answer and len(answer.confidence_inputs) == 1
    ]
    if not single:
        raise ConfigError(
            "no answer has what a confidence is computed from: does the server have --token-logprobs false?",
            param="url",
        )
    directions = sorted({f"{one.source}-{one.target}" for one, _ in single})
    inputs = [
        _with_usual_lengths(one, answer, ratios)
        | {f"{_DIRECTION}{other}": float(other == f"{one.source}-{one.target}") for other in directions}
        for one, answer in single
    ]
    adequate = np.array([float(_is_adequate(one, answer.text, adequate_chrf)) for one, answer in single])
    for name, count in (("adequate", int(adequate.sum())), ("inadequate", int((1 - adequate).sum()))):
        if count < LEAST_OF_EACH:
            raise ConfigError(
                f"{count} of {len(single)} translations are {name}; a fit needs {LEAST_OF_EACH}: other texts, more of them, "
                "or another --adequate-chrf",
                param="file",
            )
    scores = cross_validated(inputs, adequate, [one.text for one, _ in single])
    threshold = choose_threshold(scores, adequate)
    origin = {"translations": len(single), "adequate_chrf": adequate_chrf, "auc": rounded(auc(scores, adequate))}
    return Calibration(
        document(fit(inputs, adequate), threshold, ratios, origin, lexicon=False),
        figures(scores, adequate, threshold),
        skipped=len(references) - len(single),
    )


def _with_usual_lengths(one: Reference, answer: Answer, ratios: Mapping[str, float]) -> dict[str, float]:
    """The inputs as they will be with the fitted file: with its usual lengths, and without a lexicon."""
    ratio = (len(answer.text) + 1) / (len(one.text) + 1)
    deviation = abs(math.log(ratio / ratios[f"{one.source}-{one.target}"]))
    (inputs,) = answer.confidence_inputs
    known = {name: value for name, value in inputs.items() if name not in _OF_LEXICON}
    deviation = min(deviation, 3.0)
    return {**known, "length_deviation": deviation, "length_deviation_squared": deviation**2}


def _is_adequate(one: Reference, translation: str, chrf: float) -> bool:
    if one.checks:
        text = _folded(translation)
        return all(any(_folded(word) in text for word in group) for group in one.checks)
    metric = import_module("sacrebleu.metrics").CHRF()
    return float(metric.sentence_score(translation, [one.reference]).score) >= chrf


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
