"""Comparisons of an output with its source: copied, in another language, cut, with numbers lost, repeating itself.

Each is a fact that can be seen without knowing either language, and linear in the lengths of both texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from dragoman import languages
from dragoman.text.detect import SHARED_SCRIPTS, Detector, han_fit, label_of, script_weights, scripts_of, word_pattern
from dragoman.text.spans import spans, without_spans


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is known of a segment's translation. `source_language` None: unknown; `detector` None: not asked."""

    source_language: str | None
    target_language: str
    detector: Detector | None = None


# ---- words, language and length


def is_copied(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output's letters are those of the source, where that cannot be right."""
    if context.source_language is not None and may_be_equal(context.source_language, context.target_language):
        return False
    copied = CopiedLetters()
    copied.add(source, output)
    return copied.all_of_it()


def is_empty(source: str, output: str) -> bool:
    """Whether the output has no letters, and the source has."""
    return not any(map(str.isalpha, output)) and sum(map(str.isalpha, without_spans(source))) >= _MIN_LETTERS


_MIN_LETTERS = 3
_MIN_SCRIPT_LETTERS = 12
_MIN_SCRIPT_SHARE = 0.4
_MIN_HAN = 8
_MIN_HAN_MARGIN = 0.12
_MIN_JAPANESE = 0.9
_MAX_HAN_WITHOUT_KANA = 20


def is_wrong_language(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output is in a script of another language, or in the source's or another language of the same script.

    Letters in things to keep and in words of the source do not count: names stay in their script.
    """
    allowed = _allowed_scripts(context.target_language)
    own = set(source.casefold().split())
    text = " ".join(word for word in without_spans(output).split() if word.casefold() not in own)
    is_latin = text.isascii() or not _NOT_LATIN.search(text)
    weights = {"Latn": sum(map(str.isalpha, text))} if is_latin else script_weights(text)
    total = sum(weights.values())
    if total >= _MIN_SCRIPT_LETTERS:
        if sum(weights.get(script, 0) for script in allowed) < _MIN_SCRIPT_SHARE * total:
            return True
        if "Han" in allowed and "Han" in weights:
            return _is_other_han(text, languages.script(context.target_language))
    return not allowed.isdisjoint(SHARED_SCRIPTS) and _is_other_language(source, output, context)


_NOT_LATIN = re.compile(r"[^\W\d_A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")


@lru_cache(maxsize=256)
def _allowed_scripts(target: str) -> frozenset[str]:
    return scripts_of(target)


_FEW_WORDS = 4
_MIN_SENTENCE_WORDS = 3
_MAX_WORDS = 100
"""So many say enough."""

_PUNCTUATION = '(),;:.!?…"“”'
"""What may stand at a word that is no code: `a.out` and `x-y` are."""


_Kind = Literal["expected", "close", "other"]
"""What another language is beside the target: the source's, or English, in which models answer; one in which the same
sentence is often right; any other that is served."""

_MIN_ODDS: Mapping[int, Mapping[_Kind, float]] = {
    1: {"expected": 7.4, "other": 150.0},
    _FEW_WORDS: {"expected": 4.5, "other": 33.0},
}
"""Largest number of words -> how many times as likely as the target another language must be, by py3langid."""

_MIN_ODDS_OF_MORE: Mapping[_Kind, float] = {"expected": 2.7, "close": 20.0, "other": 7.4}
_KEPT_FACTOR = 1.7
"""More is asked where words of the source count: these may be code, a quotation or a term that stays as it is."""


def _is_other_language(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output, or a sentence of it, is likelier to be in the source's or another language than in the target's.

    First only words count that the source does not have; then also those that it has in small letters, which are
    hardly names: a model that writes the source's language often repeats most of the source.
    """
    detector, target = context.detector, context.target_language
    if detector is None:
        return False
    pattern = word_pattern(target)
    own = set(map(str.casefold, pattern.findall(source)))
    plain = _plain_words(source)
    rivals, expected = _rivals(context.source_language, target, detector.served)

    def is_other(words: list[str], rivals: Mapping[str, _Kind]) -> bool:
        new = [word for word in words if word.casefold() not in own]
        likelier = _likelier(detector, new, target)
        if _leads(likelier, len(new), rivals):
            return True
        if not likelier and len(new) > _FEW_WORDS:
            return False
        counted = [word for word in words if (folded := word.casefold()) not in own or folded in plain]
        if len(counted) <= max(len(new), 1):
            return False
        return _leads(_likelier(detector, counted, target), len(counted), expected, _KEPT_FACTOR)

    text = without_spans(output)
    if is_other(pattern.findall(text), rivals):
        return True
    sentences = [words for sentence in _SENTENCE_END.split(text) if (words := pattern.findall(sentence))]
    return len(sentences) > 1 and any(
        len(words) >= _MIN_SENTENCE_WORDS and is_other(words, expected) for words in sentences
    )


def _likelier(detector: Detector, words: list[str], target: str) -> list[tuple[str, float]]:
    return detector.likelier(" ".join(words[:_MAX_WORDS]), target) if sum(map(len, words)) >= _MIN_LETTERS else []


def _leads(likelier: list[tuple[str, float]], words: int, rivals: Mapping[str, _Kind], factor: float = 1.0) -> bool:
    """Whether one of the rivals is so much likelier than the target that so many words must be in it."""
    least = next((least for most, least in _MIN_ODDS.items() if words <= most), _MIN_ODDS_OF_MORE)
    return any(label in rivals and odds > factor * least.get(rivals[label], math.inf) for label, odds in likelier)


@lru_cache(maxsize=4096)
def _rivals(
    source: str | None, target: str, served: tuple[str, ...]
) -> tuple[Mapping[str, _Kind], Mapping[str, _Kind]]:
    """The languages of the target's script that the output may be in instead, by label: all, and the expected ones."""
    scripts = _allowed_scripts(target)
    likely = {"en", source}
    kinds: dict[str, _Kind] = {
        label_of(tag): "close" if may_be_equal(tag, target) else "expected" if tag in likely else "other"
        for tag in (*served, *filter(None, likely))
        if not scripts.isdisjoint(scripts_of(tag))
    }
    return kinds, {label: kind for label, kind in kinds.items() if kind == "expected"}


def _plain_words(source: str) -> set[str]:
    """The source's words in small letters, and its first one where such a word follows it."""
    words = [word.strip(_PUNCTUATION).replace("’", "'") for word in source.split()]
    plain = {word for word in words if word.islower() and word.replace("'", "").isalpha()}
    if len(words) > 1 and words[1] in plain:
        plain.add(words[0].casefold())
    return plain


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


def length_faults(source: str, output: str) -> Iterator[Literal["length_out_of_bounds", "sentences_dropped"]]:
    """Whether the output is much shorter or longer than the source, and whether sentences of it seem to be missing."""
    expected = _extent(source)
    if expected >= _MIN_EXTENT:
        ratio = _extent(output) / expected
        if not _MIN_LENGTH <= ratio <= _MAX_LENGTH:
            yield "length_out_of_bounds"
        source_ends, output_ends = both_sentence_ends(source, output)
        if output_ends < source_ends and ratio < _MIN_LENGTH_WITH_FEWER_SENTENCES:
            yield "sentences_dropped"
            return
    if sentences_dropped(source, output):
        yield "sentences_dropped"


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
_MIN_REPEATED_SENTENCE = 12
"""Characters; shorter ones (thanks, yes) may be translations of several."""


def line_breaks_kept(source: str, output: str) -> bool:
    """Whether the lines and blank lines between the first and the last word are those of the source."""
    return _line_breaks(source) == _line_breaks(output)


def sentences_dropped(source: str, output: str) -> bool:
    """Whether so many of the source's sentences have no counterpart that some must be missing.

    Ends of sentences are counted, not understood: texts of few sentences always pass, and a quarter may be merged.
    """
    return too_few_sentences(*both_sentence_ends(source, output))


def too_few_sentences(source_ends: int, output_ends: int) -> bool:
    """Whether so few sentences in place of so many mean that some are missing."""
    return source_ends >= _MIN_SENTENCES and output_ends < _MIN_SENTENCES_KEPT * source_ends


def both_sentence_ends(source: str, output: str) -> tuple[int, int]:
    """Ends of sentences in both. Thai and Lao do not mark them: an output in these has those of its source."""
    ends = _sentence_ends(source)
    return ends, ends if _UNMARKED_ENDS.search(output) else _sentence_ends(output)


def repeats_sentence(source: str, output: str) -> bool:
    """Whether the output has one sentence twice in a row, and the source none: another one is missing instead."""
    return _has_sentence_twice(output, _MIN_REPEATED_SENTENCE) and not _has_sentence_twice(source, 1)


def _has_sentence_twice(text: str, min_characters: int) -> bool:
    found = [one.strip() for one in _SENTENCE_END.split(text)]
    return any(one == other and len(one) >= min_characters for one, other in pairwise(found))


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


class CopiedLetters:
    """Whether the letters of all segments are those of the source. Short texts and names may well be the same."""

    def __init__(self) -> None:
        self._differs = False
        self._letters = 0
        self._words = 0
        self._title = True

    def add(self, source: str, output: str) -> None:
        """One segment and its output."""
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
        """Whether all that was added was copied."""
        is_name = self._words <= _MAX_WORDS_OF_A_NAME and self._title
        return self._letters >= _MIN_COPIED_LETTERS and not self._differs and not is_name


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, without_spans(text).casefold()))


def may_be_equal(one: str, other: str) -> bool:
    """Whether the same sentence is often right in both languages."""
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


_AFTERNOON = re.compile(r"\bp\.?m\b|午後|下午|晚上|오후|저녁|밤", re.IGNORECASE)


def numbers_repeated(source: str, output: str) -> tuple[str, ...]:
    """Numbers that the output has more often than the source has them, where an hour of the afternoon cannot be the reason.

    Only numbers of the source are looked for: others may be words there, and so may small ones.
    """
    listed = _NUMBER.findall(without_spans(source))
    if not listed or _AFTERNOON.search(source):
        return ()
    ours, theirs = (Counter(map(_ascii_digits, found)) for found in (listed, _NUMBER.findall(without_spans(output))))
    return tuple(
        number
        for number, times in ours.items()
        if theirs[number] > times and not (number.isdecimal() and _is_small(number))
    )


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


def number_spans(text: str, numbers: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where the text has one of these numbers, which are as `numbers_lost` returns them."""
    return (found.span() for found in _NUMBER.finditer(text) if _ascii_digits(found[0]) in numbers)


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
