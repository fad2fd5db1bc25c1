"""The story's claims, and ours, each with the rule that judges it here.

A claim is about this model, this machine and these texts. Knows what is looked at and by which rule; how the rules work is
`rules`', where the numbers come from `evidence`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from dragoman_bench.journey import rules
from dragoman_bench.journey.evidence import (
    BUSY_SHARE,
    GPU_IDLE,
    GPU_MEAN,
    GPU_MEMORY,
    KV_PEAK,
    P50,
    P99,
    PREEMPTIONS,
    RPS,
    SHORT_P50,
    SHORT_TO_LONG,
    TOKEN_TIME,
    TOKENS_S,
    At,
    Evidence,
)
from dragoman_bench.journey.route import BUSY, FEW
from dragoman_bench.journey.rules import FEWEST_REPEATS, Judgement, Rule, Verdict

STORY_FACTOR = 4.9
ONE_WORKER = At("workers-1.variable", BUSY)
TWO_WORKERS = At("workers-2.variable", BUSY)
STATIC = At("static.variable", BUSY)
DEFAULT = At("continuous-64.variable", BUSY)
SMALL = At("continuous-16.variable", BUSY)


@dataclass(frozen=True, slots=True)
class Claim:
    """`story`: what the story reports, its numbers; empty for a question of our own."""

    name: str
    statement: str
    story: str
    rule_text: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, judged."""

    claim: str
    statement: str
    story: str
    rule: str
    verdict: Verdict
    because: str


def judge_all(evidence: Evidence) -> tuple[Finding, ...]:
    """Every claim, in the story's order."""
    return tuple(_judged(claim, claim.rule(evidence)) for claim in (*_of_baselines(), *_of_continuous(), *_of_knobs()))


def _judged(claim: Claim, judgement: Judgement) -> Finding:
    return Finding(claim.name, claim.statement, claim.story, claim.rule_text, judgement.verdict, judgement.because)


def _of_baselines() -> Iterable[Claim]:
    alone = At("workers-1.variable", 1)
    yield Claim(
        "falls-with-load",
        "One worker answers fewer requests a second as more clients ask.",
        "3.3 falling to 2.2 requests a second",
        "Holds where requests a second are lower with 25 clients than with one.",
        rules.with_numbers(rules.differs(ONE_WORKER, alone, RPS, "lower"), (alone, P50), (ONE_WORKER, P50)),
    )
    yield Claim(
        "idle-engine",
        "Worker processes behind queues leave the engine idle between requests, though others wait.",
        "GPU 93 % → 0 % → 93 %",
        "With 25 clients waiting at one worker: holds where the engine is busy for 90 % of the time or less in every "
        "repeat, does not from 95 %; between them GPU samples under 10 % utilisation decide: 5 % of them and more, or "
        "1 % and less.",
        rules.with_numbers(
            rules.first_told(
                rules.bounded(ONE_WORKER, BUSY_SHARE, holds=(0, 0.90), fails=(0.95, inf)),
                rules.bounded(ONE_WORKER, GPU_IDLE, holds=(0.05, 1), fails=(0, 0.01)),
            ),
            (ONE_WORKER, GPU_MEAN),
            (ONE_WORKER, GPU_IDLE),
        ),
    )
    yield Claim(
        "two-workers",
        "Two workers on one device are worse than one.",
        "2.0 against 2.2 requests a second",
        "Holds where two workers answer fewer requests a second than one, at 25 clients.",
        rules.with_numbers(rules.differs(TWO_WORKERS, ONE_WORKER, RPS, "lower"), (TWO_WORKERS, P99), (ONE_WORKER, P99)),
    )
    yield Claim(
        "static-batching",
        "Static batching gives about 2.7 times the requests a second of one worker.",
        "5.9 against 2.2 requests a second; 452 → 171 ms a request",
        "Holds where the ratio at 25 clients lies within 2.0 and 3.5 over the whole range of the repeats; on uniform "
        "texts where both were measured, else on variable ones.",
        _static_batching,
    )
    yield Claim(
        "head-of-line",
        "In static batches short requests wait for long ones.",
        "all wait for the longest",
        "Holds where the median latency of the quarter with the shortest texts is a larger share of that of the quarter "
        "with the longest in static batches than under continuous batching, at 25 clients.",
        rules.with_numbers(
            rules.differs(STATIC, DEFAULT, SHORT_TO_LONG, "higher"), (STATIC, SHORT_P50), (DEFAULT, SHORT_P50)
        ),
    )


