"""Writes the results of a journey, verdicts and numbers, as JSON and HTML; and those of dragoman and `vllm serve`.

The page begins with a chart and the verdicts; settings and conditions are at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.results import Load, Results, write_results
from dragoman_bench.bench.tables import (
    NONE,
    Cell,
    Column,
    Table,
    Tone,
    machine_text,
    markdown,
    notes_on,
    number,
    table,
)
from dragoman_bench.journey.claims import (
    BEST,
    BUSY_SHARE,
    FEWEST_ANSWERS,
    GENERAL_RULE,
    GPU_IDLE,
    GPU_MEAN,
    GPU_MEMORY,
    KV_PEAK,
    ONE_WORKER,
    P50,
    P99,
    PREEMPTIONS,
    RPS,
    SHORT_P50,
    TOKENS_S,
    At,
    JudgedClaim,
    Measured,
    Metric,
    Verdict,
    judge_all,
    percentile,
)
from dragoman_bench.journey.measure import Comparison, JourneyResults
from dragoman_bench.journey.steps import BUSY, Mode
from dragoman_bench.report.charts import rates_by_result, report_charts
from dragoman_bench.report.page import FOOTER, Section, write_page

TITLE = "The story, measured here"
COLUMNS: tuple[Metric, ...] = (
    *(RPS, TOKENS_S, P50, P99, SHORT_P50, BUSY_SHARE),
    *(GPU_MEAN, GPU_IDLE, GPU_MEMORY, KV_PEAK, PREEMPTIONS),
)
CHARTED = (
    *("workers-1", "workers-2", "static", "continuous-64", "continuous-16", "continuous-256"),
    *("vllm-64", "vllm-256"),
)
"""Steps that the charts show, as many as there are colours; the table of all numbers has the rest."""
_TONES: dict[Verdict, Tone] = {"holds here": "good", "does not hold here": "bad", "undecided": ""}
METRICS: dict[Mode, tuple[Metric, ...]] = {
    "plain": (RPS, P99),
    "streamed": (
        RPS,
        P99,
        Metric("time to first token, median", percentile("ttft", "p50_s"), " ms", 1000),
        Metric("time to first token, 99th percentile", percentile("ttft", "p99_s"), " ms", 1000),
        Metric("inter-token latency, median", percentile("itl", "p50_s"), " ms", 1000),
        Metric("inter-token latency, 99th percentile", percentile("itl", "p99_s"), " ms", 1000),
        Metric("time per output token, median", percentile("tpot", "p50_s"), " ms", 1000),
    ),
}
"""Of a comparison. Inter-token latency counts gaps between events that carry text; a server may put several tokens into one
event, which the time per output token does not depend on."""


@dataclass(frozen=True, slots=True)
class JourneyReport:
    """The results of a journey. `missing`: reasons why something was not measured."""

    summary: str
    conditions: tuple[str, ...]
    findings: tuple[JudgedClaim, ...]
    missing: tuple[str, ...]
    results: dict[str, Results]


def conclude(journey: JourneyResults, *, quick_note: str | None = None) -> JourneyReport:
    """Judge the measurements. Raises ConfigError if there are none."""
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
    findings, conditions = judge_all(measured), tuple(_conditions(journey.results))
    return JourneyReport(_summary(measured, findings), conditions, findings, tuple(missing), journey.results)


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


def write_files(report: JourneyReport, folder: Path, page: Path | None = None) -> tuple[Path, Path]:
    """Write `report.html` (or `page`) and `journey.json`, which has the verdicts as data. Raises ConfigError."""
    found = Measurement("journey", {"described": report.conditions})
    found.data = {"summary": report.summary, "rule": GENERAL_RULE, "missing": list(report.missing)}
    found.data["findings"] = [finding.document for finding in report.findings]
    page, data = page or folder / "report.html", folder / "journey.json"
    write_page(page, TITLE, report.summary, _sections(report), FOOTER)
    found.write(data)
    return page, data


def _sections(report: JourneyReport) -> list[Section]:
    """The picture has requests a second of each step on variable texts, the charts are of `CHARTED`; of all legs where no
    step has variable texts at the story's load."""
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
    charted = {step: variable[step] for step in CHARTED if step in variable} or report.results
    sections = [
        Section(charts=(picture,)),
        Section("What holds here", tables=(verdicts(report),)),
        Section("All steps", tables=(_numbers(report),)),
        Section("Charts", charts=tuple(report_charts(charted, busy if variable else None))),
        Section("How the claims were judged", (GENERAL_RULE,)),
        Section("Machine and model", bullets=report.conditions),
    ]
    if remarks:
        sections.insert(4, Section("To bear in mind", bullets=tuple(remarks)))
    return sections


