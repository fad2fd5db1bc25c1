"""Negation and questions as the wording shows them, and what the evaluation lines make of them."""

from __future__ import annotations

import pytest
from tools.phrasebook.adequacy import EVALUATION_FOLDER, LANGUAGES, EvaluationRow, adequate, load_rows, normalised
from tools.phrasebook.sentence_form import asks, denies, same_form

TRIPS = {
    "en": ["My phone doesn't work abroad."],
    "ja": ["私の携帯は海外では使えません。"],
    "ko": ["제 휴대폰은 해외에서 안 돼요."],
    "zh": ["我的手机在国外不能用。"],
}


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "I don't eat meat.", True),
        ("en", "I eat meat.", False),
        ("en", "I hardly eat meat.", None),
        ("ja", "肉を食べません。", True),
        ("ja", "肉を食べます。", False),
        ("ja", "少し休みませんか？", None),
        ("ja", "宿題をしなければなりません。", None),
        ("ko", "고기를 안 먹어요.", True),
        ("ko", "고기를 먹어요.", False),
        ("ko", "안녕하세요.", None),
        ("zh", "我不吃肉。", True),
        ("zh", "我吃肉。", False),
        ("zh", "这个主意不错。", None),
    ],
)
def test_negation_is_seen_where_it_is_plain(language: str, text: str, expected: bool | None) -> None:
    assert denies(normalised(text), language) is expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Is it open?", True),
        ("en", "where is it", None),
        ("en", "It is open.", False),
        ("ja", "開いていますか。", True),
        ("ja", "開いています。", False),
        ("ko", "열려 있어요?", True),
        ("ko", "열려 있어요.", False),
        ("zh", "开门吗？", True),
        ("zh", "开门了。", False),
    ],
)
def test_questions_are_seen_where_they_are_plain(language: str, text: str, expected: bool | None) -> None:
    assert asks(normalised(text), language) is expected


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
