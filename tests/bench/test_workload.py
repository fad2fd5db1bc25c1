from __future__ import annotations

from collections import Counter

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import band_of
from dragoman_bench.bench.workload import Item, MadeUp, OutputRatio, Recorded, parse_pairs


class _Numbered:
    """Texts of exactly the wanted number of words, each telling its seed."""

    languages = ("en", "zh")

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def make(self, language: str, tokens: int) -> str:
        return " ".join([f"{language}{self._seed}"] * tokens)


def _words(text: str) -> int:
    return len(text.split())


def _made_up(low: int = 10, high: int = 200, pairs: str = "en-ja:3,zh-en:1", **other: object) -> MadeUp:
    return MadeUp("variable", low, high, parse_pairs(pairs), _Numbered, _words, "words", **other)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_items() -> None:
    assert _made_up(seed=5).items(50, 1) == _made_up(seed=5).items(50, 1)
    assert _made_up(seed=5).items(50, 1) != _made_up(seed=6).items(50, 1)


def test_another_measurement_has_the_same_lengths_pairs_and_order_but_other_texts() -> None:
    first, second = _made_up().items(50, 1), _made_up().items(50, 2)

    assert [(item.wanted_tokens, item.pair) for item in first] == [(item.wanted_tokens, item.pair) for item in second]
    assert not {item.text for item in first} & {item.text for item in second}


def test_more_items_begin_with_the_fewer() -> None:
    assert _made_up().items(50, 1)[:20] == _made_up().items(20, 1)


def test_variable_lengths_mix_short_and_long_in_every_band() -> None:
    items = _made_up().items(400, 1)

    assert min(item.source_tokens for item in items) >= 10
    assert max(item.source_tokens for item in items) <= 200
    bands = Counter(band_of(item.source_tokens) for item in items)
    assert min(bands.values()) >= 40
    assert bands["short"] == max(bands.values())


def test_uniform_lengths_are_equal() -> None:
    assert {item.source_tokens for item in _made_up(60, 60).items(40, 1)} == {60}


def test_measured_and_wanted_lengths_are_both_kept() -> None:
    twice = MadeUp("uniform", 60, 60, parse_pairs("en-ja"), _Numbered, lambda text: 2 * _words(text), "half words")

    assert {(item.wanted_tokens, item.source_tokens) for item in twice.items(5, 1)} == {(60, 120)}


def test_forced_output_lengths_are_within_the_ratio_of_the_measured_length() -> None:
    items = _made_up(ratio=OutputRatio(0.8, 1.3)).items(300, 1)

    ratios = [(item.output_tokens or 0) / item.source_tokens for item in items if item.source_tokens >= 50]
    assert min(ratios) >= 0.79
    assert max(ratios) <= 1.31
    assert max(ratios) - min(ratios) > 0.4


def test_forcing_output_lengths_changes_no_text() -> None:
    plain, forced = _made_up().items(30, 1), _made_up(ratio=OutputRatio(1, 1)).items(30, 1)

    assert [item.text for item in plain] == [item.text for item in forced]
    assert {item.output_tokens for item in plain} == {None}


def test_a_source_without_texts_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"pair fr-en: sources are en, zh"):
        _made_up(pairs="fr-en").items(1, 1)
    with pytest.raises(ConfigError, match="pair auto-en"):
        _made_up(pairs="auto-en").samples()


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"20\.\.10"):
        _made_up(20, 10)


def test_samples_meet_every_pair_once() -> None:
    assert [item.pair for item in _made_up().samples()] == [("en", "ja"), ("zh", "en")]
    recorded = Recorded("file", (Item("a", "en", "de", 1), Item("b", "en", "de", 1), Item("c", None, "fr", 1)))
    assert {item.pair for item in recorded.samples()} == {("en", "de"), (None, "fr")}


def test_a_description_says_how_it_was_made() -> None:
    said = _made_up(ratio=OutputRatio(0.8, 1.3)).description

    assert said == "variable: 10..200 source tokens (words), en-ja:3,zh-en:1, outputs forced to 0.8..1.3 × source"


def test_a_file_gives_no_more_than_it_has() -> None:
    recorded = Recorded("file", (Item("a", "en", "de", 1), Item("b", "en", "de", 1)))

    assert [item.text for item in recorded.items(1, 1)] == ["a"]
    assert [item.text for item in recorded.items(9, 1)] == ["a", "b"]
