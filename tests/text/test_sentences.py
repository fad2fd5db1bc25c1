"""sentencex held to losing nothing, on what it is known to raise, panic or lose characters on."""

from __future__ import annotations

import random

import pytest

from dragoman.text import sentences as module
from dragoman.text.sentences import sentences


def test_sentences_keep_their_trailing_space() -> None:
    assert sentences("Dr. Smith left.  Why? ", "en") == ["Dr. Smith left.  ", "Why? "]


@pytest.mark.parametrize(
    ("text", "language", "number"),
    [
        ("今日は暑い。明日は雨です。", "ja", 2),
        ("你好！你在哪里？", "zh", 2),
        ("Wir sind z. B. am 3. Mai da. Gut.", "de", 2),
        ("A b. C d.", "tlh", 1),
    ],
)
def test_languages_have_their_own_rules(text: str, language: str, number: int) -> None:
    found = sentences(text, language)
    assert "".join(found) == text
    assert len(found) == number


@pytest.mark.parametrize(
    "text", ["A.\u3000B. C.\u2003D", "\ud800A b. C \udfff.", "a\r\n\r\nb. C", "", "\0. \0", "é\u2029. \x85B. \x1cC"]
)
def test_nothing_is_lost_and_nothing_panics(text: str) -> None:
    for language in ("en", "ja", "th", None):
        assert "".join(sentences(text, language)) == text


def test_nothing_is_lost_of_random_text() -> None:
    rng = random.Random(5)
    alphabet = list("aB. !?。！？\"'“”「」()\n\r\t \u3000\u200d😀é…:;1\u2029\x85\0D؟।\ud800")
    for _ in range(2000):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(60)))
        assert "".join(sentences(text, rng.choice(["en", "ja", "de", "hi", "ar", "fr", None]))) == text


def test_a_sentence_longer_than_the_window_stays_whole() -> None:
    long = "word " * 2000 + "end. "
    assert sentences(long + "Next one. " + long + "Last.", "en") == [long, "Next one. ", long, "Last."]


def test_windows_do_not_add_cuts() -> None:
    text = "".join(f"This is sentence {number}. " for number in range(2000))
    assert len(sentences(text, "en")) == 2000


def test_a_panic_leaves_the_text_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As pyo3 raises it."""

    def panic(language: str, text: str) -> list[str]:
        raise PanicException("end byte index 19 is not a char boundary")

    monkeypatch.setattr(module, "_sentencex", panic)
    assert sentences("A b. C d.", "en") == ["A b. C d."]


def test_an_interrupt_is_no_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(language: str, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_sentencex", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sentences("A b. C d.", "en")
