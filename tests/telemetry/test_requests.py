"""An exchange joins what ends within it, and says with what it ended."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.telemetry import requests
from dragoman.telemetry.requests import CallJoiner, CallRecord, RequestTrace


def call(outcome: str = "ok", request_id: str = "a") -> CallRecord:
    return CallRecord(request_id, 0.0, "fake", "ja", outcome, 1.0, False, ())


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


async def test_calls_join_the_exchange_that_they_were_made_in_from_its_tasks_too() -> None:
    joiner, both_entered = CallJoiner(), asyncio.Barrier(2)

    async def ends(request_id: str) -> None:
        await both_entered.wait()
        joiner.call_ended(call(request_id=request_id))

    async def served(request_id: str) -> RequestTrace:
        exchange = RequestTrace(request_id, "POST")
        with requests.entered(exchange):
            await asyncio.create_task(ends(request_id))
        return exchange

    for exchange in await asyncio.gather(served("a"), served("b")):
        assert [one.request_id for one in exchange.calls] == [exchange.request_id]
    joiner.call_ended(call())  # outside of any request: ignored
    requests.note_fault("internal_error")
    assert requests.current() is None
