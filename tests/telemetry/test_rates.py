from __future__ import annotations

import sys

import pytest

from dragoman.telemetry.metrics import RateWindow
from tests.telemetry.traffic.making import text


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_rate_of_the_last_minute_is_that_of_its_texts_at_each_time() -> None:
    clock, kept = Clock(), list[tuple[float, int]]()
    rates = RateWindow(clock=clock)
    assert rates.characters_per_s() == 0
    for number in range(300):
        clock.now_s += 0.25 if number % 50 else 40.0
        kept.append((clock.now_s, number))
        rates.text_ended(text(source_characters=number, e2e_s=1.0))
        kept = [one for one in kept if one[0] >= clock.now_s - 60]
        busy_s = min(clock.now_s - kept[0][0] + 1.0, 60)
        assert rates.characters_per_s() == pytest.approx(sum(characters for _, characters in kept) / busy_s)
    clock.now_s += 61
    assert rates.characters_per_s() == 0


def test_the_rate_costs_the_same_however_many_texts_there_were() -> None:
    """In steps of the interpreter, which a busy machine does not change."""

    def steps_of_a_refusal(texts: int) -> int:
        rates, steps, before = RateWindow(clock=Clock()), 0, sys.gettrace()
        for _ in range(texts):
            rates.text_ended(text())

        def count(*_: object) -> object:
            nonlocal steps
            steps += 1
            return count

        sys.settrace(count)  # type: ignore[arg-type]
        try:
            rates.characters_per_s()
        finally:
            sys.settrace(before)
        return steps

    assert steps_of_a_refusal(10) == steps_of_a_refusal(1_000)


def test_texts_that_failed_through_the_servers_fault_are_failures_and_refused_ones_are_neither() -> None:
    clock = Clock()
    rates = RateWindow(clock=clock)
    clock.now_s += 20
    for outcome in ("ok", "ok", "engine_dead", "queue_full", "cancelled"):
        rates.text_ended(text(outcome=outcome, output_tokens=30))
    summary = rates.summary()
    assert (summary.texts_per_s, summary.failures_per_s, summary.output_tokens_per_s) == (0.1, 0.05, 3.0)
