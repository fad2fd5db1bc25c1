"""Results as Markdown: conditions in a few lines, one row a point, and what a reader must know to trust it.

Knows the results only; charts and reports are drawn elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from dragoman_bench.bench.results import Conditions, Measurement, Point, Results, Spread

CLIENT_LIMIT = 0.8  # of one core, or of the client's own maximum: beyond it a number may be the client's
LAG_S = 0.05

_COLUMNS: tuple[tuple[str, Callable[[Point], str]], ...] = (
    ("load", lambda point: point.load.label),
    ("req/s", lambda point: _spread(point, "rps")),
    ("output tok/s", lambda point: _spread(point, "output_tokens_s")),
    ("p50 s", lambda point: _spread(point, "e2e_p50_s")),
    ("p95 s", lambda point: _spread(point, "e2e_p95_s")),
    ("p99 s", lambda point: _spread(point, "e2e_p99_s")),
    ("TTFT p95 ms", lambda point: _spread(point, "ttft_p95_s", 1000)),
    ("ITL p95 ms", lambda point: _spread(point, "itl_p95_s", 1000)),
    ("goodput req/s", lambda point: _spread(point, "goodput_rps")),
    ("SLO", lambda point: _slo(point)),
    ("failed", lambda point: _failed(point)),
    ("engine busy", lambda point: _spread(point, "engine_busy_share", 100, "%")),
    ("GPU", lambda point: _spread(point, "gpu_mean_percent", 1, "%")),
)


def markdown(results: Results) -> str:
    """Columns that no point has a number for are left out."""
    rows = [[cell(point) for _, cell in _COLUMNS] for point in results.points]
    kept = [column for column in range(len(_COLUMNS)) if any(row[column] != "–" for row in rows)]
    lines = [
        _row([_COLUMNS[column][0] for column in kept]),
        _row(["---"] + ["---:"] * (len(kept) - 1)),
        *(_row([row[column] for column in kept]) for row in rows),
    ]
    notes = [f"- {note}" for note in notes_on(results)]
    return "\n".join([*headline(results.conditions), "", *lines, *([""] if notes else []), *notes])


def headline(conditions: Conditions) -> list[str]:
    """What was measured, on what, with what."""
    gpus = ", ".join(gpu.name for gpu in conditions.machine.gpus)
    on = f"{conditions.machine.cpu}, {conditions.machine.cores} cores" + (f", {gpus}" if gpus else "")
    model = f", model {conditions.model}" if conditions.model else ""
    slo = [f"SLO: {conditions.slo}."] if conditions.slo else []
    return [f"{conditions.target} at {conditions.url}{model}, on {on}.", f"Workload {conditions.workload}.", *slo]


def notes_on(results: Results) -> Iterator[str]:
    """What would mislead if it were not said."""
    if results.partial:
        yield "Interrupted: these are the measurements made so far."
    for point in results.points:
        label = point.load.label
        if any(repeat.stopped == "saturated" for repeat in point.repeats):
            yield f"{label}: stopped early, requests in flight and latency kept growing; this load is not sustained."
        errors = _errors(point)
        if errors:
            yield f"{label}: failed requests: {errors}."
        yield from (f"{label}: {note}" for note in _client_notes(point))
        if any(len(repeat.records) > repeat.distinct_texts for repeat in point.repeats):
            yield f"{label}: texts were sent more than once; a translation memory or prefix cache would flatter this."


def _client_notes(point: Point) -> Iterator[str]:
    busiest = max(repeat.client.cpu_share for repeat in point.repeats)
    if busiest > CLIENT_LIMIT:
        yield f"the client used {busiest:.0%} of a core: it may be what was measured; use more --client-processes."
    lag = max(repeat.client.lag_p99_s for repeat in point.repeats)
    if lag > LAG_S:
        yield f"1 % of requests left {lag * 1000:.0f} ms or more after their time; their latency counts from that time."
    if any(_near_maximum(repeat) for repeat in point.repeats):
        yield "the rate is near the client's own maximum: it may be what was measured."


def _near_maximum(repeat: Measurement) -> bool:
    maximum = repeat.client.maximum_rps
    return maximum is not None and repeat.summary.rps > CLIENT_LIMIT * maximum


def _spread(point: Point, metric: str, times: float = 1.0, unit: str = "") -> str:
    spread = point.spreads.get(metric)
    if spread is None:
        return "–"
    told = f"{_number(spread.median * times)}{unit}"
    return told if spread.repeats == 1 else f"{told} ({_range(spread, times)})"


def _range(spread: Spread, times: float) -> str:
    return f"{_number(spread.low * times)}..{_number(spread.high * times)}"


def _number(value: float) -> str:
    """Three significant digits, without exponents."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}" if value < 1 else f"{value:.2f}"


def _slo(point: Point) -> str:
    met = [repeat.summary.slo_met for repeat in point.repeats]
    if None in met:
        return "–"
    if all(met) or not any(met):
        return "met" if all(met) else "missed"
    return f"met in {sum(map(bool, met))} of {len(met)}"


def _failed(point: Point) -> str:
    shares = [1 - repeat.summary.completed / max(1, repeat.summary.requests) for repeat in point.repeats]
    return "0" if not any(shares) else f"{median(shares):.1%}"


def _errors(point: Point) -> str:
    counts: dict[str, int] = {}
    for repeat in point.repeats:
        for kind, count in repeat.summary.errors.items():
            counts[kind] = counts.get(kind, 0) + count
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda item: -item[1]))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
