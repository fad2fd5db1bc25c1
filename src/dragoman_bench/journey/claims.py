"""The story as data: a team's numbers (on one RTX 5090), its claims and further ones, and the rules that judge them.

The story's numbers are only quoted. A claim is judged for this model, this machine and these texts. Two numbers differ only
beyond the range of the repeats (`compare`), with at least two repeats on both sides and enough answers in each. Equal numbers
contradict a claimed difference if the repeats are close enough together to show one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from math import inf
from statistics import median
from typing import Literal

from dragoman_bench.bench.results import Repeat, Results, Spread
from dragoman_bench.bench.summary import UNKNOWN_SPREAD, compare, spread_of
from dragoman_bench.bench.tables import number, ranged
from dragoman_bench.journey.steps import BUSY, FEW

Verdict = Literal["holds here", "does not hold here", "undecided"]
FEWEST_REPEATS = 2
FEWEST_ANSWERS = 20  # in a measurement: with fewer, a rate is coarse and a 99th percentile is the slowest request
QUARTER_FEWEST = 20  # requests of a repeat; the median of a quarter of fewer means nothing
STORY_FACTOR = 4.9
GENERAL_RULE = (
    "Two numbers differ where their medians are farther apart than the wider range of their repeats. Each side needs "
    f"{FEWEST_REPEATS} repeats or more, each of {FEWEST_ANSWERS} answers or more. Where they do not differ, a claimed "
    f"difference does not hold if both ranges are within {UNKNOWN_SPREAD:.0%} of their medians; with wider ranges the "
    "claim is undecided. A number that must be within limits holds where every repeat is, and does not where none is."
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a measurement, which may be None. `scale` and `unit` are for display."""

    name: str
    read: Callable[[Repeat], float | None]
    unit: str
    scale: float = 1.0

    def text(self, spread: Spread) -> str:
        """Format median and range: `12.3 req/s [12.0..12.9]`."""
        return ranged(spread, self.scale, self.unit)


