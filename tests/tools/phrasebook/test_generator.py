"""The stream of messages and what its held-out side promises."""

import re

import pytest
from tools.phrasebook.corpus import Corpus, packaged
from tools.phrasebook.generator import Generator
from tools.phrasebook.message import Message

from dragoman.phrasebook import LANGUAGES

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
    slots = re.compile(r"\{(a:)?(place|food|time|weekday|people|price|room|url)(:\d)?\}")
    assert not [text for message in trained for text in message.texts.values() if slots.search(text)]


def test_sentences_are_joined_the_way_of_each_language(corpus: Corpus) -> None:
    message = Generator("train", 3, corpus).message_of_tokens("en", 30, lambda text: len(text.split()))
    assert message.sentences > 2
    assert len(re.findall(r"[.?!] ", message.texts["en"])) == message.sentences - 1
    assert not re.search(r"[。？] ", message.texts["ja"])


def test_careless_sources_differ_and_references_stay_whole(trained: list[Message]) -> None:
    careless = [message for message in trained if message.sources != message.texts]
    assert 0.2 < len(careless) / len(trained) < 0.7
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
