from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import Limit, parse_slo
from tests.bench.making import record


def test_percentile_limits_are_read_in_either_order_and_unit() -> None:
    slo = parse_slo("p95_s=2, ttft_ms_p95=300,itl_ms_p99=40")

    assert slo.limits == (Limit("e2e", 2.0, 95), Limit("ttft", 0.3, 95), Limit("itl", 0.04, 99))


def test_a_limit_without_percentile_is_for_each_request() -> None:
    assert parse_slo("e2e_s=2").limits == (Limit("e2e", 2.0, None),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty SLO"),
        ("fast", "'fast' is not like"),
        ("p95_s", "'p95_s' is not like"),
        ("s=2", "names no metric"),
        ("p0_s=2", "percentile"),
        ("p101_s=2", "percentile"),
        ("p95_s=-1", "above 0"),
        ("p95_s=inf", "above 0"),
        ("p95_s=nan", "above 0"),
        ("p95_s=soon", "'soon' is not a number"),
        ("p9.5.5_s=1", "'9.5.5' is not a number"),
        ("p95_s_p99=2", "two percentiles"),
        ("p95_s=1,e2e_ms_p95=5", "twice"),
        ("latency_s=2", "is not like"),
    ],
)
def test_nonsense_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
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
