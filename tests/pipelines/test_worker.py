"""The worker's queue: what makes a batch, and what wakes the one who waits for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from dragoman.pipelines.messages import Run
from dragoman.pipelines.worker import Inbox
from tests.pipelines.scripted import sequence

NEVER_S = 3600.0


def run(job: int, *, alone: bool = False) -> Run:
    return Run(job, sequence(), alone)


def jobs(batch: list[Run]) -> list[int]:
    return [one.job for one in batch]


def filled(*runs: Run) -> Inbox:
    inbox = Inbox()
    for one in runs:
        inbox.put(one)
    return inbox


def test_a_batch_is_what_came_first() -> None:
    inbox = filled(*(run(number) for number in range(5)))
    assert jobs(inbox.gather(3, NEVER_S)) == [0, 1, 2]
    assert jobs(inbox.gather(3, 0)) == [3, 4]


def test_a_suspect_runs_alone_and_in_its_turn() -> None:
    inbox = filled(run(0), run(1, alone=True), run(2, alone=True), run(3))
    assert [jobs(inbox.gather(16, 0)) for _ in range(4)] == [[0], [1], [2], [3]]


def test_what_is_withdrawn_is_not_gathered() -> None:
    inbox = filled(run(0), run(1))
    assert inbox.withdraw(0)
    assert not inbox.withdraw(0)
    assert jobs(inbox.gather(16, 0)) == [1]
    assert not inbox.withdraw(1)


def test_told_to_stop_it_gathers_nothing_more() -> None:
    inbox = filled(run(0))
    inbox.stop()
    assert inbox.gather(1, NEVER_S) == []


def test_the_one_who_waits_is_woken_by_the_last_of_a_batch() -> None:
    inbox = Inbox()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(inbox.gather, 2, NEVER_S)
        inbox.put(run(0))
        inbox.put(run(1))
        assert jobs(waiting.result()) == [0, 1]


def test_a_batch_whose_only_sequence_was_withdrawn_waits_for_another() -> None:
    inbox = Inbox()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(inbox.gather, 2, NEVER_S)
        inbox.put(run(0))
        assert inbox.withdraw(0)
        inbox.put(run(1))
        inbox.put(run(2))
        assert jobs(waiting.result()) == [1, 2]


def test_the_one_who_waits_is_woken_to_stop() -> None:
    inbox = Inbox()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(inbox.gather, 2, NEVER_S)
        inbox.put(run(0))
        inbox.stop()
        assert waiting.result() == []
