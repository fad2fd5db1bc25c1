from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.bench.workload import Pair, choose, describe, parse_pairs


def test_directions_with_weights() -> None:
    assert parse_pairs("en-ja:3, en-ko:0.5,zh-en") == (Pair("en", "ja", 3), Pair("en", "ko", 0.5), Pair("zh", "en", 1))


def test_tags_with_regions_and_detected_sources() -> None:
    assert parse_pairs("zh-Hant>en:2,auto>pt-BR,auto-ja") == (
        Pair("zh-Hant", "en", 2),
        Pair(None, "pt-BR"),
        Pair(None, "ja"),
    )


@pytest.mark.parametrize("text", ["", "en", "enja", "en-ja-ko", "en-ja:0", "en-ja:-1", "en-ja:x", "en-ja:inf", "en-en"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_pairs(text)


def test_weights_are_kept_to() -> None:
    pairs, random = parse_pairs("en-ja:3,zh-en:1"), Random(0)

    drawn = Counter(choose(pairs, random).label for _ in range(4000))

    assert drawn["en-ja"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_the_description_reads_back() -> None:
    assert parse_pairs(describe(parse_pairs("en-ja:3,zh-en"))) == parse_pairs("en-ja:3,zh-en:1")
