from __future__ import annotations

from dataclasses import replace

from dragoman_bench.bench.results import ClientUse, Load, Measurement, Point, RequestRecord, Results, Stopped
from dragoman_bench.bench.results_table import markdown
from dragoman_bench.bench.summary import Observed, parse_slo, spreads, summarise
from tests.bench.making import conditions, record

CLOSED = Load("closed", clients=4)


def _measurement(records: list[RequestRecord], stopped: Stopped = "finished", slo: str | None = None) -> Measurement:
    summary = summarise(Observed(records, 2.0, stopped), parse_slo(slo) if slo else None)
    client = ClientUse(1, 0.25, 0.001)
    return Measurement(0, "now", 2.0, stopped, len(records), tuple(records), {}, (), (), client, summary)


def _results(*repeats: Measurement, partial: bool = False) -> Results:
    return Results(conditions(CLOSED), (Point(CLOSED, repeats, spreads(repeats)),), partial)


def _cells(results: Results) -> dict[str, str]:
    rows = [line for line in markdown(results).splitlines() if line.startswith("|")]
    names, values = ([cell.strip() for cell in row.strip("|").split("|")] for row in (rows[0], rows[2]))
    return dict(zip(names, values, strict=True))


def test_a_point_is_a_row_and_what_is_unknown_has_no_column() -> None:
    records = [record(n, e2e_s=0.5, output_tokens=10) for n in range(4)]

    assert _cells(_results(_measurement(records))) == {
        "load": "4 clients",
        "req/s": "2.00",
        "output tok/s": "20.0",
        "p50 s": "0.5",
        "p95 s": "0.5",
        "p99 s": "0.5",
        "failed": "0",
    }


def test_repeats_show_their_median_and_range() -> None:
    repeats = [_measurement([record(n, e2e_s=0.5) for n in range(count)]) for count in (4, 6, 10)]

    assert _cells(_results(*repeats))["req/s"] == "3.00 (2.00..5.00)"


def test_an_slo_is_met_missed_or_both() -> None:
    met = _measurement([record(e2e_s=0.5)], slo="p95_s=1")
    missed = _measurement([record(e2e_s=1.5)], slo="p95_s=1")

    assert _cells(_results(met, met))["SLO"] == "met"
    assert _cells(_results(missed))["SLO"] == "missed"
    assert _cells(_results(met, missed, met))["SLO"] == "met in 2 of 3"


def test_the_conditions_come_first() -> None:
    said = markdown(_results(_measurement([record()])))

    assert said.startswith("dragoman at http://127.0.0.1:8000, model a model, on a CPU, 2 cores.\nWorkload ")


def test_failures_are_told_by_kind_and_share() -> None:
    records = [record(0), record(1, error="refused"), record(2, error="timeout"), record(3, error="refused")]
    results = _results(_measurement(records))

    assert _cells(results)["failed"] == "75.0%"
    assert "- 4 clients: failed requests: 2 refused, 1 timeout." in markdown(results)


def test_what_would_mislead_is_said() -> None:
    clean = _measurement([record()])
    hot = replace(clean, client=ClientUse(1, 0.93, 0.2, maximum_rps=0.55), distinct_texts=0, stopped="saturated")

    assert "- " not in markdown(_results(clean)).replace("---", "")
    said = markdown(_results(hot, partial=True))
    for part in (
        "Interrupted",
        "not sustained",
        "93% of a core",
        "200 ms or more after their time",
        "near the client's own maximum",
        "more than once",
    ):
        assert part in said
