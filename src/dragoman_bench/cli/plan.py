"""`dragoman plan`: how many GPUs a recorded traffic needs, computed from measurements of one replica.

stdout gets the tables or, with --json, one JSON document. Exit code 0: the SLO holds at the peak with what is planned; 1: it
does not; 2: bad input.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.tables import count, number, percent, seconds
from dragoman_bench.plan.capacity import DEFAULT_MARGIN, CapacityPlan, PlanOptions, Situation, base_of, make_plan
from dragoman_bench.plan.curve import by_percent, read_curve
from dragoman_bench.plan.peaks import read_demand

NOT_MET = 1
_POSITIVE = click.FloatRange(0, min_open=True)


@click.command("plan")
@click.option(
    "--trace",
    required=True,
    type=click.Path(path_type=Path),
    help="The traffic: a .jsonl file of `dragoman traffic export`.",
)
@click.option(
    "--result",
    "results",
    required=True,
    multiple=True,
    metavar="[N=]FILE",
    help="Closed-loop results of `dragoman bench`, or a tune.json; exactly one of one replica. Those of N replicas check "
    "the prediction.",
)
@click.option("--slo", help="Limits that must hold at the peak, such as p95_s=2,p99_s=4.")
@click.option(
    "--replicas", type=click.IntRange(1), help="Say what so many replicas give.  [default: as many as needed]"
)
@click.option(
    "--margin",
    type=click.FloatRange(0),
    default=DEFAULT_MARGIN,
    show_default=True,
    help="Capacity above the peak, as a share.",
)
@click.option(
    "--window",
    "window_s",
    type=_POSITIVE,
    metavar="SECONDS",
    help="Length of a peak.  [default: the SLO's longest limit, or 10]",
)
@click.option("--price-per-hour", type=_POSITIVE, help="Of one GPU, in any currency.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    trace: Path,
    results: tuple[str, ...],
    slo: str | None,
    replicas: int | None,
    margin: float,
    window_s: float | None,
    price_per_hour: float | None,
    as_json: bool,
) -> None:
    """Compute how many GPUs a recorded traffic needs at its peak under an SLO, what a failure of one leaves, and the cost.

    Nothing is measured: throughput and latency by load come from --result, peaks from --trace.
    """
    limits = parse_slo(slo).limits if slo is not None else ()
    by_percent(limits)
    if window_s is not None and not window_s < float("inf"):
        raise ConfigError(f"--window {window_s} is not a length in seconds", param="window")
    curves = [read_curve(text) for text in results]
    base = base_of(curves)
    demand = read_demand(trace, base.unit, base.characters_per_unit)
    options = PlanOptions(
        limits=limits, margin=margin, window_s=window_s, replicas=replicas, price_per_hour=price_per_hour
    )
    plan = make_plan(curves, demand, options)
    if as_json:
        click.echo(json.dumps(plan.document(), ensure_ascii=False))
    else:
        _show(plan, Console(markup=False, emoji=False))
    if not plan.met:
        click.get_current_context().exit(NOT_MET)


def _show(plan: CapacityPlan, console: Console) -> None:
    one = plan.measured
    gpus = "" if one.gpus_per_replica == 1 else f", {one.gpus_per_replica} GPUs a replica"
    _line(console, f"measured: {one.hardware}{gpus}, {one.model}, {one.workload} ({one.name})")
    _line(console, f"traffic: {count(plan.texts)} texts over {number(plan.seconds / 3600)} h ({plan.trace})")
    if plan.peak_in_flight is not None:
        _line(console, f"recorded: at most {count(plan.peak_in_flight)} texts in flight, on the servers of that time")
    if plan.needs:
        console.print(_peaks(plan))
    if plan.capacity is not None:
        how = "interpolated between measured loads" if plan.capacity.interpolated else "measured"
        _line(
            console,
            f"capacity of a replica under the SLO: {number(plan.capacity.tokens_s)} {plan.unit}/s, "
            f"{number(plan.capacity.texts_s)} texts/s of the trace's mean length, with "
            f"{number(plan.capacity.clients)} in flight ({how})",
        )
    if plan.planned is not None:
        console.print(_situations(plan, plan.planned))
        _line(console, f"to hold the SLO at the peak without one of them: {plan.replicas_for_one_failure} replicas")
    _show_cost(plan, console)
    if plan.checks:
        console.print(_checks(plan))
    for note in plan.notes:
        _line(console, f"note: {note}")
    _line(console, _conclusion(plan))


def _peaks(plan: CapacityPlan) -> Table:
    table = Table("busiest window", "texts/s", f"{plan.unit}/s", "replicas, with margin", title="Peaks")
    for need in plan.needs:
        window = need.window
        table.add_row(seconds(window.seconds), number(window.texts_s), number(window.tokens_s), str(need.replicas))
    return table


def _situations(plan: CapacityPlan, planned: Situation) -> Table:
    left = plan.after_one_failure
    table = Table("at the peak", "planned", "one has failed")
    rows = zip(_cells(planned), _cells(left) if left is not None else ["0", "none", *["-"] * 5, "100 %"], strict=True)
    names = ("replicas", "margin", "in flight each", "p50", "p95", "p99", "within capacity", "texts above capacity")
    for name, (now, then) in zip(names, rows, strict=True):
        table.add_row(name, now, then)
    return table


def _cells(now: Situation) -> list[str]:
    known, bound = now.latencies_s or {}, "≤ " if now.at_most else ""
    latencies = [bound + seconds(known[key]) if known else "not measured" for key in ("p50_s", "p95_s", "p99_s")]
    fits = "yes" if now.fits else "no"
    return [
        *(str(now.replicas), percent(now.margin), number(now.in_flight_each)),
        *(*latencies, fits, percent(now.texts_above, 1)),
    ]


def _show_cost(plan: CapacityPlan, console: Console) -> None:
    if plan.cost is None:
        return
    estimated = " (characters estimated from tokens)" if plan.cost.characters_estimated else ""
    _line(
        console,
        f"cost: {number(plan.cost.per_hour)} an hour; {number(plan.cost.per_million_characters)} a million source characters "
        f"at this traffic, {number(plan.cost.fully_used)} were they fully used{estimated}",
    )


def _checks(plan: CapacityPlan) -> Table:
    table = Table(
        *("replicas", "clients", "req/s predicted", "measured", "efficiency", "p95 predicted", "measured"),
        title="Prediction from one replica, and measurement",
    )
    for check in plan.checks:
        rates = number(check.predicted_rps), number(check.measured_rps), f"{check.efficiency:.2f}"
        latencies = seconds(check.predicted_p95_s), seconds(check.measured_p95_s)
        table.add_row(str(check.replicas), f"{check.clients:g}", *rates, *latencies)
    return table


def _conclusion(plan: CapacityPlan) -> str:
    if plan.planned is None:
        return "no plan: no measured load meets the SLO"
    gpus, replicas = plan.planned.replicas * plan.measured.gpus_per_replica, plan.planned.replicas
    what = f"{replicas} replica{'s' * (replicas > 1)} ({gpus} GPU{'s' * (gpus > 1)})"
    if plan.met:
        return f"{what}: the peak is within their capacity, with a margin of {percent(plan.planned.margin)}"
    return f"{what}: too few, the peak is {percent(1 / (1 + plan.planned.margin))} of their capacity"


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
