"""Numbers as they are written everywhere, and tables as Markdown and for a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dragoman_bench.bench import tables
from dragoman_bench.bench.results import Spread
from dragoman_bench.bench.tables import Cell, Column, Row, Table


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
    assert found.has_values
    assert not tables.table("", ["step", "req/s"], [("one", None)]).has_values


def test_a_terminal_gets_every_cell() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(
        tables.for_terminal(tables.table("Numbers", ["step", "req/s"], [("one", "1.00")]))
    )

    assert all(part in out.getvalue() for part in ("Numbers", "step", "req/s", "one", "1.00"))
