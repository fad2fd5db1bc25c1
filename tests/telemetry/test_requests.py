"""Records of calls and their texts, and of the requests that they are made in."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from dragoman.errors import EngineDead
from dragoman.service.dispatcher import LoopTurns, TimeSlices
from dragoman.telemetry import requests
from dragoman.telemetry.requests import CallRecord, CallRegistry, RequestTrace, TextRecord
from dragoman.types import Account, Timings, Translation, TranslationRequest, Usage


def call(outcome: str = "ok", request_id: str = "a") -> CallRecord:
    return CallRecord(request_id, "ja", outcome, False, ())


@pytest.mark.parametrize(
    ("status", "fault", "calls", "outcome"),
    [
        (200, None, [], "ok"),
        (200, None, ["ok"], "ok"),
        (200, None, ["ok", "engine_dead", "cancelled"], "engine_dead"),  # a stream that failed
        (200, None, ["cancelled"], "cancelled"),
        (500, "internal_error", ["ok"], "internal_error"),  # translated, and then not written
        (499, None, [], "cancelled"),
        (0, None, [], "cancelled"),
        (404, "not_found", [], "not_found"),
        (418, None, [], "http_418"),
    ],
)
def test_the_outcome(status: int, fault: str | None, calls: list[str], outcome: str) -> None:
    exchange = RequestTrace("a", "POST", None, status, fault, calls=[call(one) for one in calls])
    exchange.end()
    assert exchange.outcome == outcome
    assert exchange.status >= 200


def registry(**observers: Any) -> CallRegistry:
    return CallRegistry(str, lambda: TimeSlices(LoopTurns()), **observers)


def translation(*timings: Timings) -> Translation:
    return Translation("はい", "en", detected=True, finish_reason="stop", usage=Usage(3, 9, 2, 1), timings=timings)


async def test_calls_join_the_request_that_they_were_made_in_from_its_tasks_too() -> None:
    calls, both_entered = registry(), asyncio.Barrier(2)

    async def call(request_id: str) -> None:
        async with calls.call(TranslationRequest((), "ja", request_id=request_id), streamed=False):
            await both_entered.wait()

    async def serve(request_id: str) -> RequestTrace:
        request = RequestTrace(request_id, "POST")
        requests.current.set(request)
        await asyncio.create_task(call(request_id))
        return request

    served = [asyncio.create_task(serve(request_id)) for request_id in ("a", "b")]
    for request in await asyncio.gather(*served):
        assert [one.request_id for one in request.calls] == [request.request_id]
    both_entered = asyncio.Barrier(1)
    await call("outside of any request")  # is ignored
    requests.note_fault("internal_error")
    assert requests.current.get() is None


async def test_each_text_and_then_the_call_is_observed_once_with_its_outcome() -> None:
    texts, calls = list[TextRecord](), list[CallRecord]()
    records = registry(text_observers=[texts.append], call_observers=[calls.append])
    request = TranslationRequest(("yes", "no", "maybe"), "ja", account=Account("1", "alice", priority="bulk"))
    with pytest.raises(EngineDead):
        async with records.call(request, streamed=True) as tracker:
            assert records.in_flight == 3
            tracker.done(1, translation())
            assert [text.index for text in texts] == [1]  # before the call's end
            raise EngineDead("it crashed")
    assert records.in_flight == 0
    assert [(text.index, text.outcome, text.source) for text in texts] == [
        (1, "ok", "en"),
        (0, "engine_dead", None),
        (2, "engine_dead", None),
    ]
    [ended] = calls
    assert (ended.outcome, ended.streamed, ended.key_class) == ("engine_dead", True, "bulk")
    assert [text.index for text in ended.texts] == [0, 1, 2]


async def test_the_times_of_a_text_are_its_segments_longest_waits_and_first_token() -> None:
    texts = list[TextRecord]()
    async with registry(text_observers=[texts.append]).call(
        TranslationRequest(("a",) * 3, "ja"), streamed=False
    ) as call:
        call.done(0, translation(Timings(0.1, 0.2, 1.0), Timings(0.3, 0.05, 0.5)))
        call.done(1, translation(Timings(0.0), Timings(0.2, 0.1)))
        call.done(2, translation())
    times = [(text.queue_s, text.ttft_s, text.decode_s) for text in texts]
    assert times == [(0.3, pytest.approx(0.3), 1.0), (0.2, pytest.approx(0.3), None), (None, None, None)]


async def test_an_observer_that_fails_costs_neither_the_others_nor_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a fault")

    texts = list[TextRecord]()
    records = registry(text_observers=[fail, texts.append], call_observers=[fail])
    with caplog.at_level(logging.ERROR, "dragoman.service"):
        async with records.call(TranslationRequest(("yes",), "ja"), streamed=False) as call:
            call.done(0, translation())
    assert len(texts) == 1


async def test_texts_of_documents_and_of_calls_are_counted_apart() -> None:
    texts = list[TextRecord]()
    records = registry(text_observers=[texts.append])
    of_file = TranslationRequest(("a",) * 3, "ja", priority="bulk", is_document=True)
    async with records.call(of_file, streamed=False), records.call(of_file, streamed=False):
        async with records.call(TranslationRequest(("b",) * 2, "ja", priority="bulk"), streamed=False):
            async with records.call(TranslationRequest(("c",), "ja"), streamed=False):
                assert records.in_flight == 9
    found = [(text.kind, text.in_flight) for text in texts]
    assert found == [("interactive", 3), *[("bulk", 2)] * 2, *[("document", 6)] * 3, *[("document", 3)] * 3]
    assert (records.in_flight, records.in_flight_of_documents) == (0, 0)
