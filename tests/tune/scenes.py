"""Machines, demands and SLOs that searches are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.demand import Demand
from dragoman_bench.tune.extras import Extra
from dragoman_bench.tune.outcome import Finding, Ladder
from dragoman_bench.tune.points import Knobs, Level
from dragoman_bench.tune.scale import attains
from tests.tune.lab import Fault, Lab, demand, sound, whole_search
from tests.tune.simulation import CPU, GPU, Model

QUICK_CPU = replace(CPU, base_s=0.006, decode_s=0.0006, prompt_s=0.0001)


@dataclass(frozen=True)
class Scene:
    """A machine, a demand and an SLO."""

    model: Model
    demand: Demand
    slo: str | None


SCENES = {
    "a GPU that gains to the top": Scene(GPU, demand((2, 25, 40)), "p95_s=8,itl_ms_p95=160"),
    "an SLO that nobody attains": Scene(GPU, demand(), "e2e_s=2"),
    "no SLO": Scene(GPU, demand(), None),
    "more at once is worse": Scene(replace(GPU, crowd=12, crowd_s=0.016), demand(), "p95_s=8"),
    "more at once breaks the SLO": Scene(replace(GPU, crowd=10, crowd_s=0.005), demand(), "itl_ms_p95=40"),
    "long prompts delay tokens": Scene(
        replace(QUICK_CPU, decode_s=0.0002, prompt_s=0.0002), demand(lengths=(50, 800)), "itl_ms_p99=90"
    ),
    "a few very long texts": Scene(GPU, demand(long=(6, 1500)), "e2e_s=20"),
    "few clients": Scene(GPU, demand((2, 12, 16)), "p95_s=4"),
    "a CPU": Scene(CPU, demand(), "e2e_s=6"),
    "a quick CPU": Scene(QUICK_CPU, demand((4, 32, 40)), None),
}


def searched(
    scene: Scene, *, noise: float = 0.0, seed: int = 0, fault: Fault = sound, also: Sequence[Extra] = ()
) -> tuple[Lab, Ladder, Finding]:
    slo = parse_slo(scene.slo) if scene.slo else None
    lab = Lab(scene.model, scene.demand, slo, noise, seed, fault)
    ladder, finding = lab.drive(whole_search(scene.demand, scene.model.place, slo, also))
    return lab, ladder, finding


def truth(lab: Lab, knobs: Knobs) -> tuple[bool, float]:
    """Whether the SLO is attained, and the rate that then decides, without noise."""
    quiet, level = replace(lab, noise=0.0), Level(lab.demand.levels.busy)
    seen = tuple(quiet.measure(knobs, level, repeat) for repeat in range(3))
    if lab.slo and attains(seen):
        return True, sum(one.goodput_rps or 0.0 for one in seen) / 3
    return False, sum(one.rps for one in seen) / 3
