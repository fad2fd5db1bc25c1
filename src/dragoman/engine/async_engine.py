"""vLLM's `AsyncLLM`, in this process, as an engine: start, generate, stream, statistics, crash.

Takes token ids and gives text; knows nothing of languages, prompts or HTTP. The scheduler runs in a process of vLLM's own;
this side feeds it and detokenises. Sequences join and leave the running batch at every step (continuous batching).
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncGenerator, Mapping
from contextlib import nullcontext, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
from vllm import SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.loggers import StatLoggerBase

from dragoman import heap
from dragoman.engine import forkserver, process, startup
from dragoman.engine.compat import (
    CRASHED,
    engine_arguments,
    prompt_of,
    sampling_params,
    token_logprobs,
    translated_errors,
)
from dragoman.engine.detokenize import Detokenizer
from dragoman.engine.hang import LOOK_S, HangWatch
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineDead, EngineFailed, EngineHung
from dragoman.guard import guard_children
from dragoman.sharedgpu import SharedGpu
from dragoman.telemetry.engine import EngineGauge
from dragoman.types import Completion, CompletionReason, Delta, EngineSequence, Timings, TokenLogprobs
from dragoman.wire import EngineStats

_REASONS: dict[str, CompletionReason] = {"stop": "stop", "length": "length", "repetition": "repetition"}
_EXIT_S = 10.0  # a killed process that holds a GPU takes a moment to exit


class AsyncEngine:
    """One `AsyncLLM`. `start` takes tens of seconds and runs off the event loop; after `shutdown` it starts another."""

    def __init__(
        self,
        spec: EngineSpec,
        log_file: Path | None = None,
        *,
        shutdown_timeout_s: float = 0.0,
        import_s: float = 0.0,
        hang_timeout_s: float | None = None,
        vllm_arguments: Mapping[str, Any] | None = None,
        gpu: SharedGpu | None = None,
    ) -> None:
        """`import_s`: what importing this module took, to be reported with the phases of the first start. `hang_timeout_s`: of
        `HangWatch`. `gpu`: that it shares with other engines.

        `vllm_arguments`: beside those of `spec`, by vLLM's names, for measurements of what is not a setting.
        """
        self.spec = spec
        # Random weights (`dummy`) have no probabilities that mean anything.
        self.with_logprobs = spec.engine.token_logprobs and spec.engine.load_format != "dummy"
        self._import_s = import_s
        self._log_file = log_file
        self._shutdown_timeout_s = shutdown_timeout_s
        self._vllm_arguments = vllm_arguments
        self._gpu = gpu
        self._daemon: int | None = None  # of MPS, whose client it is
        self._gauge = EngineGauge()
        self._watch = HangWatch(spec.engine.max_num_batched_tokens or 0, hang_timeout_s)
        self._llm: AsyncLLM | None = None
        self._detokenizer = Detokenizer(None)
        self._schedulers: set[BaseProcess] = set()
        self._running: list[psutil.Process] = []

    async def start(self) -> None:
        """Load the model and start vLLM's processes. Raises `EngineDead` with the log's end when that fails.

        Engines of one GPU start one after the other.
        """
        if self._gpu is None:
            await self._start()
        else:
            async with self._gpu.turn() as self._daemon:
                await self._start()
                self._gpu.enter(psutil.Process(one.pid) for one in self._schedulers)

    async def _start(self) -> None:
        guard_children()
        forkserver.use()
        before = set(multiprocessing.active_children())
        building = asyncio.create_task(asyncio.to_thread(self._build))
        try:
            import_s, self._import_s = self._import_s, 0.0
            compiles = not self.spec.engine.enforce_eager
            async with startup.followed(self._log_file, self._gauge, compiles=compiles, import_s=import_s):
                self._llm = llm = await asyncio.shield(building)
        except asyncio.CancelledError:
            await _abandon(building, before)
            raise
        self._schedulers = set(multiprocessing.active_children()) - before
        schedulers = [psutil.Process(one.pid) for one in self._schedulers]
        self._running = [*schedulers, *process.workers_of(schedulers)]
        self._detokenizer = Detokenizer(llm.get_tokenizer())
        self._gauge.stats.kv_cache_tokens = _kv_cache_tokens(llm.vllm_config)
        self._gauge.stats.dtype = str(llm.model_config.dtype).removeprefix("torch.")
        if self.spec.device == "cpu":
            process.keep_off_workers(one.pid for one in schedulers)
        # After a restart: the engine before this one is frozen garbage, and building this one has made new threads.
        if heap.is_heap_frozen():
            heap.freeze_heap()
        if process.has_left_worker_cores():
            process.leave_worker_cores()

    def _build(self) -> AsyncLLM:
        arguments = engine_arguments(
            self.spec, shutdown_timeout_s=self._shutdown_timeout_s, beside=self._vllm_arguments
        )
        streams = process.streams_to_file(self._log_file) if self._log_file else nullcontext()
        try:
            with streams, process.ignoring_terminal_signals(), process.on_all_cores():
                return AsyncLLM.from_engine_args(arguments, stat_loggers=[self._stats_logger])
        except Exception as error:
            log_end = process.last_lines(self._log_file)
            raise EngineDead(f"the engine did not start: {error}{log_end}") from error

    def _stats_logger(self, _: Any, engine_index: int = 0) -> StatLoggerBase:
        """What vLLM calls once for each of its engines, of which there is one."""
        return SchedulerStatsLogger(self._gauge)

    @property
    def _engine(self) -> AsyncLLM:
        if self._llm is None:
            raise EngineDead("the engine is not running")
        return self._llm

    @property
    def max_model_len(self) -> int:
        return self._engine.model_config.max_model_len

    async def generate(self, sequence: EngineSequence) -> Completion:
        """Run one sequence to its end. Cancelling the caller aborts it in the engine."""
        completion: Completion | None = None
        deferred = self._detokenizer.takes(sequence)
        with translated_errors(self._has_crashed):
            # One output, at its end. Leaving the loop there would leave vLLM's generator to a closing task of the event loop.
            params = sampling_params(sequence, detokenize=not deferred, logprobs=self.with_logprobs)
            async for output in self._outputs(sequence, params):
                whole = output.outputs[0]
                text = self._detokenizer.text_of(whole, taken=deferred)
                logprobs = token_logprobs(whole.logprobs.logprobs) if whole.logprobs else None
                completion = self._completion(output, text, len(whole.token_ids), logprobs)
        if completion is None:
            raise EngineDead("the engine ended a sequence without an answer")
        return completion

    async def stream(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        """Deltas, then the `Completion`. Closing the iterator aborts the sequence in the engine."""
        text = self._detokenizer.stream() if self._detokenizer.takes(sequence) else None
        parts: list[str] = []
        tokens = 0
        logprobs: list[float] = []
        with translated_errors(self._has_crashed):
            params = sampling_params(sequence, stream=True, detokenize=text is None, logprobs=self.with_logprobs)
            async for output in self._outputs(sequence, params):
                new = output.outputs[0]
                tokens += len(new.token_ids)
                if new.logprobs:
                    logprobs += new.logprobs.logprobs
                if text is None:
                    part = new.text
                elif output.finished:
                    part = text.end(new.token_ids, stopped=new.finish_reason == "stop")
                else:
                    part = text.add(new.token_ids)
                if part:
                    parts.append(part)
                    yield Delta(part)
                if output.finished:
                    yield self._completion(output, "".join(parts), tokens, token_logprobs(logprobs))
                    return
        raise EngineDead("the engine ended a sequence without an answer")

    def _completion(self, output: Any, text: str, tokens: int, logprobs: TokenLogprobs | None) -> Completion:
        completion = _completion(output, text, tokens, logprobs)
        prefill_s = completion.timings.prefill_s if completion.timings else None
        self._watch.prefilled(completion.prompt_tokens - (output.num_cached_tokens or 0), prefill_s or 0.0)
        return completion

    def _outputs(self, sequence: EngineSequence, params: SamplingParams) -> AsyncGenerator[Any]:
        return self._engine.generate(prompt_of(sequence), params, sequence.id)

    def stats(self) -> EngineStats:
        return self._gauge.snapshot()

    async def check_health(self) -> None:
        with translated_errors():
            await self._engine.check_health()

    def _has_crashed(self) -> bool:
        return self._llm is None or self._llm.errored

    async def crashed(self) -> EngineDead:
        """Return once the running engine has crashed, or hangs: then sequences are in flight, which `shutdown` ends.

        Sequences in flight notice a crash sooner: for that, this is for when there are none.
        """
        llm = self._engine
        self._watch.restart()
        looked_s = monotonic()
        # vLLM sets a flag when one of its processes exits, and offers no event to wait for.
        while self._llm is not llm or not llm.errored:
            await asyncio.sleep(LOOK_S)
            before_s, looked_s = looked_s, monotonic()
            has_sequences = llm.output_processor.has_unfinished_requests()
            still_s = self._watch.look(looked_s - before_s, self._gauge.stats.steps, has_sequences=has_sequences)
            if self._llm is llm and still_s is not None:
                return EngineHung(f"the engine hangs: it has sequences, and made no step for {still_s:.0f} s")
        return EngineDead(CRASHED)

    async def shutdown(self) -> None:
        """End vLLM's processes, crashed ones too; what still runs ends with `EngineDead`."""
        llm, self._llm = self._llm, None
        if llm is not None:
            has_crashed = llm.errored
            # vLLM cancels the task that would raise this to them, often before it does.
            llm.output_processor.propagate_error(EngineDeadError())
            if self._gpu is not None and has_crashed:
                self._gpu.report_broken(self._daemon)
            elif self._gpu is not None:
                await asyncio.to_thread(self._gpu.leave, self._running)
            await asyncio.to_thread(_end, llm, self._schedulers, self._running)
            self._gauge.load(0, 0, 0.0)


