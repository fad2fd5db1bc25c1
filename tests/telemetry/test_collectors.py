from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from dragoman.gpu import NvmlGpus
from dragoman.telemetry.engine import EngineGauge
from dragoman.telemetry.metrics import GpuCollector, StatsCollector
from dragoman.wire import EngineStats, RecorderStats, RemoteEngineStats, Stats
from tests.telemetry.nvml_stand_in import stand_in


def registry_of(collector: StatsCollector | GpuCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def collector_of(**values: Any) -> StatsCollector:
    stats = Stats.model_validate({"state": "serving", **values})
    return StatsCollector(lambda: stats, lambda: True)


def test_the_state_is_one_of_three() -> None:
    registry = registry_of(collector_of(state="restarting", model="m", in_flight_texts=5))
    states = {state: registry.get_sample_value("dragoman_state", {"state": state}) for state in ("starting", "serving")}
    assert states == {"starting": 0.0, "serving": 1.0}
    assert (
        registry.get_sample_value(
            "dragoman_info", dict.fromkeys(("version", "profile", "pipeline", "device"), "") | {"model": "m"}
        )
        == 1.0
    )
    assert registry.get_sample_value("dragoman_in_flight_texts") == 5.0


def test_what_an_engine_counts_is_a_counter() -> None:
    collector = collector_of(
        engine=EngineStats(preemptions=3, restarts=3, hangs=1, crashing_sequences=2, finished=7, steps=40, busy_s=1.5)
    )
    families = {family.name: family.type for family in collector.collect()}
    counters = {name for name, kind in families.items() if kind == "counter" and name.startswith("dragoman_engine_")}
    assert counters == {
        f"dragoman_engine_{name}"
        for name in (
            *("preemptions", "restarts", "crashing_sequences", "steps", "busy_seconds"),
            *("finished_sequences", "prompt_tokens", "output_tokens"),
        )
    }
    registry = registry_of(collector)
    assert registry.get_sample_value("dragoman_engine_preemptions_total") == 3.0
    assert registry.get_sample_value("dragoman_engine_crashing_sequences_total") == 2.0
    assert [
        registry.get_sample_value("dragoman_engine_restarts_total", {"reason": reason}) for reason in ("crash", "hang")
    ] == [2.0, 1.0]


def test_engines_elsewhere_are_shown_by_their_urls() -> None:
    def engine(url: str, running: int, losses: int, fault: str) -> RemoteEngineStats:
        return RemoteEngineStats(url=url, slots=8, running=running, losses=losses, busy=False, fault=fault)

    engines = [engine("http://a:8000", 3, 0, ""), engine("http://b:8000", 0, 2, "it did not answer in time")]
    registry = registry_of(collector_of(engine=EngineStats(remote=engines)))
    names = (
        "dragoman_remote_engine_up",
        "dragoman_remote_engine_running_sequences",
        "dragoman_remote_engine_losses_total",
    )
    shown = [[registry.get_sample_value(name, {"url": one.url}) for name in names] for one in engines]
    assert shown == [[1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]


def test_what_the_recorder_lost_is_counted() -> None:
    registry = registry_of(collector_of(recorder=RecorderStats(state="failing", written=9, lost=2)))
    counts = [
        registry.get_sample_value("dragoman_recorder_texts_total", {"result": one}) for one in ("written", "lost")
    ]
    assert counts == [9, 2]


def test_inter_token_latencies_are_a_cumulative_histogram() -> None:
    gauge = EngineGauge()
    gauge.latencies([], [0.001, 0.004, 0.004, 0.02, 9.0])
    registry = registry_of(collector_of(engine=gauge.snapshot()))

    def at_most(bound: str) -> float | None:
        return registry.get_sample_value("dragoman_inter_token_latency_seconds_bucket", {"le": bound})

    assert [at_most(bound) for bound in ("0.001", "0.005", "0.02", "5.0", "+Inf")] == [1, 3, 4, 4, 5]
    assert registry.get_sample_value("dragoman_inter_token_latency_seconds_count") == 5
    assert registry.get_sample_value("dragoman_inter_token_latency_seconds_sum") == 9.029


def test_gpus_are_reported_in_base_units_and_silent_ones_left_out() -> None:
    gpus = NvmlGpus(stand_in(), (0, 1))
    registry = registry_of(GpuCollector(gpus.describe(), gpus.read))
    assert registry.get_sample_value("dragoman_gpu_utilization_ratio", {"gpu": "0"}) == 0.93
    assert registry.get_sample_value("dragoman_gpu_memory_used_bytes", {"gpu": "0"}) == 2**30
    assert registry.get_sample_value("dragoman_gpu_memory_bytes", {"gpu": "1"}) == 2**31
    assert registry.get_sample_value("dragoman_gpu_utilization_ratio", {"gpu": "1"}) is None
