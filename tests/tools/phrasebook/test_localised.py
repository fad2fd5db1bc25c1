"""Values that each language writes its own way."""

from random import Random

import pytest
from tools.phrasebook.localised import LISTED_KINDS, LOCALISED_KINDS, draw_localised, listed_values
from tools.phrasebook.values import Value


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
def test_values_of_a_kind_are_told_apart_in_every_language(kind: str) -> None:
    values = {value.texts for value in drawn(kind).values()}
    for texts in zip(*values, strict=True):
        assert len(set(texts)) == len(values)


@pytest.mark.parametrize("kind", LISTED_KINDS)
def test_every_listed_value_is_drawn(kind: str) -> None:
    assert {value.texts[0] for value in listed_values(kind)} == set(drawn(kind))
