"""vLLM's `LLM`, for worker processes: a batch goes in and comes back whole.

The scheduler runs in this process too (`VLLM_ENABLE_V1_MULTIPROCESSING=0`): a worker is a process already, and a second one
behind it costs a hop for each step. Measured on a CPU, that takes twice as long for a token and to start. Knows no sockets.
"""

from __future__ import annotations

import dataclasses
import os
from typing import get_args

from vllm import LLM
from vllm.engine.arg_utils import EngineArgs

from dragoman.engine.arguments import engine_arguments
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineFailed, EngineRejected
from dragoman.sequence import Completion, CompletionReason, Sequence

Result = Completion | EngineRejected | EngineFailed
_REASONS = get_args(CompletionReason)


class SyncEngine:
    """One `LLM`, started by building it, used by one thread."""

    def __init__(self, spec: EngineSpec) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # this process has threads: no forks
        arguments = engine_arguments(spec)
        self._llm = LLM(**{member.name: getattr(arguments, member.name) for member in dataclasses.fields(EngineArgs)})

    @property
    def max_model_len(self) -> int:
        return self._llm.llm_engine.model_config.max_model_len

    def generate(self, sequences: list[Sequence]) -> list[Result]:
        """One result for each sequence, in order. Raises `EngineDead`, or what vLLM raised, when the engine is broken."""
        refused = {sequence.id: refusal for sequence in sequences if (refusal := self._too_long(sequence))}
        fit = [sequence for sequence in sequences if sequence.id not in refused]
