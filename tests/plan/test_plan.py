"""Plans whose numbers are known by hand: 100 ms a request, 10 requests/s with 1 client, 40 with 8, and so on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.export import trace_of
from dragoman_bench.bench.results import ClientUse, Load, Measurement, Observed, Results, write_results
from dragoman_bench.bench.summary import parse_slo, point_of, summarise
from dragoman_bench.cli.plan import NOT_MET, command
from dragoman_bench.plan.capacity import CapacityPlan, PlanOptions, make_plan, scaling_checks
from dragoman_bench.plan.curve import read_curve
from dragoman_bench.plan.peaks import read_demand
from tests.bench.making import conditions, record
from tests.telemetry.traffic.making import entry

RESULTS = Path(__file__).parents[2] / "results"
TOKENS = 20
ONE = ((1, 0.1), (8, 0.2), (32, 0.4), (64, 1.0))
"""Clients and latency: 10, 40, 80 and 64 requests/s."""


def results_file(folder: Path, loads: Sequence[tuple[int, float]] = ONE, name: str = "one.json", **server: Any) -> Path:
    """A closed loop of so many clients, each of whose requests takes so long, for 4 s."""
    points = [point_of(Load("closed", clients=clients), [_measured(clients, e2e_s)]) for clients, e2e_s in loads]
    made = conditions(*(point.load for point in points))
    write_results(Results(replace(made, server=made.server | server), tuple(points)), folder / name)
    return folder / name


def _measured(clients: int, e2e_s: float) -> Measurement:
    starts = [turn * e2e_s for turn in range(round(4 / e2e_s)) for _ in range(clients)]
    records = tuple(
        record(index, e2e_s=e2e_s, intended_s=start, output_tokens=TOKENS) for index, start in enumerate(starts)
    )
    observed = Observed(records, window_s=4.0 + 1e-6)
    return Measurement(
        records=records,
        window_s=observed.window_s,
        repeat=0,
        started_at="2025-01-01T00:00:00+00:00",
        distinct_texts=1,
        client=ClientUse(1, 0.1, 0.0),
        summary=summarise(observed),
    )


def trace_file(folder: Path, arrivals_s: Sequence[float], tokens: int = TOKENS, **other: Any) -> Path:
    line = {"source": "en", "target": "ja", "source_tokens": tokens, "output_tokens": tokens, "source_characters": 80}
    lines = [json.dumps(line | {"at_s": at_s} | other) for at_s in arrivals_s]
    (folder / "trace.jsonl").write_text("\n".join(lines))
    return folder / "trace.jsonl"


def steady(rate: float, seconds: float) -> list[float]:
    return [place / rate for place in range(round(rate * seconds) + 1)]


BURST = sorted([*steady(5, 100), *(50 + place / 180 for place in range(360))])
"""5 texts/s, and from second 50 to 52 180 more a second."""


def plan(result: Path | Sequence[Path], trace: Path, slo: str | None = "p95_ms=400", **options: Any) -> CapacityPlan:
    curves = [read_curve(str(path)) for path in ([result] if isinstance(result, Path) else result)]
    demand = read_demand(trace, curves[0].unit, curves[0].characters_per_unit)
    limits = parse_slo(slo).limits if slo else ()
    return make_plan(curves, demand, PlanOptions(limits=limits, **options))


def test_the_peak_is_that_of_a_burst_wherever_it_begins(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, BURST), margin=0.0, window_s=2.0)
    assert made.peak.texts_s == pytest.approx(185, abs=1)
    assert made.peak.tokens_s == pytest.approx(185 * TOKENS, abs=TOKENS)
    assert made.peak.at_s == pytest.approx(52, abs=0.1)
    assert made.capacity is not None
    assert made.capacity.rps == pytest.approx(80, rel=1e-3)
    assert made.planned is not None
    assert (made.planned.replicas, made.met) == (3, True)
    by_minute = made.needs[1]
    assert (by_minute.window.seconds, by_minute.replicas) == (60, 1)  # a minute's mean is 11 texts/s


def test_a_window_is_as_long_as_the_slo_s_longest_limit_unless_stated(tmp_path: Path) -> None:
    result, trace = results_file(tmp_path), trace_file(tmp_path, BURST)
    assert plan(result, trace, "p50_ms=500,p99_s=3").peak.seconds == 3
    assert plan(result, trace, None).peak.seconds == 10
    assert plan(result, trace, window_s=7.0).peak.seconds == 7


def test_the_margin_is_capacity_above_the_peak(tmp_path: Path) -> None:
    result, trace = results_file(tmp_path), trace_file(tmp_path, steady(150, 30))
    exact, spare = plan(result, trace, margin=0.0, window_s=10.0), plan(result, trace, margin=0.2, window_s=10.0)
    assert exact.planned is not None
    assert spare.planned is not None
    assert (exact.planned.replicas, spare.planned.replicas) == (2, 3)  # 150 of 160, 180 of 240
    assert spare.planned.margin == pytest.approx(240 / 150 - 1, abs=0.01)


def test_a_failure_of_one_leaves_the_others_with_the_whole_peak(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(120, 30)), margin=0.0, window_s=10.0)
    assert made.planned is not None
    assert made.planned.replicas == 2
    assert made.planned.latencies_s is not None
    assert made.planned.latencies_s["p95_s"] == pytest.approx(0.3, abs=0.002)  # 60/s each, between 40 and 80
    assert made.planned.in_flight_each == pytest.approx(20, abs=0.2)
    left = made.after_one_failure
    assert left is not None
    assert (left.replicas, left.fits, left.latencies_s) == (1, False, None)
    assert left.margin == pytest.approx(80 / 120 - 1, abs=0.01)
    assert left.texts_above > 0.7  # all but those before the first window is full
    assert made.replicas_for_one_failure == 3


def test_capacity_is_interpolated_to_where_the_latency_reaches_its_limit(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 30)), "p95_ms=300")
    assert made.capacity is not None
    assert (made.capacity.interpolated, made.capacity.highest_measured) == (True, False)
    assert made.capacity.rps == pytest.approx(60, rel=1e-3)
    assert made.capacity.clients == pytest.approx(20, rel=1e-3)


def test_nothing_is_extrapolated_beyond_the_highest_measured_rate(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 30)), "p95_s=60")
    assert made.capacity is not None
    assert made.capacity.rps == pytest.approx(80, rel=1e-3)
    assert made.capacity.highest_measured
    assert any("highest measured load" in note for note in made.notes)


def test_below_the_lowest_measured_load_latencies_are_upper_bounds(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(5, 100)), window_s=10.0)
    assert made.planned is not None
    assert made.planned.at_most
    assert made.planned.latencies_s == pytest.approx({"p50_s": 0.1, "p95_s": 0.1, "p99_s": 0.1})


def test_texts_of_twice_the_tokens_halve_the_rate_and_double_the_latency(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(30, 30), 2 * TOKENS), "p95_ms=800", window_s=10.0)
    assert made.length_ratio == 2
    assert made.capacity is not None
    assert made.capacity.texts_s == pytest.approx(40, rel=1e-3)
    assert made.planned is not None
    assert made.planned.latencies_s is not None
    assert made.planned.latencies_s["p95_s"] == pytest.approx(
        0.6, rel=0.02
    )  # 60 of its texts are a load of 60 requests/s
    assert any("corrected by tokens" in note for note in made.notes)


def test_cost_of_a_million_characters(tmp_path: Path) -> None:
    """36,001 texts of 80 characters in an hour are 2.88 million; one GPU costs 2.88, and could serve 8 times as many."""
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 3600)), price_per_hour=2.88)
    assert made.cost is not None
    assert made.cost.per_hour == 2.88
    assert made.cost.per_million_characters == pytest.approx(1.0, rel=1e-3)
    assert made.cost.fully_used == pytest.approx(0.125, rel=1e-3)
    assert not made.cost.characters_estimated


def test_a_replica_of_two_gpus_costs_two(tmp_path: Path) -> None:
    result = results_file(tmp_path, engine={"tensor_parallel_size": 2, "data_parallel_size": 1})
    made = plan(result, trace_file(tmp_path, steady(10, 3600)), price_per_hour=1.0)
    assert made.cost is not None
    assert made.cost.per_hour == 2.0


def test_several_replicas_check_the_prediction(tmp_path: Path) -> None:
    """Two at 64 clients: 32 each, 160 requests/s predicted; they take 0.5 s instead of 0.4, so 128."""
    two = results_file(tmp_path, [(16, 0.2), (64, 0.5), (512, 4.0)], "two.json", replicas=2)
    one = results_file(tmp_path)
    made = plan([one, two], trace_file(tmp_path, steady(10, 30)))
    found = [(check.replicas, check.clients, round(check.efficiency, 2)) for check in made.checks]
    assert found == [(2, 16, 1.0), (2, 64, 0.8)]  # 256 clients each were not measured
    assert made.checks[1].predicted_p95_s == pytest.approx(0.4)
    assert any("0.80 of the prediction" in note for note in made.notes)
    stated = read_curve(f"4={one}")
    assert stated.replicas == 4
    assert scaling_checks(read_curve(str(one)), stated)[0].clients == 8


def test_loads_at_which_requests_failed_meet_no_slo(tmp_path: Path) -> None:
    path = results_file(tmp_path)
    document = json.loads(path.read_text())
    for point in document["points"]:
        for repeat in point["repeats"]:
            columns = repeat["records"]["columns"]
            if point["load"]["clients"] == 32:
                for row in repeat["records"]["rows"][::50]:
                    row[columns.index("error")] = "refused"
    path.write_text(json.dumps(document))
    made = plan(path, trace_file(tmp_path, steady(10, 30)), "p95_s=5")
    assert made.capacity is not None
    assert made.capacity.clients == 8


def test_a_trace_is_what_the_recorder_s_export_writes(tmp_path: Path) -> None:
    entries = [entry(at, source_characters=40, output_tokens=TOKENS) for at in range(20)]
    path = tmp_path / "week.jsonl"
    path.write_text(trace_of([*entries, entry(3.25, outcome="queue_full", source_tokens=0, output_tokens=0)]).jsonl())
    demand = read_demand(path, "output tokens", None)
    assert (len(demand.tokens), demand.seconds, demand.estimated) == (21, 19.0, 1)
    assert demand.characters == 21 * 40
    assert demand.peak_in_flight == 2  # each takes 0.5 s, and the refused one came in between
    assert plan(results_file(tmp_path), path).met


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)


def test_an_slo_that_no_measured_load_meets_is_exit_code_1_and_says_so(tmp_path: Path) -> None:
    done = invoke(
        *("--trace", trace_file(tmp_path, steady(10, 30)), "--result", results_file(tmp_path)),
        *("--slo", "p95_ms=50", "--json"),
    )
    document = json.loads(done.stdout)
    assert done.return_value == NOT_MET
    assert (document["met"], document["capacity"], document["planned"]) == (False, None, None)
    assert "1 in flight" in document["notes"][0]


def test_too_few_replicas_are_exit_code_1_and_enough_are_0(tmp_path: Path) -> None:
    common = (
        "--trace",
        trace_file(tmp_path, steady(150, 30)),
        "--result",
        results_file(tmp_path),
        "--slo",
        "p95_ms=400",
    )
    few, enough = invoke(*common, "--replicas", "1"), invoke(*common, "--replicas", "2", "--price-per-hour", "3")
    assert few.return_value == NOT_MET
    assert "too few" in few.stdout.splitlines()[-1]
    assert enough.return_value is None
    assert enough.stdout.splitlines()[-1].startswith("2 replicas (2 GPUs)")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--slo", "ttft_ms_p95=300"), "p95_s"),
        (("--slo", "p90_s=2"), "p50_s"),
        (("--slo", "nonsense"), "nonsense"),
        (("--result", "one.json"), "2 of the results"),
        (("--result", "nowhere.json"), "nowhere.json"),
        (("--trace", "."), "dragoman traffic export"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--trace", "no-times.jsonl"), "at_s"),
        (("--trace", "no-lengths.jsonl"), "source_tokens"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace_file(tmp_path, [0.0])
    results_file(tmp_path)
    Path("no-times.jsonl").write_text('{"source_tokens": 3}')
    Path("no-lengths.jsonl").write_text('{"text": "Hello", "at_s": 0}')
    done = invoke("--trace", "trace.jsonl", "--result", "one.json", *arguments)
    assert isinstance(done.exception, ConfigError)
    assert named in str(done.exception)
    assert "\n" not in str(done.exception)


def test_results_of_another_workload_are_refused(tmp_path: Path) -> None:
    other = results_file(tmp_path, name="other.json", replicas=2)
    document = json.loads(other.read_text())
    document["conditions"]["workload"] = "uniform"
    other.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="workload"):
        plan([results_file(tmp_path), other], trace_file(tmp_path, [0.0]))


@pytest.mark.parametrize(
    ("file", "clients", "slo"),
    [
        ("versus-h200/versus.continuous-256.json.gz", (25, 128, 256), "p95_s=2"),
        ("tune-h200-256/tune.json", (128, 256), "p95_s=1.5"),
    ],
)
def test_committed_measurements_of_an_h200_give_a_plan_for_a_committed_trace(
    file: str, clients: tuple[int, ...], slo: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(gzip.decompress((RESULTS / "tune-cpu" / "trace.jsonl.gz").read_bytes()))
    curve = read_curve(str(RESULTS / file))
    assert tuple(load.clients for load in curve.loads) == clients
    assert (curve.hardware, curve.unit, curve.gpus_per_replica) == ("NVIDIA H200", "output tokens", 1)
    made = plan(RESULTS / file, trace, slo, price_per_hour=3.0)
    assert made.capacity is not None
    assert 128 < made.capacity.clients < 256
    assert made.planned is not None
    assert (made.planned.replicas, made.replicas_for_one_failure, made.met) == (1, 2, True)
    assert made.peak_in_flight == 20
