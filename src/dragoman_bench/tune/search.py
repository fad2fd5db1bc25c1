"""The search: the ladder, then max_num_seqs, max_num_batched_tokens and memory.

The ladder uses one engine with more sequences than the peak needs, and limits its requests to a cap of 1, 2, 4, 8, ...: the
engine then behaves like one with fewer sequences, so that one start gives the whole curve. Each rung is a closed loop of the
busy level's clients; waiting for the cap counts as latency. Each later setting is compared with the best so far. An engine
start is expensive, another measurement on a running server is cheap: therefore a trial of fewer sequences already has the
memory that they need, which is checked before its server is stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from dragoman_bench.bench.measurement import Machine
from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.compare import MOST_REPEATS, Best, ComparedTrial, Context, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.memory import check_level, check_memory, confirm_memory, size_for
from dragoman_bench.tune.outcome import (
    Choice,
    Knobs,
    Ladder,
    LoadLevel,
    Measure,
    Results,
    Rung,
    Search,
    SearchResult,
    Setup,
    Trial,
    choices_of,
)

GRAPH_CEILING = 1024
"""max_cudagraph_capture_size on a GPU for every max_num_seqs, which is dragoman's default."""
TOKEN_VALUES = tuple(1 << power for power in range(8, 16))
"""Of max_num_batched_tokens: 256 to 32768."""
MOST_SLOT_TRIALS = 3
_FEWEST_SLOTS = 16
_DEEPEST_QUEUE = 32  # clients for each request that the ladder's lowest cap lets through
_CEILING_REASON = (
    f"steps of up to {GRAPH_CEILING} tokens run as CUDA graphs whatever max_num_seqs is: vLLM's own ceiling is twice "
    "max_num_seqs, and 512 at most"
)
_WHY = "the ladder: caps in front of an engine with more sequences than the peak needs"


def power_of_two(at_least: float) -> int:
    """Return the smallest power of two that is at least this number."""
    return 1 << max(0, ceil(at_least) - 1).bit_length()


def base_knobs(demand: Demand, machine: Machine) -> Knobs:
    """Return the settings of the ladder's engine: more sequences than necessary, the server's default memory."""
    slots = max(_FEWEST_SLOTS, power_of_two(demand.sequences(check_level(demand).clients)))
    return Knobs(slots, max(8192 if machine.gpus else 2048, slots), GRAPH_CEILING if machine.gpus else None)


