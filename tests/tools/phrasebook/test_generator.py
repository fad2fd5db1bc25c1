"""Sentences and messages: how they are written, that a seed repeats them, and what the held-out side promises."""

import gzip
import hashlib
import json
import re
from random import Random

import pytest
from tools.phrasebook.corpus import Corpus, Pattern, packaged, parse
from tools.phrasebook.generator import Generator
from tools.phrasebook.render import Filling, Message, render
from tools.phrasebook.sentences import COUNT, SEED, sentences
from tools.phrasebook.split import Fillings, Split, composition_held_out, value_held_out
from tools.phrasebook.values import Value, copied, draw_localised, listed_values

from dragoman import phrasebook
from dragoman.phrasebook import LANGUAGES

DIGESTS = {
    ("train", 0): "6b6dce1753879900cc820165b0672f49888df708ab4611652c8aa919c52ffab4",
    ("heldout", 1): "179cddaa88b2b163408f7f1d2d43e3109338455d5eb56b0c0dbb4c03a852a1ba",
}
"""Of the first 300 messages. The packaged weights were trained on such a stream: were it to change, messages that they were
trained on could count as held out."""


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

    rng = Random(1)
    return [draw_localised("time", rng) for _ in range(2000)]


def test_about_a_tenth_of_the_copied_values_is_held_out() -> None:
    held_out = sum(value_held_out(copied("int", str(number))) for number in range(1000))
    assert 60 < held_out < 140


def test_a_number_is_held_out_by_its_digits_whatever_its_kind() -> None:
    for number in map(str, range(200)):
        percent = copied("percent", f"{number}%", split_key=number)
        assert value_held_out(percent) == value_held_out(copied("room", number))


def test_the_order_of_sentences_makes_another_composition(corpus: Corpus) -> None:
    patterns = corpus.patterns
    both = {(composition_held_out((a, b)), composition_held_out((b, a))) for a in patterns for b in patterns}
    assert len(both) > 2


def test_a_word_that_only_one_pattern_uses_is_never_held_out(corpus: Corpus) -> None:
    fillings = Fillings(corpus)
    wish = next(pattern for pattern in corpus.patterns if "food" in pattern.kinds.values())
    assert not [value for value in corpus.lexicon["food"] if fillings.held_out(wish, {"food": value})]


def test_some_fillings_are_held_out_and_most_are_not() -> None:
    corpus = packaged()
    fillings = Fillings(corpus)
    flags = [
        fillings.held_out(pattern, {ref: value})
        for pattern in corpus.patterns
        if len(pattern.kinds) == 1
        for ref, kind in pattern.kinds.items()
        for value in corpus.lexicon.get(kind, ())
    ]
    assert 0.03 < sum(flags) / len(flags) < 0.15


MANY = 3000


def messages(split: str, seed: int, count: int, corpus: Corpus) -> list[Message]:
    generator = Generator(split, seed, corpus)  # type: ignore[arg-type]
    return [generator.message() for _ in range(count)]


@pytest.fixture(scope="module")
def trained(corpus: Corpus) -> list[Message]:
    return messages("train", 1, MANY, corpus)


