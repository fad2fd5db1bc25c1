"""`dragoman journey`: its options, and a whole small journey over real servers without an engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result

from dragoman.cli.console import error_console
from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.servers import ServerCommand, dragoman_serve
from dragoman_bench.cli.journey import command
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.journey.display import Display
from dragoman_bench.journey.ending import conclude, markdown, write_ending
from dragoman_bench.journey.measure import Meter, make_workloads
from dragoman_bench.journey.page import write_page
from dragoman_bench.journey.steps import Leg, Level, Pace, Step
from dragoman_bench.journey.store import Fingerprints, Store, this_machine
from dragoman_bench.journey.walk import Walk


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def test_the_steps_and_their_time_can_be_listed_without_measuring() -> None:
    ran = invoke("--list", "--quick")
    lines = ran.output.splitlines()
    assert lines[0].startswith("workers-1")
    assert "variable at 1×1, 25×2 clients" in lines[0]
    assert lines[-1].startswith("6 steps, about 9 min")


def test_steps_are_chosen_by_name() -> None:
    assert invoke("--list", "--only", "static").output.splitlines()[0].startswith("static")
    wrong = invoke("--list", "--only", "dynamic")
    assert isinstance(wrong.exception, ConfigError)
    assert "no step 'dynamic'" in wrong.exception.message


def test_levels_repeats_and_vllm_serve_are_the_users_choice() -> None:
    told = invoke("--list", "--gpu-levels", "--repeats", "5", "--skip-vllm-serve").output
    assert "256×1" in told
    assert "25×5" in told
    assert "vllm" not in told


def test_levels_modes_and_flags_of_a_comparison_are_options() -> None:
    told = invoke("--list", "--versus", "--clients", "4,256,4", "--repeats", "5").output.splitlines()
    assert [line.split()[0] for line in told[:2]] == ["continuous-64", "vllm-64"]
    assert all("variable at 4×5, 256×5 clients" in line for line in told[:2])
    wrong = invoke("--list", "--versus", "--clients", "many")
    assert isinstance(wrong.exception, ConfigError)
    assert "--clients" in wrong.exception.message
    for option in ("--clients", "--mode", "--max-num-batched-tokens", "--max-cudagraph-capture-size"):
        alone = invoke("--list", option, "4")
        assert isinstance(alone.exception, ConfigError)
        assert alone.exception.param == option
    defaults = invoke("--list", "--versus", "--defaults", "--mode", "streamed").output
    assert [line.split()[0] for line in defaults.splitlines()[:2]] == ["dragoman-defaults", "vllm-defaults"]
    for refused in (("--mode", "spoken"), ("--defaults", "--max-num-batched-tokens", "512")):
        assert isinstance(invoke("--list", "--versus", *refused).exception, ConfigError)


async def test_a_journey_over_dragoman_serve_ends_in_a_report(tmp_path: Path) -> None:
    """`--pipeline fake`: everything but the engine is real."""
    subject = make_subject("", "", "auto", None)
    pace, workloads = Pace(0.5, 0.1, timeout_s=20), make_workloads(subject)
    store = Store(tmp_path, Fingerprints(subject, workloads, pace, this_machine()))
    leg = Leg("variable", (Level(25, 2),))
    steps = tuple(Step(name, name, "dragoman", {"max-num-seqs": 64}, (leg,)) for name in ("workers-1", "continuous-64"))

    def fake(step: Step) -> ServerCommand:
        return dragoman_serve(step.name, {**subject.dragoman, **step.flags, "pipeline": "fake"}, store.engine_log(step))

    display = Display(error_console, Silent())
    meter = Meter(workloads, pace, display, asyncio.Event())
    names = frozenset(step.name for step in steps)
    travelled = await Walk(steps, names, subject, store, meter, display, starter=fake).go()

    assert travelled.failures == {}
    ending = conclude(travelled)
    write_page(ending, tmp_path / "report.html")
    write_ending(ending, tmp_path)
    measured = ending.results["continuous-64.variable"]
    assert measured.conditions.model == "phrasebook"
    assert measured.conditions.server["engine"]["max_num_seqs"] == 64
    assert [len(point.repeats) for point in measured.points] == [2]
    assert all(repeat.summary.completed and not repeat.summary.errors for repeat in measured.points[0].repeats)
    assert "one worker" in markdown(ending)
    assert "continuous-64" in (tmp_path / "report.html").read_text(encoding="utf-8")
