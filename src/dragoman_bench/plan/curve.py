"""Throughput and latency of one server by load, read from what `dragoman bench`, `journey` and `tune` wrote.

Only closed-loop measurements count: their number of clients is the number of requests in flight. Between two measured loads
values are interpolated linearly; outside of them there are none, and a reader of this module must report that.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import (
    Distribution,
    Machine,
    Measurement,
    Point,
    RequestRecord,
    Results,
    members,
    read_results,
    whole,
)
from dragoman_bench.bench.summary import Limit, percentiles
from dragoman_bench.tune.outcome import LevelResult, Tuning, read_tuning

PERCENTS = (50, 95, 99)
"""Percentiles of the end-to-end latency that a plan knows."""
FAILED_SHARE = 0.01
"""A load at which more of the requests failed meets no SLO: percentiles are those of completed requests."""
Unit = Literal["output tokens", "source tokens"]


@dataclass(frozen=True, slots=True)
class TextLengths:
    """Tokens of texts: mean, and percentiles by percent."""

    mean: float
    percentiles: Mapping[int, float]

    @classmethod
    def of(cls, tokens: Sequence[float]) -> TextLengths:
        """`tokens` is not empty."""
        return cls(fmean(tokens), dict(zip(PERCENTS, percentiles(tokens, *PERCENTS), strict=True)))


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Medians over the repeats of one closed loop. Latencies are end to end, in seconds, by percent; infinite where more
    than `FAILED_SHARE` of the requests failed."""

    clients: float
    rps: float
    latencies_s: Mapping[int, float]

    def meets(self, limits: Sequence[Limit], factors: Mapping[int, float]) -> bool:
        """Whether every latency, times the factor of its percentile, is within its limit."""
        return all(self.latencies_s[p] * factors[p] <= limit.limit_s for p, limit in by_percent(limits))

    def between(self, other: MeasuredLoad, part: float) -> MeasuredLoad:
        """`part` of the way to `other`, 0 to 1."""

        def mixed(mine: float, theirs: float) -> float:
            return mine if part == 0 else theirs if part == 1 else mine + part * (theirs - mine)

        latencies_s = {p: mixed(self.latencies_s[p], other.latencies_s[p]) for p in PERCENTS}
        return MeasuredLoad(mixed(self.clients, other.clients), mixed(self.rps, other.rps), latencies_s)


