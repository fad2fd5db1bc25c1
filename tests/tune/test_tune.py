"""Whole tunes on simulated servers: the final, the recommendation, an interrupt, and going on after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.compare import Objective, meets
from dragoman_bench.tune.final import best_entry, candidates, parse_baselines, serve_defaults
from dragoman_bench.tune.outcome import (
    FINALIST,
    Candidate,
    Choice,
    FinalEntry,
    Knobs,
    LoadLevel,
    SearchResult,
    Setup,
    Tuning,
)
from dragoman_bench.tune.run import TuneJob, tune
from dragoman_bench.tune.trial import BY_HAND
from tests.tune.simulated import CPU, PACE, SimulatedServers, job, machine_with, result, saturating, servers

SLO = parse_slo("p95_s=4")
LEVEL = LoadLevel(16)


def with_baselines(**more: Any) -> TuneJob:
    return job(baselines=("vllm-serve", "story"), **more)


async def tuned(
    folder: Path, wanted: TuneJob, performance: Any = saturating, **more: Any
) -> tuple[Tuning, SimulatedServers]:
    made = servers(folder, wanted, performance, **more)
    return await tune(made, wanted), made


def better_with_16_slots(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
    rps, p95_s = saturating(knobs, level)
    return (rps * 1.5, p95_s / 2) if knobs.max_num_seqs == 16 and knobs.max_num_batched_tokens == 2048 else (rps, p95_s)


async def test_what_is_better_than_every_baseline_is_recommended(tmp_path: Path) -> None:
    tuning, _ = await tuned(tmp_path, with_baselines(), better_with_16_slots)
    assert tuning.final is not None and tuning.recommendation is not None and tuning.finding is not None
    assert tuning.final.rounds == 3
    assert [entry.verdict for entry in tuning.final.entries] == ["itself", "higher", "higher"]
    assert tuning.recommendation.candidate == FINALIST
    assert tuning.recommendation.choices == tuning.finding.choices
    assert not tuning.partial


async def test_of_equals_what_the_search_found_is_recommended(tmp_path: Path) -> None:
    tuning, made = await tuned(tmp_path, with_baselines())
    assert tuning.recommendation is not None and tuning.final is not None
    assert [entry.verdict for entry in tuning.final.entries] == ["itself", "equal", "equal"]
    assert tuning.recommendation.candidate == FINALIST
    assert not any(trial.phase == "final" for trial in tuning.trials)
    assert any(name == "final-vllm-serve" for name in made.started)


async def test_a_better_baseline_is_recommended_with_the_settings_that_it_was_measured_with(tmp_path: Path) -> None:
    def performance(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
        rps, p95_s = saturating(knobs, level)
        return (rps * 1.5, p95_s / 1.5) if knobs.max_num_batched_tokens == 8192 else (rps, p95_s)

    tuning, _ = await tuned(tmp_path, with_baselines(), performance)
    assert tuning.recommendation is not None and tuning.finding is not None
    assert tuning.recommendation.candidate == "story"
    assert tuning.recommendation.knobs == Knobs(
        16, 8192, kv_cache_memory_bytes=tuning.finding.knobs.kv_cache_memory_bytes
    )
    assert tuning.recommendation.memory is None and tuning.recommendation.caveats


def entry(name: str, *repeats: tuple[float, float]) -> FinalEntry:
    busy = tuple(result(LEVEL, rps, p95_s, SLO, repeat) for repeat, (rps, p95_s) in enumerate(repeats))
    return FinalEntry(Candidate(name, name, Setup(Knobs()), Knobs()), "measured", "", busy)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"a": [(9.0, 4.2)] * 3, "b": [(6.0, 3.9)] * 3}, "b"),  # meets the SLO, at a lower rate
        (
            {"a": [(9.0, 4.2), (9.0, 4.2), (9.0, 3.9)], "b": [(9.0, 3.9), (9.0, 3.9), (9.0, 4.2)]},
            "b",
        ),  # met in most repeats
        ({FINALIST: [(9.0, 3.9)] * 3, "b": [(9.1, 3.8)] * 3}, FINALIST),  # equal
        ({"a": [(6.0, 3.9)] * 3, "b": [(9.0, 3.8)] * 3}, "b"),
        ({"a": [(6.0, 4.9)] * 3, "b": [(9.0, 4.8)] * 3}, "b"),  # nothing meets it: requests a second decide
    ],
)
def test_what_meets_the_slo_comes_first_then_the_rate_then_what_the_search_found(rates: Any, expected: str) -> None:
    entries = [entry(name, *repeats) for name, repeats in rates.items()]
    objective = Objective.over(SLO, [one.busy for one in entries])
    assert best_entry(entries, objective).candidate.name == expected


def test_goodput_counts_what_finished_within_the_slo() -> None:
    fast, slow = (result(LEVEL, 9.0, 4.2, SLO),), (result(LEVEL, 6.0, 3.9, SLO),)
    objective = Objective.over(SLO, [fast, slow])
    assert objective.metric == "goodput_rps"
    assert objective.compare(slow, fast) == "higher"
    assert (meets(fast), meets(slow)) == (False, True)
    assert objective.spread(fast).median == 4.5


def test_rounds_in_turn_show_a_lead_that_is_smaller_than_the_drift() -> None:
    objective = Objective(None, "rps")
    ours = tuple(result(LEVEL, rps, 1.0, None, place) for place, rps in enumerate((30.0, 22.0, 26.0)))
    theirs = tuple(result(LEVEL, rps, 1.0, None, place) for place, rps in enumerate((27.0, 19.0, 23.0)))
    assert objective.compare(ours, theirs) == "equal"
    assert objective.compare_rounds(ours, theirs) == "higher"
    assert objective.compare_rounds(theirs, ours) == "lower"


async def test_a_candidate_that_crashes_is_out_and_the_final_goes_on(tmp_path: Path) -> None:
    def fault(knobs: Knobs, level: LoadLevel | None) -> str:
        return "RuntimeError: the engine crashed" if knobs.max_num_batched_tokens == 8192 and level == LEVEL else ""

    tuning, _ = await tuned(tmp_path, with_baselines(), better_with_16_slots, fault=fault)
    assert tuning.final is not None and tuning.recommendation is not None
    story = tuning.final.entries[-1]
    assert (story.outcome, story.verdict) == ("failed_under_load", "not measured")
    assert "the engine crashed" in story.reason
    assert tuning.final.rounds == 3
    assert tuning.recommendation.candidate == FINALIST


async def test_an_interrupt_keeps_what_was_measured_and_the_next_run_goes_on_from_there(tmp_path: Path) -> None:
    wanted = with_baselines()
    made = servers(tmp_path, wanted)

    def performance(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
        if level.cap == 4:
            made.interrupted.set()
        return saturating(knobs, level)

    partial = await tune(replace(made, performance=performance), wanted)
    assert (partial.partial, partial.partial_because, partial.final) == (True, BY_HAND, None)
    assert partial.ladder is not None and partial.ladder.knee == 4
    assert partial.choices
    again = servers(tmp_path, wanted, kept=made.kept)
    whole = await tune(again, wanted)
    uninterrupted, _ = await tuned(tmp_path, wanted)
    assert whole.recommendation == uninterrupted.recommendation
    assert len(again.kept) == len(servers(tmp_path, wanted).kept) + len(made.kept)


async def test_where_nothing_starts_there_is_no_recommendation_and_the_trial_says_why(tmp_path: Path) -> None:
    tuning, _ = await tuned(tmp_path, with_baselines(), fault=lambda knobs, level: "ValueError: no such model")
    assert tuning.ladder is not None and tuning.ladder.knee is None
    assert tuning.choices == ()
    assert "no such model" in tuning.trials[-1].reason


async def test_without_baselines_there_is_no_final(tmp_path: Path) -> None:
    tuning, made = await tuned(tmp_path, job())
    assert tuning.final is None and tuning.recommendation is not None
    assert tuning.recommendation.candidate == FINALIST
    assert not any(name.startswith("final") for name in made.started)


def test_the_plan_names_each_part_and_its_time() -> None:
    lines = list(with_baselines().plan_lines(PACE))
    assert "16 texts at once when busy, 16 at most" in lines[0]
    assert any("1, 2, 4, 8, 16 requests at once" in line for line in lines)
    assert any("finalist, vllm-serve, story: 3 rounds" in line for line in lines)
    assert with_baselines(repeats=1).expected_s(PACE) < with_baselines().expected_s(PACE)


def test_baselines_are_named_and_have_vllms_defaults() -> None:
    assert parse_baselines("story,vllm-serve") == ("vllm-serve", "story")
    assert parse_baselines("none") == ()
    with pytest.raises(ConfigError, match="me"):
        parse_baselines("me")
    h200 = machine_with("H200", 141)
    assert serve_defaults(h200) == (1024, 8192)
    assert serve_defaults(machine_with("L4", 24)) == serve_defaults(machine_with("A100", 80)) == (256, 2048)
    named = {one.name: one for one in candidates(Knobs(8), ("vllm-serve", "story"), h200, None)}
    assert named["vllm-serve"].setup == Setup(Knobs(), "vllm")
    assert named["story"].alone == Knobs(16, 8192, 32, 0.3)
    finalist, *on_cpu = candidates(Knobs(8), ("vllm-serve", "story"), CPU, 1 << 30)
    assert finalist.setup.knobs == Knobs(8)
    assert all(one.setup.knobs.kv_cache_memory_bytes == 1 << 30 for one in on_cpu)


def test_the_knobs_of_a_finding_are_its_choices() -> None:
    finding = SearchResult((Choice("max_num_seqs", 4, "a"), Choice("gpu_memory_utilization", 0.3, "b")), None, None)
    assert finding.knobs == Knobs(4, gpu_memory_utilization=0.3)
    assert Setup(finding.knobs).flags == {"max-num-seqs": 4, "gpu-memory-utilization": 0.3}
