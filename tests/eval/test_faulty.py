"""The fake model translates packaged sentences exactly, keeps marks, and damages its answers as asked."""

from __future__ import annotations

import pytest

from dragoman.text.marks import lost
from tests.eval.faulty import FAULTS, Fault, FaultyAnswers, PhrasebookAnswers, sentence_rows
from tests.serving import fake_service, served

ENGLISH, JAPANESE, KOREAN, CHINESE = sentence_rows()[4]
OTHER, _, OTHER_KOREAN, _ = sentence_rows()[9]
MARKED = "How is the <g1>weather</g1> in <x2/>Yokohama today? My hobby is singing."


def test_packaged_sentences_are_translated_in_all_directions() -> None:
    answers = PhrasebookAnswers()
    assert answers.translate(ENGLISH, "en", "ja") == JAPANESE
    assert answers.translate(CHINESE, "zh", "ko") == KOREAN
    assert (
        answers.translate(f"{ENGLISH} {OTHER}\n\n{OTHER}", "en", "ko") == f"{KOREAN} {OTHER_KOREAN}\n\n{OTHER_KOREAN}"
    )


def test_marks_and_numbers_of_other_texts_are_kept() -> None:
    answer = PhrasebookAnswers().translate("<g1>Zubnok <x2/></g1> blar 17 times", "en", "ja")
    assert not lost("<g1>Zubnok <x2/></g1> blar 17 times", answer)
    assert "17" in answer


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_changes_the_answer_and_is_noted(fault: Fault) -> None:
    model = FaultyAnswers(fault, seed=3)
    right = model.translate(MARKED, "en", "ja")
    given = model.answer(MARKED, "en", "ja")
    assert given != right
    [planted] = model.planted
    assert (planted.fault, planted.right, planted.given) == (fault, right, given)
    if fault in ("drop_tags", "reorder_tags", "translate_placeholders", "echo"):
        assert not lost(MARKED, right)
        assert bool(lost(MARKED, given)) is (fault != "echo")


def test_what_cannot_be_damaged_is_answered_well() -> None:
    for fault in ("drop_tags", "reorder_tags", "translate_placeholders", "drop_sentences"):
        model = FaultyAnswers(fault)
        assert model.answer(OTHER, "en", "ko") == OTHER_KOREAN
        assert model.planted == []


def test_a_share_of_the_answers_is_damaged() -> None:
    model = FaultyAnswers("echo", probability=0.3, seed=1)
    sources = [row[0] for row in sentence_rows()[:400]]
    for text in sources:
        model.answer(text, "en", "zh")
    assert 80 < len(model.planted) < 160


async def test_it_answers_a_server_in_the_language_of_the_prompt() -> None:
    async with served(fake_service(PhrasebookAnswers())) as client:
        for target, expected in (("ja", JAPANESE), ("ko", KOREAN), ("zh", CHINESE)):
            response = await client.post("/v1/translate", json={"text": ENGLISH, "source": "en", "target": target})
            assert response.json()["translations"][0]["text"] == expected
