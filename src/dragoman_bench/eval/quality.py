"""`dragoman eval FILE`: scores translations against references, and compares two results.

chrF is chrF2 (Popović 2015, character order 6, no words), BLEU is that of Papineni et al. 2002; sacrebleu computes both over
all texts of a target language. Scores with the same signature can be compared. Two results are compared by paired bootstrap
resampling (Koehn 2004).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman import languages
from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman_bench.bench.measurement import first_fault, read_text
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Table, number, percent, seconds, table
from dragoman_bench.eval.apis import Ask, TranslationApi
from dragoman_bench.eval.results import EvalConditions, EvalResults, Reference, ScoredRow

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}
_SAMPLES = 1000  # of the bootstrap


class _ReferenceLine(BaseModel):
    model_config = ConfigDict(strict=True)
    source: str = Field(pattern=r"\S")
    reference: str = Field(pattern=r"\S")
    source_language: str
    target_language: str
    checks: list[list[str]] = []


def read_references(path: Path) -> tuple[Reference, ...]:
    """Read JSON lines with `source`, `reference`, `source_language`, `target_language` and, optionally, `checks`, a list of
    lists of words. Raises ConfigError with the number of a bad line."""
    found: list[Reference] = []
    for number_of_line, line in enumerate(read_text(path, "file").split("\n"), 1):
        if not line.strip():
            continue
        try:
            one = _ReferenceLine.model_validate_json(line)
            source, target = languages.normalise(one.source_language), languages.normalise(one.target_language)
        except ValidationError as error:
            raise ConfigError(f"{path}, line {number_of_line}: {first_fault(error)}", param="file") from error
        except UnsupportedLanguage as error:
            raise ConfigError(f"{path}, line {number_of_line}: {error.message}", param="file") from error
        checks = tuple(tuple(group) for group in one.checks if group)
        found.append(Reference(one.source, one.reference, source, target, checks))
    if not found:
        raise ConfigError(f"{path} has no texts", param="file")
    return tuple(found)


async def run_quality(api: TranslationApi, path: Path, observer: Observer, interrupted: asyncio.Event) -> EvalResults:
    """Translate a file's texts and score them; after an interrupt, those that were translated before."""
    references = read_references(path)
    conditions = await EvalConditions.of(api, path)
    asks = [Ask(one.text, one.source, one.target) for one in references]
    observer.phase(f"{len(asks)} texts", len(asks))
    answers = await api.translate_all(asks, observer, interrupted)
    rows = tuple(ScoredRow(one, answer) for one, answer in zip(references, answers, strict=True) if answer is not None)
    scores = {direction: _score(some) for direction, some in _directions(rows)}
    return EvalResults(conditions, partial=interrupted.is_set(), scored=rows, scores=scores)


# ---- scores


def _directions(rows: Sequence[ScoredRow]) -> Iterator[tuple[str, Sequence[ScoredRow]]]:
    by_direction: dict[str, list[ScoredRow]] = {}
    for row in rows:
        by_direction.setdefault(f"{row.reference.source}>{row.reference.target}", []).append(row)
    yield from by_direction.items()
    if len(by_direction) > 1:
        yield "all", rows


def _score(rows: Sequence[ScoredRow]) -> dict[str, Any]:
    outputs, references = [row.answer.text for row in rows], [row.reference.reference for row in rows]
    latencies = [row.answer.latency_s for row in rows]
    warnings = Counter(code for row in rows for code in set(row.answer.warnings))
    targets = {row.reference.target for row in rows}
    chrf = _metrics().CHRF()
    found: dict[str, Any] = {
        "texts": len(rows),
        "errors": sum(bool(row.answer.error) for row in rows),
        "cached": sum(row.answer.cached for row in rows),
        "chrf": round(float(chrf.corpus_score(outputs, [references]).score), 2),
        "chrf_signature": str(chrf.get_signature()),
        "latency_p50_s": round(float(np.percentile(latencies, 50)), 4),
        "latency_p95_s": round(float(np.percentile(latencies, 95)), 4),
        "warnings": {code: round(count / len(rows), 4) for code, count in sorted(warnings.items())},
        "retried": round(sum(bool(row.answer.retries) for row in rows) / len(rows), 4),
    }
    if len(targets) == 1:  # BLEU depends on how a language is cut into words
        bleu = _bleu(targets.pop())
        found["bleu"] = round(float(bleu.corpus_score(outputs, [references]).score), 2)
        found["bleu_signature"] = str(bleu.get_signature())
    return found


