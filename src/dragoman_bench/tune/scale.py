"""How setups are compared: by goodput or requests a second, the SLO before either, and only beyond the noise.

One measurement has no spread: 10 % stands for it (`spread.compare`), and whoever decides asks for repeats where that
leaves a decision open. An SLO counts as broken where a limit is missed in every repeat, and by more than 10 % where there is
only one. Knows nothing of knobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Literal

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, Limit, Slo, compare, spread_of
from dragoman_bench.bench.tables import number as plain
from dragoman_bench.tune.outcome import Metric
from dragoman_bench.tune.points import Seen

Comparison = Literal["higher", "equal", "lower"]
MOST_REPEATS = 3
WORTH = 0.05
"""What a setting must gain, as a share, to be worth having where only rounds side by side can tell it from noise."""
_NAMES: dict[Metric, str] = {"goodput_rps": "goodput", "rps": "requests"}


def attains(seen: Sequence[Seen]) -> bool:
    """The SLO is met in most of the repeats."""
    return sum(one.slo_met is True for one in seen) * 2 > len(seen)


@dataclass(frozen=True, slots=True)
class Scale:
    """`compare(a, b)` says how `a` stands to `b`. Sequences of repeats are not empty."""

    slo: Slo | None
    metric: Metric

    @staticmethod
    def over(slo: Slo | None, groups: Sequence[Sequence[Seen]]) -> Scale:
        """By goodput where any of the groups attains the SLO, else by requests a second."""
        return Scale(slo, "goodput_rps" if slo and any(attains(seen) for seen in groups) else "rps")

    def spread(self, seen: Sequence[Seen]) -> Spread:
        return spread_of([self._value(one) for one in seen])

    def median(self, seen: Sequence[Seen]) -> float:
        return self.spread(seen).median

    def missed(self, seen: Sequence[Seen]) -> dict[Limit, float]:
        """The limits that are missed beyond the noise, with the least that was measured (infinite: too many failed)."""
        found: dict[Limit, float] = {}
        for place, limit in enumerate(self.slo.limits if self.slo else ()):
            values = [_measured_s(one, place) for one in seen]
            allowed_s = limit.limit_s * (1 + UNKNOWN_SPREAD) if len(values) == 1 else limit.limit_s
            if min(values) > allowed_s:
                found[limit] = min(values)
        return found

    def broken(self, seen: Sequence[Seen]) -> str:
        """The same for people; empty where none is missed."""
        told = (
            f"{limit.label}: " + ("too many failed" if value_s == inf else f"{plain(value_s * 1000)} ms")
            for limit, value_s in self.missed(seen).items()
        )
        return ", ".join(told)

    def compare(self, left: Sequence[Seen], right: Sequence[Seen]) -> Comparison:
        """An SLO that one attains and the other breaks decides; else the metric, beyond the spread."""
        if self.metric == "goodput_rps":
            if attains(left) and self.broken(right):
                return "higher"
            if attains(right) and self.broken(left):
                return "lower"
        return compare(self._counted(left), self._counted(right))

    def compare_rounds(self, left: Sequence[Seen], right: Sequence[Seen]) -> Comparison:
        """The same for setups that were measured in turn, round by round: a machine that drifts drifts under both, so who is
        ahead in every one of three rounds or more, and by more than 5 % in the middle one, is ahead, however far apart the
        rounds lie."""
        found = self.compare(left, right)
        ours, theirs = ({one.repeat: self._value(one) for one in seen} for seen in (left, right))
        ahead = [ours[number] - theirs[number] for number in ours if number in theirs]
        if found != "equal" or len(ahead) < MOST_REPEATS:
            return found
        answer = 1 / min(one.window_s for one in (*left, *right))  # a rate is a count: ahead by one answer is not ahead
        if abs(median(ahead)) <= WORTH * max(self.median(left), self.median(right)):
            return "equal"
        if min(ahead) > answer:
            return "higher"
        return "lower" if max(ahead) < -answer else "equal"

    def close(self, left: Sequence[Seen], right: Sequence[Seen]) -> bool:
        """Whether so little lies between them that repeats may decide: no more than what stands for an unknown spread."""
        one, other = self.median(left), self.median(right)
        return abs(one - other) <= UNKNOWN_SPREAD * max(one, other)

    def doubtful(self, seen: Sequence[Seen]) -> bool:
        """Missed once, by so little that it may be noise."""
        return len(seen) < MOST_REPEATS and not attains(seen) and bool(self.slo) and not self.broken(seen)

    def told(self, seen: Sequence[Seen]) -> str:
        """`goodput 34.0 (33.5..34.4) req/s`, and what breaks the SLO."""
        found = self.spread(seen)
        ranged = f" ({plain(found.low)}..{plain(found.high)})" if found.repeats > 1 else ""
        missed = self.broken(seen) if self.metric == "goodput_rps" else ""
        return f"{_NAMES[self.metric]} {plain(found.median)}{ranged} req/s" + (f" (misses {missed})" if missed else "")

    def _counted(self, seen: Sequence[Seen]) -> Spread:
        """With a range of two answers at least, for repeats: rates are counts, and few counts agree by chance."""
        found, least = self.spread(seen), 1 / min(one.window_s for one in seen)
        if found.repeats < 2 or found.high - found.low >= 2 * least:
            return found
        return replace(found, low=found.median - least, high=found.median + least)

    def _value(self, seen: Seen) -> float:
        return seen.rps if self.metric == "rps" else seen.goodput_rps or 0.0


def _measured_s(seen: Seen, place: int) -> float:
    """What the verdict on a limit measured; infinite where too many requests failed for there to be such a number."""
    if place >= len(seen.verdicts):
        return 0.0
    measured_s = seen.verdicts[place].measured_s
    return inf if measured_s is None else measured_s
