from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman_bench.bench.results import GpuSample, Measurement, RequestRecord, Results
from dragoman_bench.journey.claims import Finding, best_continuous, judge_all
from dragoman_bench.journey.evidence import At, Evidence
from tests.bench.journeys import at_level, evidence, rates, repeat, results
from tests.bench.making import record

HOLDS, NOT, UNKNOWN = "holds here", "does not hold here", "cannot be told"


def finding(claim: str, found: Evidence) -> Finding:
    return next(finding for finding in judge_all(found) if finding.claim == claim)


def verdict(claim: str, **legs: Results) -> str:
    return finding(claim, evidence(**legs)).verdict


def busy(*repeats: Measurement, flags: dict[str, object] | None = None) -> Results:
    return results(at_level(25, repeats), flags=flags)


def both_levels(alone: Sequence[float], crowded: Sequence[float]) -> Results:
    return results(at_level(1, [repeat(rps=rps) for rps in alone]), at_level(25, [repeat(rps=rps) for rps in crowded]))


@pytest.mark.parametrize(
    ("alone", "crowded", "expected"),
    [([3.3, 3.4], [2.2, 2.3], HOLDS), ([2.2, 2.3], [3.3, 3.4], NOT), ([3.3], [2.2, 2.3], UNKNOWN)],
)
def test_one_worker_falls_with_load(alone: list[float], crowded: list[float], expected: str) -> None:
    assert verdict("falls-with-load", workers_1__variable=both_levels(alone, crowded)) == expected


@pytest.mark.parametrize(
    ("share", "gpu", "expected"),
    [(0.6, None, HOLDS), (0.99, None, NOT), (0.93, None, UNKNOWN), (0.93, 0.2, HOLDS), (0.93, 0.0, NOT)],
)
def test_an_engine_is_idle_by_its_own_count_or_the_gpus(share: float, gpu: float | None, expected: str) -> None:
    numbers: dict[str, Any] = {"engine_busy_share": share, "gpu_share_below_10": gpu}
    assert verdict("idle-engine", workers_1__variable=busy(repeat(**numbers), repeat(**numbers))) == expected


@pytest.mark.parametrize(
    ("two", "one", "expected"),
    [((2.0, 2.01), (2.2, 2.21), HOLDS), ((3.0, 3.1), (2.2, 2.21), NOT), ((2.0, 3.0), (2.2, 2.9), UNKNOWN)],
)
def test_two_workers_are_worse(two: tuple[float, ...], one: tuple[float, ...], expected: str) -> None:
    assert verdict("two-workers", workers_2__variable=rates(*two), workers_1__variable=rates(*one)) == expected


@pytest.mark.parametrize(
    ("static", "expected"), [((5.9, 6.0), HOLDS), ((20.0, 21.0), NOT), ((4.2, 8.0), UNKNOWN), ((5.9,), UNKNOWN)]
)
def test_static_batching_gives_about_2_7_times(static: tuple[float, ...], expected: str) -> None:
    legs = {"static__uniform": rates(*static), "workers_1__uniform": rates(2.2, 2.2)}
    assert verdict("static-batching", **legs) == expected


def test_static_batching_is_judged_on_variable_texts_where_uniform_ones_are_missing() -> None:
    legs = {"static__variable": rates(5.9, 6.0), "workers_1__variable": rates(2.2, 2.2)}
    assert verdict("static-batching", **legs) == HOLDS


def test_what_decides_about_static_batching_is_what_was_measured() -> None:
    told = finding("static-batching", evidence(static__variable=rates(4.2, 8.0), workers_1__variable=rates(2.2, 2.2)))
    assert told.verdict == UNKNOWN
    assert "2.77 (1.91..3.64) times" in told.because


def lengths(short_s: float, long_s: float) -> list[RequestRecord]:
    """A hundred requests: the shorter half and the longer half."""
    return [record(n, e2e_s=short_s if n < 50 else long_s, source_tokens=10 + n, output_tokens=10) for n in range(100)]


