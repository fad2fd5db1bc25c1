"""Language tags: what is normalised, what is refused and how, what serves what."""

from __future__ import annotations

import pytest

from wholetext import languages
from wholetext.errors import UnknownLanguage

SERVED = ("en", "ja", "ko", "zh", "pt", "no")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("EN", "en"),
        (" en ", "en"),
        ("pt_br", "pt-BR"),
        ("ZH-hans-cn", "zh-Hans-CN"),
        ("sr-latn", "sr-Latn"),
        ("en-Latn", "en"),
        ("iw", "he"),
        ("tl", "fil"),
        ("jpn", "ja"),
        ("cmn", "zh"),
        ("zh-yue", "yue"),
        ("arb", "ar"),
        ("en-u-ca-gregory", "en"),
        ("ca-valencia", "ca-valencia"),
    ],
)
def test_tags_are_canonicalised(given: str, expected: str) -> None:
    assert languages.normalise(given) == expected
    assert languages.normalise(expected) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("German", "de"),
        ("Deutsch", "de"),
        ("日本語", "ja"),
        ("한국어", "ko"),
        ("עברית", "he"),
        ("Cantonese", "yue"),
        ("Traditional Chinese", "zh-Hant"),
        ("简体中文", "zh-Hans"),
        ("Brazilian Portuguese", "pt-BR"),
    ],
)
def test_exact_names_are_taken_for_tags(given: str, expected: str) -> None:
    assert languages.normalise(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "",
        "  ",
        "xx",
        "e",
        "und",
        "qaa",
        "x-foo",
        "klingon?",
        "日",
        "日本語\0",
        "\ud800",
        "../etc",
    ],
)
def test_what_names_no_language_is_refused(given: str) -> None:
    with pytest.raises(UnknownLanguage):
        languages.normalise(given)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("jp", "ja"),
        ("cz", "cs"),
        ("en_US.UTF-8", "en-US"),
        ("en-XYZZY", "en"),
        ("Japanse", "ja"),
        ("francais", "fr"),
    ],
)
def test_a_refusal_suggests_the_nearest_tag(given: str, near: str) -> None:
    with pytest.raises(UnknownLanguage, match=f'Did you mean "{near}"'):
        languages.normalise(given)


def test_an_overlong_tag_is_refused_without_being_echoed_whole() -> None:
    with pytest.raises(UnknownLanguage) as refusal:
        languages.normalise("en-" + "x" * 100_000)
    assert len(refusal.value.message) < 100


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("en-GB", "en"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh-Hans", "zh"),
        ("cmn", "zh"),
        ("zh-TW", None),
        ("zh-Hant", None),
        ("yue", None),
        ("pt-BR", "pt"),
        ("nb", "no"),
        ("nn", None),
        ("German", None),
        ("Japanese", "ja"),
    ],
)
def test_a_tag_is_served_by_the_same_language_in_the_same_script(tag: str, expected: str | None) -> None:
    assert languages.match(tag, SERVED) == expected


def test_traditional_chinese_is_served_where_it_is_listed() -> None:
    assert (
        languages.match(
            "zh-TW",
            (
                "zh",
                "zh-Hant",
            ),
        )
        == "zh-Hant"
    )
    assert (
        languages.match(
            "zh-HK",
            (
                "zh-Hans",
                "zh-TW",
            ),
        )
        == "zh-TW"
    )
    assert (
        languages.match(
            "zh-CN",
            (
                "zh-Hant",
                "zh",
            ),
        )
        == "zh"
    )


def test_the_nearest_region_wins_and_the_entry_keeps_its_spelling() -> None:
    assert (
        languages.match(
            "pt",
            (
                "pt-PT",
                "pt-BR",
            ),
        )
        == "pt-BR"
    )
    assert (
        languages.match(
            "pt-AO",
            (
                "pt-BR",
                "pt-PT",
            ),
        )
        == "pt-PT"
    )
    assert (
        languages.match(
            "en-AU",
            (
                "en-US",
                "en-GB",
            ),
        )
        == "en-GB"
    )
    assert (
        languages.match(
            "zh",
            (
                "ZH_cn",
                "en",
            ),
        )
        == "ZH_cn"
    )
    assert languages.match("fil", ("tl",)) == "tl"


def test_a_script_that_is_not_served_is_not_matched() -> None:
    assert languages.match("sr-Latn", ("sr",)) is None
    assert (
        languages.match(
            "sr-Latn",
            (
                "sr",
                "sr-Latn",
            ),
        )
        == "sr-Latn"
    )


def test_nothing_serves_a_tag_that_is_no_language() -> None:
    with pytest.raises(UnknownLanguage):
        languages.match("xx", SERVED)


def test_names_in_english_in_another_language_and_in_their_own() -> None:
    assert languages.name("de") == "German"
    assert languages.name("de", "ja") == "ドイツ語"
    assert languages.name("zh-TW") == "Chinese (Traditional, Taiwan)"
    assert languages.native_name("ja") == "日本語"
    assert languages.native_name("zh-TW").startswith("中文（繁體")


@pytest.mark.parametrize(
    ("tag", "cjk", "spaces"),
    [
        ("en", False, True),
        ("ko", True, True),
        ("ja", True, False),
        ("zh", True, False),
        ("th", False, False),
        ("my", False, False),
        ("ar", False, True),
    ],
)
def test_writing_systems(tag: str, cjk: bool, spaces: bool) -> None:
    assert languages.is_cjk(tag) is cjk
    assert languages.uses_spaces(tag) is spaces


def test_every_language_that_machine_translation_models_list_is_known() -> None:
    codes = (
        "ar bg bn bo ca cs da de el en es et eu fa fi fil fr gl gu he hi hr hu hy id is it ja ka kk km kn ko ky lo "
        "lt lv mk ml mn mr ms mt my nb ne nl no pa pl ps pt ro ru si sk sl so sq sr sv sw ta te tg th tl tr ug uk "
        "ur uz vi yue zh"
    )
    for code in codes.split():
        assert languages.match(code, (code,)) == code
        assert languages.normalise(languages.name(code)) == languages.normalise(code)
