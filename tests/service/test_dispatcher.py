"""Time slices of the event loop, and engine slots shared among calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from random import Random

import pytest

from dragoman.errors import QueueFull
from dragoman.service import dispatcher
from dragoman.service.dispatcher import CallSlots, Dispatcher, LoopTurns, TimeSlices
from tests.waiting import HANG_S


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
        async with asyncio.timeout(HANG_S), small:
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


async def test_slots_that_equal_shares_leave_over_are_used() -> None:
    dispatch = Dispatcher(5)
    with dispatch.call() as first, dispatch.call() as second, dispatch.call() as third:
        calls = (first, second, third)
        tasks = [task for call in calls for task in await take(call, 20)]
        for _ in range(10):
            for call in calls:
                call.release()
            await settle()
        assert sorted(call.submitted for call in calls) == [1, 2, 2]
        await cancel(*tasks)


# ---- interactive before bulk


async def test_bulk_takes_all_slots_and_the_engines_queue_when_no_interactive_call_comes() -> None:
    with Dispatcher(8, queued=1).call("bulk") as bulk:
        tasks = await take(bulk, 20)
        assert granted(tasks) == 9
        await cancel(*tasks)


async def test_bulk_leaves_slots_free_while_an_interactive_call_is_in_flight() -> None:
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with dispatch.call("bulk") as bulk, dispatch.call():
        tasks = await take(bulk, 20)
        assert granted(tasks) == 6
        bulk.release()
        await settle()
        assert (granted(tasks), bulk.submitted) == (7, 6)
        await cancel(*tasks)


async def test_bulk_gives_way_when_interactive_calls_need_more_than_their_share() -> None:
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with dispatch.call() as interactive, dispatch.call("bulk") as bulk:
        of_bulk = await take(bulk, 20)
        of_interactive = await take(interactive, 5)
        assert (granted(of_bulk), granted(of_interactive)) == (6, 5)
        for _ in range(3):  # the engine runs what it had: 11 sequences, of which 3 wait
            bulk.release()
        await settle()
        assert (bulk.submitted, interactive.submitted) == (3, 5)
        interactive.release()
        await settle()
        assert (bulk.submitted, interactive.submitted) == (4, 4)
        await cancel(*of_bulk, *of_interactive)


async def test_an_interactive_call_is_granted_before_bulk_calls_that_have_waited_longer() -> None:
    dispatch = Dispatcher(2, interactive_share=0.5)
    with dispatch.call("bulk") as bulk, dispatch.call() as interactive:
        of_interactive = await take(interactive, 2)
        of_bulk = await take(bulk, 2)
        more = await take(interactive, 1)
        assert (granted(of_interactive), granted(of_bulk), granted(more)) == (2, 0, 0)
        interactive.release()
        await settle()
        assert (granted(of_bulk), granted(more)) == (0, 1)
        interactive.release()
        await settle()
        assert granted(of_bulk) == 1
        await cancel(*of_bulk)


own_loop = pytest.mark.asyncio(loop_scope="function")
"""For a test that changes its event loop's clock: timers of others in the same loop would come an hour late."""


def movable_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Moves the event loop's clock beyond the quiet time, which is too long to pass by itself."""
    monkeypatch.setattr(dispatcher, "INTERACTIVE_QUIET_S", 3600.0)
    loop, ahead_s = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + ahead_s)

    def move() -> None:
        nonlocal ahead_s
        ahead_s += 3600.0

    return move


@own_loop
async def test_bulk_waits_for_the_end_of_the_quiet_time_and_then_takes_all_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pass_quiet_time = movable_clock(monkeypatch)
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with dispatch.call():
        pass
    with dispatch.call("bulk") as bulk:
        tasks = await take(bulk, 5)
        assert granted(tasks) == 5
        tasks += await take(bulk, 4)
        assert granted(tasks) == 6
        pass_quiet_time()
        async with asyncio.timeout(HANG_S):
            await asyncio.gather(*tasks)


