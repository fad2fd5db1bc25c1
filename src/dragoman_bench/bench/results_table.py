"""Results as Markdown: the conditions in a few lines, one row a load level, and notes on what limits the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median

from dragoman_bench.bench import tables
from dragoman_bench.bench.results import Conditions, Machine, Measurement, Point, Results, elements

CLIENT_LIMIT = 0.8  # of one core, or of the client's own maximum: beyond it a number may be the client's
LAG_S = 0.05
_METRICS: tuple[tuple[str, str, float, str], ...] = (
    ("req/s", "rps", 1, ""),
    ("output tok/s", "output_tokens_s", 1, ""),
    ("p50 s", "e2e_p50_s", 1, ""),
    ("p95 s", "e2e_p95_s", 1, ""),
    ("p99 s", "e2e_p99_s", 1, ""),
    ("TTFT p95 ms", "ttft_p95_s", 1000, ""),
    ("ITL p95 ms", "itl_p95_s", 1000, ""),
    ("goodput req/s", "goodput_rps", 1, ""),
    ("engine busy", "engine_busy_share", 100, " %"),
    ("GPU", "gpu_mean_percent", 1, " %"),
)
"""Title, name in `summary.METRICS`, factor, unit."""


def markdown(results: Results) -> str:
    """Columns that no point has a number for are left out."""
    columns = ["load", *(title for title, *_ in _METRICS), "SLO", "failed"]
    rows = [
        [
            point.load.label,
            *(tables.Cell.ranged(point.spreads.get(name), scale, unit) for _, name, scale, unit in _METRICS),
            slo_cell(point),
            failed_share_text(point),
        ]
        for point in results.points
    ]
    notes = tables.bullets(notes_on(results))
    table = tables.markdown(tables.table("", columns, rows).pruned())
    return "\n".join([*headline(results.conditions), "", table, *(["", notes] if notes else [])])


def headline(conditions: Conditions) -> list[str]:
    """What was measured, on which machine, with which workload."""
    model = f", model {conditions.model}" if conditions.model else ""
    slo = [f"SLO: {conditions.slo}."] if conditions.slo else []
    server = server_hardware(conditions)
    return [
        f"{conditions.target} at {conditions.url}{model}, on {machine_text(conditions.machine)}.",
        *([f"The server reports {server}."] if server else []),
        f"Workload {conditions.workload}.",
        *slo,
    ]


def machine_text(machine: Machine) -> str:
    """CPU with its instruction sets, cores, GPUs."""
    sets = f" ({', '.join(machine.cpu_instruction_sets)})" if machine.cpu_instruction_sets else ""
    return ", ".join([f"{machine.cpu}{sets}", f"{machine.cores} cores", *(gpu.name for gpu in machine.gpus)])


def server_hardware(conditions: Conditions) -> str:
    """The device, dtype and CPU instruction sets that the server reports; empty where it reports none of them."""
    server = conditions.server
    sets = map(str, elements(server.get("cpu_instruction_sets")))
    found = [("device", server.get("device")), ("dtype", server.get("dtype")), ("CPU instruction sets", " ".join(sets))]
    return ", ".join(f"{name} {value}" for name, value in found if value)


def slo_cell(point: Point) -> tables.Cell:
    """Whether the repeats met the SLO, and the limits that they missed."""
    met = [repeat.summary.slo_met for repeat in point.repeats]
    if None in met:
        return tables.EMPTY
    if all(met):
        return tables.Cell("met", tone="good")
    return tables.Cell("missed" if not any(met) else f"met in {sum(map(bool, met))} of {len(met)}", tone="bad")


def failed_share_text(point: Point) -> str:
    """The median over repeats of the share of requests that did not complete."""
    shares = [1 - repeat.summary.completed / max(1, repeat.summary.requests) for repeat in point.repeats]
    return tables.percent(median(shares), 1) if any(shares) else "0"


def notes_on(results: Results) -> Iterator[str]:
    """What would mislead a reader who does not know it."""
    if results.partial:
        yield "Interrupted: these are the measurements made so far."
    for point in results.points:
        label = point.load.label
        if any(repeat.stopped == "saturated" for repeat in point.repeats):
            yield f"{label}: stopped early, requests in flight and latency kept growing; this load is not sustained."
        errors = Counter[str]()
        for repeat in point.repeats:
            errors.update(repeat.summary.errors)
        if errors:
            counts = ", ".join(f"{count} {kind}" for kind, count in errors.most_common())
            yield f"{label}: failed requests: {counts}."
        yield from (f"{label}: {note}" for note in _client_notes(point))
        if any(len(repeat.records) > repeat.distinct_texts for repeat in point.repeats):
            yield f"{label}: texts were sent more than once; a translation memory or prefix cache makes such numbers better."


def _client_notes(point: Point) -> Iterator[str]:
    busiest = max(repeat.client.cpu_share for repeat in point.repeats)
    if busiest > CLIENT_LIMIT:
        yield f"the client used {busiest:.0%} of a core and may be the limit; use more --client-processes."
    lag_s = max(repeat.client.lag_p99_s for repeat in point.repeats)
    if lag_s > LAG_S:
        yield f"1 % of requests were sent {lag_s * 1000:.0f} ms or more after their time; latency counts from that time."
    if any(map(_near_maximum, point.repeats)):
        yield "the rate is near the client's own maximum, which may be the limit."


def _near_maximum(repeat: Measurement) -> bool:
    maximum = repeat.client.maximum_rps
    return maximum is not None and repeat.summary.rps > CLIENT_LIMIT * maximum
