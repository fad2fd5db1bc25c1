"""The best settings so far, and how others are tried against them: one trial, repeated only where that may decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dragoman_bench.tune.compare import MOST_REPEATS, Comparison, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.ladder import Measure, Search
from dragoman_bench.tune.outcome import (
    Choice,
    Choices,
    Hardware,
    Knobs,
    Ladder,
    LoadLevel,
    Memory,
    Phase,
    Results,
    Setup,
    Trial,
    knobs_of,
    with_choices,
)

Verdict = Comparison | Literal["failed"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a search of settings rests on. `ladder_trial`: its server had sequences for all clients, and reported its cache."""

    demand: Demand
    hardware: Hardware
    objective: Objective
    ladder: Ladder
    ladder_trial: Trial
    repeats: int = MOST_REPEATS  # of one level, at most

    @property
    def busy(self) -> LoadLevel:
        return LoadLevel(self.demand.levels.busy)


@dataclass(frozen=True, slots=True)
class Best:
    """`results`: at the busy level (or at the ladder's best cap), what an attempt is compared with; `trial`: their trial."""

    choices: Choices
    results: Results
    trial: Trial
    memory: Memory | None = None

    @property
    def knobs(self) -> Knobs:
        return knobs_of(self.choices)

    @property
    def slots(self) -> int:
        return self.knobs.max_num_seqs or 1

    def choose(self, *changed: Choice) -> Best:
        """With other values, each with its reason."""
        return replace(self, choices=with_choices(self.choices, *changed))

    def sized(self, memory: Memory) -> Best:
        """With the memory setting as computed, where it could be."""
        choice = memory.choice
        return replace(self.choose(choice) if choice else self, memory=memory)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trial against the best. `wins_ties`: it is the simpler one, and need only be no worse."""

    name: str
    phase: Phase
    knobs: Knobs
    why: str
    wins_ties: bool = False

    def measure(self, level: LoadLevel, repeat: int, note: str = "", phase: Phase | None = None) -> Measure:
        return Measure(self.name, phase or self.phase, Setup(self.knobs), level, self.why, repeat, note)

    def against(self, context: Context, bar: Results) -> Search[tuple[Trial, Verdict]]:
        """The trial at the busy level, measured as often as the comparison with `bar` needs."""
        trial = yield self.measure(context.busy, 0)
        while trial.outcome == "measured":
            results = trial.at(context.busy)
            if len(results) >= context.repeats or not context.objective.may_change(results, bar):
                break
            trial = yield self.measure(context.busy, len(results), "again: the two are close")
        results = trial.at(context.busy)
        return trial, context.objective.compare(results, bar) if results else "failed"

    def repeated(self, context: Context, trial: Trial) -> Search[Trial]:
        """The winner's trial with all its repeats: later trials are compared with them."""
        while trial.outcome == "measured" and (count := len(trial.at(context.busy))) < context.repeats:
            trial = yield self.measure(context.busy, count, "again: later trials are compared with it")
        return trial

    def wins(self, verdict: Verdict) -> bool:
        return verdict == "higher" or (self.wins_ties and verdict == "equal")


def skip(name: str, phase: Phase, knobs: Knobs, reason: str) -> Trial:
    """A point that is not measured, for the record."""
    return Trial(name, phase, Setup(knobs), "one of the points that a grid would try", "skipped", reason)
