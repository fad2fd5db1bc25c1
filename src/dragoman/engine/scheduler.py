"""vLLM's scheduler, sending less: the tokens of a sequence are reported in groups.

vLLM's engine process sends an output for each sequence and step, and the server's process handles each: tens of microseconds
for an event of a stream. A small model generates 25,000 tokens a second, which one Python process cannot handle one by one. So
a sequence sends its first token at once (TTFT), and the rest of its tokens with its end. Between them a whole answer
(`RequestOutputKind.FINAL_ONLY`) sends groups of `MOST_HELD` tokens, and a stream one output each interval of `StreamPacing`.
Statistics of steps and all decisions of the scheduler are vLLM's own. vLLM's `stream_interval` counts tokens instead, and
holds them back in the server's process, which then has received and detokenised each.

Loaded by vLLM's engine process, by the name `SCHEDULER`. vLLM calls the interface of schedulers not public: this overrides two
methods that 0.26 to 0.33 have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.outputs import LogprobsLists

SCHEDULER = "dragoman.engine.scheduler.make_scheduler"
MOST_HELD = 32
"""Tokens of a group of a whole answer. Statistics of tokens (tokens a second) are late by so many at most."""
EVENT_S = 120e-6
"""CPU time of the server's process for one event of a stream: 45 to 150 µs, by host (docs/notebook.md)."""
EVENTS_SHARE = 1 / 3
"""Of the server's process, for events: the rest is for requests."""
LONGEST_INTERVAL_S = 0.25
_PHASE = 0.618  # the golden ratio: multiples of it, without their whole part, are spread evenly however many there are


@dataclass(frozen=True, slots=True)
class StreamPacing:
    """How often a stream is sent what was generated. Reaches the scheduler as vLLM's `additional_config`."""

    interval_s: float  # at least; 0: each token is sent

    def interval(self, streams: int) -> float:
        """The interval in seconds while so many streams run: longer where their events would take too much CPU time."""
        return min(max(streams * EVENT_S / EVENTS_SHARE, self.interval_s), LONGEST_INTERVAL_S)

    def compute_hash(self) -> str:
        """Of what vLLM's compiled code depends on, as vLLM asks for: nothing."""
        return ""


@dataclass(eq=False, slots=True)
class _Group:
    """The outputs of one request that are held back. `due_s`: when a stream's are sent; None: a whole answer."""

    due_s: float | None
    outputs: list[Any] = field(default_factory=list[Any])


class OutputGroups:
    """The outputs that are held back, by request. `clock`: seconds."""

    def __init__(self, pacing: StreamPacing, clock: Callable[[], float] = monotonic) -> None:
        self._pacing = pacing
        self._clock = clock
        self._groups: dict[str, _Group] = {}
        self._streams = 0
        self._phase = 0.0

    def due(self, outputs: Iterable[Any], requests: dict[str, Any]) -> list[Any]:
        """Those of one step's `outputs` (EngineCoreOutput) that are to be sent now, with the tokens held before."""
        now_s, interval_s = self._clock(), self._pacing.interval(self._streams)
        return [output for output in outputs if self._is_due(output, requests, now_s, interval_s)]

    def preempted(self, names: Collection[str]) -> list[Any]:
        """What is held of these streams, to be sent now: their next step may be far away."""
        released: list[Any] = []
        for name in names:
            group = self._groups.get(name)
            if group is not None and group.due_s is not None and group.outputs:
                released.append(_joined(group))
        return released

    def keep_only(self, requests: dict[str, Any]) -> None:
        """Drop what is held of requests that are not among `requests`: they were aborted."""
        for name in self._groups.keys() - requests.keys():
            self._remove(name)

    def _is_due(self, output: Any, requests: dict[str, Any], now_s: float, interval_s: float) -> bool:
        group = self._groups.get(output.request_id)
        if group is None:
            request = requests.get(output.request_id)  # None: it ended with its first token
            if request is not None and output.finish_reason is None:
                self._add(request, output.request_id, now_s, interval_s)
            return True
        group.outputs.append(output)
        if output.finish_reason is None:
            if group.due_s is None:
                if len(group.outputs) < MOST_HELD:
                    return False
            elif now_s < group.due_s:
                return False
            else:
                group.due_s = now_s + interval_s
        else:
            self._remove(output.request_id)
        _joined(group)
        return True

    def _add(self, request: Any, name: str, now_s: float, interval_s: float) -> None:
        """Hold back what follows the first token, if it may be.

        A stream's first interval is a part of one, another for each, so that streams that began in one step are not all
        sent in the same steps: the server's process would stop for each such burst.
        """
        params = request.sampling_params
        if params is None:
            return
        if params.output_kind == RequestOutputKind.FINAL_ONLY:
            self._groups[name] = _Group(None)
        elif params.output_kind == RequestOutputKind.DELTA and self._pacing.interval_s:
            self._phase = (self._phase + _PHASE) % 1
            self._groups[name] = _Group(now_s + interval_s * self._phase)
            self._streams += 1

    def _remove(self, name: str) -> None:
        self._streams -= self._groups.pop(name).due_s is not None


def _joined(group: _Group) -> Any:
    """The last of the group's outputs, with the tokens, log-probabilities and events of all; the group is empty then."""
    held, group.outputs = group.outputs, []
    last = held[-1]
    if len(held) == 1:
        return last
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
    return last


class _GroupedScheduler(Scheduler):
    """For vLLM without asynchronous scheduling."""

    def __init__(self, vllm_config: Any, **named: Any) -> None:
        super().__init__(vllm_config=vllm_config, **named)
        self._groups = OutputGroups(vllm_config.additional_config)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        made = super().update_from_output(scheduler_output, model_runner_output)
        for outputs in made.values():
            outputs.outputs = self._groups.due(outputs.outputs, self.requests)
        for output in self._groups.preempted(scheduler_output.preempted_req_ids or ()):
            client = self.requests[output.request_id].client_index
            made.setdefault(client, EngineCoreOutputs()).outputs.append(output)
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
