"""The search of the knobs, after the ladder: slots, step size, what else was asked for, memory.

Every engine start is dear, a further measurement on a server that is up is cheap: so a trial of fewer slots has the sized
memory already, a winner is checked under the peak's load before its server goes, and what the ladder or the demand tells
beforehand is skipped with its reason. A pure state machine: the same answers give the same questions. Knows nothing of how
anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from dragoman.settings import GRAPH_CEILING, VLLM_GRAPH_CEILING
from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune import batched_tokens, checking, extras, slots
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.incumbent import Case, Incumbent, skip
from dragoman_bench.tune.ladder import level_of
from dragoman_bench.tune.outcome import Finding, Ladder
from dragoman_bench.tune.points import Level, Place, Steps, Trial
from dragoman_bench.tune.scale import MOST_REPEATS, Scale
from dragoman_bench.tune.sizing import with_memory

_CEILING = (
    f"steps of up to {GRAPH_CEILING} tokens run as CUDA graphs however few slots there are: vLLM's own ceiling is twice the "
    f"slots, and {VLLM_GRAPH_CEILING} at most"
)


def search(
    demand: Demand,
    place: Place,
    slo: Slo | None,
    ladder: Ladder,
    trial: Trial,
    also: Sequence[extras.Extra] = (),
    repeats: int = MOST_REPEATS,
) -> Steps[Finding]:
    """The best knobs. `trial`: the ladder's. Where the ladder measured nothing, neither does this."""
    case = Case(measured_lengths(demand, trial), place, Scale(slo, ladder.metric), ladder, trial, repeats)
    best = _from_the_ladder(case)
    if not best.seen:
        return finding(best)
    if batched_tokens.bound_by_tokens(case):
        best = yield from _smaller_steps_first(case, best)
    else:
        best = yield from slots.settle(case, best)
        best = yield from batched_tokens.settle(case, best)
    best = yield from extras.settle(case, best, also)
    best = yield from checking.settle(case, best)
    return finding(best)


def finding(best: Incumbent) -> Finding:
    """The incumbent as the outcome has it, with a reason for every knob."""
    reasons = {**dict.fromkeys(best.knobs.settings, "as the ladder was measured with"), **best.reasons}
    if best.memory is not None and best.memory.setting in best.knobs.settings:
        reasons[best.memory.setting] = best.memory.told
    if best.knobs.max_cudagraph_capture_size is not None:
        reasons["max_cudagraph_capture_size"] = _CEILING
    kept = {name: reason for name, reason in reasons.items() if name in best.knobs.settings}
    return Finding(best.knobs, kept, best.memory, best.trial.name if best.seen else None)


def measured_lengths(demand: Demand, trial: Trial) -> Demand:
    """The demand with output lengths as the ladder saw them, where nobody knew them before."""
    ratios = [seen.output_tokens_s / seen.rps for seen in trial.seen if seen.output_tokens_s and seen.rps]
    if not ratios or not demand.output_estimated:
        return demand
    mean_source = sum(item.source_tokens for item in demand.items) / len(demand.items)
    return demand.with_output_ratio(median(ratios) / mean_source)


def _smaller_steps_first(case: Case, best: Incumbent) -> Steps[Incumbent]:
    """Where the climb ended because tokens came too slowly: if steps may be smaller, there is no need for fewer slots."""
    memory = case.sizer.size(best.slots)
    sized = replace(best, memory=memory, knobs=with_memory(best.knobs, memory))
    found = yield from batched_tokens.settle(case, sized)
    if found.trial.name != best.trial.name:
        told = (
            f"with steps of {found.knobs.max_num_batched_tokens} tokens all {case.busy.clients} clients may run at once"
        )
        fewer = replace(found.knobs, max_num_seqs=case.ladder.knee)
        yield skip(f"slots-{case.ladder.knee}", "slots", fewer, f"the knee was that of larger steps; {told}")
        return found.because(max_num_seqs=told)
    return (yield from slots.settle(case, replace(best, reasons=found.reasons)))


def _from_the_ladder(case: Case) -> Incumbent:
    """The ladder's engine: as it was without a cap; where the climb ended below, as its best cap was."""
    ladder, trial = case.ladder, case.ladder_trial
    seen = trial.at(Level(ladder.clients))
    if not seen and ladder.best is not None:
        seen = trial.at(level_of(ladder.best, ladder.clients))
    return Incumbent(ladder.setup.knobs, seen, trial)
