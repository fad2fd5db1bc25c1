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
from dragoman_bench.journey.steps import Pace
from dragoman_bench.tune.compare import MOST_REPEATS, Context, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.final import BASELINES, FinalPlan, candidates, run_final, sharing_of
from dragoman_bench.tune.knobs import Extra, measured_demand, search_knobs
from dragoman_bench.tune.ladder import base_knobs, caps, check_level, climb
from dragoman_bench.tune.outcome import (
    FINALIST,
    Final,
    Hardware,
    Knobs,
    Ladder,
    LoadLevel,
    Phase,
    Recommendation,
    SearchResult,
    Trial,
    Tuning,
)
from dragoman_bench.tune.progress import PhaseWork, TimeEstimate
from dragoman_bench.tune.recommend import Grounds, confirm_recommended, judge, recommend
from dragoman_bench.tune.trial import BY_HAND, Servers, TrialRunner

_DRAIN_S = 1.5  # of a measurement beside its warm-up and itself: in-flight requests are awaited at the end of both
_FINAL_MARGIN = 1.25  # servers that start and idle beside others take longer to start and to warm up
_SEARCH_SHARE = 0.5  # of a time limit, which is left to the search


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
    def busy(self) -> LoadLevel:
        return LoadLevel(self.demand.levels.busy)

    @property
    def low(self) -> LoadLevel | None:
        levels = self.demand.levels
        return LoadLevel(levels.low) if levels.low < levels.busy else None

    def estimate(self, measurement_s: float) -> TimeEstimate:
        """On the long side: the search decides as it goes."""
        repeats, entries = self.repeats, 1 + len(self.baselines) if self.baselines else 0
        lows = entries if self.low else 0
        work = (
            PhaseWork("ladder", 1, len(caps(self.demand.levels.busy)) + 2 * (repeats - 1)),
            PhaseWork("slots", 2, 2 * repeats + 1),
            PhaseWork("batched_tokens", 1, repeats + 1),
            PhaseWork("optional", len(self.also), repeats * len(self.also)),
            PhaseWork("memory", 1, 1),
            PhaseWork("final", entries, repeats * entries + lows),
            PhaseWork("recommended", *((1, 1 + repeats) if self.baselines else (0, 0))),
        )
        return TimeEstimate.of(measurement_s, work)

    def final_s(self, estimate: TimeEstimate) -> float:
        """The time to set aside: all rounds, or as many as leave half of the time limit to the search, one at least."""
        entries = 1 + len(self.baselines) if self.baselines else 0
        for rounds in range(self.repeats, 0, -1):
            measurements = rounds * entries + (entries if self.low else 0)
            needed_s = _FINAL_MARGIN * estimate.cost_s(entries, measurements)
            if rounds == 1 or self.time_limit_s is None or needed_s <= (1 - _SEARCH_SHARE) * self.time_limit_s:
                return needed_s
        return 0.0


def measurement_s(pace: Pace) -> float:
    """What one measurement is expected to take."""
    return pace.warmup_s + pace.duration_s + _DRAIN_S


