"""Percentiles, rates, SLO verdicts, goodput and spreads from records."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import GpuSample, Observed, RequestRecord, ServerSample, Stopped, Summary, Verdict
from dragoman_bench.bench.summary import (
    Limit,
    Slo,
    bucket_counts,
    bucket_values,
    compare,
    distribution,
    engine_busy_share,
    parse_slo,
    percentiles,
    spread_of,
    summarise,
)
from tests.bench.making import record


def _summarise(records: list[RequestRecord], window_s: float, stopped: Stopped = "finished", **other: Any) -> Summary:
    slo: Slo | None = other.pop("slo", None)
    observed = Observed(tuple(records), window_s, stopped, **other)
    return summarise(observed, slo)


def test_rates_count_what_completed_inside_the_window() -> None:
    records = [
        record(0, intended_s=0, e2e_s=1, output_tokens=10),
        record(1, intended_s=2, e2e_s=1, output_tokens=20),
        record(2, intended_s=3.5, e2e_s=1, output_tokens=40),  # ends after the window
        record(3, intended_s=1, e2e_s=0.1, error="refused"),
    ]

    summary = _summarise(records, window_s=4.0)

    assert summary.requests == 4
    assert summary.completed == 3
    assert summary.rps == 2 / 4
    assert summary.output_tokens_s == 30 / 4
    assert summary.errors == {"refused": 1}


def test_latencies_are_over_all_completed_requests_from_their_intended_time() -> None:
    records = [record(0, e2e_s=1), record(1, e2e_s=3, sent_s=2.5), record(2, e2e_s=9, error="timeout")]

    summary = _summarise(records, window_s=2.0)

    assert summary.e2e is not None
    assert (summary.e2e.count, summary.e2e.mean_s, summary.e2e.max_s) == (2, 2.0, 3.0)


def test_token_rates_are_unknown_where_any_answer_reports_none() -> None:
    assert _summarise([record(output_tokens=4), record(output_tokens=None)], 2.0).output_tokens_s is None


def test_streamed_latencies() -> None:
    records = [record(0, intended_s=1, e2e_s=1, first_token_s=1.2, output_tokens=5), record(1)]
    gaps = bucket_counts([0.2, 0.2, 0.2, 0.2])

    summary = _summarise(records, 3.0, itl_histogram=gaps)

    assert summary.ttft is not None and summary.ttft.p50_s == pytest.approx(0.2)
    assert summary.tpot is not None and summary.tpot.p50_s == pytest.approx(0.8 / 4)
    assert summary.itl is not None and summary.itl.p95_s == pytest.approx(0.2, rel=0.01)


def test_goodput_counts_attaining_requests_in_the_window() -> None:
    records = [record(n, e2e_s=seconds) for n, seconds in enumerate([0.5, 1.0, 2.0, 2.5])]
    records.append(record(9, e2e_s=0.1, error="server_error"))

    summary = _summarise(records, window_s=10.0, slo=parse_slo("e2e_s=2"))

    assert summary.goodput_rps == 3 / 10
    assert summary.attained_share == 3 / 5


def test_failures_are_later_than_any_limit() -> None:
    passing = [record(n, e2e_s=1) for n in range(95)]
    failing = [record(100 + n, e2e_s=0.01, error="refused") for n in range(6)]
    slo = parse_slo("p95_s=2")

    assert _summarise([*passing, *failing[:5]], 10.0, slo=slo).slo_met
    summary = _summarise([*passing, *failing], 10.0, slo=slo)
    assert not summary.slo_met
    assert summary.verdicts == (Verdict("e2e p95 ≤ 2 s", None, False),)


def test_a_verdict_has_what_was_measured() -> None:
    records = [record(n, e2e_s=(n + 1) / 10) for n in range(20)]

    summary = _summarise(records, 10.0, slo=parse_slo("p95_s=1.8,p50_s=1"))

    assert summary.verdicts == (Verdict("e2e p95 ≤ 1.8 s", 1.9, False), Verdict("e2e p50 ≤ 1 s", 1.0, True))
    assert summary.slo_met is False


def test_a_per_request_limit_is_met_by_nine_in_ten() -> None:
    slo = parse_slo("e2e_s=2")
    fast, slow = [record(n, e2e_s=1) for n in range(9)], [record(9, e2e_s=5), record(10, e2e_s=5)]

    assert _summarise([*fast, slow[0]], 10.0, slo=slo).slo_met
    assert not _summarise([*fast, *slow], 10.0, slo=slo).slo_met


def test_inter_token_percentiles_are_over_gaps_but_failures_still_count() -> None:
    slo = parse_slo("itl_ms_p95=40")
    streamed = [record(n, first_token_s=0.1, itl_count=9, itl_mean_s=0.01) for n in range(19)]
    gaps = bucket_counts([0.01] * 97 + [0.5] * 3)

    assert _summarise(streamed, 10.0, itl_histogram=gaps, slo=slo).slo_met
    failed = [record(n, error="disconnect") for n in range(2)]
    assert not _summarise([*streamed, *failed], 10.0, itl_histogram=gaps, slo=slo).slo_met


def test_what_an_interrupt_cut_off_is_not_judged() -> None:
    records = [record(0, e2e_s=1), record(1, e2e_s=1, error="unfinished")]

    assert _summarise(records, 4.0, "interrupted", slo=parse_slo("e2e_s=2")).attained_share == 1.0


def test_without_an_slo_nothing_is_judged() -> None:
    summary = _summarise([record()], 4.0)

    assert (summary.goodput_rps, summary.attained_share, summary.slo_met) == (None, None, None)


def test_the_engine_s_own_busy_time_is_preferred() -> None:
    samples = [ServerSample(0.0, running=0, busy_s=7.0), ServerSample(4.0, running=0, busy_s=10.0)]

    assert engine_busy_share(samples) == 0.75


def test_without_busy_time_running_samples_are_counted() -> None:
    assert engine_busy_share([ServerSample(t, running=n) for t, n in [(0, 0), (1, 2), (2, 1), (3, 0)]]) == 0.5


def test_a_busy_counter_that_decreased_means_a_restart() -> None:
    assert engine_busy_share([ServerSample(0.0, busy_s=7.0), ServerSample(4.0, busy_s=1.0)]) is None


def test_decode_time_per_token_is_of_the_measurement_alone() -> None:
    samples = [
        ServerSample(-0.5, itl_sum_s=0.0, itl_count=0),
        ServerSample(0.1, itl_sum_s=9.0, itl_count=300),
        ServerSample(1.0),
        ServerSample(2.0, itl_sum_s=11.0, itl_count=800),
        ServerSample(9.0, itl_sum_s=99.0, itl_count=801),
    ]
    assert _summarise([record()], 2.0, server=samples).decode_s_per_token == 2.0 / 500


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [ServerSample(0.0), ServerSample(1.0)],
        [ServerSample(0.0, itl_sum_s=1.0, itl_count=5), ServerSample(1.0, itl_sum_s=1.0, itl_count=5)],
        [ServerSample(0.0, itl_sum_s=9.0, itl_count=500), ServerSample(1.0, itl_sum_s=1.0, itl_count=50)],
    ],
    ids=["none", "not reported", "no token", "restarted"],
)
def test_decode_time_is_unknown_where_no_token_was_counted(samples: list[ServerSample]) -> None:
    assert _summarise([record()], 2.0, server=samples).decode_s_per_token is None


def test_nothing_sampled_is_unknown_not_idle() -> None:
    assert engine_busy_share([]) is None
    summary = _summarise([record()], 4.0)
    assert (summary.mean_running, summary.mean_waiting, summary.preemptions) == (None, None, None)
    assert (summary.gpu_mean_percent, summary.gpu_share_below_10) == (None, None)


def test_server_and_gpu_samples_inside_the_window_count() -> None:
    server = [
        ServerSample(-0.1, running=99, waiting=99, preemptions=0),
        ServerSample(0.5, running=2, waiting=1, kv_cache_usage=0.25, preemptions=3),
        ServerSample(1.5, running=4, waiting=5, kv_cache_usage=0.75, preemptions=7),
        ServerSample(9.0, running=99, waiting=99, preemptions=99),
    ]
    gpu = [GpuSample(t, 0, used, 1000) for t, used in [(-0.1, 100), (0, 5), (1, 50), (1.5, 90), (2, 95), (9, 0)]]

    summary = _summarise([record()], 2.0, server=server, gpu=gpu)

    assert (summary.mean_running, summary.mean_waiting) == (3.0, 3.0)
    assert (summary.peak_kv_cache_usage, summary.preemptions) == (0.75, 4)
    assert summary.gpu_mean_percent == 60.0
    assert summary.gpu_share_below_10 == 0.25


def test_a_run_in_which_nothing_completed_has_rates_of_zero_and_no_latencies() -> None:
    summary = _summarise([record(error="connect")], 0.0, slo=parse_slo("p95_s=2"))

    assert (summary.rps, summary.goodput_rps, summary.output_tokens_s, summary.e2e) == (0.0, 0.0, None, None)
    assert summary.slo_met is False


def test_percentile_limits_are_read_in_either_order_and_unit() -> None:
    slo = parse_slo("p95_s=2, ttft_ms_p95=300,itl_ms_p99=40")

    assert slo.limits == (Limit("e2e", 2.0, 95), Limit("ttft", 0.3, 95), Limit("itl", 0.04, 99))


def test_a_limit_without_percentile_is_for_each_request() -> None:
    assert parse_slo("e2e_s=2").limits == (Limit("e2e", 2.0, None),)


@pytest.mark.parametrize(
    "text",
    [
        "fast",
        "p95_s",
        "s=2",
        "p0_s=2",
        "p101_s=2",
        "p95_s=-1",
        "p95_s=inf",
        "p95_s=nan",
        "p95_s=soon",
        "p9.5.5_s=1",
        "p95_s_p99=2",
        "latency_s=2",
    ],
)
def test_a_term_that_cannot_be_read_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=f"SLO term '{text}'") as error:
        parse_slo(f"p50_s=1,{text}")
    assert error.value.param == "slo"


@pytest.mark.parametrize("text", ["", "p95_s=1,e2e_ms_p95=5"])
def test_an_slo_without_limits_or_with_one_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_slo(text)


def test_goodput_holds_requests_to_the_per_request_limits_alone_where_there_are_any() -> None:
    slo = parse_slo("p95_s=0.5,e2e_s=2")

    assert slo.attained(record(e2e_s=1.9))
    assert not slo.attained(record(e2e_s=2.1))


def test_percentile_limits_stand_in_for_per_request_ones() -> None:
    slo = parse_slo("p95_s=2")

    assert slo.attained(record(e2e_s=2.0))
    assert not slo.attained(record(e2e_s=2.01))


def test_a_failed_request_attains_nothing_however_fast() -> None:
    assert not parse_slo("e2e_s=2").attained(record(e2e_s=0.01, error="refused"))


def test_a_single_token_has_no_gap_to_exceed_a_limit_with() -> None:
    slo = parse_slo("itl_ms=40")

    assert slo.attained(record(first_token_s=0.5))
    assert not slo.attained(record(first_token_s=0.5, itl_count=2, itl_mean_s=0.05))


def test_without_a_stream_no_limit_on_tokens_is_attained() -> None:
    assert not parse_slo("ttft_ms=300").attained(record(e2e_s=0.01))
    assert not parse_slo("itl_ms=300").attained(record(e2e_s=0.01))


def test_which_statements_need_a_stream() -> None:
    assert parse_slo("ttft_ms_p95=300").needs_stream
    assert not parse_slo("p95_s=2").needs_stream


def test_median_and_range_of_the_repeats() -> None:
    spread = spread_of([10.0, 14.0, 11.0])

    assert (spread.median, spread.low, spread.high, spread.repeats) == (11.0, 10.0, 14.0, 3)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([10, 11, 12], [11, 12, 13], "equal"),
        ([10, 11, 12], [12, 13, 14], "equal"),  # 2 apart, ranges of 2
        ([10, 11, 12], [12.5, 13.5, 14], "lower"),
        ([20, 20.1, 20.2], [10, 10.1, 10.2], "higher"),
        ([10, 10, 10], [10.1, 10.1, 10.1], "lower"),  # repeats that agree exactly resolve a small difference
        ([10], [10.9], "equal"),  # measured once: 10 % stands for the range
        ([10], [11.2], "lower"),
    ],
)
def test_points_differ_where_medians_are_farther_apart_than_the_wider_range(
    left: list[float], right: list[float], expected: str
) -> None:
    assert compare(spread_of(left), spread_of(right)) == expected


@pytest.mark.parametrize(("percent", "expected"), [(1, 15), (30, 20), (40, 20), (50, 35), (95, 50), (100, 50)])
def test_nearest_rank_of_the_textbook_example(percent: float, expected: float) -> None:
    assert percentiles([15, 20, 35, 40, 50], percent)[0] == expected


def test_exact_ranks_are_not_pushed_up_by_rounding() -> None:
    values = [float(value) for value in range(1, 101)]

    assert [percentiles(values, percent)[0] for percent in (55, 57, 58, 95, 99)] == [55, 57, 58, 95, 99]


def test_infinities_only_count_where_the_rank_reaches_them() -> None:
    assert percentiles([1.0] * 95 + [inf] * 5, 95)[0] == 1.0
    assert percentiles([1.0] * 94 + [inf] * 6, 95)[0] == inf


def test_distribution_of_twenty_values() -> None:
    found = distribution(float(value) for value in range(20, 0, -1))

    assert found is not None
    assert (found.count, found.mean_s, found.p50_s, found.p90_s, found.p95_s, found.p99_s, found.max_s) == (
        20,
        10.5,
        10.0,
        18.0,
        19.0,
        20.0,
        20.0,
    )


def test_nothing_has_no_distribution() -> None:
    assert distribution([]) is None


def test_a_bucket_is_within_one_percent_of_its_values() -> None:
    random = Random(1)
    values = [10 ** random.uniform(-4.5, 1) for _ in range(500)]

    assert all(bucket_values(bucket_counts([value]))[0] == pytest.approx(value, rel=0.0101) for value in values)


def test_percentiles_agree_with_the_exact_ones() -> None:
    values = sorted(Random(2).expovariate(20) + 0.001 for _ in range(1000))
    counted = bucket_counts(values)

    for percent in (50, 90, 95, 99, 100):
        assert percentiles(bucket_values(counted), percent)[0] == pytest.approx(
            percentiles(values, percent)[0], rel=0.011
        )


def test_distribution_counts_and_averages() -> None:
    found = distribution(bucket_values(bucket_counts([0.01] * 3 + [0.05])))

    assert found is not None
    assert found.count == 4
    assert found.mean_s == pytest.approx(0.02, rel=0.01)
    assert found.max_s == pytest.approx(0.05, rel=0.01)


def test_gaps_under_the_floor_share_a_bucket() -> None:
    assert bucket_counts([0.0, 1e-6, 1e-5]) == Counter({0: 3})
