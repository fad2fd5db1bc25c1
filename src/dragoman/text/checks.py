"""Checks of a translation against its source, each of a fact that can be seen without knowing either language.

A check that fails becomes a warning for the client, or a reason to translate a segment again; which of the two is the
caller's decision. Every check is linear in the lengths of source and output, and is made for one segment at a time.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np

from dragoman import languages
from dragoman.text.commentary import has_commentary, is_refusal, without_commentary
from dragoman.text.detect import Detector, han_fit, script_weights, scripts_of
from dragoman.text.spans import spans, without_spans
from dragoman.types import TranslationWarning, WarningCode

__all__ = ["has_commentary", "is_refusal", "without_commentary"]

EMPTY_OUTPUT: Final = "empty_output"
REFUSAL: Final = "refusal"
REPETITION: Final = "repetition"
WRONG_LANGUAGE: Final = "wrong_language"
SOURCE_COPIED: Final = "source_copied"
LENGTH_LIMIT: Final = "length_limit"
SENTENCES_DROPPED: Final = "sentences_dropped"
LENGTH_OUT_OF_BOUNDS: Final = "length_out_of_bounds"
COMMENTARY: Final = "commentary"
PLACEHOLDERS_LOST: Final = "placeholders_lost"
MARKS_MOVED: Final = "marks_moved"
NUMBERS_CHANGED: Final = "numbers_changed"
TERMS_MISSING: Final = "terms_missing"
LINE_BREAKS_LOST: Final = "line_breaks_lost"
PLURAL_CATEGORIES: Final = "plural_categories"
GLOSSARY_IGNORED: Final = "glossary_ignored"
FORMALITY_IGNORED: Final = "formality_ignored"
CONTEXT_IGNORED: Final = "context_ignored"
INSTRUCTIONS_IGNORED: Final = "instructions_ignored"
LANGUAGE_UNDETERMINED: Final = "language_undetermined"

WARNING_CODES: Mapping[WarningCode, str] = MappingProxyType(
    {
        EMPTY_OUTPUT: "The model returned no words.",
        REFUSAL: "The model refused to translate, or answered instead.",
        REPETITION: "The output repeats one part of itself many times; the translation may be incomplete.",
        WRONG_LANGUAGE: "The translation is not in the target language, or not in its script.",
        SOURCE_COPIED: "The translation is the same as the source; it may not have been translated.",
        LENGTH_LIMIT: "The output reached its length limit; the translation may be incomplete.",
        SENTENCES_DROPPED: "The translation has fewer sentences than the source; some may be missing.",
        LENGTH_OUT_OF_BOUNDS: "The translation is much shorter or longer than the source.",
        COMMENTARY: "The translation has comments of the model, such as a preamble, a note or the source once more.",
        PLACEHOLDERS_LOST: "Placeholders, tags, URLs or other things to keep are not in the translation.",
        MARKS_MOVED: "The model lost tags or placeholders; they were put back where they are in the source.",
        NUMBERS_CHANGED: "Numbers of the source are not in the translation.",
        TERMS_MISSING: "Terms of the glossary are not translated as it says.",
        LINE_BREAKS_LOST: "The translation does not have the line breaks of the source.",
        PLURAL_CATEGORIES: "The target language has plural categories that the message lacks.",
        GLOSSARY_IGNORED: "The model cannot be given a glossary; it was ignored.",
        FORMALITY_IGNORED: "The model cannot be given a formality; it was ignored.",
        CONTEXT_IGNORED: "The model cannot be given a context; it was ignored.",
        INSTRUCTIONS_IGNORED: "The model cannot be given instructions; they were ignored.",
        LANGUAGE_UNDETERMINED: "The source language could not be detected; the text is returned unchanged.",
    }
)
"""Every code that a warning may have, and what it means; the worst first."""

SEVERITY: Mapping[WarningCode, int] = MappingProxyType({code: place for place, code in enumerate(WARNING_CODES)})
"""0 is the worst."""

_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is known of a segment's translation. `source_language` None: unknown; `detector` None: not asked."""

    source_language: str | None
    target_language: str
    detector: Detector | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that failed. `missing`: what the output lacks, in the source's order."""

    code: WarningCode
    missing: tuple[str, ...] = ()