@dataclass(frozen=True, slots=True)
class At:
    """A leg at a number of clients. `leg` may be a pattern, which selects the matching leg with the most requests a second."""

    leg: str
    clients: int = BUSY

    def __str__(self) -> str:
        return f"{self.leg} at {self.clients} client{'s' if self.clients != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Measured:
    """All results of a journey, by leg name."""

    results: Mapping[str, Results]

    def resolve(self, at: At) -> At:
        """Return the leg that a pattern selects, or the pattern if no leg has repeats."""
        if "*" not in at.leg:
            return at
        legs = [At(leg, at.clients) for leg in self.results if fnmatch(leg, at.leg)]
        found = {one: self.spread(one, RPS) for one in legs}
        repeated = {one: spread.median for one, spread in found.items() if spread and spread.repeats >= FEWEST_REPEATS}
        return max(repeated, key=lambda one: repeated[one], default=at)

    def repeats(self, at: At) -> tuple[Repeat, ...]:
        """Return the repeats; empty if it was not measured."""
        results = self.results.get(at.leg)
        if results is None:
            return ()
        return next((point.repeats for point in results.points if point.load.clients == at.clients), ())

    def values(self, at: At, metric: Metric) -> list[float]:
        """Return a value for each repeat; empty unless all repeats have one."""
        found = [metric.read(repeat) for repeat in self.repeats(at)]
        present = [value for value in found if value is not None]
        return present if len(present) == len(found) else []

    def spread(self, at: At, metric: Metric) -> Spread | None:
        """Return the spread; None if there is no number."""
        values = self.values(at, metric)
        return spread_of(values) if values else None

    def text(self, at: At, metric: Metric) -> str | None:
        """Return median and range for display; None if there is no number."""
        spread = self.spread(at, metric)
        return metric.text(spread) if spread else None

    def fewest_answers(self, at: At) -> int:
        """Return the number of answers in the repeat that has the fewest."""
        return min((round(repeat.summary.rps * repeat.window_s) for repeat in self.repeats(at)), default=0)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of a claim. `expected`: how the number at `at` compares with the one at `other`, or the limits of the
    number (with `other`: of its ratio to the other)."""

    metric: Metric
    at: At
    expected: Literal["lower", "higher", "not lower"] | tuple[float, float]
    other: At | None = None

    def judge(self, measured: Measured) -> tuple[Verdict, str]:
        """Return the verdict, and the numbers that decided it."""
        name, spreads, texts = self.metric.name, list[Spread](), list[str]()
        for place in self.places(measured):
            spread, answers = measured.spread(place, self.metric), measured.fewest_answers(place)
            if spread is None:
                return "undecided", f"{place}: {name} was not measured"
            if spread.repeats < FEWEST_REPEATS:
                return "undecided", f"{place}: measured once, so its range is unknown"
            if answers < FEWEST_ANSWERS:
                return "undecided", f"{place}: a measurement had only {answers} answers"
            spreads.append(spread)
            texts.append(f"{place} {self.metric.text(spread)}")
        numbers = f"{name}: {', '.join(texts)}"
        if not isinstance(self.expected, tuple):
            verdict = _compared(spreads[0], spreads[1], self.expected)
            return verdict, numbers if verdict != "undecided" else f"too close for their ranges: {numbers}"
        if self.other is None:
            return _within(spreads[0].low, spreads[0].high, self.expected), numbers
        over, under = spreads
        if not under.low:
            return "undecided", numbers
        low, high = over.low / under.high, over.high / under.low
        ratio = f"{number(over.median / under.median)} [{number(low)}..{number(high)}] times"
        return _within(low, high, self.expected), f"{ratio}: {numbers}"

    def places(self, measured: Measured) -> tuple[At, ...]:
        """Return the one or two legs that the criterion compares."""
        return tuple(measured.resolve(at) for at in (self.at, self.other) if at is not None)


def _compared(one: Spread, other: Spread, expected: Literal["lower", "higher", "not lower"]) -> Verdict:
    found = compare(one, other)
    if found == "equal":
        if any(spread.high - spread.low > UNKNOWN_SPREAD * abs(spread.median) for spread in (one, other)):
            return "undecided"
        return "holds here" if expected == "not lower" else "does not hold here"
    holds = found != "lower" if expected == "not lower" else found == expected
    return "holds here" if holds else "does not hold here"


def _within(low: float, high: float, limits: tuple[float, float]) -> Verdict:
    if limits[0] <= low and high <= limits[1]:
        return "holds here"
    return "does not hold here" if high < limits[0] or low > limits[1] else "undecided"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim. `story`: what the story reports, with its numbers; empty for a further claim. `rule` describes `criteria`, all
    of which must hold; `otherwise` replaces them if they were not measured and it was.
    """

    name: str
    statement: str
    story: str
    rule: str
    criteria: tuple[Criterion, ...]
    otherwise: tuple[Criterion, ...] = ()

    def judge(self, measured: Measured) -> JudgedClaim:
        """Judge the claim for these results."""

        def known(criteria: tuple[Criterion, ...]) -> bool:
            return bool(criteria) and all(measured.values(at, c.metric) for c in criteria for at in c.places(measured))

        criteria = self.otherwise if known(self.otherwise) and not known(self.criteria) else self.criteria
        judged = [criterion.judge(measured) for criterion in criteria]
        verdicts = {verdict for verdict, _ in judged}
        verdict: Verdict = "undecided" if "undecided" in verdicts else "holds here"
        if "does not hold here" in verdicts:
            verdict = "does not hold here"
        because = "; ".join(because for _, because in judged)
        return JudgedClaim(self, verdict, because)


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    because: str

    @property
    def document(self) -> dict[str, str]:
        """Return the claim as in `journey.json`."""
        one = {"claim": self.claim.name, "statement": self.claim.statement, "story": self.claim.story}
        return one | {"rule": self.claim.rule, "verdict": self.verdict, "because": self.because}


def judge_all(measured: Measured) -> tuple[JudgedClaim, ...]:
    """Judge all claims, in the story's order."""
    return tuple(claim.judge(measured) for claim in CLAIMS)


def s_per_token(measurement: Repeat) -> float | None:
    """Return the seconds of latency for each output token, over all completed requests."""
    done = [record for record in measurement.records if record.completed and record.output_tokens]
    tokens = sum(record.output_tokens or 0 for record in done)
    return sum(record.e2e_s for record in done) / tokens if tokens else None


