"""Walks over stand-in servers: what is measured, kept, skipped and told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.results import read_results, write_results
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.journey.display import Display
from dragoman_bench.journey.measure import Meter, Remembered
from dragoman_bench.journey.steps import Leg, Level, Pace, Step, Subject
from dragoman_bench.journey.store import Fingerprints, Store, start_s_of
from dragoman_bench.journey.walk import Travelled, Walk, command_of, target_of
from tests.bench.making import workload
from tests.waiting import until

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
SUBJECT = Subject(
    path="/models/small",
    name="small",
    dragoman={"model": "/models/small", "max-model-len": 1024},
    vllm={"load-format": "auto"},
    limits={"max-model-len": 1024},
    asked=TargetOptions("openai-completions", user="<{source}>{text}"),
    lengths={"variable": (10, 20)},
)
PACE = Pace(duration_s=0.3, warmup_s=0.1, timeout_s=5.0)
LEG = Leg("variable", (Level(1), Level(2, 2)))
MACHINE = {"cpu": "a CPU", "cores": 2, "vllm": "1.0"}


def step(name: str, slots: int = 64, leg: Leg = LEG) -> Step:
    return Step(name, f"step {name}", "dragoman", {"max-num-seqs": slots}, (leg,))


class Journey:
    """A folder, and walks into it. `manners` says how each step's server behaves."""

    def __init__(self, folder: Path, **manners: str) -> None:
        self.folder = folder
        self.manners = manners
        self.started: list[str] = []
        self.told = StringIO()
        self.interrupted = asyncio.Event()

    def starter(self, step: Step) -> ServerCommand:
        self.started.append(step.name)
        manner = self.manners.get(step.name.replace("-", "_"), "well")
        return ServerCommand(step.name, (sys.executable, STAND_IN, manner), "/readyz")

    async def walk(
        self,
        steps: Sequence[Step],
        *,
        chosen: Sequence[str] | None = None,
        fresh: bool = False,
        time_limit_s: float | None = None,
        machine: dict[str, object] | None = None,
    ) -> Travelled:
        self.started.clear()
        workloads = {"variable": Remembered(workload(*(f"text {n}" for n in range(50))))}
        store = Store(self.folder, Fingerprints(SUBJECT, workloads, PACE, machine or MACHINE))
        display = Display(Console(file=self.told, width=200), Silent())
        meter = Meter(workloads, PACE, display, self.interrupted)
        names = frozenset(chosen if chosen is not None else [step.name for step in steps])
        walk = Walk(tuple(steps), names, SUBJECT, store, meter, display, fresh, time_limit_s, self.starter)
        return await walk.go()


