"""A journey over stand-in servers: what is measured, kept, skipped and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import ConfigError
from dragoman_bench.bench.progress import NoProgress, RunProgress
from dragoman_bench.bench.results import Results, read_results, write_results
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.bench.workload import CachedWorkload
from dragoman_bench.journey.measure import (
    JourneyResults,
    JourneyRun,
    LoadMeter,
    read_folder,
)
from dragoman_bench.journey.steps import Leg, Level, Pace, Step, Subject
from dragoman_bench.journey.versus import compare_servers
from tests.bench.journeys import rates
from tests.bench.making import workload
from tests.bench.stand_ins import StandIns
from tests.bench.test_journey_steps import SUBJECT
from tests.waiting import until

PACE = Pace(duration_s=0.3, warmup_s=0.1, timeout_s=5.0)
LEG = Leg("variable", (Level(1), Level(2, 2)))
MACHINE: dict[str, object] = {"cpu": "a CPU", "cores": 2, "vllm": "1.0"}


def step(name: str, slots: int = 64, leg: Leg = LEG) -> Step:
    return Step(name, f"step {name}", "dragoman", {"max-num-seqs": slots}, (leg,))


class Journey(StandIns):
    """A folder, and runs into it."""

    def command(self, step: Step, subject: Subject, engine_log: Path) -> ServerCommand:
        return self.start(step.name)

    def of(self, steps: Sequence[Step], *, chosen: Sequence[str] | None = None, fresh: bool = False) -> JourneyRun:
        progress = RunProgress(Console(file=StringIO(), width=200), NoProgress())
        workloads = {"variable": CachedWorkload(workload(*(f"text {n}" for n in range(50))))}
        return JourneyRun(
            steps=tuple(steps),
            chosen=frozenset(chosen if chosen is not None else [step.name for step in steps]),
            subject=SUBJECT,
            folder=self.folder,
            meter=LoadMeter(workloads, PACE, progress, self.interrupted),
            progress=progress,
            machine=MACHINE,
            fresh=fresh,
            command=self.command,
        )

    async def run(
        self, steps: Sequence[Step], *, chosen: Sequence[str] | None = None, fresh: bool = False
    ) -> JourneyResults:
        self.started.clear()
        return await self.of(steps, chosen=chosen, fresh=fresh).run()


async def test_every_leg_is_measured_written_and_not_measured_again(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two", 16)]
    first = await journey.run(steps)
    assert journey.started == ["one", "two"]
    assert list(first.results) == ["one.variable", "two.variable"]
    written = read_results(tmp_path / "two.variable.json")
    assert written == first.results["two.variable"]
    assert [(point.load.clients, len(point.repeats)) for point in written.points] == [(1, 1), (2, 2)]
    assert all(repeat.summary.completed for point in written.points for repeat in point.repeats)
    notes = written.conditions.options["journey"]
    assert notes["start_s"] > 0
    assert notes["fingerprint"]["flags"] == {"max-num-seqs": 16}
    assert written.conditions.options["label"] == "two"

    again = await journey.run(steps)
    assert (journey.started, again.results) == ([], first.results)
    chosen = await journey.run(steps, chosen=["two"], fresh=True)
    assert (journey.started, set(chosen.results)) == (["two"], {"one.variable", "two.variable"})


async def test_changed_conditions_and_broken_or_partial_files_are_measured_again(tmp_path: Path) -> None:
    results, one, file = rates(1.0), step("one"), tmp_path / "one.variable.json"
    journey = Journey(tmp_path)
    run = journey.of([one])
    options = {"journey": run.notes(one, LEG, 3.0)}
    same = replace(results, conditions=replace(results.conditions, options=options))
    write_results(same, file)
    assert run.stored(one, LEG) == same
    assert run.stored(step("one", 16), LEG) is None
    assert run.stored(one, Leg("variable", (Level(1),))) is None
    assert replace(run, machine={**MACHINE, "vllm": "2.0"}).stored(one, LEG) is None
    file.write_text("{")
    assert run.stored(one, LEG) is None

    write_results(replace(same, partial=True), file)
    found = await journey.run([one])
    assert journey.started == ["one"] and not found.results["one.variable"].partial


async def test_a_server_that_does_not_start_or_exits_is_reported_and_skipped(tmp_path: Path) -> None:
    journey = Journey(tmp_path, one="exits", two="fragile")
    found = await journey.run([step("one"), step("two"), step("three")])
    assert list(found.results) == ["three.variable"]
    assert "no such model" in found.failures["one"]
    assert "code 7" in found.failures["two"]
    assert not (tmp_path / "two.variable.json").exists()


async def test_an_interrupted_journey_keeps_what_was_measured_and_is_resumed(tmp_path: Path) -> None:
    journey, steps = Journey(tmp_path), [step("one"), step("two"), step("three")]
    measured_one = tmp_path / "one.variable.json"

    async def interrupt() -> None:
        await until(measured_one.exists, "the first step's results")
        journey.interrupted.set()

    found, _ = await asyncio.gather(journey.run(steps), interrupt())
    assert found.interrupted and "one.variable" in found.results and "three" in found.not_reached
    journey.interrupted = asyncio.Event()
    found = await journey.run(steps)
    assert journey.started == ["two", "three"]
    assert set(found.results) == {"one.variable", "two.variable", "three.variable"}


async def test_two_servers_are_started_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journey = Journey(tmp_path)
    monkeypatch.setattr("dragoman_bench.journey.versus.command_of", journey.command)
    run = journey.of([step("ours"), step("theirs")])
    found = await compare_servers((step("ours"), step("theirs")), SUBJECT, tmp_path, run.meter, run.progress)
    assert (journey.started, found.partial) == (["ours", "theirs"], False)
    assert {name: len(one.points[1].repeats) for name, one in found.results["plain"].items()} == {
        "ours": 2,
        "theirs": 2,
    }
    assert found.results["plain"]["ours"].conditions.options["label"] == "ours"


def leg(name: str, *rps: float) -> Results:
    """As a journey stores it: the step's name is in its notes."""
    found = rates(*rps)
    options = {**found.conditions.options, "journey": {"step": name, "fingerprint": {"flags": {}}}}
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