@own_loop
async def test_the_quiet_time_begins_again_with_each_interactive_call(monkeypatch: pytest.MonkeyPatch) -> None:
    pass_quiet_time = movable_clock(monkeypatch)
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with dispatch.call("bulk") as bulk:
        with dispatch.call():
            pass
        tasks = await take(bulk, 9)
        with dispatch.call():
            pass_quiet_time()
            await settle()  # the timer finds a call in flight
            assert granted(tasks) == 6
            for _ in range(2):
                bulk.release()
            await settle()
            assert (granted(tasks), bulk.submitted) == (8, 6)
        await settle()
        assert granted(tasks) == 8
        pass_quiet_time()
        async with asyncio.timeout(HANG_S):
            await asyncio.gather(*tasks)


@own_loop
@pytest.mark.parametrize("reads", range(40))
async def test_bulk_is_granted_its_slots_at_whichever_moment_the_quiet_time_ends(
    monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """A clock that goes on whenever it is read: the time ends between two readings of it."""
    monkeypatch.setattr(dispatcher, "INTERACTIVE_QUIET_S", reads + 0.5)
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with monkeypatch.context() as patched, dispatch.call("bulk") as bulk:
        patched.setattr(asyncio.get_running_loop(), "time", partial(next, count(asyncio.get_running_loop().time())))
        with dispatch.call():
            pass
        waiting = [asyncio.create_task(bulk.acquire()) for _ in range(9)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert granted(waiting) == 9


async def test_a_bulk_sequence_that_has_waited_long_does_not_wait_for_interactive_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatch = Dispatcher(2, interactive_share=0.5)
    with dispatch.call("bulk") as bulk, dispatch.call() as interactive:
        of_interactive = await take(interactive, 20)
        of_bulk = await take(bulk, 2)
        interactive.release()
        await settle()
        assert (granted(of_interactive), granted(of_bulk)) == (3, 0)
        monkeypatch.setattr(dispatcher, "BULK_AGEING_S", 0.0)
        interactive.release()
        await settle()
        assert (granted(of_interactive), granted(of_bulk)) == (4, 1)  # the other one waits for bulk's own slot
        await cancel(*of_interactive, *of_bulk)


async def test_bulk_calls_have_equal_shares() -> None:
    dispatch = Dispatcher(8, queued=1, interactive_share=0.25)
    with dispatch.call(), dispatch.call("bulk") as first, dispatch.call("bulk") as second:
        of_first = await take(first, 20)
        of_second = await take(second, 20)
        assert (first.submitted, second.submitted) == (6, 0)
        for _ in range(3):
            first.release()
        await settle()
        assert (first.submitted, second.submitted) == (3, 3)
        await cancel(*of_first, *of_second)


async def test_bulk_has_a_slot_of_an_engine_that_runs_one_sequence() -> None:
    dispatch = Dispatcher(1, interactive_share=1.0)
    with dispatch.call(), dispatch.call("bulk") as bulk:
        async with asyncio.timeout(HANG_S), bulk:
            pass


async def test_a_call_that_has_ended_returns_its_slots_once() -> None:
    dispatch = Dispatcher(1)
    with dispatch.call() as slots:
        [task] = await take(slots, 1)
        waiting = await take(slots, 1)
        slots.release()  # grants the second; it has not run yet
    await cancel(*waiting)
    assert task.done()
    assert dispatch.submitted == {"interactive": 0, "bulk": 0}


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
    async with asyncio.timeout(HANG_S):
        await staying


async def test_an_account_that_sends_little_never_waits_for_one_that_sends_much() -> None:
    dispatch = Dispatcher(8, queued=1)
    with ExitStack() as stack:
        flood = [stack.enter_context(dispatch.call(account_id="a")) for _ in range(80)]
        flooding = [asyncio.create_task(slots.acquire()) for slots in flood]
        await settle()
        assert granted(flooding) == 8 + 1 + 1  # the capacity, and one for a small call beside a large one
        for _ in range(3):
            async with asyncio.timeout(HANG_S):
                await stack.enter_context(dispatch.call(account_id="b")).acquire()
        assert dispatch.submitted["interactive"] == 10 + 3
        await cancel(*flooding)


async def test_accounts_have_equal_shares_first_and_then_their_calls() -> None:
    dispatch = Dispatcher(12)
    with ExitStack() as stack:
        many = [stack.enter_context(dispatch.call(account_id="a")) for _ in range(9)]
        few = [stack.enter_context(dispatch.call(account_id="b")) for _ in range(3)]
        tasks = [await take(slots, 20) for slots in (*many, *few)]
        rng = Random(1)
        for _ in range(80):  # sequences end, whichever
            rng.choice([one for one in (*many, *few) for _ in range(one.submitted)]).release()
            await settle()
        of_many, of_few = ([one.submitted for one in calls] for calls in (many, few))
        assert {sum(of_many), sum(of_few)} <= {6, 7}  # a share, and one for a small call
        assert max(of_few) - min(of_few) <= 1
        assert max(of_many) == 1
        await cancel(*(task for of_call in tasks for task in of_call))


async def test_what_an_account_leaves_others_take() -> None:
    dispatch = Dispatcher(4)
    with dispatch.call(account_id="a") as a, dispatch.call(account_id="b") as b:
        await take(b, 1)
        tasks = await take(a, 10)
        assert granted(tasks) == 3
        b.release()
        await settle()
        assert granted(tasks) == 4
        await cancel(*tasks)


async def test_an_accounts_order_does_not_grow_with_what_its_calls_have_had() -> None:
    """One call always waits with fewer submitted, behind which the other's places would stay."""
    dispatch = Dispatcher(8)
    with dispatch.call() as large, dispatch.call() as small:
        tasks = await take(large, 1_000)
        await cancel(*tasks[:4])
        while not all(task.done() for task in tasks):
            tasks += await take(small, 1)
            large.release()
            small.release()
            await settle()
        assert len(large.account.order) < 100


async def test_bulk_is_shared_among_accounts_too() -> None:
    dispatch = Dispatcher(4, interactive_share=0)
    with ExitStack() as stack:
        many = [stack.enter_context(dispatch.call("bulk", "a")) for _ in range(5)]
        tasks = [task for slots in many for task in await take(slots, 4)]
        other = stack.enter_context(dispatch.call("bulk", "b"))
        others = await take(other, 4)
        assert (granted(tasks), granted(others)) == (4, 0)
        for _ in range(2):
            next(one for one in many if one.submitted).release()
            await settle()
        assert (sum(one.submitted for one in many), other.submitted) == (2, 2)
        await cancel(*tasks, *others)


async def test_a_deadline_before_the_first_slot_is_refused_with_the_time_until_it_could_be_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s[0])
    dispatch = Dispatcher(2)
    with ExitStack() as stack:
        calls = [stack.enter_context(dispatch.call(account_id="a")) for _ in range(60)]
        tasks = [asyncio.create_task(slots.acquire()) for slots in calls]
        for _ in range(10):
            await asyncio.sleep(0)
        assert (
            dispatch.refusal(stack.enter_context(dispatch.call(account_id="a")), 0.001) is None
        )  # no rate is known yet
        for _ in range(20):  # two a second
            now_s[0] += 0.5
            next(one for one in calls if one.submitted).release()
            await asyncio.sleep(0)
        ahead = sum(not task.done() for task in tasks)
        call = stack.enter_context(dispatch.call(account_id="a"))
        refused = dispatch.refusal(call, 5.0)
        assert refused is not None
        call.set_deadline(5.0)
        for _ in range(2):  # of several sequences
            with pytest.raises(QueueFull):
                call.refuse()
        assert dispatch.refused == 1
        assert refused.retry_after_s == pytest.approx(ahead / 2 - 5.0, rel=0.1)
        assert dispatch.refusal(call, ahead / 2 * 1.1) is None
        assert (
            dispatch.refusal(stack.enter_context(dispatch.call(account_id="b")), 0.001) is None
        )  # its turn comes at once
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_deadline_is_not_refused_for_calls_that_wait_for_more_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large calls that have slots come after a call that has none."""
    now_s = [1000.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s[0])
    dispatch = Dispatcher(4)
    with ExitStack() as stack:
        large = [stack.enter_context(dispatch.call(account_id="a")) for _ in range(4)]
        tasks = [asyncio.create_task(slots.acquire()) for _ in range(50) for slots in large]
        for turn in range(30):
            for _ in range(5):
                await asyncio.sleep(0)
            now_s[0] += 0.5
            large[turn % 4].release()
        call = stack.enter_context(dispatch.call(account_id="a"))
        assert dispatch.refusal(call, 0.001) is None
        tasks.append(asyncio.create_task(call.acquire()))
        await asyncio.sleep(0)
        large[0].release()
        assert call.submitted == 1
        await cancel(*tasks)
