"""How a claim is judged: stated rules that give one of three verdicts, with the numbers that decided.

A difference counts only beyond the spread of the repeats (`spread.compare`), and only with two repeats or more on both
sides and enough answers in each. "Equal" speaks against a claimed difference where the repeats lie close enough together
to have shown one. Knows no particular claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, compare
from dragoman_bench.journey.evidence import At, Evidence, Metric, plain

Verdict = Literal["holds here", "does not hold here", "cannot be told"]
FEWEST_REPEATS = 2
FEWEST_ANSWERS = 20  # within a measurement: of fewer, a rate is coarse and a 99th percentile is the slowest
GENERAL_RULE = (
    "Two numbers differ where their medians are farther apart than the wider range of their repeats, of which each side "
    f"has {FEWEST_REPEATS} or more, each of {FEWEST_ANSWERS} answers or more. Where they do not differ, a claimed "
    f"difference does not hold if the ranges are within {UNKNOWN_SPREAD:.0%} of their medians; if they are wider, it "
    "cannot be told."
)


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    because: str  # the numbers that decided


Rule = Callable[[Evidence], Judgement]


def differs(left: At, right: At, metric: Metric, wanted: Literal["lower", "higher"]) -> Rule:
    """Holds where `left` is lower (or higher) than `right`."""

    def judge(evidence: Evidence) -> Judgement:
        pair = _pair(evidence, left, right, metric)
        if isinstance(pair, Judgement):
            return pair
        found, numbers = compare(*pair), _numbers(left, right, metric, pair)
        if found == "equal":
            close = all(_is_close(spread) for spread in pair)
            return Judgement("does not hold here" if close else "cannot be told", f"no difference: {numbers}")
        return Judgement("holds here" if found == wanted else "does not hold here", numbers)

    return judge


def no_worse(left: At, right: At, metric: Metric) -> Rule:
    """Holds where `left` is not lower than `right`: equal is enough, if the repeats lie close together."""

    def judge(evidence: Evidence) -> Judgement:
        pair = _pair(evidence, left, right, metric)
        if isinstance(pair, Judgement):
            return pair
        found, numbers = compare(*pair), _numbers(left, right, metric, pair)
        if found == "equal" and not all(_is_close(spread) for spread in pair):
            return Judgement("cannot be told", f"the repeats differ too much: {numbers}")
        return Judgement("does not hold here" if found == "lower" else "holds here", numbers)

    return judge


def ratio_within(top: At, bottom: At, metric: Metric, low: float, high: float) -> Rule:
    """Holds where `top` over `bottom` lies in low..high for the whole range of the repeats, does not where none of it
    does."""

    def judge(evidence: Evidence) -> Judgement:
        pair = _pair(evidence, top, bottom, metric)
        if isinstance(pair, Judgement):
            return pair
        over, under = pair
        if not under.low:
            return Judgement("cannot be told", f"{bottom}: {metric.told_spread(under)}")
        least, most = over.low / under.high, over.high / under.low
        told = f"{plain(over.median / under.median)} ({plain(least)}..{plain(most)})"
        because = f"{told} times: {_numbers(top, bottom, metric, pair)}"
        if low <= least and most <= high:
            return Judgement("holds here", because)
        return Judgement("does not hold here" if most < low or least > high else "cannot be told", because)

    return judge


def bounded(at: At, metric: Metric, *, holds: tuple[float, float], fails: tuple[float, float]) -> Rule:
    """Holds where every repeat lies in `holds`, does not where every repeat lies in `fails` (bounds included)."""

    def judge(evidence: Evidence) -> Judgement:
        spread, values = _repeated(evidence, at, metric), evidence.values(at, metric)
        if isinstance(spread, Judgement):
            return spread
        because = f"{at}: {metric.name} {evidence.told(at, metric)}"
        if all(holds[0] <= value <= holds[1] for value in values):
            return Judgement("holds here", because)
        failing = all(fails[0] <= value <= fails[1] for value in values)
        return Judgement("does not hold here" if failing else "cannot be told", because)

    return judge


def both(first: Rule, second: Rule) -> Rule:
    """Holds where both hold; does not where either does not."""

    def judge(evidence: Evidence) -> Judgement:
        one, other = first(evidence), second(evidence)
        because = f"{one.because}; {other.because}"
        verdicts = {one.verdict, other.verdict}
        if "does not hold here" in verdicts:
            return Judgement("does not hold here", because)
        return Judgement("cannot be told" if "cannot be told" in verdicts else "holds here", because)

    return judge


def first_told(*rules: Rule) -> Rule:
    """The first judgement that tells; where none does, the first one's."""

    def judge(evidence: Evidence) -> Judgement:
        judgements = [rule(evidence) for rule in rules]
        return next((found for found in judgements if found.verdict != "cannot be told"), judgements[0])

    return judge


def with_numbers(rule: Rule, *others: tuple[At, Metric]) -> Rule:
    """The same judgement, with further numbers told beside those that decided."""

    def judge(evidence: Evidence) -> Judgement:
        judgement = rule(evidence)
        told = [f"{at}: {metric.name} {said}" for at, metric in others if (said := evidence.told(at, metric))]
        return Judgement(judgement.verdict, "; ".join([judgement.because, *told]))

    return judge


def _pair(evidence: Evidence, left: At, right: At, metric: Metric) -> tuple[Spread, Spread] | Judgement:
    """Both spreads, or why it cannot be told."""
    one, other = _repeated(evidence, left, metric), _repeated(evidence, right, metric)
    if isinstance(one, Judgement):
        return one
    return other if isinstance(other, Judgement) else (one, other)


def _repeated(evidence: Evidence, at: At, metric: Metric) -> Spread | Judgement:
    spread = evidence.spread(at, metric)
    if spread is None or spread.repeats < FEWEST_REPEATS:
        return _missing(at, metric, spread.repeats if spread else 0)
    answers = evidence.fewest_answers(at)
    if answers < FEWEST_ANSWERS:
        return Judgement("cannot be told", f"{at}: only {answers} answers came within a measurement")
    return spread


def _missing(at: At, metric: Metric, repeats: int) -> Judgement:
    if repeats:
        return Judgement("cannot be told", f"{at}: measured once, so its spread is not known")
    return Judgement("cannot be told", f"{at}: {metric.name} was not measured")


def _is_close(spread: Spread) -> bool:
    return spread.high - spread.low <= UNKNOWN_SPREAD * abs(spread.median)


def _numbers(left: At, right: At, metric: Metric, pair: tuple[Spread, Spread]) -> str:
    return f"{metric.name}: {left} {metric.told_spread(pair[0])}, {right} {metric.told_spread(pair[1])}"
