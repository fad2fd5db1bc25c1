"""What a running server says of itself and of its last hour: `GET /v1/stats` and `GET /v1/traffic` as nouns.

Anything may be missing or null: an engine that does not know its cache, an hour without a text, an older server. What is not
told is None, never nought. Knows neither how it is fetched (`watch`) nor what it means (`fit`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dragoman_bench.bench.results import members, number, whole

CONTINUOUS = frozenset({"continuous", "fake"})
"""Pipelines whose slots are `max_num_seqs`."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one quantity over the window."""

    p50: float | None = None
    p95: float | None = None
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The texts of the last `window_s`. `in_flight`: texts in the house at each arrival, itself included.
    `peak_tokens`: the most that prompts and outputs in the house took at once. `outcomes`: texts or calls by code."""

    records: int
    window_s: float
    in_flight: Quantiles = field(default_factory=Quantiles)
    source_tokens: Quantiles = field(default_factory=Quantiles)
    output_tokens: Quantiles = field(default_factory=Quantiles)
    queue_s: Quantiles = field(default_factory=Quantiles)
    ttft_s: Quantiles = field(default_factory=Quantiles)
    e2e_s: Quantiles = field(default_factory=Quantiles)
    arrivals_per_s: float | None = None
    peak_tokens: int | None = None
    outcomes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Server:
    """A server now. Counters count since its start. `slots` None: its pipeline has none that can be compared."""

    model: str | None = None
    state: str | None = None
    pipeline: str | None = None
    device: str | None = None
    uptime_s: float | None = None
    kv_cache_usage: float | None = None  # 0..1, now
    kv_tokens: int | None = None  # what its cache holds
    kv_bytes_per_token: float | None = None
    preemptions: int | None = None
    finished: int | None = None
    refused: int | None = None
    queue_limit: int | None = None
    slots: int | None = None
    batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    itl_s: Quantiles = field(default_factory=Quantiles)


@dataclass(frozen=True, slots=True)
class Vitals:
    """One look. `traffic` None: the server does not tell."""

    server: Server
    traffic: Traffic | None


def read_server(document: object) -> Server:
    """From `/v1/stats`."""
    stats = members(document)
    settings = members(stats.get("settings"))
    engine, cache = members(settings.get("engine")), members(stats.get("kv_cache"))
    pipeline = _word(stats.get("pipeline"))
    sequences = whole(engine.get("max_num_seqs")) if pipeline in CONTINUOUS else None
    return Server(
        model=_word(stats.get("model")),
        state=_word(stats.get("state")),
        pipeline=pipeline,
        device=_word(stats.get("device")),
        uptime_s=number(stats.get("uptime_s")),
        kv_cache_usage=number(stats.get("kv_cache_usage")),
        kv_tokens=whole(cache.get("tokens")),
        kv_bytes_per_token=number(cache.get("bytes_per_token")),
        preemptions=whole(stats.get("preemptions")),
        finished=whole(stats.get("finished")),
        refused=whole(stats.get("refused")),
        queue_limit=whole(stats.get("queue_limit")),
        slots=None if sequences is None else sequences * (whole(engine.get("data_parallel_size")) or 1),
        batched_tokens=whole(engine.get("max_num_batched_tokens")),
        gpu_memory_utilization=number(engine.get("gpu_memory_utilization")),
        itl_s=_quantiles(stats.get("inter_token_latency_s")),
    )


def read_traffic(document: object) -> Traffic | None:
    """From `/v1/traffic`; None where that is no account of traffic."""
    told = members(document)
    records, window_s = whole(told.get("records")), number(told.get("window_s"))
    if records is None or window_s is None:
        return None
    counts = {name: whole(count) for name, count in members(told.get("outcomes")).items()}
    return Traffic(
        records=records,
        window_s=window_s,
        in_flight=_quantiles(told.get("in_flight")),
        source_tokens=_quantiles(told.get("source_tokens")),
        output_tokens=_quantiles(told.get("output_tokens")),
        queue_s=_quantiles(told.get("queue_s")),
        ttft_s=_quantiles(told.get("ttft_s")),
        e2e_s=_quantiles(told.get("e2e_s")),
        arrivals_per_s=number(told.get("arrivals_per_s")),
        peak_tokens=whole(told.get("peak_tokens")),
        outcomes={name: count for name, count in counts.items() if count},
    )


def _quantiles(document: object) -> Quantiles:
    told: dict[str, Any] = members(document)
    return Quantiles(number(told.get("p50")), number(told.get("p95")), number(told.get("max")))


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
