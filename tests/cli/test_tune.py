"""`dragoman tune`: its options, what it refuses, and a whole small tune over real servers without an engine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.errors import ConfigError
from dragoman.settings import load
from dragoman_bench.bench.progress import INTERRUPTED
from dragoman_bench.cli import tune as module
from dragoman_bench.cli.tune import command
from dragoman_bench.journey.steps import Pace
from dragoman_bench.tune.outcome import read_tuning
from dragoman_bench.tune.outputs import summary
from dragoman_bench.tune.trial import BY_HAND
from tests.bench.stand_ins import StandIns

RESULTS = Path(__file__).parents[2] / "results"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def test_the_plan_is_listed_without_measuring_and_without_loading_an_engine() -> None:
    """What takes long to import or compute is not needed for a plan."""
    program = "import sys; from dragoman_bench.cli.tune import command; command(standalone_mode=False); "
    program += "print(sorted({'vllm', 'torch', 'transformers', 'matplotlib'} & set(sys.modules)))"
    arguments = ["--list", "--clients", "6", "--slo", "p95_s=2", "--baselines", "story"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    assert "6 texts at once when busy, 6 at most" in lines[0]
    assert any("finalist, story: 3 rounds" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--trace FILE"),
        (("--clients", "6", "--slo", "p95=2"), "'p95=2'"),
        (("--clients", "6", "--baselines", "me"), "'me'"),
        (("--clients", "6", "--model", "./nowhere"), "./nowhere"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_bad_input_is_one_line_that_names_it(arguments: tuple[str, ...], named: str) -> None:
    ran = invoke(*arguments)
    assert isinstance(ran.exception, ConfigError), ran.exception
    assert named in ran.exception.message
    assert "\n" not in ran.exception.message


def test_a_tune_ends_in_settings_to_serve_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = StandIns(tmp_path)
    monkeypatch.setattr(module, "server_command", lambda subject: lambda name, setup, engine_log: servers.start(name))
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
    assert {path.name for path in out.iterdir()} >= {"dragoman.toml", "report.html", "tune.json", "points"}
    assert ran.output.splitlines()[-1] == summary(tuning)
    servers.started.clear()
    again = invoke(*wanted, "--out", str(out))
    assert again.exception is None, again.exception
    assert servers.started == []


def test_an_interrupted_tune_writes_what_it_has_and_exits_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_tuning(RESULTS / "tune-cpu" / "tune.json")
    monkeypatch.setattr(module, "observed", lambda work: replace(whole, partial=True, partial_because=BY_HAND))
    ran = CliRunner().invoke(command, ["--clients", "2", "--out", str(tmp_path / "again")])
    assert ran.exit_code == INTERRUPTED
    assert (tmp_path / "again" / "dragoman.toml").is_file()
