"""The best setup so far, and how another one is tried against it.

A trial is measured at the busy level, and again, up to three times, only where that may decide: its server is up, so a
repeat costs a measurement and no start. Knows nothing of which knob is turned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import Ladder, Memory
from dragoman_bench.tune.points import Ask, Knobs, Level, Phase, Place, Seen, Setup, Steps, Trial
from dragoman_bench.tune.scale import MOST_REPEATS, Comparison, Scale
from dragoman_bench.tune.sizing import Sizer

Found = Comparison | Literal["failed"]


@dataclass(frozen=True, slots=True)
class Case:
    """What a search of the knobs is about. `ladder_trial`: its server was never the limit, and told its cache."""

    demand: Demand
    place: Place
    scale: Scale
    ladder: Ladder
    ladder_trial: Trial
    repeats: int = MOST_REPEATS  # of one level, at most

    @property
    def busy(self) -> Level:
        return Level(self.demand.levels.busy)

    @property
    def sizer(self) -> Sizer:
        return Sizer(self.demand, self.place, self.ladder_trial)


@dataclass(frozen=True, slots=True)
class Incumbent:
    """`seen`: at the busy level, what a challenger is held against; `trial`: where that was measured."""

    knobs: Knobs
    seen: tuple[Seen, ...]
    trial: Trial
    memory: Memory | None = None
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def slots(self) -> int:
        return self.knobs.max_num_seqs or 1

    def because(self, **reasons: str) -> Incumbent:
        return replace(self, reasons={**self.reasons, **reasons})


@dataclass(frozen=True, slots=True)
class Challenge:
    """One trial against the incumbent. `wins_ties`: it is the simpler one, and need only not be worse."""

    name: str
    phase: Phase
    knobs: Knobs
    why: str
    wins_ties: bool = False

    def ask(self, level: Level, repeat: int, note: str = "", phase: Phase | None = None) -> Ask:
        return Ask(self.name, phase or self.phase, Setup(self.knobs), level, self.why, repeat, note)

    def run(self, case: Case, against: tuple[Seen, ...]) -> Steps[tuple[Trial, Found]]:
        """The trial, measured as often as it takes to tell."""
        trial = yield self.ask(case.busy, 0)
        while trial.outcome == "measured" and self._open(case, trial, against):
            trial = yield self.ask(case.busy, len(trial.at(case.busy)), "again: the two lie close together")
        seen = trial.at(case.busy)
        return trial, case.scale.compare(seen, against) if seen else "failed"

    def settled(self, case: Case, trial: Trial) -> Steps[Trial]:
        """The winner's trial with all its repeats: what comes later is held against it."""
        while trial.outcome == "measured" and (count := len(trial.at(case.busy))) < case.repeats:
            trial = yield self.ask(case.busy, count, "again: what is measured later is held against it")
        return trial

    def wins(self, found: Found) -> bool:
        return found == "higher" or (self.wins_ties and found == "equal")

    def _open(self, case: Case, trial: Trial, against: tuple[Seen, ...]) -> bool:
        """Whether a repeat may change who wins: they lie close, on the side where the spread decides."""
        seen = trial.at(case.busy)
        undecided = case.scale.close(seen, against) or case.scale.compare(seen, against) == "equal"
        if len(seen) >= case.repeats or not undecided:
            return False
        ahead = case.scale.median(seen) > case.scale.median(against)
        return ahead != self.wins_ties


def skip(name: str, phase: Phase, knobs: Knobs, reason: str) -> Trial:
    """A point that is not measured, for the record."""
    return Trial(name, phase, Setup(knobs), "one of the points that a grid would try", "skipped", reason)


def fate(trial: Trial) -> str:
    """How a trial that did not win by its numbers ended, for people."""
    return f"{trial.outcome.replace('_', ' ')}: {trial.reason}" if trial.reason else trial.outcome.replace("_", " ")
