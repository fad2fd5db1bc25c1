from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman.settings import GRAPH_CEILING
from dragoman_bench.journey.estimate import STOP_S, UNKNOWN_START_S, Estimate, told
from dragoman_bench.journey.measure import rounds
from dragoman_bench.journey.route import BUSY, GPU_LEVELS, INTERVAL, QUICK_PACE, Terms, only, plan_route, plan_versus
from dragoman_bench.journey.steps import Leg, Level, Pace, Step

ON_GPU = Terms(gpu=True, high_levels=True)
ON_CPU = Terms(gpu=False)
QUICK = Terms(gpu=False, quick=True, repeats=2)


def step_of(terms: Terms, name: str) -> Step:
    return next(step for step in plan_route(terms) if step.name == name)


def clients_of(step: Step) -> set[int]:
    return {level.clients for leg in step.legs for level in leg.levels}


def test_the_route_goes_through_the_story_in_its_order() -> None:
    names = [step.name for step in plan_route(ON_GPU)]
    told = ["workers-1", "workers-2", "static", "continuous-64", "continuous-16", "continuous-256", "vllm-256"]
    assert [name for name in names if name in told] == told
    assert len(set(names)) == len(names)


def test_uniform_texts_come_before_variable_ones_as_they_did() -> None:
    assert [leg.workload for leg in step_of(ON_GPU, "continuous-64").legs] == ["uniform", "variable"]


def test_every_step_is_measured_with_repeats_where_claims_look() -> None:
    for terms in (ON_GPU, ON_CPU, QUICK):
        for step in plan_route(terms):
            for leg in step.legs:
                assert Level(BUSY, terms.repeats) in leg.levels, step.name


def test_high_levels_are_for_servers_that_batch_and_only_where_asked_for() -> None:
    assert set(GPU_LEVELS) <= clients_of(step_of(ON_GPU, "continuous-256"))
    assert not set(GPU_LEVELS) & clients_of(step_of(ON_GPU, "workers-1"))
    assert not any(set(GPU_LEVELS) & clients_of(step) for step in plan_route(ON_CPU))


def test_graph_ceilings_are_for_gpus_and_memory_is_turned_by_what_the_device_has() -> None:
    assert step_of(ON_GPU, "graphs-16").flags["max-cudagraph-capture-size"] == 512
    assert step_of(ON_GPU, "graphs-32").flags["max-cudagraph-capture-size"] == 1024
    assert step_of(ON_GPU, "memory-0.3").flags["gpu-memory-utilization"] == 0.3
    on_cpu = {step.name for step in plan_route(ON_CPU)}
    assert "memory-roomy" in on_cpu
    assert not on_cpu & {"graphs-16", "graphs-32", "memory-0.3"}
    assert not any("gpu-memory-utilization" in step.flags for step in plan_route(ON_CPU))


def test_what_a_knobs_step_compares_with_is_measured_once() -> None:
    assert step_of(ON_GPU, "continuous-64").flags["max-num-batched-tokens"] == 8192
    assert "tokens-8192" not in {step.name for step in plan_route(ON_GPU)}
    assert step_of(ON_CPU, "tokens-8192").flags["max-num-batched-tokens"] == 8192


def test_a_knobs_step_differs_from_its_base_in_that_knob_alone() -> None:
    base, changed = step_of(ON_GPU, "continuous-64").flags, step_of(ON_GPU, "tokens-16384").flags
    assert {name for name in changed if changed[name] != base.get(name)} == {"max-num-batched-tokens"}


def test_vllm_serve_has_our_settings_and_once_its_own_defaults() -> None:
    ours, theirs = step_of(ON_GPU, "continuous-256").flags, step_of(ON_GPU, "vllm-256").flags
    assert theirs == {name: value for name, value in ours.items() if name not in ("pipeline", INTERVAL)}
    assert step_of(ON_GPU, "vllm-defaults").flags == {}
    assert not step_of(ON_GPU, "vllm-defaults").shaped


def test_vllm_serve_can_be_left_out() -> None:
    assert not any(step.kind == "vllm" for step in plan_route(Terms(gpu=True, vllm_serve=False)))


