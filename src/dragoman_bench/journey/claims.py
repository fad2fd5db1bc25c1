"""The story as data: its steps with a team's own numbers (on one RTX 5090), its claims and ours, each with its rule.

The story's numbers are quoted and never computed with. A claim is judged for this model, this machine and these texts;
how the rules work is in `judging`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from dragoman_bench.journey.judging import (
    BUSY_SHARE,
    FEWEST_REPEATS,
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
    Judgement,
    Measured,
    Metric,
    Rule,
    Verdict,
    both,
    bounded,
    differs,
    first_decided,
    no_worse,
    ratio_within,
    with_numbers,
)
from dragoman_bench.journey.route import BUSY, FEW

STORY_FACTOR = 4.9
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Claim:
    """`story`: what the story reports, its numbers; empty for a question of our own. `rule_text` is `rule` in words."""

    name: str
    statement: str
    story: str
    rule_text: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim, judged."""

    claim: str
    statement: str
    story: str
    rule: str
    verdict: Verdict
    because: str


@dataclass(frozen=True, slots=True)
class StoryRow:
    """One row of the story's table: what the story reports, and what was measured here."""

    step: str
    story: str
    here: str


def judge_all(measured: Measured) -> tuple[JudgedClaim, ...]:
    """Every claim, in the story's order."""
    found: list[JudgedClaim] = []
    for claim in CLAIMS:
        judgement = claim.rule(measured)
        found.append(
            JudgedClaim(claim.name, claim.statement, claim.story, claim.rule_text, judgement.verdict, judgement.because)
        )
    return tuple(found)


def story_rows(measured: Measured) -> tuple[StoryRow, ...]:
    """The story's rows in its order, with what was measured here."""
    return tuple(StoryRow(step, story, here(measured)) for step, story, here in STORY)


def best_continuous(measured: Measured) -> At:
    """The continuous step with the most requests a second on variable texts at 25 clients, of those with repeats."""
    legs = [leg for leg in measured.results if leg.startswith("continuous-") and leg.endswith(".variable")]
    spreads = {at: spread for leg in legs if (spread := measured.spread(at := At(leg, BUSY), RPS))}
    repeated = {at: spread for at, spread in spreads.items() if spread.repeats >= FEWEST_REPEATS}
    return max(repeated, key=lambda at: repeated[at].median, default=DEFAULT)


def _at_busy(step: str, workload: str = "variable") -> At:
    return At(f"{step}.{workload}", BUSY)


ALONE, ONE_WORKER, TWO_WORKERS = At("workers-1.variable", 1), _at_busy("workers-1"), _at_busy("workers-2")
STATIC, DEFAULT, SMALL = _at_busy("static"), _at_busy("continuous-64"), _at_busy("continuous-16")
UNIFORM = _at_busy("continuous-64", "uniform")
MANY_SLOTS, FEW_SLOTS = At("continuous-256.variable", FEW), At("continuous-8.variable", FEW)


def _static_batching(measured: Measured) -> Judgement:
    static, one = _at_busy("static", "uniform"), _at_busy("workers-1", "uniform")
    if not (measured.repeats(static) and measured.repeats(one)):
        static, one = STATIC, ONE_WORKER
    return ratio_within(static, one, RPS, 2.0, 3.5)(measured)


def _in_all(measured: Measured) -> Judgement:
    return ratio_within(best_continuous(measured), ONE_WORKER, RPS, STORY_FACTOR, inf)(measured)


def _steady(measured: Measured) -> Judgement:
    best = best_continuous(measured)
    if not measured.values(best, GPU_MEAN):
        busy = bounded(best, BUSY_SHARE, holds=(0.95, inf), fails=(0, 0.95))
        return with_numbers(busy, (ONE_WORKER, BUSY_SHARE))(measured)
    on_gpu = both(
        bounded(best, GPU_MEAN, holds=(90, 100), fails=(0, 90)),
        bounded(best, GPU_IDLE, holds=(0, 0.01), fails=(0.01, 1)),
    )
    return with_numbers(on_gpu, (ONE_WORKER, GPU_MEAN), (ONE_WORKER, GPU_IDLE))(measured)


def _batched_tokens(measured: Measured) -> Judgement:
    legs = ("tokens-8192.variable", "continuous-64.variable")
    narrow = next((leg for leg in legs if measured.flag(leg, "max-num-batched-tokens") == 8192), legs[0])
    return differs(At(narrow, BUSY), _at_busy("tokens-16384"), RPS, "higher")(measured)


def _memory(measured: Measured) -> Judgement:
    little, much = _at_busy("memory-0.3"), DEFAULT
    if not measured.repeats(little) and measured.repeats(_at_busy("memory-roomy")):
        little, much = DEFAULT, _at_busy("memory-roomy")
    enough = bounded(little, PREEMPTIONS, holds=(0, 0), fails=(1, inf))
    rule = both(enough, no_worse(little, much, RPS))
    return with_numbers(rule, (little, KV_PEAK))(measured)


