"""The statistics tap: what vLLM's scheduler and output loop report, put into an `EngineGauge` without scraping.

vLLM builds stat loggers itself and calls the interface unstable, so this reads few fields, and the tests that run on the
oldest and newest supported vLLM hold them. With data parallelism each engine reports for itself; loads are summed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from dragoman.telemetry.engine import EngineGauge

Stepped = Callable[[int], None]


class SchedulerStatsLogger(StatLoggerBase):
    """Records for all engines of one `AsyncLLM` into one gauge."""

    def __init__(self, gauge: EngineGauge, loads: dict[int, tuple[int, int, float]], stepped: Stepped) -> None:
        self._gauge = gauge
        self._loads = loads
        self._stepped = stepped

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        **_: Any,
    ) -> None:
        if iteration_stats is not None:
            self._iteration(iteration_stats)
        if scheduler_stats is not None:
            self._loads[engine_idx] = (
                scheduler_stats.num_running_reqs,
                scheduler_stats.num_waiting_reqs + getattr(scheduler_stats, "num_skipped_waiting_reqs", 0),
                scheduler_stats.kv_cache_usage,
            )
            running, waiting, usage = zip(*self._loads.values(), strict=True)
            self._gauge.load(sum(running), sum(waiting), max(usage))
            self._stepped(sum(running))

    def _iteration(self, iteration: Any) -> None:
        gauge = self._gauge
        gauge.steps += 1
        gauge.preemptions += iteration.num_preempted_reqs
        gauge.prompt_tokens += iteration.num_prompt_tokens
        gauge.completion_tokens += iteration.num_generation_tokens
        gauge.finished += len(iteration.finished_requests)
        gauge.latencies(iteration.time_to_first_tokens_iter, iteration.inter_token_latencies_iter)

    def log_engine_initialized(self) -> None:
        """Nothing to say: the server says when it listens."""


class StatsLoggerFactory:
    """What `AsyncLLM.from_engine_args(stat_loggers=[...])` calls, once for each engine. `stepped` hears of each step, with
    the number of sequences that run after it."""

    def __init__(self, gauge: EngineGauge, stepped: Stepped) -> None:
        self._gauge = gauge
        self._stepped = stepped
        self._loads: dict[int, tuple[int, int, float]] = {}

    def __call__(self, vllm_config: Any, engine_index: int = 0) -> StatLoggerBase:
        return SchedulerStatsLogger(self._gauge, self._loads, self._stepped)
