"""Fits how confident a server is in the packaged model's translations: `python -m tools.phrasebook.calibrate`.

Everyday lines that were written apart from the training data are translated in all directions through the service and the real
engine, with the features that serving computes, and judged by content checks (`adequacy`). A logistic regression is fitted on
`validation.jsonl` and written into the model's folder with its threshold; `test.jsonl` gives the published figures:
results/phrasebook-confidence.json and a figure of risk by coverage and of reliability.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from dragoman.phrasebook import LANGUAGES, model_dir
from dragoman.service.service import TranslationService
from dragoman.settings import load as load_settings
from dragoman.text import confidence
from dragoman.text.confidence import FILE, FORMAT, NGRAMS_FILE, ConfidenceModel, NgramSet, Regression, inputs
from dragoman.types import Features, TranslationRequest
from tools.phrasebook import adequacy, data_dir, lines
from tools.phrasebook.adequacy import DIRECTIONS, EvaluationRow
from tools.phrasebook.corpus import load as load_corpus
from tools.phrasebook.generator import Generator

Floats = npt.NDArray[np.float64]

NGRAM_BITS = 2**21
GENERATED = 40_000  # generated sentences whose n-grams are known besides those of the written lines
L2 = 1.0
MOST_ADEQUATE_FLAGGED = 0.2
BINS = 10
COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
_BATCH = 512


@dataclass(frozen=True, slots=True)
class Judged:
    """A translation of an everyday line, with what is known of it and whether it is adequate."""

    row_id: str
    topic: str
    direction: str
    source: str
    translation: str
    adequate: bool
    features: tuple[Features, ...]


# ---- what the features need


def known_ngrams() -> NgramSet:
    """The character n-grams of the training text: every written line as it may be typed, and generated sentences."""
    known = NgramSet(bytearray(NGRAM_BITS // 8))
    for row in lines.load(data_dir()).rows:
        for standard, sources in zip(row.standard, row.sources, strict=True):
            for text in {standard, *sources}:
                known.add(text)
    generator = Generator("train", 1, load_corpus(data_dir()))
    for _ in range(GENERATED):
        for text in generator.sentence().texts.values():
            known.add(text)
    return known


def length_ratios() -> dict[str, float]:
    """The median ratio of target to source characters of the written lines, by direction."""
    rows = [row.standard for row in lines.load(data_dir()).lines]
    at = {language: place for place, language in enumerate(LANGUAGES)}
    return {
        f"{source}-{target}": round(
            statistics.median((len(row[at[target]]) + 1) / (len(row[at[source]]) + 1) for row in rows), 4
        )
        for source, target in DIRECTIONS
    }


# ---- translations


async def judged(model: Path, base: ConfidenceModel, names: Sequence[str]) -> dict[str, list[Judged]]:
    """All translations of the evaluation sets, through a service in this process."""
    flags = {
        "model.path": str(model),
        "model.name": "phrasebook",
        "storage.url": "",
        "traffic.enabled": False,
        "cache.max_bytes": 0,
        "engine.token_logprobs": True,
        "engine.enforce_eager": True,  # starts sooner
    }
    service = TranslationService.from_settings(load_settings(flags=flags, environment={}).settings)
    service.model = replace(service.model, confidence=base)
    await service.start()
    try:
        found: dict[str, list[Judged]] = {}
        for name in names:
            rows = adequacy.load_rows(adequacy.EVALUATION_FOLDER / f"{name}.jsonl")
            found[name] = [one for d in DIRECTIONS for one in await _direction(service, rows, *d)]
        return found
    finally:
        await service.stop()


async def _direction(
    service: TranslationService, rows: Sequence[EvaluationRow], source: str, target: str
) -> list[Judged]:
    found: list[Judged] = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        texts = tuple(row.texts[source][0] for row in batch)
        translations = await service.translate(TranslationRequest(texts, target, source))
        found += [
            Judged(
                row.id,
                row.topic,
                f"{source}-{target}",
                source=text,
                translation=one.text,
                adequate=adequacy.adequate(row, target, one.text),
                features=one.features,
            )
            for row, text, one in zip(batch, texts, translations, strict=True)
        ]
    return found


# ---- the fit


def fit(features: Sequence[Features], adequate: Floats, l2: float = L2) -> Regression:
    """Logistic regression by Newton's method, with an L2 penalty on the weights of the standardised inputs."""
    names = tuple(inputs(features[0]))
    values = np.array([[inputs(one)[name] for name in names] for one in features])
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
    bias = float(weights[0] - (weights[1:] * mean / scale)[varies].sum())
    return Regression(bias, used)


