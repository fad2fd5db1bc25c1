from __future__ import annotations

from time import monotonic

from aiohttp import web

from dragoman_bench.bench.client import Clock, open_session
from dragoman_bench.bench.results import ServerSample
from dragoman_bench.bench.server_stats import DragomanStats, PrometheusStats, find_stats, from_prometheus
from tests.bench.serving import Handler, serving

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b"} 3.0
vllm:num_requests_running{engine="1",model_name="a b"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="a b"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="a b"} 0.5
vllm:num_preemptions_total{engine="0",model_name="a b"} 1e+01
vllm:e2e_request_latency_seconds_bucket{le="0.3"} 5.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="a b"} 200.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="a b"} 1.5
vllm:inter_token_latency_seconds_sum{engine="1",model_name="a b"} 2.25
vllm:inter_token_latency_seconds_count{engine="0",model_name="a b"} 200.0
vllm:inter_token_latency_seconds_count{engine="1",model_name="a b"} 1.0e+02
"""


def _json(answer: object) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    return handler


def _text(answer: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text=answer)

    return handler


def test_vllm_gauges_are_summed_over_engines_and_the_fullest_cache_counts() -> None:
    assert from_prometheus(PAGE, 1.5) == ServerSample(
        1.5, running=7, waiting=0, kv_cache_usage=0.5, preemptions=10, itl_sum_s=3.75, itl_count=300
    )


def test_a_page_without_vllm_s_gauges_is_no_sample() -> None:
    assert from_prometheus("process_cpu_seconds_total 5\n", 1.0) is None


async def test_dragoman_s_stats_are_read_with_its_settings() -> None:
    stats = {
        "running": 3,
        "waiting": 1,
        "kv_cache_usage": 0.25,
        "preemptions": 0,
        "busy_s": 4.5,
        "inter_token_latency_sum_s": 1.25,
        "inter_token_latency_count": 250,
        "pipeline": "continuous",
        "model": "m",
        "settings": {"engine": {"max_num_seqs": 16}},
    }
    async with serving({"/v1/stats": _json(stats), "/metrics": _text(PAGE)}) as url, open_session() as session:
        found = await find_stats(session, url + "/")
        assert isinstance(found, DragomanStats)
        sample = await found.sample(Clock(monotonic() - 5))
        settings = await found.settings()

    assert sample is not None
    assert sample.t_s >= 5
    assert (sample.running, sample.waiting, sample.kv_cache_usage, sample.busy_s) == (3, 1, 0.25, 4.5)
    assert (sample.itl_sum_s, sample.itl_count) == (1.25, 250)
    assert settings == {"pipeline": "continuous", "model": "m", "engine": {"max_num_seqs": 16}}


async def test_what_a_server_does_not_tell_stays_unknown() -> None:
    async with serving({"/v1/stats": _json({"running": True, "waiting": "1"})}) as url, open_session() as session:
        found = await find_stats(session, url)
        assert found is not None
        sample = await found.sample(Clock(monotonic()))

    assert sample is not None
    assert (sample.running, sample.waiting, sample.busy_s) == (None, None, None)


async def test_vllm_is_asked_where_dragoman_is_not_there() -> None:
    models = {"data": [{"id": "m", "root": "org/m", "max_model_len": 4096, "created": 1}]}
    routes = {"/metrics": _text(PAGE), "/v1/models": _json(models), "/version": _json({"version": "0.32.0"})}
    async with serving(routes) as url, open_session() as session:
        found = await find_stats(session, url)
        assert isinstance(found, PrometheusStats)
        sample = await found.sample(Clock(monotonic()))
        settings = await found.settings()

    assert sample is not None and sample.running == 7
    assert settings == {"version": "0.32.0", "id": "m", "root": "org/m", "max_model_len": 4096}


async def test_a_server_that_tells_nothing_has_no_stats() -> None:
    routes = {"/v1/stats": _text("hello"), "/metrics": _text("up 1\n")}
    async with serving(routes) as url, open_session() as session:
        assert await find_stats(session, url) is None
        assert await find_stats(session, "http://127.0.0.1:9") is None


async def test_stats_elsewhere() -> None:
    async with serving({"/inside/metrics": _text(PAGE)}) as url, open_session() as session:
        assert isinstance(await find_stats(session, "http://127.0.0.1:9", f"{url}/inside/metrics"), PrometheusStats)


async def test_a_sample_that_does_not_come_is_none() -> None:
    async with open_session() as session:
        assert await DragomanStats(session, "http://127.0.0.1:9/v1/stats").sample(Clock(monotonic())) is None
        assert await PrometheusStats(session, "http://127.0.0.1:9/metrics", "").sample(Clock(monotonic())) is None
