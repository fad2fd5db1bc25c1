"""Plans whose numbers are known by hand: 100 ms a request, 10 requests/s with 1 client, 40 with 8, and so on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman.telemetry.traffic.export import trace_of
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.results import ClientUse, Load, Observed, Repeat, Results, write_results
from dragoman_bench.bench.summary import parse_slo, point_of, summarise
from dragoman_bench.cli.plan import NOT_MET, CapacityPlan, command, make_plan
from tests.bench.making import record
from tests.bench.simulated import conditions
from tests.telemetry.traffic.making import entry

RESULTS = Path(__file__).parents[2] / "results"
TOKENS = 20
ONE = ((1, 0.1), (8, 0.2), (32, 0.4), (64, 1.0))
"""Clients and latency: 10, 40, 80 and 64 requests/s."""


def results_file(
    folder: Path,
    loads: Sequence[tuple[int, float]] = ONE,
    name: str = "one.json",
    tokens: Sequence[int] = (TOKENS,),
    **server: Any,
) -> Path:
    """A closed loop of so many clients, each of whose requests takes so long, for 4 s; `tokens`: of outputs, in turn."""
    points = [
        point_of(Load("closed", clients=clients), [_measured(clients, e2e_s, tokens)]) for clients, e2e_s in loads
    ]
    made = conditions(loads=tuple(point.load for point in points))
    write_results(Results(replace(made, server=made.server | server), tuple(points)), folder / name)
    return folder / name


def _measured(clients: int, e2e_s: float, tokens: Sequence[int]) -> Repeat:
    starts = [turn * e2e_s for turn in range(round(4 / e2e_s)) for _ in range(clients)]
    records = tuple(
        record(index, e2e_s=e2e_s, intended_s=start, output_tokens=tokens[index % len(tokens)])
        for index, start in enumerate(starts)
    )
    observed = Observed(records, window_s=4.0 + 1e-6)
    return Repeat(
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


def plan(result: Path, trace: Path, slo: str | None = "p95_ms=400", **options: Any) -> CapacityPlan:
    return make_plan(result, trace, parse_slo(slo).limits if slo else (), **options)


def test_the_peak_is_that_of_a_burst_wherever_it_begins(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, BURST), "p99_s=2")
    assert made.peak_texts_s == pytest.approx(185, abs=1)
    assert made.peak_tokens_s == pytest.approx(185 * TOKENS, abs=TOKENS)
    assert made.capacity.tokens_s == pytest.approx(80 * TOKENS, rel=1e-3)
    assert made.planned.replicas == 3


def test_a_window_is_as_long_as_the_slo_s_longest_limit(tmp_path: Path) -> None:
    result, trace = results_file(tmp_path), trace_file(tmp_path, BURST)
    assert plan(result, trace, "p50_ms=500,p99_s=3").peak_window_s == 3
    assert plan(result, trace, None).peak_window_s == 10


def test_the_margin_is_capacity_above_the_peak(tmp_path: Path) -> None:
    result, trace = results_file(tmp_path), trace_file(tmp_path, steady(150, 30))
    exact, spare = plan(result, trace, "p95_s=10"), plan(result, trace, "p95_s=10", margin=0.2)
    assert (exact.planned.replicas, spare.planned.replicas) == (2, 3)  # 150 of 160, 180 of 240
    assert spare.planned.margin == pytest.approx(240 / 150 - 1, abs=0.01)


def test_a_failure_of_one_leaves_the_others_with_the_whole_peak(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(120, 30)), "p95_s=10")
    assert made.planned.replicas == 2
    assert made.planned.latencies_s[95] == pytest.approx(0.3, abs=0.002)  # 60/s each, between 40 and 80
    left = made.one_failed
    assert (left.replicas, left.latencies_s) == (1, None)
    assert left.margin == pytest.approx(80 / 120 - 1, abs=0.01)
    assert made.replicas_for_one_failure == 3


def test_capacity_is_interpolated_to_where_the_latency_reaches_its_limit_and_never_extrapolated(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 30)), "p95_ms=300")
    assert made.capacity.tokens_s == pytest.approx(60 * TOKENS, rel=1e-3)
    assert made.capacity.clients == pytest.approx(20, rel=1e-3)
    assert not made.notes
    beyond = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 30)), "p95_s=60")
    assert beyond.capacity.tokens_s == pytest.approx(80 * TOKENS, rel=1e-3)
    assert any("highest measured load" in note for note in beyond.notes)


def test_below_the_lowest_measured_load_latencies_are_upper_bounds(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(5, 100)))
    assert made.planned.at_most
    assert made.planned.latencies_s == pytest.approx({50: 0.1, 95: 0.1, 99: 0.1})


def test_texts_of_twice_the_tokens_halve_the_rate_and_double_the_latency(tmp_path: Path) -> None:
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(30, 30), 2 * TOKENS), "p95_ms=800,p99_s=10")
    assert made.capacity.tokens_s == pytest.approx(80 * TOKENS, rel=1e-3)  # 40 of its texts
    assert made.planned.latencies_s[95] == pytest.approx(0.6, rel=0.02)  # 30 of its texts are a load of 60 requests/s
    assert any("corrected by tokens" in note for note in made.notes)


def test_cost_of_a_million_characters(tmp_path: Path) -> None:
    """36,001 texts of 80 characters in an hour are 2.88 million; one GPU costs 2.88."""
    made = plan(results_file(tmp_path), trace_file(tmp_path, steady(10, 3600)), price_per_hour=2.88)
    assert made.cost_per_hour == 2.88
    assert made.cost_per_million_characters == pytest.approx(1.0, rel=1e-3)
    two_gpus = results_file(tmp_path, engine={"tensor_parallel_size": 2})
    assert plan(two_gpus, trace_file(tmp_path, steady(10, 3600)), price_per_hour=2.88).cost_per_hour == 5.76


def test_loads_at_which_requests_failed_meet_no_slo(tmp_path: Path) -> None:
    path = results_file(tmp_path)
    document = json.loads(path.read_text())
    for point in document["points"]:
        for repeat in point["repeats"]:
            if point["load"]["clients"] == 32:
                repeat["summary"]["errors"] = {"refused": 10, "unfinished": 1}
            else:
                repeat["summary"]["errors"] = {"unfinished": 30}
    path.write_text(json.dumps(document))
    made = plan(path, trace_file(tmp_path, steady(10, 30)), "p95_s=5")
    assert made.capacity.clients == 8


def test_a_trace_is_what_the_recorder_s_export_writes(tmp_path: Path) -> None:
    """Of a refused text no output is known: it counts as the others' ratio to the source."""
    entries = [entry(at, source_characters=40, output_tokens=TOKENS) for at in range(20)]
    path = tmp_path / "week.jsonl"
    refused = entry(3.25, outcome="queue_full", source_tokens=TOKENS, output_tokens=0)
    path.write_text(trace_of([*entries, refused]).jsonl())
    made = plan(results_file(tmp_path), path, "p95_s=1", price_per_hour=1.0)
    ratio = TOKENS / entries[0].source_tokens
    assert made.peak_tokens_s == pytest.approx(TOKENS + ratio * TOKENS)
    assert made.cost_per_million_characters == pytest.approx(19 / 3600 / (21 * 40) * 1e6)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)


