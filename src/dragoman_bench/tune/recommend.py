"""What to serve with: what meets the SLO first, then the best in the final, and of equals the simplest.

Only the final decides, where all were measured in turn: trials of the search were measured minutes apart. Each setting is
recommended as one object of value and reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.compare import Attempt, Best, Context, Objective, meets
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.memory import Sizer, check_memory
from dragoman_bench.tune.outcome import (
    FINALIST,
    Choice,
    Final,
    FinalEntry,
    Hardware,
    Memory,
    Recommendation,
    Search,
    SearchResult,
    Trial,
    with_choices,
)

_OF_VLLM = "measured with `vllm serve` itself; dragoman with the same settings was not measured"
_COMPUTED = "this memory is computed, and was not checked under load"


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a recommendation rests on beside the final. `ladder_trial`: whose server reported its cache."""

    demand: Demand
    hardware: Hardware
    slo: Slo | None
    ladder_trial: Trial


def judge(final: Final, slo: Slo | None) -> Final:
    """The final with its deciding metric (goodput, where any candidate meets the SLO) and the finalist's verdicts."""
    measured = [one for one in final.entries if one.busy]
    objective = Objective.over(slo, [one.busy for one in measured])
    finalist = next((one for one in measured if one.candidate.name == FINALIST), None)
    entries = tuple(_judged(one, finalist, objective) for one in final.entries)
    return replace(final, entries=entries, metric=objective.metric)


def recommend(finding: SearchResult, final: Final | None, grounds: Grounds) -> Recommendation:
    """From a judged final; without one, or where the finalist was not measured in it, what the search found."""
    entries = [one for one in final.entries if one.busy] if final else []
    if final is None or all(one.candidate.name != FINALIST for one in entries):
        return _without_final(finding, final)
    objective = Objective(grounds.slo, final.metric)
    winner, equals = best_entry(entries, objective)
    recommended = (
        _of_finalist(finding) if winner.candidate.name == FINALIST else _of_baseline(winner, grounds, objective)
    )
    better = len(entries) > 1 and all(one.verdict in ("itself", "higher") for one in entries)
    return replace(
        recommended,
        headline=_headline(winner, equals, better, objective),
        because="; ".join(f"{one.candidate.title}: {objective.describe(one.busy)}" for one in entries),
        better=better,
        caveats=(*_caveats(winner, final, grounds), *recommended.caveats),
    )


def best_entry(entries: Sequence[FinalEntry], objective: Objective) -> tuple[FinalEntry, list[FinalEntry]]:
    """The simplest of those that no other is ahead of, and all of these; only those that meet the SLO, where any does."""
    eligible = [one for one in entries if one.busy in objective.eligible([one.busy for one in entries])]
    best = max(eligible, key=lambda one: objective.rank(one.busy))
    equals = [
        one
        for one in eligible
        if one is best or all(objective.compare_rounds(one.busy, other.busy) != "lower" for other in eligible)
    ]
    return min(equals, key=lambda one: one.candidate.simplicity), equals


def confirm_recommended(context: Context, wanted: Recommendation) -> Search[Recommendation]:
    """A baseline that is recommended, by itself with the memory that the demand needs: checked, and measured at the busy
    level. It has not run so before: the final gave it other memory, and `vllm serve` may have been its server."""
    why = "the recommended settings by themselves, with the memory that the demand needs"
    attempt = Attempt("recommended", "recommended", wanted.knobs, why)
    best = Best(wanted.choices, (), context.ladder_trial, wanted.memory)
    after = yield from check_memory(context, best, attempt, "recommended")
    memory = after.memory
    if memory is None or memory.checked == "not checked":
        return wanted
    recommended = replace(wanted, choices=after.choices, memory=memory)
    caveats = [text for text in wanted.caveats if text != _COMPUTED]
    if memory.checked == "held":
        shown = replace(attempt, name=memory.trials[-1], knobs=after.knobs)
        trial = yield shown.measure(context.busy, 0)
        trial = yield from shown.repeated(context, trial)
        if results := trial.at(context.busy):
            text = f"dragoman with the recommended settings, by itself: {context.objective.describe(results)}"
            recommended = replace(recommended, results=results, because=f"{wanted.because}; {text}")
            caveats = [text for text in caveats if text != _OF_VLLM]
            if context.objective.metric == "goodput_rps" and not meets(results):
                caveats.append("measured by itself, it missed the SLO")
    return replace(recommended, caveats=(*caveats, *_of_memory(memory)))


