"""How well the confidence in translations of a model that nobody has calibrated finds its worst ones.

    python benchmarks/confidence.py translate DIR --url http://127.0.0.1:8000 --rows qwen-b.jsonl.gz --programs gimp-data,vlc-l10n
    python benchmarks/confidence.py fit qwen-a.jsonl.gz smollm2-a.jsonl.gz --languages sv,da,cs
    python benchmarks/confidence.py measure qwen-b.jsonl.gz --before qwen-a.jsonl.gz --out results/confidence.json

`translate` sends messages of catalogues with translations by people (as `benchmarks/checks.py` reads them) to a server, and
keeps each answer with its chrF++ against the person's translation and the inputs of its confidence. `fit` writes the regression
that is shipped (`dragoman/text/data/confidence.json`): it tells the worst fifth of a model and language from the best half.
`measure` is on rows of other languages and other programs. The worst fifth is that of each language by
chrF++; marked is what has a warning of any code, `low_confidence` among them. The baseline is the mean log-probability of the
output's tokens. The last line is one JSON document.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from benchmarks.checks import read_corpus

from dragoman.text import confidence
from dragoman.text.checks import LOW_CONFIDENCE
from dragoman.text.confidence import RecentScores, Regression
from dragoman_bench.bench.measurement import Measurement, read_text, write_text
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.bench.tables import Table, markdown, percent, table
from dragoman_bench.eval.apis import ApiOptions, Ask, translation_api
from dragoman_bench.eval.calibration import Floats, auc, fit, rounded

SHIPPED = Path(confidence.__file__).parent / "data" / confidence.FILE
TWELVE = "fr,es,it,pt-BR,ru,pl,de,nl,tr,zh,ja,ko"
SHORTEST, LONGEST, FEWEST_WORDS = 12, 160, 3
WORST, BEST = 0.2, 0.5
MARKED = 0.08
"""The share of translations that `low_confidence` marks; with other codes at most a tenth are to be marked."""
PARTS = ("all", "worst", "best")
SCORES = 64  # that are shipped
ANY = ("en", "")
"""A direction: the shipped regression has one for all."""
PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Row:
    """A translation, with what its confidence is computed from. `warnings` are codes."""

    program: str
    language: str
    source: str
    reference: str
    output: str
    warnings: tuple[str, ...]
    inputs: Mapping[str, float]
    chrf: float

    @property
    def is_marked_otherwise(self) -> bool:
        return any(code != LOW_CONFIDENCE for code in self.warnings)


def read_rows(path: Path, languages: Iterable[str] = ()) -> dict[str, list[Row]]:
    """The rows of a file by language, of these languages where any is named."""
    found: dict[str, list[Row]] = defaultdict(list)
    wanted = set(languages)
    for line in read_text(path).splitlines():
        row = Row(**json.loads(line))
        if not wanted or row.language in wanted:
            found[row.language].append(row)
    return dict(found)


def places(rows: Sequence[Row]) -> Floats:
    """The place of each of a language's rows by chrF++, from 0 for the worst to 1."""
    order = np.array([row.chrf for row in rows]).argsort(kind="stable")
    return order.argsort() / len(rows)


# ---- translations


def messages(
    folder: Path, programs: Sequence[str], languages: Sequence[str], number: int
) -> Iterator[tuple[str, str, str, str]]:
    """Program, language, message and translation: as many of each program as there are, up to `number` of each language."""
    corpus, rng = read_corpus(folder, programs), random.Random(42)
    for language in languages:
        by_program: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for program, _, source, translation in sorted(corpus.of(language)):
            if SHORTEST <= len(source) <= LONGEST and len(source.split()) >= FEWEST_WORDS and source != translation:
                by_program[program].append((source, translation))
        for pairs in by_program.values():
            rng.shuffle(pairs)
        turns = (program for _ in range(number) for program in by_program)
        chosen = ((program, *by_program[program].pop()) for program in turns if by_program[program])
        for (program, source, translation), _ in zip(chosen, range(number), strict=False):
            yield program, language, source, translation


