"""Compares results, and tries settings against the best so far. Repeats measurements only if this may decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Literal

from dragoman_bench.bench.measurement import Machine
from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, Slo, compare, spread_of
from dragoman_bench.bench.tables import number, seconds
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import (
    Choice,
    Choices,
    Knobs,
    Ladder,
    LevelResult,
    LoadLevel,
    Measure,
    Memory,
    Metric,
    Phase,
    Results,
    Search,
    Setup,
    Trial,
    knobs_of,
    with_choices,
)

Comparison = Literal["higher", "equal", "lower"]
MOST_REPEATS = 3
WORTHWHILE = 0.05
"""The share that a setting must gain where it is ahead in every round, but by less than the rounds differ."""


def meets(results: Results) -> bool:
    """Whether most repeats meet the SLO."""
    return sum(result.slo_met is True for result in results) * 2 > len(results)


@dataclass(frozen=True, slots=True)
class Objective:
    """The order of results: those that meet the SLO first, then by `metric`: goodput, or requests a second.

    Results are the repeats of one level, at least one. The spread of a single measurement is taken as 10 %
    (`summary.compare`); if this does not decide, the search measures again.
    """

    slo: Slo | None
    metric: Metric

    @staticmethod
    def over(slo: Slo | None, groups: Sequence[Results]) -> Objective:
        """Return the objective: goodput if any of the groups meets the SLO, else requests a second."""
        return Objective(slo, "goodput_rps" if slo and any(map(meets, groups)) else "rps")

    def value(self, result: LevelResult) -> float:
        return getattr(result, self.metric) or 0.0

    def spread(self, results: Results) -> Spread:
        return spread_of([self.value(result) for result in results])

    def passes(self, results: Results) -> bool:
        """Whether the results meet the SLO; always true without an SLO, or if no results meet it."""
        return self.metric == "rps" or meets(results)

    def rank(self, results: Results) -> tuple[bool, float]:
        """Return a sort key: results that meet the SLO first, then by median."""
        return self.passes(results), self.spread(results).median

    def compare(self, left: Results, right: Results) -> Comparison:
        """Compare `left` with `right`: by the SLO if only one meets it, else by the metric beyond the spread."""
        if self.passes(left) != self.passes(right):
            return "higher" if self.passes(left) else "lower"
        return compare(self._counted(left), self._counted(right))

    def compare_rounds(self, left: Results, right: Results) -> Comparison:
        """Compare results that were measured in turn, so that drift of the machine affects both: one is ahead if it is better
        in each of at least three rounds and by more than 5 % in the median, even if the rounds differ widely."""
        verdict = self.compare(left, right)
        ours, theirs = ({one.repeat: self.value(one) for one in results} for results in (left, right))
        ahead = [ours[repeat] - theirs[repeat] for repeat in ours if repeat in theirs]
        best = max(self.spread(left).median, self.spread(right).median)
        if verdict != "equal" or len(ahead) < MOST_REPEATS or abs(median(ahead)) <= WORTHWHILE * best:
            return verdict
        answer = 1 / min(one.window_s for one in (*left, *right))  # a rate is a count: one answer more is no lead
        if min(ahead) > answer:
            return "higher"
        return "lower" if max(ahead) < -answer else "equal"

    def may_change(self, results: Results, bar: Results) -> bool:
        """Whether another repeat may change how `results` compare with `bar`."""
        if self.metric == "goodput_rps" and not meets(results) and meets(bar):
            return not self.missed(results)
        one, other = self.spread(results).median, self.spread(bar).median
        return abs(one - other) <= UNKNOWN_SPREAD * max(one, other) or self.compare(results, bar) == "equal"

    def missed(self, results: Results) -> str:
        """Describe limits that are clearly missed, with the lowest measured value; empty if there are none. A single
        measurement must miss a limit by more than 10 %."""
        found: list[str] = []
        for place, limit in enumerate(self.slo.limits if self.slo else ()):
            judged = [result.verdicts[place].measured_s for result in results if place < len(result.verdicts)]
            least_s = min((inf if one is None else one for one in judged), default=0.0)
            if least_s > limit.limit_s * (1 + UNKNOWN_SPREAD * (len(results) == 1)):
                found.append(f"{limit.label}: {'too many requests failed' if least_s == inf else seconds(least_s)}")
        return ", ".join(found)

    def describe(self, results: Results) -> str:
        """Describe results: `goodput 34.0 [33.5..34.4] req/s`, with the tail latency and whether the SLO is missed."""
        found, name = self.spread(results), "throughput" if self.metric == "rps" else "goodput"
        ranged = f" [{number(found.low)}..{number(found.high)}]" if found.repeats > 1 else ""
        tails = [result.e2e_p95_s for result in results if result.e2e_p95_s is not None]
        tail = f", p95 {seconds(median(tails))}" if tails else ""
        return f"{name} {number(found.median)}{ranged} req/s{tail}" + (
            "" if self.passes(results) else " (misses the SLO)"
        )

    def _counted(self, results: Results) -> Spread:
        """Repeats have a range of two answers at least: rates are counts, and small counts agree by chance."""
        found, answer = self.spread(results), 1 / min(one.window_s for one in results)
        if found.repeats < 2 or found.high - found.low >= 2 * answer:
            return found
        return replace(found, low=found.median - answer, high=found.median + answer)


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a search. `ladder_trial`: its server had sequences for all clients, and reported its KV cache."""

    demand: Demand
    machine: Machine
    objective: Objective
    ladder: Ladder
    ladder_trial: Trial
    repeats: int = MOST_REPEATS  # of one level, at most

    @property
    def busy(self) -> LoadLevel:
        return LoadLevel(self.demand.levels.busy)


