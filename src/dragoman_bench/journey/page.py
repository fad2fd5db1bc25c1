"""The end of a journey as an HTML page: the story's table and the verdicts before the report's own charts and tables.

Knows how they look; what they say is `ending`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup, escape

from dragoman_bench.bench.results import Load, Results
from dragoman_bench.journey import story
from dragoman_bench.journey.ending import FINDING_HEADER, Ending, number_table
from dragoman_bench.journey.evidence import Evidence
from dragoman_bench.journey.rules import GENERAL_RULE, Verdict
from dragoman_bench.report import Section, write_report

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

_TONES: dict[Verdict, str] = {"holds here": "good", "does not hold here": "bad", "cannot be told": "none"}
# By its nature different between steps or kinds of server, and told elsewhere on the page.
_OF_A_STEP = frozenset({"journey", "repeats", "system_prompt", "user_prompt", "max_tokens", "temperature"})


def write_page(ending: Ending, path: Path) -> None:
    """Raises ConfigError where it cannot be written."""
    intro = Markup("<p>{}</p>").format(ending.summary) + _items(ending.conditions)
    write_report(charted(ending.results), path, ending.title, intro, _sections(ending))


def charted(results: dict[str, Results]) -> dict[str, Results]:
    """What the charts show, by the steps' names: variable texts, of the steps that matter; all where none of these is."""
    shown = {step: results[f"{step}.variable"] for step in CHARTED if f"{step}.variable" in results}
    shown = shown or dict(results)
    loads = {point.load.clients or 0: point.load for found in shown.values() for point in found.points}
    every = tuple(loads[clients] for clients in sorted(loads))
    return {name: _alike(found, every) for name, found in shown.items()}


def _alike(results: Results, loads: tuple[Load, ...]) -> Results:
    """Conditions without what differs from step to step by plan: the report takes other differences for faults."""
    options = {name: value for name, value in results.conditions.options.items() if name not in _OF_A_STEP}
    return replace(results, conditions=replace(results.conditions, loads=loads, options=options))


def _sections(ending: Ending) -> list[Section]:
    rows = [(row.step, row.story, row.here) for row in ending.rows]
    sections = [
        Section("The story beside it", _table(story.HEADER, rows)),
        Section("What holds here", Markup("<p>{}</p>").format(GENERAL_RULE) + _verdicts(ending)),
        Section("All numbers", _table(*number_table(Evidence(ending.results)))),
    ]
    return [*sections, Section("Not measured", _items(ending.missing))] if ending.missing else sections


def _verdicts(ending: Ending) -> Markup:
    """A claim's rule is under the claim, the numbers that decided beside it."""
    rows: list[list[Markup]] = []
    for finding in ending.findings:
        verdict = Markup('<td class="{}">{}</td>').format(_TONES[finding.verdict], finding.verdict)
        claim = Markup("<td>{}<small>{}</small></td>").format(finding.statement, finding.rule)
        rows.append([claim, _cell(finding.story or "our question"), verdict, _cell(finding.because)])
    return _framed(FINDING_HEADER, rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    return _framed(header, [[_cell(cell) for cell in row] for row in rows])


def _framed(header: Sequence[str], rows: Iterable[Sequence[Markup]]) -> Markup:
    head = _joined(Markup('<th scope="col" class="head">{}</th>').format(name) for name in header)
    body = _joined(Markup("<tr>{}</tr>\n").format(_joined(row)) for row in rows)
    return Markup(
        '<div class="scroll" tabindex="0"><table class="conditions"><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table></div>'
    ).format(head, body)


def _cell(text: str) -> Markup:
    return Markup("<td>{}</td>").format(text)


def _items(lines: Iterable[str]) -> Markup:
    return Markup("<ul>{}</ul>").format(_joined(Markup("<li>{}</li>").format(line) for line in lines))


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(escape(part) for part in parts)
