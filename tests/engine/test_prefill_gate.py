"""The gate in front of the scheduler: which sequences wait, for what, and for how long at most."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.engine import prefill_gate
from dragoman.engine.prefill_gate import MIN_RUNNING, PrefillGate


def busy(interval: int) -> PrefillGate:
    """Of an engine at work, where no sequence has entered for an interval."""
    gate = PrefillGate(interval)
    for _ in range(interval):
        gate.stepped(MIN_RUNNING)
    return gate


async def closed(interval: int) -> PrefillGate:
    """Of an engine at work, where a sequence has just entered."""
    gate = busy(interval)
    await gate.wait()
    await asyncio.sleep(0)
    return gate


async def waiters(gate: PrefillGate, count: int) -> list[asyncio.Task[float]]:
    """Tasks that have all got as far as they can."""
    tasks = [asyncio.create_task(gate.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_none_waits_while_few_run_or_with_an_interval_of_one_step() -> None:
    gate = PrefillGate(4)
    for running in (0, 1, MIN_RUNNING - 1):
        gate.stepped(running)
        assert all(task.done() for task in await waiters(gate, 3))
    every_step = PrefillGate(1)
    every_step.stepped(1000)
    assert all(task.done() for task in await waiters(every_step, 3))


async def test_the_first_after_an_interval_enters_and_the_next_wait_for_each_other() -> None:
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


async def test_the_texts_of_one_call_enter_together() -> None:
    gate = busy(4)
    assert all(task.done() for task in await waiters(gate, 20))
    (later,) = await waiters(gate, 1)
    assert not later.done()
    later.cancel()


async def test_waiters_enter_when_few_are_left_running_or_the_gate_is_opened() -> None:
    gate = await closed(1000)
    waiting = await waiters(gate, 3)
    gate.stepped(MIN_RUNNING - 1)
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    gate = await closed(1000)
    waiting = await waiters(gate, 3)
    gate.open()
    await asyncio.wait_for(asyncio.gather(*waiting), 5)


async def test_sequences_enter_in_the_order_of_their_arrival() -> None:
    gate, order = await closed(2), list[int]()

    async def one(number: int) -> None:
        await gate.wait()
        order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    gate.stepped(MIN_RUNNING)
    gate.stepped(MIN_RUNNING)
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert order == [0, 1, 2, 3, 4]


async def test_without_steps_the_wait_ends_after_the_longest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill_gate, "MAX_WAIT_S", 0.01)
    gate = await closed(1000)
    await asyncio.wait_for(asyncio.gather(*await waiters(gate, 2)), 5)
    second = await waiters(gate, 2)  # the time begins anew for later arrivals
    assert not any(task.done() for task in second)
    await asyncio.wait_for(asyncio.gather(*second), 5)


async def test_a_cancelled_waiter_delays_no_other_that_waits() -> None:
    gate = await closed(3)
    leaves, stays = await waiters(gate, 2)
    leaves.cancel()
    await asyncio.wait({leaves})
    assert gate.waiting == 1
    for _ in range(3):
        gate.stepped(MIN_RUNNING)
    await asyncio.wait_for(stays, 5)
    assert leaves.cancelled()


async def test_cancelled_waiters_do_not_hold_back_newcomers() -> None:
    gate = await closed(3)
    leaves = await waiters(gate, 2)
    for task in leaves:
        task.cancel()
    await asyncio.wait(leaves)
    assert gate.waiting == 0
    for _ in range(3):
        gate.stepped(MIN_RUNNING)
    (newcomer,) = await waiters(gate, 1)
    assert newcomer.done()
