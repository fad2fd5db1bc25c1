"""`dragoman plan`: computes how many GPUs the recorded traffic needs, from a measurement of one replica.

Work is counted in output tokens. A latency is the one measured at the same rate, times the ratio of the trace's token
percentile to the measured one: with the same number of sequences in a batch, a text with twice the tokens takes twice the
steps. The peak is the busiest sliding window, which is as long as the SLO's longest limit: work that arrives within it must be
done in this time. Values are interpolated linearly between two measured loads, and not extrapolated.

Exit code 0: the SLO is met at the peak with the planned replicas; 1: no measured load meets the SLO; 2: bad input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from pathlib import Path
from statistics import fmean, median

import click
import numpy as np

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import members, whole
from dragoman_bench.bench.results import Results, read_results
from dragoman_bench.bench.summary import Limit, parse_slo, percentiles
from dragoman_bench.bench.tables import number, percent, seconds
from dragoman_bench.bench.workload import TextLine, read_trace

NOT_MET = 1
PERCENTS = (50, 95, 99)
"""Percentiles of the end-to-end latency that a plan knows."""
FAILED_SHARE = 0.01
"""A load at which more of the requests failed meets no SLO, and neither does a higher one."""
DEFAULT_WINDOW_S = 10.0
"""Where there is no SLO."""
SIMILAR = 0.1
"""Mean lengths that differ by less than this share are called equal."""
_TINY = 1e-9
_POSITIVE = click.FloatRange(0, min_open=True)


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Medians over the repeats of a closed loop; end-to-end latencies by percentile."""

    clients: float
    tokens_s: float
    latencies_s: Mapping[int, float]

    def between(self, other: MeasuredLoad, part: float) -> MeasuredLoad:
        """Interpolate between this load (`part` 0) and `other` (1)."""
        latencies_s = {p: one + part * (other.latencies_s[p] - one) for p, one in self.latencies_s.items()}
        clients = self.clients + part * (other.clients - self.clients)
        return MeasuredLoad(clients, self.tokens_s + part * (other.tokens_s - self.tokens_s), latencies_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A number of replicas at the trace's peak. `margin`: capacity above the peak, as a share of it; negative: too little.
    Latencies by percentile; None: the peak is above all measured rates; `at_most`: below all, so they are upper bounds."""

    replicas: int
    margin: float
    latencies_s: Mapping[int, float] | None
    at_most: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """A plan. Rates are output tokens a second. `capacity`, `planned`: None if no measured load meets the SLO. `one_failed`:
    None if no replica is left. `replicas_for_one_failure`: enough for the peak, without margin, after one has failed."""

    peak_window_s: float
    peak_texts_s: float
    peak_tokens_s: float
    gpus_per_replica: int
    capacity: MeasuredLoad | None
    planned: Situation | None = None
    one_failed: Situation | None = None
    replicas_for_one_failure: int | None = None
    cost_per_hour: float | None = None
    cost_per_million_characters: float | None = None
    notes: tuple[str, ...] = ()


@click.command("plan")
@click.option("--trace", required=True, type=click.Path(path_type=Path),
              help="The traffic: a .jsonl file of `dragoman traffic export`.")  # fmt: skip
@click.option("--result", required=True, type=click.Path(path_type=Path),
              help="Closed loops of `dragoman bench`, measured on one replica.")  # fmt: skip
@click.option("--slo", help="Limits that must hold at the peak, such as p95_s=2,p99_s=4.")
@click.option("--margin", type=click.FloatRange(0), default=0.2, show_default=True, help="Capacity above the peak.")
@click.option("--price-per-hour", type=_POSITIVE, help="Of one GPU, in any currency.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(
    trace: Path, result: Path, slo: str | None, margin: float, price_per_hour: float | None, as_json: bool
) -> None:
    """Compute how many GPUs your recorded traffic needs at its peak for an SLO, the effect of a failure, and the cost."""
    limits = parse_slo(slo).limits if slo is not None else ()
    plan = make_plan(result, trace, limits, margin, price_per_hour)
    click.echo(json.dumps(asdict(plan), ensure_ascii=False) if as_json else "\n".join(_lines(plan)))
    if plan.planned is None:
        click.get_current_context().exit(NOT_MET)


def make_plan(
    result: Path, trace: Path, limits: Sequence[Limit], margin: float = 0.0, price_per_hour: float | None = None
) -> CapacityPlan:
    """Compute a plan. Raises ConfigError if a file cannot be read or has too little data, or for an unsupported limit."""
    if wrong := [one.label for one in limits if one.metric != "e2e" or one.percentile not in PERCENTS]:
        raise ConfigError(f"SLO {wrong[0]}: a plan knows p50_s, p95_s and p99_s, end to end", param="slo")
    lines = sorted(read_trace(trace), key=lambda line: line.at_s or 0.0)
    tokens, arrivals_s = _output_tokens(lines), np.array([line.at_s for line in lines], dtype=float)
    results = read_results(result)
    loads, length_ratio = read_loads(results, tokens)
    window_s = max((limit.limit_s for limit in limits), default=DEFAULT_WINDOW_S)
    capacity = _highest_within(loads, {int(one.percentile or 0): one.limit_s for one in limits})
    plan = CapacityPlan(
        peak_window_s=window_s,
        peak_texts_s=_busiest(arrivals_s, np.ones(len(lines)), window_s),
        peak_tokens_s=_busiest(arrivals_s, np.array(tokens), window_s),
        gpus_per_replica=whole(members(results.conditions.server.get("engine")).get("tensor_parallel_size")) or 1,
        capacity=capacity,
        notes=tuple(_notes(loads, capacity, length_ratio)),
    )
    if capacity is None:
        return plan
    load = plan.peak_tokens_s / capacity.tokens_s  # in replicas
    replicas = max(1, ceil(load * (1 + margin) - _TINY))
    plan = replace(
        plan,
        planned=_situation(replicas, load, plan.peak_tokens_s, loads),
        one_failed=_situation(replicas - 1, load, plan.peak_tokens_s, loads) if replicas > 1 else None,
        replicas_for_one_failure=ceil(load - _TINY) + 1,
    )
    if price_per_hour is None:
        return plan
    per_hour, hours = price_per_hour * replicas * plan.gpus_per_replica, float(arrivals_s[-1] - arrivals_s[0]) / 3600
    millions = sum(line.source_characters or len(line.text or "") for line in lines) / 1e6
    per_million = per_hour * hours / millions if millions else None
    return replace(plan, cost_per_hour=per_hour, cost_per_million_characters=per_million)


def read_loads(results: Results, tokens: Sequence[float]) -> tuple[list[MeasuredLoad], float]:
    """Return the measured loads by rising clients and rate, converted to texts of these output tokens; and the ratio of these
    texts' mean tokens to the measured mean. Raises ConfigError if the results are of several replicas, or have no closed
    loop with output tokens."""
    if (replicas := whole(results.conditions.server.get("replicas")) or 1) > 1:
        raise ConfigError(f"the result is of {replicas} replicas: measure one of them", param="result")
    closed = [point for point in results.points if point.load.kind == "closed" and point.repeats]
    records = [record for point in closed for repeat in point.repeats for record in repeat.records if record.completed]
    measured = [record.output_tokens for record in records if record.output_tokens]
    if not measured or len(measured) < len(records):
        message = "the result has no closed loop with output tokens: see dragoman bench --concurrency"
        raise ConfigError(message, param="result")
    both = zip(PERCENTS, percentiles(tokens, *PERCENTS), percentiles(measured, *PERCENTS), strict=True)
    factors = {p: ours / theirs for p, ours, theirs in both}
    rising: list[MeasuredLoad] = []
    for point in sorted(closed, key=lambda point: point.load.clients or 1):
        summaries = [repeat.summary for repeat in point.repeats]
        latencies = [one.e2e for one in summaries if one.e2e is not None]
        failed = sum(count for one in summaries for error, count in one.errors.items() if error != "unfinished")
        if len(latencies) < len(summaries) or failed > FAILED_SHARE * sum(one.requests for one in summaries):
            break
        corrected = [factors[p] * median(getattr(one, f"p{p}_s") for one in latencies) for p in PERCENTS]
        # Each percentile has its own correction: a lower one may come out above a higher one, which is then at least that.
        latencies_s: dict[int, float] = dict(zip(PERCENTS, accumulate(corrected, max), strict=True))
        tokens_s = fmean(measured) * median(one.rps for one in summaries)
        if tokens_s > (rising[-1].tokens_s if rising else 0.0):
            rising.append(MeasuredLoad(point.load.clients or 1, tokens_s, latencies_s))
    if not rising:
        raise ConfigError(f"more than {FAILED_SHARE:.0%} of the result's requests failed at every load", param="result")
    return rising, fmean(tokens) / fmean(measured)


def _highest_within(loads: Sequence[MeasuredLoad], limits_s: Mapping[int, float]) -> MeasuredLoad | None:
    """The last load before the first that misses a limit, or the point between these two at which a latency reaches its limit.
    None where the lowest load misses one."""
    best: MeasuredLoad | None = None
    for load in loads:
        if missed := [p for p, limit_s in limits_s.items() if load.latencies_s[p] > limit_s]:
            if best is None:
                return None
            low, high = best.latencies_s, load.latencies_s
            return best.between(load, min((limits_s[p] - low[p]) / (high[p] - low[p]) for p in missed))
        best = load
    return best


def _situation(replicas: int, load: float, peak_tokens_s: float, loads: Sequence[MeasuredLoad]) -> Situation:
    """`load`: replicas whose capacity is the peak."""
    each_s = peak_tokens_s / replicas
    at_peak = loads[0] if each_s <= loads[0].tokens_s else None
    for low, high in pairwise(loads):
        if low.tokens_s < each_s <= high.tokens_s:
            at_peak = low.between(high, (each_s - low.tokens_s) / (high.tokens_s - low.tokens_s))
    latencies_s, at_most = at_peak and at_peak.latencies_s, each_s < loads[0].tokens_s
    return Situation(replicas=replicas, margin=replicas / load - 1, latencies_s=latencies_s, at_most=at_most)


def _notes(loads: Sequence[MeasuredLoad], capacity: MeasuredLoad | None, length_ratio: float) -> Iterator[str]:
    """What a reader must know of the numbers."""
    if capacity is None:
        yield f"the SLO does not hold at the lowest measured load, {loads[0].clients:g} in flight: measure fewer clients"
    elif capacity is loads[-1]:
        yield f"{capacity.clients:g} in flight is the highest measured load: the capacity of a replica may be higher"
    if abs(length_ratio - 1) > SIMILAR:
        yield (
            f"texts of the trace have {length_ratio:.2f} times the tokens of the measured ones: rates and latencies are "
            "corrected by tokens; to measure instead, use dragoman bench --workload TRACE"
        )


def _output_tokens(lines: Sequence[TextLine]) -> list[float]:
    """By text; one without an output counts as its source times the others' ratio. Raises ConfigError."""
    sources = [line.source_tokens or 0 for line in lines]
    if not all(sources) or any(line.at_s is None for line in lines):
        raise ConfigError("the trace has lines without at_s or source_tokens: a plan needs both", param="trace")
    done = [(line.output_tokens, line.source_tokens) for line in lines if line.output_tokens and line.source_tokens]
    ratio = sum(output for output, _ in done) / sum(source for _, source in done) if done else 1.0
    return [line.output_tokens or ratio * source for line, source in zip(lines, sources, strict=True)]


def _busiest(arrivals_s: np.ndarray, amounts: np.ndarray, window_s: float) -> float:
    """The most of `amounts` that arrived within a window, a second of it."""
    sums = np.concatenate(([0.0], np.cumsum(amounts)))
    first = np.searchsorted(arrivals_s, arrivals_s - window_s, side="right")
    last = np.searchsorted(arrivals_s, arrivals_s, side="right")
    return float((sums[last] - sums[first]).max()) / window_s


def _lines(plan: CapacityPlan) -> Iterator[str]:
    peak = f"{number(plan.peak_texts_s)} texts/s, {number(plan.peak_tokens_s)} output tokens/s"
    yield f"busiest {seconds(plan.peak_window_s)}: {peak}"
    if plan.capacity is not None:
        rate, clients = number(plan.capacity.tokens_s), number(plan.capacity.clients)
        yield f"capacity of a replica under the SLO: {rate} output tokens/s, with {clients} in flight"
    for name, now in (("planned", plan.planned), ("one has failed", plan.one_failed)):
        if now is not None:
            bound, known = "≤ " if now.at_most else "", now.latencies_s
            latencies = ", ".join(f"p{p} {bound}{seconds(known[p])}" for p in PERCENTS) if known else "not measured"
            count = now.replicas * plan.gpus_per_replica
            gpus = f"{now.replicas} replica{'s' * (now.replicas > 1)}, {count} GPU{'s' * (count > 1)}"
            too_few = ", too few" if now.margin < -_TINY else ""
            room = f"margin {percent(now.margin)}" if now.margin <= 1 else f"{number(now.margin + 1)} times the peak"
            yield f"{name}: {gpus}, {room}{too_few}, latency {latencies}"
    if plan.planned is not None:
        yield f"to hold the SLO at the peak without one of them: {plan.replicas_for_one_failure} replicas"
    if plan.cost_per_hour is not None:
        per_million = f"{number(plan.cost_per_million_characters)} a million source characters at this traffic"
        yield f"cost: {number(plan.cost_per_hour)} an hour, {per_million}"
    yield from (f"note: {note}" for note in plan.notes)