def test_an_slo_that_no_measured_load_meets_is_exit_code_1_and_says_so(tmp_path: Path) -> None:
    files = ("--trace", trace_file(tmp_path, steady(10, 30)), "--result", results_file(tmp_path))
    done = invoke(*files, "--slo", "p95_ms=50", "--json")
    document = json.loads(done.stdout)
    assert done.return_value == NOT_MET
    assert (document["capacity"], document["planned"]) == (None, None)
    assert "1 in flight" in document["notes"][0]


def test_a_plan_is_text_with_the_replicas_of_the_peak_and_of_a_failure(tmp_path: Path) -> None:
    files = ("--trace", trace_file(tmp_path, steady(150, 30)), "--result", results_file(tmp_path))
    done = invoke(*files, "--slo", "p95_ms=400,p99_s=10", "--price-per-hour", "3")
    assert done.return_value is None
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert lines["planned"].startswith("3 replicas, 3 GPUs, margin 60 %")
    assert lines["one has failed"].startswith("2 replicas, 2 GPUs, margin 7 %")
    assert lines["cost"].startswith("9.00 an hour")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--slo", "ttft_ms_p95=300"), "p95_s"),
        (("--slo", "p90_s=2"), "p50_s"),
        (("--slo", "nonsense"), "nonsense"),
        (("--result", "two.json"), "2 replicas"),
        (("--result", "failed.json"), "failed"),
        (("--result", "nowhere.json"), "nowhere.json"),
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
    results_file(tmp_path, name="two.json", replicas=2)
    failed = json.loads(results_file(tmp_path, name="failed.json").read_text())
    failed["points"][0]["repeats"][0]["summary"]["errors"] = {"timeout": 9}
    Path("failed.json").write_text(json.dumps(failed))
    Path("no-times.jsonl").write_text('{"source_tokens": 3}')
    Path("no-lengths.jsonl").write_text('{"text": "Hello", "at_s": 0}')
    done = invoke("--trace", "trace.jsonl", "--result", "one.json", *arguments)
    assert isinstance(done.exception, ConfigError)
    assert named in str(done.exception)
    assert "\n" not in str(done.exception)


def test_committed_measurements_of_an_h200_give_a_plan_for_a_committed_trace(tmp_path: Path) -> None:
    made = plan(
        RESULTS / "journey-h200/continuous-256.variable.json.gz", RESULTS / "tune-cpu/trace.jsonl.gz", "p95_s=1.5"
    )
    assert 64 < made.capacity.clients < 128
    assert (made.planned.replicas, made.one_failed, made.replicas_for_one_failure) == (1, None, 2)


def test_a_higher_percentile_is_never_below_a_lower_one(tmp_path: Path) -> None:
    """Measured texts vary and those of the trace do not, so that the correction of the median is the largest."""
    plan = make_plan(results_file(tmp_path, tokens=(5,) * 9 + (100,)), trace_file(tmp_path, (0, 1, 2), tokens=50), ())
    for situation in (plan.capacity, plan.planned):
        assert situation is not None and situation.latencies_s
        latencies_s = [situation.latencies_s[p] for p in (50, 95, 99)]
        assert latencies_s == sorted(latencies_s)


def test_a_capacity_far_above_the_peak_is_so_many_times_the_peak(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        command, ["--trace", str(trace_file(tmp_path, (0, 100))), "--result", str(results_file(tmp_path))]
    )
    planned = next(line for line in outcome.output.splitlines() if line.startswith("planned"))
    assert "times the peak" in planned and "margin" not in planned


def test_the_ratios_of_a_comparison_are_refused_with_where_its_results_are(tmp_path: Path) -> None:
    Measurement("versus", {"names": ["dragoman", "vllm"]}, {"ratios": []}).write(tmp_path / "versus.json")
    with pytest.raises(ConfigError, match=r"versus\.NAME\.json"):
        make_plan(tmp_path / "versus.json", trace_file(tmp_path, (0, 1)), ())
