"""Service level objectives: `p95_s=2,ttft_ms_p95=300,itl_ms_p95=40` (over all requests) or `e2e_s=2` (for each one).

A limit is `[metric_]unit[_pNN]` (or `pNN_unit`, whose metric is e2e) `=number`. Metrics: e2e, ttft, itl, tpot; units:
s, ms. Goodput counts the requests within the per-request limits; where a statement has only percentile limits, their
numbers are the per-request limits too (DistServe's goodput, arXiv 2401.09670, counts requests that meet the objective).
Knows the text form and one request's numbers; percentiles over many are `summary`'s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Literal, cast

from dragoman.errors import ConfigError
from dragoman_bench.bench.records import RequestRecord

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
