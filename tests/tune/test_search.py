"""The search: how far the ladder climbs, and its knee; then settings: the SLO comes first, each value has its own reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman_bench.bench.measurement import Machine
from dragoman_bench.tune.compare import Context, Objective
from dragoman_bench.tune.memory import size_for
from dragoman_bench.tune.outcome import Choice, Knobs, KvCache, Ladder, LoadLevel, Memory, SearchResult, Setup, Trial
from dragoman_bench.tune.search import base_knobs, caps, climb, power_of_two, search_knobs
from tests.tune.simulated import CPU, at_once, demand, job, machine_with, no_fault, run, saturating, servers

UNCAPPED = LoadLevel(16)


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
    assert caps(63) == [1, 2, 4, 8, 16, 32, 63]
    assert caps(64) == [2, 4, 8, 16, 32, 64]
    assert caps(256) == [8, 16, 32, 64, 128, 256]
    assert [power_of_two(count) for count in (1, 3, 16, 17)] == [1, 4, 16, 32]


def test_the_engine_of_the_ladder_has_more_sequences_than_the_peak() -> None:
    assert base_knobs(demand(peak=40), CPU) == Knobs(64, 2048)
    assert base_knobs(demand(), machine_with("H100", 80)) == Knobs(32, 8192, 1024)


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


async def searched(
    folder: Path,
    performance: Any = saturating,
    slo: str | None = "p95_s=4",
    fault: Any = no_fault,
    **more: Any,
) -> tuple[SearchResult, dict[str, Trial]]:
    wanted = job(slo)
    made = servers(folder, wanted, performance, fault=fault, **more)

    def whole() -> Any:
        ladder, trial = yield from climb(wanted.demand, CPU, wanted.slo)
        demand, objective = wanted.demand.measured(trial), Objective(wanted.slo, ladder.metric)
        return (yield from search_knobs(Context(demand, CPU, objective, ladder, trial)))

    return await run(made, whole())


def chosen(finding: SearchResult, name: str) -> Choice:
    return next(choice for choice in finding.choices if choice.name == name)


def capped_differs(capped: dict[int, tuple[float, float]], real: dict[int, tuple[float, float]]) -> Any:
    """An engine that behaves otherwise with few sequences than with as many requests at once in front of it."""

    def performance(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
        slots = knobs.max_num_seqs or 0
        return real[slots] if slots in real else capped[min(16, at_once(knobs, level))]

    return performance


async def test_a_cap_that_meets_the_slo_is_tried_where_the_knee_as_max_num_seqs_misses_it(tmp_path: Path) -> None:
    capped = {1: (2.0, 9.0), 2: (5.0, 3.5), 4: (5.1, 3.6), 8: (5.0, 3.8), 16: (5.0, 9.0)}
    finding, trials = await searched(tmp_path, capped_differs(capped, {2: (5.0, 9.1), 4: (5.0, 3.9), 8: (5.0, 3.9)}))
    assert not trials["slots-2"].results[-1].slo_met
    assert finding.knobs.max_num_seqs == 4
    assert finding.best_trial == "slots-4"
    assert all(result.slo_met for result in trials["slots-4"].at(UNCAPPED))


async def test_the_reason_of_a_value_has_the_numbers_of_that_value(tmp_path: Path) -> None:
    capped = {1: (2.0, 9.0), 2: (5.0, 3.5), 4: (5.1, 3.6), 8: (5.0, 3.8), 16: (5.0, 9.0)}
    finding, _ = await searched(tmp_path, capped_differs(capped, {2: (5.0, 9.1), 4: (5.3, 3.21), 8: (5.0, 3.9)}))
    reason = chosen(finding, "max_num_seqs").reason
    assert "5.30" in reason and "3.21 s" in reason
    assert "9.1" not in reason


async def test_a_cap_of_texts_that_are_cut_stands_for_as_many_sequences_as_ran(tmp_path: Path) -> None:
    capped = {1: (2.0, 9.0), 2: (4.0, 8.0), 4: (8.0, 3.5), 8: (8.0, 3.8), 16: (8.0, 9.0)}
    _, trials = await searched(tmp_path, capped_differs(capped, {10: (8.0, 3.5)}), segments=2.5)
    assert trials["slots-10"].outcome == "measured"


async def test_no_value_that_misses_the_slo_is_chosen_where_the_ladders_engine_meets_it(tmp_path: Path) -> None:
    capped = {1: (2.0, 9.0), 2: (5.0, 3.5), 4: (5.0, 3.6), 8: (5.0, 3.8), 16: (5.0, 3.9)}
    missing = dict.fromkeys((2, 4, 8), (8.0, 4.5))
    finding, trials = await searched(tmp_path, capped_differs(capped, missing))
    assert {"slots-2", "slots-4", "slots-8"} <= set(trials)
    assert finding.knobs.max_num_seqs == 32  # the ladder's own, which met it with all clients at once
    assert "3.90 s" in chosen(finding, "max_num_seqs").reason


async def test_where_nothing_meets_the_slo_the_most_requests_win(tmp_path: Path) -> None:
    finding, trials = await searched(tmp_path, saturating, "p95_s=0.1")
    assert finding.knobs.max_num_seqs == trials["slots-16"].setup.knobs.max_num_seqs == 16


async def test_fewer_sequences_win_ties_and_get_the_memory_that_they_need(tmp_path: Path) -> None:
    finding, trials = await searched(tmp_path, saturating, None)
    assert finding.knobs.max_num_seqs == 16
    assert finding.memory is not None and finding.memory.checked == "held"
    assert chosen(finding, "kv_cache_memory_bytes") == finding.memory.choice
    assert trials["slots-16"].at(LoadLevel(24, draw="long"))  # the check, on the trial's own server


@pytest.mark.parametrize(("crashes", "checked"), [(1, "held"), (2, "did not hold")])
async def test_memory_that_does_not_hold_is_left_to_the_server_and_checked_again(
    tmp_path: Path, crashes: int, checked: str
) -> None:
    left = iter([True] * crashes)

    def fault(knobs: Knobs, level: LoadLevel | None) -> str:
        if level is not None and level.draw == "long" and next(left, False):
            return "RuntimeError: the engine crashed for lack of memory"
        return ""

    finding, trials = await searched(tmp_path, saturating, None, fault)
    assert trials["slots-16"].outcome == "failed_under_load"
    assert finding.memory is not None
    assert (finding.memory.checked, finding.memory.trials) == (checked, ("slots-16", "memory-2"))
    assert finding.knobs.kv_cache_memory_bytes is None
    assert trials["memory-2"].setup.knobs.kv_cache_memory_bytes is None


async def test_a_better_step_size_is_found_and_no_step_that_is_not_used_is_tried(tmp_path: Path) -> None:
    def performance(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
        rps, p95_s = saturating(knobs, level)
        return (rps * 1.5, p95_s) if (knobs.max_num_batched_tokens or 0) <= 1024 else (rps, p95_s)

    finding, trials = await searched(tmp_path, performance, None)
    assert finding.knobs.max_num_batched_tokens == 1024
    assert trials["tokens-512"].outcome == "measured"
    assert "tokens-4096" not in trials  # no step holds so many


def sized(slots: int, machine: Machine, **facts: Any) -> Memory:
    trial = Trial("ladder", "ladder", Setup(Knobs(32)), "", **facts)
    ladder = Ladder(16, trial.setup, (), "rps", 16, 16, "", "")
    return size_for(Context(demand(), machine, Objective(None, "rps"), ladder, trial), slots)


def test_memory_is_sized_from_the_peak_and_never_below_one_window() -> None:
    facts: dict[str, Any] = {"kv_cache": KvCache(50_000, 8192.0), "engine": {"max_model_len": 512}}
    memory = sized(16, CPU, **facts)
    assert memory.needed_tokens >= demand().peak_tokens(16)
    assert memory.wanted_tokens >= 1.25 * memory.needed_tokens - 1
    assert memory.value is not None and memory.value >= memory.wanted_tokens * 8192
    assert sized(1, CPU, **facts).wanted_tokens >= 512 + 128  # vLLM keeps a block for itself: it does not start without


def test_on_a_gpu_memory_is_a_share_of_it() -> None:
    cache, engine = KvCache(500_000, 147_456.0), {"gpu_memory_utilization": 0.9}
    memory = sized(16, machine_with("H200", 140), kv_cache=cache, engine=engine)
    assert memory.setting == "gpu_memory_utilization"
    assert memory.value is not None and 0.01 <= memory.value < 0.9


def test_without_a_size_of_a_token_the_servers_own_memory_is_kept() -> None:
    memory = sized(16, CPU)
    assert (memory.value, memory.choice) == (None, None)
