"""How a claim is judged: metrics, the numbers of a leg at a load level, and rules with one of three verdicts.

A difference counts only beyond the range of the repeats (`compare`), and only with at least two repeats on both sides and
enough answers in each. Equal numbers contradict a claimed difference where the repeats are close enough together to have
shown one. The claims themselves are in `claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dragoman_bench.bench.results import Measurement, RequestRecord, Results, Spread, members
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, compare, spread_of
from dragoman_bench.bench.tables import number, ranged

Verdict = Literal["holds here", "does not hold here", "undecided"]
FEWEST_REPEATS = 2
FEWEST_ANSWERS = 20  # in a measurement: with fewer, a rate is coarse and a 99th percentile is the slowest request
QUARTER_FEWEST = 20  # requests of a repeat; the median of a quarter of fewer means nothing
GENERAL_RULE = (
    "Two numbers differ where their medians are farther apart than the wider range of their repeats. Each side needs "
    f"{FEWEST_REPEATS} repeats or more, each of {FEWEST_ANSWERS} answers or more. Where they do not differ, a claimed "
    f"difference does not hold if both ranges are within {UNKNOWN_SPREAD:.0%} of their medians; with wider ranges the "
    "claim is undecided."
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of one measurement; None where it has none. `scale` and `unit` are for display."""

    name: str
    read: Callable[[Measurement], float | None]
    unit: str
    scale: float = 1.0

    def text(self, spread: Spread) -> str:
        """Median and range: `12.3 req/s [12.0..12.9]`."""
        return ranged(spread, self.scale, self.unit)


@dataclass(frozen=True, slots=True)
class At:
    """A leg at a number of clients."""

    leg: str
    clients: int

    def __str__(self) -> str:
        return f"{self.leg} at {self.clients} client{'s' if self.clients != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Measured:
    """All results of a journey, by leg name."""

    results: Mapping[str, Results]

    def repeats(self, at: At) -> tuple[Measurement, ...]:
        """Empty where it was not measured."""
        points = self.results[at.leg].points if at.leg in self.results else ()
        return next((point.repeats for point in points if point.load.clients == at.clients), ())

    def values(self, at: At, metric: Metric) -> list[float]:
        """One a repeat; empty unless every repeat has one."""
        found = [metric.read(repeat) for repeat in self.repeats(at)]
        present = [value for value in found if value is not None]
        return present if len(present) == len(found) else []

    def spread(self, at: At, metric: Metric) -> Spread | None:
        values = self.values(at, metric)
        return spread_of(values) if values else None

    def text(self, at: At, metric: Metric) -> str | None:
        """Median and range for display; None where there is no number."""
        spread = self.spread(at, metric)
        return metric.text(spread) if spread else None

    def fewest_answers(self, at: At) -> int:
        """The answers of the repeat that has the fewest."""
        return min((round(repeat.summary.rps * repeat.window_s) for repeat in self.repeats(at)), default=0)

    def flag(self, leg: str, name: str) -> object:
        """A flag of the leg's server; None where it was not set, or the leg was not measured."""
        journey = members(self.results[leg].conditions.options.get("journey")) if leg in self.results else {}
        return members(members(journey.get("fingerprint")).get("flags")).get(name)


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    because: str  # the numbers that decided


Rule = Callable[[Measured], Judgement]


def differs(left: At, right: At, metric: Metric, claimed: Literal["lower", "higher"]) -> Rule:
    """Holds where `left` is lower (or higher) than `right`."""

    def decide(one: Spread, other: Spread, numbers: str) -> Judgement:
        found = compare(one, other)
        if found == "equal":
            verdict: Verdict = "does not hold here" if _close(one, other) else "undecided"
            return Judgement(verdict, f"no difference: {numbers}")
        return Judgement("holds here" if found == claimed else "does not hold here", numbers)

    return _of_pair(left, right, metric, decide)


def no_worse(left: At, right: At, metric: Metric) -> Rule:
    """Holds where `left` is not lower than `right`: equal is enough where the repeats are close together."""

    def decide(one: Spread, other: Spread, numbers: str) -> Judgement:
        found = compare(one, other)
        if found == "equal" and not _close(one, other):
            return Judgement("undecided", f"the repeats differ too much: {numbers}")
        return Judgement("does not hold here" if found == "lower" else "holds here", numbers)

    return _of_pair(left, right, metric, decide)


def ratio_within(top: At, bottom: At, metric: Metric, low: float, high: float) -> Rule:
    """Holds where `top` over `bottom` is within low..high over the whole range of the repeats; does not where none of the
    range is."""

    def decide(over: Spread, under: Spread, numbers: str) -> Judgement:
        if not under.low:
            return Judgement("undecided", numbers)
        least, most = over.low / under.high, over.high / under.low
        ratio = f"{number(over.median / under.median)} [{number(least)}..{number(most)}]"
        verdict: Verdict = "does not hold here" if most < low or least > high else "undecided"
        return Judgement("holds here" if low <= least and most <= high else verdict, f"{ratio} times: {numbers}")

    return _of_pair(top, bottom, metric, decide)


def bounded(at: At, metric: Metric, *, holds: tuple[float, float], fails: tuple[float, float]) -> Rule:
    """Holds where every repeat is in `holds`, does not where every repeat is in `fails` (bounds included)."""

    def judge(measured: Measured) -> Judgement:
        spread, values = _repeated(measured, at, metric), measured.values(at, metric)
        if isinstance(spread, Judgement):
            return spread
        because = f"{at}: {metric.name} {metric.text(spread)}"
        if all(holds[0] <= value <= holds[1] for value in values):
            return Judgement("holds here", because)
        failing = all(fails[0] <= value <= fails[1] for value in values)
        return Judgement("does not hold here" if failing else "undecided", because)

    return judge


