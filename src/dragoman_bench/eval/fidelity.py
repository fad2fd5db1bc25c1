"""`dragoman eval --fidelity`: sends the hard inputs to a server and judges them; writes a table and docs/fidelity.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Cell, Column, Table, bullets, escaped, markdown, percent, seconds, table
from dragoman_bench.eval.apis import Answer, Ask, TranslationApi
from dragoman_bench.eval.judge import KINDS, HardInput, Judgement, judge, read_inputs
from dragoman_bench.eval.results import EvalConditions, EvalResults, JudgedRow

CUT_AROUND, ALIGNED = "cut_around", "aligned"
"""How dragoman reports that a text was cut around its tags, and that tags were put at aligned positions."""
LOW_CONFIDENCE = "low_confidence"
"""dragoman's warning of a translation that the model is unsure of, which no check found fault with."""
STRUCTURE_GOAL, KIND_GOAL = 0.98, 0.95
_MISSES_SHOWN = 40


async def run_fidelity(
    api: TranslationApi, inputs: Path, observer: Observer, interrupted: asyncio.Event
) -> EvalResults:
    """Translate all hard inputs of a file and judge each; after an interrupt, those that were done before."""
    hard = read_inputs(inputs)
    conditions = await EvalConditions.of(api, inputs)
    observer.phase(f"{len(hard)} hard inputs", len(hard))
    asks = [Ask(one.text, one.source, one.target, one.format) for one in hard]
    answers = await api.translate_all(asks, observer, interrupted)
    rows = [
        JudgedRow(one.id, one.kind, answer, _judged(one, answer))
        for one, answer in zip(hard, answers, strict=True)
        if answer is not None
    ]
    return EvalResults(conditions, partial=interrupted.is_set(), judged=tuple(rows))


def _judged(one: HardInput, answer: Answer) -> Judgement:
    found = judge(one, answer.text)
    if not answer.error:
        return found
    return Judgement(False, False, found.content, False, (f"no translation: {answer.error}",))


# ---- tables


def _share(rows: Iterable[JudgedRow], holds: Callable[[JudgedRow], bool | None]) -> float | None:
    """Of how many something holds; rows of which nothing is said (None) do not count."""
    found = [one for row in rows if (one := holds(row)) is not None]
    return sum(found) / len(found) if found else None


_CHECKS: tuple[tuple[str, Callable[[JudgedRow], bool | None]], ...] = (
    ("structure", lambda row: row.judgement.structure),
    ("kept", lambda row: row.judgement.kept),
    ("content", lambda row: row.judgement.content),
    ("clean", lambda row: row.judgement.clean),
)
_FALLBACKS: tuple[tuple[str, Callable[[JudgedRow], bool | None]], ...] = (
    ("again", lambda row: any(code not in (CUT_AROUND, ALIGNED) for code in row.answer.retries)),
    ("cut around", lambda row: CUT_AROUND in row.answer.retries),
    ("aligned", lambda row: ALIGNED in row.answer.retries),
    ("warned", lambda row: any(code != LOW_CONFIDENCE for code in row.answer.warnings)),
    ("unsure", lambda row: LOW_CONFIDENCE in row.answer.warnings),
)


def kinds_of(rows: Iterable[JudgedRow]) -> list[tuple[str, list[JudgedRow]]]:
    """Return the rows of all kinds, then those of each kind."""
    listed = list(rows)
    some = [(kind, [row for row in listed if row.kind == kind]) for kind in KINDS]
    return [("all", listed), *((kind, of_kind) for kind, of_kind in some if of_kind)]


def kind_table(results: EvalResults, without: EvalResults | None = None) -> Table:
    """Return a table by kind: the share that meets each criterion, without and with if there are two results, and the share
    that needed each fallback."""
    before = dict(kinds_of(without.judged)) if without else {}
    rows: list[list[Cell | str]] = []
    for kind, some in kinds_of(results.judged):
        cells: list[Cell | str] = [kind, str(len(some))]
        for name, holds in _CHECKS:
            share = _share(some, holds)
            if without:
                cells.append(_percent(_share(before.get(kind, ()), holds)))
            goal = STRUCTURE_GOAL if kind == "all" else KIND_GOAL
            low = name == "structure" and share is not None and share < goal
            cells.append(Cell(_percent(share), tone="bad" if low else ""))
        cells += [_percent(_share(some, needed)) for _, needed in _FALLBACKS]
        rows.append(cells)
    checks = [name for name, _ in _CHECKS]
    if without:
        checks = [title for name in checks for title in (f"{name}, without", "with")]
    return table("", [Column("kind", "left"), "inputs", *checks, *(name for name, _ in _FALLBACKS)], rows)


