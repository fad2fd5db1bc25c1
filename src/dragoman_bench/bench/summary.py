"""From records to numbers: percentiles, throughput, service level objectives (SLO), goodput, and spread over repeats.

Latency distributions are over completed requests and count from the intended send. An SLO is judged over all requests:
one that failed, was refused or timed out counts as later than any limit, so that a server cannot pass by dropping slow
requests. Rates count what completed inside the measurement's window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isinf, log
from statistics import fmean, median
from typing import Any, Literal, TypeVar, cast

import numpy as np

from dragoman.errors import ConfigError
from dragoman.wire import LengthBand
from dragoman_bench.bench.results import (
    BandSummary,
    Distribution,
    GpuSample,
    Load,
    Measurement,
    Point,
    RequestRecord,
    ServerSample,
    Spread,
    Stopped,
    Summary,
    Verdict,
)

_T = TypeVar("_T")
FloatArray = np.ndarray[Any, np.dtype[np.float64]]
BANDS: tuple[LengthBand, ...] = ("short", "medium", "long")
ATTAINMENT_PERCENT = 90.0
"""A per-request limit is met where this share of all requests is within it: DistServe's line for SLO attainment."""
FLOOR_S = 1e-5
GROWTH = 1.02
UNKNOWN_SPREAD = 0.10
"""The share of the median that stands for the spread of a point measured once: AIPerf's bound on how far trials differ."""


def percentiles(values: Sequence[float] | FloatArray, *percents: float) -> list[float]:
    """Nearest-rank percentiles: each the smallest of `values` (not empty) that at least that share do not exceed.

    They are values that were observed, and infinities are allowed.
    """
    exact = [percent - 1e-9 for percent in percents]  # 55 % of 100 is rank 55, which floating point exceeds by a little
    return np.percentile(values, exact, method="inverted_cdf").tolist()


def nearest_rank(values: Sequence[float], percent: float) -> float:
    """One percentile."""
    return percentiles(values, percent)[0]


def distribution(values_s: Iterable[float]) -> Distribution | None:
    """None without values."""
    values = np.fromiter(values_s, float)
    if not len(values):
        return None
    p50, p90, p95, p99 = percentiles(values, 50, 90, 95, 99)
    return Distribution(len(values), float(values.mean()), p50, p90, p95, p99, float(values.max()))


# A histogram of the gaps between streamed events, of which a run has too many to keep. Buckets grow by 2 %, so that
# percentiles are within 1 %; bucket b stands for `FLOOR_S * GROWTH**b`. Histograms of processes are added.


def bucket_of(value_s: float) -> int:
    """Values at or under 10 µs share bucket 0."""
    return 0 if value_s <= FLOOR_S else round(log(value_s / FLOOR_S, GROWTH))


def bucket_value(bucket: int) -> float:
    """In seconds."""
    return FLOOR_S * GROWTH**bucket


def bucket_counts(values_s: Iterable[float]) -> Counter[int]:
    """How many values each bucket has."""
    return Counter(map(bucket_of, values_s))


def bucket_values(histogram: Mapping[int, int]) -> FloatArray:
    """Each bucket's value as often as it was counted."""
    return np.repeat([bucket_value(bucket) for bucket in histogram], list(histogram.values()))


