"""An SLO against what percentiles are known."""

from __future__ import annotations

import pytest

from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.objective import judge
from dragoman_bench.tune.vitals import Traffic, read_server, read_traffic
from tests.tune.watched import STATS, TRAFFIC

HOUR = read_traffic(TRAFFIC)


@pytest.mark.parametrize(
    ("slo", "state", "told"),
    [
        ("p95_s=2", "met", "the 95th percentile is 1.1 s"),
        ("p95_s=1", "broken", "the 95th percentile is 1.1 s"),
        ("p50_s=0.5", "met", "the 50th percentile is 400 ms"),
        ("p90_s=2", "met", "the 95th percentile is 1.1 s"),  # so the 90th is too
        ("p99_s=3", "met", "the slowest is 2.4 s"),
        ("p99_s=1", "broken", "the 95th percentile is 1.1 s"),  # so the 99th is too
        ("p99_s=2", "unknown", "cannot be told: the 95th percentile is 1.1 s and the slowest is 2.4 s"),
        ("p40_s=0.3", "unknown", "cannot be told: the 50th percentile is 400 ms"),
        ("e2e_s=3", "met", "the slowest is 2.4 s"),
        ("e2e_s=2", "broken", "the slowest is 2.4 s"),
        ("ttft_ms_p95=100", "met", "the 95th percentile is 90 ms"),
        ("itl_ms_p95=5", "broken", "the 95th percentile is 9 ms"),
        ("itl_ms_p99=10", "unknown", "cannot be told: the 95th percentile is 9 ms"),
        ("tpot_ms_p95=10", "unknown", "cannot be told: the server does not tell it"),
    ],
)
def test_a_limit_is_met_broken_or_between(slo: str, state: str, told: str) -> None:
    assert HOUR is not None
    assert judge(parse_slo(slo).limits[0], HOUR, read_server(STATS)) == (state, told)


def test_an_hour_that_tells_nothing_proves_nothing() -> None:
    assert judge(parse_slo("p95_s=2").limits[0], Traffic(0, 3600.0), read_server({}))[0] == "unknown"
