"""What a reader must see beside a number before trusting it: short flags on points, and notes in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman_bench.bench.results import Point, Results
from dragoman_bench.bench.results_table import notes_on
from dragoman_bench.report.charts.selection import Named, failed_share

UNREPEATED = "measured once: its spread is unknown, and 10 % of the median stands for it in comparisons."


def flags_of(results: Results, point: Point) -> tuple[str, ...]:
    """Words for badges, the worst first."""
    return tuple(_flags(results, point))


def notes(named: Named) -> list[tuple[str, str]]:
    """(whose, what): what would mislead if it were not said; said once where several share it."""
    whose: dict[str, list[str]] = {}
    for name, results in named.items():
        for told in (*notes_on(results), *_own(results)):
            whose.setdefault(told, []).append(name)
    everybody = len(named) > 1
    return [
        ("All" if everybody and len(names) == len(named) else ", ".join(names), told) for told, names in whose.items()
    ]


def _flags(results: Results, point: Point) -> Iterator[str]:
    if any(repeat.stopped == "saturated" for repeat in point.repeats):
        yield "saturated"
    if any(repeat.stopped == "interrupted" for repeat in point.repeats):
        yield "interrupted"
    wanted = _wanted_repeats(results)
    if wanted is not None and len(point.repeats) < wanted:
        yield f"partial: {len(point.repeats)} of {wanted} repeats"
    share = failed_share(point)
    if share:
        yield f"{share:.1%} failed" if share >= 0.001 else "some failed"


def _own(results: Results) -> Iterator[str]:
    if results.partial and len(results.points) < len(results.conditions.loads):
        yield f"{len(results.points)} of {len(results.conditions.loads)} load levels were measured."
    once = [point.load.label for point in results.points if len(point.repeats) == 1]
    if once:
        yield f"{', '.join(once)}: {UNREPEATED}"
    commit = results.conditions.git_commit
    if commit is not None and commit.endswith("-dirty"):
        yield "measured with source files that differ from the commit."


def _wanted_repeats(results: Results) -> int | None:
    wanted = results.conditions.options.get("repeats")
    return wanted if isinstance(wanted, int) else None
