"""What a journey found: verdicts, the story's table and all numbers, as Markdown, as JSON and as an HTML page.

The page opens with the picture and the verdicts; settings and conditions come last.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Load, Results
from dragoman_bench.bench.tables import (
    Cell,
    Column,
    Table,
    Tone,
    bullets,
    escaped,
    markdown,
    notes_on,
    number,
    table,
    write_text,
)
from dragoman_bench.journey.claims import ONE_WORKER, JudgedClaim, StoryRow, best_continuous, judge_all, story_rows
from dragoman_bench.journey.judging import (
    BUSY_SHARE,
    FEWEST_ANSWERS,
    GENERAL_RULE,
    GPU_MEAN,
    P50,
    P99,
    RPS,
    TOKENS_S,
    At,
    Measured,
    Metric,
    Verdict,
)
from dragoman_bench.journey.route import BUSY
from dragoman_bench.journey.run import JourneyResults
from dragoman_bench.report import Chart, Section, rates_by_result, write_report

COLUMNS: tuple[Metric, ...] = (RPS, TOKENS_S, P50, P99, BUSY_SHARE, GPU_MEAN)
CHARTED = (
    "workers-1",
    "workers-2",
    "static",
    "continuous-64",
    "continuous-16",
    "continuous-256",
    "vllm-64",
    "vllm-256",
)
"""Steps that the charts show, as many as there are colours; the table of all numbers has the rest."""
_TONES: dict[Verdict, Tone] = {"holds here": "good", "does not hold here": "bad", "undecided": ""}
# Different between steps or kinds of server by plan, and shown elsewhere on the page.
_OF_A_STEP = frozenset({"journey", "repeats", "system_prompt", "user_prompt", "max_tokens", "temperature"})


@dataclass(frozen=True, slots=True)
class JourneyReport:
    """`missing` are reasons why something was not measured."""

    conditions: tuple[str, ...]
    rows: tuple[StoryRow, ...]
    findings: tuple[JudgedClaim, ...]
    missing: tuple[str, ...]
    results: dict[str, Results]
    title: str = "The story, measured here"

    @property
    def summary(self) -> str:
        """One line."""
        counts = Counter(finding.verdict for finding in self.findings)
        holding, failing, undecided = (counts[verdict] for verdict in _TONES)
        verdicts = f"{holding} hold here, {failing} do not, {undecided} are undecided"
        line = f"{_speedup(Measured(self.results))}of {len(self.findings)} claims {verdicts}."
        return line[0].upper() + line[1:]


def conclude(journey: JourneyResults, *, quick_note: str | None = None) -> JourneyReport:
    """Judges what was measured. Raises ConfigError where nothing was."""
    results = journey.in_order()
    if not results:
        raise ConfigError("nothing was measured, so there is nothing to report")
    measured = Measured(results)
    missing = [f"{name} failed: {message.splitlines()[0]}" for name, message in journey.failures.items()]
    if journey.interrupted:
        missing.insert(0, "The journey was interrupted: this is what was measured until then.")
    if journey.not_reached:
        missing.append(f"Not reached: {', '.join(journey.not_reached)}.")
    if quick_note:
        missing.append(quick_note)
    return JourneyReport(
        conditions=tuple(_conditions(results)),
        rows=story_rows(measured),
        findings=judge_all(measured),
        missing=tuple(missing),
        results=results,
    )


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
    write_page(report, page)
    write_text(text, as_markdown(report), "out")
    write_text(data, json.dumps(document, ensure_ascii=False, indent=1) + "\n", "out")
    return page, text, data


def as_markdown(report: JourneyReport) -> str:
    """The whole report, for docs."""
    remarks = [*report.missing, *_remarks(report.results)]
    parts = [
        f"# {report.title}",
        report.summary,
        markdown(_verdicts(report, rules=False)),
        markdown(_story(report)),
        markdown(_numbers(report)),
        *(("## To bear in mind", bullets(remarks)) if remarks else ()),
        "## How the claims were judged",
        GENERAL_RULE,
        "\n".join(f"- {escaped(finding.statement)} {escaped(finding.rule)}" for finding in report.findings),
        "## Conditions",
        bullets(report.conditions),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(report: JourneyReport, path: Path) -> None:
    """Raises ConfigError where it cannot be written."""
    first = [
        Section("", charts=(_picture(report),)),
        Section("What holds here", tables=(_verdicts(report, rules=True),)),
        Section("The story beside it", tables=(replace(_story(report), title=""),)),
    ]
    last = [Section("All steps", tables=(_numbers(report),))]
    if report.missing:
        last.append(Section("Not measured", bullets=report.missing))
    last.append(Section("How the claims were judged", (GENERAL_RULE,)))
    last.append(Section("Machine and model", bullets=report.conditions))
    write_report(charted(report.results), path, report.title, report.summary, first=first, last=last)


def charted(results: dict[str, Results]) -> dict[str, Results]:
    """What the charts show, by the steps' names: variable texts, of the steps that matter; all where none of these is."""
    shown = {step: results[f"{step}.variable"] for step in CHARTED if f"{step}.variable" in results} or dict(results)
    loads = {point.load.clients or 0: point.load for found in shown.values() for point in found.points}
    every = tuple(loads[clients] for clients in sorted(loads))
    return {name: _comparable(found, every) for name, found in shown.items()}


