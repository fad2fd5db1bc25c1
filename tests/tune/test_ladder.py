"""The ladder: how far it climbs, what it repeats, and which cap is the knee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman_bench.tune.outcome import Hardware, Knobs, Ladder, LoadLevel, Trial
from dragoman_bench.tune.search import base_knobs, caps, climb, power_of_two
from tests.tune.simulated import CPU, at_once, demand, job, no_fault, run, saturating, servers


async def climbed(
    folder: Path, performance: Any, slo: str | None = "p95_s=4", fault: Any = no_fault
) -> tuple[Ladder, Trial, dict[str, Trial]]:
    wanted = job(slo)
    made = servers(folder, wanted, performance, fault=fault)
    (ladder, trial), trials = await run(made, climb(wanted.demand, CPU, wanted.slo))
    return ladder, trial, trials


def by_cap(table: dict[int, tuple[float, float]]) -> Any:
    """Requests a second and 95th percentile by requests at once."""
    return lambda knobs, level: table[at_once(knobs, level)]


def test_caps_double_up_to_the_busy_level() -> None:
    assert caps(25) == [1, 2, 4, 8, 16, 25]
    assert caps(16) == [1, 2, 4, 8, 16]
    assert caps(1) == [1]
    assert [power_of_two(count) for count in (1, 3, 16, 17)] == [1, 4, 16, 32]


def test_the_engine_of_the_ladder_has_more_sequences_than_the_peak() -> None:
    assert base_knobs(demand(peak=40), CPU) == Knobs(64, 2048)
    assert base_knobs(demand(), Hardware("cuda", 80 << 30, 1)) == Knobs(32, 8192, 1024)


async def test_where_more_at_once_always_helps_the_knee_is_the_busy_level(tmp_path: Path) -> None:
    ladder, _, trials = await climbed(tmp_path, saturating, None)
    assert (ladder.knee, ladder.best, ladder.metric) == (16, 16, "rps")
    assert [rung.cap for rung in ladder.rungs] == [1, 2, 4, 8, 16]
    assert list(trials) == ["ladder"]
    assert len(ladder.rungs[-1].results) == 3  # what later trials are compared with is repeated


async def test_the_knee_is_the_smallest_cap_equal_to_the_best(tmp_path: Path) -> None:
    rates = {1: (2.0, 9.0), 2: (4.0, 8.0), 4: (8.0, 3.0), 8: (8.2, 3.0), 16: (8.1, 3.0)}
    ladder, _, _ = await climbed(tmp_path, by_cap(rates))
    assert (ladder.knee, ladder.best, ladder.metric) == (4, 8, "goodput_rps")


async def test_a_missed_slo_ends_the_climb_after_a_repeat(tmp_path: Path) -> None:
    rates = {1: (2.0, 6.0), 2: (4.0, 3.0), 4: (6.0, 6.0), 8: (8.0, 9.0), 16: (9.0, 9.0)}
    ladder, trial, _ = await climbed(tmp_path, by_cap(rates))
    assert (ladder.knee, ladder.best) == (2, 2)
    assert len(trial.at(LoadLevel(16, 4))) == 2
    assert [rung.verdict for rung in ladder.rungs[3:]] == ["not measured", "not measured"]


async def test_a_cap_that_misses_the_slo_is_never_the_knee_however_many_it_serves(tmp_path: Path) -> None:
    rates = {1: (2.0, 3.0), 2: (3.0, 3.5), 4: (12.0, 4.1), 8: (12.0, 4.1), 16: (12.0, 4.2)}
    ladder, _, _ = await climbed(tmp_path, by_cap(rates))
    assert (ladder.knee, ladder.best) == (2, 2)


async def test_an_engine_that_does_not_start_is_tried_with_less_memory(tmp_path: Path) -> None:
    def fault(knobs: Knobs, level: LoadLevel | None) -> str:
        return "" if knobs.kv_cache_memory_bytes else "RuntimeError: cannot allocate the cache"

    ladder, trial, trials = await climbed(tmp_path, saturating, fault=fault)
    assert trials["ladder"].outcome == "did_not_start"
    assert "cannot allocate" in trials["ladder"].reason
    assert trial.name == "ladder-2"
    assert ladder.setup.knobs.kv_cache_memory_bytes == 512 << 20
    assert ladder.knee == 16


async def test_a_crash_keeps_the_caps_below_it(tmp_path: Path) -> None:
    def fault(knobs: Knobs, level: LoadLevel | None) -> str:
        return "RuntimeError: the engine crashed" if level and level.cap == 8 else ""

    ladder, trial, _ = await climbed(tmp_path, saturating, None, fault)
    assert trial.outcome == "failed_under_load"
    assert ladder.knee == 4
