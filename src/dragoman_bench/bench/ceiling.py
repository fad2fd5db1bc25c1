"""The client's own maximum: the most requests a second that this load generator sends to a server that does nothing.

Point it at a server whose answers cost nothing (dragoman's `fake` pipeline). Clients double until the rate grows by
less than 5 % in two steps. A step lasts as long as the plan says, else three seconds. A measurement of another server
that comes near this number measures the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.errors import DragomanError
from dragoman_bench.bench.benchmark import prepared
from dragoman_bench.bench.plan import Plan, Warmup
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.records import Load
from dragoman_bench.bench.runner import Runner
from dragoman_bench.bench.sampling import Sampler
from dragoman_bench.bench.stopping import Watchman

GROWTH = 1.05
BUSY_SHARE = 0.8  # of one core
MOST_CLIENTS = 1024
STEP_S = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    clients: int
    rps: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class ClientMaximum:
    """`rps` is the best step's. `lower_bound`: no step kept the client busy, so that the server was the limit."""

    rps: float
    lower_bound: bool
    clients: int
    processes: int
    cpu_share: float
    steps: tuple[Step, ...]


async def find_client_maximum(plan: Plan, observer: Observer, interrupted: asyncio.Event) -> ClientMaximum:
    """Raises ConfigError as a benchmark does, DragomanError where a step had failures: its rate would mean nothing."""
    steps: list[Step] = []
    clients = plan.processes
    async with prepared(plan) as bench:
        while clients <= MOST_CLIENTS and not interrupted.is_set():
            steps.append(await _step(bench.plan, clients, observer, interrupted))
            if not still_growing([step.rps for step in steps]):
                break
            clients *= 2
    best = max(steps, key=lambda step: step.rps)
    idle = max(step.cpu_share for step in steps) < BUSY_SHARE
    return ClientMaximum(best.rps, idle, best.clients, plan.processes, best.cpu_share, tuple(steps))


def still_growing(rates: Sequence[float]) -> bool:
    """Until two steps in a row bring no more than 5 % over the best before them: one may be a hiccup."""
    if len(rates) < 3:
        return True
    return max(rates[-2:]) > GROWTH * max(rates[:-2])


async def _step(plan: Plan, clients: int, observer: Observer, interrupted: asyncio.Event) -> Step:
    load = Load("closed", clients=clients)
    step_s = plan.duration_s or STEP_S
    at_level = replace(
        plan, loads=(load,), requests=None, duration_s=step_s, repeats=1, warmup=Warmup(requests=clients), slo=None
    )
    runner = Runner(at_level, Sampler(None, None), Watchman(interrupted, observer))
    measurement = await runner.measure(0, 0)
    if measurement is None or measurement.summary.errors:
        errors = measurement.summary.errors if measurement else "interrupted"
        raise DragomanError(f"the client's maximum could not be measured at {load.label}: {errors}")
    return Step(clients, round(measurement.summary.rps, 2), measurement.client.cpu_share)
