"""Time slices of the event loop, and engine slots shared among calls."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.service import dispatcher
from dragoman.service.dispatcher import CallSlots, Dispatcher, LoopTurns, TimeSlices


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def take(slots: CallSlots, number: int) -> list[asyncio.Task[None]]:
    """Ask for so many slots; the finished tasks are those that have one."""
    tasks = [asyncio.create_task(slots.acquire()) for _ in range(number)]
    await settle()
    return tasks


def granted(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() for task in tasks)


async def cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_has_at_most_the_engines_slots() -> None:
    with Dispatcher(4).call() as slots:
        tasks = await take(slots, 6)
        assert granted(tasks) == 4
        slots.release()
        await settle()
        assert granted(tasks) == 5
        await cancel(*tasks)


async def test_a_small_call_does_not_wait_for_a_large_one() -> None:
    dispatch = Dispatcher(4)
    with dispatch.call() as large, dispatch.call() as small:
        tasks = await take(large, 100)
        async with asyncio.timeout(5), small:
            assert granted(tasks) == 4
        await cancel(*tasks)


async def test_large_calls_share_the_slots_evenly() -> None:
    dispatch = Dispatcher(4)
    with dispatch.call() as first, dispatch.call() as second:
        of_first = await take(first, 20)
        of_second = await take(second, 20)
        for _ in range(4):  # the engine finishes what it had of the first call
            first.release()
        await settle()
        assert (first.submitted, second.submitted) == (2, 2)
        for _ in range(10):
            first.release()
            second.release()
        await settle()
        assert (first.submitted, second.submitted) == (2, 2)
        assert granted(of_first) == granted(of_second) + 4
        await cancel(*of_first, *of_second)


async def test_a_call_that_ends_leaves_its_share_to_the_others() -> None:
    dispatch = Dispatcher(4)
    with dispatch.call() as first:
        with dispatch.call() as second:
            of_second = await take(second, 20)
            of_first = await take(first, 20)
            await cancel(*of_second)
        await settle()
        assert first.submitted == 4
        await cancel(*of_first)


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    with Dispatcher(1).call() as slots:
        tasks = await take(slots, 3)
        await cancel(tasks[1])
        slots.release()
        await settle()
        assert tasks[2].done()
        assert slots.submitted == 1


async def test_a_slot_that_was_granted_to_a_cancelled_waiter_is_given_back() -> None:
    with Dispatcher(1).call() as slots:
        tasks = await take(slots, 3)
        slots.release()  # grants the second; it has not run yet
        tasks[1].cancel()
        await settle()
        assert tasks[2].done()
        await cancel(*tasks)


async def test_work_of_several_calls_is_resumed_one_call_in_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SLICE_S", 0.0)
    turns, order = LoopTurns(), list[int]()

    async def work(call: int) -> None:
        pace = TimeSlices(turns)
        for _ in range(3):
            await pace.pause()
            order.append(call)

    async def iterations() -> None:
        while len(order) < 6:
            before = len(order)
            await asyncio.sleep(0)
            assert len(order) - before <= 2

    await asyncio.gather(work(0), work(1), iterations())
    assert order == [0, 1, 0, 1, 0, 1]


async def test_a_call_within_its_slice_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SLICE_S", 3600.0)
    ran = asyncio.create_task(asyncio.sleep(0))
    await TimeSlices(LoopTurns()).pause()
    assert not ran.done()
    await ran


async def test_a_cancelled_turn_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SLICE_S", 0.0)
    turns = LoopTurns()
    leaving, staying = (asyncio.create_task(TimeSlices(turns).pause()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    async with asyncio.timeout(5):
        await staying
