"""The arithmetic of a capacity plan.

Work is counted in tokens. A replica's capacity is the highest measured rate at which the SLO holds, in requests of the measured
workload a second, times that workload's mean tokens. Latencies are those measured at the same number of requests in flight,
times the ratio of the trace's token percentile to the measured one: with equally many sequences in a batch, a text of twice the
tokens takes twice the steps.

The peak is that of a sliding window as long as the SLO's longest limit: work that arrives within it must be done within it.
A longer window would average a burst away, and a shorter one count work that may wait as if it must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, isinf
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import Limit
from dragoman_bench.plan.curve import PERCENTS, Curve, MeasuredLoad
from dragoman_bench.plan.peaks import LONGER_WINDOWS_S, TraceDemand, Window

DEFAULT_WINDOW_S = 10.0
"""Where there is no SLO."""
DEFAULT_MARGIN = 0.2
SIMILAR = 0.1
"""Lengths that differ by less than this share are called equal, and efficiencies within it of 1 linear."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What was asked for. `limits` are on percentiles of the end-to-end latency; `replicas` None: as many as are needed."""

    limits: tuple[Limit, ...] = ()
    margin: float = DEFAULT_MARGIN  # share of the peak that is kept free above it
    window_s: float | None = None
    replicas: int | None = None
    price_per_hour: float | None = None  # of one GPU

    @property
    def peak_window_s(self) -> float:
        return self.window_s or max((limit.limit_s for limit in self.limits), default=DEFAULT_WINDOW_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Of one replica: the highest load at which the SLO holds."""

    clients: float  # requests in flight there
    rps: float  # requests of the measured workload
    tokens_s: float
    texts_s: float  # texts of the trace's mean length
    highest_measured: bool  # the SLO held at the highest measured load, so that capacity may be higher
    interpolated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """So many replicas at the trace's peak. `margin`: capacity above the peak, as a share of it; negative: too little.

    Latencies by percent, in seconds, are predictions; None: the peak is above every measured rate.
    """

    replicas: int
    margin: float
    in_flight_each: float | None  # at the peak, by Little's law: rate times latency of a closed loop is its clients
    latencies_s: dict[str, float] | None
    at_most: bool  # the peak is below the lowest measured load: latencies are upper bounds
    fits: bool  # the peak is within the capacity, so that the SLO holds
    texts_above: float  # share of the trace's texts that arrive while the window holds more than the capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowNeed:
    """The peak of one window, and the replicas that it needs, margin included."""

    window: Window
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """In the currency of the price. `per_million_characters`: of sources, with these replicas running all the time that the
    trace covers; `fully_used`: were they at their capacity all the time. None: characters are not known, or no time."""

    per_hour: float
    per_million_characters: float | None
    fully_used: float | None
    characters_estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCheck:
    """A load that was measured on several replicas, beside its prediction from the measurement of one."""

    name: str
    replicas: int
    clients: float
    measured_rps: float
    predicted_rps: float
    measured_p95_s: float
    predicted_p95_s: float

    @property
    def efficiency(self) -> float:
        """Measured requests a second, as a share of those predicted."""
        return self.measured_rps / self.predicted_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """`capacity` None: the SLO does not hold at the lowest measured load, however many replicas there are; `planned` is then
    None too, and the reason is the first of `notes`."""

    measured: Curve
    trace: str
    unit: str
    length_ratio: float  # mean tokens of the trace's texts to those measured
    peak_in_flight: int | None
    texts: int
    seconds: float
    peak: Window
    needs: tuple[WindowNeed, ...]
    capacity: Capacity | None
    planned: Situation | None
    after_one_failure: Situation | None  # None: there is no replica left, or no plan
    replicas_for_one_failure: int | None  # as many as hold the SLO at the peak without one of them, without margin
    cost: Cost | None
    checks: tuple[ScalingCheck, ...]
    notes: tuple[str, ...]

    @property
    def met(self) -> bool:
        """Whether the peak is within the capacity of what is planned, so that the SLO holds."""
        return self.planned is not None and self.planned.fits

    def document(self) -> dict[str, Any]:
        """JSON-ready; an infinite latency is null."""
        found: dict[str, Any] = asdict(self)
        found["met"] = self.met
        found["checks"] = [asdict(check) | {"efficiency": check.efficiency} for check in self.checks]
        return _finite(found)


def make_plan(curves: Sequence[Curve], trace: TraceDemand, options: PlanOptions) -> CapacityPlan:
    """From the measurement of one replica among `curves`; the others check it. Raises ConfigError (see `base_of`)."""
    base = base_of(curves)
    planner = _Planner(base, trace, options)
    capacity = planner.capacity()
    peak = trace.busiest(options.peak_window_s)
    windows = [peak, *(trace.busiest(s) for s in LONGER_WINDOWS_S if options.peak_window_s < s <= trace.seconds)]
    planned = left = None
    needs: list[WindowNeed] = []
    for_one_failure: int | None = None
    if capacity is not None:
        needs = [WindowNeed(window=one, replicas=planner.needed(one.tokens_s, capacity)) for one in windows]
        count = options.replicas or needs[0].replicas
        planned = planner.situation(count, peak, capacity)
        left = planner.situation(count - 1, peak, capacity) if count > 1 else None
        for_one_failure = ceil(peak.tokens_s / capacity.tokens_s - _TINY) + 1
    checks = tuple(check for curve in curves if curve is not base for check in scaling_checks(base, curve))
    return CapacityPlan(
        measured=base,
        trace=trace.name,
        unit=base.unit,
        length_ratio=planner.length_ratio,
        peak_in_flight=trace.peak_in_flight,
        texts=len(trace.tokens),
        seconds=trace.seconds,
        peak=peak,
        needs=tuple(needs),
        capacity=capacity,
        planned=planned,
        after_one_failure=left,
        replicas_for_one_failure=for_one_failure,
        cost=planner.cost(planned, capacity),
        checks=checks,
        notes=tuple(planner.notes(capacity, planned, checks)),
    )


def base_of(curves: Sequence[Curve]) -> Curve:
    """The measurement of one replica. Raises ConfigError where there is none or more than one, or where the others are of
    other hardware, another model or another workload."""
    single = [curve for curve in curves if curve.replicas == 1]
    if len(single) != 1:
        message = (
            f"{len(single)} of the results are of one replica: give exactly one such --result, and N=FILE for others"
        )
        raise ConfigError(message, param="result")
    base = single[0]
    for curve in curves:
        for name in ("hardware", "model", "workload"):
            ours, theirs = getattr(base, name), getattr(curve, name)
            if ours != theirs:
                message = f"{base.name} and {curve.name} cannot be compared: {name} {ours!r} and {theirs!r}"
                raise ConfigError(message, param="result")
    return base


def scaling_checks(base: Curve, other: Curve) -> list[ScalingCheck]:
    """Each load of `other` that has, divided by its replicas, a measured or interpolated load of one."""
    found: list[ScalingCheck] = []
    for load in other.loads:
        one = base.at_clients(load.clients / other.replicas)
        if one is not None and one.rps > 0:
            check = ScalingCheck(
                name=other.name,
                replicas=other.replicas,
                clients=load.clients,
                measured_rps=load.rps,
                predicted_rps=one.rps * other.replicas,
                measured_p95_s=load.latencies_s[95],
                predicted_p95_s=one.latencies_s[95],
            )
            found.append(check)
    return found


class _Planner:
    """One measurement, one trace and the options; the parts of a plan."""

    def __init__(self, base: Curve, trace: TraceDemand, options: PlanOptions) -> None:
        self._base, self._trace, self._options = base, trace, options
        self.length_ratio = trace.lengths.mean / base.lengths.mean
        self._factors = {p: trace.lengths.percentiles[p] / base.lengths.percentiles[p] for p in PERCENTS}

    def capacity(self) -> Capacity | None:
        found = self._base.highest_within(self._options.limits, self._factors)
        if found is None or not found.rps:
            return None
        return Capacity(
            clients=found.clients,
            rps=found.rps,
            tokens_s=found.rps * self._base.lengths.mean,
            texts_s=found.rps / self.length_ratio,
            highest_measured=found.clients == self._base.rising[-1].clients,
            interpolated=all(found.clients != load.clients for load in self._base.loads),
        )

    def needed(self, tokens_s: float, capacity: Capacity) -> int:
        return max(1, ceil(tokens_s * (1 + self._options.margin) / capacity.tokens_s - _TINY))

    def situation(self, replicas: int, peak: Window, capacity: Capacity) -> Situation:
        rps_each = peak.tokens_s / self._base.lengths.mean / replicas
        load = self._base.at_rate(rps_each)
        margin = replicas * capacity.tokens_s / peak.tokens_s - 1
        return Situation(
            replicas=replicas,
            margin=margin,
            in_flight_each=load.clients * min(1.0, rps_each / load.rps) if load is not None else None,
            latencies_s=self._latencies(load),
            at_most=rps_each < self._base.rising[0].rps,
            fits=margin >= -_TINY,
            texts_above=self._trace.share_above(peak.seconds, replicas * capacity.tokens_s),
        )

    def _latencies(self, load: MeasuredLoad | None) -> dict[str, float] | None:
        if load is None:
            return None
        return {f"p{percent}_s": load.latencies_s[percent] * self._factors[percent] for percent in PERCENTS}

    def cost(self, planned: Situation | None, capacity: Capacity | None) -> Cost | None:
        price = self._options.price_per_hour
        if price is None or planned is None or capacity is None:
            return None
        per_hour = price * planned.replicas * self._base.gpus_per_replica
        millions = (self._trace.characters or 0.0) / 1e6
        by_text = millions / len(self._trace.tokens)
        by_hour = capacity.texts_s * planned.replicas * 3600 * by_text
        covered = millions and self._trace.seconds
        return Cost(
            per_hour=per_hour,
            per_million_characters=per_hour * self._trace.seconds / 3600 / millions if covered else None,
            fully_used=per_hour / by_hour if by_hour else None,
            characters_estimated=self._trace.characters_estimated,
        )

    def notes(self, capacity: Capacity | None, planned: Situation | None, checks: Sequence[ScalingCheck]) -> list[str]:
        """What a reader must know of the numbers, in sentences."""
        base, found = self._base, list[str]()
        if capacity is None:
            lowest = base.rising[0]
            found.append(
                f"the SLO does not hold at the lowest measured load, {lowest.clients:g} in flight: no number of replicas "
                "meets it as far as was measured; measure fewer clients, or a faster configuration"
            )
        elif capacity.highest_measured:
            found.append(
                f"{capacity.clients:g} in flight is the highest measured load; the capacity of a replica may be higher, "
                "more was not measured"
            )
        if abs(self.length_ratio - 1) > SIMILAR:
            found.append(
                f"texts of the trace have {self.length_ratio:.2f} times the {base.unit} of the measured ones: rates and "
                "latencies are corrected by tokens; to measure instead, use dragoman bench --workload TRACE"
            )
        if capacity is not None and capacity.texts_s > base.rising[-1].rps * (1 + SIMILAR):
            found.append(
                f"{capacity.texts_s:.0f} texts/s a replica are more than any that was measured "
                f"({base.rising[-1].rps:.0f}): the cost of a request that does not depend on its length is not counted"
            )
        if planned is not None and planned.at_most:
            found.append("each replica is below the lowest measured load at the peak: latencies are upper bounds")
        if self._trace.seconds < 86_400:
            found.append(
                f"the trace covers {self._trace.seconds / 3600:.3g} h: a peak outside of it is not in this plan"
            )
        if self._trace.estimated:
            found.append(f"lengths of {self._trace.estimated} texts are estimated: they have no output")
        slow = [check for check in checks if check.efficiency < 1 - SIMILAR]
        if slow:
            worst = min(slow, key=lambda check: check.efficiency)
            found.append(
                f"{worst.replicas} replicas reached {worst.efficiency:.2f} of the prediction at {worst.clients:g} "
                "clients: choose a margin that covers it"
            )
        return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and isinf(value) else value