def _sigmoid(score: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(score, -30, 30)))


def choose_threshold(scores: Floats, adequate: Floats, most_flagged: float = MOST_ADEQUATE_FLAGGED) -> float:
    """The threshold at which the most inadequate translations are flagged beyond the share of adequate ones that are too.

    At most `most_flagged` of the adequate ones are.
    """
    right, wrong = np.sort(scores[adequate == 1]), np.sort(scores[adequate == 0])
    candidates = np.unique(scores)
    flagged_right = np.searchsorted(right, candidates) / max(len(right), 1)
    flagged_wrong = np.searchsorted(wrong, candidates) / max(len(wrong), 1)
    gain = np.where(flagged_right <= most_flagged, flagged_wrong - flagged_right, -1.0)
    return float(candidates[int(gain.argmax())])


# ---- figures


def auc(scores: Floats, adequate: Floats) -> float:
    """The chance that an adequate translation has a higher score than an inadequate one; ties count half."""
    right, wrong = scores[adequate == 1], np.sort(scores[adequate == 0])
    if not len(right) or not len(wrong):
        return math.nan
    below = (np.searchsorted(wrong, right, "left") + np.searchsorted(wrong, right, "right")) / 2
    return float(below.mean() / len(wrong))


def figures(scores: Floats, adequate: Floats, threshold: float) -> dict[str, Any]:
    """Of translations with these confidences: AUC, risk by coverage, reliability, and what the threshold flags."""
    order = np.argsort(-scores, kind="stable")
    risk = 1 - np.cumsum(adequate[order]) / np.arange(1, len(order) + 1)
    counts = {coverage: max(round(coverage * len(order)), 1) for coverage in COVERAGES}
    flagged = scores < threshold
    bins = list(_bins(scores, adequate))
    return {
        "translations": len(scores),
        "adequate": _rounded(adequate.mean()),
        "auc": _rounded(auc(scores, adequate)),
        "expected_calibration_error": _rounded(
            sum(one["translations"] * abs(one["confidence"] - one["adequate"]) for one in bins) / len(scores)
        ),
        "flagged_inadequate": _rounded(flagged[adequate == 0].mean()),
        "flagged_adequate": _rounded(flagged[adequate == 1].mean()),
        "adequate_unflagged": _rounded(adequate[~flagged].mean()),
        "risk_coverage": [{"coverage": c, "risk": _rounded(risk[n - 1])} for c, n in counts.items()],
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
                "confidence": _rounded(scores[chosen].mean()),
                "adequate": _rounded(adequate[chosen].mean()),
            }


def _rounded(value: float | np.floating[Any]) -> float:
    return round(float(value), 4)


def result(model: ConfidenceModel, sets: dict[str, list[Judged]], weights_sha256: str) -> dict[str, Any]:
    """What results/phrasebook-confidence.json holds."""
    parts: dict[str, Any] = {}
    for name, some in sets.items():
        adequate = _adequate(some)
        scores = _scores(model, some)
        parts[name] = figures(scores, adequate, model.threshold)
        parts[name]["auc_of_mean_logprob"] = _rounded(auc(_column(some, "mean_logprob"), adequate))
        parts[name]["auc_of_least_logprob"] = _rounded(auc(_column(some, "least_logprob"), adequate))
        parts[name]["directions"] = {}
        for source, target in DIRECTIONS:
            chosen = np.array([one.direction == f"{source}-{target}" for one in some])
            one = figures(scores[chosen], adequate[chosen], model.threshold)
            kept = ("translations", "adequate", "auc", "flagged_inadequate", "flagged_adequate")
            parts[name]["directions"][f"{source}-{target}"] = {key: one[key] for key in kept}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "weights_sha256": weights_sha256,
        "fitted_on": "validation",
        "threshold": model.threshold,
        **parts,
    }


def _adequate(some: Sequence[Judged]) -> Floats:
    return np.array([float(one.adequate) for one in some])


def _scores(model: ConfidenceModel, some: Sequence[Judged]) -> Floats:
    return np.array([model.confidence(one.features) or 0.0 for one in some])


