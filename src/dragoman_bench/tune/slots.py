"""max_num_seqs: the ladder's knee as the real number of slots, against the cap that stood for it.

A real value differs from a cap in what the engine builds for it: CUDA graphs, a profile, the KV cache. Fewer slots are
simpler: they need less memory, so they win ties. The trial already has the memory that so many slots need, so that one start
shows both. Knows nothing of other knobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dragoman_bench.tune.checking import LARGER, UNTOLD, check
from dragoman_bench.tune.incumbent import Case, Challenge, Found, Incumbent, fate, skip
from dragoman_bench.tune.ladder import level_of, power_of_two
from dragoman_bench.tune.outcome import Memory, Rung
from dragoman_bench.tune.points import Seen, Steps, Trial
from dragoman_bench.tune.sizing import with_memory


def settle(case: Case, best: Incumbent) -> Steps[Incumbent]:
    """The incumbent with its slots decided."""
    tried: list[int] = []
    best = best.because(max_num_seqs=_why_these(case))
    for slots in _candidates(case):
        tried.append(slots)
        challenge, memory = _challenge(case, best, slots)
        trial, found = yield from challenge.run(case, _bar(case, slots))
        if trial.outcome == "did_not_start":
            challenge, memory = _with_own_memory(challenge, best, trial), case.sizer.size(slots, LARGER[0])
            trial, found = yield from challenge.run(case, _bar(case, slots))
        if trial.outcome in UNTOLD and not trial.seen:
            knobs = replace(best.knobs, max_num_seqs=slots)
            best = replace(best, knobs=knobs).because(
                max_num_seqs=f"{_why_these(case)}; not measured as such: {trial.reason}"
            )
            break
        if challenge.wins(found) or _beats_the_large(case, trial):
            best = yield from _adopted(case, best, challenge, memory, trial)
            break
        best = best.because(max_num_seqs=_kept(case, slots, trial, found))
    for trial in _skipped(case, best, tried):
        yield trial
    return best


def _adopted(case: Case, best: Incumbent, challenge: Challenge, memory: Memory, trial: Trial) -> Steps[Incumbent]:
    """With its memory checked, unless it only started with more."""
    trial = yield from challenge.settled(case, trial)
    slots, seen = challenge.knobs.max_num_seqs or 1, trial.at(case.busy)
    told = f"{case.scale.told(seen)}, the ladder's best {case.scale.told(_bar(case, slots))}"
    best = replace(best, knobs=challenge.knobs, seen=seen, trial=trial, memory=memory)
    best = best.because(max_num_seqs=f"{_why_these(case)}. Measured as such: {told}")
    if memory.value is not None and with_memory(best.knobs, memory) != best.knobs:
        return best
    return (yield from check(case, best, challenge))


def _beats_the_large(case: Case, trial: Trial) -> bool:
    """Where a cap was best that no real value reaches: better that value than an engine without a cap."""
    seen, large = trial.at(case.busy), case.ladder_trial.at(case.busy)
    return bool(seen) and (not large or case.scale.compare(seen, large) == "higher")


def _candidates(case: Case) -> list[int]:
    """The knee; where the climb's best lies above it, that too. Where more at once always helped: as many as the peak."""
    ladder, large = case.ladder, case.ladder.setup.knobs.max_num_seqs or 1
    if ladder.knee is None or ladder.best is None:
        return []
    if ladder.knee == ladder.clients:
        wanted = [power_of_two(case.demand.sequences(case.demand.levels.peak))]
    else:
        wanted = [case.demand.sequences(cap) for cap in (ladder.knee, ladder.best) if cap < ladder.clients]
    fitting = [case.sizer.slots_that_fit(slots) for slots in wanted]
    return [slots for slots in dict.fromkeys(fitting) if slots < large]


def _challenge(case: Case, best: Incumbent, slots: int) -> tuple[Challenge, Memory]:
    memory = case.sizer.size(slots)
    knobs = with_memory(replace(best.knobs, max_num_seqs=slots), memory)
    return Challenge(
        f"slots-{slots}", "slots", knobs, f"{_why_these(case)}, with the memory that {slots} slots need", True
    ), memory


def _with_own_memory(challenge: Challenge, best: Incumbent, failed: Trial) -> Challenge:
    """So that too little memory is not taken for too few slots."""
    knobs = replace(best.knobs, max_num_seqs=challenge.knobs.max_num_seqs)
    why = f"{failed.name} {fate(failed)}; again, with as much memory as the ladder's engine"
    return replace(challenge, name=f"{challenge.name}-more-memory", knobs=knobs, why=why)


def _bar(case: Case, slots: int) -> tuple[Seen, ...]:
    """What the slots are held against: the ladder's best."""
    return case.ladder_trial.at(level_of(case.ladder.best or slots, case.ladder.clients))


def _why_these(case: Case) -> str:
    ladder = case.ladder
    if ladder.knee == ladder.clients:
        return f"more at once helped up to all {ladder.clients} clients; room for the peak of {case.demand.levels.peak}"
    return f"{ladder.knee} at once is the knee of the ladder"


def _kept(case: Case, slots: int, trial: Trial, found: Found) -> str:
    if found == "failed":
        return f"kept from the ladder: max_num_seqs {slots} {fate(trial)}"
    numbers = f"{case.scale.told(trial.at(case.busy))}, the ladder's best {case.scale.told(_bar(case, slots))}"
    return f"kept from the ladder: a real max_num_seqs {slots} is worse than its cap: {numbers}"


def _skipped(case: Case, best: Incumbent, tried: list[int]) -> Iterator[Trial]:
    rungs = {rung.cap: rung for rung in case.ladder.rungs}
    large = case.ladder.setup.knobs.max_num_seqs or 1
    grid = sorted({*rungs, *(1 << power for power in range(large.bit_length()))} - {*tried, best.slots, large})
    for slots in grid:
        reason = _reason(case, slots, rungs.get(slots))
        yield skip(f"slots-{slots}", "slots", replace(best.knobs, max_num_seqs=slots), reason)


def _reason(case: Case, slots: int, rung: Rung | None) -> str:
    knee = case.ladder.knee or 0
    if slots == knee == case.ladder.clients:
        return "it would leave no room beyond the busy level"
    if rung is not None and rung.seen and case.scale.metric == "goodput_rps" and case.scale.broken(rung.seen):
        return f"the ladder's cap of {slots} stands for it: {case.scale.told(rung.seen)}"
    if rung is not None and rung.seen and slots < knee:
        return f"the ladder's cap of {slots} stands for it: {case.scale.told(rung.seen)}, less than at {knee}"
    if rung is not None and not rung.seen:
        return f"not climbed to: {rung.skipped}"
    if rung is not None:
        return f"the ladder's cap of {slots} stands for it: {case.scale.told(rung.seen)}, no more than at {knee}"
    if slots < knee:
        return f"between two caps of the ladder that are both below the knee of {knee}"
    return f"the busy level's {case.ladder.clients} clients never fill so many slots, and an idle slot costs nothing"
