"""Searches against a simulated engine: what they find, what it costs them, and what they survive."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dragoman.settings import GRAPH_CEILING
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.extras import Extra
from dragoman_bench.tune.knobs import search
from dragoman_bench.tune.ladder import climb
from dragoman_bench.tune.outcome import Finding
from dragoman_bench.tune.points import Ask, Knobs, Level, Seen, Steps, Trial
from tests.tune.lab import Lab, whole_search
from tests.tune.scenes import SCENES, searched, truth
from tests.tune.simulation import GPU

SLOTS = (8, 16, 32, 64)
TOKENS = (256, 512, 2048, 8192)


@cache
def best_of_the_grid(name: str) -> tuple[bool, float]:
    scene = SCENES[name]
    lab = Lab(scene.model, scene.demand, parse_slo(scene.slo) if scene.slo else None)
    ceiling = GRAPH_CEILING if scene.model.place.device == "cuda" else None
    return max(truth(lab, Knobs(slots, tokens, ceiling)) for slots in SLOTS for tokens in TOKENS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCENES)
def test_it_comes_within_3_percent_of_the_whole_grid_with_a_third_of_its_starts(name: str, seed: int) -> None:
    lab, _, finding = searched(SCENES[name], noise=0.02, seed=seed)

    attained, rate = truth(lab, finding.knobs)
    best_attained, best_rate = best_of_the_grid(name)

    assert attained == best_attained
    assert rate >= 0.97 * best_rate
    assert lab.starts <= len(SLOTS) * len(TOKENS) // 3


@pytest.mark.parametrize("name", SCENES)
def test_every_point_that_a_grid_would_try_is_measured_or_has_its_reason(name: str) -> None:
    lab, _, finding = searched(SCENES[name])

    assert all(reason for reason in lab.skipped.values())
    assert not any(trial.seen for trial in lab.trials.values() if trial.outcome == "skipped")
    assert set(finding.reasons) == set(finding.knobs.settings)
    assert all(finding.reasons.values())
    tokens = {trial.setup.knobs.max_num_batched_tokens for trial in lab.trials.values()}
    assert {256, 512, 1024, 2048, 4096, 8192, 16384, 32768} <= tokens


def test_the_same_answers_give_the_same_questions() -> None:
    one, _, _ = searched(SCENES["a CPU"], noise=0.03, seed=4)
    other, _, _ = searched(SCENES["a CPU"], noise=0.03, seed=4)

    assert one.asked == other.asked
    assert list(one.trials.values()) == list(other.trials.values())


def test_a_lost_trial_is_not_repeated_and_a_winner_is_measured_three_times() -> None:
    lab, ladder, finding = searched(SCENES["long prompts delay tokens"])

    assert finding.knobs.max_num_batched_tokens == 256
    assert len(lab.trials["tokens-256"].at(Level(25))) == 3
    assert len(lab.trials["tokens-512"].at(Level(25))) == 1
    assert "all 25 clients may run at once" in finding.reasons["max_num_seqs"]
    assert ladder.knee is not None
    assert ladder.knee < 25


def test_ties_go_to_fewer_slots_and_to_the_usual_step_size() -> None:
    lab, ladder, finding = searched(SCENES["few clients"], noise=0.01)

    assert ladder.setup.knobs.max_num_seqs == 32
    assert finding.knobs.max_num_seqs == 16
    assert finding.knobs.max_num_batched_tokens == 8192
    assert (
        "no better" in finding.reasons["max_num_batched_tokens"]
        or "usually" in finding.reasons["max_num_batched_tokens"]
    )
    assert finding.best_trial == "slots-16"
    assert lab.trials["slots-16"].outcome == "measured"


def test_fewer_slots_keep_the_graph_ceiling() -> None:
    lab, _, finding = searched(SCENES["more at once is worse"])
    without = replace(finding.knobs, max_cudagraph_capture_size=16)  # vLLM's own for so many slots

    assert finding.knobs.max_num_seqs == 8
    assert finding.knobs.max_cudagraph_capture_size == GRAPH_CEILING
    assert truth(lab, without)[1] < truth(lab, finding.knobs)[1]


def test_a_third_of_the_grid_is_not_even_needed_where_no_step_size_matters() -> None:
    lab, _, _ = searched(SCENES["a GPU that gains to the top"])

    assert lab.starts <= 3
    assert "no step can hold more than" in lab.skipped["tokens-32768"]
    assert "seldom holds more" in lab.skipped["tokens-4096"]


@pytest.mark.parametrize("name", ["a GPU that gains to the top", "a CPU", "long prompts delay tokens"])
def test_points_that_do_not_start_cost_their_start_and_nothing_else(name: str) -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        usual = 8192 if SCENES[name].model is GPU else 2048
        return "" if knobs.max_num_batched_tokens == usual else "ValueError: no such step"

    lab, _, finding = searched(SCENES[name], fault=fault)

    died = [trial for trial in lab.trials.values() if trial.outcome == "did_not_start"]
    assert all(trial.reason == "ValueError: no such step" for trial in died)
    assert died
    assert finding.memory is not None
    assert finding.memory.checked == "held"
    assert not fault(finding.knobs, None)


def test_a_point_that_dies_under_load_is_survived() -> None:
    def fault(knobs: Knobs, level: Level | None) -> str:
        return "CUDA out of memory" if level is not None and knobs.max_num_batched_tokens != 8192 else ""

    lab, _, finding = searched(SCENES["a GPU that gains to the top"], fault=fault)

    assert any(trial.outcome == "failed_under_load" for trial in lab.trials.values())
    assert finding.knobs.max_num_batched_tokens == 8192


def test_an_engine_that_never_starts_ends_the_search_at_once() -> None:
    lab, ladder, finding = searched(SCENES["a CPU"], fault=lambda knobs, level: "no such model")

    assert ladder.knee is None
    assert finding.best_trial is None
    assert lab.starts == 2


def test_a_driver_that_has_no_time_left_gets_what_the_ladder_knows() -> None:
    scene = SCENES["more at once is worse"]
    lab = Lab(scene.model, scene.demand, parse_slo(scene.slo or ""))
    ladder, trial = lab.drive(climb(scene.demand, scene.model.place, lab.slo))

    def refuse(steps: Steps[Finding]) -> Finding:
        try:
            step: Ask | Trial = next(steps)
            while True:
                if isinstance(step, Ask):
                    step = Trial(step.trial, step.phase, step.setup, step.why, "skipped", "no time is left")
                step = steps.send(step)
        except StopIteration as end:
            return end.value

    finding = refuse(search(scene.demand, scene.model.place, lab.slo, ladder, trial))

    assert ladder.knee == 8
    assert finding.knobs.max_num_seqs == 8
    assert "not measured as such: no time is left" in finding.reasons["max_num_seqs"]
    assert finding.memory is not None
    assert finding.memory.checked == "not checked"


def test_extras_are_adopted_where_they_help_and_skipped_where_they_cannot() -> None:
    scene = SCENES["few clients"]

    class Halved(Lab):
        """fp8 makes every step half as long here."""

        def measure(self, knobs: Knobs, level: Level, repeat: int, trial: str = "") -> Seen:
            model = self.model
            if knobs.quantization == "fp8":
                self.model = replace(model, base_s=model.base_s / 2)
            try:
                return super().measure(knobs, level, repeat, trial)
            finally:
                self.model = model

    slo = parse_slo(scene.slo or "")
    lab = Halved(scene.model, scene.demand, slo, 0.01)
    wanted: tuple[Extra, ...] = ("prefix-caching", "priority", "fp8", "data-parallel")

    _, finding = lab.drive(whole_search(scene.demand, scene.model.place, slo, wanted))

    assert finding.knobs.quantization == "fp8"
    assert "check their quality" in finding.reasons["quantization"]
    assert finding.knobs.enable_prefix_caching is None
    assert "second GPU" in lab.skipped["data-parallel"]
    assert lab.trials["priority"].outcome == "measured"
