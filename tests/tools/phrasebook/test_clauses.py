"""Clauses: what sampled sentences promise, and that their wording is what the packaged weights were trained on."""

import hashlib
import re
from random import Random

import pytest
from tools.phrasebook.clauses.frames import library
from tools.phrasebook.clauses.sampler import Clauses
from tools.phrasebook.corpus import Pattern
from tools.phrasebook.split import sentence_held_out

pytestmark = pytest.mark.acceptance

SCRIPTS = {
    0: re.compile(r"[぀-ヿ一-鿿가-힣]"),
    1: re.compile(r"[가-힣]"),
    2: re.compile(r"[぀-ヿ一-鿿]"),
    3: re.compile(r"[぀-ヿ가-힣]"),
}
"""What a language's sentence must not hold, by its index."""
DIGEST = "7f22481c14a506a8541cd3732b1eb5650953557318c835bb4be14a3f85b23ac3"
"""Of 3,000 sentences in four languages, and of what a user would write for them."""


def sampled(count: int, seed: int) -> list[Pattern]:
    clauses = Clauses("train", Random(seed))
    return [clauses.sample() for _ in range(count)]


def test_sampled_sentences_are_whole_and_in_their_own_script() -> None:
    for pattern in sampled(2000, 0):
        for index, template in enumerate(pattern.templates):
            text = re.sub(r"\{[a-z]+\}", "1", template.text)
            assert text == text.strip()
            assert not re.search(r"[{}|=~]|  |;;", text), template.text
            assert text[-1] in ".?。？", template.text
            assert not SCRIPTS[index].search(text), template.text
        assert {slot.ref for slot in pattern.templates[0].slots} == {slot.ref for slot in pattern.templates[3].slots}


def test_sampled_sentences_are_worded_as_those_that_the_weights_know() -> None:
    digest = hashlib.sha256()
    for pattern in sampled(3000, 11):
        digest.update("\n".join(template.text for template in (*pattern.templates, *pattern.sources)).encode())
    assert digest.hexdigest() == DIGEST


def test_every_frame_fills_with_every_language_asking_or_none() -> None:
    source = library()
    clauses = Clauses("train", Random(2), source)
    for frame in source.frames:
        ends = {template.text[-1] in "?？" for template in clauses.fill(frame).templates}
        assert len(ends) == 1, frame


def test_a_seed_repeats_the_sentences_and_no_text_has_two_english_ones() -> None:
    first = sampled(1500, 3)
    assert first == sampled(1500, 3)
    known: dict[tuple[str, ...], str] = {}
    for pattern in first:
        english_text, *others = (template.text for template in pattern.templates)
        assert known.setdefault(tuple(others), english_text.casefold()) == english_text.casefold()


def test_the_split_holds_out_sentences() -> None:
    assert not any(sentence_held_out(pattern.templates[0].text) for pattern in sampled(300, 5))
    held_out = Clauses("heldout", Random(5)).sample()
    assert held_out.held_out
    assert sentence_held_out(held_out.templates[0].text)
