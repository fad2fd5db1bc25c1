"""`static_batch`, a baseline: one worker process that gathers a batch, runs it to its end, and answers it whole.

A batch starts when `batch_size` sequences are there, or `batch_timeout_ms` after the engine was free and the first was. What
is inherent in the design, and is left as it is: each sequence crosses to another process and back; a lone one waits for
company that may not come; what arrives while a batch runs waits for all of it; and all of a batch wait for its longest, while
the slots of those that ended stay empty. Results cannot stream, and what runs cannot be cancelled.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dragoman.engine.spec import EngineSpec
from dragoman.pipelines.messages import Plan
from dragoman.pipelines.pool import VLLM_ENGINE, WorkerPool


class StaticBatchPipeline(WorkerPool):
    """The contract over one worker, which holds everything that waits and makes the batches."""

    name = "static_batch"

    def __init__(
        self,
        spec: EngineSpec,
        log_file: Path | None,
        *,
        batch_size: int,
        batch_timeout_ms: float,
        engine: str = VLLM_ENGINE,
    ) -> None:
        slots = min(batch_size, spec.engine.max_num_seqs or batch_size)
        spec = replace(spec, engine=replace(spec.engine, max_num_seqs=slots))
        plan = Plan(spec, log_file, engine, batch_size, batch_timeout_ms / 1000)
        super().__init__([plan], held_by_worker=None, starting_at_once=1)
