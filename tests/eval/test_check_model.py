"""`dragoman check-model`: what it finds over models that translate well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.models import describe
from dragoman.errors import ConfigError
from dragoman.types import Sequence
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.cli.check_model import command
from dragoman_bench.eval.check_model import CheckedModel, ModelToCheck, check_model, describe_served, directions_of
from tests.eval.faulty import Fault, FaultyAnswers, PhrasebookAnswers
from tests.serving import fake_service, model, served

DESCRIBED = describe(model())


async def checked(answers: Callable[[Sequence], str]) -> CheckedModel:
    async with served(fake_service(answers)) as client:
        url = str(client.base_url).rstrip("/")
        assert (await describe_served(url, lambda profile: DESCRIBED)).profile == DESCRIBED.profile
        wanted = ModelToCheck(DESCRIBED, (("en", "ja"), ("ko", "en")), url)
        return await check_model(wanted, NoProgress(), asyncio.Event())


def states(report: CheckedModel) -> dict[str, str]:
    return {finding.what: finding.state for finding in report.findings}


async def test_a_model_that_translates_well_is_reported_so() -> None:
    found = states(await checked(PhrasebookAnswers()))
    assert found["Speed"] == found["Licence"] == "ok"
    assert "fail" not in (found["en to ja"], found["ko to en"])
    assert set(found) >= {"Prompt", "en to ja, tags", "ko to en, tags", "Glossary"}


@pytest.mark.parametrize("fault", ["comment", "wrong_language"])
async def test_a_model_that_does_not_translate_fails(fault: Fault) -> None:
    report = await checked(FaultyAnswers(fault))
    assert not report.ok
    assert states(report)["en to ja"] == "fail"


def test_directions_are_those_that_the_model_serves() -> None:
    assert directions_of(DESCRIBED, [])[0] == ("en", "ja")
    assert directions_of(DESCRIBED, [("zh", "ko")]) == (("zh", "ko"),)
    with pytest.raises(ConfigError):
        directions_of(DESCRIBED, [("en", "de")])
    with pytest.raises(ConfigError):
        directions_of(DESCRIBED.model_copy(update={"directions": {"de>fr": 0}}), [])


def test_a_server_is_started_for_the_model(tmp_path: Path) -> None:
    """Over the fake pipeline, which translates nothing: the report says so, and the exit code."""
    arguments = ["--directions", "en-ja", "--log", str(tmp_path / "serve.log"), "--json", "--", "--pipeline", "fake"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["model"] == DESCRIBED.name and not report["ok"]
    assert report["conditions"]["machine"]["cores"] > 0
    assert {one["what"]: one["state"] for one in report["findings"]}["Memory"] == "ok"


def test_wrong_arguments_are_one_error() -> None:
    for arguments in (["--url", "http://127.0.0.1:1"], ["--url", "x"], ["--directions", "en"], ["/no/such/folder"]):
        result = CliRunner().invoke(command, arguments, standalone_mode=False)
        assert isinstance(result.exception, ConfigError), arguments
