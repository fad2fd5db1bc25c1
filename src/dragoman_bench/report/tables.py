"""The tables of a report: every point in numbers, compared with the first, the conditions, and what a reader must know.

A cell is the median of the repeats and, in brackets, their lowest and highest. Columns without a number are left out. Two
results that are closer together than their range are called equal (`compare`), whatever their medians are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from dragoman.wire import LengthBand
from dragoman_bench.bench.results import Conditions, Load, Point, Results
from dragoman_bench.bench.summary import BANDS, compare
from dragoman_bench.bench.tables import EMPTY, Cell, Column, Row, Table, Tone, count, notes_on, number, slo_cell, table
from dragoman_bench.report.named import Named, loads_of, of_band, points_at, spread_over

Read = Callable[[Point], Cell]
HIGHER_IS_BETTER = frozenset({"rps", "output_tokens_s"})
UNLIKE = "These results were not measured under the same conditions"
UNLIKE_NOTE = "What differs here is not what was compared, and may be the reason for a difference."
_UNREPEATED = "measured once: its spread is unknown, and 10 % of the median stands for it in comparisons."
_RANGES = "Median of the repeats [lowest..highest]."
_ABSENT = "not set"
_COMPARED = ("target", "model", "server", "loads", "started_at", "url")


def _spread(metric: str, scale: float = 1.0, unit: str = "") -> Read:
    """A metric of the point, or a member of its summaries."""
    return lambda point: Cell.ranged(
        point.spreads.get(metric) or spread_over(point, lambda summary: getattr(summary, metric, None)), scale, unit
    )


def _band(band: LengthBand) -> Read:
    def read(point: Point) -> Cell:
        found = [of_band(point, band, name) for name in ("p50_s", "p95_s", "p99_s")]
        requests = sum(repeat.summary.bands[band].requests for repeat in point.repeats if band in repeat.summary.bands)
        known = [number(each.median) for each in found if each is not None]
        return Cell(" / ".join(known), f"{requests} requests") if len(known) == len(found) else EMPTY

    return read


def failures(point: Point) -> Cell:
    """The share of requests that failed, and by kind how many."""
    kinds: Counter[str] = Counter()
    for repeat in point.repeats:
        kinds.update({str(kind): found for kind, found in repeat.summary.errors.items()})
    if not kinds:
        return Cell("0")
    detail = ", ".join(f"{found} {kind.replace('_', ' ')}" for kind, found in kinds.most_common())
    return Cell(f"{kinds.total() / sum(repeat.summary.requests for repeat in point.repeats):.2%}", detail, "bad")


_LATENCIES: dict[str, Read] = {
    f"{percentile} s": _spread(f"e2e_{percentile}_s") for percentile in ("p50", "p90", "p95", "p99")
}
_TABLES: tuple[tuple[str, str, str, dict[str, Read]], ...] = (
    (
        "points",
        "Throughput and latency",
        f"{_RANGES} Latency is of completed requests.",
        {"req/s": _spread("rps"), "output tok/s": _spread("output_tokens_s"), **_LATENCIES},
    ),
    (
        "outcomes",
        "Goodput and failures",
        f"{_RANGES} Requests of all repeats.",
        {
            "goodput req/s": _spread("goodput_rps"),
            "within the SLO": _spread("attained_share", 100, "%"),
            "SLO": slo_cell,
            "requests": lambda point: Cell(count(sum(repeat.summary.requests for repeat in point.repeats))),
            "failed": failures,
        },
    ),
    (
        "bands",
        "Latency by length of the source text",
        "End to end, seconds: p50 / p95 / p99.",
        {band: _band(band) for band in BANDS},
    ),
    (
        "streaming",
        "Streaming",
        f"{_RANGES} Milliseconds. ITL counts gaps between events.",
        {
            f"{name.upper()} {percentile}": _spread(f"{name}_{percentile}_s", 1000)
            for name in ("ttft", "itl", "tpot")
            for percentile in ("p50", "p95", "p99")
        },
    ),
    (
        "busy",
        "How busy everything was",
        "Engine busy: the share of time in which it ran a step. GPU: NVML's share of time in which a kernel ran, on "
        "average, and the shares of samples below 10 % and above 80 %. Client: of one core.",
        {
            "engine busy": _spread("engine_busy_share", 100, "%"),
            "in flight": _spread("mean_in_flight"),
            "running": _spread("mean_running"),
            "waiting": _spread("mean_waiting"),
            "most waiting": _spread("peak_waiting"),
            "KV cache peak": _spread("peak_kv_cache_usage", 100, "%"),
            "preemptions": _spread("preemptions"),
            "GPU mean": _spread("gpu_mean_percent", 1, "%"),
            "GPU < 10 %": _spread("gpu_share_below_10", 100, "%"),
            "GPU > 80 %": _spread("gpu_share_above_80", 100, "%"),
            "client CPU": lambda point: Cell(f"{max(repeat.client.cpu_share for repeat in point.repeats):.0%}"),
            "sent late, p99 ms": lambda point: Cell(number(1000 * max(r.client.lag_p99_s for r in point.repeats))),
        },
    ),
)
"""Slug, title, note and columns."""


def all_tables(named: Named) -> list[Table]:
    """Every point in numbers; without the tables that have not a single number."""
    made = [_table(slug, title, note, named, columns, loads_of(named)) for slug, title, note, columns in _TABLES]
    return [table for table in made if table.has_values]


def against_first(named: Named) -> Table | None:
    """Every load level that several results have; None where there is none."""
    loads = [load for load in loads_of(named) if len(points_at(named, load)) > 1]
    metrics = {"req/s": "rps", "output tok/s": "output_tokens_s", "p50": "e2e_p50_s", "p95": "e2e_p95_s"}
    columns = {title: _against(named, metric) for title, metric in metrics.items()}
    note = "Compared with the first of each load level. Equal: closer together than their repeats differ."
    return _table("against", "Compared with the first", note, named, columns, loads) if loads else None


def _against(named: Named, metric: str) -> Read:
    """`6.9×` higher or lower than the first at this load, or equal; good or bad by what is better for this metric."""

    def read(point: Point) -> Cell:
        base = next(iter(points_at(named, point.load).values()))
        mine, other = point.spreads.get(metric), base.spreads.get(metric)
        if mine is None or other is None:
            return EMPTY
        if point is base:
            return Cell("1", "the first")
        found = compare(mine, other)
        if found == "equal":
            return Cell("equal")
        tone: Tone = "good" if (found == "higher") == (metric in HIGHER_IS_BETTER) else "bad"
        less, more = sorted((mine.median, other.median))
        return Cell(f"{number(more / less)}×", found, tone) if less > 0 else Cell(found, tone=tone)

    return read


def _table(slug: str, title: str, note: str, named: Named, columns: dict[str, Read], loads: Sequence[Load]) -> Table:
    """A row for each result at each load; the first two columns name it."""
    rows: list[Row] = []
    for load in loads:
        for place, (name, results) in enumerate(named.items()):
            for point in points_at({name: results}, load).values():
                cells = (Cell(load.label), Cell(name), *(read(point) for read in columns.values()))
                rows.append(Row(cells, flags_of(results, point), series=place))
    heads = (Column("load", "left"), Column("result", "left"))
    return Table(title, (*heads, *map(Column, columns)), tuple(rows), note, slug, heads=2).pruned()


def flags_of(results: Results, point: Point) -> tuple[str, ...]:
    """Short warnings beside a point, the worst first."""
    found = ["interrupted"] if any(repeat.stopped == "interrupted" for repeat in point.repeats) else []
    wanted = results.conditions.options.get("repeats")
    if isinstance(wanted, int) and len(point.repeats) < wanted:
        found.append(f"partial: {len(point.repeats)} of {wanted} repeats")
    failed = failures(point)
    return (*found, f"{failed.text} failed") if failed.tone == "bad" else tuple(found)


def notes(named: Named) -> list[str]:
    """What a reader must know to trust the numbers, once where several results share it."""
    names: dict[str, list[str]] = {}
    for name, results in named.items():
        found = list(notes_on(results))
        if results.partial and len(results.points) < len(results.conditions.loads):
            found.append(f"{len(results.points)} of {len(results.conditions.loads)} load levels were measured.")
        once = [point.load.label for point in results.points if len(point.repeats) == 1]
        if once:
            found.append(f"{', '.join(once)}: {_UNREPEATED}")
        if (results.conditions.git_commit or "").endswith("-dirty"):
            found.append("measured with source files that differ from the commit.")
        for text in found:
            names.setdefault(text, []).append(name)
    return [f"{'All' if len(of) == len(named) > 1 else ', '.join(of)}: {text}" for text, of in names.items()]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; a value for each label, in their order.

    `compared` differs and is what a comparison is about: which server, which settings and model, and when. `unlike` differs
    too (machine, versions, workload, seed, duration) and may be the reason for a difference.
    """

    name: str
    values: tuple[str, ...]
    role: Literal["compared", "unlike", "same"]


