"""A benchmark from start to end: check the server, note the conditions, run the plan, gather the points.

What the command line calls, and what tune calls with plans of its own. Knows neither options nor files.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp

from dragoman_bench.bench import conditions
from dragoman_bench.bench.client import open_session
from dragoman_bench.bench.gpu import Gpus, find_gpus
from dragoman_bench.bench.plan import Plan
from dragoman_bench.bench.preflight import check_server, check_url, is_local, resolve
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Conditions, Measurement, Point, Results
from dragoman_bench.bench.runner import Runner
from dragoman_bench.bench.sampling import Sampler
from dragoman_bench.bench.spread import spreads
from dragoman_bench.bench.stats import ServerStats, find_stats
from dragoman_bench.bench.stopping import Watchman


@dataclass(frozen=True, slots=True)
class Bench:
    """A server that answered its checks, ready to be measured."""

    plan: Plan
    sampler: Sampler
    conditions: Conditions

    async def run(self, observer: Observer, interrupted: asyncio.Event) -> Results:
        """All points; those measured so far, marked partial, where `interrupted` is set before the end."""
        runner = Runner(self.plan, self.sampler, Watchman(interrupted, observer))
        measured: dict[int, list[Measurement]] = {}
        async for number, measurement in runner.measurements():
            measured.setdefault(number, []).append(measurement)
        points = [Point(self.plan.loads[n], tuple(repeats), spreads(repeats)) for n, repeats in measured.items()]
        return Results(self.conditions, tuple(points), partial=interrupted.is_set())


@asynccontextmanager
async def prepared(plan: Plan) -> AsyncGenerator[Bench]:
    """A checked `Bench`. Raises ConfigError where the server is not there or cannot do what the plan asks."""
    plan = replace(plan, url=check_url(plan.url))
    async with open_session() as session:
        plan = replace(plan, target=await resolve(session, plan.url, plan.target))
        await check_server(session, plan.url, plan.target, plan.workload.samples(), plan.timeout_s)
        stats = await _stats(session, plan)
        look = is_local(plan.url) if plan.gpus is None else bool(plan.gpus)
        gpus = find_gpus() if look else None
        sampler = Sampler(stats, gpus, plan.gpus, plan.sample_every_s)
        yield Bench(plan, sampler, await _conditions(plan, stats, gpus))


async def benchmark(plan: Plan, observer: Observer, interrupted: asyncio.Event) -> Results:
    """Prepares and runs. Raises ConfigError before anything is measured."""
    async with prepared(plan) as bench:
        return await bench.run(observer, interrupted)


async def _stats(session: aiohttp.ClientSession, plan: Plan) -> ServerStats | None:
    if plan.stats is None:
        return None
    return await find_stats(session, plan.url, None if plan.stats == "auto" else plan.stats)


async def _conditions(plan: Plan, stats: ServerStats | None, gpus: Gpus | None) -> Conditions:
    server = await stats.settings() if stats else {}
    return Conditions(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=conditions.machine(gpus.describe() if gpus else ()),
        server_is_local=is_local(plan.url),
        python=platform.python_version(),
        packages=conditions.packages(),
        git_commit=conditions.git_commit(),
        url=plan.url,
        target=plan.target.kind,
        model=plan.target.model or _text(server.get("model")),
        server=server,
        workload=plan.workload.description,
        loads=plan.loads,
        slo=plan.slo.text if plan.slo else None,
        seed=plan.seed,
        options=_options(plan),
    )


def _options(plan: Plan) -> dict[str, Any]:
    """What else was chosen; never the key."""
    named = ("requests", "duration_s", "repeats", "timeout_s", "processes", "connections", "sample_every_s")
    chosen: dict[str, Any] = {name: getattr(plan, name) for name in named}
    chosen |= {"warmup_requests": plan.warmup.requests, "warmup_s": plan.warmup.duration_s}
    chosen |= {"saturation_after_s": plan.saturation_after_s, "stream": plan.target.stream}
    if plan.target.kind == "dragoman" and plan.target.forced is False:
        chosen["forced_lengths"] = False  # those that the workload has, if it has any
    if plan.target.kind.startswith("openai"):
        sampling = plan.target.sampling
        chosen |= {"system_prompt": plan.target.system, "user_prompt": plan.target.user}
        chosen |= {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
    return chosen


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
