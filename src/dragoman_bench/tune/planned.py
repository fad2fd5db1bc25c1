"""What a tune is going to do, told before it begins: the demand, each part with its cost, the whole time.

Knows what a search may ask for, not what it will.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman_bench.bench.tables import about as told
from dragoman_bench.tune.estimate import Estimate, Work
from dragoman_bench.tune.ladder import base_knobs, caps, check_level
from dragoman_bench.tune.points import Phase
from dragoman_bench.tune.recommend import FINALIST
from dragoman_bench.tune.search import Job


def planned(job: Job, estimate: Estimate) -> Iterator[str]:
    """Lines. `estimate` as it is before the first start."""
    levels = job.demand.levels
    at_once = f"{levels.low} texts at once usually, {levels.busy} when busy, {levels.peak} at most"
    yield f"Demand: {job.demand.description}; {at_once}"
    yield f"SLO: {job.slo.text}" if job.slo else "No SLO is stated: requests a second decide"
    for phase, work in estimate.left.items():
        if work.starts or work.measurements:
            yield f"{phase:16} {_what(job, phase)} ({_cost(work)}, {told(estimate.work_s(work))})"
    yield f"In all {told(estimate.left_s)}, if servers start as they usually do, and less where the search can skip a trial."


def _what(job: Job, phase: Phase) -> str:
    climbed = ", ".join(map(str, caps(job.demand.levels.busy)))
    whats: dict[Phase, str] = {
        "ladder": f"at most {climbed} requests at once, in front of {base_knobs(job.demand, job.place).label}",
        "slots": "the ladder's knee as max_num_seqs, with the memory that it needs",
        "batched_tokens": "max_num_batched_tokens, where steps can hold more or less",
        "optional": ", ".join(job.also),
        "memory": f"the KV cache's size under {check_level(job.demand).label}, where no trial has shown it",
        "recommended": "where a simpler setup is: that by itself, with the memory that the demand needs",
        "final": f"{', '.join((FINALIST, *job.baselines))}: {job.repeats} round{'s' if job.repeats != 1 else ''}",
    }
    return whats[phase]


def _cost(work: Work) -> str:
    starts = f"{work.starts} start{'s' if work.starts != 1 else ''}"
    return f"{starts}, {work.measurements} measurement{'s' if work.measurements != 1 else ''}"
