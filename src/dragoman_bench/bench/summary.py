"""From records to numbers: percentiles, throughput, service level objectives, goodput, and spread over repeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, isinf, log
from statistics import median
from typing import Literal, TypedDict, TypeVar, cast

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import (
    Band,
    BandSummary,
    Distribution,
    GpuSample,
    Measurement,
    RequestRecord,
    ServerSample,
    Spread,
    Stopped,
    Summary,
    Verdict,
)


def rank(percent: float, count: int) -> int:
    """The 1-based rank of the percentile among `count` ascending values."""
    return max(1, ceil(percent / 100 * count - 1e-9))  # 0.55 * 100 is a hair over 55


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of `ordered` (ascending, not empty) do not exceed."""
    return ordered[rank(percent, len(ordered)) - 1]


def distribution(values_s: Iterable[float]) -> Distribution | None:
    ordered = sorted(values_s)
    if not ordered:
        return None
    p50, p90, p95, p99 = (nearest_rank(ordered, p) for p in (50, 90, 95, 99))
    return Distribution(len(ordered), sum(ordered) / len(ordered), p50, p90, p95, p99, ordered[-1])


FLOOR_S = 1e-5
GROWTH = 1.02


def bucket_of(value_s: float) -> int:
    """Values at or under 10 µs share bucket 0."""
    return 0 if value_s <= FLOOR_S else round(log(value_s / FLOOR_S, GROWTH))


def bucket_value(bucket: int) -> float:
    return FLOOR_S * GROWTH**bucket


def bucket_counts(values_s: Iterable[float]) -> Counter[int]:
    return Counter(bucket_of(value) for value in values_s)


def histogram_percentile(histogram: Mapping[int, int], percent: float) -> float | None:
    """Nearest rank, in seconds; None of an empty histogram."""
    total = sum(histogram.values())
    if not total:
        return None
    wanted = rank(percent, total)
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= wanted:
            return bucket_value(bucket)
    raise AssertionError("a rank lies within the total")


def histogram_distribution(histogram: Mapping[int, int]) -> Distribution | None:
    total = sum(histogram.values())
    if not total:
        return None
    p50, p90, p95, p99, largest = (histogram_percentile(histogram, p) or 0.0 for p in (50, 90, 95, 99, 100))
    mean = sum(bucket_value(bucket) * n for bucket, n in histogram.items()) / total
    return Distribution(total, mean, p50, p90, p95, p99, largest)