def _no_overhead(measured: Measured) -> Judgement:
    slots = 256 if measured.repeats(_at_busy("vllm-256")) else 64
    ours, theirs = _at_busy(f"continuous-{slots}"), _at_busy(f"vllm-{slots}")
    return with_numbers(no_worse(ours, theirs, RPS), (ours, P99), (theirs, P99))(measured)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="falls-with-load",
        statement="One worker answers fewer requests a second when more clients send.",
        story="3.3 falling to 2.2 requests a second",
        rule_text="Holds where requests a second are lower with 25 clients than with one.",
        rule=with_numbers(differs(ONE_WORKER, ALONE, RPS, "lower"), (ALONE, P50), (ONE_WORKER, P50)),
    ),
    Claim(
        name="idle-engine",
        statement="Worker processes behind queues leave the engine idle between requests, though others wait.",
        story="GPU 93 % → 0 % → 93 %",
        rule_text="With one worker and 25 clients: holds where the engine is busy for at most 90 % of the time in every "
        "repeat, does not from 95 %; between them GPU samples under 10 % utilisation decide: 5 % of them and more, or "
        "1 % and less.",
        rule=with_numbers(
            first_decided(
                bounded(ONE_WORKER, BUSY_SHARE, holds=(0, 0.90), fails=(0.95, inf)),
                bounded(ONE_WORKER, GPU_IDLE, holds=(0.05, 1), fails=(0, 0.01)),
            ),
            (ONE_WORKER, GPU_MEAN),
            (ONE_WORKER, GPU_IDLE),
        ),
    ),
    Claim(
        name="two-workers",
        statement="Two workers on one device are worse than one.",
        story="2.0 against 2.2 requests a second",
        rule_text="Holds where two workers answer fewer requests a second than one, at 25 clients.",
        rule=with_numbers(differs(TWO_WORKERS, ONE_WORKER, RPS, "lower"), (TWO_WORKERS, P99), (ONE_WORKER, P99)),
    ),
    Claim(
        name="static-batching",
        statement="Static batching gives about 2.7 times the requests a second of one worker.",
        story="5.9 against 2.2 requests a second; 452 → 171 ms a request",
        rule_text="Holds where the ratio at 25 clients is within 2.0 and 3.5 over the whole range of the repeats; on "
        "uniform texts where both were measured, else on variable ones.",
        rule=_static_batching,
    ),
    Claim(
        name="head-of-line",
        statement="In static batches short requests wait for long ones.",
        story="all wait for the longest",
        rule_text="Holds where the median latency of the quarter with the shortest texts is a larger share of that of the "
        "quarter with the longest in static batches than with continuous batching, at 25 clients.",
        rule=with_numbers(differs(STATIC, DEFAULT, SHORT_TO_LONG, "higher"), (STATIC, SHORT_P50), (DEFAULT, SHORT_P50)),
    ),
    Claim(
        name="uniform-flatters",
        statement="Uniform texts give better numbers than texts of mixed length.",
        story="15.0 requests a second on uniform texts, 3.5 on variable ones",
        rule_text="Holds where the same server gives more output tokens a second on uniform texts than on variable ones, "
        "at 25 clients: tokens, because requests of other lengths cannot be compared.",
        rule=with_numbers(differs(UNIFORM, DEFAULT, TOKENS_S, "higher"), (UNIFORM, RPS), (DEFAULT, RPS)),
    ),
    Claim(
        name="fewer-slots",
        statement="max_num_seqs 64 is worse than 16 at 2 to 25 concurrent requests.",
        story="3.5 tuned to 10.7 requests a second",
        rule_text="Holds where max_num_seqs 64 answers fewer requests a second than 16, at 25 clients.",
        rule=with_numbers(differs(DEFAULT, SMALL, RPS, "lower"), (DEFAULT, P99), (SMALL, P99)),
    ),
    Claim(
        name="thirty-two",
        statement="max_num_seqs 32 is worse than 16.",
        story="the climb ended at 16",
        rule_text="Holds where max_num_seqs 32 answers fewer requests a second than 16, at 25 clients.",
        rule=differs(_at_busy("continuous-32"), SMALL, RPS, "lower"),
    ),
    Claim(
        name="idle-slots",
        statement="Idle slots cost decode time and memory.",
        story="max_num_seqs 64 slowed 2 to 20 concurrent requests",
        rule_text="Holds where, at 5 clients, a request spends more time for each output token with max_num_seqs 256 than "
        "with 8. Memory is shown and not judged: the KV cache is sized by another setting.",
        rule=with_numbers(
            differs(MANY_SLOTS, FEW_SLOTS, TOKEN_TIME, "higher"),
            (MANY_SLOTS, GPU_MEMORY),
            (FEW_SLOTS, GPU_MEMORY),
            (MANY_SLOTS, KV_PEAK),
            (FEW_SLOTS, KV_PEAK),
        ),
    ),
    Claim(
        name="in-all",
        statement=f"From one worker to tuned continuous batching: {STORY_FACTOR} times.",
        story="2.2 to 10.7 requests a second",
        rule_text=f"Holds where the best continuous batching answers at least {STORY_FACTOR} times the requests a second "
        "of one worker over the whole range of the repeats, on variable texts at 25 clients.",
        rule=_in_all,
    ),
    Claim(
        name="steady",
        statement="With continuous batching the device is used steadily.",
        story="GPU 90 to 95 %",
        rule_text="With the best continuous batching at 25 clients: holds where every repeat has a GPU utilisation of 90 % "
        "or more and at most 1 % of its samples under 10 %; without a GPU, where the engine is busy for 95 % of the time.",
        rule=_steady,
    ),
    Claim(
        name="graph-ceiling",
        statement="A small max_num_seqs costs speed through the limit it sets on CUDA graphs, not through its slots.",
        story="",
        rule_text="Holds where max_num_seqs 32 answers more requests a second with CUDA graphs up to 1024 tokens, at 25 "
        "clients.",
        rule=with_numbers(
            differs(_at_busy("graphs-32"), _at_busy("continuous-32"), RPS, "higher"),
            (_at_busy("graphs-16"), RPS),
            (SMALL, RPS),
        ),
    ),
    Claim(
        name="batched-tokens",
        statement="max_num_batched_tokens 8192 is better than 16384.",
        story="tuned to 8192",
        rule_text="Holds where 8192 answers more requests a second than 16384, at 25 clients.",
        rule=_batched_tokens,
    ),
    Claim(
        name="memory",
        statement="gpu_memory_utilization 0.3 suffices.",
        story="tuned to 0.3",
        rule_text="Holds where 0.3 has no preemptions and no fewer requests a second than 0.9, at 25 clients. Without a "
        "GPU: a KV cache of 1 GiB against one of 3.",
        rule=_memory,
    ),
    Claim(
        name="no-tax",
        statement="dragoman answers as many requests a second as `vllm serve` with the same settings.",
        story="",
        rule_text="Holds where its requests a second are not fewer, at 25 clients. One server was measured after the "
        "other: `--versus` alternates between them.",
        rule=_no_overhead,
    ),
)