def findings(source: str, output: str, context: CheckContext) -> tuple[Finding, ...]:
    """What is wrong with the translation of one segment, the worst first. Both texts are without marks (`marks.plain`)."""
    if is_empty(source, output):
        return (Finding(EMPTY_OUTPUT),)
    found: list[Finding] = []
    if is_refusal(source, output):
        found.append(Finding(REFUSAL))
    loops = repeats(source, output)
    if loops:
        found.append(Finding(REPETITION))
    if is_copied(source, output, context):
        found.append(Finding(SOURCE_COPIED))
    elif is_wrong_language(source, output, context):
        found.append(Finding(WRONG_LANGUAGE))
    if not loops:
        found += [Finding(code) for code in _lengths(source, output)]
    if has_commentary(source, output, context.target_language):
        found.append(Finding(COMMENTARY))
    found += _lost(source, output)
    return tuple(sorted(found, key=lambda one: SEVERITY[one.code]))


def _lost(source: str, output: str) -> Iterator[Finding]:
    if missing := placeholders_lost(source, output):
        yield Finding(PLACEHOLDERS_LOST, missing)
    if missing := numbers_lost(source, output):
        yield Finding(NUMBERS_CHANGED, missing)
    if not line_breaks_kept(source, output):
        yield Finding(LINE_BREAKS_LOST)


def badness(found: Iterable[Finding]) -> tuple[int, ...]:
    """A key by which the better of two outputs has the smaller value: its worst finding is less bad, then the next."""
    worst_first = sorted((SEVERITY[one.code], -len(one.missing)) for one in found)
    return tuple(value for severity, missing in worst_first for value in (len(WARNING_CODES) - severity, -missing))


def worst_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, the worst first."""
    return tuple(sorted(dict.fromkeys(found), key=lambda one: SEVERITY[one.code]))


class TextChecks:
    """The checks of one text, made segment by segment. The work of `add` is linear in the segment's length."""

    def __init__(self, source_language: str | None, target_language: str, detector: Detector | None = None) -> None:
        self._context = CheckContext(source_language, target_language, detector)
        self._may_be_equal = source_language is not None and _siblings(source_language, target_language)
        self._missing: dict[WarningCode, list[str]] = {}
        self._sentences = [0, 0]  # of the source and of the output
        self._copied = _Copied()

    def add(self, source: str, output: str, found: Iterable[Finding] | None = None) -> None:
        """One segment and its translation. `found`: its findings, where they are known."""
        for one in findings(source, output, self._context) if found is None else found:
            self._missing.setdefault(one.code, []).extend(one.missing)
        for index, ends in enumerate(_both_ends(source, output)):
            self._sentences[index] += ends
        if not self._may_be_equal:
            self._copied.add(source, output)

    def warnings(self) -> tuple[TranslationWarning, ...]:
        """What was found in all segments together, in the order of `WARNING_CODES`; nothing when all seems well.

        A segment may be a name, which stays the same: that the source was copied is said of a whole text.
        """
        found = set(self._missing) - {SOURCE_COPIED}
        if _dropped(*self._sentences):
            found.add(SENTENCES_DROPPED)
        if self._copied.all_of_it():
            found.add(SOURCE_COPIED)
        numbers = self._missing.get(NUMBERS_CHANGED, [])
        missing = self._missing | {NUMBERS_CHANGED: list(dict.fromkeys(numbers))}
        return tuple(warning(code, tuple(missing.get(code, ()))) for code in WARNING_CODES if code in found)


