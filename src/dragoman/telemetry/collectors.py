"""Metrics that are read when they are scraped: the service's own state, its engine, its GPUs.

Each collector takes one snapshot a scrape, so that its figures belong together. What an engine counts is a counter here too:
one that starts again counts from 0, as Prometheus expects of a counter. Knows neither the service nor vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman.telemetry.engine import INTER_TOKEN_LATENCY_BOUNDS_S, EngineStats
from dragoman.telemetry.gpu import MIB, Gpu, Reading

STATES = ("starting", "serving", "draining")


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """One moment of a service."""

    state: str  # one of STATES
    ready: bool  # a request sent now would be served
    calls: int  # admitted and not answered
    texts: int  # theirs
    characters: int  # of in-flight calls
    characters_limit: int


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"dragoman_{name}", help, value=value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(f"dragoman_{name}", help, value=value)


class ServiceCollector(Collector):
    """What the service is, and how full it is."""

    def __init__(self, read: Callable[[], ServiceSnapshot], info: dict[str, str]) -> None:
        self._read = read
        self._info = info

    def collect(self) -> Iterator[Metric]:
        service = self._read()
        info = GaugeMetricFamily("dragoman_info", "What runs here; always 1", labels=list(self._info))
        info.add_metric(list(self._info.values()), 1)
        yield info
        states = GaugeMetricFamily("dragoman_state", "1 for the state that the server is in", labels=["state"])
        for state in STATES:
            states.add_metric([state], float(state == service.state))
        yield states
        yield _gauge("ready", "1 if a request sent now would be served", service.ready)
        yield _gauge("in_flight_requests", "Calls admitted and not answered", service.calls)
        yield _gauge("in_flight_texts", "Texts of the calls in flight", service.texts)
        yield _gauge("admission_characters", "Characters of in-flight texts", service.characters)
        yield _gauge(
            "admission_characters_limit",
            "Characters in flight from which on calls are refused",
            service.characters_limit,
        )


class EngineCollector(Collector):
    """The engine's load, its counters, and its inter-token latencies."""

    def __init__(self, read: Callable[[], EngineStats]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        stats = self._read()
        yield from self._load(stats)
        yield _counter("engine_preemptions", "Sequences set aside for want of KV cache", stats.preemptions)
        yield _counter("engine_restarts", "Engines and worker processes started again after a death", stats.restarts)
        yield _counter("engine_steps", "Engine iterations", stats.steps)
        yield _counter("engine_busy_seconds", "Time with at least one sequence running", stats.busy_s)
        yield _counter("engine_finished_sequences", "Sequences that ended well", stats.finished)
        yield _counter("engine_prompt_tokens", "Prompt tokens of the engine's sequences", stats.prompt_tokens)
        yield _counter("engine_output_tokens", "Tokens that the engine made", stats.completion_tokens)
        yield _inter_token_latency(stats)

    def _load(self, stats: EngineStats) -> Iterator[Metric]:
        yield _gauge("engine_running_sequences", "Sequences prefilling or decoding", stats.running)
        yield _gauge("engine_waiting_sequences", "The queue's depth: sequences not scheduled yet", stats.waiting)
        yield _gauge("engine_kv_cache_usage_ratio", "Share of the KV cache in use, 0 to 1", stats.kv_cache_usage)
        capacity = GaugeMetricFamily("dragoman_engine_kv_cache_tokens", "Tokens that the KV cache holds")
        if stats.kv_cache_tokens is not None:
            capacity.add_metric([], stats.kv_cache_tokens)
        yield capacity


def _inter_token_latency(stats: EngineStats) -> Metric:
    bounds = [*map(str, INTER_TOKEN_LATENCY_BOUNDS_S), "+Inf"]
    counts = stats.inter_token_latency_counts or (0,) * len(bounds)
    return HistogramMetricFamily(
        "dragoman_inter_token_latency_seconds",
        "Between a sequence's tokens",
        buckets=list(zip(bounds, accumulate(counts), strict=True)),
        sum_value=stats.inter_token_latency_sum_s,
    )


class GpuCollector(Collector):
    """The GPUs' load; those that do not answer are left out."""

    def __init__(self, gpus: tuple[Gpu, ...], read: Callable[[], tuple[Reading, ...]]) -> None:
        self._gpus = gpus
        self._read = read

    def collect(self) -> Iterator[Metric]:
        busy = GaugeMetricFamily(
            "dragoman_gpu_utilization_ratio", "Share of time with a kernel running, 0 to 1", labels=["gpu"]
        )
        used = GaugeMetricFamily("dragoman_gpu_memory_used_bytes", "Memory in use, by anybody", labels=["gpu"])
        total = GaugeMetricFamily("dragoman_gpu_memory_bytes", "Memory that the GPU has", labels=["gpu"])
        for reading in self._read():
            busy.add_metric([str(reading.gpu)], reading.utilisation_percent / 100)
            used.add_metric([str(reading.gpu)], reading.memory_mib * MIB)
        for gpu in self._gpus:
            total.add_metric([str(gpu.index)], gpu.memory_mib * MIB)
        yield from (busy, used, total)
