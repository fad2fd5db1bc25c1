"""What to serve with: the finalist where it is better beyond the spread, else the simplest of those that are no worse.

Judged in the final alone, where all were measured in turn: trials of the search were measured minutes apart. What the search
found out about memory is kept in either case, as it is a saving that costs no speed. Knows nothing of how the final was held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.outcome import Choice, Final, Finding, Memory, Recommendation, Standing
from dragoman_bench.tune.points import Knobs, Place, Seen, Trial
from dragoman_bench.tune.scale import Scale, attains
from dragoman_bench.tune.sizing import Sizer, with_memory

FINALIST = "finalist"

_OF_VLLM = "measured with `vllm serve` itself; dragoman with the same settings was not measured"
_COMPUTED = "this memory is computed; what the search checked under load was its own finding's"


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a recommendation rests on, beside the final. `ladder_trial`: whose server told its cache."""

    demand: Demand
    place: Place
    slo: Slo | None
    ladder_trial: Trial


def judge(final: Final, slo: Slo | None) -> Final:
    """The final with its deciding metric (goodput, where any attains the SLO) and the finalist's verdict against each."""
    measured = [one for one in final.standings if one.busy]
    scale = Scale.over(slo, [one.busy for one in measured])
    finalist = next((one for one in measured if one.contender.name == FINALIST), None)
    standings = tuple(_judged(one, finalist, scale) for one in final.standings)
    return replace(final, standings=standings, metric=scale.metric)


def recommend(finding: Finding, final: Final | None, grounds: Grounds) -> Recommendation:
    """From a judged final; without one (or where the finalist was not in it) the finding as it stands."""
    standings = [one for one in final.standings if one.busy] if final else []
    if final is None or all(one.contender.name != FINALIST for one in standings):
        return _unproven(finding, final)
    scale = Scale(grounds.slo, final.metric)
    winner, equals = _winner(standings, scale)
    knobs, memory = _knobs(winner, finding, grounds)
    choices = tuple(_choices(winner, knobs, memory, finding, scale))
    better = all(one.verdict in ("itself", "higher") for one in standings) and len(standings) > 1
    because = "; ".join(f"{one.contender.title}: {scale.told(one.busy)}" for one in standings)
    caveats = tuple(_caveats(winner, memory, final, finding, grounds))
    headline = _headline(winner, equals, better, scale)
    return Recommendation(winner.contender.name, knobs, choices, headline, because, better, caveats, memory)


def proven(
    wanted: Recommendation, knobs: Knobs, memory: Memory, seen: tuple[Seen, ...], scale: Scale
) -> Recommendation:
    """The recommendation after it ran by itself with `knobs`, which may have more memory than was computed. `seen`: at the
    busy level; empty where no memory held."""
    reasons = {choice.path: choice.why for choice in wanted.choices} | {f"engine.{memory.setting}": memory.told}
    choices = tuple(
        Choice(path, value, reasons.get(path, memory.told))
        for path, value in ((f"engine.{name}", value) for name, value in knobs.settings.items())
    )
    kept = [told for told in wanted.caveats if told != _COMPUTED and not (seen and told == _OF_VLLM)]
    because = wanted.because
    if seen:
        because += f"; dragoman with the recommended settings and memory, by itself: {scale.told(seen)}"
    return replace(
        wanted,
        knobs=knobs,
        choices=choices,
        because=because,
        caveats=(*kept, *_of_memory(memory)),
        memory=memory,
        seen=seen,
    )


def _judged(standing: Standing, finalist: Standing | None, scale: Scale) -> Standing:
    if not standing.busy:
        return replace(standing, verdict="not measured", because=standing.reason)
    if standing is finalist:
        return replace(standing, verdict="itself", because=scale.told(standing.busy))
    if finalist is None:
        return replace(standing, verdict="not measured", because="the finalist was not measured")
    verdict: Literal["higher", "equal", "lower"] = scale.compare_rounds(finalist.busy, standing.busy)
    said = {"higher": "more than", "equal": "within the spread of", "lower": "less than"}[verdict]
    because = f"the finalist's {scale.told(finalist.busy)} is {said} {scale.told(standing.busy)}"
    if verdict != "equal" and scale.compare(finalist.busy, standing.busy) == "equal":
        because += ", in every round"
    return replace(standing, verdict=verdict, because=because)


