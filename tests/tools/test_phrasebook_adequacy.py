"""The independent everyday lines: the checks accept right translations and refuse wrong ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tools.phrasebook.adequacy import (
    DIRECTIONS,
    EVALUATION_FOLDER,
    LANGUAGES,
    EvaluationFileError,
    EvaluationRow,
    adequate,
    exact_match,
    judge,
    load_rows,
    summarise,
)

from tools.phrasebook import lines

pytestmark = pytest.mark.acceptance

TEST_ROWS = load_rows(EVALUATION_FOLDER / "test.jsonl")  # also checks every row's references
VALIDATION_ROWS = load_rows(EVALUATION_FOLDER / "validation.jsonl")
PATTERN_ROWS = [
    row for side in ("validation", "test") for row in load_rows(EVALUATION_FOLDER / f"patterns_{side}.jsonl")
]
BY_ENGLISH = {row.texts["en"][0]: row for row in [*TEST_ROWS, *VALIDATION_ROWS]}

# English source | language | a translation that is right but not among the references.
PARAPHRASES = """
Where is the nearest subway station?|ja|最寄りの地下鉄駅はどこにありますか？
Where is the nearest subway station?|zh|请问最近的地铁站怎么走？
What time does the train leave?|ko|기차는 몇 시에 떠나요?
I lost my passport.|ja|パスポートを失くしてしまいました。
I lost my passport.|zh|我丢了护照。
Is breakfast included?|zh|包含早饭吗？
I don't eat meat.|zh|我不吃肉的。
This soup is too salty.|ja|このスープは塩辛すぎる。
This soup is too salty.|ko|이 수프는 너무 짜요.
I'm allergic to peanuts.|ko|저 땅콩 알레르기 있어요.
I have a meeting at three.|zh|我三点钟要开会。
The deadline is Friday.|ja|締切は金曜日です。
The deadline is Friday.|ko|마감일은 금요일입니다.
I have a headache.|ja|頭痛がするんです。
I couldn't sleep last night.|ja|昨日の夜、眠れませんでした。
I couldn't sleep last night.|ko|어제 밤에 잠을 못 잤어.
How much is this?|ja|こちらはおいくらですか。
How much is this?|ko|이거 얼마입니까?
It's too expensive.|en|This is too expensive!
It's raining.|ko|비가 오고 있어요.
My phone is out of battery.|zh|手机没电了。
I forgot my password.|ko|비밀번호를 잊어버렸습니다.
What time is it?|ja|何時ですか？
Hello|ja|こんにちは！
Hello|ko|안녕하세요.
Thanks|en|Thank you!
See you tomorrow|ja|また明日会いましょう
I don't have any cash.|zh|我没有现金。
"""

# English source | language | a translation that is wrong: another meaning, negated, or in part.
WRONG = """
I don't eat meat.|ja|私は肉を食べます。
I don't eat meat.|ko|저는 고기를 먹어요.
I don't eat meat.|zh|我吃肉。
I don't eat meat.|en|I eat meat.
I don't have any cash.|en|I have some cash.
I couldn't sleep last night.|ja|昨夜はよく眠れた。
I couldn't sleep last night.|zh|我昨晚睡得很好。
Hello|ja|ヘブライ
Yes|ja|横浜
Yes|ko|아니요
No|zh|是的
Good night|en|Good morning
Where is the nearest subway station?|ja|駅はきれいです。
Where is the nearest subway station?|ko|버스 정류장이 어디예요?
Where is the nearest subway station?|zh|最近的银行在哪里？
What time does the train leave?|ja|何時に起きますか？
I lost my passport.|ja|パスポートを見つけました。
I lost my passport.|en|I found my passport.
This soup is too salty.|ja|このスープは甘い。
This soup is too salty.|en|This soup is too sweet.
I have a meeting at three.|ko|다섯 시에 회의가 있어요.
I have a meeting at three.|en|I have a meeting at five.
The deadline is Friday.|ja|締め切りは月曜日です。
The deadline is Friday.|zh|截止日期是星期一。
My birthday is on April 3.|en|My birthday is on May 3.
Monday|zh|星期二
water|ko|불
red|ja|青
"""


def cases(text: str) -> list[tuple[EvaluationRow, str, str]]:
    parts = [line.split("|") for line in text.strip().splitlines()]
    return [(BY_ENGLISH[english], language, translation) for english, language, translation in parts]


def row_with(**fields: object) -> str:
    row: dict[str, object] = {
        "id": "t1",
        "topic": "travel",
        "texts": {"en": ["a bus"], "ja": ["バス"], "ko": ["버스"], "zh": ["公交车"]},
        "checks": {"en": [["bus"]], "ja": [["バス"]], "ko": [["버스"]], "zh": [["公交", "巴士"]]},
    }
    return json.dumps(row | fields)


def test_the_sets_are_large_distinct_and_complete() -> None:
    assert len(TEST_ROWS) >= 1000
    assert len(VALIDATION_ROWS) >= 300
    assert len(BY_ENGLISH) == len(TEST_ROWS) + len(VALIDATION_ROWS)


def test_the_lines_of_other_patterns_are_in_no_other_set_and_in_no_training_line() -> None:
    others = {language: set(lines.bare_texts()[language]) for language in LANGUAGES}
    for row in [*TEST_ROWS, *VALIDATION_ROWS]:
        for language in LANGUAGES:
            others[language].update(map(lines.bare, row.texts[language]))
    repeated = [row.id for row in PATTERN_ROWS for one in LANGUAGES if lines.bare(row.texts[one][0]) in others[one]]
    assert (len({row.id for row in PATTERN_ROWS}), repeated) == (136, [])


def test_references_of_other_lines_are_inadequate() -> None:
    rows = [*TEST_ROWS, *VALIDATION_ROWS]
    randomness = random.Random(20)
    accepted = 0
    for row in rows:
        other = randomness.choice([candidate for candidate in rows if candidate is not row])
        accepted += sum(adequate(row, language, other.texts[language][0]) for language in LANGUAGES)
    assert accepted / (len(rows) * len(LANGUAGES)) <= 0.02


@pytest.mark.parametrize(("row", "language", "translation"), cases(PARAPHRASES))
def test_good_paraphrases_are_adequate(row: EvaluationRow, language: str, translation: str) -> None:
    assert adequate(row, language, translation)


@pytest.mark.parametrize(("row", "language", "translation"), cases(WRONG))
def test_wrong_translations_are_inadequate(row: EvaluationRow, language: str, translation: str) -> None:
    assert not adequate(row, language, translation)


def test_empty_long_and_repeating_translations_are_inadequate() -> None:
    row = BY_ENGLISH["I lost my passport."]
    assert not adequate(row, "en", " ")
    assert not adequate(row, "en", "I lost my passport. " + "This is more than anyone asked for. " * 2)
    assert not adequate(row, "ja", "パスポートをなくなくなくなくなくしました。")


def test_a_reader_s_verdict_goes_over_the_checks(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(row_with(read={"en": {"by bus": False, "a coach": True}}) + "\n", encoding="utf-8")
    [row] = load_rows(path)
    assert [adequate(row, "en", text) for text in ("by bus", "the bus", "a coach", "a train")] == [
        False,
        True,
        True,
        False,
    ]


def test_exact_match_ignores_final_punctuation_spaces_and_case() -> None:
    row = BY_ENGLISH["I lost my passport."]
    assert exact_match(row, "en", "i lost  my passport")
    assert exact_match(row, "ko", "여권을 잃어 버렸어요")
    assert not exact_match(row, "en", "I lost a passport.")


def test_judging_references_gives_full_figures_and_echoes_of_the_source_none() -> None:
    rows = TEST_ROWS[100:140]
    by_source = {(source, row.texts[source][0]): row for row in rows for source in LANGUAGES}
    perfect = judge(rows, lambda texts, s, t: [by_source[s, text].texts[t][0] for text in texts])
    summary = summarise(rows, perfect)
    assert len(perfect) == len(rows) * len(DIRECTIONS)
    assert summary["all"]["adequacy"] == summary["all"]["exact_match"] == 1
    assert summary["by_direction"]["en-ja"]["chrf"] == pytest.approx(100)
    assert set(summary["by_topic"]) == {row.topic for row in rows}
    echoes = summarise(rows, judge(rows, lambda texts, s, t: texts))
    assert echoes["all"]["adequacy"] < 0.1


def test_a_translator_that_drops_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="en to ja"):
        judge(TEST_ROWS[:2], lambda texts, s, t: texts[:1], [("en", "ja")])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        row_with(id=""),
        row_with(extra=1),
        row_with(texts={"en": ["a bus"]}),
        row_with(checks={"en": [], "ja": [["バス"]], "ko": [["버스"]], "zh": [["公交"]]}),
        row_with(absent={"fr": ["bus"]}),
        row_with(read={"fr": {"bus": True}}),
        row_with(read={"en": {"a bus": "yes"}}),
        row_with(absent={"en": ["bus"]}),
        row_with(checks={"en": [["train"]], "ja": [["バス"]], "ko": [["버스"]], "zh": [["公交"]]}),
        row_with(),  # the same id as line 1
    ],
)
def test_a_faulty_file_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(row_with() + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(EvaluationFileError, match=r"rows\.jsonl, line 2"):
        load_rows(path)
