"""The end of a journey: the story's table, the verdicts and all numbers, as Markdown and JSON, and one line that says it.

Knows what was measured, not how. The HTML page is `page`'s.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results
from dragoman_bench.bench.results_table import notes_on
from dragoman_bench.journey import story
from dragoman_bench.journey.claims import ONE_WORKER, Finding, best_continuous, judge_all
from dragoman_bench.journey.evidence import BUSY_SHARE, GPU_MEAN, P50, P99, RPS, TOKENS_S, At, Evidence, Metric, plain
from dragoman_bench.journey.rules import FEWEST_ANSWERS, GENERAL_RULE
from dragoman_bench.journey.walk import Travelled

COLUMNS: tuple[Metric, ...] = (RPS, TOKENS_S, P50, P99, BUSY_SHARE, GPU_MEAN)
NO_NUMBER = "–"
FINDING_HEADER = ("claim", "the story", "verdict", "what decided")


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that there is to say, in order. `missing` are reasons why something was not measured."""

    title: str
    conditions: tuple[str, ...]
    rows: tuple[story.Row, ...]
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    results: dict[str, Results]

    @property
    def summary(self) -> str:
        """One line."""
        counts = Counter(finding.verdict for finding in self.findings)
        told = (
            f"{counts['holds here']} hold here, {counts['does not hold here']} do not, "
            f"{counts['cannot be told']} cannot be told"
        )
        line = f"{_speed(Evidence(self.results))}of {len(self.findings)} claims {told}."
        return line[0].upper() + line[1:]


def conclude(travelled: Travelled, *, quick_note: str | None = None) -> Ending:
    """Judges what was measured. Raises ConfigError where nothing was."""
    results = travelled.in_order()
    if not results:
        raise ConfigError("nothing was measured, so there is nothing to report")
    evidence = Evidence(results)
    return Ending(
        title="The story, measured here",
        conditions=tuple(_conditions(results)),
        rows=story.table(evidence),
        findings=judge_all(evidence),
        missing=tuple(_missing(travelled, quick_note)),
        results=results,
    )


def write_ending(ending: Ending, folder: Path) -> tuple[Path, Path]:
    """`journey.md` and `journey.json` (table and verdicts as data). Raises ConfigError where they cannot be written."""
    document = {
        "summary": ending.summary,
        "conditions": ending.conditions,
        "story": [asdict(row) for row in ending.rows],
        "rule": GENERAL_RULE,
        "findings": [asdict(finding) for finding in ending.findings],
        "missing": ending.missing,
    }
    texts = {
        folder / "journey.md": markdown(ending),
        folder / "journey.json": json.dumps(document, ensure_ascii=False, indent=1) + "\n",
    }
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror}", param="out") from error
    markdown_path, json_path = texts
    return markdown_path, json_path


def markdown(ending: Ending) -> str:
    """The whole ending, for docs."""
    findings = [(f.statement, f.story or "our question", f"**{f.verdict}**", f.because) for f in ending.findings]
    parts = [
        f"# {ending.title}",
        "\n".join(f"- {line}" for line in ending.conditions),
        ending.summary,
        "## The story beside it",
        table(story.HEADER, [(row.step, row.story, row.here) for row in ending.rows]),
        "## What holds here",
        GENERAL_RULE,
        table(FINDING_HEADER, findings),
        "### The rules",
        "\n".join(f"- {finding.statement} {finding.rule}" for finding in ending.findings),
        "## All numbers",
        table(*number_table(Evidence(ending.results))),
        *_listed("## To bear in mind", [*ending.missing, *_notes(ending.results)]),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number_table(evidence: Evidence) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and one row for every leg and level; a column without a number is left out."""
    header = ("step", "clients", *(metric.name for metric in COLUMNS), "failed")
    rows = [
        (name, str(point.load.clients), *_cells(evidence, At(name, point.load.clients or 0)))
        for name, results in evidence.results.items()
        for point in results.points
    ]
    kept = [place for place in range(len(header)) if any(row[place] != NO_NUMBER for row in rows)]
    return tuple(header[place] for place in kept), [tuple(row[place] for place in kept) for row in rows]


def _cells(evidence: Evidence, at: At) -> tuple[str, ...]:
    repeats = evidence.repeats(at)
    failed = sum(repeat.summary.requests - repeat.summary.completed for repeat in repeats)
    return (*(evidence.told(at, metric) or NO_NUMBER for metric in COLUMNS), str(failed))


def _conditions(results: dict[str, Results]) -> Iterable[str]:
    """What all results share, and where they do not."""
    first = next(iter(results.values())).conditions
    gpus = ", ".join(gpu.name for gpu in first.machine.gpus)
    yield f"Machine: {first.machine.cpu}, {first.machine.cores} cores, {first.machine.memory_gib:g} GiB" + (
        f", {gpus}" if gpus else ""
    )
    versions = ", ".join(f"{name} {version}" for name, version in first.packages.items())
    yield f"Versions: Python {first.python}, {versions}"
    models = dict.fromkeys(
        found.conditions.model for found in results.values() if found.conditions.target == "dragoman"
    )
    yield f"Model: {', '.join(str(model) for model in models) or first.model}"
    for workload in dict.fromkeys(found.conditions.workload for found in results.values()):
        yield f"Workload {workload}"
    yield (
        f"Closed loop, {first.options.get('duration_s'):g} s a measurement after "
        f"{first.options.get('warmup_s'):g} s of warm-up; ranges are over repeats"
    )
    started = [found.conditions.started_at for found in results.values()]
    commits = dict.fromkeys(str(found.conditions.git_commit)[:12] for found in results.values())
    yield f"Measured {min(started)} to {max(started)}, commit {', '.join(commits)}"


def _missing(travelled: Travelled, quick_note: str | None) -> Iterable[str]:
    if travelled.interrupted:
        yield "The journey was interrupted: this is what was measured until then."
    for name, message in travelled.failures.items():
        yield f"{name} failed: {message.splitlines()[0]}"
    if travelled.not_reached:
        yield f"Not reached: {', '.join(travelled.not_reached)}."
    if quick_note:
        yield quick_note


def _notes(results: dict[str, Results]) -> Iterable[str]:
    for name, found in results.items():
        yield from (f"{name}, {note}" for note in notes_on(found))
        for point in found.points:
            answers = Evidence(results).fewest_answers(At(name, point.load.clients or 0))
            if answers < FEWEST_ANSWERS:
                yield f"{name}, {point.load.label}: only {answers} answers came within a measurement; --duration gives more."


def _listed(heading: str, lines: Iterable[str]) -> tuple[str, ...]:
    listed = "\n".join(f"- {line}" for line in lines)
    return (heading, listed) if listed else ()


def _speed(evidence: Evidence) -> str:
    """How far it went from one worker to the best; empty where either was not measured."""
    best = best_continuous(evidence)
    one, most = evidence.spread(ONE_WORKER, RPS), evidence.spread(best, RPS)
    if one is None or most is None or not one.median:
        return ""
    name = best.leg.removesuffix(".variable")
    return (
        f"{plain(one.median)} requests a second with one worker, {plain(most.median)} with {name}: "
        f"{plain(most.median / one.median)} times; "
    )
