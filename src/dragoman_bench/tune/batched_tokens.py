"""max_num_batched_tokens: how many tokens one step may hold, and so how much prompt work may delay the others' next token.

A value matters only where steps would hold more. The prompts of all clients at once bound what any step can hold; how many
arrive within one step, at the rate and step time that were measured, bounds what steps usually hold. Values beyond are not
tried. The rest is climbed one way, while it gets better beyond the spread; the server's usual value wins ties. Knows nothing
of other knobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp
from statistics import median

from dragoman_bench.tune.checking import check
from dragoman_bench.tune.incumbent import Case, Challenge, Found, Incumbent, fate, skip
from dragoman_bench.tune.points import Steps, Trial

VALUES = tuple(1 << power for power in range(8, 16))  # 256 to 32768
RARELY = 0.999  # of steps hold no more than what is taken for usual
GROUPED = 2.0  # arrivals come together more often than a Poisson process has them: finished together, sent together
CLEARLY = 1.5  # a value less than that below what steps usually hold is seldom felt
AMPLE = 4  # times what steps must hold on average: prompts do not wait long
TOKEN_LIMITS = frozenset({"itl", "tpot"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tokens of one step: the most it can hold, what it usually holds (None: the server does not say how long its steps
    take), and what it must hold on average to keep up."""

    most: int
    usual: int | None
    needed: int


def bounds(case: Case, best: Incumbent) -> Bounds:
    demand, peak = case.demand, case.demand.levels.peak
    most = demand.prompt_tokens(peak)
    decoding = min(best.slots, demand.sequences(demand.levels.busy))
    steps_s = [seen.decode_s_per_token for seen in best.seen if seen.decode_s_per_token is not None]
    if not steps_s:
        return Bounds(most, None, decoding)
    arrivals = median(seen.rps for seen in best.seen) * median(steps_s)
    together = min(max(1, _quantile(GROUPED * arrivals, RARELY)), peak)
    usual = min(most, demand.prompt_tokens(together) + decoding)
    return Bounds(most, usual, decoding + round(arrivals * sum(demand.prompts) / len(demand.prompts)))


def settle(case: Case, best: Incumbent) -> Steps[Incumbent]:
    """The incumbent with its step size decided."""
    start = best.knobs.max_num_batched_tokens
    if start is None:
        return best
    bound, tried, reason = bounds(case, best), {start}, ""
    for way in _ways(case, best, bound, start):
        for value in way:
            tried.add(value)
            challenge = _challenge(best, value, bound)
            trial, found = yield from challenge.run(case, best.seen)
            reason = _told(case, best, value, trial, found)
            if not challenge.wins(found):
                break
            best = yield from _adopted(case, best, challenge, trial)
        if best.knobs.max_num_batched_tokens != start:
            break
    if best.knobs.max_num_batched_tokens == start:
        best = best.because(max_num_batched_tokens=_kept(start, bound, reason))
    for value in VALUES:
        if value not in tried:
            knobs = replace(best.knobs, max_num_batched_tokens=value)
            yield skip(f"tokens-{value}", "batched_tokens", knobs, _why_not(case, value, start, best, bound))
    return best


def _challenge(best: Incumbent, value: int, bound: Bounds) -> Challenge:
    now = best.knobs.max_num_batched_tokens or 0
    usual = f"usually holds up to {bound.usual:,}" if bound.usual else f"can hold {bound.most:,}"
    gain = "larger steps would finish prompts sooner" if value > now else "smaller steps would delay others less"
    why = f"a step {usual} tokens: {gain}"
    return Challenge(f"tokens-{value}", "batched_tokens", replace(best.knobs, max_num_batched_tokens=value), why)


def _adopted(case: Case, best: Incumbent, challenge: Challenge, trial: Trial) -> Steps[Incumbent]:
    """The step size decides how much memory is left for the cache, so that is checked again."""
    before = best
    trial = yield from challenge.settled(case, trial)
    seen = trial.at(case.busy)
    best = replace(before, knobs=challenge.knobs, seen=seen, trial=trial)
    told = f"{case.scale.told(seen)}; with {before.knobs.max_num_batched_tokens} {case.scale.told(before.seen)}"
    best = best.because(max_num_batched_tokens=told)
    return (yield from check(case, best, challenge)) if best.memory is not None else best


def _ways(case: Case, best: Incumbent, bound: Bounds, start: int) -> list[list[int]]:
    """Values that may matter, upwards and then downwards. Where tokens come too slowly, up from the smallest that keeps up
    with the prompts: it tells at once whether smaller steps help at all."""
    used = bound.usual or bound.most
    up = [value for value in VALUES if value > start and value // 2 < used]
    down = [value for value in reversed(VALUES) if best.slots <= value < min(start, used / CLEARLY)]
    if bound_by_tokens(case):
        return [[value for value in reversed(down) if value >= AMPLE * bound.needed]]
    ceiling = best.knobs.max_cudagraph_capture_size
    if ceiling in down:
        down = [value for value in down if value <= ceiling]  # a step that fits a graph, before any that does not
    return [up, down]


def bound_by_tokens(case: Case) -> bool:
    """Whether the climb ended because tokens came too slowly: smaller steps may then let more be served at once."""
    ladder = case.ladder
    if case.scale.metric == "rps" or ladder.best is None:
        return False
    above = [case.scale.missed(rung.seen) for rung in ladder.rungs if rung.seen and rung.cap > ladder.best]
    return any(limit.metric in TOKEN_LIMITS for missed in above for limit in missed)


def _told(case: Case, best: Incumbent, value: int, trial: Trial, found: Found) -> str:
    if found == "failed":
        return f"{value} {fate(trial)}"
    side = {"equal": "no better", "lower": "worse", "higher": "better"}[found]
    return f"{value} is {side}: {case.scale.told(trial.at(case.busy))} against {case.scale.told(best.seen)}"


def _kept(start: int, bound: Bounds, reason: str) -> str:
    usual = f"steps usually hold up to {bound.usual:,} tokens, {bound.most:,} at most" if bound.usual else ""
    return "; ".join(filter(None, [reason, usual])) or f"{start} is what the ladder was measured with"


def _why_not(case: Case, value: int, start: int, best: Incumbent, bound: Bounds) -> str:
    used = bound.usual or bound.most
    if value < best.slots:
        return f"{best.slots} slots may take a token each in one step"
    if value > start and value // 2 >= bound.most:
        return f"no step can hold more than {bound.most:,} tokens: the prompts of the peak's clients all at once"
    if value > start and value // 2 >= used:
        return f"a step seldom holds more than {used:,} tokens, so more room is not used"
    if used / CLEARLY <= value < start:
        return f"a step seldom holds more than {used:,} tokens, so it would be the same as {start}"
    ceiling = best.knobs.max_cudagraph_capture_size
    if ceiling and ceiling < value < start:
        return f"smaller steps gain most where they fit a CUDA graph: {ceiling} stands for all below {start}"
    if value > start and bound_by_tokens(case):
        return "larger steps delay others' tokens more, and it is these that come too slowly"
    if value < AMPLE * bound.needed and bound_by_tokens(case):
        return f"a step must hold {bound.needed:,} tokens on average, and prompts would wait"
    return "the way there had stopped getting better before it"


def _quantile(rate: float, share: float) -> int:
    """Of a Poisson distribution."""
    count, term = 0, exp(-rate)
    total = term
    while total < share and count < 10 * (rate + 10):
        count += 1
        term *= rate / count
        total += term
    return count
