"""Admission control: what is admitted, what is refused, and with which Retry-After."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import Draining, QueueFull, Starting
from dragoman.service.admission import Admission, default_limit


def serving(limit: int = 400, characters_per_s: float = 200.0) -> Admission:
    admission = Admission(limit, lambda: characters_per_s)
    admission.open()
    return admission


def test_nothing_is_admitted_before_the_engine_answers() -> None:
    with pytest.raises(Starting), Admission(4, lambda: 1.0).permit(1):
        pass


def test_a_full_queue_refuses_with_the_time_that_the_excess_needs() -> None:
    admission = serving(limit=400, characters_per_s=50.0)
    with admission.permit(699):
        with pytest.raises(QueueFull) as refusal, admission.permit(10):
            pass
    assert refusal.value.retry_after_s == 6  # 300 characters must leave, 50 leave in a second
    assert admission.refused == 1


def test_what_is_refused_after_a_call_was_admitted_is_not_counted_here() -> None:
    """An engine elsewhere may be busy in the middle of a call."""
    admission = serving()
    with pytest.raises(QueueFull), admission.permit(1):
        raise QueueFull("all engines are busy", retry_after_s=1)
    assert (admission.refused, admission.calls) == (0, 0)


def test_without_a_measured_rate_retry_after_is_the_longest() -> None:
    admission = serving(characters_per_s=0.0)
    with admission.permit(400), pytest.raises(QueueFull) as refusal, admission.permit(1):
        pass
    assert refusal.value.retry_after_s == 60


def test_characters_are_released_whatever_happens() -> None:
    admission = serving()
    with pytest.raises(RuntimeError), admission.permit(3):
        raise RuntimeError
    assert (admission.characters, admission.calls) == (0, 0)


def test_a_call_larger_than_the_limit_is_admitted_beside_others() -> None:
    admission = serving(limit=400)
    with admission.permit(100), admission.permit(1_000_000):
        assert admission.calls == 2


def test_bulk_calls_do_not_have_interactive_ones_refused() -> None:
    admission = serving(limit=400)
    with admission.permit(1_000, "bulk"):
        with pytest.raises(QueueFull), admission.permit(1, "bulk"):
            pass
        with admission.permit(400):
            assert admission.characters == 1_400
            with pytest.raises(QueueFull), admission.permit(1):
                pass
        assert admission.characters == 1_000
    assert (admission.characters, admission.calls) == (0, 0)


def test_an_account_below_its_share_is_not_refused_for_what_others_have_sent() -> None:
    admission = serving(limit=400)
    with admission.permit(1_000, account_id="a"):
        with pytest.raises(QueueFull), admission.permit(1, account_id="a"):
            pass
        with admission.permit(199, account_id="b"), admission.permit(10, account_id="b"):
            with pytest.raises(QueueFull), admission.permit(1, account_id="b"):
                pass
            with admission.permit(1, account_id="c"):
                pass
        with admission.permit(1, "bulk", "b"), pytest.raises(QueueFull), admission.permit(1, "bulk", "a"):
            pass
    assert (admission.characters, admission.calls) == (0, 0)
    with (
        admission.permit(300, account_id="b"),
        admission.permit(99, account_id="b"),
        admission.permit(1, account_id="b"),
    ):
        pass


def test_a_probe_is_never_refused_by_a_full_queue() -> None:
    admission = serving(limit=400)
    with admission.permit(1_000_000):
        admission.check_open()
    assert admission.refused == 0


def test_the_default_limit_grows_with_the_engine_s_sequences() -> None:
    assert [default_limit(slots) for slots in (1, 256)] == [254_000, 1_274_000]


async def test_draining_refuses_and_waits_for_what_was_admitted() -> None:
    admission = serving()
    with admission.permit(1):
        admission.drain()
        drained = asyncio.create_task(admission.drained())
        await asyncio.sleep(0)
        assert not drained.done()
        with pytest.raises(Draining), admission.permit(1):
            pass
    await drained


async def test_a_drain_that_began_during_the_start_stays_a_drain() -> None:
    admission = Admission(4, lambda: 1.0)
    admission.drain()
    admission.open()
    with pytest.raises(Draining), admission.permit(1):
        pass