def caps(busy: int) -> list[int]:
    """Return the caps 1, 2, 4, ... below the busy level, then that level. None is under a 32nd of it, where a measurement and
    its warm-up would wait minutes for the cap."""
    lowest = max(1, busy // _DEEPEST_QUEUE).bit_length() - 1
    return [1 << power for power in range(lowest, busy.bit_length()) if 1 << power < busy] + [busy]


def level_of(cap: int, busy: int) -> LoadLevel:
    return LoadLevel(busy, cap if cap < busy else None)


def measured_rungs(trial: Trial, busy: int) -> dict[int, Results]:
    """Return the results of each measured cap, in ascending order."""
    return {cap: results for cap in caps(busy) if (results := trial.at(level_of(cap, busy)))}


def climb(
    demand: Demand, machine: Machine, slo: Slo | None, repeats: int = MOST_REPEATS
) -> Search[tuple[Ladder, Trial]]:
    """Measure the ladder. An engine that does not start, or crashes on the first rung, is tried again with less memory."""
    base, busy = base_knobs(demand, machine), demand.levels.busy
    smaller = [replace(base, kv_cache_memory_bytes=512 << 20)]
    if machine.gpus:
        smaller = [replace(base, gpu_memory_utilization=share) for share in (0.7, 0.4)]
    trial, ended = yield from _Climber("ladder", Setup(base), _WHY, busy, slo, repeats).climb()
    for place, knobs in enumerate(smaller, 2):
        if trial.failed and not trial.results:
            why = f"{_WHY}; with less memory, as {trial.name} failed: {trial.reason}"
            trial, ended = yield from _Climber(f"ladder-{place}", Setup(knobs), why, busy, slo, repeats).climb()
    return read_ladder(trial, busy, slo, ended), trial


@dataclass(frozen=True, slots=True)
class _Climber:
    trial: str
    setup: Setup
    why: str
    busy: int
    slo: Slo | None
    repeats: int

    def climb(self) -> Search[tuple[Trial, str]]:
        """Measure the rungs, and return the trial and why the ladder ended."""
        trial, ended = Trial(self.trial, "ladder", self.setup, self.why), ""
        for cap in caps(self.busy):
            trial, ended = yield from self._rung(cap)
            if trial.outcome != "measured":
                reason = trial.reason or trial.outcome
                if trial.not_reached:
                    return trial, f"stopped before {cap} at once: {reason}"
                return trial, f"the server did not get beyond {cap} at once: {reason}"
            if ended:
                break
        ended = ended or f"{self.busy} clients: no more requests can be at the server"
        return (yield from self._repeated(trial, ended)), ended

    def _rung(self, cap: int) -> Search[tuple[Trial, str]]:
        """One rung, and why the climb ends at it, if it does; measured again before that is believed."""
        trial = yield self._measure(cap, 0)
        for repeat in range(1, self.repeats + 1):
            if trial.outcome != "measured":
                break
            sure, reason = self._end_at(trial, cap)
            if sure or not reason:
                return trial, reason
            if repeat < self.repeats:
                trial = yield self._measure(cap, repeat, f"again, to confirm it: {reason}")
        return trial, ""

    def _end_at(self, trial: Trial, cap: int) -> tuple[bool, str]:
        """Whether it is sure, or a repeat may change it, that the climb ends here, and why; empty: it goes on."""
        results = measured_rungs(trial, self.busy)
        here, below = results[cap], [results[lower] for lower in results if lower < cap]
        if not below or cap == self.busy:
            return True, ""
        objective, sure = Objective.over(self.slo, below), len(here) > 1 or self.repeats == 1
        if objective.metric == "goodput_rps" and (missed := objective.missed(here)):
            return sure, f"the SLO is missed with {cap} requests at once ({missed})"
        if not objective.passes(here):
            return False, f"the SLO is missed by little with {cap} requests at once"
        best = max(below, key=objective.rank)
        if objective.compare(here, best) == "lower":
            return sure, f"more at once is worse: {objective.describe(here)} at {cap}, {objective.describe(best)} below"
        return True, ""

    def _repeated(self, trial: Trial, ended: str) -> Search[Trial]:
        """The knee and the best rung are measured `repeats` times: everything later is compared with them."""
        while trial.outcome == "measured":
            ladder = read_ladder(trial, self.busy, self.slo, ended)
            decisive = [rung for rung in ladder.rungs if rung.cap in (ladder.knee, ladder.best)]
            fewest = min(decisive, key=lambda rung: len(rung.results))
            if len(fewest.results) >= self.repeats:
                break
            note = f"again: later trials are compared with {fewest.cap} at once"
            trial = yield self._measure(fewest.cap, len(fewest.results), note)
        return trial

    def _measure(self, cap: int, repeat: int, note: str = "") -> Measure:
        return Measure(self.trial, "ladder", self.setup, level_of(cap, self.busy), self.why, repeat, note)


def read_ladder(trial: Trial, busy: int, slo: Slo | None, ended: str) -> Ladder:
    """Evaluate the rungs that were measured."""
    results = measured_rungs(trial, busy)
    objective = Objective.over(slo, list(results.values()))
    rungs: list[Rung] = []
    below: Results = ()
    for cap in caps(busy):
        here = results.get(cap, ())
        verdict = objective.compare(here, below) if here and below else "first" if here else "not measured"
        rungs.append(Rung(cap, here, verdict, "" if here else ended))
        below = here or below
    if not results:
        return Ladder(busy, trial.setup, tuple(rungs), objective.metric, None, None, ended, "nothing was measured")
    best = max(results, key=lambda cap: (*objective.rank(results[cap]), -cap))
    knee = next(cap for cap in results if cap == best or objective.compare(results[cap], results[best]) == "equal")
    because = f"{objective.describe(results[best])} at {best} at once is the most"
    if knee != best:
        most = f"{objective.describe(results[best])} at {best}"
        because = f"{objective.describe(results[knee])} at {knee} at once is within the spread of the most, {most}"
    return Ladder(busy, trial.setup, tuple(rungs), objective.metric, knee, best, ended, because)


def search_knobs(context: Context) -> Search[SearchResult]:
    """Search the best settings after the ladder."""
    ladder, trial = context.ladder, context.ladder_trial
    choices = choices_of(ladder.setup.knobs, "as the ladder was measured with")
    results = trial.at(context.busy) or trial.at(level_of(ladder.best or ladder.clients, ladder.clients))
    best = Best(choices, results, trial)
    if ladder.setup.knobs.max_cudagraph_capture_size is not None:
        best = best.choose(Choice("max_cudagraph_capture_size", GRAPH_CEILING, _CEILING_REASON))
    # Where the climb was cut short at its best cap, nothing shows how many at once are best.
    highest = max(rung.cap for rung in ladder.rungs if rung.results)
    if trial.outcome == "measured" or not ladder.knee == highest < ladder.clients:
        best = yield from choose_slots(context, best)
        best = yield from choose_batched_tokens(context, best)
        best = yield from confirm_memory(context, best)
    return SearchResult(best.choices, best.memory, best.trial.name)


# max_num_seqs


def choose_slots(context: Context, large: Best) -> Search[Best]:
    """Choose max_num_seqs: try caps of the ladder as values, the knee first, until one reaches the ladder's best result.
    Fewer sequences need less memory, so they win ties."""
    ladder, objective = context.ladder, context.objective
    bar = context.ladder_trial.at(level_of(ladder.best or ladder.clients, ladder.clients))
    bar_text = f"the ladder's best cap {objective.describe(bar)}"
    tried: list[Best] = []
    worse: list[str] = []
    for slots, reason in _slot_candidates(context):
        sized = large.choose(Choice("max_num_seqs", slots, reason)).sized(size_for(context, slots))
        why = f"{reason}, with the memory that {slots} sequences need"
        attempt = ComparedTrial(f"slots-{slots}", "slots", sized.knobs, why, wins_ties=True)
        trial, verdict = yield from attempt.against(context, bar)
        if attempt.wins(verdict):
            trial = yield from attempt.repeated(context, trial)
        results = trial.at(context.busy)
        if trial.not_reached and not results:
            if not tried:
                return large.choose(
                    Choice("max_num_seqs", slots, f"{reason}; not measured as max_num_seqs: {trial.reason}")
                )
            break
        if not results:
            worse.append(f"{slots} {trial.ending}")
            continue
        text = objective.describe(results)
        chosen = Choice("max_num_seqs", slots, f"{text}; {reason}; {bar_text}")
        tried.append(replace(sized.choose(chosen), results=results, trial=trial))
        if attempt.wins(objective.compare(results, bar)):
            return (yield from check_memory(context, tried[-1], attempt))
        worse.append(f"{slots} is worse than its cap: {text}")
    # No real value reaches the ladder's best cap: the best that was measured, the ladder's engine without a cap among them.
    uncapped = context.ladder_trial.at(context.busy)
    measured = [*([replace(large, results=uncapped)] if uncapped else []), *tried]
    found = max(measured or [large], key=lambda one: objective.rank(one.results))
    if found.trial.name != large.trial.name:
        return found
    shown = f", {objective.describe(uncapped)} with {ladder.clients} clients" if uncapped else ""
    parts = (f"as the ladder was measured with{shown}", *(worse if tried else ()), *([bar_text] if tried else ()))
    return found.choose(Choice("max_num_seqs", found.slots, "; ".join(parts)))


def _slot_candidates(context: Context) -> list[tuple[int, str]]:
    """Values with their reasons: caps that meet the SLO and are as good as the best, the knee first; where more at once
    always helped, first as many sequences as the peak has. The ladder's own number of sequences was measured already."""
    ladder, objective, demand = context.ladder, context.objective, context.demand
    rungs = measured_rungs(context.ladder_trial, ladder.clients)
    found: list[tuple[int, str]] = []
    if ladder.knee == ladder.clients:
        text = objective.describe(rungs[ladder.clients])
        reason = f"more at once helped up to all {ladder.clients} clients ({text})"
        reason += f"; sequences for the peak of {demand.levels.peak}"
        found.append((power_of_two(demand.sequences(demand.levels.peak)), reason))
    for cap in sorted(rungs, key=lambda cap: (cap != ladder.knee, cap != ladder.best, cap)):
        results, best = rungs[cap], rungs[ladder.best or cap]
        if cap == ladder.clients or not objective.passes(results) or objective.compare(results, best) == "lower":
            continue
        # A text that is cut is several sequences: as many as ran on average under that cap.
        running = [result.mean_running for result in results if result.mean_running is not None]
        slots = max(cap, ceil(median(running) - 0.01)) if running else cap
        name = "is the knee of the ladder" if cap == ladder.knee else "is as good as the ladder's best"
        found.append((slots, f"{cap} at once {name} ({objective.describe(results)})"))
    large, reasons = ladder.setup.knobs.max_num_seqs or 1, dict(reversed(found))  # the first reason of each value
    values = dict.fromkeys(slots for slots, _ in found if slots < large)
    return [(slots, reasons[slots]) for slots in values][:MOST_SLOT_TRIALS]


# max_num_batched_tokens


def choose_batched_tokens(context: Context, best: Best) -> Search[Best]:
    """Choose max_num_batched_tokens: try larger and smaller values as long as the result improves. With an SLO on tokens
    smaller values are tried first, because smaller steps help it."""
    name, start, objective = "max_num_batched_tokens", best.knobs.max_num_batched_tokens or 0, context.objective
    most = context.demand.prompt_tokens(context.demand.levels.peak) + best.slots
    reasons: list[str] = []
    for way in _ways(context, best, most, start):
        for value in way:
            gain = "larger steps would finish prompts sooner" if value > start else "smaller steps delay others less"
            why = f"a step holds up to {most:,} tokens: {gain}"
            before = f"{best.knobs.max_num_batched_tokens}: {objective.describe(best.results)}"
            knobs = replace(best.knobs, max_num_batched_tokens=value)
            attempt = ComparedTrial(f"tokens-{value}", "batched_tokens", knobs, why)
            trial, verdict = yield from attempt.against(context, best.results)
            if not attempt.wins(verdict):
                results = trial.at(context.busy)
                text = (
                    f"no better with {value}: {objective.describe(results)}" if results else f"{value} {trial.ending}"
                )
                reasons = [f"{text}; with {before}"]
                break
            best = yield from _adopt(context, best, attempt, trial, Choice(name, value, f"better than {before}"))
        if best.knobs.max_num_batched_tokens != start:
            return best
    reasons.append(f"steps hold up to {most:,} tokens")
    return best.choose(Choice(name, start, "; ".join(reasons)))


def _ways(context: Context, best: Best, most: int, start: int) -> list[list[int]]:
    """Larger and smaller values that a step can use, the nearest first. `most`: the tokens of one step where the prompts of all
    the peak's texts come together."""
    up = [value for value in TOKEN_VALUES if value > start and value // 2 < most]
    down = [value for value in reversed(TOKEN_VALUES) if best.slots <= value < min(start, most)]
    ceiling = best.knobs.max_cudagraph_capture_size
    if ceiling in down:
        down = [value for value in down if value <= ceiling]  # a step that fits a CUDA graph gains most
    slo = context.objective.slo
    return [down, up] if slo is not None and slo.needs_stream else [up, down]


def _adopt(context: Context, best: Best, attempt: ComparedTrial, trial: Trial, choice: Choice) -> Search[Best]:
    """The attempt as the best, measured in full, and its memory checked again where the best has sized memory."""
    trial = yield from attempt.repeated(context, trial)
    results = trial.at(context.busy)
    choice = replace(choice, reason=f"{context.objective.describe(results)}; {choice.reason}")
    best = replace(best.choose(choice), results=results, trial=trial)
    return (yield from check_memory(context, best, attempt)) if best.memory is not None else best
