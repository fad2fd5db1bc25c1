"""How many output tokens a translation may have."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dragoman.prompts.lengths import LengthTable, character_ratio, max_output_tokens, parallel_text
from dragoman.prompts.tokenizer import TextTokenizer

NAMED = "en ja ko zh zh-Hant de fr es pt it nl pl cs ru uk tr ar he fa hi bn th vi id sv da fi no el hu ro bg"


@pytest.fixture
def table(make_toy: Callable[[str, str], TextTokenizer], family: str) -> LengthTable:
    return LengthTable.measure(make_toy(family, "chat"))


def test_the_parallel_text_has_every_language_whole() -> None:
    text = parallel_text()
    assert set(NAMED.split()) <= set(text)
    assert {len(sentences) for sentences in text.values()} == {len(text["en"])}
    everything = [sentence for sentences in text.values() for sentence in sentences]
    assert all(sentence == sentence.strip() and sentence for sentence in everything)
    for tag, sentences in text.items():
        assert len(set(sentences)) == len(sentences), tag


def test_ratios_are_reciprocal_and_consistent(table: LengthTable) -> None:
    assert table.ratio("en", "en") == 1
    assert table.ratio("zh", "en") * table.ratio("en", "zh") == pytest.approx(1)
    assert table.ratio("zh", "de") == pytest.approx(table.ratio("zh", "en") * table.ratio("en", "de"))


def test_ratios_follow_characters_where_every_character_is_a_token() -> None:
    table = LengthTable({tag: sum(map(len, sentences)) for tag, sentences in parallel_text().items()})
    assert 3 < table.ratio("zh", "en") < 4.6  # 3.81 on the Universal Declaration
    assert 0.2 < table.ratio("en", "zh") < 0.33
    assert 0.9 < table.ratio("en", "de") < 1.3


def test_every_pair_of_the_text_itself_fits_its_bound(
    make_toy: Callable[[str, str], TextTokenizer], table: LengthTable, family: str
) -> None:
    tokenizer = make_toy(family, "chat")
    counts = {tag: [tokenizer.count(one) for one in sentences] for tag, sentences in parallel_text().items()}
    for source, given in counts.items():
        for target, wanted in counts.items():
            for have, need in zip(given, wanted, strict=True):
                assert need <= max_output_tokens(table.ratio(source, target), have, 10**6), (source, target)


def test_the_bound_is_twice_the_ratio_and_a_constant() -> None:
    table = LengthTable({"en": 100, "de": 130})
    assert max_output_tokens(table.ratio("en", "de"), 50, 10**6) == math.ceil(2 * 1.3 * 50) + 32
    assert max_output_tokens(table.ratio("de", "en"), 1, 10**6) == 48
    assert max_output_tokens(table.ratio("en", "de"), 50, 40) == 40


@pytest.mark.parametrize(
    ("source", "target", "ratio"),
    [
        ("en", "pt-BR", 1.1),  # a region or script: its language's
        ("en", "zh-Hans", 0.4),
        ("en", "zh-Hant-HK", 0.5),
        ("en", "nb", 0.9),
        ("en-GB", "zh-TW", 0.5),
        ("en", "am", 2.5),  # unknown: by the source
        ("zh", "am", 4.0),
        ("ja", "en", 4.0),
        (None, "en", 4.0),
        ("am", "en", 2.5),
    ],
)
def test_ratios_of_tags_that_were_not_measured(source: str | None, target: str, ratio: float) -> None:
    assert LengthTable({"en": 100, "pt": 110, "zh": 40, "zh-Hant": 50, "no": 90}).ratio(source, target) == ratio


def test_the_ratio_of_characters_is_that_of_the_nearest_languages_that_are_known() -> None:
    assert character_ratio("en", "zh") < 0.5 < 1.0 < character_ratio("en", "de")
    assert character_ratio("en", "pt-BR") == character_ratio("en", "pt")
    assert character_ratio("en", "zh") * character_ratio("zh", "en") == pytest.approx(1)
    assert character_ratio("en", "yue") == 1.0