SloMetric = Literal["e2e", "ttft", "itl", "tpot"]
STREAMED: frozenset[SloMetric] = frozenset({"ttft", "itl", "tpot"})
_TERM = re.compile(
    r"(?:(?P<metric>e2e|ttft|itl|tpot)_)?(?:p(?P<before>[0-9.]+)_)?(?P<unit>ms|s)(?:_p(?P<after>[0-9.]+))?"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """One term of an SLO. `percentile` None: a limit on each request."""

    metric: SloMetric
    limit_s: float
    percentile: float | None = None

    @property
    def label(self) -> str:
        """`e2e p95 ≤ 2 s`."""
        where = "each" if self.percentile is None else f"p{self.percentile:g}"
        limit = f"{self.limit_s * 1000:g} ms" if self.limit_s < 1 else f"{self.limit_s:g} s"
        return f"{self.metric} {where} ≤ {limit}"

    def allows(self, record: RequestRecord) -> bool:
        """Whether this request is within the limit. A completed answer of one event has no inter-token latency to limit."""
        value_s = metric_of(record, self.metric)
        if value_s is None:
            return self.metric in ("itl", "tpot") and record.first_token_s is not None
        return value_s <= self.limit_s


@dataclass(frozen=True, slots=True)
class Slo:
    """Service level objective; `text` is as it was stated."""

    text: str
    limits: tuple[Limit, ...]

    @property
    def per_request(self) -> tuple[Limit, ...]:
        """The limits of goodput: those on each request; where there are none, the numbers of the percentile limits."""
        return tuple(limit for limit in self.limits if limit.percentile is None) or self.limits

    @property
    def needs_stream(self) -> bool:
        """Whether a limit is on tokens."""
        return any(limit.metric in STREAMED for limit in self.limits)

    def attained(self, record: RequestRecord) -> bool:
        """Whether the request completed within the SLO: the one definition of what goodput counts.

        As in DistServe (arXiv 2401.09670), goodput is the rate of requests that meet the objective.
        """
        return record.completed and all(limit.allows(record) for limit in self.per_request)


def metric_of(record: RequestRecord, metric: SloMetric) -> float | None:
    """One request's value in seconds; its inter-token latency is its mean gap between events."""
    if metric == "itl":
        return record.itl_mean_s
    return {"e2e": record.e2e_s, "ttft": record.ttft_s, "tpot": record.tpot_s}[metric]


def parse_slo(text: str) -> Slo:
    """From `p95_s=2,ttft_ms_p95=300` (over all requests) or `e2e_s=2` (for each). Raises ConfigError naming the term.

    A limit is `[metric_]unit[_pNN]` (or `pNN_unit`, whose metric is e2e) `=number`; metrics are e2e, ttft, itl and tpot,
    units s and ms.
    """
    limits = tuple(_parse_limit(term.strip()) for term in text.split(",") if term.strip())
    if not limits:
        raise ConfigError("the SLO is empty: specify for example p95_s=2 or e2e_s=2", param="slo")
    if len({(limit.metric, limit.percentile) for limit in limits}) < len(limits):
        raise ConfigError(f"SLO {text!r} limits the same metric twice", param="slo")
    return Slo(text, limits)


def _parse_limit(term: str) -> Limit:
    def fault(reason: str) -> ConfigError:
        return ConfigError(f"SLO term {term!r} {reason}", param="slo")

    name, equals, number = term.partition("=")
    match = _TERM.fullmatch(name.strip().lower())
    if not equals or match is None:
        raise fault("is not like p95_s=2, ttft_ms_p95=300 or e2e_s=2")
    if match["before"] and match["after"]:
        raise fault("names two percentiles")
    stated = match["before"] or match["after"]
    try:
        percentile = float(stated) if stated else None
        value = float(number)
    except ValueError:
        raise fault("has a value that is not a number") from None
    if match["metric"] is None and percentile is None:
        raise fault(f"names no metric: write e2e_{match['unit']}=...")
    if percentile is not None and not 0 < percentile <= 100:
        raise fault("needs a percentile above 0 and at most 100")
    if not isfinite(value) or value <= 0:
        raise fault("needs a limit above 0")
    metric = cast(SloMetric, match["metric"] or "e2e")
    return Limit(metric, value / 1000 if match["unit"] == "ms" else value, percentile)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a measurement is summarised from."""

    records: Sequence[RequestRecord]
    window_s: float
    stopped: Stopped = "finished"
    itl_histogram: Mapping[int, int] | None = None
    server: Sequence[ServerSample] = ()
    gpu: Sequence[GpuSample] = ()

    @classmethod
    def of(cls, measurement: Measurement) -> Observed:
        """The same of a stored measurement, to judge it by another SLO."""
        return cls(
            records=measurement.records,
            window_s=measurement.window_s,
            stopped=measurement.stopped,
            itl_histogram=measurement.itl_histogram,
            server=measurement.server,
            gpu=measurement.gpu,
        )

    @property
    def judged(self) -> list[RequestRecord]:
        """What an SLO is judged over: all but what an interrupt cut off. What saturation cut off has failed."""
        return [record for record in self.records if self.stopped == "saturated" or record.error != "unfinished"]


def summarise(observed: Observed, slo: Slo | None = None) -> Summary:
    """One measurement in numbers. Rates are per second of the window."""
    records, window_s = observed.records, observed.window_s
    completed = [record for record in records if record.completed]
    inside = [record for record in completed if record.done_s <= window_s]
    tokens = [record.output_tokens for record in inside]
    verdicts = tuple(_judge(limit, observed) for limit in slo.limits) if slo else ()

    def rate(amount: float) -> float:
        return amount / window_s if window_s > 0 else 0.0

    return Summary(
        requests=len(records),
        completed=len(completed),
        errors=dict(Counter(record.error for record in records if record.error is not None)),
        rps=rate(len(inside)),
        output_tokens_s=rate(sum(_present(tokens))) if tokens and None not in tokens else None,
        output_characters_s=rate(sum(record.output_characters for record in inside)),
        mean_in_flight=mean_in_flight(records, window_s),
        e2e=distribution(record.e2e_s for record in completed),
        ttft=distribution(_present(record.ttft_s for record in completed)),
        itl=distribution(bucket_values(observed.itl_histogram or {})),
        tpot=distribution(_present(record.tpot_s for record in completed)),
        bands={band: found for band in BANDS if (found := _band([r for r in records if r.band == band]))},
        goodput_rps=rate(sum(map(slo.attained, inside))) if slo else None,
        attained_share=_mean(map(slo.attained, observed.judged)) if slo else None,
        verdicts=verdicts,
        slo_met=all(verdict.met for verdict in verdicts) and observed.stopped != "saturated" if slo else None,
        **_server_load([sample for sample in observed.server if 0 <= sample.t_s <= window_s]),
        **_gpu_load([sample.utilisation_percent for sample in observed.gpu if 0 <= sample.t_s <= window_s]),
    )


def mean_in_flight(records: Iterable[RequestRecord], window_s: float) -> float:
    """Requests in the system on average over the window, from intended send to end (Little's law)."""
    spent = (min(record.done_s, window_s) - min(record.intended_s, window_s) for record in records)
    return sum(spent) / window_s if window_s > 0 else 0.0


def _judge(limit: Limit, observed: Observed) -> Verdict:
    """The limit's percentile against the limit; a limit on each request is judged at `ATTAINMENT_PERCENT`."""
    percent = ATTAINMENT_PERCENT if limit.percentile is None else limit.percentile
    label = f"{limit.label} ({percent:g} % of requests)" if limit.percentile is None else limit.label
    values: list[float] = []
    for record in observed.judged:
        value = metric_of(record, limit.metric) if record.completed else inf
        if value is not None:
            values.append(value)
        elif record.first_token_s is None:
            values.append(inf)  # no stream, or one without a token: it does not meet a limit on tokens
    measured = nearest_rank(values, percent) if values else inf
    if not isinf(measured) and limit.metric == "itl" and limit.percentile is not None:
        gaps = bucket_values(observed.itl_histogram or {})
        measured = percentiles(gaps, percent)[0] if len(gaps) else inf
    if isinf(measured):
        return Verdict(label, None, False)
    return Verdict(label, round(measured, 6), measured <= limit.limit_s)


def _band(records: Sequence[RequestRecord]) -> BandSummary | None:
    completed = [record for record in records if record.completed]
    if not records:
        return None
    return BandSummary(
        requests=len(records),
        completed=len(completed),
        e2e=distribution(record.e2e_s for record in completed),
        ttft=distribution(_present(record.ttft_s for record in completed)),
    )


def _server_load(samples: Sequence[ServerSample]) -> dict[str, Any]:
    waiting = list(_present(sample.waiting for sample in samples))
    preemptions = list(_present(sample.preemptions for sample in samples))
    return {
        "engine_busy_share": engine_busy_share(samples),
        "mean_running": _mean(_present(sample.running for sample in samples)),
        "mean_waiting": _mean(waiting),
        "peak_waiting": max(waiting, default=None),
        "peak_kv_cache_usage": max(_present(sample.kv_cache_usage for sample in samples), default=None),
        "preemptions": preemptions[-1] - preemptions[0] if preemptions else None,
        "decode_s_per_token": decode_s_per_token(samples),
    }


def engine_busy_share(samples: Sequence[ServerSample]) -> float | None:
    """From the server's busy time; where it reports none, the share of samples in which a sequence was running."""
    timed = [(sample.t_s, sample.busy_s) for sample in samples if sample.busy_s is not None]
    if len(timed) >= 2 and timed[-1][0] > timed[0][0]:
        share = (timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0])
        return min(share, 1.0) if share >= 0 else None  # a counter that decreased: the server was restarted
    return _mean(sample.running > 0 for sample in samples if sample.running is not None)


def decode_s_per_token(samples: Sequence[ServerSample]) -> float | None:
    """The engine's mean inter-token latency between the first and the last sample that report it."""
    found = [(s.itl_sum_s, s.itl_count) for s in samples if s.itl_sum_s is not None and s.itl_count is not None]
    if not found:
        return None
    sum_s, tokens = found[-1][0] - found[0][0], found[-1][1] - found[0][1]
    return sum_s / tokens if tokens > 0 and sum_s >= 0 else None  # counters that decreased: it was restarted


def _gpu_load(used: Sequence[float]) -> dict[str, Any]:
    return {
        "gpu_mean_percent": _mean(used),
        "gpu_share_below_10": _mean(percent < 10 for percent in used),
        "gpu_share_above_80": _mean(percent > 80 for percent in used),
    }


def _present(values: Iterable[_T | None]) -> Iterable[_T]:
    return (value for value in values if value is not None)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


# Spread over the repeats of a point, and when two points may be called different.


def _of_distribution(name: str, percentile: str) -> Callable[[Summary], float | None]:
    def read(summary: Summary) -> float | None:
        found: Distribution | None = getattr(summary, name)
        return getattr(found, percentile) if found else None

    return read


def _of_summary(name: str) -> Callable[[Summary], float | None]:
    return lambda summary: getattr(summary, name)


METRICS: dict[str, Callable[[Summary], float | None]] = {
    **{name: _of_summary(name) for name in ("rps", "output_tokens_s", "output_characters_s", "goodput_rps")},
    **{
        f"{name}_{percentile}": _of_distribution(name, percentile)
        for name in ("e2e", "ttft", "itl", "tpot")
        for percentile in ("p50_s", "p90_s", "p95_s", "p99_s")
    },
    **{
        name: _of_summary(name)
        for name in ("attained_share", "mean_in_flight", "engine_busy_share", "gpu_mean_percent")
    },
}
"""What is compared between points, by name."""


def point_of(load: Load, repeats: Sequence[Measurement]) -> Point:
    """A load level with its repeats and their spreads."""
    return Point(load, tuple(repeats), spreads(repeats))


def spreads(repeats: Sequence[Measurement]) -> dict[str, Spread]:
    """Of every metric that each repeat has."""
    found: dict[str, Spread] = {}
    for name, read in METRICS.items():
        values = list(_present(read(repeat.summary) for repeat in repeats))
        if values and len(values) == len(repeats):
            found[name] = spread_of(values)
    return found


def spread_of(values: Sequence[float]) -> Spread:
    """Median and range."""
    return Spread(median(values), min(values), max(values), len(values))


def compare(left: Spread, right: Spread) -> Literal["equal", "lower", "higher"]:
    """How `left` compares with `right`.

    Two points are equal where their medians are no farther apart than the wider of the two ranges (highest minus lowest
    repeat): repeats of the same point differ by that much. A point measured once has no range; 10 % of its median stands
    for it. With three repeats this prevents calling noise a result; it is not a test of significance.
    """
    if abs(left.median - right.median) <= max(_width(left), _width(right)):
        return "equal"
    return "lower" if left.median < right.median else "higher"


def _width(spread: Spread) -> float:
    return abs(spread.median) * UNKNOWN_SPREAD if spread.repeats < 2 else spread.high - spread.low
