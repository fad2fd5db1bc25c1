"""Run coroutines at once, as one: the first failure cancels the others and is what the caller sees."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. Unlike `asyncio.gather`, nothing goes on running after a failure or a cancellation."""
    wanted = list(coroutines)
    if len(wanted) == 1:  # most texts are one piece, most calls one text: a task would cost as much as encoding it does
        return [await wanted[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in wanted]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
