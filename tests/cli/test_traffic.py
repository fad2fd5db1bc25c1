"""`dragoman traffic`: what is shown, what is exported, and that an export can be sent again."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from dragoman.cli.traffic import command
from dragoman.errors import ConfigError
from dragoman.pipelines.fake import FakePipeline
from dragoman.settings import EngineSettings, Settings, TrafficSettings
from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.recorder import Recorder, traffic_files
from dragoman_bench.bench.results import Repeat, read_results
from dragoman_bench.tune.demand import trace_demand
from tests.serving import echoing, served, service_over
from tests.telemetry.traffic.making import refused, text
from tests.tune.test_demand import SUBJECT


def record(folder: Path, texts: Iterable[TextRecord], replica: str = "") -> None:
    recorder = Recorder(TrafficSettings(folder=str(folder)), replica)
    for one in texts:
        recorder.text_ended(one)
    recorder.close()


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)


def ago(seconds: float, **other: Any) -> TextRecord:
    return text(arrived_unix_s=time.time() - seconds, **other)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two hours of an evening, three days ago, and a text of just now."""
    days = 3 * 86_400.0
    evening = [ago(days - number, request_id=f"old-{number}", in_flight=number % 5 + 1) for number in range(100)]
    evening += [ago(days + 3_600, source="zh", target="en", in_flight=20, source_tokens=100), refused(0)]
    record(tmp_path / "traffic", [*evening, ago(5, in_flight=2)])
    return tmp_path / "traffic"


def test_the_tables_show_concurrency_lengths_pairs_and_outcomes(folder: Path) -> None:
    output = invoke("show", "--folder", folder, "--since", "all").output
    assert "103 texts from" in output
    assert "102 ok, 1 queue_full" in output
    assert "102 en-ja, 1 zh-en" in output
    [in_flight] = [line.split() for line in output.splitlines() if line.startswith("texts in flight ")]
    assert in_flight[3:5] == ["103", "3"] and in_flight[-1] == "20"


def test_the_document_has_the_same_numbers(folder: Path) -> None:
    shown_json = json.loads(invoke("show", "--folder", folder, "--since", "4d", "--json").output)
    assert shown_json["summary"]["records"] == 102  # the refused one is of long ago
    assert shown_json["summary"]["in_flight"]["highest"] == 20
    assert shown_json["pairs"] == {"en-ja": 101, "zh-en": 1}
    assert (shown_json["files"], shown_json["torn_lines"], shown_json["alien_lines"]) == (1, 0, 0)
    assert json.loads(invoke("show", "--folder", folder, "--json").output)["summary"]["records"] == 1  # of today


