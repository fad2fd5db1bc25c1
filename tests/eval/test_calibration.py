"""`dragoman check-model --calibrate`: what is fitted of a server's answers, the file that is written, and what is refused."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import ConfigError
from dragoman.pipelines.fake import FakePipeline
from dragoman.text import confidence
from dragoman.text.confidence import uncalibrated
from dragoman.types import Completion, Delta, EngineSequence, TokenLogprobs
from dragoman_bench.bench.measurement import write_text
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.eval.apis import ApiOptions, translation_api
from dragoman_bench.eval.calibration import (
    Calibration,
    Floats,
    auc,
    choose_threshold,
    cross_validated,
    figures,
    fit,
    read_texts,
    run_calibration,
)
from tests.serving import served, service_over, source_of
from wholetext.markup.spans import pseudolocalized

WRONG = "Where"  # the texts that begin with it are translated wrongly, and with less probable tokens
INPUTS = (("confidence_inputs", True),)
TEXTS = [f"{begin} is number {number} of the letters." for number in range(60) for begin in (WRONG, "This")]


@pytest.fixture
def sample() -> tuple[list[dict[str, float]], Floats]:
    """Translations that are right with a probability that falls with their probability and their rarity."""
    rng = np.random.default_rng(1)
    mean = -rng.exponential(1.0, 4000)
    rare = rng.random(4000)
    chance = 1 / (1 + np.exp(-(2.5 + 1.5 * mean - 2.0 * rare)))
    inputs = [
        {"mean_logprob": float(m), "source_rare": float(r), "retried": 0.0} for m, r in zip(mean, rare, strict=True)
    ]
    return inputs, (rng.random(4000) < chance).astype(float)


def test_the_fit_gives_probabilities_that_come_true(sample: tuple[list[dict[str, float]], Floats]) -> None:
    inputs, adequate = sample
    found = figures(fit(inputs, adequate).scores(inputs), adequate, threshold=0.5)
    assert found["auc"] > 0.75
    assert found["expected_calibration_error"] < 0.03
    risks = [point["risk"] for point in found["risk_coverage"]]
    assert risks[3] < risks[-1] == pytest.approx(1 - found["adequate"], abs=1e-4)


def test_inputs_that_never_vary_get_no_weight(sample: tuple[list[dict[str, float]], Floats]) -> None:
    assert fit(*sample).weights.keys() == {"mean_logprob", "source_rare"}


def test_cross_validation_predicts_a_group_without_having_seen_it() -> None:
    rng = np.random.default_rng(2)
    inputs = [
        {"own": float(number // 4 == group), "noise": float(rng.random())}
        for group in range(1)
        for number in range(400)
    ]
    groups = [str(number // 4) for number in range(400)]
    adequate = np.array([float(rng.random() < 0.5) for _ in range(100) for _ in range(4)])
    assert auc(cross_validated(inputs, adequate, groups), adequate) == pytest.approx(0.5, abs=0.1)


def test_auc_counts_ties_as_half() -> None:
    assert auc(np.array([0.1, 0.9]), np.array([0.0, 1.0])) == 1
    assert auc(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0.5


def test_the_threshold_flags_at_most_the_allowed_share_of_adequate_translations(
    sample: tuple[list[dict[str, float]], Floats],
) -> None:
    inputs, adequate = sample
    scores = np.array([one["mean_logprob"] for one in inputs])
    flagged = scores < choose_threshold(scores, adequate, 0.1)
    assert flagged[adequate == 1].mean() <= 0.1
    assert flagged[adequate == 0].mean() > 0.2


def answer(text: str) -> str:
    """That of the model: with all of the text's numbers, so that it is not asked again."""
    if not text.startswith(WRONG):
        return pseudolocalized(text)
    return pseudolocalized("Nothing of this at all, ") + "".join(filter(str.isdigit, text))


class UnsurePipeline(FakePipeline):
    """Answers what passes the checks, or else something shorter with less probable tokens."""

    def __init__(self, *, with_logprobs: bool = True) -> None:
        super().__init__(lambda one: answer(source_of(one)))
        self._with_logprobs = with_logprobs

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        text = source_of(sequence)
        mean = -(1.0 if text.startswith(WRONG) else 0.4) - 0.5 * (len(text) % 7) / 7
        async for item in super()._decode(sequence):
            if isinstance(item, Completion) and self._with_logprobs:
                item = replace(item, logprobs=TokenLogprobs(mean, 2 * mean))
            yield item


