"""Schedules, open and closed loops, several processes."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from itertools import pairwise
from time import monotonic

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import Clock, TargetOptions
from dragoman_bench.bench.load import (
    LEAD_S,
    Job,
    Sent,
    Tally,
    drive,
    load_generator,
    schedule,
)
from dragoman_bench.bench.results import Load, RequestRecord
from dragoman_bench.bench.workload import Item
from tests.bench.making import HELLO
from tests.bench.serving import hang, serving, translate, translation
from tests.waiting import HANG_S, until


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert schedule(Load("constant", rate_rps=4), requests=4) == (0.0, 0.25, 0.5, 0.75)
    assert schedule(Load("constant", rate_rps=2), duration_s=2) == (0.0, 0.5, 1.0, 1.5)


def test_poisson_arrivals_have_exponential_gaps_of_the_rate() -> None:
    times = schedule(Load("poisson", rate_rps=10), requests=5000, seed=1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)

    assert mean == pytest.approx(0.1, rel=0.05)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 == pytest.approx(mean, rel=0.07)  # an exponential's deviation is its mean


def test_poisson_arrivals_repeat_by_seed() -> None:
    load = Load("poisson", rate_rps=10)

    assert schedule(load, requests=20, seed=3) == schedule(load, requests=20, seed=3)
    assert schedule(load, requests=20, seed=3) != schedule(load, requests=20, seed=4)


def test_a_duration_bounds_poisson_arrivals() -> None:
    times = schedule(Load("poisson", rate_rps=50), duration_s=10, seed=1)

    assert times[-1] < 10
    assert len(times) == pytest.approx(500, rel=0.15)


def test_a_replay_keeps_the_recorded_gaps() -> None:
    recorded = (100.0, 101.0, 104.0)

    assert schedule(Load("replay"), recorded_s=recorded) == (0.0, 1.0, 4.0)
    assert schedule(Load("replay"), recorded_s=recorded, requests=2) == (0.0, 1.0)
    assert schedule(Load("replay"), recorded_s=recorded, duration_s=4) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("load", "bounds", "said"),
    [
        (Load("constant", rate_rps=4), {}, "--requests or --duration"),
        (Load("constant"), {"requests": 4}, "a rate above 0"),
        (Load("poisson", rate_rps=0.001), {"duration_s": 1}, "no request falls into the run"),
        (Load("replay"), {}, "replay needs a trace"),
    ],
)
def test_a_schedule_without_end_or_content_is_refused(load: Load, bounds: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        schedule(load, **bounds)  # type: ignore[arg-type]


def _job(url: str, items: Sequence[Item] = (HELLO,), **fields: object) -> Job:
    return Job(url, TargetOptions(), tuple(items), **({"timeout_s": 30.0} | fields))  # type: ignore[arg-type]


async def _drive(job: Job, tally: Tally | None = None, stop: asyncio.Event | None = None) -> list[RequestRecord]:
    sent = await drive(job, Clock(monotonic()), tally or Tally(), stop or asyncio.Event())
    return list(sent.records)


async def test_a_closed_loop_keeps_its_clients_busy_and_no_more() -> None:
    here = most = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal here, most
        here += 1
        most = max(most, here)
        await asyncio.sleep(0.002)
        here -= 1
        return web.json_response(translation())

    async with serving({"/v1/translate": handler}) as url:
        records = await _drive(_job(url, clients=4, requests=40))

    assert most == 4
    assert [record.index for record in records] == list(range(40))
    assert all(record.completed for record in records)


async def test_a_closed_client_means_to_send_when_its_last_answer_came() -> None:
    async with serving({"/v1/translate": translate}) as url:
        records = await _drive(_job(url, clients=1, requests=5))

    assert records[0].intended_s == 0
    assert all(later.intended_s == pytest.approx(earlier.done_s, abs=1e-6) for earlier, later in pairwise(records))


async def test_items_are_sent_in_turn_and_again_from_the_start() -> None:
    said: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        said.append((await request.json())["text"])
        return web.json_response(translation())

    items = [Item(text, "en", "de", 1) for text in ("a", "b", "c")]
    async with serving({"/v1/translate": handler}) as url:
        records = await _drive(_job(url, items, clients=1, requests=7))

    assert said == ["a", "b", "c", "a", "b", "c", "a"]
    assert [record.text for record in records] == [0, 1, 2, 0, 1, 2, 0]


async def test_a_duration_ends_a_closed_loop_but_answers_are_waited_for() -> None:
    async with serving({"/v1/translate": translate}) as url:
        records = await _drive(_job(url, clients=2, duration_s=0.3))

    assert all(record.intended_s < 0.3 for record in records)
    assert all(record.completed for record in records)
    assert len(records) > 2


async def test_an_open_loop_sends_on_while_the_server_stalls_and_counts_every_wait() -> None:
    """No coordinated omission: a closed client would have seen this stall once."""
    schedule = tuple(number * 0.01 for number in range(30))
    arrived, released = 0, asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        if arrived == len(schedule):  # the stall lasts until the last request of the schedule has come
            released.set()
        await released.wait()
        return web.json_response(translation())

    async with serving({"/v1/translate": handler}) as url:
        records = await _drive(_job(url, schedule=schedule))

    assert [record.intended_s for record in records] == pytest.approx(list(schedule))
    end_s = schedule[-1]
    assert all(record.e2e_s >= end_s - record.intended_s for record in records)
    assert sum(record.e2e_s >= end_s / 2 for record in records) >= len(schedule) / 2


async def test_waiting_for_a_connection_counts_from_the_intended_send_too() -> None:
    released, tally = asyncio.Event(), Tally()

    async def handler(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.json_response(translation())

    async with serving({"/v1/translate": handler}) as url:
        job = _job(url, schedule=(0.0, 0.01, 0.02), connections=1)
        driving = asyncio.create_task(_drive(job, tally))
        await until(lambda: tally.in_flight == 3, "all three are due, two without a connection")
        released.set()
        first, second, third = await driving

    assert second.sent_s is not None and third.sent_s is not None
    assert second.intended_s == 0.01
    assert second.sent_s >= first.done_s - 1e-6
    assert third.sent_s >= second.done_s - 1e-6
    assert second.e2e_s >= first.done_s - second.intended_s


async def test_a_refused_closed_client_waits_that_long() -> None:
    answers = iter([429, 200])

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(translation(), status=next(answers), headers={"Retry-After": "0.2"})

    async with serving({"/v1/translate": handler}) as url:
        refused, served = await _drive(_job(url, clients=1, requests=2))

    assert (refused.error, refused.retry_after_s) == ("refused", 0.2)
    assert served.intended_s == pytest.approx(refused.done_s + 0.2, abs=1e-6)
    assert served.sent_s is not None and served.sent_s >= served.intended_s - 0.001


async def test_failures_are_counted_and_never_dropped() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        if next(turn) % 2:
            return web.json_response({}, status=500)
        return web.json_response(translation())

    turn, tally = iter(range(100)), Tally()
    async with serving({"/v1/translate": handler}) as url:
        records = await _drive(_job(url, clients=3, requests=20), tally)

    assert len(records) == 20
    assert sum(record.error == "server_error" for record in records) == 10
    assert (tally.done, tally.failed, tally.in_flight) == (20, 10, 0)


@pytest.mark.parametrize("load", [{"clients": 5}, {"schedule": (0.0, 0.001, 0.002, 0.003, 0.004, 60.0)}])
async def test_a_stop_records_what_was_in_flight_as_unfinished_and_sends_no_more(load: dict[str, object]) -> None:
    stop, tally = asyncio.Event(), Tally()
    async with serving({"/v1/translate": hang}) as url:
        driving = asyncio.create_task(_drive(_job(url, **load), tally, stop))
        await until(lambda: tally.in_flight == 5, "five in flight")
        stop.set()
        records = await asyncio.wait_for(driving, HANG_S)

    assert [record.error for record in records] == ["unfinished"] * 5


async def test_a_cancelled_load_ends() -> None:
    tally = Tally()
    async with serving({"/v1/translate": hang}) as url:
        driving = asyncio.create_task(_drive(_job(url, clients=3), tally))
        await until(lambda: tally.in_flight == 3, "three in flight")
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(driving, HANG_S)


async def _run(job: Job, processes: int, tally: Tally, stop: asyncio.Event) -> Sent:
    async with load_generator(job, processes) as send:
        return await send(Clock(monotonic() + LEAD_S), tally, stop)


def test_shares_add_up_to_the_whole() -> None:
    job = _job("", clients=8, connections=5, requests=10)
    parts = [job.share(part, 3) for part in range(3)]

    assert [part.clients for part in parts] == [3, 3, 2]
    assert [part.connections for part in parts] == [2, 2, 1]
    assert sorted(index for part in parts for index in part.indexes()) == list(range(10))


@pytest.mark.parametrize("processes", [1, 2])
async def test_every_request_is_sent_once(processes: int) -> None:
    tally = Tally()
    async with serving({"/v1/translate": translate}) as url:
        sent = await _run(_job(url, clients=4, requests=40), processes, tally, asyncio.Event())

    assert [record.index for record in sent.records] == list(range(40))
    assert all(record.completed and record.intended_s >= 0 for record in sent.records)
    assert (tally.done, tally.failed, tally.in_flight) == (40, 0, 0)
    assert sent.cpu_share > 0


async def test_processes_keep_one_schedule() -> None:
    schedule = tuple(number * 0.01 for number in range(20))
    async with serving({"/v1/translate": translate}) as url:
        sent = await _run(_job(url, schedule=schedule), 2, Tally(), asyncio.Event())

    assert [record.intended_s for record in sent.records] == pytest.approx(list(schedule))


async def test_a_stop_reaches_every_process_and_their_records_come_back() -> None:
    tally, stop = Tally(), asyncio.Event()
    async with serving({"/v1/translate": hang}) as url:
        running = asyncio.create_task(_run(_job(url, clients=6), 2, tally, stop))
        await until(lambda: tally.in_flight == 6, "all clients of both processes wait")
        stop.set()
        sent = await asyncio.wait_for(running, HANG_S)

    assert [record.error for record in sent.records] == ["unfinished"] * 6
    assert tally.in_flight == 0


async def test_processes_that_never_started_are_stopped() -> None:
    before = set(multiprocessing.active_children())
    async with load_generator(_job("http://127.0.0.1:9", clients=2), 2):
        assert len(set(multiprocessing.active_children()) - before) == 2

    assert set(multiprocessing.active_children()) <= before