async def tune(servers: Servers, job: TuneJob) -> Tuning:
    """The outcome, partial where it was stopped. Where the ladder has no knee nothing was measured, and its trial says why.
    Raises ConfigError where results cannot be written."""
    began_s, started_at, estimate_s = servers.clock(), _now(), servers.progress.estimate.left_s
    end_s = None if job.time_limit_s is None else began_s + job.time_limit_s
    finding, final, recommendation = None, None, None

    async with TrialRunner(_until(servers, job, end_s)) as runner:
        ladder, ladder_trial = await _climb(runner, job)
        runner.servers = _until(servers, job, end_s)  # with start times as they were measured
        if ladder.knee is not None:
            finding = await _search(runner, job, ladder, ladder_trial)
    servers = replace(servers, deadline_s=end_s)
    if finding is not None:
        final = await _hold_final(servers, job, ladder, finding, tuple(runner.trials.values()))
        recommendation = await _recommend(runner, servers, job, ladder, ladder_trial, finding, final)

    stopped = BY_HAND if servers.interrupted.is_set() else runner.stopped or _final_cut_short(job, final)
    return Tuning(
        started_at=started_at,
        model=servers.subject.name,
        machine=job.machine,
        hardware=job.hardware,
        packages=installed_packages(),
        demand=measured_demand(job.demand, ladder_trial).summary(),
        slo=job.slo.text if job.slo else None,
        ladder=ladder,
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


def plan_lines(job: TuneJob, estimate: TimeEstimate) -> Iterator[str]:
    """What a tune is going to do, each part with its cost. `estimate` as it is before the first start."""
    levels = job.demand.levels
    concurrency = f"{levels.low} texts at once usually, {levels.busy} when busy, {levels.peak} at most"
    yield f"Demand: {job.demand.description}; {concurrency}"
    yield f"SLO: {job.slo.text}" if job.slo else "No SLO is given: requests a second decide"
    texts: dict[Phase, str] = {
        "ladder": f"at most {', '.join(map(str, caps(levels.busy)))} requests at once, in front of "
        f"{base_knobs(job.demand, job.hardware).label}",
        "slots": "caps that meet the SLO as max_num_seqs, with the memory that they need",
        "batched_tokens": "max_num_batched_tokens, where steps can hold more or less",
        "optional": ", ".join(job.also),
        "memory": f"the KV cache's size under {check_level(job.demand).label}, where no trial has checked it",
        "recommended": "where a baseline is: that by itself, with the memory that the demand needs",
        "final": f"{', '.join((FINALIST, *job.baselines))}: {job.repeats} round{'s' if job.repeats != 1 else ''}",
    }
    for phase, work in estimate.left.items():
        if work.starts or work.measurements:
            starts = f"{work.starts} start{'s' if work.starts != 1 else ''}"
            measurements = f"{work.measurements} measurement{'s' if work.measurements != 1 else ''}"
            cost = about(estimate.cost_s(work.starts, work.measurements))
            yield f"{phase:16} {texts[phase]} ({starts}, {measurements}, {cost})"
    if job.time_limit_s is not None and job.baselines:
        yield f"Time limit {about(job.time_limit_s)}, of which {about(job.final_s(estimate))} are set aside for the final"
    yield f"In all {about(estimate.left_s)}, if servers start as they usually do; less where trials can be skipped"


async def _climb(runner: TrialRunner, job: TuneJob) -> tuple[Ladder, Trial]:
    progress = runner.servers.progress
    progress.begin("ladder", "The ladder: how many requests at once")
    ladder, trial = await runner.run(climb(job.demand, job.hardware, job.slo, job.repeats))
    if ladder.knee is not None:
        progress.note(f"The ladder ended ({ladder.ended}). The knee is {ladder.knee}: {ladder.because}.")
    return ladder, trial


async def _search(runner: TrialRunner, job: TuneJob, ladder: Ladder, trial: Trial) -> SearchResult:
    runner.servers.progress.begin("slots", "The search: settings that need a server of their own")
    search = search_knobs(job.demand, job.hardware, job.slo, ladder, trial, job.also, job.repeats)
    finding = await runner.run(search)
    runner.servers.progress.note(f"The search found {finding.knobs.label}.")
    return finding


async def _hold_final(
    servers: Servers, job: TuneJob, ladder: Ladder, finding: SearchResult, trials: tuple[Trial, ...]
) -> Final | None:
    if not job.baselines or servers.interrupted.is_set():
        return None
    servers.progress.begin("final", "The final: what was found against the baselines")
    kv_cache_bytes = _kv_cache_bytes(finding.knobs, trials)
    entries = candidates(finding.knobs, job.baselines, job.hardware, job.machine, kv_cache_bytes)
    sharing = sharing_of(len(entries), job.hardware, finding.memory, trials)
    plan = FinalPlan(entries, job.busy, job.low, job.repeats, ladder.metric, sharing)
    return judge(await run_final(servers, plan), job.slo)


async def _recommend(
    runner: TrialRunner,
    servers: Servers,
    job: TuneJob,
    ladder: Ladder,
    trial: Trial,
    finding: SearchResult,
    final: Final | None,
) -> Recommendation:
    """A baseline that is recommended is measured by itself first."""
    demand = measured_demand(job.demand, trial)
    wanted = recommend(finding, final, Grounds(demand, job.hardware, job.slo, trial))
    if final is None or wanted.candidate == FINALIST or servers.interrupted.is_set():
        return wanted
    servers.progress.begin("recommended", "What is recommended, by itself")
    context = Context(demand, job.hardware, Objective(job.slo, final.metric), ladder, trial, job.repeats)
    runner.servers = servers
    async with runner:
        return await runner.run(confirm_recommended(context, wanted))


def _until(servers: Servers, job: TuneJob, end_s: float | None) -> Servers:
    """Servers for the search: what the final needs is set aside."""
    if end_s is None or job.time_limit_s is None:
        return servers
    latest_s = end_s - job.final_s(servers.progress.estimate)
    return replace(servers, deadline_s=max(latest_s, end_s - (1 - _SEARCH_SHARE) * job.time_limit_s))


def _kv_cache_bytes(knobs: Knobs, trials: tuple[Trial, ...]) -> int | None:
    """The finalist's; where it leaves that to the server, what the ladder's server took."""
    reported = (whole(trial.engine.get("kv_cache_memory_bytes")) for trial in trials)
    return knobs.kv_cache_memory_bytes or next((size for size in reported if size), None)


def _final_cut_short(job: TuneJob, final: Final | None) -> str:
    """Why the final has fewer rounds than wanted; empty where it has all, or none was wanted."""
    if final is None or final.rounds >= job.repeats:
        return ""
    reason = next((one.reason for one in final.entries if one.outcome in ("skipped", "interrupted")), "")
    return f"the final ended after {final.rounds} of {job.repeats} rounds" + (f": {reason}" if reason else "")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