def by_percent(limits: Sequence[Limit]) -> list[tuple[int, Limit]]:
    """The limits with their percentile, one of `PERCENTS`. Raises ConfigError on any other limit."""
    found: list[tuple[int, Limit]] = []
    for limit in limits:
        if limit.metric != "e2e" or limit.percentile not in PERCENTS:
            raise ConfigError(f"SLO {limit.label}: a plan knows p50_s, p95_s and p99_s, end to end", param="slo")
        found.append((int(limit.percentile), limit))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The measured loads of one file, by clients; of `replicas` servers behind one address."""

    name: str
    replicas: int
    gpus_per_replica: int
    hardware: str
    model: str
    workload: str
    unit: Unit
    lengths: TextLengths  # in `unit`
    characters_per_unit: float | None  # source characters for each token of `unit`; None: not recorded
    loads: tuple[MeasuredLoad, ...]

    @property
    def rising(self) -> tuple[MeasuredLoad, ...]:
        """The loads with a higher rate than every load of fewer clients: by rate as well as by clients."""
        found: list[MeasuredLoad] = []
        for load in self.loads:
            if not found or load.rps > found[-1].rps:
                found.append(load)
        return tuple(found)

    def at_clients(self, clients: float) -> MeasuredLoad | None:
        """Interpolated between the neighbours by clients; None outside of what was measured."""
        for load in self.loads:
            if load.clients == clients:
                return load
        for low, high in pairwise(self.loads):
            if low.clients < clients < high.clients:
                return low.between(high, (clients - low.clients) / (high.clients - low.clients))
        return None

    def at_rate(self, rps: float) -> MeasuredLoad | None:
        """Interpolated between the neighbours by rate. Below the lowest measured rate: the lowest load, whose latencies are
        then upper bounds. None above the highest rate."""
        rising = self.rising
        if rps <= rising[0].rps:
            return rising[0]
        for low, high in pairwise(rising):
            if rps <= high.rps:
                return low.between(high, (rps - low.rps) / (high.rps - low.rps))
        return None

    def highest_within(self, limits: Sequence[Limit], factors: Mapping[int, float]) -> MeasuredLoad | None:
        """The highest load that meets all limits: the last measured one before the first that does not, or the point between
        these two at which a latency reaches its limit. None where the lowest measured load does not meet them."""
        rising = self.rising
        best: MeasuredLoad | None = None
        for load in rising:
            if load.meets(limits, factors):
                best = load
                continue
            if best is not None:
                parts = [
                    (limit.limit_s / factors[p] - best.latencies_s[p]) / (load.latencies_s[p] - best.latencies_s[p])
                    for p, limit in by_percent(limits)
                    if load.latencies_s[p] * factors[p] > limit.limit_s
                ]
                best = best.between(load, min(parts))
            return best
        return best


def read_curve(text: str) -> Curve:
    """Of a file, or of `N=FILE`, where N is the number of replicas that were measured (else as the server reported it, else
    1). Raises ConfigError on a file that cannot be read or holds no closed loop."""
    stated, equals, path = text.partition("=")
    replicas = int(stated) if equals and stated.isdigit() and int(stated) else None
    file = Path(path if replicas is not None else text)
    curve = _of_tuning(file, read_tuning(file)) if _is_tuning(file) else _of_results(file, read_results(file))
    return curve if replicas is None else replace(curve, replicas=replicas)


def _is_tuning(file: Path) -> bool:
    """Whether it is a `tune.json`. A file that cannot be read is not: reading it as results reports why."""
    try:
        content = file.read_bytes()
        document = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
    except (OSError, EOFError, ValueError):
        return False
    return "demand" in members(document)


def _of_results(file: Path, results: Results) -> Curve:
    closed = [point for point in results.points if point.load.kind == "closed" and point.repeats]
    records = [record for point in closed for repeat in point.repeats for record in repeat.records if record.completed]
    if not records:
        raise ConfigError(f"{file} holds no closed-loop measurement: see dragoman bench --concurrency", param="result")
    outputs = [record.output_tokens for record in records if record.output_tokens is not None]
    unit: Unit = "output tokens" if len(outputs) == len(records) and sum(outputs) else "source tokens"
    tokens = outputs if unit == "output tokens" else [record.source_tokens for record in records]
    conditions, server = results.conditions, results.conditions.server
    return Curve(
        name=str(file),
        replicas=whole(server.get("replicas")) or 1,
        gpus_per_replica=_gpus_of(members(server.get("engine"))),
        hardware=_hardware(conditions.machine),
        model=str(conditions.model),
        workload=conditions.workload,
        unit=unit,
        lengths=TextLengths.of(tokens),
        characters_per_unit=sum(record.source_characters for record in records) / sum(tokens),
        loads=tuple(sorted(map(_load_of, closed), key=lambda load: load.clients)),
    )


def _load_of(point: Point) -> MeasuredLoad:
    latencies = [_latencies(repeat) for repeat in point.repeats]
    return MeasuredLoad(
        clients=float(point.load.clients or 1),
        rps=median(repeat.summary.rps for repeat in point.repeats),
        latencies_s={percent: median(one[percent] for one in latencies) for percent in PERCENTS},
    )


def _latencies(repeat: Measurement) -> dict[int, float]:
    found: Distribution | None = repeat.summary.e2e
    failed = sum(map(_failed, repeat.records))
    if found is None or failed > FAILED_SHARE * len(repeat.records):
        return dict.fromkeys(PERCENTS, inf)
    return {50: found.p50_s, 95: found.p95_s, 99: found.p99_s}


def _failed(record: RequestRecord) -> bool:
    return record.error not in (None, "unfinished")


def _of_tuning(file: Path, tuning: Tuning) -> Curve:
    """The measurements of the configuration that the tune recommends."""
    results: list[LevelResult] = []
    if tuning.recommendation is not None and tuning.final is not None:
        results += tuning.recommendation.results
        for entry in tuning.final.entries:
            if entry.candidate.name == tuning.recommendation.candidate and not results:
                results += [*entry.low, *entry.busy]
    results = [one for one in results if one.level.cap is None and one.level.draw == "mix"]
    outputs = [one.output_tokens_s / one.rps for one in results if one.output_tokens_s and one.rps]
    lengths = tuning.demand.output
    if not outputs or lengths is None:
        raise ConfigError(f"{file} has no measurement of what it recommends: the tune was stopped", param="result")
    by_clients: dict[int, list[LevelResult]] = {}
    for one in results:
        by_clients.setdefault(one.level.clients, []).append(one)
    return Curve(
        name=str(file),
        replicas=1,
        gpus_per_replica=tuning.recommendation.knobs.data_parallel_size or 1 if tuning.recommendation else 1,
        hardware=_hardware(tuning.machine),
        model=tuning.model,
        workload=tuning.demand.description,
        unit="output tokens",
        lengths=TextLengths(median(outputs), {50: lengths.p50, 95: lengths.p95, 99: lengths.p99}),
        characters_per_unit=None,
        loads=tuple(_tuned_load(clients, by_clients[clients]) for clients in sorted(by_clients)),
    )


def _tuned_load(clients: int, repeats: Sequence[LevelResult]) -> MeasuredLoad:
    def middle(percent: int) -> float:
        values = [getattr(one, f"e2e_p{percent}_s") for one in repeats]
        bad = [one.failed > FAILED_SHARE * one.requests for one in repeats]
        return median(inf if failed or value is None else value for value, failed in zip(values, bad, strict=True))

    return MeasuredLoad(float(clients), median(one.rps for one in repeats), {p: middle(p) for p in PERCENTS})


def _hardware(machine: Machine) -> str:
    return machine.gpus[0].name if machine.gpus else machine.cpu


def _gpus_of(engine: Mapping[str, Any]) -> int:
    return (whole(engine.get("tensor_parallel_size")) or 1) * (whole(engine.get("data_parallel_size")) or 1)