def _end(llm: AsyncLLM, schedulers: set[BaseProcess], processes: list[psutil.Process]) -> None:
    """Kill its processes and wait until they are gone: the next engine needs the memory that they hold.

    vLLM does not know of some that still run: workers that hang, and all of them if the fork server was killed.
    """
    llm.shutdown(timeout=0)
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    for one in schedulers:  # children of this process, if they were spawned
        one.join(_EXIT_S)
    psutil.wait_procs(processes, _EXIT_S)


async def _abandon(building: asyncio.Task[AsyncLLM], before: set[BaseProcess]) -> None:
    """End a start that was cancelled: a thread cannot be cancelled, but the processes that it waits for can be killed."""
    while not building.done():
        for one in set(multiprocessing.active_children()) - before:
            one.kill()
        await asyncio.wait({building}, timeout=0.2)
    if building.exception() is None:
        await asyncio.to_thread(building.result().shutdown, timeout=0)


def _kv_cache_tokens(config: Any) -> int | None:
    """How many tokens the KV cache holds: vLLM's own figure where it has one (0.32), else blocks times block size."""
    cache = config.cache_config
    tokens = getattr(cache, "kv_cache_size_tokens", None)
    if tokens is None and cache.num_gpu_blocks:
        tokens = cache.num_gpu_blocks * cache.block_size
    return tokens


