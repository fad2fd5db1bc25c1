"""Texts in capitals: a sentence in place of one, for a model that was trained on sentences, and a translation in capitals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman import languages
from dragoman.text.marks import MARK, ArrangingWriter, Edge, Writer, parts

_MIN_LETTERS = 3
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*\.?")
_SENTENCE_START = re.compile(
    r"(?:\A|(?:(?<!\b[^\W\d_])\.|[!?…])[\"'”’»)\]]{0,3}(?:</g\d{1,5}>)?\s)(?:<g\d{1,5}>|[^\w<]){0,16}([^\W\d_])"
)
_DOTLESS_I = frozenset({"tr", "az"})
_SCRIPTS = frozenset({"Latn", "Cyrl", "Grek", "Armn"})
"""Scripts in which a whole text may be in capitals. Georgian's capitals are newer than most fonts."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_ACRONYMS = _names(
    "API ATM BBC CD CEO CIA CPU DIY DNA DVD EUR FAQ FBI FIFA GPS GPU HIV HTML HTTP IBM ISBN JPEG NASA NATO NBA OECD OK PC PDF"
    " SMS SOS TV UEFA UFO UK UNESCO UNICEF URL USA USB USD UTC VIP VPN WIFI"
)
"""Words that are no other word where they are in small letters."""
_ENGLISH_TITLES = frozenset({"MR", "MRS", "DR", "ST"})
_ENGLISH_NAMES = _names(
    "I MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY JANUARY FEBRUARY APRIL JUNE JULY AUGUST SEPTEMBER OCTOBER"
    " NOVEMBER DECEMBER ENGLISH GERMAN FRENCH SPANISH ITALIAN JAPANESE KOREAN CHINESE CHRISTMAS EASTER MR MRS DR ST"
)
_ENGLISH_ACRONYM = re.compile(r"[BCDFGHJKLMNPQRSTVWXZ]{2,5}|[B-HJ-NP-Z]")


def as_sentence(text: str, language: str) -> str | None:
    """A text with marks, all in capitals, as sentences; None of any other text, and where all of its words stay as they are.

    Words with digits stay, and so do acronyms that are no other word. Which other words are names is not known.
    """
    plain = MARK.sub(" ", text) if "<" in text else text
    if not plain.isupper():
        return None
    tag = languages.primary(language)
    words = [word for word in _WORD.findall(plain) if not any(map(str.isdigit, word))]
    letters = "".join(filter(str.isalpha, "".join(words)))
    if len(letters) < _MIN_LETTERS or not all(map(str.isupper, letters)) or all(_is_fixed(word, tag) for word in words):
        return None
    lowered = "".join(
        part if is_mark else _WORD.sub(lambda word: _lowered(word[0], tag), part) for part, is_mark in parts(text)
    )
    return _SENTENCE_START.sub(lambda start: f"{start[0][:-1]}{_upper(start[1], tag)}", lowered)


def _is_fixed(word: str, tag: str) -> bool:
    """Whether a word in capitals is written so in a sentence, too."""
    if any(map(str.isdigit, word)) or word[1:] == ".":  # an initial
        return True
    word = word.rstrip(".")
    if word in _ACRONYMS:
        return True
    return tag == "en" and word not in _ENGLISH_TITLES and _ENGLISH_ACRONYM.fullmatch(word) is not None


def _lowered(word: str, tag: str) -> str:
    if _is_fixed(word, tag):
        return word
    if tag in _DOTLESS_I:
        return word.replace("İ", "i").replace("I", "ı").lower()
    lowered = word.lower()
    if tag == "en" and re.split("[.'’]", word)[0] in _ENGLISH_NAMES:
        return word[0] + lowered[1:]
    return lowered


def in_capitals(text: str, language: str) -> str:
    """The text in capitals, as its language writes them: Turkish with İ and I, Greek without accents; Japanese as it is."""
    if languages.script(language) not in _SCRIPTS:
        return text
    tag = languages.primary(language)
    return _greek_capitals(text) if tag == "el" else _upper(text, tag)


def _upper(text: str, tag: str) -> str:
    return (text.replace("i", "İ") if tag in _DOTLESS_I else text).upper()


_HIATUS = re.compile(r"(?<=[άέόύ])[ιυ]")
_OR = re.compile(r"\bή\b")


def _greek_capitals(text: str) -> str:
    """Without accents, but for ή ("or"); two vowels that an accent on the first keeps apart get a diaeresis for it."""
    text = _OR.sub("Ή", _HIATUS.sub(lambda vowel: f"{vowel[0]}\u0308", unicodedata.normalize("NFC", text)))
    bare = (unicodedata.normalize("NFD", part).replace("\u0301", "") for part in text.split("Ή"))
    return unicodedata.normalize("NFC", "Ή".join(bare)).upper()


@dataclass(frozen=True, slots=True)
class CapitalsWriter:
    """Writes a translation in capitals, in the notation of its document. What marks stand for is not written by it."""

    language: str
    notation: Writer | None = None

    def __call__(self, text: str, /) -> str:
        text = in_capitals(text, self.language)
        return self.notation(text) if self.notation else text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        """As `ArrangingWriter`."""
        if isinstance(self.notation, ArrangingWriter):
            self.notation.arrange(written, edges)