def _of_continuous() -> Iterable[Claim]:
    uniform = At("continuous-64.uniform", BUSY)
    yield Claim(
        "uniform-flatters",
        "Uniform test data flatters.",
        "15.0 requests a second on uniform texts, 3.5 on variable ones",
        "Holds where the same server gives more output tokens a second on uniform texts than on variable ones, at 25 "
        "clients: tokens, because requests of other lengths do not compare.",
        rules.with_numbers(rules.differs(uniform, DEFAULT, TOKENS_S, "higher"), (uniform, RPS), (DEFAULT, RPS)),
    )
    yield Claim(
        "fewer-slots",
        "max_num_seqs 64 is worse than 16 at 2 to 25 concurrent requests.",
        "3.5 tuned to 10.7 requests a second",
        "Holds where max_num_seqs 64 answers fewer requests a second than 16, at 25 clients.",
        rules.with_numbers(rules.differs(DEFAULT, SMALL, RPS, "lower"), (DEFAULT, P99), (SMALL, P99)),
    )
    yield Claim(
        "thirty-two",
        "max_num_seqs 32 is worse than 16.",
        "the climb ended at 16",
        "Holds where max_num_seqs 32 answers fewer requests a second than 16, at 25 clients.",
        rules.differs(At("continuous-32.variable", BUSY), SMALL, RPS, "lower"),
    )
    many, few = At("continuous-256.variable", FEW), At("continuous-8.variable", FEW)
    yield Claim(
        "idle-slots",
        "Idle slots cost decode time and memory.",
        "max_num_seqs 64 slowed 2 to 20 concurrent requests",
        "Holds where, at 5 clients, a request spends more time for each output token with max_num_seqs 256 than with 8. "
        "Memory is told and not judged: the KV cache is sized by another setting.",
        rules.with_numbers(
            rules.differs(many, few, TOKEN_TIME, "higher"),
            (many, GPU_MEMORY),
            (few, GPU_MEMORY),
            (many, KV_PEAK),
            (few, KV_PEAK),
        ),
    )
    yield Claim(
        "in-all",
        f"From one worker to tuned continuous batching: {STORY_FACTOR} times.",
        "2.2 to 10.7 requests a second",
        f"Holds where the best continuous batching answers at least {STORY_FACTOR} times the requests a second of one "
        "worker over the whole range of the repeats, on variable texts at 25 clients.",
        _in_all,
    )
    yield Claim(
        "steady",
        "Under continuous batching the device is used steadily.",
        "GPU 90 to 95 %",
        "With the best continuous batching at 25 clients: holds where every repeat has a GPU utilisation of 90 % or more "
        "and at most 1 % of its samples under 10 %; without a GPU, where the engine is busy for 95 % of the time.",
        _steady,
    )


