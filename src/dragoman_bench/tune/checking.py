"""The memory check: a sized KV cache under more clients than the peak and longer texts.

It holds where the server lives, nothing is preempted and nothing is dropped for want of memory. A size that does not hold
is on record, and the next larger one is tried; at last the server's own, and then fewer slots. Knows nothing of speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from dragoman_bench.tune.incumbent import Case, Challenge, Incumbent, fate
from dragoman_bench.tune.ladder import check_level
from dragoman_bench.tune.outcome import Memory
from dragoman_bench.tune.points import Knobs, Outcome, Seen, Steps, Trial
from dragoman_bench.tune.sizing import with_memory

LARGER = (1.6, 2.5)  # times the computed size, where that did not hold
Series = Literal["memory", "recommended"]
UNTOLD = frozenset[Outcome](("interrupted", "skipped"))
FULL = 0.9  # of the cache: requests that fail below it do not fail for want of memory


def check(case: Case, best: Incumbent, challenge: Challenge, series: Series = "memory") -> Steps[Incumbent]:
    """The incumbent with its memory checked, in the server of its own trial; larger where it does not hold. `series`: the
    phase that this belongs to, and what larger ones are called after."""
    level = check_level(case.demand)
    trial = yield challenge.ask(level, 0, f"memory: {level.label}", series)
    memory = best.memory or _own(case, best)
    best = replace(best, memory=replace(memory, checked="not checked", trials=(*memory.trials, trial.name)))
    if trial.outcome in UNTOLD:
        return best
    fault = yield from _judged(case, trial)
    return (yield from _larger(case, best, fault, series)) if fault else _held(best)


def settle(case: Case, best: Incumbent) -> Steps[Incumbent]:
    """The incumbent with its memory sized and checked, in a start of its own where no trial has done it."""
    if best.memory is not None and best.memory.checked != "not checked":
        return best
    memory = best.memory or case.sizer.size(best.slots)
    knobs = with_memory(best.knobs, memory)
    challenge = Challenge("memory", "memory", knobs, f"the size that the demand needs: {memory.because}")
    before = replace(best, memory=memory, knobs=knobs)
    after = yield from check(case, before, challenge)
    return replace(after, trial=best.trial)


def _larger(case: Case, best: Incumbent, fault: str, series: Series) -> Steps[Incumbent]:
    """Sizes one after another until one holds."""
    memory = best.memory or _own(case, best)
    names, level = list(memory.trials), check_level(case.demand)
    for tried, knobs in _sizes(case, best):
        why = f"{names[-1]} did not hold ({fault}): {_step(best.knobs, knobs)}"
        trial = yield Challenge(f"{series}-{len(names) + 1}", series, knobs, why).ask(level, 0)
        names.append(trial.name)
        if trial.outcome in UNTOLD:
            break
        fault = yield from _judged(case, trial)
        if not fault:
            best = replace(best, knobs=knobs, memory=replace(tried, trials=tuple(names)))
            return _held(best if knobs.max_num_seqs == best.slots else best.because(max_num_seqs=why))
    own = replace(_own(case, best), checked="did not hold", trials=tuple(names))
    return replace(best, knobs=_as_the_ladder(case, best.knobs), memory=own)


def _sizes(case: Case, best: Incumbent) -> Iterator[tuple[Memory, Knobs]]:
    """What is tried after the computed size, and with which knobs."""
    room, own, last = case.sizer.most_tokens(), _own(case, best), best.knobs
    for factor in LARGER:
        memory = case.sizer.size(best.slots, factor)
        if memory.value is None or room is None or memory.wanted_tokens >= room:
            continue
        knobs = with_memory(best.knobs, memory)
        if knobs != last:  # a share of a GPU is told in hundredths: a little more may be the same
            yield memory, knobs
        last = knobs
    bare = _as_the_ladder(case, best.knobs)
    if bare != best.knobs:
        yield own, bare
    if best.slots > 1:
        yield own, replace(bare, max_num_seqs=max(1, best.slots // 2))


def _own(case: Case, best: Incumbent) -> Memory:
    """The ladder's own size: for a server that does not say what a token takes, or where nothing smaller holds."""
    sized = case.sizer.size(best.slots)
    value = getattr(case.ladder.setup.knobs, sized.setting)
    return replace(sized, value=value, saved_bytes=None, because=f"{sized.because}. The server's own size is kept")


def _as_the_ladder(case: Case, knobs: Knobs) -> Knobs:
    theirs = case.ladder.setup.knobs
    return replace(
        knobs,
        gpu_memory_utilization=theirs.gpu_memory_utilization,
        kv_cache_memory_bytes=theirs.kv_cache_memory_bytes,
    )


def _step(from_: Knobs, to: Knobs) -> str:
    if to.max_num_seqs != from_.max_num_seqs:
        return "fewer slots, as there is no more memory"
    return "a larger cache"


def _judged(case: Case, trial: Trial) -> Steps[str]:
    """Why the size did not hold, on record where the trial does not say it itself; empty where it held."""
    if trial.outcome != "measured":
        return trial.reason or fate(trial)
    fault = _fault_of(trial.at(check_level(case.demand))[-1])
    if fault:
        yield replace(trial, outcome="failed_under_load", reason=fault)
    return fault


def _fault_of(seen: Seen) -> str:
    usage = seen.peak_kv_cache_usage
    told = f", the cache {usage:.0%} full" if usage is not None else ""
    if seen.preemptions:
        return f"{seen.preemptions} preemptions with {seen.level.label}{told}"
    if seen.failed and (usage is None or usage >= FULL):
        return f"{seen.failed} of {seen.requests} requests failed with {seen.level.label}{told}"
    return ""


def _held(best: Incumbent) -> Incumbent:
    assert best.memory is not None
    return replace(best, memory=replace(best.memory, checked="held"))
