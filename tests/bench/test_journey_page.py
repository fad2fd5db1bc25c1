"""What a journey reports: data and the page, of made-up results and of the stored ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results
from dragoman_bench.journey.measure import JourneyResults, read_folder
from dragoman_bench.journey.page import JourneyReport, conclude, write_files
from tests.bench.journeys import rates, results
from tests.bench.reading import Page
from tests.bench.simulated import Server, point

STORED = Path(__file__).parents[2] / "results"


def journey_of(**found: Results) -> JourneyResults:
    """Steps by name, `_` for the dash."""
    return JourneyResults({f"{name.replace('_', '-')}.variable": result for name, result in found.items()})


@pytest.fixture(scope="module")
def report() -> JourneyReport:
    """One worker, continuous batching and `vllm serve`, simulated; one step failed."""

    def measured(server: Server, **changes: object) -> Results:
        points = (point(server, 1, requests=20, repeats=1), point(server, 25))
        return results(*points, slo=None, **changes)

    journey = journey_of(
        workers_1=measured(Server(1, idle_s=0.06, streams=False)),
        continuous_64=measured(Server(64, streams=False)),
        vllm_64=measured(Server(64, streams=False), target="openai-chat"),
        static=results(*rates(1.0).points, slo=None),
    )
    journey.failures["workers-2"] = "workers-2 ended with exit code 1\n    the end of /a/folder/server.log:"
    return conclude(journey, quick_note="The quick one leaves things out.")


def test_the_files_are_data_and_a_page_that_opens_with_the_picture_and_the_verdicts(
    report: JourneyReport, tmp_path: Path
) -> None:
    page, data = write_files(report, tmp_path)
    document = json.loads(data.read_text(encoding="utf-8"))
    assert [finding["verdict"] for finding in document["findings"]] == [one.verdict for one in report.findings]
    html = page.read_text(encoding="utf-8")
    parsed = Page(html)
    places = [html.index(part) for part in ('id="picture"', "What holds here</h2>", "Machine and model</h2>")]
    assert places == sorted(places)
    assert html.count(' good">holds here') == sum(one.verdict == "holds here" for one in report.findings)
    for finding in report.findings:
        assert all(text.replace("`", "") in parsed.text for text in (finding.because, finding.claim.rule))
    assert "5.9 against 2.2 requests a second; 452 → 171 ms a request" in parsed.text  # the story's, beside ours
    assert "workers-2 failed: workers-2 ended with exit code 1" in parsed.text and "/a/folder" not in parsed.text
    assert "The quick one leaves things out." in parsed.text


def test_an_interrupted_journey_reports_what_it_did_not_reach() -> None:
    journey = journey_of(workers_1=rates(1.0))
    journey.interrupted = True
    journey.not_reached = ["static"]
    missing = " ".join(conclude(journey).missing)
    assert "interrupted" in missing and "static" in missing


def test_a_journey_that_measured_nothing_has_no_report() -> None:
    with pytest.raises(ConfigError):
        conclude(JourneyResults())


@pytest.mark.parametrize(("folder", "verdicts"), [("journey-quick", (4, 4, 6)), ("journey-h200", (4, 6, 4))])
def test_stored_results_are_read_and_judged(folder: str, verdicts: tuple[int, ...]) -> None:
    report = conclude(read_folder(STORED / folder, quick=folder.endswith("quick")))
    counts = Counter(finding.verdict for finding in report.findings)
    assert (counts["holds here"], counts["does not hold here"], counts["undecided"]) == verdicts
    stored = json.loads((STORED / folder / "journey.json").read_text(encoding="utf-8"))
    assert [finding["claim"] for finding in stored["findings"]] == [finding.claim.name for finding in report.findings]