@pytest.fixture(scope="module")
def held_out(corpus: Corpus) -> list[Message]:
    return messages("heldout", 1, MANY // 3, corpus)


def test_the_same_seed_gives_the_same_messages(corpus: Corpus) -> None:
    assert messages("train", 7, 50, corpus) == messages("train", 7, 50, corpus)
    assert messages("train", 7, 50, corpus) != messages("train", 8, 50, corpus)


def test_messages_have_one_to_ten_sentences_in_every_language(trained: list[Message]) -> None:
    assert {message.sentences for message in trained} == set(range(1, 11))
    assert all(tuple(message.texts) == LANGUAGES and all(message.texts.values()) for message in trained)


def test_what_is_copied_stands_in_every_language(trained: list[Message], held_out: list[Message]) -> None:
    for message in (*trained, *held_out):
        for item in message.copied:
            for text in (*message.texts.values(), *message.sources.values()):
                assert item.text in text


def test_markup_placeholders_and_emoji_occur(trained: list[Message]) -> None:
    kinds = {item.kind for message in trained for item in message.copied}
    assert {"name", "url", "room", "placeholder", "tag", "emoji"} <= kinds


def test_no_notation_is_left_in_a_text(trained: list[Message]) -> None:
    korean = [message.texts["ko"] for message in trained]
    assert not [text for text in korean if re.search(r"\[\w+/\w+\]", text)]
    slots = re.compile(r"\{(a:)?(place|food|time|weekday|people|price|room|url)(:\d)?\}")  # words: example
    assert not [text for message in trained for text in message.texts.values() if slots.search(text)]


def test_sentences_are_joined_the_way_of_each_language(corpus: Corpus) -> None:
    message = Generator("train", 3, corpus).message_of_tokens("en", 30, lambda text: len(text.split()))
    assert message.sentences > 2
    assert len(re.findall(r"[.?!] ", message.texts["en"])) == message.sentences - 1
    assert not re.search(r"[。？] ", message.texts["ja"])


def test_noisy_sources_differ_and_references_stay_whole(trained: list[Message]) -> None:
    noisy = [message for message in trained if message.sources != message.texts]
    assert 0.2 < len(noisy) / len(trained) < 0.7
    plain = [m.texts["ja"] for m in trained if not m.copied and m.sentences > 1]
    assert all(text.endswith(("。", "？", ">")) for text in plain)


def test_no_copied_value_of_a_held_out_message_occurs_in_training(
    trained: list[Message], held_out: list[Message]
) -> None:
    split_kinds = ("name", "url", "room")
    known = {item.text for message in trained for item in message.copied if item.kind in split_kinds}
    unseen = {item.text for message in held_out for item in message.copied if item.kind in split_kinds}
    assert len(unseen) > 50
    assert not known & unseen


def test_no_held_out_message_occurs_in_training(trained: list[Message], held_out: list[Message]) -> None:
    assert all(message.novel for message in held_out)
    known = {text for message in trained for text in message.texts.values()}
    assert not [message for message in held_out if known & set(message.texts.values())]


def test_every_packaged_pattern_and_word_can_occur_in_training() -> None:
    corpus = packaged()
    generator = Generator("train", 1, corpus)
    text = "\n".join(generator.message(10).texts["ja"] for _ in range(5000))
    used = {slot.kind for pattern in corpus.patterns for slot in pattern.templates[0].slots}
    words = [value.texts[1] for kind, values in corpus.lexicon.items() if kind in used for value in values]
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("tokens", [5, 40, 120, 400])
def test_a_message_of_so_many_tokens_comes_close(corpus: Corpus, tokens: int) -> None:
    generator = Generator("heldout", 5, corpus)
    sizes = [
        len(generator.message_of_tokens("en", tokens, lambda t: len(t.split())).texts["en"].split()) for _ in range(20)
    ]
    assert all(abs(size - tokens) <= 4 for size in sizes)


def test_two_slots_of_a_class_never_hold_the_same_word(trained: list[Message]) -> None:
    trips = [
        re.search(r"from the (?:<\w+>)?(.+?)(?:</\w+>)? to the (?:<\w+>)?(.+?)(?:</\w+>)? at", m.texts["en"])
        for m in trained
    ]
    pairs = [trip.groups() for trip in trips if trip]
    assert len(pairs) > 100
    assert not [pair for pair in pairs if pair[0] == pair[1]]


@pytest.mark.parametrize(("split", "seed"), sorted(DIGESTS))
def test_the_packaged_messages_are_those_that_the_weights_know(split: Split, seed: int) -> None:
    generator, digest = Generator(split, seed), hashlib.sha256()
    for _ in range(300):
        message = generator.message()
        copied = [(item.kind, item.text) for item in message.copied]
        content = [message.texts, message.sources, copied, message.sentences, message.novel]
        digest.update(json.dumps(content, ensure_ascii=False).encode())
    assert digest.hexdigest() == DIGESTS[split, seed]


def test_the_sentences_of_load_tests_are_generated_again() -> None:
    lines = gzip.decompress(phrasebook.sentences_file().read_bytes()).decode().splitlines()
    assert [tuple(json.loads(line)) for line in lines] == list(sentences(COUNT, SEED))
