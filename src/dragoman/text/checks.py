"""Checks of a translation against its source, each of a fact that can be seen without knowing either language.

A check that fails becomes a warning for the client, or a reason to translate a segment again; which of the two is the
caller's decision. Every check is linear in the lengths of source and output, and is made for one segment at a time.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from dragoman import languages
from dragoman.text.spans import spans, without_spans
from dragoman.types import TranslationWarning, WarningCode

LENGTH_LIMIT: Final = "length_limit"
REPETITION: Final = "repetition"
SENTENCES_DROPPED: Final = "sentences_dropped"
LINE_BREAKS_LOST: Final = "line_breaks_lost"
PLACEHOLDERS_LOST: Final = "placeholders_lost"
NUMBERS_CHANGED: Final = "numbers_changed"
SOURCE_COPIED: Final = "source_copied"
LANGUAGE_UNDETERMINED: Final = "language_undetermined"

WARNING_CODES: Mapping[WarningCode, str] = MappingProxyType(
    {
        LENGTH_LIMIT: "The output reached its length limit; the translation may be incomplete.",
        REPETITION: "The output repeats one part of itself many times; the translation may be incomplete.",
        SENTENCES_DROPPED: "The translation has fewer than three quarters of the source's sentences.",
        LINE_BREAKS_LOST: "The translation does not have the line breaks of the source.",
        PLACEHOLDERS_LOST: "Placeholders, tags, URLs or e-mail addresses of the source are not in the translation.",
        NUMBERS_CHANGED: "Numbers of the source are not in the translation.",
        SOURCE_COPIED: "The translation is the same as the source; it may not have been translated.",
        LANGUAGE_UNDETERMINED: "The source language could not be detected; the text is returned unchanged.",
    }
)
"""Every code that a warning may have, and what it means."""

_MAX_LISTED = 5


class TextChecks:
    """The checks of one text, made segment by segment. The work of `add` is linear in the segment's length."""

    def __init__(self, source_language: str | None, target_language: str) -> None:
        self._may_be_equal = source_language is not None and _siblings(source_language, target_language)
        self._codes: set[WarningCode] = set()
        self._placeholders: list[str] = []
        self._numbers: dict[str, None] = {}
        self._sentences = [0, 0]  # of the source and of the output
        self._copied = _Copied()

    def add(self, source: str, output: str) -> None:
        """One segment and its translation."""
        if not line_breaks_kept(source, output):
            self._codes.add(LINE_BREAKS_LOST)
        for index, text in enumerate((source, output)):
            self._sentences[index] += _sentence_ends(text)
        self._placeholders += placeholders_lost(source, output)
        self._numbers |= dict.fromkeys(numbers_lost(source, output))
        if repeats(source, output):
            self._codes.add(REPETITION)
        if not self._may_be_equal:
            self._copied.add(source, output)

    def warnings(self) -> tuple[TranslationWarning, ...]:
        """What was found in all segments together, in the order of `WARNING_CODES`; nothing when all seems well."""
        missing = {PLACEHOLDERS_LOST: tuple(self._placeholders), NUMBERS_CHANGED: tuple(self._numbers)}
        found = self._codes | {code for code, items in missing.items() if items}
        if _dropped(*self._sentences):
            found.add(SENTENCES_DROPPED)
        if self._copied.all_of_it():
            found.add(SOURCE_COPIED)
        return tuple(warning(code, missing.get(code, ())) for code in WARNING_CODES if code in found)


