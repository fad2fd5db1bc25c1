"""A whole tune: the ladder, the knobs, the memory check, the final, the recommendation; whatever part of it time allows.

What was reached is told, also where an interrupt or a time limit ended it: the best found so far is an answer. Knows the
order; how a search decides is `ladder`'s and `knobs`', how a trial is made `trial`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dragoman_bench.bench.results import Machine, installed_packages, whole
from dragoman_bench.bench.summary import Slo
from dragoman_bench.tune.contenders import BASELINES, contenders, sharing_of
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.estimate import Estimate, Work
from dragoman_bench.tune.extras import Extra
from dragoman_bench.tune.final import Match, hold
from dragoman_bench.tune.incumbent import Case
from dragoman_bench.tune.knobs import measured_lengths, search
from dragoman_bench.tune.ladder import caps, climb
from dragoman_bench.tune.outcome import Final, Finding, Ladder, Recommendation, Tuning
from dragoman_bench.tune.points import Knobs, Level, Place, Trial
from dragoman_bench.tune.proof import prove
from dragoman_bench.tune.recommend import FINALIST, Grounds, judge, recommend
from dragoman_bench.tune.scale import MOST_REPEATS, Scale
from dragoman_bench.tune.trial import Driver
from dragoman_bench.tune.workshop import BY_HAND, Workshop


@dataclass(frozen=True, slots=True)
class Job:
    """What a tune is for, and how far it goes. `repeats` of a level at most, and as many rounds of the final; without
    baselines there is no final."""

    demand: Demand
    place: Place
    machine: Machine
    slo: Slo | None = None
    also: tuple[Extra, ...] = ()
    baselines: tuple[str, ...] = BASELINES
    repeats: int = MOST_REPEATS
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # for the record

    @property
    def busy(self) -> Level:
        return Level(self.demand.levels.busy)

    @property
    def low(self) -> Level | None:
        levels = self.demand.levels
        return Level(levels.low) if levels.low < levels.busy else None

    @property
    def work(self) -> tuple[Work, ...]:
        """What it will take, on the long side: a search decides as it goes."""
        repeats, fighters = self.repeats, 1 + len(self.baselines) if self.baselines else 0
        lows = fighters if self.low else 0
        return (
            Work("ladder", 1, len(caps(self.demand.levels.busy)) + 2 * (repeats - 1)),
            Work("slots", 1, repeats + 1),
            Work("batched_tokens", 1, repeats + 1),
            Work("optional", len(self.also), repeats * len(self.also)),
            Work("memory", 1, 1),
            Work("final", fighters, repeats * fighters + lows),
            Work("recommended", *((1, 1 + repeats) if self.baselines else (0, 0))),
        )


def estimated(job: Job, measurement_s: float) -> Estimate:
    """Before the first start."""
    return Estimate.of(measurement_s, job.work)


async def tune(shop: Workshop, job: Job) -> Tuning:
    """The outcome, partial where it was stopped; where the ladder has no knee nothing was measured, and its trials say why.
    Raises ConfigError where results cannot be written."""
    began_s, started_at, estimate_s = shop.clock(), _now(), shop.estimate.left_s
    async with Driver(shop) as driver:
        ladder, trial = await _climbed(driver, job)
        finding = None if _unknown_above(ladder, trial) else await _searched(driver, job, ladder, trial)
    final = await _final(shop, job, ladder, finding, tuple(driver.trials.values())) if finding else None
    recommendation = await _recommended(driver, job, ladder, trial, finding, final) if finding else None
    stopped = (BY_HAND if shop.meter.interrupted.is_set() else driver.stopped) or _cut_short(job, final)
    return Tuning(
        started_at=started_at,
        model=shop.subject.name,
        machine=job.machine,
        place=job.place,
        packages=installed_packages(),
        demand=job.demand.summary(),
        slo=job.slo.text if job.slo else None,
        ladder=ladder,
        trials=tuple(driver.trials.values()),
        finding=finding,
        final=final,
        recommendation=recommendation,
        estimate_s=round(estimate_s, 1),
        took_s=round(shop.clock() - began_s, 1),
        partial=bool(stopped),
        partial_because=stopped,
        options=dict(job.options),
    )


async def _climbed(driver: Driver, job: Job) -> tuple[Ladder, Trial]:
    driver.shop.begin("ladder", "The ladder: how many at once")
    ladder, trial = await driver.drive(climb(job.demand, job.place, job.slo, job.repeats))
    if ladder.knee is not None:
        driver.shop.display.note(f"The ladder ended ({ladder.ended}). The knee is {ladder.knee}: {ladder.because}.")
    return ladder, trial


def _unknown_above(ladder: Ladder, trial: Trial) -> bool:
    """Whether nothing says how many at once are best: nothing was measured, or the climb was stopped while it still went
    up. Then the ladder's own engine, with slots for all, is the best answer there is."""
    if ladder.knee is None:
        return True
    highest = max(rung.cap for rung in ladder.rungs if rung.seen)
    return trial.outcome in ("interrupted", "skipped") and ladder.knee == highest < ladder.clients


async def _searched(driver: Driver, job: Job, ladder: Ladder, trial: Trial) -> Finding:
    driver.shop.begin("slots", "The knobs")
    finding = await driver.drive(search(job.demand, job.place, job.slo, ladder, trial, job.also, job.repeats))
    driver.shop.display.note(f"The search found {finding.knobs.label}.")
    return finding


async def _final(shop: Workshop, job: Job, ladder: Ladder, finding: Finding, trials: tuple[Trial, ...]) -> Final | None:
    if not job.baselines or shop.meter.interrupted.is_set():
        return None
    shop.begin("final", "The final: what was found against what nobody tuned")
    kv_cache_bytes = _kv_cache_bytes(finding.knobs, trials)
    fighters = contenders(finding.knobs, job.baselines, job.place, job.machine, kv_cache_bytes)
    sharing = sharing_of(len(fighters), job.place, finding.memory, trials)
    match = Match(fighters, job.busy, job.low, job.repeats, ladder.metric, sharing)
    return judge(await hold(shop, match), job.slo)


async def _recommended(
    driver: Driver, job: Job, ladder: Ladder, trial: Trial, finding: Finding, final: Final | None
) -> Recommendation:
    """A simpler setup than the finalist's is shown by itself before it is told."""
    demand = measured_lengths(job.demand, trial)
    wanted = recommend(finding, final, Grounds(demand, job.place, job.slo, trial))
    if final is None or wanted.contender == FINALIST or driver.shop.meter.interrupted.is_set():
        return wanted
    driver.shop.begin("recommended", "What is recommended, by itself")
    case = Case(demand, job.place, Scale(job.slo, final.metric), ladder, trial, job.repeats)
    async with driver:
        return await driver.drive(prove(case, wanted))


def _kv_cache_bytes(knobs: Knobs, trials: tuple[Trial, ...]) -> int | None:
    """The finalist's; where it leaves that to the server, what the ladder's server took."""
    told = (whole(trial.engine.get("kv_cache_memory_bytes")) for trial in trials)
    return knobs.kv_cache_memory_bytes or next((size for size in told if size), None)


def _cut_short(job: Job, final: Final | None) -> str:
    """Why the final is not whole, where it is not; empty where it is, or where none was wanted."""
    if final is None or final.rounds == job.repeats:
        return ""
    why = next((one.reason for one in final.standings if one.outcome in ("skipped", "interrupted")), "")
    return f"the final ended after {final.rounds} of {job.repeats} rounds" + (f": {why}" if why else "")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
