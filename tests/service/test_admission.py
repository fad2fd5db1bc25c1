from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import Draining, QueueFull, Starting
from dragoman.service.admission import Admission, cost


def serving(limit: int = 4, texts_per_s: float = 2.0) -> Admission:
    admission = Admission(limit, lambda: texts_per_s)
    admission.open()
    return admission


def test_nothing_is_admitted_before_the_engine_answers() -> None:
    with pytest.raises(Starting), Admission(4, lambda: 1.0).permit(1):
        pass


def test_a_full_house_refuses_with_the_time_that_the_excess_needs() -> None:
    admission = serving(limit=4, texts_per_s=0.5)
    with admission.permit(4):
        with pytest.raises(QueueFull) as refusal, admission.permit(3):
            pass
    assert refusal.value.retry_after_s == 6  # three texts too many, one leaves every two seconds
    assert admission.refused == 1


def test_without_a_measured_rate_retry_after_is_the_longest() -> None:
    admission = serving(texts_per_s=0.0)
    with admission.permit(4), pytest.raises(QueueFull) as refusal, admission.permit(1):
        pass
    assert refusal.value.retry_after_s == 60


def test_places_are_given_back_whatever_happens() -> None:
    admission = serving()
    with pytest.raises(RuntimeError), admission.permit(3):
        raise RuntimeError
    assert (admission.held, admission.calls) == (0, 0)


def test_a_call_larger_than_the_limit_is_served_alone() -> None:
    admission = serving(limit=4)
    with admission.permit(9):
        assert admission.held == 9
    with admission.permit(1), pytest.raises(QueueFull), admission.permit(9):
        pass


def test_long_texts_take_more_places() -> None:
    assert cost(("short",)) == 1
    assert cost(("short", "x" * 20_000)) == 12


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
