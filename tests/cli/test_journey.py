"""`dragoman journey`: its options, and a whole small journey over real servers without an engine."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import ProgressLines, error_console
from dragoman_bench.bench.servers import ServerCommand, dragoman_serve
from dragoman_bench.cli.journey import command
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.measure import JourneyRun, LoadMeter, make_workloads
from dragoman_bench.journey.page import conclude, write_files
from dragoman_bench.journey.steps import Leg, Pace, Step, Subject
from tests.waiting import HANG_S

RESULTS = Path(__file__).parents[2] / "results"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--only", "dynamic"), "only"),
        (("--clients", "4"), "--clients"),
        (("--defaults",), "--defaults"),
        (("--versus", "--clients", "many"), "--clients"),
        (("--versus", "--defaults", "--max-model-len", "512"), "--max-model-len"),
    ],
)
def test_options_are_checked_before_anything_is_started(arguments: tuple[str, ...], named: str) -> None:
    wrong = invoke(*arguments).exception
    assert isinstance(wrong, ConfigError)
    assert named in f"{wrong.param} {wrong.message}"


def test_a_stored_journey_is_rendered_again(tmp_path: Path) -> None:
    folder = tmp_path / "journey"
    shutil.copytree(RESULTS / "journey-quick", folder)
    ran = invoke("--render", str(folder), "--quick", "--page", str(tmp_path / "page.html"))
    assert ran.exception is None
    assert (tmp_path / "page.html").is_file() and not (folder / "report.html").exists()
    assert json.loads((folder / "journey.json").read_text())["summary"] == ran.output.splitlines()[-1]


async def test_a_journey_over_dragoman_serve_ends_in_a_report(tmp_path: Path) -> None:
    """`--pipeline fake`: everything but the engine is real."""
    subject = make_subject("", "", "auto", None)
    pace, workloads = Pace(0.5, 0.1, timeout_s=HANG_S), make_workloads(subject)
    leg = Leg("variable", (25,), 2)
    steps = (Step("continuous-64", "", "dragoman", {"max-num-seqs": 64}, (leg,)),)

    def fake(step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
        return dragoman_serve(step.name, {**subject.dragoman, **step.flags, "pipeline": "fake"}, engine_log)

    progress = ProgressLines(error_console)
    run = JourneyRun(
        steps=steps,
        subject=subject,
        folder=tmp_path,
        meter=LoadMeter(workloads, pace, progress, asyncio.Event()),
        progress=progress,
        command=fake,
    )
    journey = await run.run()

    assert journey.failures == {}
    report = conclude(journey)
    page, *_ = write_files(report, tmp_path)
    measured = report.results["continuous-64.variable"]
    assert measured.conditions.model == "phrasebook"
    assert measured.conditions.server["engine"]["max_num_seqs"] == 64
    assert [len(point.repeats) for point in measured.points] == [2]
    assert all(repeat.summary.completed and not repeat.summary.errors for repeat in measured.points[0].repeats)
    assert "continuous-64" in page.read_text(encoding="utf-8")