def quarter_p50_s(measurement: Repeat, *, longest: bool = False) -> float | None:
    """Return the median latency of the quarter of requests with the shortest texts, or with the longest."""
    done = sorted((r for r in measurement.records if r.completed), key=lambda record: record.source_tokens)
    if len(done) < QUARTER_FEWEST:
        return None
    quarter = done[-(len(done) // 4) :] if longest else done[: len(done) // 4]
    return median(record.e2e_s for record in quarter)


def short_to_long(measurement: Repeat) -> float | None:
    """Return the ratio of the shortest quarter's latency to the longest quarter's. Near 1, all wait for the longest."""
    short, long = quarter_p50_s(measurement), quarter_p50_s(measurement, longest=True)
    return short / long if short is not None and long else None


def percentile(name: str, which: str) -> Callable[[Repeat], float | None]:
    """Return a function that reads a percentile (`p50_s` and so on) of a summary's `e2e`, `ttft`, `itl` or `tpot`."""

    def read(measurement: Repeat) -> float | None:
        found = getattr(measurement.summary, name)
        return getattr(found, which) if found else None

    return read


RPS = Metric("requests a second", lambda m: m.summary.rps, " req/s")
TOKENS_S = Metric("output tokens a second", lambda m: m.summary.output_tokens_s, " tok/s")
P50 = Metric("median latency", percentile("e2e", "p50_s"), " ms", 1000)
P99 = Metric("99th percentile of latency", percentile("e2e", "p99_s"), " ms", 1000)
TOKEN_TIME = Metric("time in the system for each output token", s_per_token, " ms", 1000)
SHORT_P50 = Metric("median latency of the shortest quarter", quarter_p50_s, " ms", 1000)
SHORT_TO_LONG = Metric("latency of short texts over that of long ones", short_to_long, "")
BUSY_SHARE = Metric("engine busy", lambda m: m.summary.engine_busy_share, " %", 100)
GPU_MEAN = Metric("GPU utilisation", lambda m: m.summary.gpu_mean_percent, " %")
GPU_IDLE = Metric("GPU samples under 10 %", lambda m: m.summary.gpu_share_below_10, " %", 100)
PREEMPTIONS = Metric("preemptions", lambda m: m.summary.preemptions, "")
KV_PEAK = Metric("peak KV cache usage", lambda m: m.summary.peak_kv_cache_usage, " %", 100)
GPU_MEMORY = Metric(
    "GPU memory", lambda m: max((sample.memory_mib for sample in m.gpu), default=None), " GiB", 1 / 1024
)

ALONE, ONE_WORKER, TWO_WORKERS = At("workers-1.variable", 1), At("workers-1.variable"), At("workers-2.variable")
ONE_WORKER_UNIFORM, STATIC_UNIFORM = At("workers-1.uniform"), At("static.uniform")
STATIC, DEFAULT, SMALL, MIDDLE = (
    At(f"{step}.variable") for step in ("static", "continuous-64", "continuous-16", "continuous-32")
)
UNIFORM, BEST = At("continuous-64.uniform"), At("continuous-*.variable")
MANY_SLOTS, FEW_SLOTS = At("continuous-256.variable", FEW), At("continuous-8.variable", FEW)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="falls-with-load",
        statement="One worker answers fewer requests a second when more clients send.",
        story="3.3 falling to 2.2 requests a second",
        rule="Holds where requests a second are lower with 25 clients than with one.",
        criteria=(Criterion(RPS, ONE_WORKER, "lower", ALONE),),
    ),
    Claim(
        name="idle-engine",
        statement="Worker processes behind queues leave the engine idle between requests, though others wait.",
        story="GPU 93 % → 0 % → 93 %",
        rule="Holds where the engine is busy for at most 90 % of the time with one worker and 25 clients.",
        criteria=(Criterion(BUSY_SHARE, ONE_WORKER, (0, 0.90)),),
    ),
    Claim(
        name="two-workers",
        statement="Two workers on one device are worse than one.",
        story="2.0 against 2.2 requests a second",
        rule="Holds where two workers answer fewer requests a second than one, at 25 clients.",
        criteria=(Criterion(RPS, TWO_WORKERS, "lower", ONE_WORKER),),
    ),
    Claim(
        name="static-batching",
        statement="Static batching gives about 2.7 times the requests a second of one worker.",
        story="5.9 against 2.2 requests a second; 452 → 171 ms a request",
        rule="Holds where the ratio at 25 clients is within 2.0 and 3.5 over the whole range of the repeats; on uniform "
        "texts where both were measured, else on variable ones.",
        criteria=(Criterion(RPS, STATIC_UNIFORM, (2.0, 3.5), ONE_WORKER_UNIFORM),),
        otherwise=(Criterion(RPS, STATIC, (2.0, 3.5), ONE_WORKER),),
    ),
    Claim(
        name="head-of-line",
        statement="In static batches short requests wait for long ones.",
        story="all wait for the longest",
        rule="Holds where the median latency of the quarter with the shortest texts is a larger share of that of the "
        "quarter with the longest in static batches than with continuous batching, at 25 clients.",
        criteria=(Criterion(SHORT_TO_LONG, STATIC, "higher", DEFAULT),),
    ),
    Claim(
        name="uniform-flatters",
        statement="Uniform texts give better numbers than texts of mixed length.",
        story="15.0 requests a second on uniform texts, 3.5 on variable ones",
        rule="Holds where the same server gives more output tokens a second on uniform texts than on variable ones, at 25 "
        "clients: tokens, because requests of other lengths cannot be compared.",
        criteria=(Criterion(TOKENS_S, UNIFORM, "higher", DEFAULT),),
    ),
    Claim(
        name="fewer-slots",
        statement="max_num_seqs 64 is worse than 16 at 2 to 25 concurrent requests.",
        story="3.5 tuned to 10.7 requests a second",
        rule="Holds where max_num_seqs 64 answers fewer requests a second than 16, at 25 clients.",
        criteria=(Criterion(RPS, DEFAULT, "lower", SMALL),),
    ),
    Claim(
        name="thirty-two",
        statement="max_num_seqs 32 is worse than 16.",
        story="the climb ended at 16",
        rule="Holds where max_num_seqs 32 answers fewer requests a second than 16, at 25 clients.",
        criteria=(Criterion(RPS, MIDDLE, "lower", SMALL),),
    ),
    Claim(
        name="idle-slots",
        statement="Idle slots cost decode time and memory.",
        story="max_num_seqs 64 slowed 2 to 20 concurrent requests",
        rule="Holds where, at 5 clients, a request spends more time for each output token with max_num_seqs 256 than with "
        "8. Memory is shown and not judged: the KV cache is sized by another setting.",
        criteria=(Criterion(TOKEN_TIME, MANY_SLOTS, "higher", FEW_SLOTS),),
    ),
    Claim(
        name="in-all",
        statement=f"From one worker to tuned continuous batching: {STORY_FACTOR} times.",
        story="2.2 to 10.7 requests a second",
        rule=f"Holds where the best continuous batching answers at least {STORY_FACTOR} times the requests a second of one "
        "worker over the whole range of the repeats, on variable texts at 25 clients.",
        criteria=(Criterion(RPS, BEST, (STORY_FACTOR, inf), ONE_WORKER),),
    ),
    Claim(
        name="steady",
        statement="With continuous batching the device is used steadily.",
        story="GPU 90 to 95 %",
        rule="With the best continuous batching at 25 clients: holds where every repeat has a GPU utilisation of 90 % or "
        "more and at most 1 % of its samples under 10 %; without a GPU, where the engine is busy for 95 % of the time.",
        criteria=(Criterion(GPU_MEAN, BEST, (90, 100)), Criterion(GPU_IDLE, BEST, (0, 0.01))),
        otherwise=(Criterion(BUSY_SHARE, BEST, (0.95, inf)),),
    ),
    Claim(
        name="graph-ceiling",
        statement="A small max_num_seqs costs speed through the limit it sets on CUDA graphs, not through its slots.",
        story="",
        rule="Holds where max_num_seqs 32 answers more requests a second with CUDA graphs up to 1024 tokens, at 25 clients.",
        criteria=(Criterion(RPS, At("graphs-32.variable"), "higher", MIDDLE),),
    ),
    Claim(
        name="batched-tokens",
        statement="max_num_batched_tokens 8192 is better than 16384.",
        story="tuned to 8192",
        rule="Holds where 8192 answers more requests a second than 16384, at 25 clients. Of a GPU.",
        criteria=(Criterion(RPS, DEFAULT, "higher", At("tokens-16384.variable")),),
    ),
    Claim(
        name="memory",
        statement="gpu_memory_utilization 0.3 suffices.",
        story="tuned to 0.3",
        rule="Holds where 0.3 has no preemptions and no fewer requests a second than 0.9, at 25 clients. Of a GPU.",
        criteria=(
            Criterion(PREEMPTIONS, At("memory-0.3.variable"), (0, 0)),
            Criterion(RPS, At("memory-0.3.variable"), "not lower", DEFAULT),
        ),
    ),
)