@pytest.mark.parametrize(
    ("static", "expected"),
    [
        ([(0.9, 1.0), (0.91, 1.0)], HOLDS),
        ([(0.1, 1.0), (0.11, 1.0)], NOT),
        ([(0.1, 1.0), (0.9, 1.0)], UNKNOWN),
    ],
)
def test_short_requests_wait_for_long_ones(static: list[tuple[float, float]], expected: str) -> None:
    legs = {
        "static__variable": busy(*(repeat(lengths(*pair)) for pair in static)),
        "continuous_64__variable": busy(repeat(lengths(0.3, 1.0)), repeat(lengths(0.31, 1.0))),
    }
    assert verdict("head-of-line", **legs) == expected


def tokens(*rates_s: float | None) -> Results:
    return busy(*(repeat(output_tokens_s=rate) for rate in rates_s))


@pytest.mark.parametrize(
    ("uniform", "expected"), [((900.0, 910.0), HOLDS), ((400.0, 410.0), NOT), ((None, None), UNKNOWN)]
)
def test_uniform_texts_flatter_by_tokens_not_by_requests(uniform: tuple[float | None, ...], expected: str) -> None:
    legs = {"continuous_64__uniform": tokens(*uniform), "continuous_64__variable": tokens(500.0, 505.0)}
    assert verdict("uniform-flatters", **legs) == expected


@pytest.mark.parametrize(("claim", "leg"), [("fewer-slots", "continuous_64"), ("thirty-two", "continuous_32")])
@pytest.mark.parametrize(
    ("many", "expected"), [((3.5, 3.6), HOLDS), ((40.0, 41.0), NOT), ((28.0, 28.1), NOT), ((20.0, 36.0), UNKNOWN)]
)
def test_fewer_slots_are_better(claim: str, leg: str, many: tuple[float, ...], expected: str) -> None:
    legs = {f"{leg}__variable": rates(*many), "continuous_16__variable": rates(28.0, 28.2)}
    assert verdict(claim, **legs) == expected


def paced(*seconds_a_token: float) -> Results:
    """Five clients whose requests took so long for each of their ten tokens."""
    return results(at_level(5, [repeat([record(e2e_s=10 * pace, output_tokens=10)]) for pace in seconds_a_token]))


@pytest.mark.parametrize(
    ("many", "expected"),
    [((0.02, 0.021), HOLDS), ((0.005, 0.0051), NOT), ((0.01, 0.01), NOT), ((0.001, 0.03), UNKNOWN)],
)
def test_idle_slots_cost_time_for_each_token(many: tuple[float, ...], expected: str) -> None:
    legs = {"continuous_256__variable": paced(*many), "continuous_8__variable": paced(0.01, 0.0101)}
    assert verdict("idle-slots", **legs) == expected


def test_idle_slots_tell_the_gpu_memory_that_both_took() -> None:
    sample = GpuSample(0.0, 0, 90.0, 2048.0)
    many = results(at_level(5, [with_gpu(repeat(), sample), with_gpu(repeat(), sample)]))
    told = finding("idle-slots", evidence(continuous_256__variable=many))
    assert "GPU memory 2.00 GiB" in told.because


def with_gpu(measurement: Measurement, *samples: GpuSample) -> Measurement:
    return replace(measurement, gpu=samples)


@pytest.mark.parametrize(("best", "expected"), [((12.0, 12.1), HOLDS), ((4.0, 4.1), NOT), ((9.0, 11.0), UNKNOWN)])
def test_in_all_means_at_least_as_many_times_as_the_story(best: tuple[float, ...], expected: str) -> None:
    legs = {
        "workers_1__variable": rates(2.0, 2.01),
        "continuous_64__variable": rates(1.0, 1.0),
        "continuous_16__variable": rates(*best),
    }
    assert verdict("in-all", **legs) == expected


@pytest.mark.parametrize(
    ("gpu", "share", "expected"),
    [(95.0, 0.0, HOLDS), (60.0, 0.0, NOT), (95.0, 0.3, NOT), (None, None, HOLDS)],
)
def test_steady_is_judged_on_the_gpu_where_there_is_one(gpu: float | None, share: float | None, expected: str) -> None:
    numbers: dict[str, Any] = {"gpu_mean_percent": gpu, "gpu_share_below_10": share, "engine_busy_share": 0.99}
    assert verdict("steady", continuous_64__variable=busy(repeat(**numbers), repeat(**numbers))) == expected


