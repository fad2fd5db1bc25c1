"""Summarises records: percentiles, throughput, service level objectives (SLO), goodput, and spread over repeats.

Latency distributions are over completed requests and count from the intended send time. An SLO is judged over all requests:
one that failed, was refused or timed out counts as later than any limit, so that a server cannot pass by dropping slow
requests. Rates count requests that completed within the measurement's window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import fmean, median
from typing import Any, Literal, TypeVar, cast

import numpy as np

from dragoman.errors import ConfigError
from dragoman.wire import LengthBand
from dragoman_bench.bench.results import (
    Distribution,
    Load,
    Observed,
    Point,
    Repeat,
    RequestRecord,
    ServerSample,
    Spread,
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
    """Return nearest-rank percentiles: the smallest of `values` (not empty) that at least this share does not exceed.

    They are observed values. Infinities are allowed.
    """
    exact = [percent - 1e-9 for percent in percents]  # 55 % of 100 is rank 55, which floating point exceeds by a little
    return np.percentile(values, exact, method="inverted_cdf").tolist()


def nearest_rank(values: Sequence[float] | FloatArray, percent: float) -> float:
    """Return a percentile."""
    return percentiles(values, percent)[0]


def distribution(values_s: Iterable[float]) -> Distribution | None:
    """Return the distribution; None without values."""
    values = np.fromiter(values_s, float)
    if not len(values):
        return None
    p50, p90, p95, p99 = percentiles(values, 50, 90, 95, 99)
    return Distribution(len(values), float(values.mean()), p50, p90, p95, p99, float(values.max()))


# A histogram of the gaps between streamed events, of which a run has too many to keep. Buckets grow by 2 %, so that
# percentiles are within 1 %; bucket b stands for `FLOOR_S * GROWTH**b`. Histograms of processes are added.


def bucket_value(bucket: int) -> float:
    """Return a bucket's value in seconds."""
    return FLOOR_S * GROWTH**bucket


def bucket_counts(values_s: Iterable[float]) -> Counter[int]:
    """Return the number of values in each bucket; those of at most 10 µs are in bucket 0."""
    return Counter(0 if value_s <= FLOOR_S else round(log(value_s / FLOOR_S, GROWTH)) for value_s in values_s)


def bucket_values(histogram: Mapping[int, int]) -> FloatArray:
    """Return each bucket's value as often as it was counted."""
    return np.repeat([bucket_value(bucket) for bucket in histogram], list(histogram.values()))


