"""`dragoman check-model`: what it finds over models that translate well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.models import describe
from dragoman.errors import ConfigError, EngineRejected
from dragoman.prompts.encoder import PromptEncoder
from dragoman.service.service import TranslationService
from dragoman.types import EngineSequence
from dragoman_bench.bench.progress import INTERRUPTED, NoProgress, Observer
from dragoman_bench.cli.check_model import command
from dragoman_bench.eval.check_model import CheckedModel, ModelToCheck, check_model, describe_served, directions_of
from tests.eval.faulty import Fault, FaultyAnswers, PhrasebookAnswers
from tests.serving import HeldPipeline, fake_service, model, prompts, served, service_over
from tests.waiting import HANG_S, until

DIRECTIONS = (("en", "ja"), ("ko", "en"))
DESCRIBED = describe(model())


class Observed(NoProgress):
    """Counts the texts of each phase."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    def phase(self, label: str, total: int | None) -> None:
        self.done[label] = 0

    def update(self, done: int, failed: int, in_flight: int) -> None:
        self.done[list(self.done)[-1]] = done


async def checked(
    answers: Callable[[EngineSequence], str], observer: Observer | None = None, difference: str = ""
) -> CheckedModel:
    encoder, lengths = prompts()
    fake = fake_service(answers)
    service = TranslationService(
        fake.settings,
        fake.model,
        fake.spec,
        fake.pipeline,
        (PromptEncoder(encoder.profile, encoder.tokenizer, difference), lengths),
    )
    async with served(service) as client:
        url = str(client.base_url).rstrip("/")
        assert (await describe_served(url, lambda profile: DESCRIBED)).profile == DESCRIBED.profile
        wanted = ModelToCheck(DESCRIBED, DIRECTIONS, url)
        return await check_model(wanted, observer or NoProgress(), asyncio.Event())


def states(report: CheckedModel) -> dict[str, str]:
    return {finding.what: finding.state for finding in report.findings}


async def test_a_model_that_translates_well_is_reported_so() -> None:
    found = states(await checked(PhrasebookAnswers()))
    assert found["Speed"] == found["Licence"] == found["Prompt"] == "ok"
    assert "fail" not in (found["en to ja"], found["ko to en"])
    assert set(found) >= {"Prompt", "en to ja, tags", "ko to en, tags", "Glossary"}


@pytest.mark.parametrize(("fault", "all_fail"), [("comment", False), ("wrong_language", True)])
async def test_a_model_that_does_not_translate_fails(fault: Fault, all_fail: bool) -> None:
    observed = Observed()
    report = await checked(FaultyAnswers(fault), observed)
    assert not report.ok
    assert states(report)["en to ja"] == states(report)["ko to en"] == "fail"
    assert (observed.done == {"en to ja": 10, "ko to en": 10}) == all_fail


async def test_a_prompt_that_differs_from_the_checkpoints_own_fails() -> None:
    report = await checked(PhrasebookAnswers(), difference="another template")
    assert states(report)["Prompt"] == "fail"


async def test_a_model_that_refuses_every_text_is_asked_ten_of_each_direction() -> None:
    def refuse(_: EngineSequence) -> str:
        raise EngineRejected("no")

    observed = Observed()
    found = states(await checked(refuse_later(refuse), observed))
    assert found["en to ja"] == found["ko to en"] == "fail"
    assert observed.done == {"en to ja": 10, "ko to en": 10}


def refuse_later(refuse: Callable[[EngineSequence], str]) -> Callable[[EngineSequence], str]:
    """The warm-up is answered."""
    asked = 0

    def answer(sequence: EngineSequence) -> str:
        nonlocal asked
        asked += 1
        return PhrasebookAnswers()(sequence) if asked == 1 else refuse(sequence)

    return answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_what_was_found_is_shown_when_it_is_stopped(number: signal.Signals) -> None:
    """Also where answers are in flight that never come."""
    pipeline = HeldPipeline(PhrasebookAnswers())
    async with served(service_over(pipeline)) as client:
        url = str(client.base_url).rstrip("/")
        command = (
            sys.executable,
            "-m",
            "dragoman.cli.main",
            "check-model",
            "--url",
            url,
            "--directions",
            "en-ja,ko-en",
        )
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        async with asyncio.timeout(HANG_S):
            while not (line := (await process.stderr.readline()).decode()).startswith("ko to en"):
                assert line
            pipeline.hold()
            await until(lambda: pipeline.generations > 0, "a text that is in flight")
            process.send_signal(number)
            shown, _ = await process.communicate()
        pipeline.release.set()
        assert process.returncode == INTERRUPTED
        assert "en to ja" in shown.decode() and "Interrupted" in shown.decode()


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
