"""What a tune tells while it goes on: each phase and trial with its reason, each measurement's numbers, the time left.

Everything goes to stderr. Decides nothing.
"""

from __future__ import annotations

from time import monotonic

from rich.console import Console
from rich.markup import escape

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import about as told
from dragoman_bench.bench.tables import number
from dragoman_bench.bench.tables import seconds as duration
from dragoman_bench.tune.points import Level, Outcome, Seen, Trial


class Display:
    """An `Observer` that says at which trial it is. `inner` shows the bench's phases."""

    def __init__(self, console: Console, inner: Observer) -> None:
        self._console = console
        self._inner = inner
        self._where = ""
        self._end_s = monotonic()

    def left(self, left_s: float) -> None:
        """How long the rest will take."""
        self._end_s = monotonic() + left_s

    def heading(self, title: str) -> None:
        """A phase begins."""
        left_s = self._end_s - monotonic()
        self._say(f"[bold]{escape(title)}[/]" + (f" ({told(left_s)} left)" if left_s > 0 else ""))

    def starting(self, name: str, why: str, expected_s: float) -> None:
        self._where = name
        self._say(f"{escape(name)}: {escape(why)}")
        self.phase(f"starting ({told(expected_s)})", None)

    def measuring(self, name: str, level: Level, note: str) -> None:
        """What the bench's own phases say (the clients) is left to them."""
        cap = f", at most {level.cap} at once" if level.cap is not None else ""
        self._where = f"{name}{cap}{', long texts' if level.draw == 'long' else ''}"
        if note:
            self._console.print(f"  {note}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def seen(self, seen: Seen, kept: bool) -> None:
        self._say(f"  {escape(line(seen))}" + (" [dim](kept)[/]" if kept else ""))

    def told(self, name: str, seen: Seen, kept: bool) -> None:
        """As `seen`, where several servers are measured in turn."""
        self._say(f"  {escape(f'{name}, {line(seen)}')}" + (" [dim](kept)[/]" if kept else ""))

    def out(self, name: str, outcome: Outcome, reason: str) -> None:
        """A server that failed."""
        how = outcome.replace("_", " ")
        self._console.print(f"{name} {how}: {reason}", style="red", markup=False, highlight=False, soft_wrap=True)

    def skipped(self, trial: Trial) -> None:
        self._console.print(
            f"{trial.name} is skipped: {trial.reason}", style="dim", markup=False, highlight=False, soft_wrap=True
        )

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _say(self, markup: str) -> None:
        self._console.print(markup, highlight=False, soft_wrap=True)

    def phase(self, label: str, total: int | None) -> None:
        left_s = self._end_s - monotonic()
        left = f", {told(left_s)} left" if left_s > 0 else ""
        self._inner.phase(f"{self._where}: {label}{left}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)


def line(seen: Seen) -> str:
    """`25 clients, at most 8 at once: 12.3 req/s, goodput 11.9, p95 1.2 s, 4.1 ms a token, KV 12 %`."""
    parts = [f"{number(seen.rps)} req/s"]
    if seen.goodput_rps is not None:
        parts.append(f"goodput {number(seen.goodput_rps)}")
    if seen.e2e_p95_s is not None:
        parts.append(f"p95 {duration(seen.e2e_p95_s)}")
    if seen.decode_s_per_token is not None:
        parts.append(f"{number(seen.decode_s_per_token * 1000)} ms a token")
    if seen.peak_kv_cache_usage is not None:
        parts.append(f"KV cache {seen.peak_kv_cache_usage:.0%} at most")
    if seen.preemptions:
        parts.append(f"{seen.preemptions} preemptions")
    if seen.failed:
        parts.append(f"{seen.failed} failed")
    return f"{seen.level.label}: {', '.join(parts)}"
