"""What a command shows while it measures, always on stderr, and the Ctrl-C that stops it but keeps what was measured."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from importlib import import_module
from time import monotonic
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

INTERRUPTED = 130
"""The exit code of a command that a first Ctrl-C stopped."""
error_console = Console(stderr=True, markup=False, emoji=False)
_LINE_EVERY_S = 5.0
_T = TypeVar("_T")


class Observer(Protocol):
    """What measuring reports to. `total` None: the number of requests is not known."""

    def phase(self, label: str, total: int | None) -> None:
        """The next part of the work begins."""

    def update(self, done: int, failed: int, in_flight: int) -> None:
        """Requests of this phase."""

    def note(self, text: str) -> None:
        """A line that stays."""


class NoProgress(Observer):
    """Shows nothing."""


class ProgressLines(Observer):
    """For logs: a line when a phase begins, and then one every five seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._label = ""
        self._due = 0.0

    def phase(self, label: str, total: int | None) -> None:
        self._label = label
        self._due = monotonic() + _LINE_EVERY_S
        self.note(label)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        if monotonic() >= self._due:
            self._due = monotonic() + _LINE_EVERY_S
            line = f"{self._label}: {done} done, {failed} failed, {in_flight} in flight"
            self.note(line)

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class ProgressBar(Observer):
    """For terminals, while `progress` is started."""

    def __init__(self, console: Console) -> None:
        counts = "{task.completed:.0f} done, {task.fields[failed]} failed, {task.fields[in_flight]} in flight"
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TextColumn(counts))
        self.progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task: TaskID | None = None

    def phase(self, label: str, total: int | None) -> None:
        if self._task is not None:
            self.progress.remove_task(self._task)
        self._task = self.progress.add_task(label, total=total, failed=0, in_flight=0)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        if self._task is not None:
            self.progress.update(self._task, completed=done, failed=failed, in_flight=in_flight)

    def note(self, text: str) -> None:
        self.progress.console.print(text, highlight=False, soft_wrap=True)


class RunProgress(Observer):
    """Of a run over several servers: lines that stay on a console, and the phases of each measurement after `where`."""

    def __init__(self, console: Console, inner: Observer) -> None:
        self.where = ""
        self._console, self._inner = console, inner

    def note(self, text: str, style: str | None = None) -> None:
        """A line that stays."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def phase(self, label: str, total: int | None) -> None:
        self._inner.phase(f"{self.where}: {label}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)


def run_async(work: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run` on uvloop where it is installed: a load generator's own overhead is part of what it reports."""
    try:
        factory = import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def observed(work: Callable[[Observer], Coroutine[Any, Any, _T]]) -> _T:
    """Runs the work and returns its result; meanwhile a progress bar on a terminal, lines elsewhere."""
    if not error_console.is_terminal:
        return run_async(work(ProgressLines(error_console)))
    bar = ProgressBar(error_console)
    with bar.progress:
        return run_async(work(bar))


@contextmanager
def interrupts(*only: signal.Signals) -> Generator[asyncio.Event]:
    """An event that the first Ctrl-C or SIGTERM (or the first of the signals given) sets; a second ends the program."""
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
