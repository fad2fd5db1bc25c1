from __future__ import annotations

import asyncio
import multiprocessing
from time import monotonic

import pytest

from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.load import Job, Tally
from dragoman_bench.bench.processes import LEAD_S, Sent, assemble, shared
from dragoman_bench.bench.targets import TargetOptions
from tests.bench.making import HELLO
from tests.bench.serving import hang, serving, translate
from tests.waiting import until


def _job(url: str, **fields: object) -> Job:
    return Job(url, TargetOptions(), (HELLO,), **({"timeout_s": 30.0} | fields))  # type: ignore[arg-type]


async def _run(job: Job, processes: int, tally: Tally, stop: asyncio.Event) -> Sent:
    async with assemble(job, processes) as crew:
        return await crew.run(Clock(monotonic() + LEAD_S), tally, stop)


def test_shares_add_up_to_the_whole() -> None:
    job = _job("", clients=8, connections=5, requests=10)
    parts = [shared(job, part, 3) for part in range(3)]

    assert [part.clients for part in parts] == [3, 3, 2]
    assert [part.connections for part in parts] == [2, 2, 1]
    assert sorted(index for part in parts for index, _ in part.orders()) == list(range(10))


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_crew_sends_every_request_once(processes: int) -> None:
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
        sent = await asyncio.wait_for(running, 30)

    assert [record.error for record in sent.records] == ["unfinished"] * 6
    assert tally.in_flight == 0


async def test_a_crew_that_never_started_is_dismissed() -> None:
    before = set(multiprocessing.active_children())
    async with assemble(_job("http://127.0.0.1:9", clients=2), 2):
        assert len(set(multiprocessing.active_children()) - before) == 2

    assert set(multiprocessing.active_children()) <= before