def both(first: Rule, second: Rule) -> Rule:
    """Holds where both hold; does not where either does not."""

    def judge(measured: Measured) -> Judgement:
        one, other = first(measured), second(measured)
        because = f"{one.because}; {other.because}"
        verdicts = {one.verdict, other.verdict}
        if "does not hold here" in verdicts:
            return Judgement("does not hold here", because)
        return Judgement("undecided" if "undecided" in verdicts else "holds here", because)

    return judge


def first_decided(*rules: Rule) -> Rule:
    """The first judgement that decides; where none does, the first one."""

    def judge(measured: Measured) -> Judgement:
        judgements = [rule(measured) for rule in rules]
        return next((found for found in judgements if found.verdict != "undecided"), judgements[0])

    return judge


def with_numbers(rule: Rule, *others: tuple[At, Metric]) -> Rule:
    """The same judgement, with further numbers after those that decided."""

    def judge(measured: Measured) -> Judgement:
        judgement = rule(measured)
        further = [f"{at}: {metric.name} {text}" for at, metric in others if (text := measured.text(at, metric))]
        return Judgement(judgement.verdict, "; ".join([judgement.because, *further]))

    return judge


def _of_pair(left: At, right: At, metric: Metric, decide: Callable[[Spread, Spread, str], Judgement]) -> Rule:
    """`decide` with both spreads and their numbers as text; undecided where one of them is missing."""

    def judge(measured: Measured) -> Judgement:
        one, other = _repeated(measured, left, metric), _repeated(measured, right, metric)
        if isinstance(one, Judgement):
            return one
        if isinstance(other, Judgement):
            return other
        return decide(one, other, f"{metric.name}: {left} {metric.text(one)}, {right} {metric.text(other)}")

    return judge


def _repeated(measured: Measured, at: At, metric: Metric) -> Spread | Judgement:
    spread = measured.spread(at, metric)
    if spread is None:
        return Judgement("undecided", f"{at}: {metric.name} was not measured")
    if spread.repeats < FEWEST_REPEATS:
        return Judgement("undecided", f"{at}: measured once, so its range is unknown")
    answers = measured.fewest_answers(at)
    if answers < FEWEST_ANSWERS:
        return Judgement("undecided", f"{at}: a measurement had only {answers} answers")
    return spread


def _close(*spreads: Spread) -> bool:
    return all(spread.high - spread.low <= UNKNOWN_SPREAD * abs(spread.median) for spread in spreads)


def s_per_token(measurement: Measurement) -> float | None:
    """Seconds in the system for each output token, over all completed requests."""
    done = [record for record in measurement.records if record.completed and record.output_tokens]
    tokens = sum(record.output_tokens or 0 for record in done)
    return sum(record.e2e_s for record in done) / tokens if tokens else None


def _quarter_p50_s(measurement: Measurement, *, longest: bool) -> float | None:
    done = sorted((r for r in measurement.records if r.completed), key=lambda record: record.source_tokens)
    if len(done) < QUARTER_FEWEST:
        return None
    quarter: Sequence[RequestRecord] = done[-(len(done) // 4) :] if longest else done[: len(done) // 4]
    return median(record.e2e_s for record in quarter)


def short_p50_s(measurement: Measurement) -> float | None:
    """Median latency of the quarter of requests with the shortest texts."""
    return _quarter_p50_s(measurement, longest=False)


def short_to_long(measurement: Measurement) -> float | None:
    """That median over the same of the quarter with the longest texts: near 1, all requests wait for the longest."""
    short, long = short_p50_s(measurement), _quarter_p50_s(measurement, longest=True)
    return short / long if short is not None and long else None


def percentile(name: str, which: str) -> Callable[[Measurement], float | None]:
    """Reads a percentile (`p50_s` and so on) of a summary's `e2e`, `ttft`, `itl` or `tpot`."""

    def read(measurement: Measurement) -> float | None:
        found = getattr(measurement.summary, name)
        return getattr(found, which) if found else None

    return read


RPS = Metric("requests a second", lambda m: m.summary.rps, " req/s")
TOKENS_S = Metric("output tokens a second", lambda m: m.summary.output_tokens_s, " tok/s")
P50 = Metric("median latency", percentile("e2e", "p50_s"), " ms", 1000)
P99 = Metric("99th percentile of latency", percentile("e2e", "p99_s"), " ms", 1000)
TOKEN_TIME = Metric("time in the system for each output token", s_per_token, " ms", 1000)
SHORT_P50 = Metric("median latency of the shortest quarter", short_p50_s, " ms", 1000)
SHORT_TO_LONG = Metric("latency of short texts over that of long ones", short_to_long, "")
BUSY_SHARE = Metric("engine busy", lambda m: m.summary.engine_busy_share, " %", 100)
GPU_MEAN = Metric("GPU utilisation", lambda m: m.summary.gpu_mean_percent, " %")
GPU_IDLE = Metric("GPU samples under 10 %", lambda m: m.summary.gpu_share_below_10, " %", 100)
PREEMPTIONS = Metric("preemptions", lambda m: m.summary.preemptions, "")
KV_PEAK = Metric("peak KV cache usage", lambda m: m.summary.peak_kv_cache_usage, " %", 100)
GPU_MEMORY = Metric(
    "GPU memory", lambda m: max((sample.memory_mib for sample in m.gpu), default=None), " GiB", 1 / 1024
)