def verdicts(report: JourneyReport) -> Table:
    """Return a table of all claims with their rules and verdicts."""
    rows = [
        (
            Cell(finding.claim.statement, finding.claim.rule),
            finding.claim.story or "our question",
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
            numbers = (measured.text(at, metric) for metric in COLUMNS)
            rows.append((name, str(at.clients), *numbers, str(failed)))
    note = "Median of the repeats [lowest..highest]."
    return table(
        "", ("step", "clients", *(metric.name for metric in COLUMNS), "failed"), rows, note=note, slug="numbers"
    ).pruned()


@dataclass(frozen=True, slots=True)
class PairRatios:
    """Ratios of the first server's number to the second's in each round. `values`: both servers' numbers, in the order of
    the rounds; empty in files of earlier versions."""

    clients: int
    metric: str
    ratios: tuple[float, ...]
    mode: Mode = "plain"
    values: tuple[tuple[float, ...], ...] = ()

    @property
    def text(self) -> str:
        """Describe the ratios: `1.02 [0.99..1.04], no difference`."""
        low, high = min(self.ratios), max(self.ratios)
        side = "higher in every pair" if low > 1 else "lower in every pair" if high < 1 else "no difference"
        ratio = f"{number(median(self.ratios))} [{number(low)}..{number(high)}]"
        return f"{ratio}, {side}" if len(self.ratios) > 1 else f"{ratio}, measured once"


def pair_ratios(first: Results, second: Results, mode: Mode = "plain") -> list[PairRatios]:
    """Return ratios by load level and metric. Levels and rounds that only one of the two has are left out."""
    ours, theirs = Measured({"": first}), Measured({"": second})
    found: list[PairRatios] = []
    for point in first.points:
        at = At("", point.load.clients or 0)
        for metric in METRICS[mode]:
            pairs = [pair for pair in zip(ours.values(at, metric), theirs.values(at, metric), strict=False) if pair[1]]
            if pairs:
                ratios = tuple(one / other for one, other in pairs)
                found.append(PairRatios(at.clients, metric.name, ratios, mode, tuple(zip(*pairs, strict=True))))
    return found


def write_comparison(comparison: Comparison, folder: Path) -> str:
    """Write each server's results and `versus.json`. Return a table of both servers' numbers (median and range of the
    rounds), and of their ratio in each round. Raises ConfigError."""
    ratios: list[PairRatios] = []
    rows: list[tuple[str, ...]] = []
    for mode, results in comparison.results.items():
        for ratio in pair_ratios(*(results[name] for name in comparison.names), mode=mode):
            metric = next(one for one in METRICS[mode] if one.name == ratio.metric)
            at = At("", ratio.clients)
            numbers = (Measured({"": results[name]}).text(at, metric) or NONE for name in comparison.names)
            ratios.append(ratio)
            rows.append((mode, str(ratio.clients), ratio.metric, *numbers, ratio.text))
        for name, found in results.items():
            if found.points:
                write_results(found, folder / f"versus.{name}{'' if mode == 'plain' else f'.{mode}'}.json")
    if not ratios:
        raise ConfigError("interrupted before both servers were measured once: there is nothing to compare")
    columns = ("answers", "clients", Column("metric", "left"), *comparison.names, Column("ratio, pair by pair", "left"))
    found = Measurement("versus", {"names": comparison.names}, {"ratios": [asdict(ratio) for ratio in ratios]})
    found.partial = comparison.partial
    found.write(folder / "versus.json")
    return markdown(table("", columns, rows)) + "\n"
