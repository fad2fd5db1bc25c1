"""Outputs of whole answers in groups: what is sent when, and that nothing of it is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm")

from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, FinishReason
from vllm.v1.outputs import LogprobsLists

from dragoman.engine.scheduler import MOST_HELD, OutputGroups


def requests_of(kind: RequestOutputKind, *names: str) -> dict[str, Any]:
    params = SamplingParams(output_kind=kind)
    return {name: SimpleNamespace(sampling_params=params) for name in names}


def output(name: str, token: int, end: FinishReason | None = None, **fields: Any) -> EngineCoreOutput:
    return EngineCoreOutput(name, [token], finish_reason=end, **fields)


def logprob(token: int) -> LogprobsLists:
    return LogprobsLists(np.array([[token]]), np.array([[-token / 10]], np.float32), np.array([1]))


def test_the_first_token_is_sent_then_groups_and_the_rest_with_the_end() -> None:
    groups, requests = OutputGroups(), requests_of(RequestOutputKind.FINAL_ONLY, "a")
    count = 2 * MOST_HELD + 5
    sent = [
        one.new_token_ids
        for token in range(count)
        for one in groups.due([output("a", token, FinishReason.STOP if token == count - 1 else None)], requests)
    ]
    assert [len(tokens) for tokens in sent] == [1, MOST_HELD, MOST_HELD, 4]
    assert [token for tokens in sent for token in tokens] == list(range(count))


def test_a_request_of_the_same_name_begins_again() -> None:
    groups, requests = OutputGroups(), requests_of(RequestOutputKind.FINAL_ONLY, "a")
    for _ in range(2):
        assert len(groups.due([output("a", 1)], requests)) == 1
        assert groups.due([output("a", 2)], requests) == []
        (last,) = groups.due([output("a", 3, FinishReason.LENGTH)], requests)
        assert last.new_token_ids == [2, 3]


def test_log_probabilities_and_events_are_joined_in_order() -> None:
    groups, requests = OutputGroups(), requests_of(RequestOutputKind.FINAL_ONLY, "a")
    preempted = EngineCoreEvent.new_event(EngineCoreEventType.PREEMPTED)
    groups.due([output("a", 0, new_logprobs=logprob(0))], requests)
    groups.due([output("a", 1, new_logprobs=logprob(1), events=[preempted])], requests)
    (last,) = groups.due([output("a", 2, FinishReason.STOP, new_logprobs=logprob(2))], requests)
    assert last.new_logprobs.logprob_token_ids.tolist() == [[1], [2]]
    assert last.new_logprobs.logprobs[:, 0].tolist() == pytest.approx([-0.1, -0.2])
    assert last.new_logprobs.sampled_token_ranks.tolist() == [1, 1]
    assert last.events == [preempted]


def test_streams_get_each_token() -> None:
    groups, requests = OutputGroups(), requests_of(RequestOutputKind.DELTA, "a")
    assert all(len(groups.due([output("a", token)], requests)) == 1 for token in range(5))


def test_one_that_ends_with_its_first_token_is_sent() -> None:
    (only,) = OutputGroups().due([output("a", 7, FinishReason.STOP)], {})  # vLLM has removed the request by then
    assert only.new_token_ids == [7]


def test_what_is_held_of_an_aborted_request_is_dropped() -> None:
    groups, requests = OutputGroups(), requests_of(RequestOutputKind.FINAL_ONLY, "a", "b")
    for token in range(3):
        groups.due([output("a", token), output("b", token)], requests)
    del requests["a"]
    groups.keep_only(requests)
    requests |= requests_of(RequestOutputKind.FINAL_ONLY, "a")
    (first,) = groups.due([output("a", 9)], requests)
    assert first.new_token_ids == [9]
    (last,) = groups.due([output("b", 3, FinishReason.STOP)], requests)
    assert last.new_token_ids == [1, 2, 3]
