"""`dragoman tune --watch`: what each rule finds in what a server reports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dragoman.errors import ConfigError
from dragoman.wire import Stats, Traffic
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.watch import Observation, judge_limit, remarks, verdict_of, watch

STATS: dict[str, Any] = {
    "state": "serving",
    "model": "Qwen/Qwen3-4B",
    "profile": "qwen",
    "pipeline": "continuous",
    "device": "cuda",
    "running": 7,
    "waiting": 0,
    "kv_cache_usage": 0.1,
    "finished": 40_000,
    "uptime_s": 9_000.0,
    "inter_token_latency_s": {"p50": 0.004, "p95": 0.009, "p99": 0.02},
    "kv_cache": {"tokens": 40_000, "bytes_per_token": 147_456},
    "settings": {"engine": {"max_num_seqs": 64, "max_num_batched_tokens": 8192}},
}
TRAFFIC: dict[str, Any] = {
    "records": 4_211,
    "window_s": 3600.0,
    "in_flight": {"p50": 4, "p95": 25, "max": 31},
    "source_tokens": {"p50": 61, "p95": 171, "max": 204},
    "output_tokens": {"p50": 64, "p95": 180, "max": 240},
    "queue_s": {"p50": 0.001, "p95": 0.02, "max": 0.3},
    "ttft_s": {"p50": 0.03, "p95": 0.09, "max": 0.5},
    "e2e_s": {"p50": 0.4, "p95": 1.1, "max": 2.4},
    "arrivals_per_s": 1.17,
    "peak_tokens": 9_000,
    "outcomes": {"ok": 4_200, "cancelled": 11, "queue_full": 0},
    "recorder": {"state": "on", "written": 4_211, "lost": 0},
}


def observed(stats: dict[str, Any] | None = None, traffic: dict[str, Any] | None = None) -> Observation:
    return Observation(Stats.model_validate(STATS | (stats or {})), Traffic.model_validate(TRAFFIC | (traffic or {})))


def severity(about: str, now: Observation, before: Observation | None = None, slo: str | None = None) -> str:
    found = remarks(now, before, parse_slo(slo) if slo else None)
    return next(remark.severity for remark in found if remark.about == about)


def verdict(now: Observation, slo: str | None = None) -> str:
    return verdict_of(remarks(now, None, parse_slo(slo) if slo else None), now.traffic)


def test_what_fits_fits() -> None:
    assert {one.severity for one in remarks(observed())} == {"fits"}
    assert verdict(observed(), "p95_s=2") == "fits"


@pytest.mark.parametrize(
    ("about", "stats", "traffic", "expected"),
    [
        ("slots", {}, {"in_flight": {"p50": 4, "p95": 25, "max": 90}}, "note"),
        ("slots", {}, {"in_flight": {"p50": 4, "p95": 80, "max": 90}, "queue_s": {"p95": 0.6}}, "warning"),
        ("slots", {}, {"in_flight": {"p50": 4, "p95": 80, "max": 90}}, "note"),
        ("KV cache", {}, {"peak_tokens": 50_000}, "problem"),
        ("KV cache", {}, {"peak_tokens": 38_000}, "warning"),
        ("KV cache", {}, {"peak_tokens": 900}, "note"),
        ("KV cache", {"kv_cache_usage": 0.97}, {}, "warning"),
        ("queue", {}, {"queue_s": {"p95": 0.3}}, "warning"),
        ("queue", {}, {"queue_s": {"p95": 0.9}}, "problem"),
        ("refusals", {}, {"outcomes": {"ok": 4_000, "queue_full": 1}}, "warning"),
        ("refusals", {}, {"outcomes": {"ok": 4_000, "queue_full": 100}}, "problem"),
        ("failures", {}, {"outcomes": {"ok": 4_000, "engine_dead": 100}}, "problem"),
        ("preemptions", {"preemptions": 3}, {}, "warning"),
        ("preemptions", {"preemptions": 300}, {}, "problem"),
        ("state", {"state": "draining"}, {}, "note"),
        ("traffic", {}, {"records": 20}, "note"),
    ],
)
def test_each_rule(about: str, stats: dict[str, Any], traffic: dict[str, Any], expected: str) -> None:
    assert severity(about, observed(stats, traffic)) == expected


def test_counters_are_compared_with_the_last_look_unless_the_server_was_restarted() -> None:
    before = observed({"preemptions": 300})
    assert severity("preemptions", observed({"preemptions": 300, "uptime_s": 9_300.0}), before) == "fits"
    restarted = observed({"preemptions": 0, "uptime_s": 10.0})
    assert severity("state", restarted, before) == "note"


def test_each_replica_is_judged_by_itself_and_the_worst_is_reported() -> None:
    def replicas(shared: dict[str, Any], *own: dict[str, Any]) -> list[dict[str, Any]]:
        return [shared | values | {"replica": name} for name, values in zip("abc", own, strict=True)]

    stats = {
        "running": 21,
        "kv_cache": {"tokens": 80_000},
        "replicas": replicas(
            STATS, {"preemptions": 300}, {"preemptions": 300, "finished": 50_000}, {"state": "unreachable"}
        ),
    }
    traffic = {"replicas": replicas(TRAFFIC, {"peak_tokens": 50_000}, {}, {"unreachable": True, "records": 0})}
    now = observed(stats, traffic)
    found = {one.about: one for one in remarks(now, None, parse_slo("p95_s=2"))}
    assert found["KV cache"].severity == "problem"  # one replica's peak against its own cache, not against both caches
    assert "replica a:" in found["KV cache"].text
    assert "replica c:" in found["state"].text
    assert found["slots"].severity == "fits"
    assert "replica a, and 1 more like it" in found["preemptions"].text
    grown = observed(
        stats | {"replicas": replicas(STATS, {"preemptions": 300}, {"preemptions": 400}, {"state": "unreachable"})},
        traffic,
    )
    [since] = [one for one in remarks(grown, now) if one.about == "preemptions"]
    assert since.text.startswith("replica b: 100 since the last look")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("p95_s=2", "fits"),
        ("p95_s=1", "problem"),
        ("p90_s=1", "note"),  # between the 50th and the 95th percentile
        ("p90_s=1.2", "fits"),
        ("e2e_s=2", "problem"),
        ("itl_ms_p95=5", "problem"),
        ("tpot_ms_p95=5", "note"),
    ],
)
def test_limits_are_judged_from_the_percentiles_that_are_reported(limit: str, expected: str) -> None:
    now = observed()
    assert now.traffic is not None
    assert judge_limit(parse_slo(limit).limits[0], now.traffic, now.stats)[0] == expected


def test_little_traffic_shows_what_is_wrong_and_not_that_all_is_well() -> None:
    assert verdict(observed({}, {"records": 20})) == "unknown"
    assert verdict(observed({}, {"records": 20, "peak_tokens": 50_000})) == "does not fit"
    assert verdict(observed({}, {"queue_s": {"p95": 0.3}})) == "fits, but look"


async def test_a_server_is_looked_at_until_interrupted_and_may_be_away_for_a_while() -> None:
    answers, interrupted = [STATS, {"state": "gone"}, STATS], asyncio.Event()

    async def stats(_: web.Request) -> web.Response:
        answer = answers.pop(0)
        if not answers:
            interrupted.set()
        return web.json_response(answer)

    async def traffic(_: web.Request) -> web.Response:
        return web.json_response(TRAFFIC)

    app = web.Application()
    app.add_routes([web.get("/v1/stats", stats), web.get("/v1/traffic", traffic)])
    async with TestServer(app) as server:
        looks = [look async for look in watch(str(server.make_url("")), None, 0.01, interrupted)]
    assert [look.verdict for look in looks] == ["fits", "unknown", "fits"]
    assert looks[0].document["remarks"] and looks[0].lines


async def test_what_is_no_dragoman_is_refused() -> None:
    async with TestServer(web.Application()) as server:
        with pytest.raises(ConfigError, match="dragoman"):
            await anext(watch(str(server.make_url(""))))
    with pytest.raises(ConfigError, match="cannot reach"):
        await anext(watch("http://127.0.0.1:9"))
