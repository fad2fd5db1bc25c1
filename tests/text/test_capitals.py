"""Texts in capitals become sentences, all other texts stay, and capitals are those of the language."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.capitals import as_sentence, in_capitals
from wholetext.markup.marks import MARK


@pytest.mark.parametrize(
    ("text", "language", "sentence"),
    [
        ("THANK YOU", "en", "Thank you"),
        ("STOP! I'M HERE. \"WHERE'S DR. SMITH?\"", "en", "Stop! I'm here. \"Where's Dr. Smith?\""),
        ("MEET AT GATE B12 ON MONDAY, U.S. TIME", "en", "Meet at gate B12 on Monday, U.S. time"),
        ("THE USB DRIVE AND THE DVD", "en", "The USB drive and the DVD"),
        ("<g1>WAIT:</g1> <x2/> IS LATE. <g3>TRY</g3> AGAIN", "en", "<g1>Wait:</g1> <x2/> is late. <g3>Try</g3> again"),
        ("<x1/> IS HERE", "en", "<x1/> is here"),
        ("DIYARBAKIR'DA İNDİRİM", "tr", "Dıyarbakır'da indirim"),
        ("ΚΑΛΗΜΕΡΑ ΣΑΣ", "el", "Καλημερα σας"),
        *(
            (text, "en", None)
            for text in ("USA", "NASA?", "PDF", "OK", "HI", "A4B7C9", "5", "", "Thank YOU", "VIP B12")
        ),
        *((text, "en", None) for text in ("<g1>Do</g1> NOT", "NASAに", "日本", "ÆØÅ þ")),
    ],
)
def test_a_text_in_capitals_becomes_a_sentence(text: str, language: str, sentence: str | None) -> None:
    assert as_sentence(text, language) == sentence


@pytest.mark.parametrize(
    ("text", "language", "capitals"),
    [
        ("ısıtma izni", "tr", "ISITMA İZNİ"),
        ("Straße öffnen", "de-AT", "STRASSE ÖFFNEN"),
        ("Ο Μάιος ή ο άυλος", "el", "Ο ΜΑΪΟΣ Ή Ο ΑΫΛΟΣ"),
        ("привет", "ru", "ПРИВЕТ"),
        ("Webを開く", "ja", "Webを開く"),
        ("გამარჯობა", "ka", "გამარჯობა"),
    ],
)
def test_capitals_are_those_of_the_language(text: str, language: str, capitals: str) -> None:
    assert in_capitals(text, language) == capitals


PARTS = st.sampled_from([*"AEIKMNÀΣЖ 5.!?'\n", "I ", "DON'T ", "TV ", "DR. ", "<g1>", "</g1>", "<x2/>", "日", "a"])


@settings(max_examples=300)
@given(st.lists(PARTS, max_size=30).map("".join), st.sampled_from(["en", "de", "ru"]))
def test_a_sentence_has_the_letters_and_the_marks_of_its_text(text: str, language: str) -> None:
    sentence = as_sentence(text, language)
    if sentence is not None:
        assert MARK.findall(sentence) == MARK.findall(text)
        assert MARK.sub("", sentence).upper() == MARK.sub("", text)
