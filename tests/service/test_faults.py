"""A model that damages its answers on purpose: every planted fault is caught, and clean answers raise no alarm."""

from __future__ import annotations

import string
from itertools import islice

import pytest

from dragoman.pipelines.fake import FakePipeline
from dragoman.types import TextFormat, Translation, TranslationRequest
from tests.eval.faulty import FAULTS, Fault, FaultyAnswers, PhrasebookAnswers, sentence_rows
from tests.service.test_translator import translate, translator

WORDS = frozenset(string.ascii_letters + " .,?!'")
LANGUAGES = ("en", "ja", "ko", "zh")
TEXTS = 60
CLEAN_TEXTS = 400


def long_rows(letters: int = 40) -> list[list[str]]:
    """Packaged sentences that are long enough for checks that compare lengths."""
    return [row for row in sentence_rows() if sum(map(str.isalpha, row[0])) >= letters]


def texts(fault: Fault | None, number: int) -> tuple[list[str], TextFormat]:
    """English texts in which the fault can be planted."""
    sentences = [row[0] for row in islice(long_rows(), 3 * number)]
    if fault in ("drop_tags", "reorder_tags", "translate_placeholders"):
        sentences = [row[0] for row in long_rows() if set(row[0]) <= WORDS]
    if fault in ("drop_tags", "reorder_tags"):
        return [f"<p>{_tagged(one)}</p>" for one in sentences[:number]], "html"
    if fault == "translate_placeholders":
        return [f"{one.rstrip('.!?')} {{name}}." for one in sentences[:number]], "text"
    if fault == "drop_sentences":
        return [" ".join(sentences[3 * at : 3 * at + 3]) for at in range(number)], "text"
    return sentences[:number], "text"


def _tagged(sentence: str) -> str:
    words = sentence.split()
    return " ".join([words[0], f"<b>{words[1]}</b>", *words[2:-2], f"<i>{words[-2]}</i>", words[-1]])


async def translated(model: PhrasebookAnswers, given: list[str], form: TextFormat, target: str) -> list[Translation]:
    pipeline = FakePipeline(model)
    await pipeline.start()
    return await translate(translator(pipeline, slots=64), TranslationRequest(tuple(given), target, "en", format=form))


@pytest.mark.parametrize("target", ["ja", "zh"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_planted_fault_is_repaired_or_warned_of(fault: Fault, target: str) -> None:
    given, form = texts(fault, TEXTS)
    model = FaultyAnswers(fault, probability=1.0, seed=1)
    found = await translated(model, given, form, target)
    damaged = {planted.text for planted in model.planted}
    assert len(damaged) >= 0.9 * TEXTS
    missed = [one for one in found if not one.retries and not one.warnings]
    assert len(missed) <= TEXTS - min(len(damaged), TEXTS) + 0.05 * TEXTS, missed[:3]


@pytest.mark.parametrize("target", LANGUAGES[1:])
async def test_clean_answers_raise_no_alarm(target: str) -> None:
    for fault in (None, "drop_tags", "translate_placeholders", "drop_sentences"):
        given, form = texts(fault, CLEAN_TEXTS)  # type: ignore[arg-type]
        found = await translated(PhrasebookAnswers(), given, form, target)
        alarms = [one for one in found if one.warnings or one.retries]
        assert len(alarms) <= 0.01 * CLEAN_TEXTS, (fault, alarms[:3])


@pytest.mark.parametrize("fault", ["drop_tags", "reorder_tags"])
async def test_whatever_a_model_does_to_tags_they_come_back(fault: Fault) -> None:
    given, form = texts(fault, TEXTS)
    found = await translated(FaultyAnswers(fault, probability=1.0, seed=2), given, form, "ja")
    for source, one in zip(given, found, strict=True):
        for tag in ("<p>", "</p>", "<b>", "</b>", "<i>", "</i>"):
            assert one.text.count(tag) == source.count(tag)
