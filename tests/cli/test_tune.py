"""`dragoman tune`: its options, what it refuses, and a whole small tune over real servers without an engine."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman.settings import load
from dragoman_bench.bench.servers import ServerCommand
from dragoman_bench.cli import tune as module
from dragoman_bench.cli import tuning as tuning_module
from dragoman_bench.cli.observing import INTERRUPTED
from dragoman_bench.cli.subject import make_subject
from dragoman_bench.cli.tune import command
from dragoman_bench.cli.tuning import here, make_demand, prompt_shape
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.document import read_tuning
from dragoman_bench.tune.points import Setup
from dragoman_bench.tune.running import Starter, starter_for
from dragoman_bench.tune.workshop import BY_HAND
from tests.serving import fake_service, served
from tests.tune.telling import WHOLE


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def refused(*arguments: str) -> str:
    """The message of the one line that the user gets, with exit code 2."""
    ran = invoke(*arguments)
    assert isinstance(ran.exception, ConfigError), ran.exception
    return ran.exception.message


def trace(folder: Path, *lines: dict[str, object]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_the_plan_and_its_time_can_be_listed_without_measuring() -> None:
    ran = invoke("--list", "--clients", "2-6", "--slo", "p95_s=2", "--also", "priority", "--baselines", "story")
    lines = ran.output.splitlines()
    assert "2 texts at once usually, 6 when busy, 6 at most" in lines[0]
    assert lines[1] == "SLO: p95_s=2"
    assert "at most 1, 2, 4, 6 requests at once" in lines[2]
    assert any(line.startswith("final") and "finalist, story: 3 rounds" in line for line in lines)
    assert any(line.startswith("optional") and "priority" in line for line in lines)
    assert lines[-1].startswith("In all about ")


def test_a_trace_says_how_many_come_at_once_unless_it_is_told(tmp_path: Path) -> None:
    lines = [{"source": "en", "target": "ja", "source_tokens": 20, "in_flight": n % 7 + 1} for n in range(70)]
    path = str(trace(tmp_path, *lines))
    assert "4 texts at once usually, 7 when busy, 7 at most" in invoke("--list", "--trace", path).output
    told = invoke("--list", "--trace", path, "--clients", "1-3").output
    assert "1 texts at once usually, 3 when busy, 3 at most" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say --trace FILE"),
        (("--clients", "25-2"), "clients '25-2'"),
        (("--clients", "2-6", "--slo", "p95=2"), "SLO term 'p95=2'"),
        (("--clients", "2-6", "--also", "fp9"), "fp9"),
        (("--clients", "2-6", "--baselines", "me"), "no baseline 'me'"),
        (("--clients", "2-6", "--model", "./nowhere"), "./nowhere is not a folder"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--watch", "nowhere"), "'nowhere' is not a URL"),
        (("--watch", "http://127.0.0.1:9"), "cannot reach http://127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], said: str) -> None:
    message = refused(*arguments)
    assert said in message
    assert "\n" not in message


def test_a_trace_with_a_broken_line_names_it(tmp_path: Path) -> None:
    path = trace(tmp_path, {"source": "en", "target": "ja", "source_tokens": 20, "in_flight": 1}, {"in_flight": 1})
    assert f"{path}:2" in refused("--list", "--trace", str(path))


def test_a_text_is_told_to_become_what_the_server_makes_of_it() -> None:
    shape = prompt_shape(make_subject("", "", "auto", None), "")
    assert shape.window == 1024
    assert 0 < shape.overhead < 16
    assert shape.piece_tokens is not None
    assert 64 < shape.piece_tokens <= 128  # the phrasebook's longest, and what sentences leave of it
    wide = prompt_shape(make_subject("", "", "auto", 128), "")
    assert wide.piece_tokens is not None and wide.piece_tokens < shape.piece_tokens


def test_a_demand_may_be_stated() -> None:
    demand = make_demand(make_subject("", "", "auto", None), "", None, "2-6")
    assert (demand.levels.low, demand.levels.busy, demand.levels.peak) == (2, 6, 6)
    assert {item.pair for item in demand.items} == {("en", "ja"), ("en", "ko"), ("zh", "en")}


def test_here_is_a_place_with_memory() -> None:
    place, machine = here()
    assert place.memory_bytes > 2**30
    assert machine.cores >= 1
    assert place.gpus == (len(machine.gpus) if place.device == "cuda" else 0)


def fake_starter(subject: Subject) -> Starter:
    """`dragoman serve` as it would be started, with its fake pipeline."""
    real = starter_for(subject)

    def start(name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        told = real(name, setup, engine_log)
        return replace(told, argv=(*told.argv, "--pipeline", "fake"))

    return start


def test_a_tune_over_dragoman_serve_ends_in_settings_to_serve_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--pipeline fake`: everything but the engine is real."""
    monkeypatch.setattr(tuning_module, "starter_for", fake_starter)
    wanted = ["--clients", "1-2", "--slo", "p95_s=5", "--duration", "1", "--repeats", "1", "--baselines", "embedder"]
    out = tmp_path / "out"
    ran = invoke(*wanted, "--out", str(out))
    assert ran.exception is None, ran.exception
    assert ran.output.splitlines()[-1].startswith("Serve ")
    settings = load(out / "dragoman.toml", environment={}).settings
    tuning = read_tuning(out / "tune.json")
    assert tuning.recommendation is not None
    assert settings.engine.max_num_seqs == tuning.recommendation.knobs.max_num_seqs
    assert settings.engine.max_model_len == 1024
    assert not tuning.partial
    assert "dragoman tune" in (out / "tune.md").read_text(encoding="utf-8")
    assert "<html" in (out / "report.html").read_text(encoding="utf-8")
    limited = invoke(*wanted, "--out", str(tmp_path / "none"), "--time-limit", "1")
    assert limited.exception is not None
    assert "time limit" in str(limited.exception)


def test_an_interrupted_tune_writes_what_it_has_and_leaves_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = replace(WHOLE, partial=True, partial_because=BY_HAND)
    monkeypatch.setattr(module, "observed", lambda work: stopped)
    ran = CliRunner().invoke(command, ["--clients", "1-2", "--out", str(tmp_path / "again")])
    assert ran.exit_code == INTERRUPTED
    assert (tmp_path / "again" / "dragoman.toml").is_file()


async def test_a_running_server_is_watched_and_left_alone() -> None:
    async with served(fake_service()) as client:
        url = str(client.base_url).rstrip("/")
        ran = await asyncio.to_thread(invoke, "--watch", url)
        told = json.loads((await asyncio.to_thread(invoke, "--watch", url, "--json")).output)
    assert ran.exception is None
    assert "cannot be told yet" in ran.output
    assert (told["url"], told["verdict"]) == (url, "cannot be told")
