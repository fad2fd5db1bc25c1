"""The gate in front of the scheduler: who waits, for what, and never for ever."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.engine import prefill_gate
from dragoman.engine.prefill_gate import MIN_RUNNING, PrefillGate
from tests.waiting import until


def busy(interval: int) -> PrefillGate:
    """Of an engine at work, where nobody has been let in for an interval."""
    gate = PrefillGate(interval)
    for _ in range(interval):
        gate.stepped(MIN_RUNNING)
    return gate


async def entered(gate: PrefillGate) -> None:
    """One goes in, and the door is shut behind it."""
    await gate.join()
    await asyncio.sleep(0)


async def waiters(gate: PrefillGate, count: int) -> list[asyncio.Task[float]]:
    """Tasks that have all got as far as they can."""
    tasks = [asyncio.create_task(gate.join()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_nobody_waits_while_few_run() -> None:
    gate = PrefillGate(4)
    for running in (0, 1, MIN_RUNNING - 1):
        gate.stepped(running)
        assert all(task.done() for task in await waiters(gate, 3))


async def test_an_interval_of_one_step_is_no_gate() -> None:
    gate = PrefillGate(1)
    gate.stepped(1000)
    assert all(task.done() for task in await waiters(gate, 3))


async def test_who_comes_first_after_an_interval_goes_in_and_the_next_wait_for_one_another() -> None:
    gate = busy(4)
    (first,) = await waiters(gate, 1)
    assert first.done()
    early = await waiters(gate, 2)
    for _ in range(3):
        gate.stepped(MIN_RUNNING)
    late = await waiters(gate, 2)
    assert not any(task.done() for task in (*early, *late))
    gate.stepped(MIN_RUNNING)
    await asyncio.wait_for(asyncio.gather(*early, *late), 5)
    (next_one,) = await waiters(gate, 1)
    assert not next_one.done()
    next_one.cancel()


async def test_the_texts_of_one_call_go_in_together() -> None:
    gate = busy(4)
    together = await waiters(gate, 20)
    assert all(task.done() for task in together)
    (later,) = await waiters(gate, 1)
    assert not later.done()
    later.cancel()


async def test_they_go_in_as_soon_as_few_are_left() -> None:
    gate = busy(8)
    await entered(gate)
    waiting = await waiters(gate, 3)
    gate.stepped(MIN_RUNNING - 1)
    await asyncio.wait_for(asyncio.gather(*waiting), 5)


async def test_in_the_order_in_which_they_came() -> None:
    gate, order = busy(2), list[int]()
    await entered(gate)

    async def one(number: int) -> None:
        await gate.join()
        order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    gate.stepped(MIN_RUNNING)
    gate.stepped(MIN_RUNNING)
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert order == [0, 1, 2, 3, 4]


async def test_no_step_comes_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill_gate, "HOLD_S", 0.01)
    gate = busy(1000)
    await entered(gate)
    first = await waiters(gate, 2)
    await asyncio.wait_for(asyncio.gather(*first), 5)
    second = await waiters(gate, 2)  # the clock runs anew for those who come later
    assert not any(task.done() for task in second)
    await asyncio.wait_for(asyncio.gather(*second), 5)


async def test_who_is_cancelled_holds_up_nobody() -> None:
    gate = busy(3)
    await entered(gate)
    leaves, stays = await waiters(gate, 2)
    leaves.cancel()
    await until(leaves.done, "the cancelled one's end")
    for _ in range(3):
        gate.stepped(MIN_RUNNING)
    await asyncio.wait_for(stays, 5)
    assert leaves.cancelled()


async def test_open_lets_everybody_in() -> None:
    gate = busy(1000)
    await entered(gate)
    waiting = await waiters(gate, 3)
    gate.open()
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
