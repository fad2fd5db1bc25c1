from __future__ import annotations

import pytest

from dragoman_bench.bench.results import GpuSample, ServerSample, Verdict
from dragoman_bench.bench.summary import (
    Observed,
    bucket_counts,
    engine_busy_share,
    mean_in_flight,
    parse_slo,
    summarise,
)
from tests.bench.making import record


def test_rates_count_what_completed_inside_the_window() -> None:
    records = [
        record(0, intended_s=0, e2e_s=1, output_tokens=10, output_characters=30),
        record(1, intended_s=2, e2e_s=1, output_tokens=20, output_characters=50),
        record(2, intended_s=3.5, e2e_s=1, output_tokens=40, output_characters=90),  # ends after the window
        record(3, intended_s=1, e2e_s=0.1, error="refused"),
    ]

    summary = summarise(Observed(records, window_s=4.0))

    assert summary.requests == 4
    assert summary.completed == 3
    assert summary.rps == 2 / 4
    assert summary.output_tokens_s == 30 / 4
    assert summary.output_characters_s == 80 / 4
    assert summary.errors == {"refused": 1}


def test_latencies_are_over_all_completed_requests_from_their_intended_time() -> None:
    records = [record(0, e2e_s=1), record(1, e2e_s=3, sent_s=2.5), record(2, e2e_s=9, error="timeout")]

    summary = summarise(Observed(records, window_s=2.0))

    assert summary.e2e is not None
    assert (summary.e2e.count, summary.e2e.mean_s, summary.e2e.max_s) == (2, 2.0, 3.0)


def test_token_rates_are_unknown_where_any_answer_told_none() -> None:
    assert summarise(Observed([record(output_tokens=4), record(output_tokens=None)], 2.0)).output_tokens_s is None


def test_streamed_latencies() -> None:
    records = [record(0, intended_s=1, e2e_s=1, first_token_s=1.2, output_tokens=5), record(1)]
    gaps = bucket_counts([0.2, 0.2, 0.2, 0.2])

    summary = summarise(Observed(records, 3.0, itl_histogram=gaps))

    assert summary.ttft is not None and summary.ttft.p50_s == pytest.approx(0.2)
    assert summary.tpot is not None and summary.tpot.p50_s == pytest.approx(0.8 / 4)
    assert summary.itl is not None and summary.itl.p95_s == pytest.approx(0.2, rel=0.01)


def test_bands_are_by_source_tokens() -> None:
    records = [
        record(0, source_tokens=50),
        record(1, source_tokens=51),
        record(2, source_tokens=120, e2e_s=3),
        record(3, source_tokens=121, error="timeout"),
    ]

    bands = summarise(Observed(records, 3.0)).bands

    assert {band: (found.requests, found.completed) for band, found in bands.items()} == {
        "short": (1, 1),
        "medium": (2, 2),
        "long": (1, 0),
    }
    assert bands["medium"].e2e is not None and bands["medium"].e2e.max_s == 3.0
    assert bands["long"].e2e is None


def test_goodput_counts_attaining_requests_in_the_window() -> None:
    records = [record(n, e2e_s=seconds) for n, seconds in enumerate([0.5, 1.0, 2.0, 2.5])]
    records.append(record(9, e2e_s=0.1, error="server_error"))

    summary = summarise(Observed(records, window_s=10.0), parse_slo("e2e_s=2"))

    assert summary.goodput_rps == 3 / 10
    assert summary.attained_share == 3 / 5


def test_failures_are_later_than_any_limit() -> None:
    passing = [record(n, e2e_s=1) for n in range(95)]
    failing = [record(100 + n, e2e_s=0.01, error="refused") for n in range(6)]
    slo = parse_slo("p95_s=2")

    assert summarise(Observed([*passing, *failing[:5]], 10.0), slo).slo_met
    summary = summarise(Observed([*passing, *failing], 10.0), slo)
    assert not summary.slo_met
    assert summary.verdicts == (Verdict("e2e p95 ≤ 2 s", None, False),)


def test_a_verdict_tells_what_was_measured() -> None:
    records = [record(n, e2e_s=(n + 1) / 10) for n in range(20)]

    summary = summarise(Observed(records, 10.0), parse_slo("p95_s=1.8,p50_s=1"))

    assert summary.verdicts == (Verdict("e2e p95 ≤ 1.8 s", 1.9, False), Verdict("e2e p50 ≤ 1 s", 1.0, True))
    assert summary.slo_met is False


def test_a_per_request_limit_is_met_by_nine_in_ten() -> None:
    slo = parse_slo("e2e_s=2")
    fast, slow = [record(n, e2e_s=1) for n in range(9)], [record(9, e2e_s=5), record(10, e2e_s=5)]

    assert summarise(Observed([*fast, slow[0]], 10.0), slo).slo_met
    assert not summarise(Observed([*fast, *slow], 10.0), slo).slo_met


def test_inter_token_percentiles_are_over_gaps_but_failures_still_count() -> None:
    slo = parse_slo("itl_ms_p95=40")
    streamed = [record(n, first_token_s=0.1, itl_count=9, itl_mean_s=0.01) for n in range(19)]
    gaps = bucket_counts([0.01] * 97 + [0.5] * 3)

    assert summarise(Observed(streamed, 10.0, itl_histogram=gaps), slo).slo_met
    failed = [record(n, error="disconnect") for n in range(2)]
    assert not summarise(Observed([*streamed, *failed], 10.0, itl_histogram=gaps), slo).slo_met