Metric = Literal["e2e", "ttft", "itl", "tpot"]
STREAMED: frozenset[Metric] = frozenset({"ttft", "itl", "tpot"})
_TERM = re.compile(
    r"(?:(?P<metric>e2e|ttft|itl|tpot)_)?(?:p(?P<before>[0-9.]+)_)?(?P<unit>ms|s)(?:_p(?P<after>[0-9.]+))?"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """`percentile` None: for each request."""

    metric: Metric
    limit_s: float
    percentile: float | None = None

    @property
    def label(self) -> str:
        where = "each" if self.percentile is None else f"p{self.percentile:g}"
        limit = f"{self.limit_s * 1000:g} ms" if self.limit_s < 1 else f"{self.limit_s:g} s"
        return f"{self.metric} {where} ≤ {limit}"

    def allows(self, record: RequestRecord) -> bool:
        """Whether this one request is within the limit. A metric that the request does not have is within it only
        where nothing could have been measured: a completed answer of a single event has no inter-token latency."""
        value_s = metric_of(record, self.metric)
        if value_s is None:
            return self.metric in ("itl", "tpot") and record.first_token_s is not None
        return value_s <= self.limit_s


@dataclass(frozen=True, slots=True)
class Slo:
    text: str
    limits: tuple[Limit, ...]

    @property
    def per_request(self) -> tuple[Limit, ...]:
        """What goodput holds each request to."""
        return tuple(limit for limit in self.limits if limit.percentile is None) or self.limits

    @property
    def needs_stream(self) -> bool:
        return any(limit.metric in STREAMED for limit in self.limits)

    def attained(self, record: RequestRecord) -> bool:
        return record.completed and all(limit.allows(record) for limit in self.per_request)


def metric_of(record: RequestRecord, metric: Metric) -> float | None:
    """One request's value in seconds; its inter-token latency is its mean gap between events."""
    if metric == "e2e":
        return record.e2e_s
    if metric == "ttft":
        return record.ttft_s
    return record.itl_mean_s if metric == "itl" else record.tpot_s


def parse_slo(text: str) -> Slo:
    """Raises ConfigError naming the term that is wrong."""
    limits = tuple(_limit(term.strip()) for term in text.split(",") if term.strip())
    if not limits:
        raise ConfigError("empty SLO: say for example p95_s=2 or e2e_s=2", param="slo")
    keys = [(limit.metric, limit.percentile) for limit in limits]
    if len(set(keys)) < len(keys):
        raise ConfigError(f"SLO {text!r} limits the same thing twice", param="slo")
    return Slo(text, limits)


def _limit(term: str) -> Limit:
    name, equals, number = term.partition("=")
    match = _TERM.fullmatch(name.strip().lower())
    if not equals or match is None:
        raise ConfigError(f"SLO term {term!r} is not like p95_s=2, ttft_ms_p95=300 or e2e_s=2", param="slo")
    if match["before"] and match["after"]:
        raise ConfigError(f"SLO term {term!r} names two percentiles", param="slo")
    percentile = _number(match["before"] or match["after"], term)
    if match["metric"] is None and percentile is None:
        raise ConfigError(f"SLO term {term!r} names no metric: say e2e_{match['unit']}=...", param="slo")
    if percentile is not None and not 0 < percentile <= 100:
        raise ConfigError(f"SLO term {term!r}: a percentile is above 0 and at most 100", param="slo")
    value = _number(number.strip(), term)
    if value is None or not isfinite(value) or value <= 0:
        raise ConfigError(f"SLO term {term!r}: the limit is a number above 0", param="slo")
    metric = cast(Metric, match["metric"] or "e2e")
    return Limit(metric, value / 1000 if match["unit"] == "ms" else value, percentile)


def _number(text: str | None, term: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"SLO term {term!r}: {text!r} is not a number", param="slo") from None


_T = TypeVar("_T")
BANDS: tuple[Band, ...] = ("short", "medium", "long")
ATTAINMENT_PERCENT = 90.0
"""A per-request limit is met where this share of all requests is within it: DistServe's line for SLO attainment."""


class ServerLoad(TypedDict):
    engine_busy_share: float | None
    mean_running: float | None
    mean_waiting: float | None
    peak_waiting: int | None
    peak_kv_cache_usage: float | None
    preemptions: int | None
    decode_s_per_token: float | None


class GpuLoad(TypedDict):
    gpu_mean_percent: float | None
    gpu_share_below_10: float | None
    gpu_share_above_80: float | None


@dataclass(frozen=True, slots=True)
class Observed:
    """What a measurement has to be summarised from."""

    records: Sequence[RequestRecord]
    window_s: float
    stopped: Stopped = "finished"
    itl_histogram: Mapping[int, int] | None = None
    server: Sequence[ServerSample] = ()
    gpu: Sequence[GpuSample] = ()

    @property
    def in_window(self) -> list[RequestRecord]:
        return [record for record in self.records if record.completed and record.done_s <= self.window_s]

    @property
    def judged(self) -> list[RequestRecord]:
        """What an SLO is judged over: all, but what a stop by hand cut off. What saturation cut off has failed."""
        cut_counts = self.stopped == "saturated"
        return [record for record in self.records if cut_counts or record.error != "unfinished"]


def summarise(observed: Observed, slo: Slo | None = None) -> Summary:
    """One measurement in numbers. Rates are per second of the window."""
    records, inside = observed.records, observed.in_window
    completed = [record for record in records if record.completed]
    load, gpu = _server_load(observed), _gpu_load(observed)
    verdicts = judge(observed, slo) if slo else ()
    return Summary(
        requests=len(records),
        completed=len(completed),
        errors=dict(Counter(record.error for record in records if record.error is not None)),
        rps=_rate(len(inside), observed),
        output_tokens_s=_tokens_s(inside, observed),
        output_characters_s=_rate(sum(record.output_characters for record in inside), observed),
        mean_in_flight=mean_in_flight(records, observed.window_s),
        e2e=distribution(record.e2e_s for record in completed),
        ttft=distribution(_present(record.ttft_s for record in completed)),
        itl=histogram_distribution(observed.itl_histogram or {}),
        tpot=distribution(_present(record.tpot_s for record in completed)),
        bands={band: summary for band in BANDS if (summary := _band(records, band))},
        goodput_rps=_rate(sum(map(slo.attained, inside)), observed) if slo else None,
        attained_share=_share(map(slo.attained, observed.judged)) if slo else None,
        verdicts=verdicts,
        slo_met=all(v.met for v in verdicts) and observed.stopped != "saturated" if slo else None,
        **load,
        **gpu,
    )


def judge(observed: Observed, slo: Slo) -> tuple[Verdict, ...]:
    """Each limit's percentile against the limit; a per-request limit is judged at `ATTAINMENT_PERCENT`."""
    return tuple(_verdict(limit, observed) for limit in slo.limits)


def mean_in_flight(records: Iterable[RequestRecord], window_s: float) -> float:
    """Requests in the system on average over the window, from intended send to end (Little's law, read backwards)."""
    if window_s <= 0:
        return 0.0
    spent = (min(record.done_s, window_s) - min(record.intended_s, window_s) for record in records)
    return sum(spent) / window_s


def engine_busy_share(samples: Sequence[ServerSample]) -> float | None:
    """From the server's own busy time; where it tells none, the share of samples in which a sequence was running."""
    timed = [(sample.t_s, sample.busy_s) for sample in samples if sample.busy_s is not None]
    if len(timed) >= 2 and timed[-1][0] > timed[0][0]:
        share = (timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0])
        return min(share, 1.0) if share >= 0 else None  # a counter that went back: the server was restarted
    return _share(sample.running > 0 for sample in samples if sample.running is not None)


