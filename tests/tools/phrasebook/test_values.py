"""Values, and the grammar that puts them into a sentence."""

import re
from random import Random

import pytest
from tools.phrasebook.grammar import Sound, capitalised, final_sound, indefinite, particle
from tools.phrasebook.values import (
    COPIED_KINDS,
    LISTED_KINDS,
    LOCALISED_KINDS,
    Value,
    draw_copied,
    draw_localised,
    listed_values,
    stock,
)


@pytest.mark.parametrize(
    ("word", "topic", "towards"),
    [
        ("기차역", "은", "으로"),
        ("학교", "는", "로"),
        ("호텔", "은", "로"),
        ("서울", "은", "로"),
        ("3", "은", "으로"),
        ("1204", "는", "로"),
        ("1", "은", "로"),
        ("100", "은", "으로"),
        ("35%", "는", "로"),
        ("Tom", "은", "으로"),
        ("Mike", "는", "로"),
        ("Jack", "은", "으로"),
        ("Daniel", "은", "로"),
        ("Ming", "은", "으로"),
        ("Peter", "는", "로"),
        ("report.pdf", "는", "로"),
    ],
)
def test_particle_follows_the_sound_that_a_word_ends_in(word: str, topic: str, towards: str) -> None:
    sound = final_sound(word)
    assert sound is not None
    assert particle("은", "는", sound) == topic
    assert particle("으로", "로", sound) == towards


def test_closing_punctuation_is_not_read() -> None:
    assert final_sound("‘서울’") is Sound.RIEUL
    assert final_sound(" (…)") is None


def test_an_unreadable_word_gets_both_forms() -> None:
    assert particle("은", "는", Sound.UNKNOWN) == "은(는)"
    assert particle("으로", "로", Sound.UNKNOWN) == "(으)로"
    assert particle("이라고", "라고", Sound.UNKNOWN) == "(이)라고"


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("apple", "an apple"),
        ("sandwich", "a sandwich"),
        ("hour", "an hour"),
        ("hotel", "a hotel"),
        ("university", "a university"),
        ("uninteresting book", "an uninteresting book"),
        ("umbrella", "an umbrella"),
        ("USB cable", "a USB cable"),
        ("MRI scan", "an MRI scan"),
        ("one-way ticket", "a one-way ticket"),
        ("8", "an 8"),
        ("11", "an 11"),
        ("180", "a 180"),
        ("112", "a 112"),
    ],
)
def test_article_follows_the_sound(noun: str, expected: str) -> None:
    assert indefinite(noun) == expected


def test_only_the_first_letter_is_capitalised() -> None:
    assert capitalised("train to Seoul") == "Train to Seoul"


SHAPES = {
    "name": r"[A-Z][a-z]+",
    "company": r"[A-Z][a-z]+( [A-Z][a-z]+)?",
    "int": r"[2-9]|[1-9]\d{1,2}",
    "room": r"[1-9]\d{2,3}",
    "code": r"[A-Z]{1,3}-?\d{3,6}",
    "url": r"https://[a-z.]+(/[a-z]+)*(\?id=\d+)?",
    "email": r"[a-z]+(\.[a-z]+|\d+)?@[a-z.]+",
    "phone": r"(\+\d+ )?\d+(-\d+)+",
    "version": r"\d+(\.\d+){1,2}",
    "percent": r"([1-9]\d?|100)%",
    "file": r"[a-z]+[a-z_\d-]*\.[a-z\d]+",
    "placeholder": r"\$?\{+[\w]+\}+|%[sd]|%\(\w+\)s|%\d\d?\$s|<x id=\"\d\"></x>",
}


@pytest.mark.parametrize("kind", sorted(COPIED_KINDS))
def test_a_copied_value_has_the_shape_of_its_kind(kind: str) -> None:
    rng = Random(1)
    for _ in range(500):
        value = draw_copied(kind, rng, stock())
        assert len(set(value.texts)) == 1
        assert re.fullmatch(SHAPES[kind], value.texts[0])


def drawn(kind: str) -> dict[str, Value]:
    rng = Random(1)
    return {value.texts[0]: value for value in (draw_localised(kind, rng) for _ in range(5000))}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("time", ("3:30 PM", "午後3時30分", "오후 3시 30분", "下午3点30分")),
        ("time", ("8 AM", "午前8時", "오전 8시", "上午8点")),
        ("date", ("March 5", "3月5日", "3월 5일", "3月5日")),
        ("weekday", ("Monday", "月曜日", "월요일", "星期一")),
        ("month", ("March", "3月", "3월", "3月")),
        ("minutes", ("15 minutes", "15分", "15분", "15分钟")),
        ("people", ("4 people", "4人", "4명", "4个人")),
        ("temperature", ("18 degrees", "18度", "18도", "18度")),
        ("distance", ("500 meters", "500メートル", "500미터", "500米")),
        ("price", ("$25", "25ドル", "25달러", "25美元")),
        ("country", ("the United States", "アメリカ", "미국", "美国")),
        ("language", ("Korean", "韓国語", "한국어", "韩语")),
    ],
)
def test_a_value_is_written_each_languages_own_way(kind: str, texts: tuple[str, ...]) -> None:
    assert drawn(kind)[texts[0]].texts == texts


@pytest.mark.parametrize("kind", sorted(LOCALISED_KINDS))
def test_values_of_a_kind_differ_in_every_language(kind: str) -> None:
    values = {value.texts for value in drawn(kind).values()}
    for texts in zip(*values, strict=True):
        assert len(set(texts)) == len(values)


@pytest.mark.parametrize("kind", LISTED_KINDS)
def test_every_listed_value_is_drawn(kind: str) -> None:
    assert {value.texts[0] for value in listed_values(kind)} == set(drawn(kind))
