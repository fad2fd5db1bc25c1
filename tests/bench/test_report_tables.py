"""The numbers of a report's tables, and who is called faster than whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman_bench.bench.results import Load, Point, Results
from dragoman_bench.bench.summary import spreads
from dragoman_bench.report.charts.numbers import number
from dragoman_bench.report.comparison import against_first, at_a_glance
from dragoman_bench.report.tables import Table, tables
from tests.bench.making import record
from tests.bench.simulated import conditions, measured, three_ways

EIGHT = Load("closed", clients=8)


@pytest.fixture(scope="module")
def named() -> dict[str, Results]:
    return three_ways((1, 8), requests=60, repeats=3)


def column(table: Table, title: str) -> dict[tuple[str, str], str]:
    """A column's cells by load and label."""
    place = table.columns.index(title)
    return {(row.load, row.name): f"{row.cells[place].text} {row.cells[place].detail}".strip() for row in table.rows}


def table_of(found: Sequence[Table], slug: str) -> Table:
    return next(table for table in found if table.slug == slug)


def test_cells_are_median_and_range(named: dict[str, Results]) -> None:
    spread = named["continuous"].points[1].spreads["rps"]
    cells = column(table_of(tables(named), "points"), "req/s")
    assert cells["8 clients", "continuous"] == f"{spread.median:.1f} [{spread.low:.1f}..{spread.high:.1f}]"
    assert len(cells) == 6


def test_tables_hold_what_a_reader_needs(named: dict[str, Results]) -> None:
    found = tables(named)
    columns = {title for table in found for title in table.columns}
    assert {
        "req/s", "output tok/s", "p50 s", "p90 s", "p95 s", "p99 s", "max s", "goodput req/s", "failed", "short",
        "medium", "long", "TTFT p95", "ITL p95", "engine busy", "GPU mean", "GPU < 10 %", "GPU > 80 %", "client CPU",
    } <= columns  # fmt: skip
    assert column(table_of(found, "busy"), "client CPU")["1 client", "continuous"] == "12%"
    longest = max(repeat.summary.e2e.max_s for repeat in named["continuous"].points[1].repeats)
    assert f"..{number(longest)}]" in column(table_of(found, "points"), "max s")["8 clients", "continuous"]


def test_columns_and_tables_without_numbers_are_left_out() -> None:
    rows = (measured([record(i, e2e_s=1 + i) for i in range(5)]),)
    found = tables({"plain": Results(conditions(slo=None), (Point(EIGHT, rows, spreads(rows)),))})
    assert "output tok/s" not in table_of(found, "points").columns
    assert "SLO" not in table_of(found, "outcomes").columns
    assert "streaming" not in {table.slug for table in found}


def at_latencies(*latencies_s: float) -> Results:
    repeats = tuple(measured([record(0, e2e_s=e2e_s)], place) for place, e2e_s in enumerate(latencies_s))
    return Results(conditions(), (Point(EIGHT, repeats, spreads(repeats)),))


def test_points_closer_than_their_spread_are_equal() -> None:
    found = against_first(
        {
            "base": at_latencies(1.0, 1.1, 1.2),
            "near": at_latencies(1.05, 1.15, 1.25),
            "far": at_latencies(3.9, 4.0, 4.1),
        }
    )
    assert found is not None
    latency, rate = column(found, "p95"), column(found, "req/s")
    assert latency["8 clients", "near"] == "equal"
    assert latency["8 clients", "far"] == "3.64× higher"
    assert rate["8 clients", "far"] == "3.64× lower"
    standing = column(found, "of all, p95")
    assert [standing["8 clients", name] for name in ("base", "near", "far")] == ["best", "equal to the best", "–"]


def test_higher_latency_is_bad_and_higher_throughput_good(named: dict[str, Results]) -> None:
    found = at_a_glance(named, EIGHT)
    row = next(row for row in found.rows if row.name == "continuous")
    assert row.cells[found.columns.index("against the first")].tone == "good"
    slow = against_first({"base": at_latencies(1.0, 1.0), "slow": at_latencies(2.0, 2.0)})
    assert slow is not None
    assert slow.rows[1].cells[slow.columns.index("p95")].tone == "bad"