def _percent(share: float | None) -> str:
    return percent(share, 0 if share in (0, 1) else 1)


# ---- the page

_INTRODUCTION = """# Fidelity: hard inputs whose structure must be kept

<!-- Written by `dragoman eval --fidelity --page docs/fidelity.md`. Do not edit. -->

The command sends {count} hard inputs, which were written for this project
([hard_inputs.jsonl](../src/dragoman_bench/eval/hard_inputs.jsonl)), in {directions} directions among {languages}, to a server,
and judges the answers. It parses source and translation with standard parsers, not with the server's own.

- **structure**: the translation has the source's tags with their attributes, nesting and text; entities and references;
  lines, bullets, blank lines and trailing white space; arguments and branches of messages. Inline tags may move within a
  block, as words do.
- **kept**: placeholders, URLs, code and other untranslatable text occur exactly as often as in the source.
- **content**: the translation has certain words. This depends on the model as much as on the server.
- **clean**: the output is only a translation in the target's script: no copy of the source, commentary, refusal, answer or
  repetition.

The other columns are shares of the texts. *again*: a segment was translated again; *cut around*: the text between tags was
translated separately; *aligned*: tags were inserted at positions in proportion to the source; *warned*: the answer has a
warning of a check; *unsure*: it has the warning `low_confidence`.
"""


def fidelity_page(results: EvalResults, without: EvalResults | None, inputs: Sequence[HardInput]) -> str:
    """Return the page as Markdown, with the model's name if the server reports it."""
    name = str(results.conditions.server.get("model", "server"))
    directions = {(one.source, one.target) for one in inputs}
    introduction = _INTRODUCTION.format(
        count=len(inputs), directions=len(directions), languages=", ".join(sorted({one.source for one in inputs}))
    )
    parts = [introduction, f"## By kind: {escaped(name)}", ""]
    if without:
        how = "every text sent as plain text" if without.conditions.plain else "see the conditions"
        parts += [f"*without*: {how}, {without.conditions.started_at[:10]}.", ""]
    parts += [markdown(kind_table(results, without)), ""]
    parts += ["## Failed inputs", "", *_misses(results, inputs), ""]
    parts += [
        "## Conditions",
        "",
        markdown(_conditions([(name, results), *([("without", without)] if without else [])])),
        "",
    ]
    return "\n".join(parts)


def _misses(results: EvalResults, inputs: Sequence[HardInput]) -> list[str]:
    known = {one.id: one for one in inputs}
    missed = [row for row in results.judged if not row.judgement.whole]
    if not missed:
        return ["None."]
    lines = [
        f"{row.id} ({known[row.id].source} to {known[row.id].target}): {'; '.join(row.judgement.reasons[:2])}"
        for row in missed[:_MISSES_SHOWN]
        if row.id in known
    ]
    more = len(missed) - len(lines)
    return [bullets(lines), *([f"\nand {more} more in the results file."] if more > 0 else [])]


def _conditions(named: Sequence[tuple[str, EvalResults]]) -> Table:
    facts: dict[str, list[str]] = {}
    for _, results in named:
        conditions, server = results.conditions, results.conditions.server
        sets = server.get("cpu_instruction_sets") or conditions.machine.cpu_instruction_sets
        latencies = sorted(row.answer.latency_s for row in results.judged) or [0.0]
        for fact, value in {
            "date": conditions.started_at[:10],
            "API": conditions.api + (", plain text" if conditions.plain else ""),
            "model": server.get("model"),
            "profile": server.get("profile"),
            "device": server.get("device"),
            "dtype": server.get("dtype"),
            "CPU's instruction sets": ", ".join(map(str, sets)),
            "texts at a time": conditions.concurrency,
            "median latency": seconds(latencies[len(latencies) // 2]),
            "texts": f"{len(results.judged)}{' (interrupted)' if results.partial else ''}",
            "failed": sum(bool(row.answer.error) for row in results.judged),
            "inputs": conditions.inputs_sha256,
        }.items():
            facts.setdefault(fact, []).append("" if value is None else str(value))
    columns = [Column("", "left"), *(Column(name, "left") for name, _ in named)]
    return table("", columns, [[fact, *values] for fact, values in facts.items()])