def _metrics() -> Any:
    """sacrebleu is imported when it is needed."""
    return import_module("sacrebleu.metrics")


def _bleu(target: str) -> Any:
    return _metrics().BLEU(tokenize=_BLEU_TOKENIZERS.get(target.split("-")[0], "13a"))


def score_table(results: EvalResults) -> Table:
    """Return a table of scores by direction and in total: chrF, BLEU, latency, shares of retries and of each warning."""
    rows = [
        (
            name,
            number(one["texts"]),
            number(one["errors"]),
            number(one["chrf"]),
            number(one.get("bleu")),
            seconds(one["latency_p50_s"]),
            seconds(one["latency_p95_s"]),
            percent(one["retried"], 1),
            ", ".join(f"{code} {percent(share, 1)}" for code, share in one["warnings"].items()) or "none",
        )
        for name, one in results.scores.items()
    ]
    columns = ("direction", "texts", "failed", "chrF", "BLEU", "p50", "p95", "retried", "warnings")
    names = ("chrf_signature", "bleu_signature")
    signatures = {str(one[name]) for one in results.scores.values() for name in names if name in one}
    return table("Quality", columns, rows, note=f"Signatures: {'; '.join(sorted(signatures))}.")


def compare_results(first: EvalResults, second: EvalResults) -> list[Table]:
    """Compare two results by paired bootstrap over their common texts: both scores, and the p-value of the difference.

    Raises ConfigError if they have no text in common.
    """
    theirs = {row.reference: row for row in second.scored}
    pairs = [(row, theirs[row.reference]) for row in first.scored if row.reference in theirs]
    if not pairs:
        raise ConfigError("the two results have no text in common")
    found: list[tuple[str, ...]] = []
    for target in sorted({one.reference.target for one, _ in pairs}):
        some = [(one, other) for one, other in pairs if one.reference.target == target]
        for name, metric in (("chrF", _metrics().CHRF()), ("BLEU", _bleu(target))):
            outputs = [one.answer.text for one, _ in some], [other.answer.text for _, other in some]
            references = [one.reference.reference for one, _ in some]
            one, other, spread, p = bootstrapped(metric, *outputs, references)
            found.append((target, name, str(len(some)), f"{one:.2f}", f"{other:.2f}", spread, p))
    note = (
        f"Paired bootstrap, {_SAMPLES} samples: the range of B is that of 95 % of them; below p = 0.05 the difference is "
        "unlikely to be chance."
    )
    return [table("A and B", ("target", "score", "texts", "A", "B", "range of B", "p"), found, note=note, heads=2)]


def bootstrapped(
    metric: Any, one: Sequence[str], other: Sequence[str], references: Sequence[str]
) -> tuple[float, float, str, str]:
    """Compare two outputs of texts by paired bootstrap: both scores, the range of the second, and p."""
    significance = import_module("sacrebleu.significance")
    test = significance.PairedTest(
        [("A", [*one]), ("B", [*other])], {"score": metric}, [[*references]], test_type="bs", n_samples=_SAMPLES
    )
    _, results = test()
    first, second = next(found for name, found in results.items() if name != "System")
    spread = f"{second.mean - second.ci:.1f} to {second.mean + second.ci:.1f}"
    p = 1.0 if [*one] == [*other] else second.p_value  # which sacrebleu gives as small for equal outputs
    return first.score, second.score, spread, f"{p:.3f}"