def test_what_an_interrupt_cut_off_is_not_judged_and_what_saturation_cut_off_is() -> None:
    records = [record(0, e2e_s=1), record(1, e2e_s=1, error="unfinished")]
    slo = parse_slo("e2e_s=2")

    assert summarise(Observed(records, 4.0, "interrupted"), slo).attained_share == 1.0
    saturated = summarise(Observed(records, 4.0, "saturated"), slo)
    assert saturated.attained_share == 0.5
    assert saturated.slo_met is False


def test_a_saturated_point_meets_no_slo_even_if_each_latency_did() -> None:
    assert summarise(Observed([record(e2e_s=1)], 4.0, "saturated"), parse_slo("e2e_s=2")).slo_met is False


def test_without_an_slo_nothing_is_judged() -> None:
    summary = summarise(Observed([record()], 4.0))

    assert (summary.goodput_rps, summary.attained_share, summary.slo_met) == (None, None, None)


def test_mean_in_flight_is_time_spent_over_the_window() -> None:
    records = [record(0, intended_s=0, e2e_s=2), record(1, intended_s=1, e2e_s=2), record(2, intended_s=3, e2e_s=9)]

    assert mean_in_flight(records, window_s=4.0) == (2 + 2 + 1) / 4


def test_the_engine_s_own_busy_time_is_preferred() -> None:
    samples = [ServerSample(0.0, running=0, busy_s=7.0), ServerSample(4.0, running=0, busy_s=10.0)]

    assert engine_busy_share(samples) == 0.75


def test_without_busy_time_running_samples_are_counted() -> None:
    assert engine_busy_share([ServerSample(t, running=n) for t, n in [(0, 0), (1, 2), (2, 1), (3, 0)]]) == 0.5


def test_a_busy_counter_that_went_back_means_a_restart() -> None:
    assert engine_busy_share([ServerSample(0.0, busy_s=7.0), ServerSample(4.0, busy_s=1.0)]) is None


def test_decode_time_per_token_is_of_the_measurement_alone() -> None:
    samples = [
        ServerSample(-0.5, itl_sum_s=0.0, itl_count=0),
        ServerSample(0.1, itl_sum_s=9.0, itl_count=300),
        ServerSample(1.0),
        ServerSample(2.0, itl_sum_s=11.0, itl_count=800),
        ServerSample(9.0, itl_sum_s=99.0, itl_count=801),
    ]
    assert summarise(Observed([record()], 2.0, server=samples)).decode_s_per_token == 2.0 / 500


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [ServerSample(0.0), ServerSample(1.0)],
        [ServerSample(0.0, itl_sum_s=1.0, itl_count=5), ServerSample(1.0, itl_sum_s=1.0, itl_count=5)],
        [ServerSample(0.0, itl_sum_s=9.0, itl_count=500), ServerSample(1.0, itl_sum_s=1.0, itl_count=50)],
    ],
    ids=["none", "untold", "no token", "restarted"],
)
def test_decode_time_is_unknown_where_no_token_was_counted(samples: list[ServerSample]) -> None:
    assert summarise(Observed([record()], 2.0, server=samples)).decode_s_per_token is None


def test_nothing_sampled_is_unknown_not_idle() -> None:
    assert engine_busy_share([]) is None
    summary = summarise(Observed([record()], 4.0))
    assert (summary.mean_running, summary.peak_waiting, summary.preemptions) == (None, None, None)
    assert (summary.gpu_mean_percent, summary.gpu_share_below_10) == (None, None)


def test_server_and_gpu_samples_inside_the_window_count() -> None:
    server = [
        ServerSample(-0.1, running=99, waiting=99, preemptions=0),
        ServerSample(0.5, running=2, waiting=1, kv_cache_usage=0.25, preemptions=3),
        ServerSample(1.5, running=4, waiting=5, kv_cache_usage=0.75, preemptions=7),
        ServerSample(9.0, running=99, waiting=99, preemptions=99),
    ]
    gpu = [GpuSample(t, 0, used, 1000) for t, used in [(-0.1, 100), (0, 5), (1, 50), (1.5, 90), (2, 95), (9, 0)]]

    summary = summarise(Observed([record()], 2.0, server=server, gpu=gpu))

    assert (summary.mean_running, summary.mean_waiting, summary.peak_waiting) == (3.0, 3.0, 5)
    assert (summary.peak_kv_cache_usage, summary.preemptions) == (0.75, 4)
    assert summary.gpu_mean_percent == 60.0
    assert (summary.gpu_share_below_10, summary.gpu_share_above_80) == (0.25, 0.5)


def test_a_run_in_which_nothing_completed_has_rates_of_zero_and_no_latencies() -> None:
    summary = summarise(Observed([record(error="connect")], 0.0), parse_slo("p95_s=2"))

    assert (summary.rps, summary.goodput_rps, summary.output_tokens_s, summary.e2e) == (0.0, 0.0, None, None)
    assert summary.slo_met is False
