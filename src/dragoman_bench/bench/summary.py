"""From records to numbers: latency, throughput, goodput and how busy the server was.

Latency distributions are over completed requests and count from the intended send. An SLO is judged over all requests:
one that failed, was refused or timed out is later than any limit, so that a server cannot pass by dropping what is
slow. Rates count what completed inside the measurement's window. Knows nothing of how requests are sent, nor of
repeats (`spread`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import TypedDict, TypeVar

from dragoman_bench.bench import histogram
from dragoman_bench.bench.percentiles import distribution, nearest_rank
from dragoman_bench.bench.records import Band, GpuSample, RequestRecord, ServerSample
from dragoman_bench.bench.results import BandSummary, Stopped, Summary, Verdict
from dragoman_bench.bench.slo import Limit, Slo, metric_of

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
        itl=histogram.distribution(observed.itl_histogram or {}),
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
        measured = histogram.percentile(observed.itl_histogram or {}, percent)  # over gaps, not over requests
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
