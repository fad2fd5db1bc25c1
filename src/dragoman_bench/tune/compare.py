"""How results are compared, and how settings are tried against the best so far: one trial, repeated only where that may decide.

What meets the SLO comes first, then goodput or requests a second, beyond the spread.

The SLO is met where most repeats meet it. One measurement has no spread: 10 % stands for it (`bench.spread`), and where that
leaves a decision open the search measures again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Literal

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, Limit, Slo, compare, spread_of
from dragoman_bench.bench.tables import number, seconds
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import (
    Choice,
    Choices,
    Hardware,
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
METRIC_NAMES: dict[Metric, str] = {"goodput_rps": "goodput", "rps": "throughput"}


def meets(results: Sequence[LevelResult]) -> bool:
    """Whether most repeats meet the SLO."""
    return sum(result.slo_met is True for result in results) * 2 > len(results)


@dataclass(frozen=True, slots=True)
class Objective:
    """What decides. `metric`: goodput (requests that finished within the SLO), or all requests a second.

    `compare(a, b)` says how `a` compares with `b`. Results are the repeats of one level; none of them is empty.
    """

    slo: Slo | None
    metric: Metric

    @staticmethod
    def over(slo: Slo | None, groups: Sequence[Sequence[LevelResult]]) -> Objective:
        """Goodput where any of the groups meets the SLO, else requests a second."""
        return Objective(slo, "goodput_rps" if slo and any(map(meets, groups)) else "rps")

    def spread(self, results: Sequence[LevelResult]) -> Spread:
        return spread_of([self._value(result) for result in results])

    def rank(self, results: Sequence[LevelResult]) -> tuple[bool, float]:
        """A key to sort by: what meets the SLO first, then the median."""
        return self._passes(results), self.spread(results).median

    def eligible(self, groups: Sequence[Results]) -> list[Results]:
        """Those that meet the SLO; where none does, all."""
        passing = [results for results in groups if self._passes(results)]
        return passing or list(groups)

    def compare(self, left: Sequence[LevelResult], right: Sequence[LevelResult]) -> Comparison:
        """The SLO decides where one meets it and the other does not; else the metric, beyond the spread."""
        if self._passes(left) != self._passes(right):
            return "higher" if self._passes(left) else "lower"
        return compare(self._counted(left), self._counted(right))

    def compare_rounds(self, left: Sequence[LevelResult], right: Sequence[LevelResult]) -> Comparison:
        """For results that were measured in turn. A machine that drifts drifts under both: one that is ahead in each of
        three rounds or more, and by more than 5 % in the median, is ahead however far the rounds lie apart."""
        verdict = self.compare(left, right)
        ours, theirs = ({one.repeat: self._value(one) for one in results} for results in (left, right))
        ahead = [ours[repeat] - theirs[repeat] for repeat in ours if repeat in theirs]
        if verdict != "equal" or len(ahead) < MOST_REPEATS:
            return verdict
        answer = 1 / min(one.window_s for one in (*left, *right))  # a rate is a count: one answer more is no lead
        if abs(median(ahead)) <= WORTHWHILE * max(self.spread(left).median, self.spread(right).median):
            return "equal"
        if min(ahead) > answer:
            return "higher"
        return "lower" if max(ahead) < -answer else "equal"

    def may_change(self, results: Sequence[LevelResult], bar: Sequence[LevelResult]) -> bool:
        """Whether a further repeat may change how `results` compare with `bar`."""
        if self.metric == "goodput_rps" and not meets(results) and meets(bar):
            return not self.missed(results)
        one, other = self.spread(results).median, self.spread(bar).median
        near = abs(one - other) <= UNKNOWN_SPREAD * max(one, other)
        return near or self.compare(results, bar) == "equal"

    def missed(self, results: Sequence[LevelResult]) -> str:
        """The limits that are missed beyond doubt, with the least that was measured; empty where there are none. One
        measurement leaves a doubt within 10 %."""
        found: list[str] = []
        for place, limit in enumerate(self.slo.limits if self.slo else ()):
            values = [_measured_s(result, place) for result in results]
            allowed_s = limit.limit_s * (1 + UNKNOWN_SPREAD) if len(values) == 1 else limit.limit_s
            if min(values) > allowed_s:
                found.append(_missed(limit, min(values)))
        return ", ".join(found)

    def describe(self, results: Sequence[LevelResult]) -> str:
        """`goodput 34.0 [33.5..34.4] req/s`, with the tail latency and whether the SLO is missed."""
        found = self.spread(results)
        ranged = f" [{number(found.low)}..{number(found.high)}]" if found.repeats > 1 else ""
        text = f"{METRIC_NAMES[self.metric]} {number(found.median)}{ranged} req/s"
        tails = [result.e2e_p95_s for result in results if result.e2e_p95_s is not None]
        text += f", p95 {seconds(median(tails))}" if tails else ""
        return text if self._passes(results) else f"{text} (misses the SLO)"

    def _passes(self, results: Sequence[LevelResult]) -> bool:
        """Without an SLO, or where nothing meets it, the SLO does not distinguish results."""
        return self.metric == "rps" or meets(results)

    def _counted(self, results: Sequence[LevelResult]) -> Spread:
        """Repeats have a range of two answers at least: rates are counts, and small counts agree by chance."""
        found, answer = self.spread(results), 1 / min(one.window_s for one in results)
        if found.repeats < 2 or found.high - found.low >= 2 * answer:
            return found
        return replace(found, low=found.median - answer, high=found.median + answer)

    def _value(self, result: LevelResult) -> float:
        return result.rps if self.metric == "rps" else result.goodput_rps or 0.0


def _measured_s(result: LevelResult, place: int) -> float:
    """What was measured for the limit at `place`; infinite where too many requests failed for there to be such a number."""
    if place >= len(result.verdicts):
        return 0.0
    measured_s = result.verdicts[place].measured_s
    return inf if measured_s is None else measured_s


def _missed(limit: Limit, value_s: float) -> str:
    return f"{limit.label}: " + ("too many requests failed" if value_s == inf else seconds(value_s))


# trials against the best settings so far

AttemptVerdict = Comparison | Literal["failed"]


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

    def against(self, context: Context, bar: Results) -> Search[tuple[Trial, AttemptVerdict]]:
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

    def wins(self, verdict: AttemptVerdict) -> bool:
        return verdict == "higher" or (self.wins_ties and verdict == "equal")


def skip(name: str, phase: Phase, knobs: Knobs, reason: str) -> Trial:
    """A point that is not measured, for the record."""
    return Trial(name, phase, Setup(knobs), "one of the points that a grid would try", "skipped", reason)