def decode_s_per_token(samples: Sequence[ServerSample]) -> float | None:
    """The engine's mean time between two tokens of a sequence, between the first sample and the last that tell it."""
    told = [(s.itl_sum_s, s.itl_count) for s in samples if s.itl_sum_s is not None and s.itl_count is not None]
    if not told:
        return None
    seconds, tokens = told[-1][0] - told[0][0], told[-1][1] - told[0][1]
    return seconds / tokens if tokens > 0 and seconds >= 0 else None  # counters that went back: it was restarted


def _verdict(limit: Limit, observed: Observed) -> Verdict:
    percent = ATTAINMENT_PERCENT if limit.percentile is None else limit.percentile
    label = f"{limit.label} ({percent:g} % of requests)" if limit.percentile is None else limit.label
    values = sorted(_judged_values(limit, observed))
    measured: float | None = nearest_rank(values, percent) if values else None
    if measured is not None and not isinf(measured) and limit.metric == "itl" and limit.percentile is not None:
        measured = histogram_percentile(observed.itl_histogram or {}, percent)  # over gaps, not over requests
    if measured is None or isinf(measured):
        return Verdict(label, None, False)
    return Verdict(label, round(measured, 6), measured <= limit.limit_s)


def _judged_values(limit: Limit, observed: Observed) -> Iterable[float]:
    for record in observed.judged:
        value = metric_of(record, limit.metric) if record.completed else inf
        if value is not None:
            yield value
        elif record.first_token_s is None:
            yield inf  # no stream, or one without a token: it has not met a limit on tokens


def _band(records: Sequence[RequestRecord], band: Band) -> BandSummary | None:
    of_band = [record for record in records if record.band == band]
    if not of_band:
        return None
    completed = [record for record in of_band if record.completed]
    return BandSummary(
        requests=len(of_band),
        completed=len(completed),
        e2e=distribution(record.e2e_s for record in completed),
        ttft=distribution(_present(record.ttft_s for record in completed)),
    )


def _tokens_s(inside: list[RequestRecord], observed: Observed) -> float | None:
    tokens = [record.output_tokens for record in inside]
    if not tokens or None in tokens:
        return None
    return _rate(sum(_present(tokens)), observed)


def _server_load(observed: Observed) -> ServerLoad:
    samples = [sample for sample in observed.server if 0 <= sample.t_s <= observed.window_s]
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


def _gpu_load(observed: Observed) -> GpuLoad:
    used = [sample.utilisation_percent for sample in observed.gpu if 0 <= sample.t_s <= observed.window_s]
    return {
        "gpu_mean_percent": _mean(used),
        "gpu_share_below_10": _share(percent < 10 for percent in used),
        "gpu_share_above_80": _share(percent > 80 for percent in used),
    }


def _rate(amount: float, observed: Observed) -> float:
    return amount / observed.window_s if observed.window_s > 0 else 0.0


def _present(values: Iterable[_T | None]) -> Iterable[_T]:
    return (value for value in values if value is not None)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _share(truths: Iterable[bool]) -> float | None:
    return _mean(float(truth) for truth in truths)


UNKNOWN_SPREAD = 0.10
"""The share of the median that stands for a spread nobody measured: AIPerf's bound on how far trials differ."""


def _at(name: str, percentile: str) -> Callable[[Summary], float | None]:
    def read(summary: Summary) -> float | None:
        found: Distribution | None = getattr(summary, name)
        return getattr(found, percentile) if found else None

    return read


def _plain(name: str) -> Callable[[Summary], float | None]:
    return lambda summary: getattr(summary, name)


METRICS: dict[str, Callable[[Summary], float | None]] = {
    **{name: _plain(name) for name in ("rps", "output_tokens_s", "output_characters_s", "goodput_rps")},
    **{
        f"{name}_{percentile}": _at(name, percentile)
        for name in ("e2e", "ttft", "itl", "tpot")
        for percentile in ("p50_s", "p90_s", "p95_s", "p99_s")
    },
    **{name: _plain(name) for name in ("attained_share", "mean_in_flight", "engine_busy_share", "gpu_mean_percent")},
}
"""What is compared between points, by name."""


def spreads(repeats: Sequence[Measurement]) -> dict[str, Spread]:
    """Every metric that each repeat has."""
    found: dict[str, Spread] = {}
    for name, read in METRICS.items():
        values = [value for repeat in repeats if (value := read(repeat.summary)) is not None]
        if values and len(values) == len(repeats):
            found[name] = spread_of(values)
    return found


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


def compare(left: Spread, right: Spread) -> Literal["equal", "lower", "higher"]:
    """How `left` compares with `right`.

    Two points are equal where their medians are no farther apart than the wider of the two ranges (highest minus lowest
    repeat): repeats of one and the same point differ by that much. A point measured once has no range; 10 % of its
    median stands for it. With three repeats this is a guard against calling noise a result, not a test of significance.
    """
    if abs(left.median - right.median) <= max(_width(left), _width(right)):
        return "equal"
    return "lower" if left.median < right.median else "higher"


def _width(spread: Spread) -> float:
    if spread.repeats < 2:
        return abs(spread.median) * UNKNOWN_SPREAD
    return spread.high - spread.low
