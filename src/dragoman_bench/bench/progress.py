"""Shows progress on stderr, and handles Ctrl-C, which stops a command and keeps its measurements."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from importlib import import_module
from time import monotonic
from typing import Any, Protocol, TypeVar

from rich.console import Console

INTERRUPTED = 130
"""The exit code of a command that a first Ctrl-C stopped."""
error_console = Console(stderr=True, markup=False, emoji=False)
_LINE_EVERY_S = 5.0
_T = TypeVar("_T")


class Observer(Protocol):
    """An observer of measurements. `total` None: the number of requests is not known."""

    def phase(self, label: str, total: int | None) -> None:
        """Report that the next phase begins."""

    def update(self, done: int, failed: int, in_flight: int) -> None:
        """Report the number of requests in this phase."""

    def note(self, text: str) -> None:
        """Show a line permanently."""


class NoProgress(Observer):
    """Shows nothing."""


class ProgressLines(Observer):
    """Prints a line when a phase begins, and then every five seconds. `where`: the step or server, if there are several."""

    def __init__(self, console: Console) -> None:
        self.where = ""
        self._console = console
        self._label = ""
        self._due = 0.0

    def phase(self, label: str, total: int | None) -> None:
        self._label = f"{self.where}: {label}" if self.where else label
        self._due = monotonic() + _LINE_EVERY_S
        self.note(self._label)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        if monotonic() >= self._due:
            self._due = monotonic() + _LINE_EVERY_S
            self.note(f"{self._label}: {done} done, {failed} failed, {in_flight} in flight")

    def note(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, highlight=False, soft_wrap=True)


def run_async(work: Coroutine[Any, Any, _T]) -> _T:
    """Run on uvloop if it is installed, because a load generator's own overhead is part of the results."""
    try:
        factory = import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def observed(work: Callable[[ProgressLines], Coroutine[Any, Any, _T]]) -> _T:
    """Run the work with progress on stderr, and return its result."""
    return run_async(work(ProgressLines(error_console)))


@contextmanager
def interrupts(*only: signal.Signals) -> Generator[asyncio.Event]:
    """Return an event that the first Ctrl-C or SIGTERM (or one of the given signals) sets; a second ends the program."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    signals = only or (signal.SIGINT, signal.SIGTERM)

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    def interrupt() -> None:
        interrupted.set()
        restore()

    for number in signals:
        loop.add_signal_handler(number, interrupt)
    try:
        yield interrupted
    finally:
        restore()