SloMetric = Literal["e2e", "ttft", "itl", "tpot"]
STREAMED: frozenset[SloMetric] = frozenset({"ttft", "itl", "tpot"})
_TERM = re.compile(
    r"(?:(?P<metric>e2e|ttft|itl|tpot)_)?(?:p(?P<before>[0-9.]+)_)?(?P<unit>ms|s)(?:_p(?P<after>[0-9.]+))?"
    r"\s*=\s*(?P<value>[0-9.]+)"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A term of an SLO. `percentile` None: a limit on each request."""

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
        """Whether a request is within the limit. A completed answer of one event is within limits of inter-token latency."""
        value_s = metric_of(record, self.metric)
        if value_s is None:
            return self.metric in ("itl", "tpot") and record.first_token_s is not None
        return value_s <= self.limit_s


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective; `text` is the user's."""

    text: str
    limits: tuple[Limit, ...]

    @property
    def per_request(self) -> tuple[Limit, ...]:
        """Return the limits for goodput: those on each request; if there are none, those of the percentile limits."""
        return tuple(limit for limit in self.limits if limit.percentile is None) or self.limits

    @property
    def needs_stream(self) -> bool:
        """Whether a limit is on tokens."""
        return any(limit.metric in STREAMED for limit in self.limits)

    def attained(self, record: RequestRecord) -> bool:
        """Whether the request completed within the SLO, and so counts for goodput.

        As in DistServe (arXiv 2401.09670), goodput is the rate of requests that meet the objective.
        """
        return record.completed and all(limit.allows(record) for limit in self.per_request)


def metric_of(record: RequestRecord, metric: SloMetric) -> float | None:
    """Return a request's value in seconds; its inter-token latency is its mean gap between events."""
    if metric == "itl":
        return record.itl_mean_s
    return {"e2e": record.e2e_s, "ttft": record.ttft_s, "tpot": record.tpot_s}[metric]


def parse_slo(text: str) -> Slo:
    """Parse `p95_s=2,ttft_ms_p95=300` (over all requests) or `e2e_s=2` (for each). Raises ConfigError with the bad term.

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
    try:
        match = _TERM.fullmatch(term.lower())
        if match is None or (match["before"] and match["after"]):
            raise ValueError
        stated = match["before"] or match["after"]
        percentile = float(stated) if stated else None
        limit_s = float(match["value"]) / (1000 if match["unit"] == "ms" else 1)
        if limit_s <= 0 or not (0 < percentile <= 100 if percentile is not None else match["metric"]):
            raise ValueError
    except ValueError:
        message = f"SLO term {term!r} is not like p95_s=2, ttft_ms_p95=300 or e2e_s=2 (percentiles of 1 to 100, limits above 0)"
        raise ConfigError(message, param="slo") from None
    return Limit(cast(SloMetric, match["metric"] or "e2e"), limit_s, percentile)


def summarise(observed: Observed, slo: Slo | None = None) -> Summary:
    """Summarise a measurement. Rates are per second of the window."""
    records, window_s = observed.records, observed.window_s
    completed = [record for record in records if record.completed]
    inside = [record for record in completed if record.done_s <= window_s]
    tokens = [record.output_tokens for record in inside]
    judged = [record for record in records if record.error != "unfinished"]  # all but what an interrupt cut off
    verdicts = tuple(_judge(limit, judged, observed.itl_histogram) for limit in slo.limits) if slo else ()

    def rate(amount: float) -> float:
        return amount / window_s if window_s > 0 else 0.0

    return Summary(
        requests=len(records),
        completed=len(completed),
        errors=dict(Counter(record.error for record in records if record.error is not None)),
        rps=rate(len(inside)),
        output_tokens_s=rate(sum(_known(tokens))) if tokens and None not in tokens else None,
        e2e=distribution(record.e2e_s for record in completed),
        ttft=distribution(_known(record.ttft_s for record in completed)),
        itl=distribution(bucket_values(observed.itl_histogram)),
        tpot=distribution(_known(record.tpot_s for record in completed)),
        goodput_rps=rate(sum(map(slo.attained, inside))) if slo else None,
        attained_share=_mean(map(slo.attained, judged)) if slo else None,
        verdicts=verdicts,
        slo_met=all(verdict.met for verdict in verdicts) if slo else None,
        **_server_load([sample for sample in observed.server if 0 <= sample.t_s <= window_s]),
        **_gpu_load([sample.utilisation_percent for sample in observed.gpu if 0 <= sample.t_s <= window_s]),
    )


def _judge(limit: Limit, records: Iterable[RequestRecord], itl_histogram: Mapping[int, int]) -> Verdict:
    """The limit's percentile against the limit; a limit on each request is judged at `ATTAINMENT_PERCENT`."""
    percent = ATTAINMENT_PERCENT if limit.percentile is None else limit.percentile
    label = f"{limit.label} ({percent:g} % of requests)" if limit.percentile is None else limit.label
    values: list[float] = []
    for record in records:
        value = metric_of(record, limit.metric) if record.completed else inf
        if value is not None:
            values.append(value)
        elif record.first_token_s is None:
            values.append(inf)  # no stream, or one without a token: it does not meet a limit on tokens
    measured = nearest_rank(values, percent) if values else inf
    if measured < inf and limit.metric == "itl" and limit.percentile is not None:
        gaps = bucket_values(itl_histogram)
        measured = nearest_rank(gaps, percent) if len(gaps) else inf
    return Verdict(label, round(measured, 6) if measured < inf else None, measured <= limit.limit_s)


def _server_load(samples: Sequence[ServerSample]) -> dict[str, Any]:
    preemptions = _known(sample.preemptions for sample in samples)
    return {
        "engine_busy_share": engine_busy_share(samples),
        "mean_running": _mean(_known(sample.running for sample in samples)),
        "mean_waiting": _mean(_known(sample.waiting for sample in samples)),
        "peak_kv_cache_usage": max(_known(sample.kv_cache_usage for sample in samples), default=None),
        "preemptions": preemptions[-1] - preemptions[0] if preemptions else None,
        "decode_s_per_token": _decode_s_per_token(samples),
    }


def engine_busy_share(samples: Sequence[ServerSample]) -> float | None:
    """Return the share from the server's busy time; if it reports none, the share of samples with a running sequence."""
    timed = [(sample.t_s, sample.busy_s) for sample in samples if sample.busy_s is not None]
    if len(timed) >= 2 and timed[-1][0] > timed[0][0]:
        share = (timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0])
        return min(share, 1.0) if share >= 0 else None  # a counter that decreased: the server was restarted
    return _mean(sample.running > 0 for sample in samples if sample.running is not None)