def conditions(named: Named) -> list[Condition]:
    """Every condition by its name in the results file."""
    columns = [_flat(_document(results.conditions)) for results in named.values()]
    found: list[Condition] = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = tuple(column.get(name, _ABSENT) for column in columns)
        differing = "compared" if name.split(".")[0] in _COMPARED else "unlike"
        if name != "options.label":
            found.append(Condition(name, values, "same" if len(set(values)) == 1 else differing))
    return found


def _document(found: Conditions) -> dict[str, Any]:
    """As in the file, but for load levels, GPUs and the commit in short; without what a journey noted."""
    document: dict[str, Any] = asdict(found)
    document |= {"git_commit": short_commit(found), "loads": ", ".join(load.label for load in found.loads)}
    gpus = [f"{gpu.name}, {gpu.memory_mib / 1024:.0f} GiB, driver {gpu.driver}" for gpu in found.machine.gpus]
    document["machine"] |= {"gpus": "; ".join(gpus) or None}
    document["options"].pop("journey", None)
    return document


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        elif value is None:
            found[prefix + name] = _ABSENT
        else:
            found[prefix + name] = (
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            )
    return found


def condition_tables(named: Named) -> tuple[Table, ...]:
    """What differs, what was compared, and what is the same."""
    found, made = conditions(named), list[Table]()
    for role, title, note in (
        ("unlike", "Conditions that differ", UNLIKE_NOTE),
        ("compared", "What was compared", ""),
    ):
        rows = [(one.name, *one.values) for one in found if one.role == role]
        if rows:
            columns = [Column(name, "left") for name in ("condition", *named)]
            made.append(table(title, columns, rows, note=note, slug=role))
    same = [(one.name, one.values[0]) for one in found if one.role == "same"]
    title = "Conditions" if len(named) == 1 else "The same for all"
    return (*made, table(title, [Column("condition", "left"), Column("value", "left")], same, slug="same"))


def short_commit(found: Conditions) -> str:
    """Ten characters, and marked where the files differed from it."""
    name, dash, dirty = (found.git_commit or "unknown").partition("-")
    return f"{name[:10]}{dash}{dirty}"


def summary_line(named: Named) -> str:
    """The conditions that all share, in one line; it names what differs."""
    names = {"machine.gpus", "machine.cpu", "model", "workload", "seed", "slo", "git_commit"}
    shown = [one for one in conditions(named) if one.name in names and set(one.values) != {_ABSENT}]
    parts = [f"{one.name} {one.values[0] if one.role == 'same' else 'differs'}" for one in shown]
    repeats = sorted({len(point.repeats) for results in named.values() for point in results.points}) or [1]
    parts.append("measured once" if repeats == [1] else f"{' or '.join(map(str, repeats))} repeats")
    return f"Conditions: {'; '.join(parts)}."
