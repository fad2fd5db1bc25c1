"""A journey over stand-in servers: what is measured, kept, skipped and reported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import ProgressLines
from dragoman_bench.bench.results import Results, read_results, write_results
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.bench.workload import CachedWorkload
from dragoman_bench.journey.measure import (
    JourneyRun,
    LoadMeter,
    read_folder,
)
from dragoman_bench.journey.steps import Leg, Pace, Step, Subject
from tests.bench.journeys import rates
from tests.bench.making import workload
from tests.bench.stand_ins import StandIns
from tests.bench.test_journey_steps import SUBJECT
from tests.waiting import HANG_S, until

PACE = Pace(duration_s=0.3, warmup_s=0.1, timeout_s=HANG_S)
LEG = Leg("variable", (1, 2), 2)


def step(name: str, slots: int = 64, leg: Leg = LEG) -> Step:
    return Step(name, f"step {name}", "dragoman", {"max-num-seqs": slots}, (leg,))


class Journey(StandIns):
    """A folder, and runs into it."""

    def command(self, step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
        return self.start(step.name)

    def of(self, *steps: Step) -> JourneyRun:
        progress = ProgressLines(Console(file=StringIO(), width=200))
        workloads = {"variable": CachedWorkload(workload(*(f"text {n}" for n in range(50))))}
        meter = LoadMeter(workloads, PACE, progress, self.interrupted)
        return JourneyRun(steps, SUBJECT, self.folder, meter, progress, self.command)


async def test_every_leg_is_measured_and_written(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    found = await journey.of(step("one"), step("two", 16)).run()
    assert journey.started == ["one", "two"]
    assert list(found.results) == ["one.variable", "two.variable"]
    written = read_results(tmp_path / "two.variable.json")
    assert written == found.results["two.variable"]
    assert [(point.load.clients, len(point.repeats)) for point in written.points] == [(1, 2), (2, 2)]
    assert all(repeat.summary.completed for point in written.points for repeat in point.repeats)
    assert written.conditions.options["journey"]["start_s"] > 0
    assert written.conditions.options["label"] == "two"


async def test_a_server_that_does_not_start_or_exits_is_reported_and_skipped(tmp_path: Path) -> None:
    journey = Journey(tmp_path, one="exits", two="fragile")
    found = await journey.of(step("one"), step("two"), step("three")).run()
    assert list(found.results) == ["three.variable"]
    assert "no such model" in found.failures["one"]
    assert "code 7" in found.failures["two"]
    assert not (tmp_path / "two.variable.json").exists()


async def test_an_interrupted_journey_keeps_what_was_measured(tmp_path: Path) -> None:
    journey, measured_one = Journey(tmp_path), tmp_path / "one.variable.json"

    async def interrupt() -> None:
        await until(measured_one.exists, "the first step's results")
        journey.interrupted.set()

    found, _ = await asyncio.gather(journey.of(step("one"), step("two"), step("three")).run(), interrupt())
    assert found.interrupted and "one.variable" in found.results and "three" in found.not_reached


async def test_two_servers_are_started_and_compared(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    found = await journey.of(step("ours"), step("theirs")).compare()
    assert (journey.started, found.partial) == (["ours", "theirs"], False)
    assert {name: len(one.points[1].repeats) for name, one in found.results["plain"].items()} == {
        "ours": 2,
        "theirs": 2,
    }
    assert found.results["plain"]["ours"].conditions.options["label"] == "ours"


def leg(name: str, *rps: float) -> Results:
    """As a journey stores it: the step's name is in its notes."""
    found = rates(*rps)
    options = {**found.conditions.options, "journey": {"step": name}}
    return replace(found, conditions=replace(found.conditions, options=options))


def test_a_folder_is_read_in_the_routes_order_compressed_or_not_without_other_files(tmp_path: Path) -> None:
    write_results(leg("workers-1", 2.0), tmp_path / "workers-1.variable.json")
    write_results(leg("continuous-64", 40.0), tmp_path / "continuous-64.variable.json.gz")
    write_results(rates(50.0), tmp_path / "versus.continuous-64.json")
    (tmp_path / "journey.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    journey = read_folder(tmp_path)
    assert list(journey.results) == ["workers-1.variable", "continuous-64.variable"]
    assert "static" in journey.not_reached and "workers-1" not in journey.not_reached


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_folder(tmp_path)