async def test_a_walk_measures_every_leg_and_writes_it_with_its_place_in_the_journey(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    travelled = await journey.walk([step("one"), step("two", 16)])
    assert journey.started == ["one", "two"]
    assert list(travelled.in_order()) == ["one.variable", "two.variable"]
    assert not travelled.failures
    written = read_results(tmp_path / "two.variable.json")
    assert written == travelled.results["two.variable"]
    assert [(point.load.clients, len(point.repeats)) for point in written.points] == [(1, 1), (2, 2)]
    assert [load.clients for load in written.conditions.loads] == [1, 2]
    assert all(repeat.summary.completed for point in written.points for repeat in point.repeats)
    assert start_s_of(written)
    assert written.conditions.options["journey"]["fingerprint"]["flags"] == {"max-num-seqs": 16}
    assert written.conditions.options["label"] == "two"


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two")]
    first = await journey.walk(steps)
    again = await journey.walk(steps)
    assert journey.started == []
    assert again.results == first.results
    assert "nothing is left to measure" in journey.told.getvalue()


async def test_a_step_whose_conditions_changed_is_measured_again(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    await journey.walk([step("one"), step("two")])
    await journey.walk([step("one"), step("two", slots=16)])
    assert journey.started == ["two"]
    await journey.walk([step("one", leg=Leg("variable", (Level(1),))), step("two", slots=16)])
    assert journey.started == ["one"]
    await journey.walk([step("two", slots=16)], machine={**MACHINE, "vllm": "2.0"})
    assert journey.started == ["two"]


async def test_fresh_measures_what_is_chosen_again_and_keeps_the_rest(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two")]
    await journey.walk(steps)
    travelled = await journey.walk(steps, chosen=["two"], fresh=True)
    assert journey.started == ["two"]
    assert set(travelled.results) == {"one.variable", "two.variable"}


async def test_a_partial_or_broken_file_is_measured_again(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two")]
    travelled = await journey.walk(steps)
    write_results(replace(travelled.results["one.variable"], partial=True), tmp_path / "one.variable.json")
    (tmp_path / "two.variable.json").write_text("{")
    travelled = await journey.walk(steps)
    assert journey.started == ["one", "two"]
    assert not travelled.results["one.variable"].partial


async def test_a_step_whose_server_does_not_start_is_told_and_passed_over(tmp_path: Path) -> None:
    journey = Journey(tmp_path, one="dies")
    travelled = await journey.walk([step("one"), step("two")])
    assert list(travelled.results) == ["two.variable"]
    assert "no such model" in travelled.failures["one"]
    assert "one failed" in journey.told.getvalue()
    assert not (tmp_path / "one.variable.json").exists()


async def test_a_server_that_dies_while_it_is_measured_leaves_no_results(tmp_path: Path) -> None:
    travelled = await Journey(tmp_path, one="fragile").walk([step("one")])
    assert travelled.results == {}
    assert "exit code 7" in travelled.failures["one"]
    assert not (tmp_path / "one.variable.json").exists()


async def test_an_interrupt_keeps_what_was_measured_and_the_next_walk_measures_the_rest(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two"), step("three")]
    measured_one = tmp_path / "one.variable.json"

    async def interrupt() -> None:
        await until(measured_one.exists, "the first step's results")
        journey.interrupted.set()

    travelled, _ = await asyncio.gather(journey.walk(steps), interrupt())
    assert travelled.interrupted
    assert "one.variable" in travelled.results
    assert "three" in travelled.not_reached
    journey.interrupted = asyncio.Event()
    travelled = await journey.walk(steps)
    assert journey.started == ["two", "three"]
    assert set(travelled.results) == {"one.variable", "two.variable", "three.variable"}


async def test_no_step_is_begun_that_would_not_end_within_the_time_limit(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    travelled = await journey.walk([step("one"), step("two")], time_limit_s=1.0)
    assert journey.started == []
    assert travelled.not_reached == ["one", "two"]


@pytest.mark.parametrize(("shaped", "window"), [(True, ["--max-model-len", "1024"]), (False, [])])
def test_vllm_serve_is_given_the_model_and_our_limits_unless_it_is_left_its_defaults(
    shaped: bool, window: list[str], tmp_path: Path
) -> None:
    theirs = Step("theirs", "", "vllm", {"max-num-seqs": 8}, (), shaped=shaped)
    words = list(command_of(theirs, SUBJECT, tmp_path / "engine.log").argv)
    assert words[words.index("serve") + 1] == "/models/small"
    assert words[words.index("--load-format") :] == ["--load-format", "auto", *window, "--max-num-seqs", "8"]
    assert target_of(theirs, SUBJECT) is SUBJECT.asked


def test_dragoman_is_given_the_model_and_the_steps_flags(tmp_path: Path) -> None:
    words = list(command_of(step("ours", 8), SUBJECT, tmp_path / "engine.log").argv)
    assert words[words.index("--model") :] == [
        *("--model", "/models/small", "--max-model-len", "1024"),
        *("--max-num-seqs", "8"),
    ]
    assert target_of(step("ours"), SUBJECT) == TargetOptions()
