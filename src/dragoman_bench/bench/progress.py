"""What a run tells while it goes on: a live bar on a terminal, a line now and then elsewhere. Always on stderr.

Knows counts and labels only.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from time import monotonic
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_LINE_EVERY_S = 5.0


class Observer(Protocol):
    """`total` None: the end is not known in requests."""

    def phase(self, label: str, total: int | None) -> None: ...

    def update(self, done: int, failed: int, in_flight: int) -> None: ...


class Silent:
    def phase(self, label: str, total: int | None) -> None:
        pass

    def update(self, done: int, failed: int, in_flight: int) -> None:
        pass


class Lines:
    """For logs: a line when a phase begins, and then one every five seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._label = ""
        self._due = 0.0

    def phase(self, label: str, total: int | None) -> None:
        self._label = label
        self._due = monotonic() + _LINE_EVERY_S
        self._console.print(label, highlight=False, soft_wrap=True)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        if monotonic() >= self._due:
            self._due = monotonic() + _LINE_EVERY_S
            told = f"{self._label}: {done} done, {failed} failed, {in_flight} in flight"
            self._console.print(told, highlight=False, soft_wrap=True)


class Live(AbstractContextManager["Live"]):
    """For terminals."""

    def __init__(self, console: Console) -> None:
        counts = "{task.completed:.0f} done, {task.fields[failed]} failed, {task.fields[in_flight]} in flight"
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(counts),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def phase(self, label: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(label, total=total, failed=0, in_flight=0)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=done, failed=failed, in_flight=in_flight)


def console() -> Console:
    return Console(file=sys.stderr)