def _comparable(results: Results, loads: tuple[Load, ...]) -> Results:
    """Conditions without what differs from step to step by plan, as the report warns of all other differences."""
    options = {name: value for name, value in results.conditions.options.items() if name not in _OF_A_STEP}
    return replace(results, conditions=replace(results.conditions, loads=loads, options=options))


def _picture(report: JourneyReport) -> Chart:
    """Requests a second of each step on variable texts, or of all legs where no step has them."""
    suffix = ".variable"
    found = {name.removesuffix(suffix): one for name, one in report.results.items() if name.endswith(suffix)}
    shown = {name: one for name, one in found.items() if any(point.load.clients == BUSY for point in one.points)}
    return rates_by_result(shown or report.results, Load("closed", clients=BUSY), "Requests a second at 25 clients")


def _verdicts(report: JourneyReport, *, rules: bool) -> Table:
    """With `rules`, each claim's rule is below the claim."""
    rows = [
        (
            Cell(finding.statement, finding.rule if rules else ""),
            finding.story or "our question",
            Cell(finding.verdict, tone=_TONES[finding.verdict]),
            finding.because,
        )
        for finding in report.findings
    ]
    columns = [Column(name, "left") for name in ("claim", "the story", "verdict", "numbers that decided")]
    return table("" if rules else "What holds here", columns, rows, slug="verdicts")


def _story(report: JourneyReport) -> Table:
    columns = [Column(name, "left") for name in ("step", "the story, RPS at 25 concurrent", "here, at 25 clients")]
    return table("The story beside it", columns, [(row.step, row.story, row.here) for row in report.rows], slug="story")


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
    return table("All numbers", columns, rows, note="Median of the repeats [lowest..highest].", slug="numbers").pruned()


def _conditions(results: dict[str, Results]) -> Iterable[str]:
    """What all results share."""
    first = next(iter(results.values())).conditions
    gpus = "".join(f", {gpu.name}" for gpu in first.machine.gpus)
    yield f"Machine: {first.machine.cpu}, {first.machine.cores} cores, {first.machine.memory_gib:g} GiB{gpus}"
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


def _remarks(results: dict[str, Results]) -> Iterable[str]:
    for name, found in results.items():
        yield from (f"{name}, {note}" for note in notes_on(found))
        for point in found.points:
            answers = Measured(results).fewest_answers(At(name, point.load.clients or 0))
            if answers < FEWEST_ANSWERS:
                yield f"{name}, {point.load.label}: a measurement had only {answers} answers; --duration gives more."


def _speedup(measured: Measured) -> str:
    """From one worker to the best step; empty where either was not measured."""
    best = best_continuous(measured)
    one, most = measured.spread(ONE_WORKER, RPS), measured.spread(best, RPS)
    if one is None or most is None or not one.median:
        return ""
    return (
        f"{number(one.median)} requests a second with one worker, {number(most.median)} with "
        f"{best.leg.removesuffix('.variable')}: {number(most.median / one.median)} times; "
    )
