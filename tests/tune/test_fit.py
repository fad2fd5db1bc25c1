"""Whether a configuration fits what came: each rule, and the verdict over all."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.fit import Case, Remark, remarks, verdict
from dragoman_bench.tune.vitals import Vitals, read_server, read_traffic
from tests.tune.watched import STATS, TRAFFIC


def vitals(stats: dict[str, Any] | None = None, traffic: dict[str, Any] | None = None) -> Vitals:
    return Vitals(read_server(STATS | (stats or {})), read_traffic(TRAFFIC | (traffic or {})))


def slots(count: int) -> dict[str, Any]:
    return {"settings": {"engine": {"max_num_seqs": count}}}


def judged(now: Vitals, **case: Any) -> tuple[dict[str, Remark], str]:
    found = remarks(Case(now, **case))
    return {remark.about: remark for remark in found}, verdict(found, now.traffic)


def test_a_server_that_fits_is_told_to_and_why() -> None:
    found, said = judged(vitals(), slo=parse_slo("p95_s=2"))
    assert said == "fits"
    assert {about: remark.severity for about, remark in found.items()} == dict.fromkeys(
        ("preemptions", "SLO", "slots", "queue", "KV cache", "refusals", "failures"), "fits"
    )
    assert (
        "64 slots" in found["slots"].told
        and "25 or fewer" in found["slots"].told
        and "31 at most" in found["slots"].told
    )


@pytest.mark.parametrize(
    ("count", "queue_p95_s", "severity"),
    [
        (31, 0.02, "fits"),
        (25, 0.02, "note"),  # the highest peaks alone wait
        (16, 0.02, "note"),  # fewer slots than came, and nobody felt it
        (16, 0.5, "warning"),
    ],
)
def test_slots_are_held_against_the_concurrency_that_came(count: int, queue_p95_s: float, severity: str) -> None:
    found, _ = judged(vitals(slots(count), {"queue_s": {"p50": 0.01, "p95": queue_p95_s, "max": 2}}))
    assert found["slots"].severity == severity


@pytest.mark.parametrize(
    ("tokens", "severity", "told"),
    [
        (8_000, "problem", "more than it holds"),
        (10_000, "warning", "little to spare"),
        (12_000, "fits", "1.3 times as much room"),
        (45_000, "fits", "5.0 times as much room"),
        (212_000, "note", "far too large, by about 27.6 GiB"),
    ],
)
def test_the_cache_is_held_against_the_tokens_that_came(tokens: int, severity: str, told: str) -> None:
    found, _ = judged(vitals({"kv_cache": {"tokens": tokens, "bytes_per_token": 147_456}}))
    assert found["KV cache"].severity == severity and told in found["KV cache"].told


def test_texts_that_wait_for_slots_take_no_cache_yet() -> None:
    found, _ = judged(vitals(slots(16) | {"kv_cache": {"tokens": 8_000, "bytes_per_token": None}}))
    assert found["KV cache"].severity == "warning"


def test_a_cache_whose_bytes_are_not_known_is_too_large_by_tokens() -> None:
    found, _ = judged(vitals({"kv_cache": {"tokens": 212_000, "bytes_per_token": None}}))
    assert "far too large, by 200,750 tokens" in found["KV cache"].told


def test_a_cache_that_is_full_at_this_moment_is_said() -> None:
    found = remarks(Case(vitals({"kv_cache_usage": 0.97})))
    assert [remark.told for remark in found if remark.severity == "warning"] == [
        "97% of the cache is in use at this moment"
    ]


def test_preemptions_are_a_problem_where_they_are_not_rare() -> None:
    rare, said = judged(vitals({"preemptions": 3}))
    assert rare["preemptions"].severity == "warning" and said == "fits, but look"
    often, said = judged(vitals({"preemptions": 400}))
    assert often["preemptions"].severity == "problem" and said == "does not fit"
    assert "400 since the server's start, in 40,000 sequences" in often["preemptions"].told


def test_a_second_look_counts_from_the_first() -> None:
    before = vitals({"preemptions": 400, "uptime_s": 9_000.0})
    later = vitals({"preemptions": 400, "uptime_s": 9_060.0, "finished": 40_100})
    assert judged(later, before=before)[0]["preemptions"] == Remark("preemptions", "fits", "none since the last look")
    grown = vitals({"preemptions": 402, "uptime_s": 9_060.0, "finished": 40_100})
    assert "2 since the last look, in 100 sequences" in judged(grown, before=before)[0]["preemptions"].told


def test_a_restart_between_looks_is_said_and_counts_anew() -> None:
    found, _ = judged(vitals({"uptime_s": 12.0, "preemptions": 1}), before=vitals({"preemptions": 400}))
    assert "restarted" in found["state"].told
    assert "1 since the server's start" in found["preemptions"].told


@pytest.mark.parametrize(
    ("queue_p95_s", "e2e_p95_s", "severity"),
    [(0.02, 0.03, "fits"), (0.1, 1.0, "fits"), (0.3, 1.0, "warning"), (0.6, 1.0, "problem"), (3.0, 1.0, "problem")],
)
def test_waiting_counts_by_its_share_where_it_is_felt(queue_p95_s: float, e2e_p95_s: float, severity: str) -> None:
    traffic = {"queue_s": {"p50": 0, "p95": queue_p95_s, "max": 9}, "e2e_s": {"p50": 0.4, "p95": e2e_p95_s, "max": 9}}
    found, _ = judged(vitals(traffic=traffic))
    assert found["queue"].severity == severity


def test_waiting_names_its_likely_cause() -> None:
    traffic = {"queue_s": {"p50": 0, "p95": 0.9, "max": 9}}
    assert "fewer slots than texts" in judged(vitals(slots(8), traffic))[0]["queue"].told
    roomy = judged(vitals(traffic=traffic))[0]["queue"]
    assert "the engine itself is behind" in roomy.told and "replica" in roomy.advice


@pytest.mark.parametrize(("count", "severity"), [(0, "fits"), (2, "warning"), (50, "problem")])
@pytest.mark.parametrize(("code", "about"), [("queue_full", "refusals"), ("engine_dead", "failures")])
def test_refusals_and_failures_are_counted(code: str, about: str, count: int, severity: str) -> None:
    found, _ = judged(vitals(traffic={"outcomes": {"ok": 4_200, code: count}}))
    assert found[about].severity == severity
    if count:
        assert f"{count} of {4_200 + count:,} texts" in found[about].told


def test_what_clients_caused_is_nobodys_failure() -> None:
    found, said = judged(vitals(traffic={"outcomes": {"ok": 4_000, "cancelled": 200, "unsupported_language": 11}}))
    assert found["failures"].severity == "fits" and said == "fits"


def test_a_broken_slo_does_not_fit() -> None:
    found, said = judged(vitals(), slo=parse_slo("p95_s=1"))
    assert found["SLO"] == Remark("SLO", "problem", "e2e p95 ≤ 1 s: the 95th percentile is 1.1 s")
    assert said == "does not fit"


def test_texts_longer_than_a_step_are_noted() -> None:
    found, said = judged(vitals(traffic={"source_tokens": {"p50": 60, "p95": 9_000, "max": 12_000}}))
    assert "12,000 tokens" in found["max_num_batched_tokens"].told and said == "fits"


def test_little_traffic_proves_nothing_good_but_shows_what_is_wrong() -> None:
    found, said = judged(vitals(traffic={"records": 12}))
    assert said == "cannot be told" and "12 texts" in found["traffic"].told
    assert judged(vitals({"preemptions": 999}, {"records": 12}))[1] == "does not fit"


def test_a_server_that_does_not_tell_its_traffic_is_judged_by_its_counters() -> None:
    found = remarks(Case(Vitals(read_server(STATS | {"refused": 7}), None)))
    assert verdict(found, None) == "cannot be told"
    assert "refused 7 calls" in next(remark for remark in found if remark.about == "traffic").told


def test_what_nobody_told_is_not_judged() -> None:
    found, said = judged(Vitals(read_server({"running": 0}), read_traffic({"records": 500, "window_s": 3600})))
    assert found == {} and said == "cannot be told"


def test_the_worst_comes_first() -> None:
    found = remarks(Case(vitals({"preemptions": 400, **slots(25)})))
    assert found[0].severity == "problem" and found[-1].severity == "fits"
