"""What a tune reports while it runs (on stderr), and how long the rest will take.

A search decides as it goes, so what is left of it is an estimate, on the long side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from rich.console import Console

from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import about, number, seconds
from dragoman_bench.tune.outcome import LevelResult, LoadLevel, Phase, Trial

ORDER: tuple[Phase, ...] = ("ladder", "slots", "batched_tokens", "optional", "memory", "final", "recommended")
_UNKNOWN_START_S = 60.0  # engines take 30 to 80 s
_STOP_S = 4.0


@dataclass(frozen=True, slots=True)
class PhaseWork:
    """Engine starts and measurements of a phase."""

    phase: Phase
    starts: int
    measurements: int


@dataclass(slots=True)
class TimeEstimate:
    """`measurement_s` and 60 s a start, until some were made: then the median of those. `left`: work still to be done."""

    measurement_s: float
    left: dict[Phase, PhaseWork] = field(default_factory=dict[Phase, PhaseWork])
    starts_s: list[float] = field(default_factory=list[float])
    measurements_s: list[float] = field(default_factory=list[float])

    @classmethod
    def of(cls, measurement_s: float, work: Iterable[PhaseWork]) -> TimeEstimate:
        return cls(measurement_s, {one.phase: one for one in work})

    @property
    def start_s(self) -> float:
        """Of one start, with the stop of the server before."""
        return (median(self.starts_s) if self.starts_s else _UNKNOWN_START_S) + _STOP_S

    @property
    def left_s(self) -> float:
        return sum(self.cost_s(work.starts, work.measurements) for work in self.left.values())

    def cost_s(self, starts: int, measurements: int) -> float:
        measurement_s = median(self.measurements_s) if self.measurements_s else self.measurement_s
        return starts * self.start_s + measurements * measurement_s

    def started(self, phase: Phase, start_s: float) -> None:
        self.starts_s.append(start_s)
        self._less(phase, starts=1)

    def measured(self, phase: Phase, took_s: float | None = None) -> None:
        """`took_s` None: taken from an earlier run."""
        if took_s is not None:
            self.measurements_s.append(took_s)
        self._less(phase, measurements=1)

    def reached(self, phase: Phase) -> None:
        """Nothing is left of the phases before this one."""
        self.left = {one: work for one, work in self.left.items() if ORDER.index(one) >= ORDER.index(phase)}

    def _less(self, phase: Phase, starts: int = 0, measurements: int = 0) -> None:
        if work := self.left.get(phase):
            starts, measurements = max(0, work.starts - starts), max(0, work.measurements - measurements)
            self.left[phase] = replace(work, starts=starts, measurements=measurements)


class TuneProgress:
    """An `Observer` that shows which trial is measured, each result, and the time left. `inner` shows the bench's phases."""

    def __init__(self, console: Console, inner: Observer, estimate: TimeEstimate) -> None:
        self.estimate = estimate
        self._console = console
        self._inner = inner
        self._prefix = ""
        self._end_s = monotonic()

    def begin(self, phase: Phase, title: str) -> None:
        self.estimate.reached(phase)
        self._update_left()
        self._print(f"{title}{self._left(' ({} left)')}", "bold")

    def starting(self, name: str, why: str) -> None:
        self._update_left()
        self._prefix = name
        self._print(f"{name}: {why}")
        self.phase(f"starting ({about(self.estimate.start_s)})", None)

    def measuring(self, name: str, level: LoadLevel, note: str) -> None:
        self._update_left()
        cap = f", at most {level.cap} at once" if level.cap is not None else ""
        self._prefix = f"{name}{cap}{', long texts' if level.draw == 'long' else ''}"
        if note:
            self._print(f"  {note}", "dim")

    def measured(self, result: LevelResult, name: str = "", *, stored: bool = False) -> None:
        prefix = f"{name}, " if name else ""
        self._print(f"  {prefix}{result_line(result)}{' (from an earlier run)' if stored else ''}")

    def ended(self, trial: Trial) -> None:
        """A trial that failed, was interrupted or skipped."""
        failed = trial.outcome in ("did_not_start", "failed_under_load")
        self._print(f"{trial.name} {trial.ending}", "red" if failed else "dim")

    def note(self, text: str) -> None:
        self._print(text)

    def phase(self, label: str, total: int | None) -> None:
        self._inner.phase(f"{self._prefix}: {label}{self._left(', {} left')}", total)

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self._inner.update(done, failed, in_flight)

    def _update_left(self) -> None:
        self._end_s = monotonic() + self.estimate.left_s

    def _left(self, template: str) -> str:
        left_s = self._end_s - monotonic()
        return template.format(about(left_s)) if left_s > 0 else ""

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def result_line(result: LevelResult) -> str:
    """`25 clients, at most 8 at once: 12.3 req/s, goodput 11.9, p95 1.2 s, 4.1 ms a token`."""
    parts = [f"{number(result.rps)} req/s"]
    if result.goodput_rps is not None:
        parts.append(f"goodput {number(result.goodput_rps)}")
    if result.e2e_p95_s is not None:
        parts.append(f"p95 {seconds(result.e2e_p95_s)}")
    if result.slo_met is not None:
        parts.append("SLO met" if result.slo_met else "SLO missed")
    if result.decode_s_per_token is not None:
        parts.append(f"{number(result.decode_s_per_token * 1000)} ms a token")
    if result.peak_kv_cache_usage is not None:
        parts.append(f"KV cache {result.peak_kv_cache_usage:.0%} at most")
    if result.preemptions:
        parts.append(f"{result.preemptions} preemptions")
    if result.failed:
        parts.append(f"{result.failed} failed")
    return f"{result.level.label}: {', '.join(parts)}"
