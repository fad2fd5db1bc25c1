"""What a journey tells while it goes on: a line a step, and within it what the bench tells of its measurements.

Everything goes to stderr. Knows counts, titles and seconds.
"""

from __future__ import annotations

from time import monotonic

from rich.console import Console
from rich.markup import escape

from dragoman_bench.bench.progress import Observer
from dragoman_bench.journey.estimate import told
from dragoman_bench.journey.steps import Leg, Step


class Display:
    """An `Observer` that says at which step it is. `inner` shows the phases."""

    def __init__(self, console: Console, inner: Observer) -> None:
        self._console = console
        self._inner = inner
        self._where = ""
        self._steps = 0
        self._number = 0
        self._end = monotonic()

    def begin(self, steps: int, stored: int, left_s: float) -> None:
        """`stored`: results of an earlier run that are kept."""
        self._steps = steps
        kept = f"{stored} results of an earlier run are kept; " if stored else ""
        todo = f"{steps} steps to measure, {told(left_s)}" if steps else "nothing is left to measure"
        self._say(f"{kept}{todo}")

    def step(self, number: int, step: Step, left_s: float) -> None:
        self._number, self._end = number, monotonic() + left_s
        self._say(f"[bold]{number}/{self._steps}[/] {escape(step.name)}: {escape(step.title)} ({told(left_s)} left)")

    def starting(self, step: Step, expected_s: float | None = None) -> None:
        self._where = step.name
        expected = f" ({told(expected_s)})" if expected_s is not None else ""
        self.phase(f"starting{expected}", None)

    def leg(self, step: Step, leg: Leg) -> None:
        self._where = step.leg_name(leg)

    def failed(self, step: Step, message: str) -> None:
        self._console.print(f"{step.name} failed: {message}", style="red", markup=False, highlight=False)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def phase(self, label: str, total: int | None) -> None:
        place = f"{self._number}/{self._steps} " if self._number else ""
        left_s = self._end - monotonic()
        left = f", {told(left_s)} left" if left_s > 0 else ""
        self._inner.phase(f"{place}{self._where}: {label}{left}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)
