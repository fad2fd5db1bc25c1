"""What a running server tells, as nouns; what it does not tell is None."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_bench.tune.vitals import Quantiles, read_server, read_traffic
from tests.tune.watched import STATS, TRAFFIC


def test_a_server_is_read() -> None:
    server = read_server(STATS)
    assert (server.model, server.state, server.slots, server.batched_tokens) == ("Qwen/Qwen3-4B", "serving", 64, 8192)
    assert (server.kv_tokens, server.kv_bytes_per_token, server.preemptions) == (40_000, 147_456, 0)
    assert server.itl_s == Quantiles(0.004, 0.009, None)


def test_replicas_have_slots_each() -> None:
    engine = STATS["settings"]["engine"] | {"data_parallel_size": 2}
    assert read_server(STATS | {"settings": {"engine": engine}}).slots == 128


def test_a_pipeline_without_slots_has_none() -> None:
    assert read_server(STATS | {"pipeline": "workers"}).slots is None


def test_traffic_is_read() -> None:
    traffic = read_traffic(TRAFFIC)
    assert traffic is not None
    assert traffic.in_flight == Quantiles(4, 25, 31) and traffic.peak_tokens == 9_000
    assert traffic.outcomes == {"ok": 4_200, "cancelled": 11}


@pytest.mark.parametrize("document", [None, [], "no", 3, {}, {"records": 4}, {"records": "many", "window_s": 3600}])
def test_what_is_no_account_of_traffic_is_none(document: Any) -> None:
    assert read_traffic(document) is None


def test_an_hour_without_a_text_is_an_account() -> None:
    empty = dict.fromkeys(TRAFFIC) | {"records": 0, "window_s": 3600.0, "outcomes": {}}
    traffic = read_traffic(empty)
    assert traffic is not None and traffic.records == 0 and traffic.e2e_s == Quantiles()


def test_nothing_told_is_nothing_known() -> None:
    server = read_server({"running": 0, "kv_cache": None, "settings": None, "preemptions": None})
    assert (server.slots, server.kv_tokens, server.preemptions, server.itl_s) == (None, None, None, Quantiles())
