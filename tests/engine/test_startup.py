"""Phases of a start, recognised from lines as vLLM 0.26 and 0.32 log them, and followed in a growing file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.engine import startup
from dragoman.engine.startup import StartupPhases
from dragoman.telemetry.engine import EngineGauge
from dragoman.wire import StartupPhase
from tests.waiting import until

CPU_032 = """\
INFO 13:33:59 9181 [vllm.v1.engine.async_llm] AsyncLLM created with log_stats=False
INFO 13:34:13 10011 [vllm.v1.engine.core] Initializing a V1 LLM engine (v0.32.0) with config: model='weights'
INFO 13:35:32 14186 [vllm.v1.worker.cpu_model_runner] Starting to load model weights...
Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]
INFO 13:35:32 14186 [vllm.model_executor.model_loader.default_loader] Loading weights took 0.05 seconds
INFO 13:35:33 14186 [vllm.v1.worker.cpu_model_runner] Warming up model for the compilation...
INFO 13:36:00 14186 [vllm.compilation.decorators] [backbone] saved AOT compiled function to /cache/model
INFO 13:36:00 14186 [vllm.compilation.monitor] [backbone] Initial profiling/warmup run took 0.07 s
INFO 13:36:01 14186 [vllm.v1.worker.cpu_model_runner] Warming up done.
INFO 13:36:01 14186 [vllm.v1.worker.cpu_worker] Explicitly set (0.47/8.84) GiB for KV cache on node 0.
INFO 13:36:01 13769 [vllm.v1.core.kv_cache_utils] CPU KV cache size: 65,536 tokens
INFO 13:36:01 13769 [vllm.v1.engine.core] init engine (profile, create kv cache, warmup model) took 28.36 s
"""
CUDA_026 = """\
INFO 13:34:13 10011 [vllm.v1.engine.core] Initializing a V1 LLM engine (v0.26.0) with config: model='weights'
INFO 13:35:32 14186 [vllm.v1.worker.gpu_model_runner] Starting to load model weights...
INFO 13:35:33 14186 [vllm.v1.worker.gpu_model_runner] Model loading took 3.4 GiB memory and 1.2 seconds
INFO 13:35:34 14186 [vllm.compilation.backends] Using cache directory: /cache for vLLM's torch.compile
INFO 13:35:35 14186 [vllm.compilation.backends] Dynamo bytecode transform time: 3.10 s
INFO 13:36:00 14186 [vllm.compilation.monitor] torch.compile took 21.20 s in total
INFO 13:36:00 14186 [vllm.compilation.monitor] Initial profiling/warmup run took 0.40 s
INFO 13:36:01 14186 [vllm.v1.worker.gpu_worker] Available KV cache memory: 61.2 GiB
INFO 13:36:01 13769 [vllm.v1.core.kv_cache_utils] GPU KV cache size: 1,065,536 tokens
\rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67 [00:00<?, ?it/s]
INFO 13:36:21 14186 [vllm.v1.worker.gpu_model_runner] Graph capturing finished in 12 secs, took 0.66 GiB
INFO 13:36:21 13769 [vllm.v1.engine.core] init engine (profile, create kv cache, warmup model) took 28.36 s
"""


def names(log: str, *, compiles: bool = True) -> list[str]:
    gauge = EngineGauge()
    phases = StartupPhases(gauge, compiles=compiles)
    for line in log.splitlines():
        phases.line(line)
    phases.finish()
    assert all(phase.duration_s >= 0 for phase in gauge.stats.startup)
    return [phase.name for phase in gauge.stats.startup]


UNCOMPILED = "\n".join(line for line in CPU_032.splitlines() if "compilation.decorators" not in line)
ON_CPU = ["start processes", "load", "compile", "warm up", "KV cache"]


@pytest.mark.parametrize(
    ("log", "phases"),
    [
        (CPU_032, ON_CPU),
        (CUDA_026, [*ON_CPU, "CUDA graphs"]),
        (UNCOMPILED, ["start processes", "load", "warm up", "KV cache"]),
    ],
    ids=["cpu", "gpu", "uncompiled"],
)
def test_the_phases_of_a_start(log: str, phases: list[str]) -> None:
    assert names(log, compiles=log != UNCOMPILED) == phases


async def test_the_log_is_followed_from_its_end_and_the_present_phase_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "_POLL_S", 0.001)
    log_file, gauge = tmp_path / "engine.log", EngineGauge()
    log_file.write_text(CUDA_026)  # of an earlier start
    lines = CPU_032.splitlines(keepends=True)
    async with startup.followed(log_file, gauge, compiles=True):
        await asyncio.sleep(0)
        for number, line in enumerate(lines):
            with log_file.open("a") as file:
                file.write(line)
            if "for the compilation" in line:
                await until(lambda: gauge.stats.startup[-1].name == "compile", "the phase compile")
                assert [phase.name for phase in gauge.stats.startup] == ["start processes", "load", "compile"]
            assert number < len(lines)
        await until(lambda: gauge.stats.startup[-1].name == "KV cache", "the last phase")
    assert [phase.name for phase in gauge.stats.startup] == ON_CPU


async def test_without_a_log_file_the_start_is_one_phase() -> None:
    gauge = EngineGauge()
    async with startup.followed(None, gauge, compiles=True, import_s=2.5):
        pass
    assert gauge.stats.startup[0] == StartupPhase(name="import vLLM", duration_s=2.5)
    assert [phase.name for phase in gauge.stats.startup[1:]] == ["start processes"]
