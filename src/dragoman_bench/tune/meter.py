"""Measures a running server at a level: one bench measurement, and its numbers as a `Seen`.

Which texts are sent is decided by the level and the repeat alone: two servers measured at the same level and repeat get the
same texts, and one server never gets a text twice where texts are made up, so that no cache answers for the engine. Knows
neither how servers start nor what is to be measured next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from dragoman_bench.bench.benchmark import WARMUP_VARIATION, Bench, Plan, Runner, Warmup
from dragoman_bench.bench.load import Watchman
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Distribution, Load, Measurement, Point, Results
from dragoman_bench.bench.summary import Observed, Slo, spreads, summarise
from dragoman_bench.bench.targets import TargetOptions
from dragoman_bench.bench.workload import Workload
from dragoman_bench.journey import steps as journey
from dragoman_bench.journey.measure import texts_for
from dragoman_bench.journey.steps import OVERHEAD_S, Pace
from dragoman_bench.tune.points import Draw, Level, Seen

REPEATS_APART = 20  # variations between two levels: more repeats than anybody measures


@dataclass(frozen=True, slots=True)
class Meter:
    """What measuring needs beside a server and a level. `path`: of the model; a server may tell it, and results do not."""

    workloads: Mapping[Draw, Workload]
    pace: Pace
    slo: Slo | None
    observer: Observer
    interrupted: asyncio.Event
    seed: int = 0
    path: str | None = None

    @property
    def stream(self) -> bool:
        """Answers are streamed only where the SLO speaks of tokens."""
        return self.slo is not None and self.slo.needs_stream

    @property
    def measurement_s(self) -> float:
        """See `measurement_s`."""
        return measurement_s(self.pace)

    def plan(self, url: str, target: TargetOptions, level: Level) -> Plan:
        """One measurement at the level. The cap is the connections': waiting for one counts as latency."""
        return Plan(
            url=url,
            target=replace(target, stream=self.stream),
            workload=self.workloads[level.draw],
            loads=(load_of(level),),
            duration_s=self.pace.duration_s,
            warmup=Warmup(duration_s=self.pace.warmup_s),
            timeout_s=self.pace.timeout_s,
            slo=self.slo,
            seed=self.seed,
            texts=texts_for(journey.Level(level.clients), self.pace),
            connections=level.cap,
        )

    async def measure(self, bench: Bench, level: Level, repeat: int) -> Measurement | None:
        """None where it was interrupted before its end. `bench` was prepared with any plan for the same server."""
        if self.interrupted.is_set():
            return None
        plan = self.plan(bench.plan.url, bench.plan.target, level)
        runner = Runner(plan, bench.sampler, Watchman(self.interrupted, self.observer))
        measurement = await runner.measure(0, variation_of(level, repeat))
        if measurement is None or measurement.stopped == "interrupted":
            return None
        return replace(measurement, repeat=repeat)

    def results(self, bench: Bench, level: Level, measurement: Measurement, notes: Mapping[str, Any]) -> Results:
        """One measurement as a results file has it; `notes` go into the conditions under `tune`."""
        point = Point(load_of(level), (measurement,), spreads((measurement,)))
        told = bench.conditions
        options = told.options | {"connections": level.cap, "label": notes.get("label"), "tune": dict(notes)}
        server = {name: value for name, value in told.server.items() if value != self.path}
        workload = self.workloads[level.draw].description
        conditions = replace(
            told,
            started_at=measurement.started_at,
            server=server,
            workload=workload,
            loads=(point.load,),
            options=options,
        )
        return Results(conditions, (point,))

    def judged_again(self, measurement: Measurement) -> Measurement:
        """A stored measurement under this meter's SLO: its records are kept, so a changed limit needs no new ones."""
        observed = Observed(
            measurement.records,
            measurement.window_s,
            measurement.stopped,
            measurement.itl_histogram,
            measurement.server,
            measurement.gpu,
        )
        return replace(measurement, summary=summarise(observed, self.slo))


def measurement_s(pace: Pace) -> float:
    """What one measurement is expected to take."""
    return pace.warmup_s + pace.duration_s + OVERHEAD_S


def load_of(level: Level) -> Load:
    return Load("closed", clients=level.clients)


def variation_of(level: Level, repeat: int) -> int:
    """A number of its own for each level and repeat, the same on every server and below the warm-ups'."""
    places = WARMUP_VARIATION // REPEATS_APART - 1
    return crc32(level.label.encode()) % places * REPEATS_APART + repeat


def seen_of(measurement: Measurement, level: Level, file: str = "") -> Seen:
    """The numbers of a measurement at the level."""
    summary = measurement.summary
    errors = summary.errors
    return Seen(
        level=level,
        repeat=measurement.repeat,
        window_s=measurement.window_s,
        requests=summary.requests,
        completed=summary.completed,
        failed=sum(count for kind, count in errors.items() if kind != "unfinished"),
        rps=summary.rps,
        output_tokens_s=summary.output_tokens_s,
        goodput_rps=summary.goodput_rps,
        attained_share=summary.attained_share,
        slo_met=summary.slo_met,
        verdicts=summary.verdicts,
        e2e_p50_s=_at(summary.e2e, "p50_s"),
        e2e_p95_s=_at(summary.e2e, "p95_s"),
        e2e_p99_s=_at(summary.e2e, "p99_s"),
        ttft_p95_s=_at(summary.ttft, "p95_s"),
        itl_p95_s=_at(summary.itl, "p95_s"),
        decode_s_per_token=summary.decode_s_per_token,
        mean_running=summary.mean_running,
        mean_waiting=summary.mean_waiting,
        peak_waiting=summary.peak_waiting,
        peak_kv_cache_usage=summary.peak_kv_cache_usage,
        preemptions=summary.preemptions,
        gpu_mean_percent=summary.gpu_mean_percent,
        gpu_memory_mib=max((sample.memory_mib for sample in measurement.gpu), default=None),
        file=file,
    )


def _at(distribution: Distribution | None, percentile: str) -> float | None:
    return None if distribution is None else getattr(distribution, percentile)
