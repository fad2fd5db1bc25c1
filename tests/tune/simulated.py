"""A simulated machine for tests of searches: results come from a function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, cast

from rich.console import Console

from dragoman.gpu import Gpu
from dragoman_bench.bench.client import TargetOptions
from dragoman_bench.bench.measurement import Machine
from dragoman_bench.bench.progress import ProgressLines
from dragoman_bench.bench.results import Verdict
from dragoman_bench.bench.servers import ServerFault
from dragoman_bench.bench.summary import Slo, parse_slo
from dragoman_bench.bench.workload import Item, RecordedWorkload
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.demand import Demand, PromptShape
from dragoman_bench.tune.outcome import (
    Concurrency,
    Knobs,
    KvCache,
    LevelResult,
    LoadLevel,
    Measure,
    ServerFacts,
    Setup,
    Trial,
)
from dragoman_bench.tune.run import TuneJob
from dragoman_bench.tune.trial import Servers, TrialRunner, TrialServer

CPU = Machine("Linux", "x86_64", "a CPU", 2, 32.0)


def machine_with(gpu: str, gib: int) -> Machine:
    return replace(CPU, gpus=(Gpu(0, gpu, gib * 1024.0, "570"),))


BYTES_PER_TOKEN = 8192
START_S = 30.0
PACE = Pace(duration_s=10.0, warmup_s=1.0)
SUBJECT = Subject(
    path="/models/small",
    name="small",
    dragoman={"model": "/models/small", "max-model-len": 1024},
    vllm={"load-format": "auto"},
    limits={"max-model-len": 1024},
    asked=TargetOptions("openai-completions", user="<{source}>{text}"),
    lengths={"variable": (10, 200)},
)

Performance = Callable[[Knobs, LoadLevel], tuple[float, float]]
"""Requests a second and the 95th percentile of latency in seconds, of an engine at a level."""
Fault = Callable[[Knobs, LoadLevel | None], str]
"""Why a server does not start (no level) or crashes at a level; empty where it does not."""


def no_fault(knobs: Knobs, level: LoadLevel | None) -> str:
    return ""


def at_once(knobs: Knobs, level: LoadLevel) -> int:
    """Requests that the engine works on."""
    return min(level.clients, level.cap or level.clients, knobs.max_num_seqs or 128)


def saturating(knobs: Knobs, level: LoadLevel) -> tuple[float, float]:
    """More at once helps, less and less; latency by Little's law."""
    rps = 20.0 * at_once(knobs, level) / (at_once(knobs, level) + 6)
    return rps, 1.3 * level.clients / rps


def result(
    level: LoadLevel, rps: float, p95_s: float, slo: Slo | None = None, repeat: int = 0, **more: Any
) -> LevelResult:
    """Half of the requests are within the SLO where it is missed."""
    limit_s = slo.limits[0].limit_s if slo else 0.0
    met = p95_s <= limit_s
    return LevelResult(
        level=level,
        repeat=repeat,
        window_s=10.0,
        requests=round(rps * 10),
        completed=round(rps * 10),
        failed=0,
        rps=rps,
        output_tokens_s=rps * 60,
        goodput_rps=None if slo is None else rps if met else rps / 2,
        slo_met=met if slo else None,
        verdicts=(Verdict(slo.limits[0].label, p95_s, met),) if slo else (),
        e2e_p95_s=p95_s,
        **more,
    )


def demand(busy: int = 16, peak: int = 16) -> Demand:
    random = Random(5)
    items = tuple(Item("text", "en", "ja", random.randint(10, 100)) for _ in range(200))
    outputs = tuple(item.source_tokens for item in items)
    texts = RecordedWorkload("texts", items)
    return Demand(
        "a simulated demand",
        items,
        outputs,
        Concurrency(busy, peak),
        PromptShape(8),
        {"mix": texts, "long": texts},
    )


@dataclass(frozen=True, slots=True)
class SimulatedServers(Servers):
    """Servers whose measurements come from `performance`."""

    performance: Performance = saturating
    fault: Fault = no_fault
    cache_tokens: int = 65_536
    segments: float = 1.0  # sequences that a text is, on average
    started: list[str] = field(default_factory=list[str])
    kept: dict[tuple[str, LoadLevel, int], tuple[LevelResult, ServerFacts]] = field(
        default_factory=dict[tuple[str, LoadLevel, int], tuple[LevelResult, ServerFacts]]
    )

    @asynccontextmanager
    async def running(self, name: str, setup: Setup) -> AsyncGenerator[TrialServer]:
        self.started.append(name)
        tokens = self._cache(setup.knobs)
        if fault := self.fault(setup.knobs, None):
            raise ServerFault(f"{name} ended with exit code 1\n    {fault}")
        engine = {"max_model_len": 256, **setup.knobs.settings}
        cache = KvCache(tokens, BYTES_PER_TOKEN)
        facts = ServerFacts(start_s=START_S, kv_cache=cache, engine=engine, prompt_overhead=8)
        yield TrialServer(cast(Any, None), cast(Any, None), facts)

    def stored(self, wanted: Measure) -> tuple[LevelResult, ServerFacts] | None:
        return self.kept.get((wanted.trial, wanted.level, wanted.repeat))

    async def measure(self, wanted: Measure, server: TrialServer) -> LevelResult | None:
        if self.interrupted.is_set():
            return None
        knobs, level = wanted.setup.knobs, wanted.level
        if fault := self.fault(knobs, level):
            raise ServerFault(f"{wanted.trial} ended with exit code 1\n    {fault}")
        rps, p95_s = self.performance(knobs, level)
        needed = at_once(knobs, level) * (200 if level.draw == "long" else 130)
        usage = needed / self._cache(knobs)
        measured = result(
            level, rps, p95_s, self.slo, wanted.repeat,
            mean_running=self.segments * at_once(knobs, level), peak_kv_cache_usage=min(1.0, usage),
            preemptions=max(0, round(usage * 10) - 10),
        )  # fmt: skip
        self.kept[wanted.trial, level, wanted.repeat] = measured, server.facts
        return measured

    def _cache(self, knobs: Knobs) -> int:
        size = knobs.kv_cache_memory_bytes
        return self.cache_tokens if size is None else size // BYTES_PER_TOKEN


def job(slo: str | None = "p95_s=4", **more: Any) -> TuneJob:
    more.setdefault("baselines", ())
    return TuneJob(more.pop("demand", None) or demand(), CPU, parse_slo(slo) if slo else None, **more)


def servers(folder: Path, wanted: TuneJob, performance: Performance = saturating, **more: Any) -> SimulatedServers:
    progress = ProgressLines(Console(file=StringIO()))
    return SimulatedServers(
        subject=SUBJECT,
        demand=wanted.demand,
        pace=PACE,
        slo=wanted.slo,
        folder=folder,
        conditions={},
        progress=progress,
        interrupted=asyncio.Event(),
        command=cast(Any, None),
        performance=performance,
        **more,
    )


async def run(made: SimulatedServers, search: Any) -> tuple[Any, dict[str, Trial]]:
    """A search to its end: what it returns, and the trials by name."""
    async with TrialRunner(made) as runner:
        found = await runner.run(search)
    return found, runner.trials
