"""The tables of a report: at a glance, compared with each other, every point in numbers, and what a reader must know.

A cell is the median of the repeats and, in brackets, their lowest and highest. Columns without a number are left out. Two
results that are closer together than their range are called equal (`compare`), whatever their medians are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Load, Point, Results, Spread, Summary
from dragoman_bench.bench.summary import BANDS, compare
from dragoman_bench.bench.tables import EMPTY, Cell, Column, Row, Table, Tone, count, notes_on, number
from dragoman_bench.report.named import Named, failed_share, loads_of, of_band, point_at, points_at, spread_over

Read = Callable[[Results, Point], Cell]
EQUAL = "equal"
UNREPEATED = "measured once: its spread is unknown, and 10 % of the median stands for it in comparisons."
_HIGHER_IS_BETTER = frozenset({"rps", "output_tokens_s", "goodput_rps"})
_RANGES = "Median of the repeats [lowest..highest]."


def at_a_glance(named: Named, load: Load) -> Table:
    """One load level in a handful of columns; results are compared with the first."""
    first = next(iter(points_at(named, load).values()))
    columns: dict[str, Read] = {
        "req/s": _spread("rps"),
        "against the first": lambda _, point: ratio(point, first, "rps"),
        "p50 s": _spread("e2e_p50_s"),
        "p95 s": _spread("e2e_p95_s"),
        "short texts p50 s": _over(of_band("short", "p50_s")),
        "goodput req/s": _spread("goodput_rps"),
        "GPU mean": _spread("gpu_mean_percent", 1, "%"),
        "failed": lambda _, point: failures(point),
    }
    return _table("glance", f"At a glance: {load.label}", _RANGES, named, columns, [load])


def against_first(named: Named) -> Table | None:
    """Every load level that several results have; None where there is none."""
    loads = [load for load in loads_of(named) if len(points_at(named, load)) > 1]
    if not loads:
        return None
    metrics = {"rps": "req/s", "output_tokens_s": "output tok/s", "e2e_p50_s": "p50", "e2e_p95_s": "p95"}
    columns: dict[str, Read] = {title: _against(named, metric) for metric, title in metrics.items()}
    columns |= {"best req/s": _standing(named, "rps"), "best p95": _standing(named, "e2e_p95_s")}
    note = "Compared with the first of each load level, and with the best. Equal: closer together than their repeats differ."
    return _table("against", "Compared with each other", note, named, columns, loads)


def all_tables(named: Named) -> list[Table]:
    """Every point in numbers; without the tables that have not a single number."""
    made = [
        _table("points", "Throughput and latency", f"{_RANGES} Latency is of completed requests.", named, _POINTS),
        _table("outcomes", "Goodput and failures", f"{_RANGES} Requests of all repeats.", named, _OUTCOMES),
        _table("bands", "Latency by length of the source text", "End to end, seconds: p50 / p95 / p99.", named, _BANDS),
        _table("streaming", "Streaming", f"{_RANGES} Milliseconds. ITL counts gaps between events.", named, _STREAM),
        _table("busy", "How busy everything was", _BUSY_NOTE, named, _BUSY),
    ]
    return [table for table in made if table.has_values]


def ratio(point: Point, base: Point, metric: str) -> Cell:
    """`6.9×` higher or lower, or equal; good or bad by what is better for this metric."""
    mine, other = point.spreads.get(metric), base.spreads.get(metric)
    if mine is None or other is None:
        return EMPTY
    if point is base:
        return Cell("1", "the first")
    found = compare(mine, other)
    if found == "equal":
        return Cell(EQUAL)
    tone: Tone = "good" if (found == "higher") == (metric in _HIGHER_IS_BETTER) else "bad"
    less, more = sorted((mine.median, other.median))
    return Cell(f"{number(more / less)}×", found, tone) if less > 0 else Cell(found, tone=tone)


def failures(point: Point) -> Cell:
    """The share of requests that failed, and by kind how many."""
    kinds: Counter[str] = Counter()
    for repeat in point.repeats:
        kinds.update({str(kind): found for kind, found in repeat.summary.errors.items()})
    if not kinds:
        return Cell("0")
    detail = ", ".join(f"{found} {kind.replace('_', ' ')}" for kind, found in kinds.most_common())
    return Cell(f"{failed_share(point):.2%}", detail, "bad")


def flags_of(results: Results, point: Point) -> tuple[str, ...]:
    """Short warnings beside a point, the worst first."""
    found = [why for why in ("saturated", "interrupted") if any(repeat.stopped == why for repeat in point.repeats)]
    wanted = results.conditions.options.get("repeats")
    if isinstance(wanted, int) and len(point.repeats) < wanted:
        found.append(f"partial: {len(point.repeats)} of {wanted} repeats")
    share = failed_share(point)
    if share:
        found.append(f"{share:.1%} failed" if share >= 0.001 else "some failed")
    return tuple(found)


def notes(named: Named) -> list[str]:
    """What a reader must know to trust the numbers, once where several results share it."""
    names: dict[str, list[str]] = {}
    for name, results in named.items():
        for text in (*notes_on(results), *_own_notes(results)):
            names.setdefault(text, []).append(name)
    return [f"{'All' if len(of) == len(named) > 1 else ', '.join(of)}: {text}" for text, of in names.items()]


def _own_notes(results: Results) -> Iterator[str]:
    if results.partial and len(results.points) < len(results.conditions.loads):
        yield f"{len(results.points)} of {len(results.conditions.loads)} load levels were measured."
    once = [point.load.label for point in results.points if len(point.repeats) == 1]
    if once:
        yield f"{', '.join(once)}: {UNREPEATED}"
    if (results.conditions.git_commit or "").endswith("-dirty"):
        yield "measured with source files that differ from the commit."


def _table(
    slug: str, title: str, note: str, named: Named, columns: dict[str, Read], loads: Sequence[Load] | None = None
) -> Table:
    """A row for each result at each load; the first two columns name it."""
    rows: list[Row] = []
    for load in loads if loads is not None else loads_of(named):
        for place, (name, results) in enumerate(named.items()):
            point = point_at(results, load)
            if point is not None:
                cells = (Cell(load.label), Cell(name), *(read(results, point) for read in columns.values()))
                rows.append(Row(cells, flags_of(results, point), series=place))
    heads = (Column("load", "left"), Column("result", "left"))
    return Table(title, (*heads, *map(Column, columns)), tuple(rows), note, slug, heads=2).pruned()


def _against(named: Named, metric: str) -> Read:
    return lambda _, point: ratio(point, next(iter(points_at(named, point.load).values())), metric)


def _standing(named: Named, metric: str) -> Read:
    """`best`, `equal to the best`, or empty."""
    choose = max if metric in _HIGHER_IS_BETTER else min

    def read(_: Results, point: Point) -> Cell:
        spreads = [one.spreads[metric] for one in points_at(named, point.load).values() if metric in one.spreads]
        mine = point.spreads.get(metric)
        if mine is None:
            return EMPTY
        best: Spread = choose(spreads, key=lambda spread: spread.median)
        if mine == best:
            return Cell("best", tone="good")
        return Cell("equal to the best") if compare(mine, best) == "equal" else EMPTY

    return read


def _spread(metric: str, scale: float = 1.0, unit: str = "") -> Read:
    return lambda _, point: Cell.ranged(point.spreads.get(metric), scale, unit)


def _over(read: Callable[[Summary], float | None], scale: float = 1.0, unit: str = "") -> Read:
    return lambda _, point: Cell.ranged(spread_over(point, read), scale, unit)


def _slo(_: Results, point: Point) -> Cell:
    met = [repeat.summary.slo_met for repeat in point.repeats]
    missed = {v.limit for repeat in point.repeats for v in repeat.summary.verdicts if not v.met}
    if None in met:
        return EMPTY
    if all(met):
        return Cell("met", tone="good")
    text = "missed" if not any(met) else f"met in {sum(map(bool, met))} of {len(met)}"
    return Cell(text, "; ".join(sorted(missed)), "bad")


def _band(band: LengthBand) -> Read:
    def read(_: Results, point: Point) -> Cell:
        found = [spread_over(point, of_band(band, name)) for name in ("p50_s", "p95_s", "p99_s")]
        requests = sum(repeat.summary.bands[band].requests for repeat in point.repeats if band in repeat.summary.bands)
        known = [number(each.median) for each in found if each is not None]
        return Cell(" / ".join(known), f"{requests} requests") if len(known) == len(found) else EMPTY

    return read


_POINTS: dict[str, Read] = {
    "req/s": _spread("rps"),
    "output tok/s": _spread("output_tokens_s"),
    "p50 s": _spread("e2e_p50_s"),
    "p90 s": _spread("e2e_p90_s"),
    "p95 s": _spread("e2e_p95_s"),
    "p99 s": _spread("e2e_p99_s"),
    "max s": _over(lambda summary: summary.e2e.max_s if summary.e2e else None),
}
_OUTCOMES: dict[str, Read] = {
    "goodput req/s": _spread("goodput_rps"),
    "within the SLO": _spread("attained_share", 100, "%"),
    "SLO": _slo,
    "requests": lambda _, point: Cell(count(sum(repeat.summary.requests for repeat in point.repeats))),
    "failed": lambda _, point: failures(point),
}
_BANDS: dict[str, Read] = {band: _band(band) for band in BANDS}
_STREAM: dict[str, Read] = {
    f"{name.upper()} {percentile}": _spread(f"{name}_{percentile}_s", 1000)
    for name in ("ttft", "itl", "tpot")
    for percentile in ("p50", "p95", "p99")
}
_BUSY_NOTE = (
    "Engine busy: the share of time in which it ran a step. GPU: NVML's share of time in which a kernel ran, on average, "
    "and the shares of samples below 10 % and above 80 %. Client: of one core."
)
_BUSY: dict[str, Read] = {
    "engine busy": _spread("engine_busy_share", 100, "%"),
    "in flight": _spread("mean_in_flight"),
    "running": _over(lambda summary: summary.mean_running),
    "waiting": _over(lambda summary: summary.mean_waiting),
    "most waiting": _over(lambda summary: summary.peak_waiting),
    "KV cache peak": _over(lambda summary: summary.peak_kv_cache_usage, 100, "%"),
    "preemptions": _over(lambda summary: summary.preemptions),
    "GPU mean": _spread("gpu_mean_percent", 1, "%"),
    "GPU < 10 %": _over(lambda summary: summary.gpu_share_below_10, 100, "%"),
    "GPU > 80 %": _over(lambda summary: summary.gpu_share_above_80, 100, "%"),
    "client CPU": lambda _, point: Cell(f"{max(repeat.client.cpu_share for repeat in point.repeats):.0%}"),
    "sent late, p99 ms": lambda _, point: Cell(number(1000 * max(r.client.lag_p99_s for r in point.repeats))),
}