def test_steps_can_be_chosen_and_a_wrong_name_is_told_with_the_right_ones() -> None:
    steps = plan_route(QUICK)
    assert [step.name for step in only(steps, ["static", "workers-1"])] == ["workers-1", "static"]
    assert only(steps, []) == steps
    with pytest.raises(ConfigError, match="no step 'statics'; there are workers-1"):
        only(steps, ["statics"])


def test_a_quick_journey_fits_into_ten_minutes_of_two_slow_cores() -> None:
    steps = plan_route(QUICK)
    estimate = Estimate(QUICK_PACE, [(step, step.legs) for step in steps])
    assert estimate.left_s < 600
    assert len(steps) <= 6


def test_the_time_left_follows_the_starts_that_were_seen() -> None:
    pace = Pace(duration_s=8, warmup_s=1)
    one, two = step_of(QUICK, "workers-1"), step_of(QUICK, "workers-2")
    estimate = Estimate(pace, [(one, one.legs), (two, two.legs)])
    measuring = sum(pace.leg_s(leg) for step in (one, two) for leg in step.legs)
    assert estimate.left_s == pytest.approx(2 * (UNKNOWN_START_S + STOP_S) + measuring)
    estimate.started(one, 20.0)
    assert estimate.left_s == pytest.approx(2 * (20.0 + STOP_S) + measuring)
    estimate.started(two, 50.0)  # two engines are another sort of start
    assert estimate.start_s(one) == 20.0
    assert estimate.start_s(two) == 50.0
    estimate.finished(one)
    assert estimate.left_s == pytest.approx(50.0 + STOP_S + sum(pace.leg_s(leg) for leg in two.legs))


def test_seconds_are_told_as_people_tell_them() -> None:
    assert told(44) == "about 40 s"
    assert told(400) == "about 7 min"


def test_repeats_go_round_the_levels() -> None:
    leg = Leg("variable", (Level(1), Level(25, 3)))
    assert [(repeat, level.clients) for repeat, level in rounds(leg.levels)] == [(0, 1), (0, 25), (1, 25), (2, 25)]
    assert leg.measurements == 4


def test_a_comparison_has_the_same_settings_within_one_gpu_and_three_times_at_least() -> None:
    ours, theirs = plan_versus(Terms(gpu=True, quick=True, repeats=2))
    assert (ours.kind, theirs.kind) == ("dragoman", "vllm")
    assert {**theirs.flags, "pipeline": "continuous"} == ours.flags
    assert float(ours.flags["gpu-memory-utilization"]) * 2 < 1
    assert ours.legs == theirs.legs
    assert ours.legs[0].levels == (Level(BUSY, 3),)


def test_engine_flags_of_a_comparison_reach_both_servers() -> None:
    both = {"max-num-batched-tokens": 512, "max-cudagraph-capture-size": 1024}
    ours, theirs = plan_versus(Terms(gpu=True, high_levels=True), (128, 256), both)
    assert both.items() <= ours.flags.items()
    assert both.items() <= theirs.flags.items()
    assert ours.legs == theirs.legs
    assert ours.legs[0].levels == (Level(128, 3), Level(256, 3))


def test_the_storys_steps_are_plain_and_one_is_dragoman_as_it_serves() -> None:
    plain = step_of(ON_GPU, "continuous-16").flags
    assert (plain["max-cudagraph-capture-size"], plain[INTERVAL]) == (32, 1)
    served, large = step_of(ON_GPU, "defaults"), step_of(ON_GPU, "continuous-256").flags
    assert {name for name in large if name not in served.flags} == {"max-cudagraph-capture-size", INTERVAL}
    assert served.flags.items() <= large.items()
    assert set(GPU_LEVELS) <= clients_of(served)
    assert "defaults" not in {step.name for step in plan_route(ON_CPU)}
    assert INTERVAL not in step_of(ON_CPU, "continuous-64").flags


def test_in_a_comparison_dragoman_feeds_its_engine_as_it_does_and_both_have_its_graph_ceiling() -> None:
    ours, theirs = plan_versus(Terms(gpu=True))
    assert INTERVAL not in ours.flags
    assert ours.flags["max-cudagraph-capture-size"] == theirs.flags["max-cudagraph-capture-size"] == GRAPH_CEILING
    assert "max-cudagraph-capture-size" not in plan_versus(ON_CPU)[1].flags
