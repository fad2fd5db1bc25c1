"""Trials on real processes: a server is started, measured and stopped; a crash is a result; what was measured is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman_bench.bench.progress import ProgressLines
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.journey.steps import Pace
from dragoman_bench.tune.demand import Demand, PromptShape
from dragoman_bench.tune.final import hold_final
from dragoman_bench.tune.outcome import (
    Candidate,
    Concurrency,
    Knobs,
    LoadLevel,
    Measure,
    Search,
    Setup,
    Trial,
)
from dragoman_bench.tune.trial import (
    BY_HAND,
    Servers,
    TrialRunner,
    fault_reason,
    variation_of,
)
from tests.bench.making import workload
from tests.bench.stand_ins import StandIns
from tests.tune.simulated import SUBJECT
from tests.waiting import HANG_S

PACE = Pace(duration_s=0.2, warmup_s=0.05, timeout_s=HANG_S)
LEVEL = LoadLevel(2)


class Machine(StandIns):
    """Stand-in servers of a tune."""

    def servers(self, **more: Any) -> Servers:
        self.started.clear()
        texts = workload(*(f"text {n}" for n in range(50)))
        demand = Demand(
            "texts", texts.items(10, 0), (8,) * 10, Concurrency(2, 2), PromptShape(), {"mix": texts, "long": texts}
        )
        progress = ProgressLines(Console(file=StringIO()))
        return Servers(SUBJECT, demand, PACE, None, self.folder, {}, progress, self.interrupted, self.command, **more)

    def command(self, name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        return self.start(name)


def measure(trial: str, repeat: int = 0, level: LoadLevel = LEVEL) -> Measure:
    return Measure(trial, "slots", Setup(Knobs(8)), level, "a test", repeat)


def each(wanted: Sequence[Measure]) -> Search[list[Trial]]:
    trials: list[Trial] = []
    for one in wanted:
        trials.append((yield one))  # noqa: PERF401 - a generator that is sent results
    return trials


async def answers(servers: Servers, *wanted: Measure) -> list[Trial]:
    async with TrialRunner(servers) as runner:
        return await runner.run(each(wanted))


async def test_one_server_answers_all_measurements_of_a_trial_and_its_results_are_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    trials = await answers(machine.servers(), measure("a"), measure("a", 1), measure("b"))
    assert machine.started == ["a", "b"]
    assert [len(trial.results) for trial in trials] == [1, 2, 1]
    assert all(result.completed and not result.failed for result in trials[1].results)
    again = await answers(machine.servers(), measure("a"), measure("a", 1), measure("c"))
    assert machine.started == ["c"]
    assert again[1].results == trials[1].results
    fresh = machine.servers()
    assert fresh.stored(measure("a")) is not None
    assert fresh.stored(replace(measure("a"), setup=Setup(Knobs(9)))) is None  # other settings are another measurement


async def test_a_crash_is_a_result_and_its_trial_is_not_measured_further(tmp_path: Path) -> None:
    machine = Machine(tmp_path, fragile="fragile", broken="starved")
    wanted = (measure("fragile"), measure("fragile", 1), measure("broken"), measure("well"))
    trials = await answers(machine.servers(), *wanted)
    assert [trial.outcome for trial in trials] == [
        "failed_under_load",
        "failed_under_load",
        "did_not_start",
        "measured",
    ]
    assert "exit code 7" in trials[0].reason
    assert "memory" in trials[2].reason
    assert machine.started == ["fragile", "broken", "well"]


async def test_an_engine_that_crashes_behind_its_server_is_a_crash(tmp_path: Path) -> None:
    trials = await answers(Machine(tmp_path, hollow="hollow").servers(), measure("hollow"))
    assert trials[0].outcome == "failed_under_load"


async def test_after_an_interrupt_nothing_is_begun(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.interrupted.set()
    stopped = await answers(machine.servers(), measure("a"))
    assert (stopped[0].outcome, stopped[0].reason, machine.started) == ("interrupted", BY_HAND, [])


async def test_a_final_measures_every_candidate_in_every_round_and_goes_on_without_one_that_crashes(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, final_b="fragile")
    entries = tuple(Candidate(name, name, Setup(Knobs(8)), Knobs(8)) for name in ("a", "b", "c"))
    async with TrialRunner(machine.servers()) as runner:
        final = await runner.run(hold_final(entries, LEVEL, 2, "rps"))
    a, b, c = final.entries
    assert (a.outcome, b.outcome, c.outcome) == ("measured", "failed_under_load", "measured")
    assert final.rounds == 2
    assert (len(a.busy), len(b.busy), len(c.busy)) == (2, 0, 2)
    assert machine.started == [
        "final-a",
        "final-b",
        "final-c",
        "final-a",
    ]  # the last of a round may be the next one's first


def test_the_line_of_a_log_that_says_why_is_found(tmp_path: Path) -> None:
    log = "\n".join([
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ])  # fmt: skip
    path = tmp_path / "engine.log"
    path.write_text(log, encoding="utf-8")
    assert (
        fault_reason("a exited", path)
        == "a exited: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    path = tmp_path / "server.log"
    path.write_text("ValueError: no such model\n", encoding="utf-8")
    assert (
        fault_reason("a ended with exit code 1\n    the end", path)
        == "a ended with exit code 1: ValueError: no such model"
    )
    assert "memory" in fault_reason("a ended with exit code -9", tmp_path / "none.log")


def test_each_level_and_repeat_has_texts_of_its_own() -> None:
    levels = [LoadLevel(25, cap) for cap in (1, 2, 4, 8, None)] + [LoadLevel(38, draw="long")]
    assert len({variation_of(level, repeat) for level in levels for repeat in range(3)}) == 18