def test_a_torn_line_is_counted_and_the_rest_is_shown(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [path] = traffic_files(folder)
    path.write_bytes(path.read_bytes()[:-30])
    shown = invoke("show", "--folder", folder, "--since", "all", "--json")
    shown_json = json.loads(shown.stdout.splitlines()[0])
    assert (shown_json["summary"]["records"], shown_json["torn_lines"]) == (102, 1)


def test_texts_in_flight_are_counted_over_the_recorders_that_ran_at_the_same_time(tmp_path: Path) -> None:
    """Texts of 10 s each that arrive every second, by turns at two replicas: each replica sees half of them."""
    began = time.time() - 3_600
    folders = [tmp_path / "one", tmp_path / "other"]
    for place, folder in enumerate(folders):
        texts = [
            text(number, arrived_unix_s=began + number, e2e_s=10.0, in_flight=min(number // 2 + 1, 5))
            for number in range(place, 40, 2)
        ]
        record(folder, texts, f"replica-{place}")
    both = [argument for folder in folders for argument in ("--folder", folder)]
    lines = [json.loads(line) for line in invoke("export", *both).stdout.splitlines() if line.startswith("{")]
    assert [line["in_flight"] for line in lines] == [min(number + 1, 10) for number in range(40)]
    assert [line["at_s"] for line in lines] == list(range(40))  # merged by time
    document = json.loads(invoke("show", *both, "--json").output)
    assert document["summary"]["in_flight"]["highest"] == 10
    assert (document["recorders"], document["in_flight_counted_anew"]) == (2, True)
    assert "all 2 recorders together" in invoke("show", *both).output

    alone = json.loads(invoke("show", "--folder", folders[0], "--json").output)
    own = json.loads(invoke("show", *both, "--per-replica", "--json").output)
    for kept in (alone, own):
        assert (kept["summary"]["in_flight"]["highest"], kept["in_flight_counted_anew"]) == (5, False)
    lines = [line for line in invoke("export", *both, "--per-replica").stdout.splitlines() if line.startswith("{")]
    assert [json.loads(line)["in_flight"] for line in lines] == [min(number // 2 + 1, 5) for number in range(40)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "--folder", "none"), "no traffic was recorded in none"),
        (("show", "--folder", "EMPTY"), "holds no traffic of that time"),
        (("show", "--folder", "EMPTY", "--since", "yesterday"), "is not like 30m"),
        (("export", "--folder", "EMPTY"), "holds no traffic of that time"),
        (("export", "--folder", "EMPTY", "--out", "trace.txt"), "ends in .jsonl"),
    ],
)
def test_a_mistake_is_reported(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ran = invoke(*(str(tmp_path) if one == "EMPTY" else one for one in arguments))
    assert isinstance(ran.exception, ConfigError)
    assert said in ran.exception.message


def test_the_folder_is_the_servers_setting(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text(f'[traffic]\nfolder = "{folder}"\n')
    assert json.loads(invoke("show", "--config", config, "--json").output)["summary"]["records"] == 1


def test_an_export_is_in_the_order_of_arrival_and_can_be_limited(folder: Path) -> None:
    lines = invoke("export", "--folder", folder, "--since", "4d", "--limit", 3).stdout.splitlines()
    times = [json.loads(line)["at_s"] for line in lines if line.startswith("{")]
    assert len(times) == 3
    assert times == sorted(times)
    assert times[0] == 0.0


async def _replay(url: str, trace: Path, out: Path) -> Repeat:
    flags = ("--workload", trace, "--replay", "--warmup", 0, "--out", out)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman.cli.main", "bench", "--url", url, *map(str, flags)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    [point] = read_results(out).points
    return point.repeats[0]


async def _recorded_traffic(folder: Path) -> Path:
    """A server's traffic, exported."""
    traffic = TrafficSettings(folder=str(folder / "traffic"))
    async with served(service_over(FakePipeline(echoing()), None, Recorder(traffic))) as client:

        async def post(words: int) -> httpx.Response:
            return await client.post(
                "/v1/translate", json={"text": "Good morning. " * words, "source": "en", "target": "ja"}
            )

        await asyncio.gather(*(post(words) for words in (1, 2, 4, 8, 16)))
    trace = folder / "trace.jsonl"
    assert invoke("export", "--folder", folder / "traffic", "--out", trace).exception is None
    return trace


@pytest.mark.parametrize("load_format", ["auto", "dummy"])
async def test_an_export_can_be_sent_again_and_dummy_weights_are_held_to_its_output_lengths(
    tmp_path: Path, load_format: Any
) -> None:
    trace = await _recorded_traffic(tmp_path)
    wanted = sorted(json.loads(line)["output_tokens"] for line in trace.read_text().splitlines())
    talkative = FakePipeline(lambda _: " ".join(["word"] * 500))
    settings = Settings(engine=EngineSettings(load_format=load_format))
    async with served(service_over(talkative, settings)) as client:
        sent = await _replay(str(client.base_url), trace, tmp_path / "results.json")
    assert sent.summary.completed == len(wanted) == 5
    lengths = sorted(record.output_tokens or 0 for record in sent.records)
    assert (lengths == wanted) is (load_format == "dummy")


# ---- documents


@pytest.fixture(params=["as they are recorded", "by an earlier version"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Calls of one text each second, of 2 s each, every tenth of them bulk; and a file of 283 segments that takes 161 s.

    Earlier versions counted the texts of both together, and did not say which is which."""
    is_earlier = request.param == "by an earlier version"
    calls = [
        ago(200 - n, request_id=f"c{n}", e2e_s=2.0, in_flight=2, kind="interactive" if n % 10 else "bulk")
        for n in range(200)
    ]
    of_file = {"request_id": "document-" + "0a" * 16, "source_tokens": 40, "kind": "document", "in_flight": 283}
    segments = [ago(150, index=n, e2e_s=161.0 * (n + 1) / 283, **of_file) for n in range(283)]
    if is_earlier:
        calls = [replace(one, in_flight=2 if n < 50 else 285) for n, one in enumerate(calls)]
    record(tmp_path / "traffic", [*calls, *segments])
    if is_earlier:
        [path] = traffic_files(tmp_path / "traffic")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "kind"}) + "\n" for line in lines))
    return tmp_path / "traffic"


def test_documents_are_shown_apart_from_calls(mixed: Path) -> None:
    found = json.loads(invoke("show", "--folder", mixed, "--json").output)
    calls, documents = found["summary"], found["documents"]
    assert (calls["records"], documents["records"]) == (200, 283)
    assert (calls["in_flight"]["highest"], documents["in_flight"]["highest"]) == (2, 283)
    assert calls["e2e_s"]["p95"] == pytest.approx(2.0)
    output = invoke("show", "--folder", mixed).output
    assert "200 texts from" in output
    assert "283 segments of documents from" in output


def test_one_kind_can_be_asked_for(mixed: Path, request: pytest.FixtureRequest) -> None:
    counts = dict[str, int]()
    for kind in ("calls", "interactive", "bulk", "documents", "all"):
        try:
            output = invoke("show", "--folder", mixed, "--json", "--kind", kind)
            if output.exception:
                raise output.exception
            counts[kind] = json.loads(output.output)["summary"]["records"]
        except ConfigError:
            counts[kind] = 0
    is_earlier = "earlier" in request.node.name
    bulk = 0 if is_earlier else 20
    assert counts == {
        "calls": 200,
        "interactive": 200 - bulk,
        "bulk": bulk,
        "documents": 283,
        "all": 483,
    }


@pytest.mark.parametrize("flags", [(), ("--kind", "all"), ("--per-replica",)])
def test_a_tune_is_not_sized_for_a_files_segments(mixed: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    out = tmp_path / "trace.jsonl"
    assert invoke("export", "--folder", mixed, "--out", out, *flags).exception is None
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == (483 if "all" in flags else 200)
    demand = trace_demand([out], SUBJECT)
    assert (len(demand.items), demand.levels.busy, demand.levels.peak) == (200, 2, 2)
    assert any("283 segments of documents" in note for note in demand.notes) == ("all" in flags)


def test_a_trace_of_documents_alone_is_refused_by_tune(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    assert invoke("export", "--folder", mixed, "--out", out, "--kind", "documents").exception is None
    with pytest.raises(ConfigError):
        trace_demand([out], SUBJECT)