def test_steady_needs_repeats_and_all_of_them() -> None:
    one, other = repeat(engine_busy_share=0.99), repeat(engine_busy_share=0.5)
    assert verdict("steady", continuous_64__variable=busy(one)) == UNKNOWN
    assert verdict("steady", continuous_64__variable=busy(one, other)) == UNKNOWN
    assert verdict("steady", continuous_64__variable=busy(other, other)) == NOT


@pytest.mark.parametrize(("graphs", "expected"), [((50.0, 51.0), HOLDS), ((40.0, 40.1), NOT), ((20.0, 60.0), UNKNOWN)])
def test_the_graph_ceiling_and_not_the_slots(graphs: tuple[float, ...], expected: str) -> None:
    legs = {"graphs_32__variable": rates(*graphs), "continuous_32__variable": rates(40.0, 40.1)}
    assert verdict("graph-ceiling", **legs) == expected


def rated(*rps: float, preemptions: int = 0, **flags: object) -> Results:
    told = {name.replace("_", "-"): value for name, value in flags.items()}
    return busy(*(repeat(rps=value, preemptions=preemptions) for value in rps), flags=told)


@pytest.mark.parametrize(
    ("narrow", "expected"), [((20.0, 20.1), HOLDS), ((10.0, 10.1), NOT), ((14.9, 15.0), NOT), ((10.0, 20.0), UNKNOWN)]
)
def test_fewer_batched_tokens_are_better(narrow: tuple[float, ...], expected: str) -> None:
    wide = rated(15.0, 15.1, max_num_batched_tokens=16384)
    own = evidence(tokens_8192__variable=rated(*narrow, max_num_batched_tokens=8192), tokens_16384__variable=wide)
    assert finding("batched-tokens", own).verdict == expected
    of_the_default = evidence(
        continuous_64__variable=rated(*narrow, max_num_batched_tokens=8192), tokens_16384__variable=wide
    )
    assert finding("batched-tokens", of_the_default).verdict == expected


def test_a_default_of_other_batched_tokens_does_not_stand_for_8192() -> None:
    legs = {
        "continuous_64__variable": rated(20.0, 20.1, max_num_batched_tokens=2048),
        "tokens_16384__variable": rated(15.0, 15.1, max_num_batched_tokens=16384),
    }
    assert verdict("batched-tokens", **legs) == UNKNOWN


@pytest.mark.parametrize(
    ("small", "preemptions", "expected"),
    [((15.0, 15.1), 0, HOLDS), ((15.0, 15.1), 3, NOT), ((10.0, 10.1), 0, NOT), ((10.0, 20.0), 0, UNKNOWN)],
)
def test_little_memory_suffices(small: tuple[float, ...], preemptions: int, expected: str) -> None:
    roomy = rated(15.0, 15.1)
    on_gpu = evidence(
        **{"memory_0.3__variable": rated(*small, preemptions=preemptions), "continuous_64__variable": roomy}
    )
    assert finding("memory", on_gpu).verdict == expected
    on_cpu = evidence(continuous_64__variable=rated(*small, preemptions=preemptions), memory_roomy__variable=roomy)
    assert finding("memory", on_cpu).verdict == expected


@pytest.mark.parametrize("slots", [64, 256])
@pytest.mark.parametrize(
    ("ours", "expected"), [((54.0, 54.1), HOLDS), ((53.9, 54.0), HOLDS), ((40.0, 40.1), NOT), ((30.0, 70.0), UNKNOWN)]
)
def test_dragoman_costs_nothing_beside_vllm_serve(slots: int, ours: tuple[float, ...], expected: str) -> None:
    legs = {f"continuous_{slots}__variable": rates(*ours), f"vllm_{slots}__variable": rates(53.9, 54.1)}
    assert verdict("no-tax", **legs) == expected


def test_the_best_continuous_step_is_one_with_repeats() -> None:
    found = evidence(
        continuous_8__variable=rates(5.0, 5.1),
        continuous_16__variable=rates(9.0),
        continuous_64__variable=rates(7.0, 7.1),
        continuous_64__uniform=rates(15.0, 15.1),
    )
    assert best_continuous(found) == At("continuous-64.variable", 25)


def test_nothing_measured_proves_nothing() -> None:
    findings = judge_all(evidence())
    assert {finding.verdict for finding in findings} == {UNKNOWN}
    assert all(finding.rule and finding.because for finding in findings)
    assert len({finding.claim for finding in findings}) == len(findings)