def _of_knobs() -> Iterable[Claim]:
    graphs, slots = At("graphs-32.variable", BUSY), At("continuous-32.variable", BUSY)
    yield Claim(
        "graph-ceiling",
        "A small max_num_seqs costs speed through the ceiling it sets on CUDA graphs, not through its slots.",
        "",
        "Holds where max_num_seqs 32 answers more requests a second with a ceiling of its own (1024 tokens), at 25 clients.",
        rules.with_numbers(
            rules.differs(graphs, slots, RPS, "higher"), (At("graphs-16.variable", BUSY), RPS), (SMALL, RPS)
        ),
    )
    yield Claim(
        "batched-tokens",
        "max_num_batched_tokens 8192 is better than 16384.",
        "tuned to 8192",
        "Holds where 8192 answers more requests a second than 16384, at 25 clients.",
        _batched_tokens,
    )
    yield Claim(
        "memory",
        "gpu_memory_utilization 0.3 suffices.",
        "tuned to 0.3",
        "Holds where 0.3 has no preemptions and no fewer requests a second than 0.9, at 25 clients. Without a GPU: a KV "
        "cache of 1 GiB against one of 3.",
        _memory,
    )
    yield Claim(
        "no-tax",
        "dragoman answers as many requests a second as `vllm serve` with the same settings.",
        "",
        "Holds where its requests a second are not fewer, at 25 clients. One server was measured after the other: "
        "`--versus` alternates between them.",
        _no_tax,
    )


def best_continuous(evidence: Evidence) -> At:
    """The continuous step with the most requests a second on variable texts at 25 clients, of those with repeats."""
    places = [At(leg, BUSY) for leg in evidence.results if leg.startswith("continuous-") and leg.endswith(".variable")]
    spreads = {at: spread for at in places if (spread := evidence.spread(at, RPS)) and spread.repeats >= FEWEST_REPEATS}
    return max(spreads, key=lambda at: spreads[at].median, default=DEFAULT)


def _static_batching(evidence: Evidence) -> Judgement:
    static, one = At("static.uniform", BUSY), At("workers-1.uniform", BUSY)
    if not (evidence.repeats(static) and evidence.repeats(one)):
        static, one = STATIC, ONE_WORKER
    return rules.ratio_within(static, one, RPS, 2.0, 3.5)(evidence)


def _in_all(evidence: Evidence) -> Judgement:
    return rules.ratio_within(best_continuous(evidence), ONE_WORKER, RPS, STORY_FACTOR, inf)(evidence)


def _steady(evidence: Evidence) -> Judgement:
    best = best_continuous(evidence)
    on_gpu = rules.both(
        rules.bounded(best, GPU_MEAN, holds=(90, 100), fails=(0, 90)),
        rules.bounded(best, GPU_IDLE, holds=(0, 0.01), fails=(0.01, 1)),
    )
    if evidence.values(best, GPU_MEAN):
        return rules.with_numbers(on_gpu, (ONE_WORKER, GPU_MEAN), (ONE_WORKER, GPU_IDLE))(evidence)
    busy = rules.bounded(best, BUSY_SHARE, holds=(0.95, inf), fails=(0, 0.95))
    return rules.with_numbers(busy, (ONE_WORKER, BUSY_SHARE))(evidence)


def _batched_tokens(evidence: Evidence) -> Judgement:
    legs = ("tokens-8192.variable", "continuous-64.variable")
    narrow = next((leg for leg in legs if evidence.flag(leg, "max-num-batched-tokens") == 8192), legs[0])
    return rules.differs(At(narrow, BUSY), At("tokens-16384.variable", BUSY), RPS, "higher")(evidence)


def _memory(evidence: Evidence) -> Judgement:
    tight, roomy = At("memory-0.3.variable", BUSY), DEFAULT
    if not evidence.repeats(tight) and evidence.repeats(At("memory-roomy.variable", BUSY)):
        tight, roomy = DEFAULT, At("memory-roomy.variable", BUSY)
    enough = rules.bounded(tight, PREEMPTIONS, holds=(0, 0), fails=(1, inf))
    return rules.with_numbers(rules.both(enough, rules.no_worse(tight, roomy, RPS)), (tight, KV_PEAK))(evidence)


def _no_tax(evidence: Evidence) -> Judgement:
    slots = 256 if evidence.repeats(At("vllm-256.variable", BUSY)) else 64
    ours, theirs = At(f"continuous-{slots}.variable", BUSY), At(f"vllm-{slots}.variable", BUSY)
    return rules.with_numbers(rules.no_worse(ours, theirs, RPS), (ours, P99), (theirs, P99))(evidence)