def _column(some: Sequence[Judged], name: str) -> Floats:
    return np.array([min((inputs(one)[name] for one in judged_one.features), default=0.0) for judged_one in some])


def draw(figures_of_test: dict[str, Any], path: Path) -> None:
    """Risk by coverage beside reliability."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    points = figures_of_test["risk_coverage"]
    left.plot([100 * p["coverage"] for p in points], [100 * p["risk"] for p in points], marker="o", markersize=3)
    left.axhline(100 * (1 - figures_of_test["adequate"]), color="grey", linestyle="--", linewidth=1, label="all")
    left.set(xlabel="most confident translations kept, %", ylabel="inadequate among them, %", title="Risk by coverage")
    left.set_xlim(0, 100)
    left.set_ylim(bottom=0)
    left.legend(frameon=False)
    bins = figures_of_test["reliability"]
    right.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="perfect")
    right.plot([b["confidence"] for b in bins], [b["adequate"] for b in bins], marker="o", markersize=4, label="test")
    right.set(xlabel="confidence", ylabel="share that is adequate", title="Reliability", xlim=(0, 1), ylim=(0, 1))
    right.legend(frameon=False)
    figure.savefig(path, dpi=130)


# ---- files


def document(model: ConfidenceModel, weights_sha256: str, translations: int) -> dict[str, Any]:
    """What `confidence.json` holds. `dragoman.text.confidence.load` reads it."""
    assert model.regression is not None
    return {
        "format": FORMAT,
        "bias": round(model.regression.bias, 6),
        "weights": {name: round(weight, 6) for name, weight in model.regression.weights.items()},
        "threshold": round(model.threshold, 4),
        "length_ratios": dict(model.length_ratios),
        "ngrams": model.known_ngrams is not None,
        "fitted": {"translations": translations, "weights_sha256": weights_sha256},
    }


def read_judged(path: Path) -> dict[str, list[Judged]]:
    """Translations that an earlier run kept."""
    sets: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    for some in sets.values():
        for one in some:
            one["features"] = tuple(Features(**each) for each in one["features"])
    return {name: [Judged(**one) for one in some] for name, some in sets.items()}


def write_json(path: Path, value: object, indent: int | None = 1) -> None:
    """As UTF-8, with a line feed at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")


@click.command(help="Fit the confidence in the packaged model's translations, and measure it.")
@click.option("--model", "directory", type=click.Path(path_type=Path, file_okay=False), default=model_dir())
@click.option(
    "--judged", "kept", type=click.Path(path_type=Path, dir_okay=False), help="Keep translations; reuse them."
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("results/phrasebook-confidence.json")
)
@click.option(
    "--figure", type=click.Path(path_type=Path, dir_okay=False), default=Path("docs/images/phrasebook-confidence.png")
)
def main(directory: Path, kept: Path | None, out: Path, figure: Path) -> None:
    base = ConfidenceModel(length_ratios=length_ratios(), known_ngrams=known_ngrams())
    assert base.known_ngrams is not None
    if kept is not None and kept.is_file():
        sets = read_judged(kept)
    else:
        sets = asyncio.run(judged(directory, base, ("validation", "test")))
        if kept is not None:
            write_json(kept, {name: [asdict(one) for one in some] for name, some in sets.items()}, indent=None)
    # A text of several segments is as doubtful as its most doubtful one: the fit is on texts of one.
    single = [one for one in sets["validation"] if len(one.features) == 1]
    regression = fit([one.features[0] for one in single], _adequate(single))
    model = replace(base, regression=regression)
    threshold = choose_threshold(_scores(model, sets["validation"]), _adequate(sets["validation"]))
    model = replace(model, threshold=round(threshold, 4))
    sha256 = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    (directory / NGRAMS_FILE).write_bytes(bytes(base.known_ngrams.bits))
    write_json(directory / FILE, document(model, sha256, len(single)))
    measured = result(confidence.load(directory), sets, sha256)
    write_json(out, measured)
    draw(measured["test"], figure)
    for name in sets:
        part = measured[name]
        click.echo(
            f"{name}: AUC {part['auc']:.3f} over {part['translations']} translations, {part['adequate']:.1%} adequate; "
            f"low_confidence on {part['flagged_inadequate']:.1%} of the inadequate and {part['flagged_adequate']:.1%} "
            "of the adequate ones"
        )


if __name__ == "__main__":
    main()
