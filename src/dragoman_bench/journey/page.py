"""What a journey found: verdicts, the story's table and all numbers, as Markdown, as JSON and as an HTML page.

The page opens with the picture and the verdicts; settings and conditions come last.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Results
from dragoman_bench.bench.tables import Cell, Column, Table, Tone, machine_text, notes_on, number, table, write_text
from dragoman_bench.journey.claims import (
    BEST,
    BUSY_SHARE,
    FEWEST_ANSWERS,
    GENERAL_RULE,
    GPU_MEAN,
    ONE_WORKER,
    P50,
    P99,
    RPS,
    TOKENS_S,
    At,
    JudgedClaim,
    Measured,
    Metric,
    StoryRow,
    Verdict,
    judge_all,
    story_rows,
)
from dragoman_bench.journey.measure import JourneyResults
from dragoman_bench.journey.steps import BUSY
from dragoman_bench.report.charts import rates_by_result
from dragoman_bench.report.page import FOOTER, Section, report_sections, sections_markdown, write_page

TITLE = "The story, measured here"
COLUMNS: tuple[Metric, ...] = (RPS, TOKENS_S, P50, P99, BUSY_SHARE, GPU_MEAN)
CHARTED = (
    *("workers-1", "workers-2", "static", "continuous-64", "continuous-16", "continuous-256"),
    *("vllm-64", "vllm-256"),
)
"""Steps that the charts show, as many as there are colours; the table of all numbers has the rest."""
_TONES: dict[Verdict, Tone] = {"holds here": "good", "does not hold here": "bad", "undecided": ""}
# Different between steps or kinds of server by plan, and shown elsewhere on the page.
_OF_A_STEP = frozenset(
    {"journey", "repeats", "system_prompt", "user_prompt", "max_tokens", "temperature", "forced_lengths"}
)


@dataclass(frozen=True, slots=True)
class JourneyReport:
    """`missing` are reasons why something was not measured."""

    summary: str
    conditions: tuple[str, ...]
    rows: tuple[StoryRow, ...]
    findings: tuple[JudgedClaim, ...]
    missing: tuple[str, ...]
    results: dict[str, Results]


def conclude(journey: JourneyResults, *, quick_note: str | None = None) -> JourneyReport:
    """Judges what was measured. Raises ConfigError where nothing was."""
    if not journey.results:
        raise ConfigError("nothing was measured, so there is nothing to report")
    measured = Measured(journey.results)
    missing = [f"{name} failed: {message.splitlines()[0]}" for name, message in journey.failures.items()]
    if journey.interrupted:
        missing.insert(0, "The journey was interrupted: this is what was measured until then.")
    if journey.not_reached:
        missing.append(f"Not reached: {', '.join(journey.not_reached)}.")
    if quick_note:
        missing.append(quick_note)
    findings = judge_all(measured)
    return JourneyReport(
        summary=_summary(measured, findings),
        conditions=tuple(_conditions(journey.results)),
        rows=story_rows(measured),
        findings=findings,
        missing=tuple(missing),
        results=journey.results,
    )


def _summary(measured: Measured, findings: tuple[JudgedClaim, ...]) -> str:
    """One line: from one worker to the best step, where both were measured, and the verdicts."""
    counts, best = Counter(finding.verdict for finding in findings), measured.resolve(BEST)
    holding, failing, undecided = (counts[verdict] for verdict in _TONES)
    verdicts = f"{len(findings)} claims {holding} hold here, {failing} do not, {undecided} are undecided."
    one, most = measured.spread(ONE_WORKER, RPS), measured.spread(best, RPS)
    if one is None or most is None or not one.median:
        return f"Of {verdicts}"
    return (
        f"{number(one.median)} requests a second with one worker, {number(most.median)} with "
        f"{best.leg.removesuffix('.variable')}: {number(most.median / one.median)} times; of {verdicts}"
    )


def _conditions(results: dict[str, Results]) -> Iterator[str]:
    """What all results share."""
    first = next(iter(results.values())).conditions
    yield f"Machine: {machine_text(first.machine)}; {first.machine.memory_gib:g} GiB of memory"
    versions = ", ".join(f"{name} {version}" for name, version in first.packages.items())
    yield f"Versions: Python {first.python}, {versions}"
    models = dict.fromkeys(str(one.conditions.model) for one in results.values() if one.conditions.target == "dragoman")
    yield f"Model: {', '.join(models) or first.model}"
    for workload in dict.fromkeys(one.conditions.workload for one in results.values()):
        yield f"Workload {workload}"
    duration_s, warmup_s = (first.options.get(name) for name in ("duration_s", "warmup_s"))
    yield f"Closed loop, {duration_s:g} s a measurement after {warmup_s:g} s of warm-up; ranges are over repeats"
    started = [one.conditions.started_at for one in results.values()]
    commits = dict.fromkeys(str(one.conditions.git_commit)[:12] for one in results.values())
    yield f"Measured {min(started)} to {max(started)}, commit {', '.join(commits)}"


def write_files(report: JourneyReport, folder: Path, page: Path | None = None) -> tuple[Path, ...]:
    """`report.html` (or `page`), `journey.md` and `journey.json` (table and verdicts as data). Raises ConfigError."""
    document = {
        "summary": report.summary,
        "conditions": report.conditions,
        "story": [asdict(row) for row in report.rows],
        "rule": GENERAL_RULE,
        "findings": [asdict(finding) for finding in report.findings],
        "missing": report.missing,
    }
    page, text, data = page or folder / "report.html", folder / "journey.md", folder / "journey.json"
    first, last = _sections(report)
    write_page(page, TITLE, report.summary, report_sections(charted(report.results), first=first, last=last), FOOTER)
    write_text(text, as_markdown(report), "out")
    write_text(data, json.dumps(document, ensure_ascii=False, indent=1) + "\n", "out")
    return page, text, data


def as_markdown(report: JourneyReport) -> str:
    """The whole report, for docs."""
    first, last = _sections(report)
    return sections_markdown(TITLE, report.summary, [*first, *last])


def _sections(report: JourneyReport) -> tuple[list[Section], list[Section]]:
    """What comes before the charts and tables of any report, and what after them.

    The picture has requests a second of each step on variable texts, or of all legs where no step has them.
    """
    busy, remarks = Load("closed", clients=BUSY), list(report.missing)
    variable = {
        name.removesuffix(".variable"): one
        for name, one in report.results.items()
        if name.endswith(".variable") and any(point.load == busy for point in one.points)
    }
    for name, found in report.results.items():
        remarks += [f"{name}, {note}" for note in notes_on(found)]
        for point in found.points:
            answers = Measured(report.results).fewest_answers(At(name, point.load.clients or 0))
            if answers < FEWEST_ANSWERS:
                remarks.append(f"{name}, {point.load.label}: only {answers} answers; --duration gives more.")
    picture = rates_by_result(variable or report.results, busy, f"Requests a second at {BUSY} clients")
    columns = [Column(name, "left") for name in ("step", "the story, RPS at 25 concurrent", "here, at 25 clients")]
    story = [(row.step, row.story, row.here) for row in report.rows]
    first = [
        Section(charts=(picture,)),
        Section("What holds here", tables=(_verdicts(report),)),
        Section("The story beside it", tables=(table("", columns, story, slug="story"),)),
    ]
    last = [
        Section("All steps", tables=(_numbers(report),)),
        Section("How the claims were judged", (GENERAL_RULE,)),
        Section("Machine and model", bullets=report.conditions),
    ]
    if remarks:
        last.insert(1, Section("To bear in mind", bullets=tuple(remarks)))
    return first, last


def charted(results: dict[str, Results]) -> dict[str, Results]:
    """What the charts show, by the steps' names: variable texts, of the steps that matter; all where none of these is.

    Conditions are without what differs from step to step by plan, as the report warns of all other differences.
    """
    shown = {step: results[f"{step}.variable"] for step in CHARTED if f"{step}.variable" in results} or dict(results)
    loads = {point.load.clients or 0: point.load for found in shown.values() for point in found.points}
    every = tuple(loads[clients] for clients in sorted(loads))
    for name, found in shown.items():
        options = {name: value for name, value in found.conditions.options.items() if name not in _OF_A_STEP}
        shown[name] = replace(found, conditions=replace(found.conditions, loads=every, options=options))
    return shown


def _verdicts(report: JourneyReport) -> Table:
    """Each claim with its rule."""
    rows = [
        (
            Cell(finding.statement, finding.rule),
            finding.story or "our question",
            Cell(finding.verdict, tone=_TONES[finding.verdict]),
            finding.because,
        )
        for finding in report.findings
    ]
    columns = [Column(name, "left") for name in ("claim", "the story", "verdict", "numbers that decided")]
    return table("", columns, rows, slug="verdicts")


def _numbers(report: JourneyReport) -> Table:
    """One row for every leg and level."""
    measured = Measured(report.results)
    rows: list[tuple[str | None, ...]] = []
    for name, results in report.results.items():
        for point in results.points:
            at = At(name, point.load.clients or 0)
            failed = sum(repeat.summary.requests - repeat.summary.completed for repeat in point.repeats)
            rows.append((name, str(at.clients), *(measured.text(at, metric) for metric in COLUMNS), str(failed)))
    columns = ("step", "clients", *(metric.name for metric in COLUMNS), "failed")
    return table("", columns, rows, note="Median of the repeats [lowest..highest].", slug="numbers").pruned()