def warning(code: WarningCode, missing: tuple[str, ...] = ()) -> TranslationWarning:
    """The warning of that code. `missing`: what the translation lacks, of which the message names the first few."""
    message = WARNING_CODES[code]
    if missing:
        more = len(missing) - _MAX_LISTED
        listed = ", ".join(missing[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
        message = f"{message.removesuffix('.')}: {listed}."
    return TranslationWarning(code, message, missing)


# ---- words, language and length


def is_copied(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output's letters are those of the source, where that cannot be right."""
    if context.source_language is not None and _siblings(context.source_language, context.target_language):
        return False
    copied = _Copied()
    copied.add(source, output)
    return copied.all_of_it()


def is_empty(source: str, output: str) -> bool:
    """Whether the output has no letters, and the source has."""
    return not any(map(str.isalpha, output)) and sum(map(str.isalpha, without_spans(source))) >= _MIN_LETTERS


_MIN_LETTERS = 3
_MIN_SCRIPT_LETTERS = 12
_MIN_DETECTED_LETTERS = 60
_MIN_SCRIPT_SHARE = 0.4
_MIN_CONFIDENCE = 0.9
_MIN_HAN = 8
_MIN_HAN_MARGIN = 0.12
_MIN_JAPANESE = 0.9
_MAX_HAN_WITHOUT_KANA = 20


def is_wrong_language(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output is in a script of another language, or in another language of the served ones.

    Letters in things to keep and in words of the source do not count: names stay in their script.
    """
    allowed = _allowed_scripts(context.target_language)
    own = set(source.casefold().split())
    text = " ".join(word for word in without_spans(output).split() if word.casefold() not in own)
    is_latin = text.isascii() or not _NOT_LATIN.search(text)
    weights = {"Latn": sum(map(str.isalpha, text))} if is_latin else script_weights(text)
    total = sum(weights.values())
    if total < _MIN_SCRIPT_LETTERS:
        return False
    if sum(weights.get(script, 0) for script in allowed) < _MIN_SCRIPT_SHARE * total:
        return True
    if "Han" in allowed and "Han" in weights:
        return _is_other_han(text, languages.script(context.target_language))
    siblings = context.source_language is not None and _siblings(context.source_language, context.target_language)
    if context.detector is None or total < _MIN_DETECTED_LETTERS or siblings or allowed.isdisjoint(_SHARED_SCRIPTS):
        return False
    if context.detector.has_common_words(text, context.target_language):
        return False
    detection = context.detector.detect(text)
    if detection.language is None or detection.confidence < _MIN_CONFIDENCE:
        return False
    return not _siblings(detection.language, context.target_language)


_NOT_LATIN = re.compile(r"[^\W\d_A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")
_SHARED_SCRIPTS = frozenset({"Latn", "Cyrl", "Arab", "Deva", "Beng", "Ethi", "Hebr"})


@lru_cache(maxsize=256)
def _allowed_scripts(target: str) -> frozenset[str]:
    return scripts_of(target)


def _is_other_han(text: str, script: str) -> bool:
    """Whether Han characters without kana are in simplified Chinese for traditional, the other way round, or no Japanese."""
    characters = sum(map(str.isalpha, text))
    if characters < _MIN_HAN:
        return False
    simplified, traditional, japanese = han_fit(text)
    if script == "Jpan":
        is_sentence = any(sign in text for sign in "，。！？")  # Japanese sentences have kana
        return is_sentence or characters >= _MAX_HAN_WITHOUT_KANA or japanese < _MIN_JAPANESE
    margin = simplified - traditional if script == "Hant" else traditional - simplified
    return margin > _MIN_HAN_MARGIN


_DENSITIES = (
    (re.compile(r"[\u2e80-\u303f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), 1.75),
    (re.compile(r"[\u3040-\u30ff]"), 0.4),
    (re.compile(r"[\uac00-\ud7a3]"), 1.1),
    (re.compile(r"[\u0590-\u06ff]"), 0.25),
)
"""How much more than a Latin letter a character of these scripts says: least squares over the packaged sentences in
English, Japanese, Korean and Chinese; of Hebrew and Arabic, which write few vowels, an estimate."""

_MIN_EXTENT = 24
_MIN_LENGTH = 0.42
_MAX_LENGTH = 2.6
_MIN_LENGTH_WITH_FEWER_SENTENCES = 0.7


def _lengths(source: str, output: str) -> Iterator[WarningCode]:
    expected = _extent(source)
    if expected >= _MIN_EXTENT:
        ratio = _extent(output) / expected
        if not _MIN_LENGTH <= ratio <= _MAX_LENGTH:
            yield LENGTH_OUT_OF_BOUNDS
        source_ends, output_ends = _both_ends(source, output)
        if output_ends < source_ends and ratio < _MIN_LENGTH_WITH_FEWER_SENTENCES:
            yield SENTENCES_DROPPED
            return
    if sentences_dropped(source, output):
        yield SENTENCES_DROPPED


def _extent(text: str) -> float:
    """How long the text would be in Latin letters, spans aside."""
    words = "".join(without_spans(text).split())
    if words.isascii():
        return len(words)
    return len(words) + sum(density * len(pattern.findall(words)) for pattern, density in _DENSITIES)


# ---- line breaks and sentences

_SENTENCE_END = re.compile(r"[.!?…؟۔।។။።。！？](?:(?<=[。！？])|(?=[\s\"'”’)\]]|$))")
_UNMARKED_ENDS = re.compile(r"[\u0e00-\u0eff]")
_MIN_SENTENCES = 4
_MIN_SENTENCES_KEPT = 0.75


def line_breaks_kept(source: str, output: str) -> bool:
    """Whether the lines and blank lines between the first and the last word are those of the source."""
    return _line_breaks(source) == _line_breaks(output)


def sentences_dropped(source: str, output: str) -> bool:
    """Whether so many of the source's sentences have no counterpart that some must be missing.

    Ends of sentences are counted, not understood: texts of few sentences always pass, and a quarter may be merged.
    """
    return _dropped(*_both_ends(source, output))


def _dropped(source_ends: int, output_ends: int) -> bool:
    return source_ends >= _MIN_SENTENCES and output_ends < _MIN_SENTENCES_KEPT * source_ends


def _both_ends(source: str, output: str) -> tuple[int, int]:
    """Ends of sentences in both. Thai and Lao do not mark them: an output in these has those of its source."""
    ends = _sentence_ends(source)
    return ends, ends if _UNMARKED_ENDS.search(output) else _sentence_ends(output)


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


_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


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
        words = [word for word in source.split() if any(map(str.isalpha, word))]
        self._words += len(words)
        self._title = (
            self._title and all(any(map(str.isupper, word)) for word in words) and not _IDEOGRAPHS.search(source)
        )

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
_SCALE = re.compile(
    r"\d\s?(?:[万萬億亿千百兆만억천조]|k\b)"
    r"|\b(?:hundred|thousand|milli|mil\b|mio\b|mld\b|mln\b|mille|mila\b|billi|bn\b|hundert|tausend|mrd|тыс|миллион|миллиард|млн|млрд|ribu|juta|miliar|triệu|nghìn|tỷ|bin\b|tusen|tuhat|tis[ií]c|tysi|lakh|crore|ezer)"
    r"|लाख|करोड़|हज़ार|हजार|ألف|آلاف|مليون|مليار|พัน|หมื่น|แสน|ล้าน",
    re.IGNORECASE,
)
"""Where numbers are scaled, zeros at their ends say nothing."""

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
    key = _significant if _SCALE.search(source) or _SCALE.search(output) else _value
    present = {key(digits) for number in _numbers(output) for digits in (number, *_DIGITS.findall(number))}
    return tuple(number for number in numbers if not _is_present(number, present, key))


def _is_present(number: str, present: set[str], key: Callable[[str], str]) -> bool:
    if key(number) in present:
        return True
    parts = _DIGITS.findall(number)
    if len(parts) == 1:
        return _is_small(number) or _twelve_hour(number) in present
    if _GROUPED.fullmatch(number):
        return False
    # 2024.03.05 and 15.30 may be taken apart in another language, but some of it is there.
    found = [key(part) in present or _twelve_hour(part) in present for part in parts]
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


def _value(number: str) -> str:
    """What remains of a number when it is grouped otherwise: its digits without zeros that say nothing."""
    parts = _DIGITS.findall(number)
    digits = "".join(parts).lstrip("0")
    return digits if len(parts) == 1 or _GROUPED.fullmatch(number) else digits.rstrip("0")


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
_MAX_COUNTED_CHARACTERS = 1000
_MIN_REPEATED_GRAMS = _MIN_CHARACTERS - _MIN_CHARACTERS // _MIN_TIMES - _GRAM_CHARACTERS + 1
"""A run of 24 characters or more has at least so many n-grams that are there before. A short text has them counted."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def repeats(source: str, output: str) -> bool:
    """Whether the output repeats one part of a text, long or short, many times in a row, and the source does not."""
    if len(output) < _MAX_COUNTED_CHARACTERS:
        grams = len(output) - _GRAM_CHARACTERS + 1
        if len({output[at : at + _GRAM_CHARACTERS] for at in range(grams)}) > grams - _MIN_REPEATED_GRAMS:
            return False
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
