"""A whole tune, from the demand to the recommendation: `tune` is the order of its parts.

What was reached is returned, also where an interrupt or the time limit ended it. Time for the final is set aside before the
search begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from dragoman_bench.bench.results import Machine, installed_packages, whole
from dragoman_bench.bench.summary import Slo
from dragoman_bench.bench.tables import about
from dragoman_bench.journey.steps import OVERHEAD_S, Pace
from dragoman_bench.tune.compare import MOST_REPEATS, Context, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.final import (
    BASELINES,
    FinalPlan,
    candidates,
    confirm_recommended,
    judge,
    needed_bytes,
    recommend,
    run_final,
)
from dragoman_bench.tune.memory import check_level
from dragoman_bench.tune.outcome import FINALIST, Final, Hardware, LoadLevel, Phase, SearchResult, Tuning
from dragoman_bench.tune.search import FP8_TRIALS, Extra, base_knobs, caps, climb, search_knobs
from dragoman_bench.tune.trial import BY_HAND, Servers, TimeEstimate, TrialRunner

_FINAL_MARGIN = 1.25  # servers that start and idle beside others take longer to start and to warm up
_SEARCH_SHARE = 0.5  # of a time limit, which is left to the search


@dataclass(frozen=True, slots=True)
class PhaseWork:
    """A part of a tune, with at most so many engine starts and measurements."""

    phase: Phase
    starts: int
    measurements: int
    text: str


@dataclass(frozen=True, slots=True)
class TuneJob:
    """What a tune is for and how far it goes. `repeats` of a level at most, and rounds of the final; no baselines: no final."""

    demand: Demand
    hardware: Hardware
    machine: Machine
    slo: Slo | None = None
    also: tuple[Extra, ...] = ()
    baselines: tuple[str, ...] = BASELINES
    repeats: int = MOST_REPEATS
    time_limit_s: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # for the record

    @property
    def entries(self) -> int:
        """Of the final."""
        return 1 + len(self.baselines) if self.baselines else 0

    @property
    def low(self) -> LoadLevel | None:
        levels = self.demand.levels
        return LoadLevel(levels.low) if levels.low < levels.busy else None

    def plan(self) -> list[PhaseWork]:
        """On the long side: the search decides as it goes."""
        repeats, entries, busy = self.repeats, self.entries, self.demand.levels.busy
        ladder = f"at most {', '.join(map(str, caps(busy)))} requests at once, in front of "
        ladder += base_knobs(self.demand, self.hardware).label
        check = f"the KV cache's size under {check_level(self.demand).label}, where no trial has checked it"
        final = f"{', '.join((FINALIST, *self.baselines))}: {repeats} round{'s' if repeats != 1 else ''}"
        extras = len(self.also) + (len(FP8_TRIALS) - 1 if "fp8" in self.also else 0)
        work = [
            PhaseWork("ladder", 1, len(caps(busy)) + 2 * (repeats - 1), ladder),
            PhaseWork(
                "slots", 2, 2 * repeats + 1, "caps that meet the SLO as max_num_seqs, with the memory that they need"
            ),
            PhaseWork("batched_tokens", 1, repeats + 1, "max_num_batched_tokens, where steps can hold more or less"),
            PhaseWork("optional", extras, repeats * extras, ", ".join(self.also)),
            PhaseWork("memory", 1, 1, check),
            PhaseWork("final", entries, entries * (repeats + bool(self.low)), final),
        ]
        if self.baselines:
            text = "where a baseline is: that by itself, with the memory that the demand needs"
            work.append(PhaseWork("recommended", 1, 1 + repeats, text))
        return [one for one in work if one.starts]

    def left_s(self, estimate: TimeEstimate, phase: Phase = "ladder") -> float:
        """What the parts from `phase` on take."""
        work = self.plan()
        first = next((place for place, one in enumerate(work) if one.phase == phase), len(work))
        return sum(estimate.cost_s(one.starts, one.measurements) for one in work[first:])

    def final_s(self, estimate: TimeEstimate) -> float:
        """The time to set aside: all rounds, or as many as leave half of the time limit to the search, one at least."""
        for rounds in range(self.repeats, 0, -1):
            needed_s = _FINAL_MARGIN * estimate.cost_s(self.entries, self.entries * (rounds + bool(self.low)))
            if rounds == 1 or self.time_limit_s is None or needed_s <= (1 - _SEARCH_SHARE) * self.time_limit_s:
                return needed_s
        return 0.0

    def plan_lines(self, estimate: TimeEstimate) -> Iterator[str]:
        """What a tune is going to do, each part with its cost."""
        yield f"Demand: {self.demand.description}; {self.demand.levels.label}"
        yield f"SLO: {self.slo.text}" if self.slo else "No SLO is given: requests a second decide"
        for one in self.plan():
            starts = f"{one.starts} start{'s' if one.starts != 1 else ''}"
            measurements = f"{one.measurements} measurement{'s' if one.measurements != 1 else ''}"
            cost = about(estimate.cost_s(one.starts, one.measurements))
            yield f"{one.phase:16} {one.text} ({starts}, {measurements}, {cost})"
        if self.time_limit_s is not None and self.baselines:
            limit, final = about(self.time_limit_s), about(self.final_s(estimate))
            yield f"Time limit {limit}, of which {final} are set aside for the final"
        yield f"In all {about(self.left_s(estimate))}, if servers start as they usually do; less where trials can be skipped"


def measurement_s(pace: Pace) -> float:
    """What one measurement is expected to take."""
    return pace.warmup_s + pace.duration_s + OVERHEAD_S


async def tune(servers: Servers, job: TuneJob) -> Tuning:
    """The outcome, partial where it was stopped. Where the ladder has no knee nothing was measured, and its trial says why.
    Raises ConfigError where results cannot be written."""
    began_s, started_at = servers.clock(), datetime.now(UTC).isoformat(timespec="seconds")
    estimate_s, final, recommendation = job.left_s(servers.progress.estimate), None, None
    end_s = None if job.time_limit_s is None else began_s + job.time_limit_s

    async with TrialRunner(_until(servers, job, end_s)) as runner:
        context, finding = await _search(runner, servers, job, end_s)
    servers = replace(servers, deadline_s=end_s)
    if finding is not None:
        if job.baselines and not servers.interrupted.is_set():
            _begin(servers, job, "final", "The final: what was found against the baselines")
            final = await _hold_final(servers, job, context, finding, runner)
            context = replace(context, objective=Objective(job.slo, final.metric))
        recommendation = recommend(finding, final, context)
        if final is not None and recommendation.candidate != FINALIST and not servers.interrupted.is_set():
            _begin(servers, job, "recommended", "What is recommended, by itself")
            runner.servers = servers
            async with runner:
                recommendation = await runner.run(confirm_recommended(context, recommendation))
    stopped = BY_HAND if servers.interrupted.is_set() else runner.stopped
    if not stopped and final is not None and final.rounds < job.repeats:
        stopped = f"the time limit ended the final after {final.rounds} of {job.repeats} rounds"
    return Tuning(
        started_at=started_at,
        model=servers.subject.name,
        machine=job.machine,
        hardware=job.hardware,
        packages=installed_packages(),
        demand=context.demand.summary(),
        slo=job.slo.text if job.slo else None,
        ladder=context.ladder,
        trials=tuple(runner.trials.values()),
        finding=finding,
        final=final,
        recommendation=recommendation,
        estimate_s=round(estimate_s, 1),
        took_s=round(servers.clock() - began_s, 1),
        partial=bool(stopped),
        partial_because=stopped,
        options=dict(job.options),
    )


async def _search(
    runner: TrialRunner, servers: Servers, job: TuneJob, end_s: float | None
) -> tuple[Context, SearchResult | None]:
    """The ladder, and where it has a knee the settings after it."""
    progress = servers.progress
    _begin(servers, job, "ladder", "The ladder: how many requests at once")
    ladder, trial = await runner.run(climb(job.demand, job.hardware, job.slo, job.repeats))
    objective, demand = Objective(job.slo, ladder.metric), job.demand.measured(trial)
    context = Context(demand, job.hardware, objective, ladder, trial, job.repeats)
    if ladder.knee is None:
        return context, None
    progress.note(f"The ladder ended ({ladder.ended}). The knee is {ladder.knee}: {ladder.because}.")
    _begin(servers, job, "slots", "The search: settings that need a server of their own")
    runner.servers = _until(servers, job, end_s)  # with start times as they were measured
    finding = await runner.run(search_knobs(context, job.also))
    progress.note(f"The search found {finding.knobs.label}.")
    return context, finding


async def _hold_final(
    servers: Servers, job: TuneJob, context: Context, finding: SearchResult, runner: TrialRunner
) -> Final:
    """With as much KV cache for each as the finalist has; where it leaves that to the server, as the first server took."""
    trials = tuple(runner.trials.values())
    reported = (whole(trial.engine.get("kv_cache_memory_bytes")) for trial in trials)
    kv_cache_bytes = finding.knobs.kv_cache_memory_bytes or next((size for size in reported if size), None)
    entries = candidates(finding.knobs, job.baselines, job.hardware, job.machine, kv_cache_bytes)
    needed = needed_bytes(job.hardware, finding.memory, context.ladder_trial)
    plan = FinalPlan(entries, context.busy, job.low, job.repeats, context.ladder.metric, job.hardware, needed)
    final = await run_final(servers, plan)
    return judge(final, Objective.over(job.slo, [one.busy for one in final.measured]))


def _begin(servers: Servers, job: TuneJob, phase: Phase, title: str) -> None:
    servers.progress.note(f"{title} ({about(job.left_s(servers.progress.estimate, phase))} left)", "bold")


def _until(servers: Servers, job: TuneJob, end_s: float | None) -> Servers:
    """Servers for the search: what the final needs is set aside."""
    if end_s is None or job.time_limit_s is None:
        return servers
    latest_s = end_s - job.final_s(servers.progress.estimate)
    return replace(servers, deadline_s=max(latest_s, end_s - (1 - _SEARCH_SHARE) * job.time_limit_s))
