"""How long the rest of a tune will take: starts and measurements that are still to come, and what either takes.

A search decides as it goes, so what is left of it is a guess until it has ended; it errs on the long side. Knows nothing of
what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median

from dragoman_bench.journey.run import STOP_S, UNKNOWN_START_S
from dragoman_bench.tune.points import Phase

ORDER: tuple[Phase, ...] = ("ladder", "slots", "batched_tokens", "optional", "memory", "final", "recommended")


@dataclass(frozen=True, slots=True)
class Work:
    """Engine starts, and measurements."""

    phase: Phase
    starts: int
    measurements: int


@dataclass(slots=True)
class Estimate:
    """Grows better as servers start. `left` holds the work that is still to be done."""

    measurement_s: float
    left: dict[Phase, Work] = field(default_factory=dict[Phase, Work])
    starts_s: list[float] = field(default_factory=list[float])

    @classmethod
    def of(cls, measurement_s: float, work: Iterable[Work]) -> Estimate:
        return cls(measurement_s, {one.phase: one for one in work})

    @property
    def start_s(self) -> float:
        """As servers took so far, else a guess; the stop of the one before included."""
        return (median(self.starts_s) if self.starts_s else UNKNOWN_START_S) + STOP_S

    @property
    def left_s(self) -> float:
        return sum(self.work_s(one) for one in self.left.values())

    def work_s(self, work: Work) -> float:
        return work.starts * self.start_s + work.measurements * self.measurement_s

    def started(self, phase: Phase, start_s: float) -> None:
        self.starts_s.append(start_s)
        self._less(phase, starts=1)

    def measured(self, phase: Phase) -> None:
        self._less(phase, measurements=1)

    def reached(self, phase: Phase) -> None:
        """Nothing is left of what comes before the phase, whatever was expected."""
        self.left = {one: work for one, work in self.left.items() if ORDER.index(one) >= ORDER.index(phase)}

    def _less(self, phase: Phase, starts: int = 0, measurements: int = 0) -> None:
        work = self.left.get(phase)
        if work is not None:
            self.left[phase] = replace(
                work, starts=max(0, work.starts - starts), measurements=max(0, work.measurements - measurements)
            )
