"""`workers`, a baseline: N worker processes, each with an engine of its own, each running one sequence at a time.

A worker that becomes free takes the sequence that has waited longest, so none waits behind a busy worker while another is
idle. What is inherent in the design, and is left as it is: each sequence crosses to another process and back; at most N run
at once, and each uses the whole device for one sequence's tokens; every worker holds the weights and a share of the memory
again; and on one device the workers compete for it. Results cannot stream, and what runs cannot be cancelled.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dragoman.engine.spec import EngineSpec
from dragoman.pipelines.messages import Plan
from dragoman.pipelines.pool import VLLM_ENGINE, WorkerPool

Cores = list[tuple[int, ...]]  # the CPUs of each physical core


class WorkersPipeline(WorkerPool):
    """The contract over `workers` processes that hold one sequence each; what waits, waits in the server."""

    name = "workers"

    def __init__(self, spec: EngineSpec, log_file: Path | None, *, workers: int, engine: str = VLLM_ENGINE) -> None:
        cores = usable_cores() if spec.device == "cpu" else []
        share = share_of(spec, workers)
        plans = [_plan(share, log_file, engine, share_of_cores(cores, n, workers)) for n in range(workers)]
        # vLLM measures the GPU's free memory while it starts: two at once would measure each other.
        super().__init__(plans, held_by_worker=1, starting_at_once=workers if spec.device == "cpu" else 1)


def _plan(spec: EngineSpec, log_file: Path | None, engine: str, cores: Cores) -> Plan:
    cpus = tuple(cpu for core in cores for cpu in core)
    return Plan(spec, log_file, engine, batch_size=1, batch_timeout_s=0, cpus=cpus, threads=len(cores))


def share_of(spec: EngineSpec, workers: int) -> EngineSpec:
    """One worker's part of the memory; one sequence needs one slot."""
    kv_cache_bytes = spec.engine.kv_cache_memory_bytes
    engine = replace(
        spec.engine,
        max_num_seqs=1,
        gpu_memory_utilization=spec.engine.gpu_memory_utilization / workers,
        kv_cache_memory_bytes=kv_cache_bytes and kv_cache_bytes // workers,
    )
    return replace(spec, engine=engine)


def usable_cores() -> Cores:
    """The physical cores that this process may use, each with its CPUs; a core for each CPU where Linux does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores: dict[str, tuple[int, ...]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text(encoding="ascii").strip() if siblings.is_file() else str(cpu)
        cores[core] = (*cores.get(core, ()), cpu)
    return list(cores.values())


def share_of_cores(cores: Cores, number: int, workers: int) -> Cores:
    """Neighbouring cores for worker `number`; with more workers than cores, some share one."""
    start, end = number * len(cores) // workers, (number + 1) * len(cores) // workers
    return cores[start : max(end, start + 1)]
