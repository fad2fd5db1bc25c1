"""The training mixture: deterministic, aligned, with marks that source and reference share."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from tools.phrasebook.corpus import packaged
from tools.phrasebook.mixture import SHORT, Mixture, Shares, renumbered, slip
from tools.phrasebook.substitution import Substitution, fill, plural

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import lines

MARK = re.compile(r"</?[gx]\d+/?>")


@pytest.fixture(scope="module")
def mixture() -> Mixture:
    return Mixture(3, packaged(), lines.packaged())


def test_equal_seeds_give_equal_messages() -> None:
    first, second = (Mixture(5, packaged(), lines.packaged()) for _ in range(2))
    assert [first.message() for _ in range(50)] == [second.message() for _ in range(50)]


def test_sources_and_references_have_the_same_marks(mixture: Mixture) -> None:
    marked = 0
    for _ in range(1_500):
        message = mixture.message()
        marks = [
            Counter(MARK.findall(texts[language]))
            for texts in (message.texts, message.sources)
            for language in LANGUAGES
            if language in texts
        ]
        assert all(found == marks[0] for found in marks), message
        marked += bool(marks[0])
    assert marked > 50


def test_a_share_of_the_messages_is_a_line_that_people_type_first() -> None:
    rows = lines.packaged()
    first = {row.standard[0] for row in rows.lines if row.is_typed_first}
    drawn = {
        share: sum(mixture.message().texts["en"] in first for _ in range(400))
        for share in (0.0, 0.9)
        for mixture in [Mixture(5, packaged(), rows, typed_first=share)]
    }
    assert drawn[0.0] < 100
    assert drawn[0.9] > 250


def test_a_source_has_one_translation_however_it_is_typed() -> None:
    """Above all a bare one: "ok" is "OK." and not "OK?"."""
    rows = lines.packaged()
    typed = Shares(patterns=0, clauses=0, lines=0, typed=0.7, substituted=0, words=0.3)
    noise = replace(SHORT, slip=0.0, spaces=0.0)
    mixture = Mixture(7, packaged(), rows, alone=typed, noise=noise, short=noise)
    meanings: dict[tuple[str, str], dict[str, str]] = {}
    bare = 0
    for _ in range(8_000):
        message = mixture.message()
        if message.sentences > 1 or message.copied or any("<" in text for text in message.sources.values()):
            continue
        for language, source in message.sources.items():
            others = {other: text for other, text in message.texts.items() if other != language}
            assert meanings.setdefault((language, source.casefold()), others) == others, source
            bare += source.casefold() in ("ok", "okay")
    assert bare


def test_marks_are_numbered_in_the_order_of_the_source() -> None:
    source, target = renumbered("<g4>a</g4> b<x2/>", "<x2/> <g4>A</g4> B")
    assert (source, target) == ("<g1>a</g1> b<x2/>", "<x2/> <g1>A</g1> B")
    assert renumbered("no marks", "none") == ("no marks", "none")


def test_a_slip_changes_one_plain_word(mixture: Mixture) -> None:
    text = "please send {name} the report at https://example.com/report"
    slipped = slip(text, mixture._rng)
    assert slipped != text
    assert "{name}" in slipped and "https://example.com/report" in slipped


@pytest.mark.parametrize(
    ("noun", "form"),
    [("cat", "cats"), ("bus", "buses"), ("city", "cities"), ("policeman", "policemen"), ("knife", "knives")],
)
def test_plurals(noun: str, form: str) -> None:
    assert plural(noun) == form


def rows(*texts: tuple[str, ...], topic: str, word: bool) -> list[lines.Row]:
    return [lines.Row("f", n, topic, standard, tuple((t,) for t in standard), word) for n, standard in enumerate(texts)]


def test_a_word_is_replaced_with_its_grammar() -> None:
    words = rows(
        ("cat", "猫", "고양이", "小猫"),
        ("owl", "フクロウ", "부엉이", "猫头鹰"),
        ("tiger", "トラ", "호랑이", "老虎"),
        ("bear", "クマ", "곰", "狗熊"),
        topic="animal",
        word=True,
    )
    [line] = rows(("I saw a tiger.", "トラを見ました。", "호랑이를 봤어요.", "我看到了老虎。"), topic="x", word=False)
    [slot] = Substitution([line], words).slots
    by_english = {word.standard[0]: word for word in words}
    owl = ("I saw an owl.", "フクロウを見ました。", "부엉이를 봤어요.", "我看到了猫头鹰。")
    assert fill(slot, by_english["owl"]).texts == owl
    assert fill(slot, by_english["bear"]).texts[2] == "곰을 봤어요."


def test_a_noun_with_a_counter_keeps_its_place() -> None:
    words = rows(("tiger", "トラ", "호랑이", "老虎"), topic="animal", word=True)
    [line] = rows(
        ("I saw a tiger.", "トラを2匹見ました。", "호랑이를 봤어요.", "我看到了一只老虎。"), topic="x", word=False
    )
    assert Substitution([line], words).slots == []
