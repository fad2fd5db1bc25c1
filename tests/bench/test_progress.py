"""What is shown while a command measures, and how it is interrupted."""

from __future__ import annotations

import asyncio
import io
import os
import signal

import pytest
from rich.console import Console

from dragoman_bench.bench.progress import Observer, ProgressLines, interrupts, observed
from tests.waiting import HANG_S


def test_lines_show_a_phase_when_it_begins_and_do_not_flood() -> None:
    out = io.StringIO()
    lines = ProgressLines(Console(file=out))

    lines.phase("4 clients", 100)
    for done in range(50):
        lines.update(done, 0, 4)

    assert out.getvalue() == "4 clients\n"


def test_phases_are_of_what_is_measured() -> None:
    out = io.StringIO()
    lines = ProgressLines(Console(file=out))
    lines.where = "static"
    lines.phase("4 clients", 100)

    assert out.getvalue() == "static: 4 clients\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    with interrupts() as interrupted:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(interrupted.wait(), HANG_S)


def test_work_gets_an_observer_and_its_outcome_is_returned() -> None:
    async def work(observer: Observer) -> str:
        observer.phase("working", 1)
        observer.update(1, 0, 0)
        return "done"

    assert observed(work) == "done"