def warning(code: WarningCode, missing: tuple[str, ...] = ()) -> TranslationWarning:
    """The warning of that code. `missing`: what the translation lacks, of which the message names the first few."""
    message = WARNING_CODES[code]
    if missing:
        more = len(missing) - _MAX_LISTED
        listed = ", ".join(missing[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
        message = f"{message.removesuffix('.')}: {listed}."
    return TranslationWarning(code, message, missing)


# ---- line breaks and sentences

_SENTENCE_END = re.compile(r"[.!?…؟।](?=[\s\"'”’)\]]|$)|[。！？]")
_MIN_SENTENCES = 4
_MIN_SENTENCES_KEPT = 0.75


def line_breaks_kept(source: str, output: str) -> bool:
    """Whether the lines and blank lines between the first and the last word are those of the source."""
    return _line_breaks(source) == _line_breaks(output)


def sentences_dropped(source: str, output: str) -> bool:
    """Whether so many of the source's sentences have no counterpart that some must be missing.

    Ends of sentences are counted, not understood: texts of few sentences always pass, and a quarter may be merged.
    """
    return _dropped(_sentence_ends(source), _sentence_ends(output))


def _dropped(source_ends: int, output_ends: int) -> bool:
    return source_ends >= _MIN_SENTENCES and output_ends < _MIN_SENTENCES_KEPT * source_ends


def _sentence_ends(text: str) -> int:
    return len(_SENTENCE_END.findall(text))


def _line_breaks(text: str) -> list[int]:
    """The number of line breaks between each line with words and the next."""
    breaks: list[int] = []
    number = 0
    for line in text.strip().splitlines():
        if number and not line.isspace() and line:
            breaks.append(number)
            number = 0
        number += 1
    return breaks


# ---- placeholders

_WHITE_SPACE = re.compile(r"\s+")


def placeholders_lost(source: str, output: str) -> tuple[str, ...]:
    """Fixed spans that the output has fewer times than the source, in the source's order.

    White space in a span makes no difference: `<br />` is `<br/>`, `{{ name }}` is `{{name}}`.
    """
    remaining = Counter(_fixed(output))
    missing: list[str] = []
    for span in _fixed(source):
        if remaining[span] > 0:
            remaining[span] -= 1
        else:
            missing.append(span)
    return tuple(missing)


def _fixed(text: str) -> Iterator[str]:
    return (_WHITE_SPACE.sub("", text[start:stop]) for start, stop in spans(text))


# ---- copies of the source

_MIN_COPIED_LETTERS = 12
_MAX_WORDS_OF_A_NAME = 4

_SIBLINGS = (
    frozenset({"id", "ms"}),
    frozenset({"bs", "hr", "sr", "cnr"}),
    frozenset({"da", "nb", "nn", "no"}),
    frozenset({"cs", "sk"}),
    frozenset({"zh", "yue", "wuu", "hak", "nan", "lzh"}),
)
"""Languages in which the same sentence is often right in both."""


class _Copied:
    """Whether the letters of all segments are those of the source. Short texts and names may well be the same."""

    def __init__(self) -> None:
        self._differs = False
        self._letters = 0
        self._words = 0
        self._title = True

    def add(self, source: str, output: str) -> None:
        if self._differs:
            return
        letters = _letters(source)
        self._differs = letters != _letters(output)
        self._letters += len(letters)
        words = source.split()
        self._words += len(words)
        self._title = self._title and all(word.istitle() for word in words)

    def all_of_it(self) -> bool:
        is_name = self._words <= _MAX_WORDS_OF_A_NAME and self._title
        return self._letters >= _MIN_COPIED_LETTERS and not self._differs and not is_name


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, without_spans(text).casefold()))


def _siblings(one: str, other: str) -> bool:
    pair = {languages.primary(one), languages.primary(other)}
    return len(pair) == 1 or any(pair <= family for family in _SIBLINGS)


# ---- numbers

_GROUP = r"[.,'’·\u00a0\u202f ]\d{3}(?!\d)"
_NUMBER = re.compile(rf"\d+(?:{_GROUP}|[.,]\d+)*")
_GROUPED = re.compile(rf"\d{{1,3}}(?:{_GROUP})+(?:[.,]\d+)?")
_DIGITS = re.compile(r"\d+")
_MAX_WRITTEN_OUT = 12
"""Up to here a number is as often a word ("three", 三) or a month's name as it is digits."""


