"""Who is faster, and by how much, where that is more than the repeats differ among themselves.

At each load level every result is compared with the first and with the best. Two that lie closer together than their
spread are called equal (`spread.compare`), whatever their medians say.
"""

from __future__ import annotations

from dragoman_bench.bench.results import Load, Point, Spread
from dragoman_bench.bench.summary import compare
from dragoman_bench.report.cells import EMPTY, Cell, Tone, spread
from dragoman_bench.report.charts.numbers import number
from dragoman_bench.report.charts.selection import Named, loads_of, of_band, points_at, spread_over
from dragoman_bench.report.flags import flags_of
from dragoman_bench.report.tables import Row, Table, failures

EQUAL = "equal"
_HIGHER_IS_BETTER = {"rps": True, "output_tokens_s": True, "goodput_rps": True}


def at_a_glance(named: Named, load: Load) -> Table:
    """One load level in a handful of columns."""
    points = points_at(named, load)
    rows = [
        Row(load.label, name, list(named).index(name), _glance(point, _first(points)), flags_of(named[name], point))
        for name, point in points.items()
    ]
    columns = (
        "req/s",
        "against the first",
        "p50 s",
        "p95 s",
        "short texts p50 s",
        "goodput req/s",
        "GPU mean",
        "failed",
    )
    kept = [place for place in range(len(columns)) if any(not row.cells[place].empty for row in rows)]
    return Table(
        "glance",
        f"At a glance: {load.label}",
        "Median of the repeats [lowest..highest].",
        tuple(columns[place] for place in kept),
        tuple(Row(r.load, r.name, r.number, tuple(r.cells[place] for place in kept), r.flags) for r in rows),
    )


def against_first(named: Named) -> Table | None:
    """Every load level that the first and another measured; None where there is none."""
    metrics = (("rps", "req/s"), ("output_tokens_s", "output tok/s"), ("e2e_p50_s", "p50"), ("e2e_p95_s", "p95"))
    rows: list[Row] = []
    for load in loads_of(named):
        points = points_at(named, load)
        if len(points) < 2:
            continue
        for name, point in points.items():
            verdicts = [ratio(point, _first(points), metric) for metric, _ in metrics]
            cells = (*verdicts, standing(name, points, "rps"), standing(name, points, "e2e_p95_s"))
            rows.append(Row(load.label, name, list(named).index(name), cells, flags_of(named[name], point)))
    if not rows:
        return None
    told = "Against the first of each load level, and the best. Equal: closer together than their repeats differ."
    columns = (*(title for _, title in metrics), "of all, req/s", "of all, p95")
    return Table("against", "Compared with each other", told, columns, tuple(rows))


def ratio(point: Point, base: Point, metric: str) -> Cell:
    """`6.9×` higher or lower, or equal; good or bad by what is better of this metric."""
    mine, other = point.spreads.get(metric), base.spreads.get(metric)
    if mine is None or other is None:
        return EMPTY
    if point is base:
        return Cell("1", "the first")
    found = compare(mine, other)
    if found == "equal":
        return Cell(EQUAL)
    better = (found == "higher") == _HIGHER_IS_BETTER.get(metric, False)
    tone: Tone = "good" if better else "bad"
    less, more = sorted((mine.median, other.median))
    return Cell(f"{number(more / less)}×", found, tone) if less > 0 else Cell(found, tone=tone)


def standing(name: str, points: dict[str, Point], metric: str) -> Cell:
    """`best`, `equal to the best`, or nothing said."""
    known: dict[str, Spread] = {who: point.spreads[metric] for who, point in points.items() if metric in point.spreads}
    if name not in known:
        return EMPTY
    choose = max if _HIGHER_IS_BETTER.get(metric, False) else min
    best = choose(known, key=lambda who: known[who].median)
    if name == best:
        return Cell("best", tone="good")
    return Cell("equal to the best") if compare(known[name], known[best]) == "equal" else EMPTY


def _first(points: dict[str, Point]) -> Point:
    return next(iter(points.values()))


def _glance(point: Point, first: Point) -> tuple[Cell, ...]:
    metric = point.spreads.get
    return (
        spread(metric("rps")),
        ratio(point, first, "rps"),
        spread(metric("e2e_p50_s")),
        spread(metric("e2e_p95_s")),
        spread(spread_over(point, of_band("short", "p50_s"))),
        spread(metric("goodput_rps")),
        spread(metric("gpu_mean_percent"), 1, "%"),
        failures(point),
    )
