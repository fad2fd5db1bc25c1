"""vLLM's `AsyncLLM`, in this process, as an engine: start, generate, stream, statistics, death.

Takes token ids and gives text; knows nothing of languages, prompts or HTTP. The scheduler runs in a process of vLLM's own;
this side feeds it and detokenises. Sequences join and leave the running batch at every step (continuous batching).
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import time
from typing import Any

from vllm import SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from dragoman import heap
from dragoman.engine import affinity, quiet
from dragoman.engine.arguments import engine_arguments, prompt_of, sampling_params
from dragoman.engine.detokenize import Detokenizer
from dragoman.engine.faults import CRASHED, translated
from dragoman.engine.prefill_gate import PrefillGate
from dragoman.engine.spawning import ignoring_terminal_signals
from dragoman.engine.spec import EngineSpec
from dragoman.engine.tap import StatsLoggerFactory
from dragoman.errors import EngineDead, EngineFailed
from dragoman.telemetry.engine import EngineGauge, EngineStats
from dragoman.types import Completion, CompletionReason, Delta, Sequence, Timings

_REASONS: dict[str, CompletionReason] = {"stop": "stop", "length": "length", "repetition": "repetition"}
_WATCH_S = 1.0
_END_S = 10.0  # a killed process that holds a GPU takes a moment to go


class AsyncEngine:
    """One `AsyncLLM`. `start` takes tens of seconds and runs off the event loop; after `shutdown` it starts another."""

    def __init__(self, spec: EngineSpec, log_file: Path | None = None, *, shutdown_timeout_s: float = 0.0) -> None:
        self.spec = spec
        self._log_file = log_file
        self._shutdown_timeout_s = shutdown_timeout_s
        self._gauge = EngineGauge()
        self.prefill_gate = PrefillGate((spec.engine.prefill_schedule_interval or 1) * spec.engine.data_parallel_size)
        self._llm: AsyncLLM | None = None
        self._detokenizer = Detokenizer(None)
        self._processes: set[BaseProcess] = set()

    async def start(self) -> None:
        """Load the model and start vLLM's processes. Raises `EngineDead` with the log's end when that fails."""
        before = set(multiprocessing.active_children())
        building = asyncio.create_task(asyncio.to_thread(self._build))
        try:
            self._llm = llm = await asyncio.shield(building)
            self._processes = set(multiprocessing.active_children()) - before
            self._detokenizer = Detokenizer(llm.get_tokenizer())
            self._gauge.kv_cache_tokens = _kv_cache_tokens(llm.vllm_config)
            if self.spec.device == "cpu":
                affinity.keep_off_workers(process.pid for process in self._processes if process.pid is not None)
            self._freeze_heap_again()
        except asyncio.CancelledError:
            await _abandon(building, before)
            raise

    def _freeze_heap_again(self) -> None:
        """In a process that had settled around another engine, which is frozen garbage now."""
        if heap.is_heap_frozen():
            heap.freeze_heap()
        if affinity.has_left_worker_cores():  # not all of its threads: building an engine makes some
            affinity.leave_worker_cores()

    def _build(self) -> AsyncLLM:
        arguments = engine_arguments(self.spec, shutdown_timeout_s=self._shutdown_timeout_s)
        streams = quiet.streams_to_file(self._log_file) if self._log_file else nullcontext()
        try:
            with streams, ignoring_terminal_signals(), affinity.on_all_cores():
                return AsyncLLM.from_engine_args(
                    arguments, stat_loggers=[StatsLoggerFactory(self._gauge, self.prefill_gate.stepped)]
                )
        except Exception as error:
            told = f"; the end of {self._log_file}:\n{quiet.tail(self._log_file)}" if self._log_file else ""
            raise EngineDead(f"the engine did not start: {error}{told}") from error

    @property
    def _engine(self) -> AsyncLLM:
        if self._llm is None:
            raise EngineDead("the engine is not running")
        return self._llm

    @property
    def max_model_len(self) -> int:
        return self._engine.model_config.max_model_len

    async def generate(self, sequence: Sequence) -> Completion:
        """Run one sequence to its end. Cancelling the caller aborts it in the engine."""
        completion: Completion | None = None
        ours = self._detokenizer.takes(sequence)
        came, waited_s = time(), await self.prefill_gate.join()
        with translated(self._is_dead):
            # One output, at its end. Leaving the loop there would leave vLLM's generator to a closing task of the event loop.
            async for output in self._outputs(sequence, sampling_params(sequence, detokenize=not ours), came):
                whole = output.outputs[0]
                text = self._detokenizer.text_of(whole, taken=ours)
                completion = _completion(output, text, len(whole.token_ids), waited_s)
        if completion is None:
            raise EngineDead("the engine ended a sequence without an answer")
        return completion

    async def stream(self, sequence: Sequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas, then the `Completion`. Closing the iterator aborts the sequence in the engine."""
        parts: list[str] = []
        tokens = 0
        came, waited_s = time(), await self.prefill_gate.join()
        with translated(self._is_dead):
            async for output in self._outputs(sequence, sampling_params(sequence, stream=True), came):
                part = output.outputs[0]
                tokens += len(part.token_ids)
                if part.text:
                    parts.append(part.text)
                    yield Delta(part.text)
                if output.finished:
                    yield _completion(output, "".join(parts), tokens, waited_s)
                    return
        raise EngineDead("the engine ended a sequence without an answer")

    def _outputs(self, sequence: Sequence, params: SamplingParams, came: float) -> AsyncGenerator[Any]:
        return self._engine.generate(prompt_of(sequence, came), params, sequence.id, priority=sequence.priority)

    def stats(self) -> EngineStats:
        stats, waiting = self._gauge.snapshot(), self.prefill_gate.waiting
        return replace(stats, waiting=stats.waiting + waiting) if waiting else stats

    async def check_health(self) -> None:
        with translated():
            await self._engine.check_health()

    def _is_dead(self) -> bool:
        return self._llm is None or self._llm.errored

    async def died(self) -> EngineDead:
        """Return once the running engine is dead. Sequences in flight hear of it sooner: this is for when there are none."""
        llm = self._engine
        # vLLM sets a flag when one of its processes dies, and tells nobody.
        while self._llm is not llm or not llm.errored:  # noqa: ASYNC110
            await asyncio.sleep(_WATCH_S)
        return EngineDead(CRASHED)

    async def shutdown(self) -> None:
        """End vLLM's processes, dead ones too; what still runs ends with `EngineDead`."""
        llm, self._llm = self._llm, None
        if llm is not None:
            # vLLM cancels the task that would tell them, often before it does.
            llm.output_processor.propagate_error(EngineDeadError())
            self.prefill_gate.stepped(0)
            await asyncio.to_thread(_end, llm, self._processes)
            self._gauge.load(0, 0, 0.0)


