"""Training, from nothing to an exported model, on a tiny budget."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console
from tools.phrasebook.docs import render
from tools.phrasebook.export import load
from tools.phrasebook.learner import Learner, rate
from tools.phrasebook.progress import Progress
from tools.phrasebook.shape import Shape
from tools.phrasebook.train import Plan, run

from dragoman.errors import ConfigError
from tools.phrasebook import evaluate, train

TINY = Shape(vocabulary=1024, hidden=64, layers=2, heads=1, kv_heads=1, intermediate=128)


@pytest.fixture
def plan(data: Path, tmp_path: Path) -> Plan:
    return Plan(
        tmp_path / "out",
        steps=50,
        tokens=1024,
        rate=3e-2,
        data=data,
        shape=TINY,
        tokenizer_messages=300,
        held_out_messages=8,
    )


@pytest.fixture
def report() -> Progress:
    return Progress(Console(file=io.StringIO()))


def test_the_loss_falls_and_the_model_is_exported(plan: Plan, report: Progress) -> None:
    learner = run(plan, report)
    record = json.loads((plan.out / "training.json").read_text(encoding="utf-8"))
    assert record["used"]["step"] == learner.tally.step == 50
    untrained = float(torch.tensor(TINY.vocabulary).log())
    assert record["losses"][-1]["held_out_loss"] < untrained - 1.0
    assert load(plan.out).parameters_total() == record["parameters"]


def test_a_resumed_run_goes_on_from_the_checkpoint(plan: Plan, report: Progress) -> None:
    run(replace(plan, steps=3), report)
    before = load(plan.out, torch.float32).state_dict()
    resumed = run(replace(plan, steps=5, resume=True), report)
    assert (resumed.tally.step, resumed.tally.sessions) == (5, 2)
    after = load(plan.out, torch.float32).state_dict()
    assert not torch.equal(after["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


def test_resuming_a_run_whose_budget_is_spent_changes_nothing(plan: Plan, report: Progress) -> None:
    run(replace(plan, steps=3), report)
    before = load(plan.out, torch.float32).state_dict()
    assert run(replace(plan, steps=3, resume=True), report).tally.step == 3
    after = load(plan.out, torch.float32).state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_an_interrupted_run_saves_and_exports(plan: Plan, report: Progress, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Learner.step

    def interrupted(self: Learner, *args: object) -> torch.Tensor:
        if self.tally.step == 2:
            raise KeyboardInterrupt
        return step(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Learner, "step", interrupted)
    assert run(plan, report).tally.step == 2
    assert load(plan.out)
    monkeypatch.undo()
    assert run(replace(plan, steps=4, resume=True), report).tally.step == 4


def test_the_same_seed_trains_the_same_model(plan: Plan, report: Progress, tmp_path: Path) -> None:
    first = run(replace(plan, steps=3, out=tmp_path / "a"), report).model.state_dict()
    again = run(replace(plan, steps=3, out=tmp_path / "b"), report).model.state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_the_rate_warms_up_stays_and_falls_to_nothing() -> None:
    assert rate(0, 0.0) < 0.01
    assert rate(10_000, 0.3) == 1.0
    assert 0.4 < rate(10_000, 0.825) < 0.6
    assert rate(10_000, 1.0) == 0.0


def test_resuming_nothing_is_refused(plan: Plan, report: Progress) -> None:
    with pytest.raises(ConfigError, match="nothing to resume"):
        run(replace(plan, resume=True), report)


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(train.main, ["--out", str(tmp_path), "--resume", "--workers", "0"])
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines() == [f"error: {tmp_path / 'checkpoint.pt'}: nothing to resume"]


def test_a_trained_model_is_evaluated_into_a_table_a_file_and_a_page(
    plan: Plan, report: Progress, tmp_path: Path
) -> None:
    run(replace(plan, steps=2), report)
    out, docs = tmp_path / "results" / "phrasebook.json", tmp_path / "phrasebook.md"
    arguments = ["--model", str(plan.out), "--messages", "1", "--out", str(out), "--docs", str(docs)]
    result = CliRunner().invoke(evaluate.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "en-ja" in result.stdout
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["messages"]["all"]["count"] == written["sentences"]["all"]["count"] == 12
    assert written["conditions"]["training"]["steps"] == 2
    assert docs.read_text(encoding="utf-8") == render(written)
    assert "| en → ja |" in docs.read_text(encoding="utf-8")


def test_evaluating_an_empty_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(evaluate.main, ["--model", str(tmp_path)])
    assert result.exit_code == 2
    assert "no model.safetensors here" in result.stderr
