"""Statistics of dragoman and vLLM, GPU readings, and how they are sampled."""

from __future__ import annotations

import asyncio
from time import monotonic

from aiohttp import web

from dragoman.gpu import NvmlGpus, Reading
from dragoman_bench.bench.client import Clock, open_session
from dragoman_bench.bench.results import GpuSample, ServerSample
from dragoman_bench.bench.server_stats import (
    DragomanStats,
    PrometheusStats,
    Sampler,
    find_stats,
    gpus_in_use,
    parse_prometheus,
)
from tests.bench.serving import Handler, serving, stats
from tests.waiting import until

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
    assert parse_prometheus(PAGE, 1.5) == ServerSample(
        1.5, running=7, waiting=0, kv_cache_usage=0.5, preemptions=10, itl_sum_s=3.75, itl_count=300
    )


def test_a_page_without_vllm_s_gauges_is_no_sample() -> None:
    assert parse_prometheus("process_cpu_seconds_total 5\n", 1.0) is None


async def test_dragoman_s_stats_are_read_with_its_settings() -> None:
    reported = stats(
        engine={
            "running": 3,
            "waiting": 1,
            "kv_cache_usage": 0.25,
            "busy_s": 4.5,
            "inter_token_latency_sum_s": 1.25,
            "inter_token_latency_count": 250,
            "dtype": "float32",
        },
        cpu_instruction_sets=["avx2"],
        settings={"engine": {"max_num_seqs": 16}},
        added_by_a_later_version=1,
    )
    async with serving({"/v1/stats": _json(reported), "/metrics": _text(PAGE)}) as url, open_session() as session:
        found = await find_stats(session, url + "/")
        assert isinstance(found, DragomanStats)
        sample = await found.sample(Clock(monotonic() - 5))
        settings = await found.settings()

    assert sample is not None
    assert sample.t_s >= 5
    assert (sample.running, sample.waiting, sample.kv_cache_usage, sample.busy_s) == (3, 1, 0.25, 4.5)
    assert (sample.itl_sum_s, sample.itl_count) == (1.25, 250)
    assert settings == {
        "pipeline": "continuous",
        "model": "small",
        "profile": "plain",
        "device": "cpu",
        "dtype": "float32",
        "cpu_instruction_sets": ["avx2"],
        "engine": {"max_num_seqs": 16},
    }


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


async def test_a_server_without_statistics() -> None:
    routes = {"/v1/stats": _text("hello"), "/metrics": _text("up 1\n")}
    async with serving(routes) as url, open_session() as session:
        assert await find_stats(session, url) is None
        assert await find_stats(session, "http://127.0.0.1:9") is None


async def test_a_sample_that_does_not_come_is_none() -> None:
    async with open_session() as session:
        assert await DragomanStats(session, "http://127.0.0.1:9/v1/stats").sample(Clock(monotonic())) is None
        assert await PrometheusStats(session, "http://127.0.0.1:9/metrics", "").sample(Clock(monotonic())) is None


class _Stats:
    def __init__(self, *, silent: bool = False, blocks: bool = False) -> None:
        self.asked = 0
        self._silent = silent
        self._blocks = blocks
        self.unblocked = asyncio.Event()

    async def sample(self, clock: Clock) -> ServerSample | None:
        self.asked += 1
        if self._blocks:
            await self.unblocked.wait()
        return None if self._silent else ServerSample(clock.now(), running=self.asked)

    async def settings(self) -> dict[str, object]:
        return {}


class _Gpus(NvmlGpus):
    """Two GPUs, the second in use."""

    def read(self) -> tuple[Reading, ...]:
        return (Reading(0, 0.0, 3.0), Reading(1, 95.0, 20_000.0))


GPUS = _Gpus(None, ())


async def test_samples_are_taken_until_the_end_and_once_at_it() -> None:
    stats = _Stats()
    async with Sampler(stats, None, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.server) >= 3, "three samples")
        asked = stats.asked

    assert stats.asked > asked
    assert [sample.running for sample in samples.server] == list(range(1, stats.asked + 1))
    assert all(earlier.t_s <= later.t_s for earlier, later in zip(samples.server, samples.server[1:], strict=False))


async def test_a_server_that_does_not_answer_leaves_no_samples() -> None:
    stats = _Stats(silent=True)
    async with Sampler(stats, None, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: stats.asked >= 3, "three questions")

    assert samples.server == []


async def test_a_slow_server_is_not_asked_again_before_it_answered() -> None:
    stats = _Stats(blocks=True)
    async with Sampler(stats, GPUS, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.gpu) >= 5, "other samples go on meanwhile")
        assert stats.asked == 1
        stats.unblocked.set()


async def test_the_gpu_in_use_is_sampled() -> None:
    async with Sampler(None, GPUS, every_s=0.01).running(Clock(monotonic())) as samples:
        await until(lambda: len(samples.gpu) >= 2, "two samples")

    assert {(sample.gpu, sample.utilisation_percent, sample.memory_mib) for sample in samples.gpu} == {
        (1, 95.0, 20_000.0)
    }
    assert isinstance(samples.gpu[0], GpuSample)


async def test_nothing_to_sample_is_no_trouble() -> None:
    async with Sampler(None, None).running(Clock(monotonic())) as samples:
        pass

    assert (samples.server, samples.gpu) == ([], [])


def test_gpus_are_those_loaded_else_all() -> None:
    idle, loaded = Reading(0, 0.0, 3.0), Reading(1, 0.0, 5000.0)

    assert gpus_in_use([idle, loaded]) == {1}
    assert gpus_in_use([idle]) == {0}
