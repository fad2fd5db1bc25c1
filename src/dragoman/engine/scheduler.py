"""vLLM's scheduler, sending less: a sequence whose caller wants the whole answer reports its tokens in groups.

vLLM's engine process sends an output for each sequence and step, and the server's process handles each, also where nothing is
done with it but adding a token to a list. Here such a sequence (`RequestOutputKind.FINAL_ONLY`) sends its first token (TTFT),
then groups of `MOST_HELD`, and what is left with its end. Streams, statistics of steps and all decisions of the scheduler are
vLLM's own.

Loaded by vLLM's engine process, by the name `SCHEDULER`. vLLM calls the interface of schedulers not public: this overrides two
methods that 0.26 to 0.33 have in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import LogprobsLists

SCHEDULER = "dragoman.engine.scheduler.make_scheduler"
MOST_HELD = 32
"""Tokens of a group. Statistics of tokens (tokens a second) are late by so many at most."""


class OutputGroups:
    """The outputs of whole answers that are held back, by request."""

    def __init__(self) -> None:
        self._held: dict[str, list[Any]] = {}

    def due(self, outputs: Iterable[Any], requests: dict[str, Any]) -> list[Any]:
        """Those of one step's `outputs` (EngineCoreOutput) that are to be sent now, with the tokens held before."""
        return [output for output in outputs if self._is_due(output, requests)]

    def keep_only(self, requests: dict[str, Any]) -> None:
        """Drop what is held of requests that are not among `requests`: they were aborted."""
        for name in self._held.keys() - requests.keys():
            del self._held[name]

    def _is_due(self, output: Any, requests: dict[str, Any]) -> bool:
        name: str = output.request_id
        held = self._held.get(name)
        if held is None:
            request = requests.get(name)  # None: it ended with its first token
            if request is not None and output.finish_reason is None and _wants_whole(request):
                self._held[name] = []
            return True
        held.append(output)
        if output.finish_reason is None and len(held) < MOST_HELD:
            return False
        _join(held)
        if output.finish_reason is None:
            self._held[name] = []
        else:
            del self._held[name]
        return True


def _wants_whole(request: Any) -> bool:
    params = request.sampling_params
    return params is not None and params.output_kind == RequestOutputKind.FINAL_ONLY


def _join(held: list[Any]) -> None:
    """Give the last of `held` the tokens, log-probabilities and events of all."""
    last = held[-1]
    last.new_token_ids = [token for output in held for token in output.new_token_ids]
    logprobs = [output.new_logprobs for output in held if output.new_logprobs is not None]
    if logprobs:
        last.new_logprobs = LogprobsLists(
            np.concatenate([one.logprob_token_ids for one in logprobs]),
            np.concatenate([one.logprobs for one in logprobs]),
            np.concatenate([one.sampled_token_ranks for one in logprobs]),
        )
    if any(output.events for output in held):
        last.events = [event for output in held for event in output.events or ()]


class _GroupedScheduler(Scheduler):
    """For vLLM without asynchronous scheduling."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._groups = OutputGroups()

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        made = super().update_from_output(scheduler_output, model_runner_output)
        for outputs in made.values():
            outputs.outputs = self._groups.due(outputs.outputs, self.requests)
        return made

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        finished = super().finish_requests(request_ids, finished_status)
        self._groups.keep_only(self.requests)
        return finished


class _GroupedAsyncScheduler(_GroupedScheduler, AsyncScheduler):
    """With it, vLLM's default."""


def make_scheduler(vllm_config: Any, **named: Any) -> Scheduler:
    """As vLLM calls the class of a scheduler."""
    kind = _GroupedAsyncScheduler if vllm_config.scheduler_config.async_scheduling else _GroupedScheduler
    return kind(vllm_config=vllm_config, **named)
