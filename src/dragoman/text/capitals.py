"""Converts a text in capitals into a sentence, for models that translate sentences better, and a translation into capitals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman import languages
from wholetext.markup.marks import MARK, ArrangingWriter, Edge, Writer, parts

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
"""Acronyms that are not also a word in small letters."""
_ENGLISH_TITLES = frozenset({"MR", "MRS", "DR", "ST"})
_ENGLISH_NAMES = _names(
    "I MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY JANUARY FEBRUARY APRIL JUNE JULY AUGUST SEPTEMBER OCTOBER"
    " NOVEMBER DECEMBER ENGLISH GERMAN FRENCH SPANISH ITALIAN JAPANESE KOREAN CHINESE CHRISTMAS EASTER MR MRS DR ST"
)
_ENGLISH_ACRONYM = re.compile(r"[BCDFGHJKLMNPQRSTVWXZ]{2,5}|[B-HJ-NP-Z]")


def as_sentence(text: str, language: str) -> str | None:
    """Return a text with marks, all in capitals, as sentences; None for any other text, or if no word would change.

    Words with digits and known acronyms stay in capitals. Names are not recognised, except for a few English ones.
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
    """Whether a word stays in capitals within a sentence."""
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
    """Return the text in capitals by its language's rules: Turkish with İ and I, Greek without accents; Japanese unchanged."""
    if languages.script(language) not in _SCRIPTS:
        return text
    tag = languages.primary(language)
    return _greek_capitals(text) if tag == "el" else _upper(text, tag)


def _upper(text: str, tag: str) -> str:
    return (text.replace("i", "İ") if tag in _DOTLESS_I else text).upper()


_HIATUS = re.compile(r"(?<=[άέόύ])[ιυ]")
_OR = re.compile(r"\bή\b")


def _greek_capitals(text: str) -> str:
    """Remove accents, except from ή ("or"). An accent that separates two vowels becomes a diaeresis on the second."""
    text = _OR.sub("Ή", _HIATUS.sub(lambda vowel: f"{vowel[0]}\u0308", unicodedata.normalize("NFC", text)))
    bare = (unicodedata.normalize("NFD", part).replace("\u0301", "") for part in text.split("Ή"))
    return unicodedata.normalize("NFC", "Ή".join(bare)).upper()


@dataclass(frozen=True, slots=True)
class CapitalsWriter:
    """Writes a translation in capitals, in the notation of its document. Content that marks stand for is not changed."""

    language: str
    notation: Writer | None = None

    def __call__(self, text: str, /) -> str:
        text = in_capitals(text, self.language)
        return self.notation(text) if self.notation else text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        """See `ArrangingWriter.arrange`."""
        if isinstance(self.notation, ArrangingWriter):
            self.notation.arrange(written, edges)
