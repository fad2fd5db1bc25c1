"""`dragoman bench` as a process, against a server in this one, and its options."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Warmup
from dragoman_bench.bench.results import Load, read_results
from dragoman_bench.cli.bench import command, interval, load_levels, parse_warmup
from tests.bench.serving import hang, serving, translate
from tests.waiting import HANG_S

WARMUP = ("--warmup", "2")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    lines = [{"text": f"text {n}", "source": "en", "target": "de"} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


async def _start(*arguments: object) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "dragoman.cli.main", "bench", *map(str, arguments))
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def _bench(*arguments: object) -> Ran:
    process = await _start(*arguments)
    out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def test_a_run_prints_a_table_ends_with_json_and_writes_its_results(tmp_path: Path, texts: Path) -> None:
    path = tmp_path / "out" / "run.json"
    async with serving({"/v1/translate": translate}) as url:
        options = ("--requests", 10, "--concurrency", "1,2", "--stream", "--slo", "p95_s=30,ttft_ms_p95=30000")
        ran = await _bench("--url", url, "--workload", texts, *WARMUP, *options, "--out", path, "--json")

    assert ran.code == 0, ran.err
    assert "| 1 client |" in ran.out and "| 2 clients |" in ran.out
    document: dict[str, Any] = json.loads(ran.out.splitlines()[-1])
    assert [point["load"]["clients"] for point in document["points"]] == [1, 2]
    results = read_results(path)
    assert [repeat.summary.completed for point in results.points for repeat in point.repeats] == [10, 10]
    assert all(record.ttft_s is not None for record in results.points[0].repeats[0].records)
    assert "1 client" in ran.err and "done" not in ran.out  # progress is for stderr


async def test_generated_texts_are_the_default(tmp_path: Path) -> None:
    async with serving({"/v1/translate": translate}) as url:
        ran = await _bench("--url", url, "--rate", "200", "--requests", 6, "--pairs", "en-ja:3,ko-en", *WARMUP)

    assert ran.code == 0, ran.err
    assert "Workload variable: 10..200 source tokens" in ran.out
    assert "| 200 req/s poisson |" in ran.out


async def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, texts: Path) -> None:
    asked, held = 0, asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked > 12:
            held.set()
            return await hang(request)
        return await translate(request)

    path = tmp_path / "run.json"
    async with serving({"/v1/translate": handler}) as url:
        options = ("--workload", texts, "--concurrency", 1, "--requests", 1000, *WARMUP, "--out", path)
        process = await _start("--url", url, *options)
        await asyncio.wait_for(held.wait(), HANG_S)
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()

    assert process.returncode == 130, err.decode()
    assert "Interrupted" in out.decode()
    results = read_results(path)
    assert results.partial
    summary = results.points[0].repeats[0].summary
    assert (summary.completed, summary.errors) == (12 - 1 - 2, {"unfinished": 1})  # without the check and the warm-up


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "http://127.0.0.1:9"), "cannot reach http://127.0.0.1:9"),
        (("--url", "nonsense"), "is not a URL"),
        (("--slo", "fast"), "SLO term 'fast'"),
        (("--pairs", "en"), "language pair 'en'"),
        (("--pairs", "fr-en"), "cannot generate texts for the pair fr-en"),
        (("--workload", "EMPTY"), "is empty"),
        (("--workload", "none.jsonl"), "cannot read"),
        (("--rate", "5", "--concurrency", "2"), "exclude each other"),
        (("--requests", "5", "--duration", "2"), "exclude each other"),
        (("--target", "deepl", "--stream"), "does not stream"),
        (("--slo", "ttft_ms_p95=3"), "needs --stream"),
    ],
)
def test_a_mistake_is_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    given = [str(empty) if argument == "EMPTY" else argument for argument in arguments]

    with pytest.raises(ConfigError, match=re.escape(said)):
        command.main(given, standalone_mode=False)


async def test_a_mistake_is_one_line_and_exit_code_2() -> None:
    ran = await _bench("--url", "http://127.0.0.1:9")

    assert ran.code == 2
    assert "cannot reach http://127.0.0.1:9" in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert ran.out == ""


def _loads(*arguments: str) -> tuple[Load, ...]:
    return load_levels(command.make_context("bench", list(arguments)).params)


def test_levels_of_a_sweep() -> None:
    assert _loads("--concurrency", "1,2, 4") == tuple(Load("closed", clients=n) for n in (1, 2, 4))
    assert _loads("--rate", "0.5,2") == (Load("poisson", rate_rps=0.5), Load("poisson", rate_rps=2))
    assert _loads("--rate", "3", "--arrivals", "constant") == (Load("constant", rate_rps=3),)
    assert _loads("--replay") == (Load("replay"),)
    assert _loads() == (Load("closed", clients=8),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--concurrency", "8", "--rate", "2"], "--concurrency and --rate exclude each other"),
        (["--rate", "1", "--replay"], "--rate and --replay exclude each other"),
        (["--concurrency", "1.5"], "must be whole"),
        (["--concurrency", "0"], "above 0"),
        (["--concurrency", ","], "above 0"),
        (["--rate", "fast"], "'fast'"),
        (["--rate", "inf"], "above 0"),
    ],
)
def test_a_fault_names_the_option(given: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _loads(*given)


def test_intervals() -> None:
    assert interval("10..200", "--tokens") == (10, 200)
    assert interval("60", "--tokens") == (60, 60)
    with pytest.raises(ConfigError, match="must not be above"):
        interval("200..10", "--tokens")


def test_warm_ups() -> None:
    assert parse_warmup("20") == Warmup(requests=20)
    assert parse_warmup("1.5s") == Warmup(duration_s=1.5)
    assert parse_warmup("0") == Warmup()
    with pytest.raises(ConfigError, match="--warmup"):
        parse_warmup("some")
