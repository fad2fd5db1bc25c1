"""The columns of a tune's tables: how each number of a measurement is read over its repeats, and what it is called.

Knows measurements and cells; which table has which rows is `tables`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dragoman_bench.bench.tables import EMPTY, Cell, number
from dragoman_bench.tune.figures import spread
from dragoman_bench.tune.points import Seen

Column = tuple[str, Callable[[Sequence[Seen]], Cell]]


def _of(read: Callable[[Seen], float | None], times: float = 1.0, unit: str = "") -> Callable[[Sequence[Seen]], Cell]:
    return lambda seen: Cell.ranged(spread(seen, read), times, unit)


def _most(read: Callable[[Seen], float | None], unit: str = "") -> Callable[[Sequence[Seen]], Cell]:
    """The highest of the repeats: a peak is not averaged away."""

    def found(seen: Sequence[Seen]) -> Cell:
        values = [value for one in seen if (value := read(one)) is not None]
        return Cell(f"{number(max(values)) if unit else f'{max(values):,.0f}'}{unit}") if values else EMPTY

    return found


def _harm(read: Callable[[Seen], int | None]) -> Callable[[Sequence[Seen]], Cell]:
    """A count that should be nought."""

    def found(seen: Sequence[Seen]) -> Cell:
        values = [value for one in seen if (value := read(one)) is not None]
        return Cell(f"{sum(values):,}", tone="bad" if any(values) else "") if values else EMPTY

    return found


def _slo(seen: Sequence[Seen]) -> Cell:
    met = [one.slo_met for one in seen if one.slo_met is not None]
    if not met:
        return EMPTY
    if all(met):
        return Cell("met", tone="good")
    missed = sorted({verdict.limit for one in seen for verdict in one.verdicts if not verdict.met})
    told = "missed" if not any(met) else f"met in {sum(met)} of {len(met)}"
    return Cell(told, "; ".join(missed), "bad")


def _percent(usage: float | None) -> float | None:
    return None if usage is None else usage * 100


def _columns(*groups: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(column for group in groups for column in group)


_RATES: tuple[Column, ...] = (
    ("goodput req/s", _of(lambda seen: seen.goodput_rps)),
    ("req/s", _of(lambda seen: seen.rps)),
)
_TAIL: tuple[Column, ...] = (
    ("p95 s", _of(lambda seen: seen.e2e_p95_s)),
    ("p99 s", _of(lambda seen: seen.e2e_p99_s)),
)
_HARM: tuple[Column, ...] = (
    ("preempted", _harm(lambda seen: seen.preemptions)),
    ("failed", _harm(lambda seen: seen.failed)),
)
BRIEF = _columns(_RATES, _TAIL[:1], _HARM)
LADDER = _columns(
    _RATES,
    [("p50 s", _of(lambda seen: seen.e2e_p50_s))],
    _TAIL,
    [
        ("decode ms per token", _of(lambda seen: seen.decode_s_per_token, 1000)),
        ("ITL p95 ms", _of(lambda seen: seen.itl_p95_s, 1000)),
        ("SLO", _slo),
        ("running, mean", _of(lambda seen: seen.mean_running)),
        ("waiting in the engine, mean", _of(lambda seen: seen.mean_waiting)),
        ("waiting at most", _most(lambda seen: seen.peak_waiting)),
        ("KV cache peak", _most(lambda seen: _percent(seen.peak_kv_cache_usage), "%")),
        ("GPU mean", _of(lambda seen: seen.gpu_mean_percent, 1, "%")),
    ],
    _HARM,
)
FINAL = _columns(
    _RATES, _TAIL, [("decode ms per token", _of(lambda seen: seen.decode_s_per_token, 1000)), ("SLO", _slo)], _HARM
)
_LEFT_OUT = frozenset({"p50 s", "ITL p95 ms", "running, mean", "waiting at most", "failed"})
SHORT_LADDER = tuple(column for column in LADDER if column[0] not in _LEFT_OUT)
"""For a terminal, which is not as wide as a page."""
