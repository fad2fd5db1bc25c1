"""When an engine counts as hung: over steps and times that the test gives."""

from __future__ import annotations

import pytest

from dragoman.engine.hang import LEAST_S, LOOK_S, OF_LONGEST, HangWatch


def until_hung(watch: HangWatch, steps: int = 7, most_s: float = 10_000) -> float | None:
    """For how long an engine with sequences has to make no step; None: it never counts as hung."""
    watch.look(LOOK_S, steps, has_sequences=True)
    for _ in range(int(most_s / LOOK_S)):
        if (still_s := watch.look(LOOK_S, steps, has_sequences=True)) is not None:
            return still_s
    return None


@pytest.fixture
def watch() -> HangWatch:
    """Of an engine that has completed its warm-up, with 2048 tokens a step, each 1 ms."""
    watch = HangWatch(2048)
    watch.prefilled(20, 0.02)
    return watch


def test_an_engine_without_a_step_hangs(watch: HangWatch) -> None:
    assert until_hung(watch) == pytest.approx(LEAST_S, abs=LOOK_S)


def test_an_idle_engine_does_not_and_one_that_steps_does_not(watch: HangWatch) -> None:
    assert not any(watch.look(LOOK_S, 7, has_sequences=False) for _ in range(1000))
    assert not any(watch.look(LOOK_S, step // 20, has_sequences=True) for step in range(1000))


def test_nothing_counts_before_the_first_sequence_is_completed() -> None:
    assert until_hung(HangWatch(2048, timeout_s=5)) is None


def test_a_full_step_of_prompts_may_take_what_its_tokens_take() -> None:
    """A large model on a slow CPU: 20 tokens took 3.2 s, so 2048 may take 328 s, and several times that under load."""
    slow = HangWatch(2048)
    slow.prefilled(20, 3.2)
    assert until_hung(slow) == pytest.approx(OF_LONGEST * 3.2 * 2048 / 20, abs=LOOK_S)
    slow.prefilled(500, 5.0)
    assert slow.limit_s == pytest.approx(OF_LONGEST * 5.0 * 2048 / 500)
    slow.prefilled(1, 0.1)  # nearly all from the prefix cache: it says nothing of the others
    assert slow.limit_s == pytest.approx(OF_LONGEST * 5.0 * 2048 / 500)


def test_a_step_that_took_long_raises_the_limit(watch: HangWatch) -> None:
    for _ in range(20):
        assert watch.look(LOOK_S, 7, has_sequences=True) is None
    assert until_hung(watch, steps=8) == pytest.approx(OF_LONGEST * 19, abs=LOOK_S)


def test_a_setting_replaces_the_default() -> None:
    watch = HangWatch(2048, timeout_s=4)
    watch.prefilled(20, 3.2)
    assert until_hung(watch) == pytest.approx(4, abs=LOOK_S)


def test_time_in_which_the_server_stood_still_too_does_not_count(watch: HangWatch) -> None:
    watch.look(LOOK_S, 7, has_sequences=True)
    assert watch.look(3600, 7, has_sequences=True) is None


def test_after_a_restart_the_time_begins_anew(watch: HangWatch) -> None:
    assert until_hung(watch) is not None
    watch.restart()
    assert watch.look(LOOK_S, 7, has_sequences=True) is None
    assert watch.look(LOOK_S, 7, has_sequences=True) is None
