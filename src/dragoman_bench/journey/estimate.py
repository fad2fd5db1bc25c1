"""How long the rest of a journey will take: measured start times, and the seconds that measuring is planned to take.

Knows nothing of what is measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from dragoman_bench.journey.steps import Leg, Pace, Step

UNKNOWN_START_S = 60.0  # before any was seen: engines take 30 to 80 s
STOP_S = 4.0


@dataclass(slots=True)
class Estimate:
    """Grows better as servers start. `left` holds what is still to be done, in order."""

    pace: Pace
    left: list[tuple[Step, tuple[Leg, ...]]]
    starts_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def started(self, step: Step, start_s: float) -> None:
        self.starts_s.setdefault(_sort(step), []).append(start_s)

    def finished(self, step: Step) -> None:
        self.left = [(other, legs) for other, legs in self.left if other is not step]

    def step_s(self, step: Step, legs: Iterable[Leg]) -> float:
        """Start, measurements, stop."""
        return self.start_s(step) + sum(self.pace.leg_s(leg) for leg in legs) + STOP_S

    def start_s(self, step: Step) -> float:
        """As servers of the same sort took, else as all did, else a guess."""
        seen = self.starts_s.get(_sort(step)) or [start for starts in self.starts_s.values() for start in starts]
        return median(seen) if seen else UNKNOWN_START_S

    @property
    def left_s(self) -> float:
        return sum(self.step_s(step, legs) for step, legs in self.left)


def _sort(step: Step) -> str:
    """Servers that start alike: several workers start several engines."""
    return f"{step.kind}/{step.flags.get('workers', 1)}"


def told(seconds: float) -> str:
    """`about 7 min`, `about 40 s`."""
    return f"about {round(seconds / 60)} min" if seconds >= 90 else f"about {round(seconds / 10) * 10} s"
