"""What a server says that fits its traffic: documents for tests, which change what they are about."""

from __future__ import annotations

from typing import Any

STATS: dict[str, Any] = {
    "state": "serving",
    "model": "Qwen/Qwen3-4B",
    "pipeline": "continuous",
    "device": "cuda",
    "running": 7,
    "waiting": 0,
    "kv_cache_usage": 0.1,
    "preemptions": 0,
    "finished": 40_000,
    "queue_limit": 1_088,
    "refused": 0,
    "busy_s": 3_000.0,
    "uptime_s": 9_000.0,
    "inter_token_latency_s": {"p50": 0.004, "p95": 0.009, "p99": 0.02},
    "kv_cache": {"tokens": 40_000, "bytes_per_token": 147_456},
    "settings": {"engine": {"max_num_seqs": 64, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.1}},
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
}
