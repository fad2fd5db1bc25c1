"""What commands that measure for long share: progress on stderr, and Ctrl-C that asks before it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console

from dragoman_bench.bench.processes import run_async
from dragoman_bench.bench.progress import Lines, Live, Observer

error_console = Console(stderr=True)
INTERRUPTED = 130
"""The exit code of a command that a first Ctrl-C stopped."""
_Made = TypeVar("_Made")


def observed(work: Callable[[Observer], Coroutine[Any, Any, _Made]]) -> _Made:
    """What the work returns; meanwhile a live bar on a terminal, lines elsewhere."""
    if not error_console.is_terminal:
        return run_async(work(Lines(error_console)))
    with Live(error_console) as live:
        return run_async(work(live))


@contextmanager
def interrupts(*only: signal.Signals) -> Generator[asyncio.Event]:
    """An event that the first Ctrl-C or SIGTERM (or of the signals named) sets; a second one ends the program."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    signals = only or (signal.SIGINT, signal.SIGTERM)

    def interrupt() -> None:
        interrupted.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, interrupt)
    try:
        yield interrupted
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