def _winner(standings: Sequence[Standing], scale: Scale) -> tuple[Standing, list[Standing]]:
    """The simplest of those that nobody is ahead of, and all of these. (To be no farther from the best than the spread is
    not enough: a best with one bad round has so wide a range that everybody would be.)"""
    sound = [one for one in standings if not scale.broken(one.busy)] if scale.metric == "goodput_rps" else []
    eligible = sound or list(standings)
    best = max(eligible, key=lambda one: scale.median(one.busy))
    equals = [
        one
        for one in eligible
        if one is best or all(scale.compare_rounds(one.busy, other.busy) != "lower" for other in eligible)
    ]
    return min(equals, key=lambda one: one.contender.simplicity), equals


def _knobs(winner: Standing, finding: Finding, grounds: Grounds) -> tuple[Knobs, Memory | None]:
    """The winner's settings, with memory as the demand needs it."""
    if winner.contender.name == FINALIST:
        return finding.knobs, finding.memory
    knobs = winner.contender.alone
    memory = Sizer(grounds.demand, grounds.place, _told_by(winner, grounds)).size(knobs.max_num_seqs or 1)
    return with_memory(knobs, memory), memory


def _told_by(winner: Standing, grounds: Grounds) -> Trial:
    """A server whose cache is known: the winner's own where it says, else the ladder's."""
    setup = winner.contender.setup
    if winner.kv_cache is None:
        return grounds.ladder_trial
    utilization = setup.knobs.gpu_memory_utilization
    return replace(
        grounds.ladder_trial,
        seen=winner.busy,
        kv_cache=winner.kv_cache,
        gpu_memory_utilization=utilization,
    )


def _choices(winner: Standing, knobs: Knobs, memory: Memory | None, finding: Finding, scale: Scale) -> Iterator[Choice]:
    title, own = winner.contender.title, winner.contender.name == FINALIST
    for name, value in knobs.settings.items():
        why = (
            finding.reasons.get(name, "")
            if own
            else f"as in {title}: {scale.told(winner.busy)}, the simplest of equals"
        )
        if not own and memory is not None and name == memory.setting and memory.value is not None:
            why = memory.because
        yield Choice(f"engine.{name}", value, why)


def _headline(winner: Standing, equals: Sequence[Standing], better: bool, scale: Scale) -> str:
    title, numbers = winner.contender.title, scale.told(winner.busy)
    clients = winner.busy[0].level.clients
    if winner.contender.name != FINALIST:
        others = any(one.contender.name == FINALIST for one in equals)
        said = "what the search found is no better beyond the spread" if others else "what the search found is worse"
        return f"Serve as {title}: {numbers} with {clients} clients; {said}."
    if better:
        return f"Serve with what the search found: {numbers} with {clients} clients, more than every baseline."
    return f"Serve with what the search found: {numbers} with {clients} clients; no simpler setup is as good."


def _caveats(
    winner: Standing, memory: Memory | None, final: Final, finding: Finding, grounds: Grounds
) -> Iterator[str]:
    if grounds.slo is not None and not any(attains(one.busy) for one in final.standings if one.busy):
        clients = grounds.demand.levels.busy
        yield f"no setup attains the SLO with {clients} clients: it takes fewer at once, or faster hardware"
    if any(len(one.busy) < 2 for one in final.standings if one.busy):
        yield "measured once: 10 % stands for a spread that nobody knows"
    if winner.contender.setup.kind == "vllm":
        yield _OF_VLLM
    if memory is None or memory.value is None:
        yield "the memory that the demand needs could not be computed: the server's own size is kept"
    elif winner.contender.name != FINALIST:
        yield _COMPUTED
    else:
        yield from _of_memory(memory)


def _of_memory(memory: Memory | None) -> Iterator[str]:
    if memory is not None and memory.checked == "did not hold":
        yield "no memory that was tried held under 1.5 times the peak: long texts at the peak may be preempted"
    elif memory is not None and memory.checked == "not checked":
        yield "the memory is computed and was not checked under load"


def _unproven(finding: Finding, final: Final | None) -> Recommendation:
    """The search's word alone."""
    out = next((one for one in final.standings if one.contender.name == FINALIST), None) if final else None
    why = f"in the final it was not measured: {out.reason or out.outcome}" if out else "the final was not held"
    reasons = {name: finding.reasons.get(name, "") for name in finding.knobs.settings}
    choices = tuple(Choice(f"engine.{name}", value, reasons[name]) for name, value in finding.knobs.settings.items())
    headline = "The best that the search found so far; it was not held against the baselines."
    caveats = (why, *_of_memory(finding.memory))
    return Recommendation(FINALIST, finding.knobs, choices, headline, why, False, caveats, finding.memory)
