from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from dragoman.errors import DragomanError
from dragoman_bench.bench.benchmark import ClientMaximum, Plan, find_client_maximum, still_growing
from dragoman_bench.bench.progress import Silent
from dragoman_bench.bench.results import Load
from dragoman_bench.bench.targets import TargetOptions
from tests.bench.making import workload
from tests.bench.serving import Handler, serving, translate


@pytest.mark.parametrize(
    ("rates", "growing"),
    [
        ([100], True),
        ([100, 90], True),  # one step may be a hiccup
        ([100, 200, 400], True),
        ([100, 200, 190, 220], True),
        ([100, 200, 205, 209], False),
        ([400, 300, 200], False),
    ],
)
def test_steps_go_on_until_two_in_a_row_bring_nothing(rates: list[float], growing: bool) -> None:
    assert still_growing(rates) is growing


async def _find(handler: Handler) -> ClientMaximum:
    async with serving({"/v1/translate": handler}) as url:
        plan = Plan(url, TargetOptions(), workload(), (Load("closed", clients=1),), duration_s=0.1, gpus=frozenset())
        return await find_client_maximum(plan, Silent(), asyncio.Event())


async def test_the_best_step_is_the_maximum() -> None:
    found = await _find(translate)

    assert [step.clients for step in found.steps] == [2**n for n in range(len(found.steps))]
    assert len(found.steps) >= 3
    assert found.rps == max(step.rps for step in found.steps) > 0


async def test_a_client_that_waits_for_its_server_has_shown_no_maximum() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        async with slot:
            await asyncio.sleep(0.05)
        return await translate(request)

    slot = asyncio.Semaphore(1)
    assert (await _find(handler)).lower_bound


async def test_a_rate_of_failures_is_no_maximum() -> None:
    asked = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await translate(request) if asked == 1 else web.json_response({}, status=500)

    with pytest.raises(DragomanError, match="server_error"):
        await _find(handler)