@dataclass(frozen=True, slots=True)
class Best:
    """The best settings so far. `results`: those at the busy level (or at the ladder's best cap), with which attempts are
    compared; `trial`: their trial."""

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
        """Return the settings with other values, each with its reason."""
        return replace(self, choices=with_choices(self.choices, *changed))

    def sized(self, memory: Memory) -> Best:
        """Return the settings with this memory setting and no other, or with the server's default if it has no value."""
        kept = tuple(one for one in self.choices if one.name not in ("gpu_memory_utilization", "kv_cache_memory_bytes"))
        chosen = with_choices(kept, memory.choice) if memory.choice else kept
        return replace(self, choices=chosen, memory=memory)


@dataclass(frozen=True, slots=True)
class ComparedTrial:
    """A trial that is compared with the best. `wins_ties`: it is the simpler one, and wins if it is not worse."""

    name: str
    phase: Phase
    knobs: Knobs
    why: str
    wins_ties: bool = False

    def measure(self, level: LoadLevel, repeat: int = 0, note: str = "", phase: Phase | None = None) -> Measure:
        return Measure(self.name, phase or self.phase, Setup(self.knobs), level, self.why, repeat, note)

    def against(self, context: Context, bar: Results) -> Search[tuple[Trial, Comparison | Literal["failed"]]]:
        """Measure the trial at the busy level, as often as the comparison with `bar` needs."""
        trial = yield self.measure(context.busy)
        while trial.outcome == "measured":
            results = trial.at(context.busy)
            if len(results) >= context.repeats or not context.objective.may_change(results, bar):
                break
            trial = yield self.measure(context.busy, len(results), "again: the two are close")
        results = trial.at(context.busy)
        return trial, context.objective.compare(results, bar) if results else "failed"

    def repeated(self, context: Context, trial: Trial) -> Search[Trial]:
        """Measure all repeats of a winner, with which later trials are compared."""
        while trial.outcome == "measured" and (count := len(trial.at(context.busy))) < context.repeats:
            trial = yield self.measure(context.busy, count, "again: later trials are compared with it")
        return trial

    def wins(self, verdict: Comparison | Literal["failed"]) -> bool:
        return verdict == "higher" or (self.wins_ties and verdict == "equal")
