from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results
from dragoman_bench.journey.ending import Ending, conclude, markdown, table, write_ending
from dragoman_bench.journey.page import charted, write_page
from dragoman_bench.journey.steps import Leg, Level, Step
from dragoman_bench.journey.walk import Travelled
from tests.bench.journeys import at_level, rates, results
from tests.bench.simulated import Server, point

LEVELS = (Level(1), Level(25, 3))


def step(name: str) -> Step:
    return Step(name, name, "dragoman", {}, (Leg("variable", LEVELS),))


def travelled(**found: Results) -> Travelled:
    """Steps by name, `_` for the dash."""
    named = {name.replace("_", "-"): result for name, result in found.items()}
    home = Travelled(tuple(step(name) for name in named))
    home.results = {f"{name}.variable": result for name, result in named.items()}
    return home


@pytest.fixture(scope="module")
def ending() -> Ending:
    """One worker, continuous batching and `vllm serve`, simulated; one step failed."""

    def measured(server: Server, **changes: object) -> Results:
        points = (point(lambda: replace(server), 1, requests=20, repeats=1), point(lambda: replace(server), 25))
        return results(*points, slo=None, **changes)

    home = travelled(
        workers_1=measured(Server(1, idle_s=0.06, streams=False)),
        continuous_64=measured(Server(64, streams=False)),
        vllm_64=measured(Server(64, streams=False), target="openai-chat"),
        static=results(*rates(1.0).points, slo=None),
    )
    home.failures["workers-2"] = "workers-2 ended with exit code 1\n    the end of /a/folder/server.log:"
    return conclude(home, quick_note="The quick one leaves things out.")


def test_the_summary_says_how_far_it_went_and_counts_the_verdicts(ending: Ending) -> None:
    assert "requests a second with one worker" in ending.summary
    counted = sum(int(word) for word in ending.summary.split("claims ")[1].split() if word.isdigit())
    assert counted == len(ending.findings)


def test_the_markdown_has_the_story_the_verdicts_with_their_rules_and_all_numbers(ending: Ending) -> None:
    told = markdown(ending)
    for row in ending.rows:
        assert f"| {row.step} | {row.story} |" in told
    for finding in ending.findings:
        assert f"**{finding.verdict}**" in told
        assert finding.because in told
        assert f"- {finding.statement} {finding.rule}" in told
    assert "| continuous-64.variable | 25 |" in told


def test_every_row_of_a_table_has_as_many_cells_as_its_header(ending: Ending) -> None:
    for block in markdown(ending).split("\n\n"):
        lines = block.splitlines()
        if lines and lines[0].startswith("|"):
            assert {line.count("|") - line.count("\\|") for line in lines} == {lines[0].count("|")}
    assert table(("a",), [("x|y",)]).endswith("| x\\|y |")


def test_what_is_missing_is_told_without_the_machines_folders(ending: Ending) -> None:
    told = markdown(ending)
    assert "workers-2 failed: workers-2 ended with exit code 1" in told
    assert "/a/folder" not in told
    assert "The quick one leaves things out." in told


def test_an_interrupted_journey_says_so_and_what_it_did_not_reach() -> None:
    home = travelled(workers_1=rates(1.0))
    home.interrupted = True
    home.not_reached = ["static"]
    told = markdown(conclude(home))
    assert "was interrupted" in told
    assert "Not reached: static." in told


def test_a_journey_that_measured_nothing_has_no_ending() -> None:
    with pytest.raises(ConfigError, match="nothing was measured"):
        conclude(Travelled((step("workers-1"),)))


def test_the_findings_are_data_too(ending: Ending, tmp_path: Path) -> None:
    told, data = write_ending(ending, tmp_path)
    assert told.read_text(encoding="utf-8") == markdown(ending)
    document = json.loads(data.read_text(encoding="utf-8"))
    assert document["summary"] == ending.summary
    assert {finding["claim"] for finding in document["findings"]} == {finding.claim for finding in ending.findings}


def test_a_folder_that_cannot_be_written_is_told(ending: Ending, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        write_ending(ending, tmp_path / "absent")


def test_the_page_holds_the_table_and_the_verdicts_and_takes_no_step_for_a_fault(
    ending: Ending, tmp_path: Path
) -> None:
    write_page(ending, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The story beside it" in page
    assert page.count('class="good">holds here') == sum(f.verdict == "holds here" for f in ending.findings)
    assert "were not measured under the same conditions" not in page
    assert "&lt;" not in page.split("What holds here")[1].split("All numbers")[0]  # no markup escaped twice


def test_charts_show_the_steps_that_matter_and_variable_texts() -> None:
    found = {name: rates(1.0) for name in ("workers-1.variable", "continuous-64.uniform", "tokens-16384.variable")}
    assert list(charted(found)) == ["workers-1"]
    assert list(charted({"tokens-16384.variable": rates(1.0)})) == ["tokens-16384.variable"]


def test_charts_are_of_the_levels_that_any_step_has() -> None:
    found = {
        "workers-1.variable": results(at_level(1, rates(1.0).points[0].repeats)),
        "continuous-64.variable": rates(2.0),
    }
    loads = {tuple(load.clients for load in result.conditions.loads) for result in charted(found).values()}
    assert loads == {(1, 25)}
