"""Shows a training run: a live bar on a terminal, plain lines elsewhere. Knows nothing of training but its figures."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tools.phrasebook.learner import Tally

_LINE_EVERY_S = 10.0


class Progress:
    """A context manager; `note` prints a line, `step` shows where the run stands."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=self._console, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("training", total=1.0)
        self._last_line = float("-inf")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def step(self, used: float, tally: Tally, measured: dict[str, float]) -> None:
        """`used` is the share of the budget spent."""
        speed = tally.tokens / max(tally.elapsed_s, 1e-9)
        text = (
            f"step {tally.step}  loss {measured['loss']:.4f}  held out {measured['held_out_loss']:.4f}  "
            f"{tally.tokens / 1e6:.1f} M tokens  {speed / 1e3:.0f} k/s"
        )
        self._bar.update(self._task, completed=used, description=text)
        if not self._console.is_terminal and time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.note(f"{used:6.1%}  {text}")
