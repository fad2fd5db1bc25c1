"""Memory in searches against a simulated engine: sized, checked, and found larger where that did not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.tune.knobs import search
from dragoman_bench.tune.ladder import check_level, climb
from dragoman_bench.tune.points import Knobs, Level
from tests.tune.lab import Lab, demand, whole_search
from tests.tune.scenes import QUICK_CPU, SCENES, Scene, searched
from tests.tune.simulation import CPU, GPU


@pytest.mark.parametrize("name", SCENES)
def test_what_it_finds_holds_more_than_the_peak_without_preemption(name: str) -> None:
    lab, _, finding = searched(SCENES[name])

    checked = lab.measure(finding.knobs, check_level(lab.demand), 7)

    assert finding.memory is not None
    assert finding.memory.checked == "held"
    assert checked.preemptions == 0
    assert checked.failed == 0


def test_a_size_for_the_usual_texts_would_preempt_long_ones_and_the_search_finds_one_that_does_not() -> None:
    scene = SCENES["a few very long texts"]
    _, _, usual = searched(replace(scene, demand=demand()))
    lab, _, finding = searched(scene)

    level = check_level(scene.demand)
    assert (lab.measure(usual.knobs, level, 0).preemptions or 0) > 0
    assert lab.measure(finding.knobs, level, 0).preemptions == 0
    assert (finding.knobs.gpu_memory_utilization or 1) > (usual.knobs.gpu_memory_utilization or 1)


def test_a_size_that_does_not_hold_is_on_record_and_a_larger_one_is_found() -> None:
    real = demand(lengths=(200, 600))
    told = replace(real, outputs=tuple(max(1, output // 8) for output in real.outputs))
    lab = Lab(replace(QUICK_CPU, default_cache_bytes=6 << 30), real, None)
    ladder, trial = lab.drive(climb(told, CPU.place, None))
    blind = replace(trial, seen=tuple(replace(one, peak_kv_cache_usage=None) for one in trial.seen))

    finding = lab.drive(search(told, CPU.place, None, ladder, blind))

    failed = [one for one in lab.trials.values() if one.outcome == "failed_under_load"]
    assert failed
    assert all("preemptions" in one.reason and "full" in one.reason for one in failed)
    assert finding.memory is not None
    assert finding.memory.checked == "held"
    assert len(finding.memory.trials) >= 2
    assert lab.measure(finding.knobs, check_level(real), 5).preemptions == 0


def test_what_the_ladder_saw_of_the_cache_corrects_lengths_that_were_told_wrong() -> None:
    real = demand()
    told = replace(real, outputs=tuple(max(1, output // 6) for output in real.outputs))
    lab = Lab(CPU, real, None)

    _, finding = lab.drive(whole_search(told, CPU.place, None))

    assert not [one for one in lab.trials.values() if one.outcome == "failed_under_load"]
    assert finding.memory is not None
    assert finding.memory.checked == "held"


def test_where_no_memory_is_enough_there_are_fewer_slots() -> None:
    small = replace(GPU, place=replace(GPU.place, memory_bytes=14 << 30), window=1024)
    lab, _, finding = searched(Scene(small, demand((2, 25, 60), lengths=(100, 400)), None))

    assert finding.knobs.max_num_seqs is not None
    assert finding.knobs.max_num_seqs < 60
    assert lab.measure(finding.knobs, check_level(lab.demand), 3).preemptions == 0


def test_too_little_memory_at_the_start_is_tried_again_with_more() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        return "CUDA out of memory" if level is None and 0 < (knobs.gpu_memory_utilization or 0) < 0.085 else ""

    lab, _, finding = searched(SCENES["few clients"], fault=fault)

    assert lab.trials["slots-16"].outcome == "did_not_start"
    assert lab.trials["slots-16-more-memory"].outcome == "measured"
    assert finding.knobs.max_num_seqs == 16
    assert (finding.knobs.gpu_memory_utilization or 0.9) >= 0.085
    assert finding.memory is not None
    assert finding.memory.checked == "held"


def test_a_server_that_dies_in_the_check_gets_more_memory() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        small = knobs.gpu_memory_utilization is not None and knobs.gpu_memory_utilization < 0.1
        return "CUDA out of memory" if level is not None and level.draw == "long" and small else ""

    lab, _, finding = searched(SCENES["few clients"], fault=fault)

    assert finding.memory is not None
    assert finding.memory.checked == "held"
    assert "CUDA out of memory" in lab.trials[finding.memory.trials[0]].reason
    assert not fault(finding.knobs, check_level(lab.demand))


def test_memory_that_never_holds_is_said_and_the_servers_own_is_kept() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        return "engine died" if level is not None and level.draw == "long" else ""

    _, ladder, finding = searched(SCENES["few clients"], fault=fault)

    assert finding.memory is not None
    assert finding.memory.checked == "did not hold"
    assert finding.knobs.gpu_memory_utilization == ladder.setup.knobs.gpu_memory_utilization
    assert finding.best_trial is not None
