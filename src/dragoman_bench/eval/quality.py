"""`dragoman eval FILE`: scores of translations against references, alone and amid other clients, and their comparison.

chrF is chrF2 (Popović 2015, character order 6, no words), BLEU that of Papineni et al. 2002; both are sacrebleu's, over all
texts of a target language, with the signatures under which they can be compared with those of others. Two results are
compared by paired bootstrap resampling (Koehn 2004).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dragoman import languages
from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import elements, members
from dragoman_bench.bench.tables import Table, number, percent, seconds, table
from dragoman_bench.bench.workload import LANGUAGES, PhrasebookTexts
from dragoman_bench.eval.apis import Answer, Ask, TranslationApi
from dragoman_bench.eval.results import EvalConditions, EvalResults, ScoredRow

_JSON_FIELDS = ("source", "reference", "source_language", "target_language")
_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}
_SAMPLES = 1000  # of the bootstrap
_BACKGROUND_CHARACTERS = (30, 150)


@dataclass(frozen=True, slots=True)
class Reference:
    """A text, what its translation should be, and the languages.

    `checks`: groups of words, one of each of which an adequate translation has; empty where only the reference is known.
    """

    text: str
    reference: str
    source: str
    target: str
    checks: tuple[tuple[str, ...], ...] = ()


def read_references(path: Path) -> tuple[Reference, ...]:
    """JSON lines with `source`, `reference`, `source_language` and `target_language`, or tab-separated columns in this order.

    JSON lines may have `checks`, a list of lists of words. A first line of column names is skipped. Raises ConfigError with
    the number of the line that is neither.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", param="file") from error
    found: list[Reference] = []
    for line_number, line in enumerate(content.split("\n"), 1):
        fields = _fields(line.removesuffix("\r"))
        if not line.strip() or (line_number == 1 and fields is not None and "reference" in fields[:2]):
            continue
        if fields is None or not (fields[0].strip() and fields[1].strip()):
            raise ConfigError(
                f"{path}, line {line_number}: not a source, a reference, a source and a target language", param="file"
            )
        try:
            source, target = map(languages.normalise, fields[2:])
            found.append(Reference(fields[0], fields[1], source, target, _checks(line)))
        except UnsupportedLanguage as error:
            raise ConfigError(f"{path}, line {line_number}: {error.message}", param="file") from error
    if not found:
        raise ConfigError(f"{path} has no texts", param="file")
    return tuple(found)


def _fields(line: str) -> tuple[str, str, str, str] | None:
    if line.lstrip().startswith("{"):
        try:
            read = members(json.loads(line))
        except ValueError:
            return None
        fields = [read.get(name) for name in _JSON_FIELDS]
    else:
        fields = line.split("\t")
    if len(fields) != len(_JSON_FIELDS) or not all(isinstance(field, str) for field in fields):
        return None
    source, reference, source_language, target_language = map(str, fields)
    return source, reference, source_language, target_language


def _checks(line: str) -> tuple[tuple[str, ...], ...]:
    if not line.lstrip().startswith("{"):
        return ()
    groups = [elements(group) for group in elements(members(json.loads(line)).get("checks"))]
    return tuple(tuple(map(str, group)) for group in groups if group)


async def run_quality(
    api: TranslationApi, path: Path, load_clients: int, observer: Observer, interrupted: asyncio.Event
) -> EvalResults:
    """Translates a file's texts, and a second time while `load_clients` clients send other sentences; scores both.

    Interrupted, it has the texts that were translated until then.
    """
    references = read_references(path)
    conditions = await EvalConditions.of(api, path)
    asks = [Ask(one.text, one.source, one.target) for one in references]
    observer.phase(f"{len(asks)} texts", len(asks))
    answers = await api.translate_all(asks, observer, interrupted)
    rows = [_row(one, answer) for one, answer in zip(references, answers, strict=True) if answer is not None]
    if load_clients and not interrupted.is_set():
        observer.phase(f"{len(asks)} texts amid {load_clients} clients", len(asks))
        async with asyncio.TaskGroup() as group:
            ended = asyncio.Event()
            clients = [group.create_task(_send_others(api, references, seed, ended)) for seed in range(load_clients)]
            again = await api.translate_all(asks, observer, interrupted)
            ended.set()
            for client in clients:
                client.cancel()
        rows = [
            replace(row, under_load=answer.text, under_load_latency_s=answer.latency_s) if answer else row
            for row, answer in zip(rows, again, strict=True)
        ]
    results = EvalResults(
        "quality", conditions, partial=interrupted.is_set(), scored=tuple(rows), load_clients=load_clients
    )
    return replace(results, scores=scores(results))


def _row(one: Reference, answer: Answer) -> ScoredRow:
    return ScoredRow(
        text=one.text,
        reference=one.reference,
        source=one.source,
        target=one.target,
        output=answer.text,
        latency_s=round(answer.latency_s, 6),
        error=answer.error,
        warnings=answer.warnings,
        retries=answer.retries,
        cached=answer.cached,
    )


