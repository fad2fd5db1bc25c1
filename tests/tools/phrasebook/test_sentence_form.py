"""Negation and questions as the wording shows them, and what the evaluation lines make of them."""

from __future__ import annotations

import pytest
from tools.phrasebook.adequacy import EVALUATION_FOLDER, LANGUAGES, EvaluationRow, adequate, load_rows, normalised
from tools.phrasebook.sentence_form import denies, same_form

pytestmark = pytest.mark.acceptance

TRIPS = {
    "en": ["My phone doesn't work abroad."],
    "ja": ["私の携帯は海外では使えません。"],
    "ko": ["제 휴대폰은 해외에서 안 돼요."],
    "zh": ["我的手机在国外不能用。"],
}


def test_a_translation_has_the_form_on_which_the_references_of_all_languages_agree() -> None:
    references = {language: [normalised(text) for text in some] for language, some in TRIPS.items()}
    assert same_form("my phone can't be used abroad.", "en", references)
    assert not same_form("my phone works abroad.", "en", references)
    assert not same_form("doesn't my phone work abroad?", "en", references)
    assert same_form("my phone works abroad.", "en", references | {"zh": ["我的手机在国外能用。"]})


def test_a_line_that_is_negative_in_all_languages_refuses_its_reference_without_the_negation() -> None:
    rows = [row for name in ("test", "validation") for row in load_rows(EVALUATION_FOLDER / f"{name}.jsonl")]
    negative = [
        row for row in rows if all(denies(normalised(text), one) for one in LANGUAGES for text in row.texts[one])
    ]
    assert len(negative) > 40
    for row in negative:
        positive = row.texts["en"][0].replace("n't", "").replace(" not ", " ").replace(" no ", " ")
        assert denies(normalised(positive), "en") is not False or not adequate(row, "en", positive)


def test_a_single_word_is_the_whole_translation() -> None:
    row = EvaluationRow(
        "t1",
        "words and greetings",
        {"en": ["water"], "ja": ["水"], "ko": ["물"], "zh": ["水"]},
        {"en": [["=water"]], "ja": [["=水"]], "ko": [["=물"]], "zh": [["=水"]]},
        {},
    )
    assert adequate(row, "en", "The water")
    assert adequate(row, "ja", "水です。")
    assert not adequate(row, "ja", "水曜日")
    assert not adequate(row, "ko", "물건")