def _judged(entry: FinalEntry, finalist: FinalEntry | None, objective: Objective) -> FinalEntry:
    if not entry.busy or finalist is None:
        return replace(entry, because=entry.reason or "the finalist was not measured")
    if entry is finalist:
        return replace(entry, verdict="itself", because=objective.describe(entry.busy))
    verdict = objective.compare_rounds(finalist.busy, entry.busy)
    relation = {"higher": "better than", "equal": "within the spread of", "lower": "worse than"}[verdict]
    because = f"the finalist's {objective.describe(finalist.busy)} is {relation} {objective.describe(entry.busy)}"
    if verdict != "equal" and objective.compare(finalist.busy, entry.busy) == "equal":
        because += ", in every round"
    return replace(entry, verdict=verdict, because=because)


def _of_finalist(finding: SearchResult) -> Recommendation:
    memory = finding.memory
    unknown = "the memory that the demand needs could not be computed: the server's own size is kept"
    caveats = (unknown,) if memory is None or memory.value is None else tuple(_of_memory(memory))
    return Recommendation(FINALIST, finding.choices, "", "", False, caveats, memory)


def _of_baseline(winner: FinalEntry, grounds: Grounds, objective: Objective) -> Recommendation:
    """The baseline's settings, with memory as the demand needs it."""
    reason = (
        f"as in {winner.candidate.title}: {objective.describe(winner.busy)}, the simplest of those that are as good"
    )
    choices = tuple(Choice(name, value, reason) for name, value in winner.candidate.alone.settings.items())
    trial = grounds.ladder_trial
    if winner.kv_cache is not None:
        share = winner.candidate.setup.knobs.gpu_memory_utilization
        trial = replace(trial, results=winner.busy, kv_cache=winner.kv_cache, gpu_memory_utilization=share)
    memory = Sizer(grounds.demand, grounds.hardware, trial).size(winner.candidate.alone.max_num_seqs or 1)
    choices = with_choices(choices, memory.choice) if memory.choice else choices
    caveats = (_OF_VLLM, _COMPUTED) if winner.candidate.setup.kind == "vllm" else (_COMPUTED,)
    return Recommendation(winner.candidate.name, choices, "", "", False, caveats, memory)


def _headline(winner: FinalEntry, equals: Sequence[FinalEntry], better: bool, objective: Objective) -> str:
    numbers, clients = objective.describe(winner.busy), winner.busy[0].level.clients
    if winner.candidate.name != FINALIST:
        equal = any(one.candidate.name == FINALIST for one in equals)
        search = "what the search found is no better beyond the spread" if equal else "what the search found is worse"
        return f"Serve as {winner.candidate.title}: {numbers} with {clients} clients; {search}."
    if better:
        return f"Serve with what the search found: {numbers} with {clients} clients, better than every baseline."
    return f"Serve with what the search found: {numbers} with {clients} clients; no simpler setup is as good."


def _caveats(winner: FinalEntry, final: Final, grounds: Grounds) -> Iterator[str]:
    if grounds.slo is not None and not any(meets(one.busy) for one in final.entries if one.busy):
        clients = grounds.demand.levels.busy
        yield f"no setup meets the SLO with {clients} clients: it takes fewer texts in flight, or faster hardware"
    if any(len(one.busy) < 2 for one in final.entries if one.busy):
        yield "measured once: 10 % stands for the unknown spread"


def _of_memory(memory: Memory | None) -> Iterator[str]:
    if memory is not None and memory.checked == "did not hold":
        yield "no memory that was tried held under 1.5 times the peak: long texts at the peak may be preempted"
    elif memory is not None and memory.checked == "not checked":
        yield _COMPUTED


def _without_final(finding: SearchResult, final: Final | None) -> Recommendation:
    out = next((one for one in final.entries if one.candidate.name == FINALIST), None) if final else None
    because = f"in the final it was not measured: {out.reason or out.outcome}" if out else "there was no final"
    headline = "The best that the search found; it was not compared with the baselines."
    caveats = (because, *_of_memory(finding.memory))
    return Recommendation(FINALIST, finding.choices, headline, because, False, caveats, finding.memory)