def _completion(output: Any, text: str, tokens: int, logprobs: TokenLogprobs | None) -> Completion:
    reason = output.outputs[0].finish_reason
    if reason == "error":
        raise EngineFailed("the engine failed on this sequence")
    if reason not in _REASONS:  # "abort", and not by us: it is about to end
        raise EngineDead(f"the engine ended a sequence with {reason!r}")
    return Completion(
        text,
        _REASONS[reason],
        prompt_tokens=len(output.prompt_token_ids),
        completion_tokens=tokens,
        timings=_timings(output.metrics),
        logprobs=logprobs,
    )


def _timings(stats: Any) -> Timings | None:
    """From vLLM's own time stamps, which are its engine core's; None where statistics are off."""
    if stats is None or not stats.first_token_ts:
        return None
    return Timings(
        queue_s=max(stats.scheduled_ts - stats.queued_ts, 0.0),
        prefill_s=max(stats.first_token_ts - stats.scheduled_ts, 0.0),
        decode_s=max(stats.last_token_ts - stats.first_token_ts, 0.0),
    )


class SchedulerStatsLogger(StatLoggerBase):
    """Records what vLLM's scheduler and output loop report into an `EngineGauge`.

    vLLM calls the interface unstable, so this reads few fields.
    """

    def __init__(self, gauge: EngineGauge) -> None:
        self._gauge = gauge

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        **_: Any,
    ) -> None:
        if iteration_stats is not None:
            gauge = self._gauge
            gauge.stats.preemptions += iteration_stats.num_preempted_reqs
            gauge.stats.prompt_tokens += iteration_stats.num_prompt_tokens
            gauge.stats.completion_tokens += iteration_stats.num_generation_tokens
            gauge.stats.finished += len(iteration_stats.finished_requests)
            # Not each token's: most tokens are reported in groups (see `scheduler`).
            ended = [one for one in iteration_stats.finished_requests if one.num_generation_tokens > 1]
            gauge.latencies(
                iteration_stats.time_to_first_tokens_iter, [one.mean_time_per_output_token for one in ended]
            )
        if scheduler_stats is not None:
            self._gauge.stats.steps += 1
            self._gauge.load(
                scheduler_stats.num_running_reqs,
                scheduler_stats.num_waiting_reqs + getattr(scheduler_stats, "num_skipped_waiting_reqs", 0),
                scheduler_stats.kv_cache_usage,
            )

    def log_engine_initialized(self) -> None:
        """Nothing: the server logs when it listens."""