async def translated(url: str, wanted: Sequence[tuple[str, str, str, str]]) -> list[Row]:
    """The answers of a server that is one segment each."""
    metric = import_module("sacrebleu.metrics").CHRF(word_order=2)
    async with translation_api(ApiOptions(url, concurrency=32, extra=(("confidence_inputs", True),))) as api:
        asks = [Ask(source, "en", language) for _, language, source, _ in wanted]
        answers = await api.translate_all(asks, NoProgress(), asyncio.Event())
    return [
        Row(
            *one,
            answer.text,
            answer.warnings,
            answer.confidence_inputs[0],
            metric.sentence_score(answer.text, [one[3]]).score,
        )
        for one, answer in zip(wanted, answers, strict=True)
        if answer and len(answer.confidence_inputs) == 1
    ]


# ---- the fit


def fitted(models: Sequence[Mapping[str, Sequence[Row]]]) -> dict[str, Any]:
    """The document that is shipped, of the rows of several models by language."""
    groups = [_ends(rows) for languages in models for rows in languages.values()]
    names = sorted(name for name, values in _columns(groups).items() if len(set(values)) > 1)
    # An intercept for each model and language: the fit is on what differs within one.
    inputs = [
        {name: row.inputs[name] for name in names}
        | {f"group {place}": float(place == own) for place in range(len(groups))}
        for own, rows in enumerate(groups)
        for row in rows
    ]
    found = fit(inputs, np.concatenate([(places(rows) >= WORST / (WORST + BEST)).astype(float) for rows in groups]))
    weights = {name: round(found.weights[name], 4) for name in names}
    rows = [row for languages in models for some in languages.values() for row in some]
    sums = [sum(weight * row.inputs[name] for name, weight in weights.items()) for row in rows]
    regression = Regression(round(-statistics.median(sums), 4), weights)  # so that scores do not all round to 1
    scores = [regression.probability(row.inputs, ANY) for row in rows]
    at = np.linspace(0, 1, 2 * SCORES + 1)[1::2]
    return {
        "bias": regression.bias,
        "weights": regression.weights,
        "threshold": MARKED,
        "scores": [rounded(one) for one in np.quantile(scores, at)],
        "fitted": {
            "translations": len(scores),
            "models": len(models),
            "languages": sorted({one for m in models for one in m}),
        },
    }


def _ends(rows: Sequence[Row]) -> list[Row]:
    """The worst fifth and the best half: what lies between is neither."""
    return [row for row, place in zip(rows, places(rows), strict=True) if place < WORST or place >= 1 - BEST]


def _columns(groups: Sequence[Sequence[Row]]) -> dict[str, list[float]]:
    rows = [row for group in groups for row in group]
    return {name: [row.inputs[name] for row in rows] for name in rows[0].inputs}


# ---- the figures


def ranks(rows: Sequence[Row], before: Sequence[Row], regression: Regression, shipped: Sequence[float]) -> list[float]:
    """The rank of each row in turn, after those that were translated before."""
    recent = RecentScores(shipped)
    for row in before:
        recent.add(ANY, regression.probability(row.inputs, ANY))
    found: list[float] = []
    for row in rows:
        score = regression.probability(row.inputs, ANY)
        recent.add(ANY, score)
        found.append(recent.rank(ANY, score))
    return found


def figures(rows: Sequence[Row], before: Sequence[Row], document: Mapping[str, Any]) -> dict[str, float]:
    """Of one language."""
    regression = Regression(document["bias"], document["weights"])
    ranked = np.array(ranks(rows, before, regression, document["scores"]))
    place = places(rows)
    parts = {"all": place >= 0, "worst": place < WORST, "best": place >= 1 - BEST}
    otherwise = np.array([row.is_marked_otherwise for row in rows])
    unsure = ranked < document["threshold"]
    scores = {
        "score": np.array([regression.probability(row.inputs, ANY) for row in rows]),
        "mean_logprob": np.array([-row.inputs["mean_surprise"] for row in rows]),
    }
    return {
        "translations": len(rows),
        "chrf": rounded(np.mean([row.chrf for row in rows])),
        **{f"auc_of_{name}": rounded(auc(values, (~parts["worst"]).astype(float))) for name, values in scores.items()},
        **{
            f"{name}_of_{part}": rounded(which[some].mean())
            for name, which in (("unsure", unsure), ("marked", unsure | otherwise), ("otherwise", otherwise))
            for part, some in parts.items()
        },
    }