def _decode_s_per_token(samples: Sequence[ServerSample]) -> float | None:
    """The engine's mean inter-token latency between the first and the last sample that report it."""
    found = [(s.itl_sum_s, s.itl_count) for s in samples if s.itl_sum_s is not None and s.itl_count is not None]
    if not found:
        return None
    sum_s, tokens = found[-1][0] - found[0][0], found[-1][1] - found[0][1]
    return sum_s / tokens if tokens > 0 and sum_s >= 0 else None  # counters that decreased: it was restarted


def _gpu_load(used_percent: Sequence[float]) -> dict[str, Any]:
    return {
        "gpu_mean_percent": _mean(used_percent),
        "gpu_share_below_10": _mean(percent < 10 for percent in used_percent),
    }


def _known(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


# Spread over the repeats of a point, and when two points may be called different.

_PLAIN_METRICS = (
    *("rps", "output_tokens_s", "goodput_rps", "attained_share", "engine_busy_share", "gpu_mean_percent"),
)


def metrics(summary: Summary) -> dict[str, float]:
    """Return the metrics by which points are compared (`rps`, `e2e_p95_s`), without unknown ones."""
    found: dict[str, float | None] = {name: getattr(summary, name) for name in _PLAIN_METRICS}
    for name in ("e2e", "ttft", "itl", "tpot"):
        of: Distribution | None = getattr(summary, name)
        for percentile in ("p50_s", "p90_s", "p95_s", "p99_s"):
            found[f"{name}_{percentile}"] = getattr(of, percentile) if of else None
    return {name: value for name, value in found.items() if value is not None}


def point_of(load: Load, repeats: Sequence[Repeat]) -> Point:
    """Make a point of a load level and its repeats."""
    return Point(load, tuple(repeats), spreads(repeats))


def spreads(repeats: Sequence[Repeat]) -> dict[str, Spread]:
    """Return the spread of each metric that all repeats have."""
    rows = [metrics(repeat.summary) for repeat in repeats]
    names = [name for name in (rows[0] if rows else ()) if all(name in row for row in rows)]
    return {name: spread_of([row[name] for row in rows]) for name in names}


def spread_of(values: Sequence[float]) -> Spread:
    """Return median and range."""
    return Spread(median(values), min(values), max(values), len(values))


def compare(left: Spread, right: Spread) -> Literal["equal", "lower", "higher"]:
    """Compare `left` with `right`.

    Two points are equal if their medians differ by no more than the wider of the two ranges (highest minus lowest
    repeat), because repeats of the same point differ by as much. The range of a point that was measured once is taken as
    10 % of its value. With three repeats this avoids most false differences; it is not a test of significance.
    """
    widths = [abs(s.median) * UNKNOWN_SPREAD if s.repeats < 2 else s.high - s.low for s in (left, right)]
    if abs(left.median - right.median) <= max(widths):
        return "equal"
    return "lower" if left.median < right.median else "higher"
