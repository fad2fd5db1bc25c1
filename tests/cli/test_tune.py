"""`dragoman tune`: its options, what it refuses, and a whole small tune over real servers without an engine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman.settings import load
from dragoman_bench.bench.progress import INTERRUPTED
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.cli import tune as module
from dragoman_bench.cli.tune import command, this_hardware
from dragoman_bench.journey.steps import Pace, Subject
from dragoman_bench.tune.outcome import Setup, read_tuning
from dragoman_bench.tune.trial import BY_HAND, StartCommand
from tests.tune.test_watch import STATS, TRAFFIC

RESULTS = Path(__file__).parents[2] / "results"
STAND_IN = Path(__file__).parents[1] / "bench" / "stand_in.py"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def test_the_plan_is_listed_without_measuring_and_without_loading_an_engine() -> None:
    """What takes long to import or compute is not needed for a plan."""
    program = "import sys; from dragoman_bench.cli.tune import command; command(standalone_mode=False); "
    program += "print(sorted({'vllm', 'torch', 'transformers', 'matplotlib'} & set(sys.modules)))"
    arguments = ["--list", "--clients", "2-6", "--slo", "p95_s=2", "--also", "priority", "--baselines", "story"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    assert "2 texts at once usually, 6 when busy, 6 at most" in lines[0]
    assert any(line.startswith("final") and "finalist, story: 3 rounds" in line for line in lines)
    assert any(line.startswith("optional") and "priority" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--trace FILE"),
        (("--clients", "25-2"), "'25-2'"),
        (("--clients", "2-6", "--slo", "p95=2"), "'p95=2'"),
        (("--clients", "2-6", "--also", "fp9"), "fp9"),
        (("--clients", "2-6", "--baselines", "me"), "'me'"),
        (("--clients", "2-6", "--model", "./nowhere"), "./nowhere"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--watch", "nowhere"), "'nowhere'"),
        (("--watch", "http://127.0.0.1:9"), "http://127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line_that_names_it(arguments: tuple[str, ...], named: str) -> None:
    ran = invoke(*arguments)
    assert isinstance(ran.exception, ConfigError), ran.exception
    assert named in ran.exception.message
    assert "\n" not in ran.exception.message


def test_servers_are_started_on_this_machine() -> None:
    hardware, machine = this_hardware()
    assert hardware.memory_bytes > 2**30
    assert hardware.gpus == (len(machine.gpus) if hardware.device == "cuda" else 0)


def stand_ins(subject: Subject) -> StartCommand:
    """Servers without an engine, which speak dragoman's API."""

    def start(name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        return ServerCommand(name, (sys.executable, str(STAND_IN), "well"), "/readyz")

    return start


def test_a_tune_ends_in_settings_to_serve_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "server_command", stand_ins)
    monkeypatch.setattr(module, "CPU_PACE", Pace(duration_s=0.2, warmup_s=0.05))
    wanted = ["--clients", "1", "--slo", "p95_s=0.1", "--repeats", "1", "--baselines", "embedder"]
    out = tmp_path / "out"
    ran = invoke(*wanted, "--out", str(out))
    assert ran.exception is None, ran.exception
    settings = load(out / "dragoman.toml", environment={}).settings
    tuning = read_tuning(out / "tune.json")
    assert tuning.recommendation is not None and tuning.final is not None
    assert settings.engine.max_num_seqs == tuning.recommendation.knobs.max_num_seqs
    assert settings.engine.max_model_len == 1024
    assert not tuning.partial
    assert {path.name for path in out.iterdir()} >= {"dragoman.toml", "report.html", "tune.md", "tune.json", "points"}
    limited = invoke(*wanted, "--out", str(tmp_path / "none"), "--time-limit", "1")
    assert "time limit" in str(limited.exception)


def test_an_interrupted_tune_writes_what_it_has_and_exits_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_tuning(RESULTS / "tune-cpu" / "tune.json")
    monkeypatch.setattr(module, "observed", lambda work: replace(whole, partial=True, partial_because=BY_HAND))
    ran = CliRunner().invoke(command, ["--clients", "1-2", "--out", str(tmp_path / "again")])
    assert ran.exit_code == INTERRUPTED
    assert (tmp_path / "again" / "dragoman.toml").is_file()


async def test_a_running_server_is_watched() -> None:
    app = web.Application()
    for path, document in (("/v1/stats", STATS), ("/v1/traffic", TRAFFIC | {"peak_tokens": 50_000})):
        app.router.add_get(path, partial(answer, document))
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        ran = await asyncio.to_thread(CliRunner().invoke, command, ["--watch", url, "--json"])
    document = json.loads(ran.output)
    assert (document["url"], document["verdict"], ran.exit_code) == (url, "does not fit", module.FAILED)


async def answer(document: dict[str, Any], _: web.Request) -> web.Response:
    return web.json_response(document)