def averaged(by_language: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean over languages of each figure."""
    names = next(iter(by_language.values()))
    return {name: rounded(statistics.fmean(one[name] for one in by_language.values())) for name in names}


# ---- the command


@click.group()
def main() -> None:
    """Fit and measure the confidence of models that were not calibrated."""


def _listed(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in value.split(",") if one.strip())


@main.command("translate")
@click.argument("folder", type=PATH)
@click.option("--url", default="http://127.0.0.1:8000", show_default=True)
@click.option("--programs", default="", callback=_listed)
@click.option("--languages", default=TWELVE, callback=_listed, show_default=True)
@click.option("--number", default=150, show_default=True, help="Messages of each language.")
@click.option("--rows", "out", type=PATH, required=True)
def _translate(
    folder: Path, url: str, programs: tuple[str, ...], languages: tuple[str, ...], number: int, out: Path
) -> None:
    rows = asyncio.run(translated(url, list(messages(folder, programs, languages, number))))
    write_text(out, "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows))
    click.echo(f"{len(rows)} translations in {out}")


@main.command("fit")
@click.argument("files", nargs=-1, type=PATH, required=True)
@click.option("--languages", required=True, callback=_listed, help="Others than those that are measured.")
@click.option("--out", type=PATH, default=SHIPPED, show_default=True)
def _fit(files: tuple[Path, ...], languages: tuple[str, ...], out: Path) -> None:
    document = fitted([read_rows(path, languages) for path in files])
    write_text(out, json.dumps(document, indent=1) + "\n")
    click.echo(f"wrote {out}")


@main.command("measure")
@click.argument("rows", type=PATH)
@click.option("--before", type=PATH, help="Rows that the model has translated before; without: none.")
@click.option("--languages", default=TWELVE, callback=_listed, show_default=True)
@click.option("--model", default="", help="Its name, for the results.")
@click.option("--note", default="", help="How the rows were made, for the results.")
@click.option("--out", type=PATH, help="A results file, to which this model is added.")
def _measure(
    rows: Path, before: Path | None, languages: tuple[str, ...], model: str, note: str, out: Path | None
) -> None:
    document = json.loads(SHIPPED.read_text(encoding="utf-8"))
    earlier = read_rows(before, languages) if before else {}
    by_language = {
        language: figures(found, earlier.get(language, ()), document)
        for language, found in read_rows(rows, languages).items()
    }
    mean = averaged(by_language)
    click.echo(markdown(figures_table(model, {**by_language, "mean": mean})))
    found = (
        Measurement.read(out) if out and out.is_file() else Measurement.begin("confidence", fitted=document["fitted"])
    )
    programs = sorted({row.program for some in read_rows(rows, languages).values() for row in some})
    found.data[model] = {
        "note": note,
        "programs": programs,
        "translated_before": bool(before),
        "mean": mean,
        "languages": by_language,
    }
    found.write(out)
    click.echo(json.dumps(found.document, ensure_ascii=False))


def figures_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    """A line for each language."""
    columns = ("language", "chrF++", "AUC", "mean log-probability's", "low_confidence", "worst fifth", "best half")
    lines = [
        (
            language,
            f"{one['chrf']:.0f}",
            f"{one['auc_of_score']:.3f}",
            f"{one['auc_of_mean_logprob']:.3f}",
            *(percent(one[f"{name}_of_{part}"], 1) for name in ("unsure", "marked") for part in PARTS),
        )
        for language, one in rows.items()
    ]
    columns += ("any warning", "worst fifth", "best half")
    return table(title, columns, lines)


if __name__ == "__main__":
    main()
