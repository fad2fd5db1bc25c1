"""Waiting for a condition instead of a time, and how a time that is meant grows on a busy machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, perf_counter

import psutil

HANG_S = 240.0
"""What must come is waited for so long. It ends a hang, shortly before pytest's own limit does; no test is about this time."""

_WORK = 300_000
_WORK_QUIET_S = 0.03
"""Wall time of `_WORK` additions on a quiet machine."""


async def until(condition: Callable[[], bool], what: str, *, deadline_s: float = HANG_S) -> None:
    """Return once `condition` holds; fail the test, saying `what` did not come, after `deadline_s`."""
    end = monotonic() + deadline_s
    while not condition():
        if monotonic() > end:
            raise AssertionError(f"never came: {what}")
        await asyncio.sleep(0.005)


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; it may be a zombie, of which its parent has not asked yet."""
    with suppress(psutil.NoSuchProcess):  # it may go between two questions
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def scaled(quiet_s: float) -> float:
    """A time that is enough on a quiet machine, as long as it has to be on this one now: in proportion to a measured one.

    For limits of the product that a test lets expire, or must not, while something else takes place.
    """
    began_s, total = perf_counter(), 0
    for number in range(_WORK):
        total += number
    return quiet_s * max(1.0, (perf_counter() - began_s) / _WORK_QUIET_S)
