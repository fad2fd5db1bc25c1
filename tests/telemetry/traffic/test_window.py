from __future__ import annotations

import sys
from threading import Thread

import pytest

from dragoman.telemetry.traffic.window import RateWindow, TrafficWindow
from tests.telemetry.traffic.making import text


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def ended(clock: Clock, source_tokens: int = 10, e2e_s: float = 1.0) -> object:
    """A text that ends now."""
    return text(arrived_unix_s=clock.now_s - e2e_s, e2e_s=e2e_s, source_tokens=source_tokens)


def test_the_last_hour_is_kept_and_no_more() -> None:
    clock = Clock()
    window = TrafficWindow(clock=clock)
    window.text_ended(ended(clock, 1))  # type: ignore[arg-type]
    clock.now_s += 1_800
    window.text_ended(ended(clock, 2))  # type: ignore[arg-type]
    assert (window.summary().records, window.summary().window_s) == (2, 1_800)
    clock.now_s += 1_801
    summary = window.summary()
    assert (summary.records, summary.window_s) == (1, 3_600)
    assert summary.source_tokens is not None and summary.source_tokens.p50 == 2
    clock.now_s += 3_600
    assert window.summary().records == 0


def test_the_rate_of_the_last_minute_is_that_of_its_texts_at_each_time() -> None:
    clock, kept = Clock(), list[tuple[float, int]]()
    rates = RateWindow(clock=clock)
    assert rates.characters_per_s() == 0
    for number in range(300):
        clock.now_s += 0.25 if number % 50 else 40.0
        kept.append((clock.now_s, number))
        rates.add(1.0, number, 1, 1, ok=number % 3 > 0)
        kept = [one for one in kept if one[0] >= clock.now_s - 60]
        busy_s = min(clock.now_s - kept[0][0] + 1.0, 60)
        assert rates.characters_per_s() == pytest.approx(sum(characters for _, characters in kept) / busy_s)
    clock.now_s += 61
    assert rates.characters_per_s() == 0


def test_the_rate_costs_the_same_however_many_texts_there_were() -> None:
    """In steps of the interpreter, which a busy machine does not change."""

    def steps_of_a_refusal(texts: int) -> int:
        rates, steps = RateWindow(clock=Clock()), 0
        for _ in range(texts):
            rates.add(1.0, 100, 1, 1, ok=True)

        def count(*_: object) -> object:
            nonlocal steps
            steps += 1
            return count

        sys.settrace(count)  # type: ignore[arg-type]
        try:
            rates.characters_per_s()
        finally:
            sys.settrace(None)
        return steps

    assert steps_of_a_refusal(10) == steps_of_a_refusal(1_000)


def test_when_more_come_than_are_kept_the_window_says_how_far_back_it_reaches() -> None:
    clock = Clock()
    window = TrafficWindow(most=10, clock=clock)
    for number in range(25):
        clock.now_s += 10
        window.text_ended(ended(clock, number + 1))  # type: ignore[arg-type]
    summary = window.summary()
    assert 9 <= summary.records <= 10
    assert summary.window_s == (summary.records - 1) * 10
    assert summary.source_tokens is not None and summary.source_tokens.highest == 25


def test_reading_while_texts_come_never_sees_one_twice() -> None:
    window = TrafficWindow(most=1_000, clock=Clock())
    clock = Clock()

    def come() -> None:
        for number in range(20_000):
            window.text_ended(ended(clock, number + 1))  # type: ignore[arg-type]

    coming = Thread(target=come)
    coming.start()
    while coming.is_alive():
        rows, _ = window._copied()
        assert len(set(rows[:, 3].tolist())) == len(rows)
    coming.join()
    assert window.summary().source_tokens is not None