def _numbers(*parts: tuple[str, str]) -> Callable[[Measured], str]:
    """Rate and median latency of (label, leg) pairs at 25 clients, those that were measured."""

    def here(measured: Measured) -> str:
        found: list[str] = []
        for label, leg in parts:
            texts = [text for metric in (RPS, P50) if (text := measured.text(At(leg, BUSY), metric))]
            if texts:
                found.append(f"{label}: {', '.join(texts)}")
        return "; ".join(found) or NOT_MEASURED

    return here


def _one_worker(measured: Measured) -> str:
    parts = _numbers(("uniform", "workers-1.uniform"), ("variable", "workers-1.variable"))(measured)
    alone = [text for metric in (RPS, P50) if (text := measured.text(ALONE, metric))]
    return f"{parts}; variable, 1 client: {', '.join(alone)}" if alone else parts


def _best(measured: Measured) -> str:
    best = best_continuous(measured)
    text = measured.text(best, RPS)
    return f"{best.leg.removesuffix('.variable')}: {text}" if text else NOT_MEASURED


def _utilisation(measured: Measured) -> str:
    places = (("one worker", ONE_WORKER), ("continuous", best_continuous(measured)))
    metrics: tuple[tuple[str, tuple[Metric, ...]], ...] = (
        ("GPU mean, samples under 10 %", (GPU_MEAN, GPU_IDLE)),
        ("engine busy", (BUSY_SHARE,)),
    )
    for label, of in metrics:
        found = {name: [text for metric in of if (text := measured.text(at, metric))] for name, at in places}
        parts = [f"{name} {', '.join(texts)}" for name, texts in found.items() if texts]
        if parts:
            return f"{label}: {'; '.join(parts)}"
    return NOT_MEASURED


STORY: tuple[tuple[str, str, Callable[[Measured], str]], ...] = (
    (
        "one worker process, one request at a time",
        "2.2 (uniform), 1.1 (variable); falling from 3.3, responses 1.4 → 11.3 s",
        _one_worker,
    ),
    ("two workers on one GPU", "2.0", _numbers(("variable", "workers-2.variable"))),
    (
        "static batches, 16 requests or 50 ms",
        "5.9; 452 → 171 ms a request",
        _numbers(("uniform", "static.uniform"), ("variable", "static.variable")),
    ),
    ("continuous batching, max_num_seqs 64, uniform texts", "15.0", _numbers(("uniform", "continuous-64.uniform"))),
    (
        "the same on variable texts, not tuned",
        "3.5",
        _numbers(("max_num_seqs 64", "continuous-64.variable"), ("max_num_seqs 16", "continuous-16.variable")),
    ),
    ("tuned: max_num_seqs 16, max_num_batched_tokens 8192, gpu_memory_utilization 0.3", "10.7 (staging)", _best),
    ("production, real traffic", "9.0 → 16.4", lambda measured: "needs real traffic"),
    ("utilisation", "GPU 93 % → 0 % → 93 % with workers; steady 90 to 95 % tuned", _utilisation),
)
"""Step, what the story reports (requests a second at 25 concurrent), and what was measured here."""
