from __future__ import annotations

import asyncio
import os
import signal

import pytest

from dragoman_bench.bench.progress import Observer, interrupts, observed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    with interrupts() as interrupted:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(interrupted.wait(), 10)


def test_work_gets_an_observer_and_its_outcome_is_returned() -> None:
    async def work(observer: Observer) -> str:
        observer.phase("working", 1)
        observer.update(1, 0, 0)
        return "done"

    assert observed(work) == "done"
