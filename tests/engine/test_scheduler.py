"""Outputs of whole answers and of streams in groups: what is sent when, and that nothing of it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")

from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, FinishReason
from vllm.v1.outputs import LogprobsLists

from dragoman.engine.scheduler import (
    EVENT_S,
    EVENTS_SHARE,
    LONGEST_INTERVAL_S,
    MOST_HELD,
    OutputGroups,
    StreamPacing,
)

FINAL, DELTA = RequestOutputKind.FINAL_ONLY, RequestOutputKind.DELTA
INTERVAL_S = 0.04
STEP_S = 0.004


class Steps:
    """Steps of `STEP_S` of an engine whose requests generate a token in each: what is sent, with the time of its step."""

    def __init__(self, requests: dict[str, Any], interval_s: float = INTERVAL_S) -> None:
        self.requests = requests
        self.now_s = 0.0
        self.number = 0
        self.groups = OutputGroups(StreamPacing(interval_s), lambda: self.now_s)
        self.sent: dict[str, list[tuple[float, list[int]]]] = {}

    def run(self, steps: int, names: Iterable[str] | None = None, end: FinishReason | None = None) -> None:
        for _ in range(steps):
            outputs = [output(name, self.number, end) for name in names or self.requests]
            for name in self.requests.keys() & {one.request_id for one in outputs if end}:
                del self.requests[name]  # as vLLM does before the outputs are returned
            self.take(self.groups.due(outputs, self.requests))
            self.number += 1
            self.now_s = self.number * STEP_S

    def take(self, outputs: list[Any]) -> None:
        for one in outputs:
            self.sent.setdefault(one.request_id, []).append((self.now_s, one.new_token_ids))

    def times_s(self, name: str) -> list[float]:
        return [at_s for at_s, _ in self.sent[name]]

    def tokens(self, name: str) -> list[int]:
        return [token for _, tokens in self.sent[name] for token in tokens]


def requests_of(kind: RequestOutputKind, *names: str) -> dict[str, Any]:
    params = SamplingParams(output_kind=kind)
    return {name: SimpleNamespace(sampling_params=params) for name in names}


def output(name: str, token: int, end: FinishReason | None = None, **fields: Any) -> EngineCoreOutput:
    return EngineCoreOutput(name, [token], finish_reason=end, **fields)


def logprob(token: int) -> LogprobsLists:
    return LogprobsLists(np.array([[token]]), np.array([[-token / 10]], np.float32), np.array([1]))


def test_the_first_token_is_sent_then_groups_and_the_rest_with_the_end() -> None:
    groups, requests = OutputGroups(StreamPacing(INTERVAL_S)), requests_of(FINAL, "a")
    count = 2 * MOST_HELD + 5
    sent = [
        one.new_token_ids
        for token in range(count)
        for one in groups.due([output("a", token, FinishReason.STOP if token == count - 1 else None)], requests)
    ]
    assert [len(tokens) for tokens in sent] == [1, MOST_HELD, MOST_HELD, 4]
    assert [token for tokens in sent for token in tokens] == list(range(count))


def test_a_request_of_the_same_name_begins_again() -> None:
    groups, requests = OutputGroups(StreamPacing(INTERVAL_S)), requests_of(FINAL, "a")
    for _ in range(2):
        assert len(groups.due([output("a", 1)], requests)) == 1
        assert groups.due([output("a", 2)], requests) == []
        (last,) = groups.due([output("a", 3, FinishReason.LENGTH)], requests)
        assert last.new_token_ids == [2, 3]


def test_log_probabilities_and_events_are_joined_in_order() -> None:
    groups, requests = OutputGroups(StreamPacing(INTERVAL_S)), requests_of(FINAL, "a")
    preempted = EngineCoreEvent.new_event(EngineCoreEventType.PREEMPTED)
    groups.due([output("a", 0, new_logprobs=logprob(0))], requests)
    groups.due([output("a", 1, new_logprobs=logprob(1), events=[preempted])], requests)
    (last,) = groups.due([output("a", 2, FinishReason.STOP, new_logprobs=logprob(2))], requests)
    assert last.new_logprobs.logprob_token_ids.tolist() == [[1], [2]]
    assert last.new_logprobs.logprobs[:, 0].tolist() == pytest.approx([-0.1, -0.2])
    assert last.new_logprobs.sampled_token_ranks.tolist() == [1, 1]
    assert last.events == [preempted]


def test_a_stream_sends_its_first_token_then_once_an_interval_and_the_rest_with_its_end() -> None:
    steps = Steps(requests_of(DELTA, "a"))
    steps.run(102)
    steps.run(1, end=FinishReason.STOP)
    assert steps.tokens("a") == list(range(103))
    assert len(steps.sent["a"][0][1]) == 1
    first, *between, last = steps.times_s("a")
    assert (first, last) == (0.0, pytest.approx(102 * STEP_S))
    assert between[0] <= INTERVAL_S + STEP_S
    for earlier, later in pairwise(between):
        assert INTERVAL_S - 1e-9 <= later - earlier <= INTERVAL_S + STEP_S


def test_an_interval_of_0_sends_each_token() -> None:
    steps = Steps(requests_of(DELTA, "a"), interval_s=0.0)
    steps.run(20)
    assert [tokens for _, tokens in steps.sent["a"]] == [[token] for token in range(20)]


def test_the_interval_leaves_the_server_time_for_requests() -> None:
    pacing = StreamPacing(INTERVAL_S)
    assert pacing.interval(1) == INTERVAL_S
    many = round(0.1 / (EVENT_S / EVENTS_SHARE))
    assert many * EVENT_S / pacing.interval(many) == pytest.approx(EVENTS_SHARE)
    assert pacing.interval(100_000) == LONGEST_INTERVAL_S


def test_streams_that_began_in_one_step_are_not_sent_in_the_same_steps() -> None:
    names = [str(number) for number in range(100)]
    steps = Steps(requests_of(DELTA, *names))
    steps.run(1)
    steps.run(60)
    at_s = Counter(at_s for name in names for at_s in steps.times_s(name)[1:])
    share = STEP_S / StreamPacing(INTERVAL_S).interval(100)
    assert max(at_s.values()) <= 2 * share * len(names)


def test_the_interval_counts_the_streams_that_run() -> None:
    names = [str(number) for number in range(500)]
    steps = Steps(requests_of(DELTA, *names) | requests_of(FINAL, *(f"whole {name}" for name in names)))
    steps.run(60)
    long_s = StreamPacing(INTERVAL_S).interval(500)
    assert long_s > 2 * INTERVAL_S
    assert all(
        later - earlier >= long_s - 1e-9 for name in names for earlier, later in pairwise(steps.times_s(name)[1:])
    )
    steps.run(1, names[10:250], FinishReason.LENGTH)  # half end, half are aborted, ten go on
    for name in names[250:]:
        del steps.requests[name]
    steps.groups.keep_only(steps.requests)
    ended_s = steps.now_s
    steps.run(150)
    late = [at_s for at_s in steps.times_s("0") if at_s > ended_s + long_s]
    assert max(later - earlier for earlier, later in pairwise(late)) <= INTERVAL_S + STEP_S


def test_what_is_held_of_a_preempted_stream_is_sent_at_once() -> None:
    steps = Steps(requests_of(DELTA, "a", "b") | requests_of(FINAL, "whole"))
    steps.run(4)
    steps.take(steps.groups.preempted({"a", "whole", "unknown"}))
    assert steps.tokens("a") == [0, 1, 2, 3]
    assert steps.tokens("whole") == [0]
    assert steps.groups.preempted({"a"}) == []
    steps.run(10, ["b", "whole"])
    steps.run(40)
    steps.run(1, end=FinishReason.STOP)
    assert steps.tokens("a") == [*range(4), *range(14, 55)]
    assert steps.tokens("b") == steps.tokens("whole") == list(range(55))


def test_one_that_ends_with_its_first_token_is_sent() -> None:
    (only,) = OutputGroups(StreamPacing(INTERVAL_S)).due(
        [output("a", 7, FinishReason.STOP)], {}
    )  # vLLM has removed the request by then
    assert only.new_token_ids == [7]


def test_what_is_held_of_an_aborted_request_is_dropped() -> None:
    groups, requests = OutputGroups(StreamPacing(INTERVAL_S)), requests_of(FINAL, "a", "b")
    for token in range(3):
        groups.due([output("a", token), output("b", token)], requests)
    del requests["a"]
    groups.keep_only(requests)
    requests |= requests_of(FINAL, "a")
    (first,) = groups.due([output("a", 9)], requests)
    assert first.new_token_ids == [9]
    (last,) = groups.due([output("b", 3, FinishReason.STOP)], requests)
    assert last.new_token_ids == [1, 2, 3]
