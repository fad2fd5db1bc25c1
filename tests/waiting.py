"""Waiting for a condition instead of a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic


async def until(condition: Callable[[], bool], what: str, *, deadline_s: float = 30.0) -> None:
    """Return once `condition` holds; fail the test, saying `what` did not come, after `deadline_s`."""
    end = monotonic() + deadline_s
    while not condition():
        if monotonic() > end:
            raise AssertionError(f"never came: {what}")
        await asyncio.sleep(0.005)
