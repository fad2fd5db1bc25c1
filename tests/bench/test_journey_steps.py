"""The route: which servers are started with which settings, and which loads each gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.journey.steps import (
    BUSY,
    CEILING,
    GPU_LEVELS,
    MODE,
    WHOLE_STEPS,
    Leg,
    Step,
    Subject,
    command_of,
    only,
    plan_route,
    plan_versus,
    target_of,
)

ON_GPU = plan_route(gpu=True)
ON_CPU = plan_route(gpu=False)
QUICK = plan_route(gpu=False, quick=True, repeats=2)
SUBJECT = Subject(
    path="/models/small",
    name="small",
    dragoman={"model": "/models/small", "max-model-len": 1024},
    vllm={"load-format": "auto"},
    limits={"max-model-len": 1024},
    asked=TargetOptions("openai-completions", user="<{source}>{text}"),
    lengths={"variable": (10, 20)},
)


def step_of(route: tuple[Step, ...], name: str) -> Step:
    return next(step for step in route if step.name == name)


def clients_of(step: Step) -> set[int]:
    return {clients for leg in step.legs for clients in leg.clients}


def test_steps_are_in_the_storys_order() -> None:
    assert [step.name for step in ON_GPU] == [
        "workers-1", "workers-2", "static", "continuous-64", "continuous-8", "continuous-16", "continuous-32",
        "continuous-256", "graphs-16", "graphs-32", "defaults", "tokens-16384", "memory-0.3", "vllm-defaults", "vllm-256",
    ]  # fmt: skip
    assert [step.name for step in ON_CPU][-3:] == ["continuous-256", "vllm-defaults", "vllm-64"]
    assert [step.name for step in QUICK] == [
        "workers-1", "workers-2", "static", "continuous-64", "continuous-16", "vllm-64",
    ]  # fmt: skip
    assert [leg.workload for leg in step_of(ON_GPU, "continuous-64").legs] == ["uniform", "variable"]


def test_every_leg_has_repeats_at_the_storys_load() -> None:
    for route, repeats in ((ON_GPU, 3), (ON_CPU, 3), (QUICK, 2)):
        for step in route:
            assert all(BUSY in leg.clients and leg.repeats == repeats for leg in step.legs), step.name


def test_high_levels_are_for_servers_that_batch_on_a_gpu() -> None:
    assert set(GPU_LEVELS) <= clients_of(step_of(ON_GPU, "continuous-256"))
    assert not set(GPU_LEVELS) & clients_of(step_of(ON_GPU, "workers-1"))
    assert not any(set(GPU_LEVELS) & clients_of(step) for step in ON_CPU)


@pytest.mark.parametrize(
    ("name", "base", "changed"),
    [
        ("tokens-16384", "continuous-64", {"max-num-batched-tokens": 16384}),
        ("memory-0.3", "continuous-64", {"gpu-memory-utilization": 0.3}),
        ("graphs-32", "continuous-32", {CEILING: 1024}),
    ],
)
def test_a_changed_setting_is_the_only_difference(name: str, base: str, changed: dict[str, object]) -> None:
    found, before = step_of(ON_GPU, name).flags, step_of(ON_GPU, base).flags
    assert {flag: value for flag, value in found.items() if value != before.get(flag)} == changed


def test_the_storys_steps_have_vllms_own_graph_limit_and_defaults_have_dragomans() -> None:
    small, large, defaults = (step_of(ON_GPU, name).flags for name in ("continuous-16", "continuous-256", "defaults"))
    assert (small[CEILING], small[MODE], large[CEILING]) == (32, "FULL_AND_PIECEWISE", 512)
    assert set(large) - set(defaults) == {CEILING, MODE}
    assert MODE not in step_of(ON_CPU, "continuous-64").flags
    assert step_of(ON_GPU, "static").flags["pipeline"] == "static_batch"


def test_vllm_serve_has_our_settings_and_once_its_own_defaults() -> None:
    ours, theirs = step_of(ON_GPU, "continuous-256").flags, step_of(ON_GPU, "vllm-256").flags
    assert theirs == {name: value for name, value in ours.items() if name not in ("pipeline", MODE)}
    assert step_of(ON_GPU, "vllm-defaults").flags == {}
    assert not step_of(ON_GPU, "vllm-defaults").shaped


def test_a_comparison_has_the_same_settings_for_both_within_one_gpu() -> None:
    leg = Leg("variable", (128, 256), 3, ("streamed",))
    ours, theirs = plan_versus(True, leg)
    assert theirs.flags == {name: value for name, value in {**ours.flags, **WHOLE_STEPS}.items() if name != "pipeline"}
    assert (ours.flags[CEILING], ours.flags["gpu-memory-utilization"]) == (1024, 0.4)
    assert ours.legs == theirs.legs == (leg,)
    assert CEILING not in plan_versus(False, leg)[1].flags


@pytest.mark.parametrize("gpu", [True, False])
def test_a_comparison_of_defaults_sets_memory_alone(gpu: bool) -> None:
    ours, theirs = plan_versus(gpu, Leg("variable", (25,), 3), defaults=True)
    assert set(ours.flags) == ({"gpu-memory-utilization"} if gpu else set())
    assert set(theirs.flags) == ({"gpu-memory-utilization"} if gpu else {"kv-cache-memory-bytes"})
    for step in (ours, theirs):
        assert "--max-model-len" not in command_of(step, SUBJECT, Path("engine.log")).argv


def test_servers_get_the_model_its_limits_and_the_steps_flags() -> None:
    ours, theirs = step_of(QUICK, "continuous-16"), step_of(QUICK, "vllm-64")
    words = " ".join(command_of(ours, SUBJECT, Path("engine.log")).argv)
    assert "--model /models/small --max-model-len 1024 --max-num-batched-tokens 2048" in words
    words = " ".join(command_of(theirs, SUBJECT, Path("engine.log")).argv)
    assert "serve /models/small" in words and "--load-format auto --max-model-len 1024" in words
    assert (target_of(ours, SUBJECT), target_of(theirs, SUBJECT)) == (TargetOptions(), SUBJECT.asked)


def test_steps_are_chosen_by_name() -> None:
    assert [step.name for step in only(QUICK, ["static", "workers-1"])] == ["workers-1", "static"]
    assert only(QUICK, []) == QUICK
    with pytest.raises(ConfigError) as error:
        only(QUICK, ["statics"])
    assert error.value.param == "only"
