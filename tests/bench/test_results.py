from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.results import (
    RESULTS,
    ClientUse,
    GpuSample,
    Load,
    Point,
    Repeat,
    RequestRecord,
    Results,
    ServerSample,
    read_results,
    without_rows,
    write_results,
)
from dragoman_bench.bench.summary import Observed, bucket_counts, parse_slo, spreads, summarise
from tests.bench.making import record
from tests.bench.simulated import conditions


def _measurement(repeat: int, records: tuple[RequestRecord, ...]) -> Repeat:
    gaps = dict(bucket_counts([0.01, 0.02]))
    server = (ServerSample(0.1, running=3, kv_cache_usage=0.5, busy_s=1.25), ServerSample(0.2, waiting=1))
    gpu = (GpuSample(0.1, 0, 93.0, 20_000.5),)
    observed = Observed(records, 2.0, "finished", gaps, server, gpu)
    return Repeat(
        *(records, 2.0, "finished", gaps, server, gpu),
        repeat=repeat,
        started_at="2025-01-01T00:00:00+00:00",
        distinct_texts=2,
        client=ClientUse(1, 0.25, 0.001),
        summary=summarise(observed, parse_slo("p95_s=2,ttft_ms_p95=300")),
    )


def results() -> Results:
    """Two points, two repeats of the first, every kind of row."""
    slow, fast = Load("closed", clients=4), Load("poisson", rate_rps=2.5)
    full = record(
        0, first_token_s=0.25, output_tokens=7, status=200, finish_reason="stop", itl_count=2, itl_mean_s=0.01
    )
    refused = record(1, e2e_s=0.01, error="refused", status=429, retry_after_s=2.5, source_tokens=150)
    repeats = (_measurement(0, (full, refused)), _measurement(1, (full,)))
    empty = (_measurement(0, ()),)
    points = (Point(slow, repeats, spreads(repeats)), Point(fast, empty, spreads(empty)))
    return Results(conditions(loads=(slow, fast)), points, partial=True)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.json"

    write_results(results(), path)

    assert read_results(path) == results()


def test_rows_are_stored_by_column() -> None:
    document = RESULTS.document(results())

    rows = document["points"][0]["repeats"][0]["records"]
    assert rows["columns"][:3] == ["index", "text", "intended_s"]
    assert [row[0] for row in rows["rows"]] == [0, 1]


def test_a_document_is_plain_json() -> None:
    document = RESULTS.document(results())

    assert RESULTS.results(json.loads(json.dumps(document, allow_nan=False))) == results()


def test_a_file_written_before_the_engines_own_latencies_were_read_still_reads() -> None:
    document = RESULTS.document(results())
    for measurement in (repeat for point in document["points"] for repeat in point["repeats"]):
        del measurement["summary"]["decode_s_per_token"]
        samples = measurement["server"]
        added = {samples["columns"].index(name) for name in ("itl_sum_s", "itl_count") if name in samples["columns"]}
        samples["columns"] = [name for place, name in enumerate(samples["columns"]) if place not in added]
        samples["rows"] = [[cell for place, cell in enumerate(row) if place not in added] for row in samples["rows"]]

    assert RESULTS.results(document) == results()


def test_without_rows_conditions_and_summaries_remain() -> None:
    short = without_rows(results())["points"][0]["repeats"][0]

    assert not {"records", "server", "gpu", "itl_histogram"} & set(short)
    assert short["summary"]["requests"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "not a results file"),
        ("[1]", "schema None"),
        ('{"schema": 99}', "schema 99, this version reads 1"),
        ('{"schema": 1, "points": []}', "conditions"),
        ('{"schema": 1, "points": [{"repeats": [{"records": []}]}]}', "columns and rows"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=said):
        read_results(path)


def test_a_missing_file_and_a_place_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot read"):
        read_results(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot write"):
        write_results(results(), tmp_path / "file" / "run.json")


def test_a_file_whose_name_ends_in_gz_is_compressed_and_reads_the_same(tmp_path: Path) -> None:
    plain, small = tmp_path / "run.json", tmp_path / "run.json.gz"
    write_results(results(), plain)
    write_results(results(), small)
    assert read_results(small) == read_results(plain) == results()
    assert small.stat().st_size < plain.stat().st_size / 2


def test_a_compressed_file_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    broken = tmp_path / "run.json.gz"
    for content in (b"{}", b"\x1f\x8b\x08\x00"):
        broken.write_bytes(content)
        with pytest.raises(ConfigError, match="cannot read"):
            read_results(broken)


def test_a_script_s_measurement_gives_back_what_was_written_with_a_row_on_a_line(tmp_path: Path) -> None:
    found = Measurement.begin("rows", turns=2)
    found.data = {"rows": [{"a": [1, 2]}, {"a": []}], "medians": {"x": 1.5}, "empty": []}
    found.partial = True
    found.write(tmp_path / "new" / "rows.json")

    assert Measurement.read(tmp_path / "new" / "rows.json").document == json.loads(json.dumps(found.document))
    assert {"started_at", "git_commit", "machine", "packages", "turns"} == set(found.conditions)
    assert '  {"a": [1, 2]},\n  {"a": []}\n' in (tmp_path / "new" / "rows.json").read_text()
    with pytest.raises(ConfigError, match="it has results of rows, not of bench"):
        read_results(tmp_path / "new" / "rows.json")


def test_an_interrupt_keeps_what_was_measured() -> None:
    async def measure(found: Measurement) -> None:
        found.data["rows"] = [1]
        raise KeyboardInterrupt

    found = Measurement("rows", {})
    found.run(measure(found))
    assert found.partial and found.data == {"rows": [1]}
