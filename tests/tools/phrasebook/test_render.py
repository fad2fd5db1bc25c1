"""Filling a pattern."""

from tools.phrasebook.corpus import Corpus, Pattern
from tools.phrasebook.localised import draw_localised, listed_values
from tools.phrasebook.render import Filling, render
from tools.phrasebook.template import parse
from tools.phrasebook.values import Value, copied


def pattern(en: str, ko: str) -> Pattern:
    return Pattern("test", tuple(parse(text) for text in (en, "。", ko, "。")), (False,) * 4)


def word(corpus: Corpus, kind: str, english: str) -> Value:
    return next(value for value in corpus.lexicon[kind] if value.texts[0] == english)


def test_a_word_that_opens_a_sentence_is_capitalised_and_a_copied_value_is_not(corpus: Corpus) -> None:
    file = copied("file", "report_v2.pdf")
    opening = pattern("{a:food} is {place}, {file}. {file}, {place}.", ".")
    values = {"food": word(corpus, "food", "apple"), "place": word(corpus, "place", "museum"), "file": file}
    expected = "An apple is museum, report_v2.pdf. report_v2.pdf, museum."
    assert render(Filling(opening, values, {}), 0) == expected


def test_an_article_of_its_own_is_kept(corpus: Corpus) -> None:
    wish = pattern("I want {a:food}.", ".")
    assert render(Filling(wish, {"food": word(corpus, "food", "rice")}, {}), 0) == "I want some rice."


def test_a_country_brings_its_article_once() -> None:
    state = next(value for value in listed_values("country") if value.texts[3] == "美国")
    for text, expected in (
        ("I left {country}.", "I left the United States."),
        ("I left the {country} office.", "I left the United States office."),
        ("{country} won.", "The United States won."),
    ):
        assert render(Filling(pattern(text, "."), {"country": state}, {}), 0) == expected


def test_a_particle_looks_through_a_tag_at_the_word(corpus: Corpus) -> None:
    towards = pattern(".", "{place}[으로/로] 가요.")
    filling = Filling(towards, {"place": word(corpus, "place", "museum")}, {"place": "b0"})
    assert render(filling, 2) == "<b0>박물관</b0>으로 가요."


def test_a_particle_behind_a_title_follows_the_title() -> None:
    waits = pattern(".", "{name} 씨[은/는] 기다려요.")
    assert render(Filling(waits, {"name": copied("name", "Tom")}, {}), 2) == "Tom 씨는 기다려요."


def test_a_placeholder_gets_both_forms_of_a_particle() -> None:
    waits = pattern(".", "{name}[을/를] 찾아요.")
    assert render(Filling(waits, {"name": copied("placeholder", "{0}")}, {}), 2) == "{0}을(를) 찾아요."


def test_lower_case_spares_copied_values() -> None:
    meets = pattern("Meet {name} at {time}.", ".")
    noon = next(value for value in _times() if value.texts[0] == "3:30 PM")
    filling = Filling(meets, {"name": copied("name", "Maria"), "time": noon}, {})
    assert render(filling, 0, lower=True) == "meet Maria at 3:30 pm."


def _times() -> list[Value]:
    from random import Random

    rng = Random(1)
    return [draw_localised("time", rng) for _ in range(2000)]
