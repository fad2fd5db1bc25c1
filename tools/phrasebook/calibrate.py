"""Fits how confident a server is in the packaged model's translations: `python -m tools.phrasebook.calibrate`.

Everyday lines that were written apart from the training data are translated in all directions through the service and the real
engine, with the features that serving computes, and judged by content checks and readers (`adequacy`). A logistic regression is
fitted on the validation sets and written into the model's folder with its threshold, beside the lexicon; the test sets give the
published figures: results/phrasebook-confidence.json and a figure of risk by coverage and of reliability.

The threshold is that of lines which the training data lacks: of those that it holds nearly all are adequate and sure, so that
one chosen on both would mark a third of the adequate translations of a line that is new. It is the lower one of the two sets.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np

from dragoman.errors import ConfigError
from dragoman.phrasebook import LANGUAGES, model_dir
from dragoman.service.service import TranslationService
from dragoman.settings import load as load_settings
from dragoman.text import confidence
from dragoman.text.confidence import FILE, LEXICON_FILE, ConfidenceModel, Regression, inputs
from dragoman.types import Features, TranslationRequest
from dragoman_bench.eval.calibration import (
    Floats,
    auc,
    choose_threshold,
    cross_validated,
    document,
    figures,
    fit,
    rounded,
    usual_length_ratios,
)
from tools.phrasebook import adequacy, data_dir, lexicon, lines
from tools.phrasebook.adequacy import DIRECTIONS, EvaluationRow

FITTED_ON = ("validation", "patterns_validation")
MEASURED_ON = ("test", "patterns_test")
MOST_ADEQUATE_FLAGGED = 0.15  # of the lines that the training data lacks
RESAMPLES = 1_000  # for the intervals
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

    @property
    def unseen(self) -> bool:
        """Whether the training data lacks its source, capitals and final marks aside."""
        return lines.bare(self.source) not in lines.bare_texts()[self.direction.split("-")[0]]


# ---- what the features need


def length_ratios() -> dict[str, float]:
    """The usual ratio of target to source characters of the written lines, by direction."""
    rows = [dict(zip(LANGUAGES, row.standard, strict=True)) for row in lines.load(data_dir()).lines]
    return usual_length_ratios((f"{s}-{t}", row[s], row[t]) for s, t in DIRECTIONS for row in rows)


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
    if (model / FILE).is_file():
        try:
            confidence.load(model / FILE)
        except ConfigError:  # of other inputs than those of this version: the fit replaces it
            (model / FILE).unlink()
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
        translations = await service.calls.translate(TranslationRequest(texts, target, source))
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


# ---- figures


def result(
    model: ConfidenceModel, sets: dict[str, list[Judged]], weights_sha256: str, cross_validated_auc: float
) -> dict[str, Any]:
    """What results/phrasebook-confidence.json holds."""
    parts: dict[str, Any] = {}
    for name, some in sets.items():
        adequate, scores = _adequate(some), _scores(model, some)
        part = figures(scores, adequate, model.threshold)
        part["auc_of_mean_logprob"] = rounded(auc(_column(some, "mean_logprob"), adequate))
        part["auc_of_least_logprob"] = rounded(auc(_column(some, "least_logprob"), adequate))
        unseen = [one for one in some if one.unseen]
        part["unseen"] = _flagged(model, unseen) | {"intervals": intervals(model, unseen)}
        part["directions"] = {
            f"{s}-{t}": _flagged(model, [one for one in some if one.direction == f"{s}-{t}"]) for s, t in DIRECTIONS
        }
        parts[name] = part
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "weights_sha256": weights_sha256,
        "fitted_on": list(FITTED_ON),
        "cross_validated_auc": rounded(cross_validated_auc),
        "threshold": model.threshold,
        "lexicon_entries": len(model.lexicon.entries) if model.lexicon else 0,
        **parts,
    }


def _threshold(model: ConfidenceModel, some: Sequence[Judged]) -> float:
    return choose_threshold(_scores(model, some), _adequate(some), MOST_ADEQUATE_FLAGGED)


def _flagged(model: ConfidenceModel, some: Sequence[Judged]) -> dict[str, Any]:
    """The figures of `some` without their curves, and the share of the inadequate ones that a warning for 15% would find."""
    adequate, scores = _adequate(some), _scores(model, some)
    whole = figures(scores, adequate, model.threshold)
    kept = ("translations", "adequate", "auc", "flagged_inadequate", "flagged_adequate", "adequate_unflagged")
    at = np.quantile(scores[adequate == 1], MOST_ADEQUATE_FLAGGED)
    return {key: whole[key] for key in kept} | {
        "flagged_inadequate_at_most": rounded((scores[adequate == 0] < at).mean())
    }


def intervals(model: ConfidenceModel, some: Sequence[Judged]) -> dict[str, list[float]]:
    """95% intervals of AUC and of what is flagged, by drawing lines again: the translations of a line are alike."""
    adequate, confidences = _adequate(some), _scores(model, some)
    of_row: dict[str, list[int]] = {}
    for place, one in enumerate(some):
        of_row.setdefault(one.row_id, []).append(place)
    places = list(of_row.values())
    rng = Random("intervals")
    drawn: dict[str, list[float]] = {"auc": [], "flagged_adequate": [], "flagged_inadequate": []}
    for _ in range(RESAMPLES):
        chosen = [place for row in rng.choices(places, k=len(places)) for place in row]
        right, scores = adequate[chosen], confidences[chosen]
        drawn["auc"].append(auc(scores, right))
        drawn["flagged_adequate"].append(float((scores[right == 1] < model.threshold).mean()))
        drawn["flagged_inadequate"].append(float((scores[right == 0] < model.threshold).mean()))
    return {name: [rounded(np.percentile(values, end)) for end in (2.5, 97.5)] for name, values in drawn.items()}


def _adequate(some: Sequence[Judged]) -> Floats:
    return np.array([float(one.adequate) for one in some])


def _scores(model: ConfidenceModel, some: Sequence[Judged]) -> Floats:
    directed = [(one, _direction_of(one)) for one in some]
    return np.array([model.confidence(model.scores(one.features, pair), pair) or 0.0 for one, pair in directed])


def _direction_of(one: Judged) -> tuple[str, str]:
    source, _, target = one.direction.partition("-")
    return source, target


def _column(some: Sequence[Judged], name: str) -> Floats:
    return np.array([min((getattr(one, name) for one in judged_one.features), default=0.0) for judged_one in some])


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


def read_judged(path: Path) -> dict[str, list[Judged]]:
    """Translations that an earlier run kept, judged by the checks as they are now, but of texts that have changed since."""
    sets: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[Judged]] = {}
    for name, some in sets.items():
        rows = {row.id: row for row in adequacy.load_rows(adequacy.EVALUATION_FOLDER / f"{name}.jsonl")}
        found[name] = []
        for one in some:
            row, (source, target) = rows[one["row_id"]], one["direction"].split("-")
            one["features"] = tuple(Features(**each) for each in one["features"])
            one["adequate"] = adequacy.adequate(row, target, one["translation"])
            if row.texts[source][0] == one["source"]:
                found[name].append(Judged(**one))
    return found


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
    words = lexicon.build()
    base = ConfidenceModel(Regression(0.0, {}), length_ratios=length_ratios(), lexicon=words)
    if kept is not None and kept.is_file():
        sets = read_judged(kept)
    else:
        sets = asyncio.run(judged(directory, base, (*FITTED_ON, *MEASURED_ON)))
        if kept is not None:
            write_json(kept, {name: [asdict(one) for one in some] for name, some in sets.items()}, indent=None)
    # A text of several segments is as doubtful as its most doubtful one: the fit is on texts of one.
    single = [one for name in FITTED_ON for one in sets[name] if len(one.features) == 1]
    values = [inputs(one.features[0]) for one in single]
    held_out = auc(cross_validated(values, _adequate(single), [one.row_id for one in single]), _adequate(single))
    click.echo(f"validation, by cross-validation over lines: AUC {held_out:.4f}")
    fitted = fit(values, _adequate(single))
    model = replace(base, regression=Regression(fitted.bias, fitted.weights))
    threshold = min(_threshold(model, [one for one in sets[name] if one.unseen]) for name in FITTED_ON)
    sha256 = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    (directory / LEXICON_FILE).write_bytes(words.entries.astype("<u4").tobytes())
    origin = {"translations": len(single), "weights_sha256": sha256}
    write_json(directory / FILE, document(fitted, threshold, base.length_ratios, origin, lexicon=True))
    measured = result(confidence.load(directory / FILE), sets, sha256, held_out)
    write_json(out, measured)
    draw(measured["test"], figure)
    for name in sets:
        part = measured[name]
        click.echo(
            f"{name}: AUC {part['auc']:.3f} over {part['translations']} translations, {part['adequate']:.1%} adequate; "
            f"low_confidence on {part['flagged_inadequate']:.1%} of the inadequate and {part['flagged_adequate']:.1%} "
            f"of the adequate ones; of lines that the training data lacks {part['unseen']['flagged_inadequate']:.1%} "
            f"and {part['unseen']['flagged_adequate']:.1%}"
        )


if __name__ == "__main__":
    main()