async def _send_others(api: TranslationApi, references: Sequence[Reference], seed: int, ended: asyncio.Event) -> None:
    """Sends packaged sentences of the file's directions, one after the other; of other languages, parts of its texts."""
    texts = PhrasebookTexts(seed, len)
    index = seed
    while not ended.is_set():
        index += 1
        one = references[index % len(references)]
        low, high = _BACKGROUND_CHARACTERS
        text = (
            texts.make(one.source, low + index % (high - low))
            if one.source in LANGUAGES
            else f"{one.text[: len(one.text) // 2 + 1]} {index}"
        )
        answer = await api.translate(Ask(text, one.source, one.target))
        if answer.error:
            await asyncio.sleep(0.1)


# ---- scores


def scores(results: EvalResults) -> dict[str, Any]:
    """By direction and in all: chrF, BLEU, latency, the share of each warning; with a second pass, the same of it."""
    rows = results.scored
    loaded = [row for row in rows if row.under_load is not None]
    found: dict[str, Any] = {"alone": {name: _score(some) for name, some in _directions(rows)}}
    if loaded:
        again = [replace(row, output=row.under_load or "", latency_s=row.under_load_latency_s or 0.0) for row in loaded]
        found["under_load"] = {name: _score(some) for name, some in _directions(again)}
        found["differing_outputs"] = sum(row.output != row.under_load for row in loaded)
    return found


def _directions(rows: Sequence[ScoredRow]) -> Iterator[tuple[str, Sequence[ScoredRow]]]:
    by_direction: dict[str, list[ScoredRow]] = {}
    for row in rows:
        by_direction.setdefault(f"{row.source}>{row.target}", []).append(row)
    yield from by_direction.items()
    if len(by_direction) > 1:
        yield "all", rows


def _score(rows: Sequence[ScoredRow]) -> dict[str, Any]:
    outputs, references = [row.output for row in rows], [row.reference for row in rows]
    latencies = [row.latency_s for row in rows]
    warnings = Counter(code for row in rows for code in set(row.warnings))
    targets = {row.target for row in rows}
    chrf = _metrics().CHRF()
    found: dict[str, Any] = {
        "texts": len(rows),
        "errors": sum(bool(row.error) for row in rows),
        "cached": sum(row.cached for row in rows),
        "chrf": round(float(chrf.corpus_score(outputs, [references]).score), 2),
        "chrf_signature": str(chrf.get_signature()),
        "latency_p50_s": round(float(np.percentile(latencies, 50)), 4),
        "latency_p95_s": round(float(np.percentile(latencies, 95)), 4),
        "warnings": {code: round(count / len(rows), 4) for code, count in sorted(warnings.items())},
        "retried": round(sum(bool(row.retries) for row in rows) / len(rows), 4),
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


def score_tables(results: EvalResults) -> list[Table]:
    """What was scored, a table for each pass, and the warnings."""
    found: list[Table] = []
    for key, title in (
        ("alone", "Quality"),
        ("under_load", f"The same texts amid {results.load_clients} other clients"),
    ):
        scored = members(results.scores.get(key))
        if not scored:
            continue
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
            for name, one in scored.items()
        ]
        columns = ("direction", "texts", "failed", "chrF", "BLEU", "p50", "p95", "retried", "warnings")
        signatures = {
            one[name] for one in scored.values() for name in ("chrf_signature", "bleu_signature") if name in one
        }
        cached = sum(one["cached"] for name, one in scored.items() if name != "all")
        note = f"Signatures: {'; '.join(sorted(signatures))}."
        if key == "under_load":
            note = f"{results.scores['differing_outputs']} outputs differ from those alone."
            note += " Outputs of the first pass were cached: turn the server's cache off." * bool(cached)
        found.append(table(title, columns, rows, note=note))
    return found


def compare_results(first: EvalResults, second: EvalResults) -> list[Table]:
    """Paired bootstrap over the texts that both have: the scores of both, and how likely the difference is chance.

    Raises ConfigError where they have no text in common.
    """
    theirs = {(row.text, row.source, row.target): row for row in second.scored}
    pairs = [(row, theirs[key]) for row in first.scored if (key := (row.text, row.source, row.target)) in theirs]
    if not pairs:
        raise ConfigError("the two results have no text in common")
    found: list[tuple[str, ...]] = []
    for target in sorted({one.target for one, _ in pairs}):
        some = [(one, other) for one, other in pairs if one.target == target]
        for name, metric in (("chrF", _metrics().CHRF()), ("BLEU", _bleu(target))):
            found.append((target, name, str(len(some)), *_bootstrapped(metric, some)))
    note = (
        f"Paired bootstrap, {_SAMPLES} samples: the range of B is that of 95 % of them; below p = 0.05 the difference is "
        "unlikely to be chance."
    )
    return [table("A and B", ("target", "score", "texts", "A", "B", "range of B", "p"), found, note=note, heads=2)]


def _bootstrapped(metric: Any, pairs: Sequence[tuple[ScoredRow, ScoredRow]]) -> tuple[str, ...]:
    significance = import_module("sacrebleu.significance")
    test = significance.PairedTest(
        [("A", [one.output for one, _ in pairs]), ("B", [other.output for _, other in pairs])],
        {"score": metric},
        [[one.reference for one, _ in pairs]],
        test_type="bs",
        n_samples=_SAMPLES,
    )
    _, results = test()
    one, other = next(found for name, found in results.items() if name != "System")
    spread = f"{other.mean - other.ci:.1f} to {other.mean + other.ci:.1f}"
    return f"{one.score:.2f}", f"{other.score:.2f}", spread, f"{other.p_value:.3f}"
