"""Sentences and messages: how they are written, that a seed repeats them, and what the held-out side promises."""

import gzip
import hashlib
import json
import re

import pytest
from tools.phrasebook.corpus import Corpus, packaged
from tools.phrasebook.generator import Generator
from tools.phrasebook.render import Message
from tools.phrasebook.sentences import COUNT, SEED, sentences
from tools.phrasebook.split import Fillings, Split

from dragoman import phrasebook

pytestmark = pytest.mark.acceptance

DIGESTS = {
    ("train", 0): "6b6dce1753879900cc820165b0672f49888df708ab4611652c8aa919c52ffab4",
    ("heldout", 1): "179cddaa88b2b163408f7f1d2d43e3109338455d5eb56b0c0dbb4c03a852a1ba",
}
"""Of the first 300 messages. The packaged weights were trained on such a stream: were it to change, messages that they were
trained on could count as held out."""


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


def test_what_is_copied_stands_in_every_language(trained: list[Message], held_out: list[Message]) -> None:
    for message in (*trained, *held_out):
        for item in message.copied:
            for text in (*message.texts.values(), *message.sources.values()):
                assert item.text in text


def test_no_notation_is_left_in_a_text(trained: list[Message]) -> None:
    korean = [message.texts["ko"] for message in trained]
    assert not [text for text in korean if re.search(r"\[\w+/\w+\]", text)]
    slots = re.compile(r"\{(a:)?(place|food|time|weekday|people|price|room|url)(:\d)?\}")  # words: example
    assert not [text for message in trained for text in message.texts.values() if slots.search(text)]


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
    """The first thousand: what makes them is the same for all."""
    lines = gzip.decompress(phrasebook.sentences_file().read_bytes()).decode().splitlines()
    assert len(lines) == COUNT
    assert [tuple(json.loads(line)) for line in lines[:1000]] == list(sentences(1000, SEED))