def texts_file(folder: Path, *, checks: bool = False) -> Path:
    file = folder / "texts.jsonl"
    rows = [
        {"source": text, "reference": f"~{pseudolocalized(text)}", "source_language": "en", "target_language": "ja"}
        | ({"checks": [[pseudolocalized("This"), "these"], [pseudolocalized("A number")[2:]]]} if checks else {})
        for text in TEXTS
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


async def calibrated(file: Path, *, with_logprobs: bool = True) -> Calibration:
    service = service_over(UnsurePipeline(with_logprobs=with_logprobs))
    service.model = replace(service.model, confidence=uncalibrated())
    async with served(service) as client:
        options = ApiOptions(str(client.base_url), extra=INPUTS)
        async with translation_api(options) as api:
            return await run_calibration(api, read_texts(file), 50.0, NoProgress(), asyncio.Event())


@pytest.mark.parametrize("checks", [False, True], ids=["by chrF", "by checks"])
async def test_a_server_is_fitted_and_reads_the_file(tmp_path: Path, checks: bool) -> None:
    calibration = await calibrated(texts_file(tmp_path, checks=checks))
    assert (calibration.figures["translations"], calibration.figures["adequate"], calibration.skipped) == (120, 0.5, 0)
    assert calibration.figures["auc"] > 0.9
    write_text(tmp_path / "model" / confidence.FILE, json.dumps(calibration.document))
    fitted = confidence.load(tmp_path / "model" / confidence.FILE)
    assert fitted.kind == "calibrated"
    for text, mean, doubtful in ((TEXTS[1], -0.4, False), (TEXTS[0], -1.4, True)):
        features = fitted.features(text, answer(text), ("en", "ja"), TokenLogprobs(mean, 2 * mean))
        assert fitted.is_doubtful(fitted.confidence(fitted.scores(features, ("en", "ja")), ("en", "ja"))) is doubtful


async def test_lengths_are_compared_with_those_of_the_references(tmp_path: Path) -> None:
    calibration = await calibrated(texts_file(tmp_path))
    usual = calibration.document["length_ratios"]["en-ja"]
    assert usual == pytest.approx(1.03, abs=0.01)
    write_text(tmp_path / "model" / confidence.FILE, json.dumps(calibration.document))
    model = confidence.load(tmp_path / "model" / confidence.FILE)
    (features,) = model.features("a" * 19, "b" * 39, ("en", "ja"), TokenLogprobs(-1.0, -1.0))
    assert features.length_deviation == pytest.approx(math.log(40 / 20 / usual))


async def test_without_probabilities_nothing_is_fitted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token-logprobs"):
        await calibrated(texts_file(tmp_path), with_logprobs=False)


async def test_translations_that_are_all_adequate_allow_no_fit(tmp_path: Path) -> None:
    file = texts_file(tmp_path)
    file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[1::2]).replace("~", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="0 of 60 translations are inadequate"):
        await calibrated(file)


async def test_the_command_fits_a_running_server_and_writes_the_file(tmp_path: Path) -> None:
    service = service_over(UnsurePipeline())
    out = tmp_path / "fitted.json"
    async with served(service) as client:
        file = texts_file(tmp_path)
        other = {"source": "Hello.", "reference": "Hallo.", "source_language": "en", "target_language": "de"}
        file.write_text(f"{file.read_text('utf-8')}\n{json.dumps(other)}", encoding="utf-8")  # which is not served
        arguments = ("--url", str(client.base_url), "--calibrate", str(file), "--out", str(out))
        command = (sys.executable, "-m", "dragoman.cli.main", "check-model", *arguments)
        assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
    assert confidence.load(out).kind == "calibrated"


async def test_each_direction_has_its_own_share_of_adequate_translations(tmp_path: Path) -> None:
    """Of the same probabilities, those into Korean are wrong."""
    file = texts_file(tmp_path)
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    wrong = [row | {"target_language": "ko", "reference": f"!{row['source']}"} for row in rows]
    file.write_text("\n".join(map(json.dumps, rows + wrong)), encoding="utf-8")
    write_text(tmp_path / "c.json", json.dumps((await calibrated(file)).document))
    fitted = confidence.load(tmp_path / "c.json")
    features = fitted.features(TEXTS[1], answer(TEXTS[1]), ("en", "ja"), TokenLogprobs(-0.4, -0.8))
    doubtful = [
        fitted.is_doubtful(fitted.confidence(fitted.scores(features, ("en", target)), ("en", target)))
        for target in ("ja", "ko")
    ]
    assert doubtful == [False, True]


def test_catalogues_are_texts_too(tmp_path: Path) -> None:
    file = tmp_path / "de.po"
    entries = [f'msgid "The letter has number {n}."\nmsgstr "Der Brief hat die Nummer {n}."' for n in range(3)]
    file.write_text("\n\n".join(['msgid ""\nmsgstr "Language: de\\n"', *entries]), encoding="utf-8")
    found = read_texts(file)
    assert {(one.source, one.target) for one in found} == {("en", "de")}
    assert sorted(one.reference for one in found)[0] == "Der Brief hat die Nummer 0."


async def test_the_inputs_are_in_an_answer_only_where_they_are_asked_for() -> None:
    async with served(service_over(UnsurePipeline())) as client:
        body = {"text": "This is a letter.", "source": "en", "target": "ja"}
        plain = (await client.post("/v1/translate", json=body)).json()["translations"][0]
        asked = await client.post("/v1/translate", json=body | {"confidence_inputs": True})
        streamed = await client.post("/v1/translate", json=body | {"confidence_inputs": True, "stream": True})
    assert "confidence_inputs" not in plain
    [inputs] = asked.json()["translations"][0]["confidence_inputs"]
    assert inputs["mean_surprise"] < inputs["most_surprise"]
    assert (streamed.status_code, streamed.json()["error"]["param"]) == (400, "confidence_inputs")
