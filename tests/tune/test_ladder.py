from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.settings import GRAPH_CEILING
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.ladder import base_knobs, caps, check_level, climb, level_of, power_of_two, read
from dragoman_bench.tune.outcome import Ladder
from dragoman_bench.tune.points import Knobs, Level, Setup, Trial
from tests.tune.lab import Lab, demand
from tests.tune.simulation import CPU, GPU, Model

CROWDED = replace(GPU, crowd=12, crowd_s=0.016)  # more than twelve at once make every step much longer


def climbed(model: Model, of: Demand, slo: str | None = None, **lab: Any) -> tuple[Ladder, Trial, Lab]:
    stated = parse_slo(slo) if slo else None
    here = Lab(model, of, stated, **lab)
    ladder, trial = here.drive(climb(of, model.place, stated))
    return ladder, trial, here


@pytest.mark.parametrize(
    ("busy", "expected"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (16, [1, 2, 4, 8, 16]), (25, [1, 2, 4, 8, 16, 25])],
)
def test_caps_double_up_to_the_busy_level_itself(busy: int, expected: list[int]) -> None:
    assert caps(busy) == expected


@pytest.mark.parametrize(("wanted", "expected"), [(1, 1), (2, 2), (3, 4), (37.5, 64), (64, 64), (65, 128)])
def test_powers_of_two(wanted: float, expected: int) -> None:
    assert power_of_two(wanted) == expected


def test_the_ladders_engine_has_room_for_more_than_the_peak_and_graphs_apart_from_its_slots() -> None:
    assert base_knobs(demand((2, 25, 25)), GPU.place) == Knobs(64, 8192, GRAPH_CEILING)
    assert base_knobs(demand((2, 25, 25)), CPU.place) == Knobs(64, 2048)
    assert base_knobs(demand((1, 2, 2)), CPU.place).max_num_seqs == 16
    assert check_level(demand((2, 25, 25))) == Level(38, draw="long")


def test_one_start_shows_the_whole_curve() -> None:
    ladder, trial, lab = climbed(GPU, demand())

    assert lab.starts == 1
    assert [rung.cap for rung in ladder.rungs] == [1, 2, 4, 8, 16, 25]
    assert all(rung.verdict == "higher" for rung in ladder.rungs[1:])
    assert ladder.knee == ladder.best == 25
    assert trial.name == "ladder"
    assert "no more can be at the server at once" in ladder.ended


def test_the_top_rung_is_the_busy_level_without_a_cap() -> None:
    assert level_of(25, 25) == Level(25)
    assert level_of(16, 25) == Level(25, cap=16)


def test_clear_differences_are_measured_once_and_the_knee_three_times() -> None:
    ladder, _, _ = climbed(GPU, demand())

    assert [len(rung.seen) for rung in ladder.rungs] == [1, 1, 1, 1, 1, 3]


def test_the_climb_ends_where_more_at_once_is_worse_and_a_repeat_confirms_it() -> None:
    ladder, _, lab = climbed(CROWDED, demand(), noise=0.02)

    assert ladder.knee == 8
    assert "more at once is worse" in ladder.ended
    assert [len(rung.seen) for rung in ladder.rungs] == [1, 1, 1, 3, 2, 0]
    assert ladder.rungs[4].verdict == "lower"
    assert ladder.rungs[5].verdict == "not measured"
    assert ladder.rungs[5].skipped == ladder.ended
    assert any("before it is believed" in ask.note for ask in lab.asked)


def test_the_climb_ends_where_the_slo_breaks_although_more_are_served() -> None:
    slow_tokens = replace(GPU, crowd=4, crowd_s=0.0012)

    ladder, _, _ = climbed(slow_tokens, demand(), "itl_ms_p95=26")

    assert ladder.metric == "goodput_rps"
    assert "the SLO breaks at 16 at once: itl p95 ≤ 26 ms" in ladder.ended
    assert ladder.knee == 8
    assert ladder.rungs[4].seen[0].rps > ladder.rungs[3].seen[0].rps


def test_a_miss_by_little_is_measured_again_and_not_believed_where_it_was_noise() -> None:
    ladder, trial, _ = climbed(GPU, demand(), "p95_s=3.6")
    first = trial.at(Level(25, cap=16))[0]
    limit_s = first.e2e_p95_s or 0.0
    slo = parse_slo(f"p95_s={limit_s * 0.97:.3f}")
    here = Lab(GPU, demand(), slo)

    ladder, _ = here.drive(climb(here.demand, GPU.place, slo))

    assert ladder.knee == 25
    assert ladder.best == 25


def test_a_plateau_has_its_knee_where_it_begins() -> None:
    flat = replace(GPU, decode_s=0.0, crowd=8, crowd_s=0.0014)

    ladder, _, lab = climbed(flat, demand())

    rates = {rung.cap: lab.truth(ladder.setup.knobs, Level(25, rung.cap)) for rung in ladder.rungs}
    assert ladder.knee is not None
    assert ladder.knee < 25
    assert rates[ladder.knee] > 0.95 * max(rates.values())
    assert "within the spread" in ladder.because


@pytest.mark.parametrize("seed", range(6))
def test_noise_does_not_move_the_knee_below_what_it_may_hide(seed: int) -> None:
    ladder, _, lab = climbed(GPU, demand(), noise=0.03, seed=seed)

    best = lab.truth(ladder.setup.knobs, Level(25))
    assert lab.truth(ladder.setup.knobs, Level(25, ladder.knee)) > 0.95 * best


def test_an_engine_that_does_not_start_is_tried_with_less_memory() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        return "" if (knobs.gpu_memory_utilization or 0.9) < 0.6 else "CUDA out of memory"

    ladder, trial, lab = climbed(GPU, demand(), fault=fault)

    assert [(one.name, one.outcome) for one in lab.trials.values()] == [
        ("ladder", "did_not_start"),
        ("ladder-2", "did_not_start"),
        ("ladder-3", "measured"),
    ]
    assert "CUDA out of memory" in lab.trials["ladder-3"].why
    assert trial.name == "ladder-3"
    assert ladder.setup == Setup(Knobs(64, 8192, GRAPH_CEILING, gpu_memory_utilization=0.4))
    assert ladder.knee == 25


def test_an_engine_that_never_starts_leaves_a_ladder_without_a_knee() -> None:
    ladder, _, lab = climbed(CPU, demand(), fault=lambda knobs, level: "no")

    assert (ladder.knee, ladder.best, ladder.because) == (None, None, "nothing was measured")
    assert lab.starts == 2


def test_a_server_that_dies_at_a_rung_leaves_the_rungs_below_it() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        return "engine died" if level is not None and level.cap == 16 else ""

    ladder, trial, lab = climbed(GPU, demand(), fault=fault)

    assert trial.outcome == "failed_under_load"
    assert lab.starts == 1
    assert ladder.knee == 8
    assert "engine died" in ladder.ended


def test_an_unfinished_climb_can_be_read() -> None:
    _, trial, _ = climbed(GPU, demand())
    part = replace(trial, seen=trial.seen[:3], outcome="interrupted")

    ladder = read(part, 25, None)

    assert ladder.knee == 4
    assert [bool(rung.seen) for rung in ladder.rungs] == [True, True, True, False, False, False]
    assert ladder.ended == "the climb was not finished"


def test_one_client_has_one_rung() -> None:
    ladder, _, _ = climbed(CPU, demand((1, 1, 1)))

    assert ladder.knee == 1
    assert len(ladder.rungs) == 1