def numbers_lost(source: str, output: str) -> tuple[str, ...]:
    """Numbers of the source, in ASCII digits, that the output has in no form, however grouped or scaled.

    1,000 may be 1000, 1.5 million 150万, 15:30 3:30 PM, 2024-03-05 5 March 2024, ３０ 30. Small whole numbers, often words
    in another language, are not looked for, nor are the digits of fixed spans.
    """
    numbers = _numbers(without_spans(source))
    if not numbers:
        return ()
    present = {_significant(digits) for number in _numbers(output) for digits in (number, *_DIGITS.findall(number))}
    return tuple(number for number in numbers if not _is_present(number, present))


def _is_present(number: str, present: set[str]) -> bool:
    if _significant(number) in present:
        return True
    parts = _DIGITS.findall(number)
    if len(parts) == 1:
        return _is_small(number) or _twelve_hour(number) in present
    if _GROUPED.fullmatch(number):
        return False
    # 2024.03.05 and 15.30 may be taken apart in another language, but some of it is there.
    found = [_significant(part) in present or _twelve_hour(part) in present for part in parts]
    return any(found) and all(is_found or _is_small(part) for part, is_found in zip(parts, found, strict=True))


def _numbers(text: str) -> list[str]:
    """Every number once; full-width, Arabic, Devanagari and other decimal digits as ASCII."""
    return list(dict.fromkeys(map(_ascii_digits, _NUMBER.findall(text))))


def _ascii_digits(number: str) -> str:
    if number.isascii():
        return number
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in number)


def _significant(number: str) -> str:
    """What remains of a number when it is grouped or scaled otherwise: its digits without the zeros at its ends."""
    return "".join(_DIGITS.findall(number)).strip("0")


def _is_small(digits: str) -> bool:
    return len(digits) <= 2 and int(digits) <= _MAX_WRITTEN_OUT


def _twelve_hour(digits: str) -> str:
    """15 is 3 on a twelve-hour clock."""
    hour = int(digits) if len(digits) == 2 else 0
    return _significant(str(hour - 12)) if 12 < hour < 24 else digits


# ---- repetition

_MIN_TIMES = 4
_MIN_CHARACTERS = 24
"""A shorter run is emphasis (nooooo), laughter or a row of dots."""

_ALLOWANCE = 3
"""A run of the output may be this many times as long as the source's: ㅋ is one character, "ha" is two."""

_GRAM_CHARACTERS = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def repeats(source: str, output: str) -> bool:
    """Whether the output repeats one part of a text, long or short, many times in a row, and the source does not."""
    longest = _longest_run(output, _GRAM_CHARACTERS, _MIN_TIMES)
    if longest < _MIN_CHARACTERS:
        return False
    # In the source also short runs count. Single characters show those of a unit too short for the longer n-grams.
    return longest > _ALLOWANCE * max(_longest_run(source, size, _MIN_TIMES - 1) for size in (1, _GRAM_CHARACTERS))


def _longest_run(text: str, gram_characters: int, min_times: int) -> int:
    """Characters in the longest run of one unit repeated `min_times` or more, 0 when there is none.

    Within a run each n-gram is one unit after the same n-gram. Therefore a run of one unit is a streak of n-grams whose
    distances to their previous occurrences are all equal.
    """
    if len(text) <= gram_characters:
        return 0
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    grams = np.zeros(len(codes) - gram_characters + 1, np.uint64)
    for offset in range(gram_characters):  # a polynomial hash
        grams = grams * _MULTIPLIER + codes[offset : offset + len(grams)]
    order = np.argsort(grams, kind="stable")
    again = np.flatnonzero(grams[order[1:]] == grams[order[:-1]])
    distances = np.zeros(len(grams), np.int64)
    distances[order[again + 1]] = order[again + 1] - order[again]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(distances)) + 1))
    streaks = np.diff(np.concatenate((starts, [len(distances)])))
    units = distances[starts]
    runs = units + streaks + gram_characters - 1
    runs = runs[(units > 0) & (runs >= min_times * units)]
    return int(runs.max(initial=0))