def _end(llm: AsyncLLM, processes: set[BaseProcess]) -> None:
    """Kill its processes and wait until they are gone: the next engine needs the memory that they hold."""
    llm.shutdown(timeout=0)
    for process in processes:
        process.join(_END_S)


async def _abandon(building: asyncio.Task[AsyncLLM], before: set[BaseProcess]) -> None:
    """End a start that nobody waits for: a thread cannot be cancelled, but the processes that it waits for can."""
    while not building.done():
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        await asyncio.wait({building}, timeout=0.2)
    if building.exception() is None:
        await asyncio.to_thread(building.result().shutdown, timeout=0)


def _kv_cache_tokens(config: Any) -> int | None:
    """How many tokens the KV cache holds: vLLM's own figure where it has one (0.32), else blocks times block size."""
    cache = config.cache_config
    told = getattr(cache, "kv_cache_size_tokens", None)
    if told is None and cache.num_gpu_blocks:
        told = cache.num_gpu_blocks * cache.block_size
    return told * config.parallel_config.data_parallel_size if told else None


def _completion(output: Any, text: str, tokens: int, waited_s: float) -> Completion:
    reason = output.outputs[0].finish_reason
    if reason == "error":
        raise EngineFailed("the engine failed on this sequence")
    if reason not in _REASONS:  # "abort", and not by us: it is about to end
        raise EngineDead(f"the engine ended a sequence with {reason!r}")
    return Completion(text, _REASONS[reason], len(output.prompt_token_ids), tokens, _timings(output.metrics, waited_s))


def _timings(stats: Any, waited_s: float) -> Timings | None:
    """From vLLM's own time stamps, which are its engine core's, and the wait before it; None where statistics are off."""
    if stats is None or not stats.first_token_ts:
        return None
    return Timings(
        queue_s=waited_s + max(stats.scheduled_ts - stats.queued_ts, 0.0),
        prefill_s=max(stats.first_token_ts - stats.scheduled_ts, 0.0),
        decode_s=max(stats.last_token_ts - stats.first_token_ts, 0.0),
    )
