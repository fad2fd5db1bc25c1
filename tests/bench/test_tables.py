"""Numbers as they are written everywhere, tables as Markdown, and results as such a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman_bench.bench import tables
from dragoman_bench.bench.results import ClientUse, Load, Point, Repeat, RequestRecord, Results, Spread, Stopped
from dragoman_bench.bench.summary import Observed, parse_slo, spreads, summarise
from dragoman_bench.bench.tables import Cell, Column, Row, Table, results_markdown
from tests.bench.making import record
from tests.bench.simulated import conditions


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.04567, "0.0457"),
        (1, "1.00"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345.6, "12,346"),
        (9.996, "10.0"),
    ],
)
def test_numbers_have_three_significant_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert tables.number(value) == text


def test_units() -> None:
    assert [tables.seconds(value) for value in (0.0304, 0.9996, 1.5, None)] == ["30.4 ms", "1.00 s", "1.50 s", "-"]
    assert [tables.size(value) for value in (512, 256 * 2**20, -1.5 * 2**30)] == ["512 B", "256 MiB", "-1.5 GiB"]
    assert [tables.about(value) for value in (4, 42, 430)] == ["about 10 s", "about 40 s", "about 7 min"]
    assert [tables.percent(0.123), tables.count(12345)] == ["12 %", "12,345"]


def test_a_range_follows_the_median_of_repeats() -> None:
    assert tables.ranged(Spread(0.0541, 0.0532, 0.055, 3), 1000, " ms") == "54.1 ms [53.2..55.0]"
    assert tables.ranged(Spread(54.1, 54.1, 54.1, 1)) == "54.1"
    assert tables.ranged(None) == "-"


def test_markdown_aligns_prunes_and_escapes() -> None:
    columns = (Column("what", "left"), Column("a"), Column("never measured"), Column("why", "left"))
    rows = (
        Row((Cell("x|y"), Cell("1.00", "[0.9..1.1]"), tables.EMPTY, Cell("met", "it is below")), flags=("knee",)),
        Row((Cell("max_num_seqs"),), note="skipped: <none>"),
    )
    written = tables.markdown(Table("A *title*", columns, rows, note="Of [a](b).").pruned())

    assert written.splitlines() == [
        r"## A \*title\*",
        "",
        "| what | a | why |",
        "| --- | ---: | --- |",
        r"| x\|y **(knee)** | 1.00 [0.9..1.1] | met: it is below |",
        r"| max_num_seqs | skipped: \<none> |  |",
        "",
        r"Of [a]\(b).",
    ]


def test_a_table_of_plain_values() -> None:
    found = tables.table("", ["step", "req/s"], [("one", "1.00"), ("two", None)])

    assert found.columns[0].align == "left"
    assert found.rows[1].cells[1].empty


CLOSED = Load("closed", clients=4)


def _measurement(records: list[RequestRecord], stopped: Stopped = "finished", slo: str | None = None) -> Repeat:
    return Repeat(
        *(tuple(records), 2.0, stopped),
        repeat=0,
        started_at="now",
        distinct_texts=len(records),
        client=ClientUse(1, 0.25, 0.001),
        summary=summarise(Observed(tuple(records), 2.0, stopped), parse_slo(slo) if slo else None),
    )


def _results(*repeats: Repeat, partial: bool = False) -> Results:
    return Results(conditions(loads=(CLOSED,)), (Point(CLOSED, repeats, spreads(repeats)),), partial)


def _cells(results: Results) -> dict[str, str]:
    rows = [line for line in results_markdown(results).splitlines() if line.startswith("|")]
    names, values = ([cell.strip() for cell in row.strip("|").split("|")] for row in (rows[0], rows[2]))
    return dict(zip(names, values, strict=True))


def test_a_point_is_a_row_and_what_is_unknown_has_no_column() -> None:
    records = [record(n, e2e_s=0.5, output_tokens=10) for n in range(4)]

    assert _cells(_results(_measurement(records))) == {
        "load": "4 clients",
        "req/s": "2.00",
        "output tok/s": "20.0",
        "p50 s": "0.500",
        "p95 s": "0.500",
        "p99 s": "0.500",
        "failed": "0",
    }


def test_repeats_show_their_median_and_range() -> None:
    repeats = [_measurement([record(n, e2e_s=0.5) for n in range(count)]) for count in (4, 6, 10)]

    assert _cells(_results(*repeats))["req/s"] == "3.00 [2.00..5.00]"


def test_an_slo_is_met_missed_or_both() -> None:
    met = _measurement([record(e2e_s=0.5)], slo="p95_s=1")
    missed = _measurement([record(e2e_s=1.5)], slo="p95_s=1")

    assert _cells(_results(met, met))["SLO"] == "met"
    assert _cells(_results(missed))["SLO"] == "missed"
    assert _cells(_results(met, missed, met))["SLO"] == "met in 2 of 3"


def test_the_conditions_come_first() -> None:
    said = results_markdown(_results(_measurement([record()])))

    assert said.startswith(
        "dragoman at http://127.0.0.1:8000, model Qwen/Qwen3-4B, on Some CPU, 16 cores, NVIDIA H200.\nWorkload "
    )


def test_failures_are_counted_by_kind_and_share() -> None:
    records = [record(0), record(1, error="refused"), record(2, error="timeout"), record(3, error="refused")]
    results = _results(_measurement(records))

    assert _cells(results)["failed"] == "75.0 % 2 refused, 1 timeout"


def test_what_would_mislead_is_said() -> None:
    clean = _measurement([record()])
    hot = replace(clean, client=ClientUse(1, 0.93, 0.2), distinct_texts=0)

    assert "- " not in results_markdown(_results(clean)).replace("---", "")
    said = results_markdown(_results(hot, partial=True))
    for part in (
        "Interrupted",
        "93% of a core",
        "200 ms or more after their time",
        "more than once",
    ):
        assert part in said
