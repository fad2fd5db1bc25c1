"""What claims are judged on: one number a repeat, of a leg at a load, and how it spreads.

Knows results and metrics; what a number proves is `rules`'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dragoman_bench.bench.results import Measurement, RequestRecord, Results, Spread, members
from dragoman_bench.bench.summary import spread_of

QUARTER_FEWEST = 20  # requests of a repeat; of fewer, a quarter's median says nothing


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of one measurement; None where it has none. `scale` and `unit` are for people."""

    name: str
    read: Callable[[Measurement], float | None]
    unit: str
    scale: float = 1.0

    def told(self, value: float) -> str:
        return f"{plain(value * self.scale)}{self.unit}"

    def told_spread(self, spread: Spread) -> str:
        """Median and range."""
        if spread.repeats == 1:
            return self.told(spread.median)
        return f"{self.told(spread.median)} ({plain(spread.low * self.scale)}..{plain(spread.high * self.scale)})"


def plain(value: float) -> str:
    """Three significant digits, without exponents."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(frozen=True, slots=True)
class At:
    """A place to look: a leg at so many clients."""

    leg: str
    clients: int

    def __str__(self) -> str:
        return f"{self.leg} at {self.clients} client{'s' if self.clients != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All results of a journey, by leg name."""

    results: Mapping[str, Results]

    def repeats(self, at: At) -> tuple[Measurement, ...]:
        """Empty where it was not measured."""
        points = self.results[at.leg].points if at.leg in self.results else ()
        return next((point.repeats for point in points if point.load.clients == at.clients), ())

    def values(self, at: At, metric: Metric) -> list[float]:
        """One a repeat; empty unless every repeat has one."""
        found = [metric.read(repeat) for repeat in self.repeats(at)]
        present = [value for value in found if value is not None]
        return present if len(present) == len(found) else []

    def spread(self, at: At, metric: Metric) -> Spread | None:
        values = self.values(at, metric)
        return spread_of(values) if values else None

    def fewest_answers(self, at: At) -> int:
        """Within a measurement, of all repeats."""
        return min((round(repeat.summary.rps * repeat.window_s) for repeat in self.repeats(at)), default=0)

    def told(self, at: At, metric: Metric) -> str | None:
        """The number for people; None where there is none."""
        spread = self.spread(at, metric)
        return metric.told_spread(spread) if spread else None

    def flag(self, leg: str, name: str) -> object:
        """What the leg's server was told on its command line; None where it was not told, or not measured."""
        journey = members(self.results[leg].conditions.options.get("journey")) if leg in self.results else {}
        return members(members(journey.get("fingerprint")).get("flags")).get(name)


def ms_per_token(measurement: Measurement) -> float | None:
    """Seconds in the system for each output token, over all completed requests."""
    done = [record for record in measurement.records if record.completed and record.output_tokens]
    tokens = sum(record.output_tokens or 0 for record in done)
    return sum(record.e2e_s for record in done) / tokens if tokens else None


def _quarter_p50_s(measurement: Measurement, longest: bool) -> float | None:
    done = sorted((r for r in measurement.records if r.completed), key=lambda record: record.source_tokens)
    if len(done) < QUARTER_FEWEST:
        return None
    quarter: Sequence[RequestRecord] = done[-(len(done) // 4) :] if longest else done[: len(done) // 4]
    return median(record.e2e_s for record in quarter)


def short_p50_s(measurement: Measurement) -> float | None:
    """Median latency of the quarter of requests with the shortest texts."""
    return _quarter_p50_s(measurement, longest=False)


def short_to_long(measurement: Measurement) -> float | None:
    """That median over the same of the quarter with the longest texts: near 1, everybody waits for the longest."""
    short, long = _quarter_p50_s(measurement, longest=False), _quarter_p50_s(measurement, longest=True)
    return short / long if short is not None and long else None


def _p99_s(measurement: Measurement) -> float | None:
    return measurement.summary.e2e.p99_s if measurement.summary.e2e else None


def _p50_s(measurement: Measurement) -> float | None:
    return measurement.summary.e2e.p50_s if measurement.summary.e2e else None


def _gpu_memory(measurement: Measurement) -> float | None:
    return max((sample.memory_mib for sample in measurement.gpu), default=None)


RPS = Metric("requests a second", lambda m: m.summary.rps, " req/s")
TOKENS_S = Metric("output tokens a second", lambda m: m.summary.output_tokens_s, " tok/s")
P50 = Metric("median latency", _p50_s, " ms", 1000)
P99 = Metric("99th percentile of latency", _p99_s, " ms", 1000)
TOKEN_TIME = Metric("time in the system for each output token", ms_per_token, " ms", 1000)
SHORT_P50 = Metric("median latency of the shortest quarter", short_p50_s, " ms", 1000)
SHORT_TO_LONG = Metric("latency of short texts over that of long ones", short_to_long, "")
BUSY_SHARE = Metric("engine busy", lambda m: m.summary.engine_busy_share, " %", 100)
GPU_MEAN = Metric("GPU utilisation", lambda m: m.summary.gpu_mean_percent, " %")
GPU_IDLE = Metric("GPU samples under 10 %", lambda m: m.summary.gpu_share_below_10, " %", 100)
PREEMPTIONS = Metric("preemptions", lambda m: m.summary.preemptions, "")
KV_PEAK = Metric("peak KV cache usage", lambda m: m.summary.peak_kv_cache_usage, " %", 100)
GPU_MEMORY = Metric("GPU memory", _gpu_memory, " GiB", 1 / 1024)
