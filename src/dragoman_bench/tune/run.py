"""Runs a tune, from the demand to the recommendation.

An interrupted tune returns the parts that were reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from dragoman_bench.bench.measurement import Machine, installed_packages, whole
from dragoman_bench.bench.summary import Slo
from dragoman_bench.bench.tables import about
from dragoman_bench.journey.steps import Pace
from dragoman_bench.tune.compare import MOST_REPEATS, Context, Objective
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.final import BASELINES, candidates, hold_final, judge, recommend
from dragoman_bench.tune.outcome import FINALIST, Final, Recommendation, SearchResult, Tuning
from dragoman_bench.tune.search import base_knobs, caps, climb, search_knobs
from dragoman_bench.tune.trial import BY_HAND, Servers, TrialRunner

SERVER_S = 64.0
"""Of a server's start and stop: engines take 30 to 80 s."""
OVERHEAD_S = 1.5
"""Of a measurement, beside its warm-up and itself: in-flight requests at the end of either are awaited."""


@dataclass(frozen=True, slots=True)
class TuneJob:
    """Parameters of a tune. `repeats`: the most measurements of a level, and rounds of the final; no baselines: no final."""

    demand: Demand
    machine: Machine
    slo: Slo | None = None
    baselines: tuple[str, ...] = BASELINES
    repeats: int = MOST_REPEATS
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # for the record

    def expected_s(self, pace: Pace) -> float:
        """Estimate the duration, rather too long, because the search depends on results. The ladder and the check of memory
        have one server start each, the search three, and the final one for each of its measurements."""
        rounds = self.repeats * (1 + len(self.baselines)) if self.baselines else 0
        starts, measurements = 5 + rounds, len(caps(self.demand.levels.busy)) + 6 * self.repeats + rounds
        measurement_s = pace.warmup_s + pace.duration_s + OVERHEAD_S
        return starts * SERVER_S + measurements * measurement_s

    def plan_lines(self, pace: Pace) -> Iterator[str]:
        """Describe what the tune will measure."""
        base, climbed = base_knobs(self.demand, self.machine), caps(self.demand.levels.busy)
        yield f"Demand: {self.demand.description}; {self.demand.levels.label}"
        yield f"SLO: {self.slo.text}" if self.slo else "No SLO is given: requests a second decide"
        yield f"The ladder: at most {', '.join(map(str, climbed))} requests at once, in front of {base.label}"
        if self.baselines:
            rounds = f"{self.repeats} round{'s' if self.repeats != 1 else ''}"
            yield f"The final: {', '.join((FINALIST, *self.baselines))}: {rounds}"
        yield f"At most {about(self.expected_s(pace))}, if servers start as they usually do"


async def tune(servers: Servers, job: TuneJob) -> Tuning:
    """Run the tune; the outcome is partial if it was interrupted. If the ladder has no knee nothing was measured, and its
    trial says why. Raises ConfigError if results cannot be written."""
    began_s, started_at = monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    interrupted, note = servers.interrupted, servers.progress.note
    finding: SearchResult | None = None
    final: Final | None = None
    recommendation: Recommendation | None = None
    async with TrialRunner(servers) as runner:
        note("The ladder: how many requests at once", "bold")
        ladder, trial = await runner.run(climb(job.demand, job.machine, job.slo, job.repeats))
        objective, demand = Objective(job.slo, ladder.metric), job.demand.measured(trial)
        context = Context(demand, job.machine, objective, ladder, trial, job.repeats)
        if ladder.knee is not None:
            note(f"The ladder ended ({ladder.ended}). The knee is {ladder.knee}: {ladder.because}.")
            note("The search: settings that need a server of their own", "bold")
            finding = await runner.run(search_knobs(context))
            note(f"The search found {finding.knobs.label}.")
            if job.baselines and not interrupted.is_set():
                note("The final: what was found against the baselines", "bold")
                final = await _hold_final(runner, job, context, finding)
                context = replace(context, objective=Objective(job.slo, final.metric))
            recommendation = recommend(finding, final, context)
    return Tuning(
        started_at=started_at,
        model=servers.subject.name,
        machine=job.machine,
        packages=installed_packages(),
        demand=context.demand.summary(),
        slo=job.slo.text if job.slo else None,
        ladder=context.ladder,
        trials=tuple(trial for trial in runner.trials.values() if trial.phase != "final"),
        finding=finding,
        final=final,
        recommendation=recommendation,
        took_s=round(monotonic() - began_s, 1),
        partial=interrupted.is_set(),
        partial_because=BY_HAND if interrupted.is_set() else "",
        options=dict(job.options),
    )


async def _hold_final(runner: TrialRunner, job: TuneJob, context: Context, finding: SearchResult) -> Final:
    """Without a GPU the baselines have as much KV cache as the finalist; where it leaves that to the server, as the first
    server took."""
    reported = (whole(trial.engine.get("kv_cache_memory_bytes")) for trial in runner.trials.values())
    kv_cache_bytes = finding.knobs.kv_cache_memory_bytes or next((size for size in reported if size), None)
    entries = candidates(finding.knobs, job.baselines, job.machine, kv_cache_bytes)
    final = await runner.run(hold_final(entries, context.busy, job.repeats, context.ladder.metric))
    return judge(final, Objective.over(job.slo, [one.busy for one in final.measured]))
