"""Compares an output with its source: copied, in a wrong language, shortened, numbers lost, repetition.

No comparison needs to know either language. Each is linear in the lengths of both texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from itertools import pairwise
from typing import Literal

import numpy as np

from dragoman import languages
from dragoman.text.detect import SHARED_SCRIPTS, Detector, han_fit, label_of, script_weights, scripts_of, word_pattern
from wholetext.markup.spans import spans, without_spans


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Languages of a segment. `source_language` None: unknown. `detector` None: the output's language is not detected."""

    source_language: str | None
    target_language: str
    detector: Detector | None = None


# ---- words, language and length


def is_copied(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output has the same letters as the source, and a correct translation would not."""
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
    """Whether the output is in another script than the target's, or in another language of the same script.

    Letters in kept spans and in words that the source also has are ignored: names stay in their script.
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
"""The number of words from which the language is detected; further ones are ignored."""

_PUNCTUATION = '(),;:.!?…"“”'
"""Punctuation that a word may have at its edges and is not code; `a.out` and `x-y` are code."""


_Kind = Literal["expected", "close", "other"]
"""`expected`: the source's language, or English, in which models often answer. `close`: a language in which the same
sentence is often right. `other`: any other served language."""

_MIN_ODDS: Mapping[int, Mapping[_Kind, float]] = {
    1: {"expected": 7.4, "other": 150.0},
    _FEW_WORDS: {"expected": 4.5, "other": 33.0},
}
"""Largest number of words -> how many times as likely as the target another language must be, by py3langid."""

_MIN_ODDS_OF_MORE: Mapping[_Kind, float] = {"expected": 2.7, "close": 20.0, "other": 7.4}
_KEPT_FACTOR = 1.7
"""A factor on the odds where words of the source are included: these may be code, a quotation or an untranslated term."""


def _is_other_language(source: str, output: str, context: CheckContext) -> bool:
    """Whether the output, or a sentence of it, is likelier to be in the source's or another language than in the target's.

    At first words that the source also has are left out. Then those of them that are in small letters, which are hardly
    names, are included: a model that answers in the source's language often repeats most of the source.
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
    """Whether one of the rivals is likelier than the target by the factor that this number of words requires."""
    least = next((least for most, least in _MIN_ODDS.items() if words <= most), _MIN_ODDS_OF_MORE)
    return any(label in rivals and odds > factor * least.get(rivals[label], math.inf) for label, odds in likelier)


@lru_cache(maxsize=4096)
def _rivals(
    source: str | None, target: str, served: tuple[str, ...]
) -> tuple[Mapping[str, _Kind], Mapping[str, _Kind]]:
    """Return other languages of the target's script by label: all of them, and only the source's language and English."""
    scripts = _allowed_scripts(target)
    likely = {"en", source}
    kinds: dict[str, _Kind] = {
        label_of(tag): "close" if may_be_equal(tag, target) else "expected" if tag in likely else "other"
        for tag in (*served, *filter(None, likely))
        if not scripts.isdisjoint(scripts_of(tag))
    }
    return kinds, {label: kind for label, kind in kinds.items() if kind == "expected"}


def _plain_words(source: str) -> set[str]:
    """Return the source's words in small letters, and its first word if the second one is in small letters."""
    words = [word.strip(_PUNCTUATION).replace("’", "'") for word in source.split()]
    plain = {word for word in words if word.islower() and word.replace("'", "").isalpha()}
    if len(words) > 1 and words[1] in plain:
        plain.add(words[0].casefold())
    return plain


def _is_other_han(text: str, script: str) -> bool:
    """Whether Han characters are simplified instead of traditional or the reverse, or lack kana for Japanese."""
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
_MIN_SHORT_EXTENT = 10
_MIN_SHORT_LENGTH = 0.2
_MAX_SHORT_LENGTH = 4.0
"""The bounds of shorter texts, which differ more."""


def length_faults(source: str, output: str) -> Iterator[Literal["length_out_of_bounds", "sentences_dropped"]]:
    """Return a code if the output is much shorter or longer than the source, and one if sentences seem to be missing."""
    expected = _extent(source)
    ratio = _extent(output) / expected if expected >= _MIN_SHORT_EXTENT else 1.0
    is_long = expected >= _MIN_EXTENT
    least, most = (_MIN_LENGTH, _MAX_LENGTH) if is_long else (_MIN_SHORT_LENGTH, _MAX_SHORT_LENGTH)
    if not least <= ratio <= most:
        yield "length_out_of_bounds"
    source_ends, output_ends = both_sentence_ends(source, output)
    has_fewer = is_long and output_ends < source_ends and ratio < _MIN_LENGTH_WITH_FEWER_SENTENCES
    if has_fewer or too_few_sentences(source_ends, output_ends):
        yield "sentences_dropped"


def _extent(text: str) -> float:
    """Return the length that the text would have in Latin letters, without kept spans."""
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


_SPACES = r"[^\S\r\n]{2,}+|\t"
_OPTION = r"[^\S\r\n]*+[-+/]{1,2}\w"
_LAID_OUT = re.compile(rf"{_SPACES}|^{_OPTION}", re.MULTILINE)
"""In columns, or beginning with an option, as a program's help."""
_ITEM = re.compile(r"\s*+(?:[-+*•·‣–]|\d+[.)])\s")
_MIN_INDENTATION = 8
"""Columns by which a line that continues an entry is deeper than the entry's first line, at least."""


def line_breaks_kept(source: str, output: str) -> bool:
    """Whether the output has the source's line breaks and blank lines between its first and its last word.

    An entry of a program's help, such as an option, may be wrapped in another way: a longer one needs more lines.
    """
    if _line_breaks(source) == _line_breaks(output):
        return True
    if _LAID_OUT.search(source) is None:
        return False
    return _line_breaks(source, wrapped=True) == _line_breaks(output, wrapped=True)


def too_few_sentences(source_ends: int, output_ends: int) -> bool:
    """Whether an output with so many sentence ends, compared with the source's, must lack some of its sentences.

    Texts of few sentences always pass, and a quarter of the sentences may be merged.
    """
    return source_ends >= _MIN_SENTENCES and output_ends < _MIN_SENTENCES_KEPT * source_ends


def both_sentence_ends(source: str, output: str) -> tuple[int, int]:
    """Count the sentence ends of both. Thai and Lao do not mark them, so an output in these gets its source's number."""
    ends = sentence_ends(source)
    return ends, ends if _UNMARKED_ENDS.search(output) else sentence_ends(output)


def repeats_sentence(source: str, output: str) -> bool:
    """Whether the output repeats a sentence directly and the source does not: another sentence is missing then."""
    return _has_sentence_twice(output, _MIN_REPEATED_SENTENCE) and not _has_sentence_twice(source, 1)


def _has_sentence_twice(text: str, min_characters: int) -> bool:
    found = [one.strip() for one in _SENTENCE_END.split(text)]
    return any(one == other and len(one) >= min_characters for one, other in pairwise(found))


def sentence_ends(text: str) -> int:
    return len(_SENTENCE_END.findall(text))


def _line_breaks(text: str, *, wrapped: bool = False) -> list[int]:
    """Return the number of line breaks between each line with words and the next. `wrapped`: without those in an entry."""
    breaks: list[int] = []
    number = indentation = 0
    is_first = True
    for line in text.splitlines():
        if words := line.lstrip():
            deeper = len(line[: -len(words)].expandtabs()) - indentation
            continues = wrapped and number == 1 and deeper >= _MIN_INDENTATION and not _ITEM.match(line)
            if is_first or not continues:
                indentation += deeper
                breaks += [] if is_first else [number]
            is_first, number = False, 0
        number += 1
    return breaks


# ---- placeholders

_WHITE_SPACE = re.compile(r"\s+")
_CONVERSION = re.compile(r"%(?P<place>\d{1,2}\$)?[-+#' 0I]*(?P<rest>\d*(?:\.\d+)?[A-Za-z]{1,3})", re.ASCII)
"""A conversion of C. Its arguments are numbered where another order needs that, and flags are those of a language."""
_CLOCK = re.compile(r"(?=.*%[-_0^#EO]?[MIHlkp])(?:%[-_0^#EO]?[A-Za-z][^%\w]{0,3}){2,}", re.ASCII)
"""A time of day as strftime writes it, which is a matter of the country: `%l:%M %p`, `%H.%M`."""
_ARGUMENT = re.compile(r"<\s?[^\W\d_][^<>=/\n]{0,40}>")
"""In the help of a command, what stands for a value is translated: `--dir <folder>`."""
_USAGE = re.compile(r"(?<![^\s\[(])--?[A-Za-z]|\[<|>\.{3}|\busage:", re.IGNORECASE)
_LABELS = re.compile(r"(?:/[A-Z][^/\n]*){2,}")
"""A text of labels between slashes, such as a menu's: `/Buddies/Join a Chat...`. A path has no spaces, or small letters."""
_MOST_REWRITTEN = 50
"""An output that lacks more spans has lost them."""


def placeholders_lost(source: str, output: str) -> tuple[str, ...]:
    """Return the fixed spans that occur less often in the output than in the source, in the source's order.

    White space in a span is ignored: `<br />` equals `<br/>`, `{{ name }}` equals `{{name}}`. A span counts as kept where its
    text stands in the output beside characters by which it is no span there, and where it is written as the target language
    needs it: `%2$s` for `%s`, and in the help of a command `<Datei>` for `<file>`.
    """
    ours, theirs = (
        [_WHITE_SPACE.sub("", text[start:stop]) for start, stop in spans(text)] for text in (source, output)
    )
    remaining = Counter(theirs)
    missing: list[str] = []
    for span in ours:
        if remaining[span] > 0:
            remaining[span] -= 1
        else:
            missing.append(span)
    if not 0 < len(missing) <= _MOST_REWRITTEN:
        return tuple(missing)
    if " " in source and _LABELS.fullmatch(source) and output[:1] == "/" and output.count("/") == source.count("/"):
        return tuple(span for span in missing if span[0] != "/")
    known = frozenset(ours)
    return tuple(_not_rewritten(missing, Counter(span for span in theirs if span not in known), source, output))


def _not_rewritten(missing: list[str], new: Counter[str], source: str, output: str) -> Iterator[str]:
    """Yield the spans that the output does not have in another form either. `new`: its spans that the source does not have."""
    forms = Counter(_form(span, source) for span in _rewritten(new, output))
    rest = _only(output, new)
    has_new_entity = any(span.startswith("&") for span in new)
    for span in missing:
        form, place = _form(span, source), _place_of(span, rest)
        if forms[form] > 0:
            forms[form] -= 1
        elif place is not None:
            rest = f"{rest[: place.start()]} {rest[place.end() :]}"
        elif not _is_punctuation(span) or span in output or has_new_entity:
            yield span


def _rewritten(new: Counter[str], output: str) -> Iterator[str]:
    """Yield what may be a span of the source in another form; a numbered argument once."""
    for span, times in new.items():
        found = _CONVERSION.fullmatch(span)
        yield from [span] * (1 if found and found["place"] else times)
    yield from (found[0] for found in _ARGUMENT.finditer(_only(output, new)) if found[0] not in new)


def _form(span: str, source: str) -> str:
    """Return what is the same in each way of writing a span. The output may number arguments that the source does not."""
    if found := _CONVERSION.fullmatch(span):
        place = found["place"] or ""
        return f"%{place if f'%{place}' in source else ''}{found['rest']}"
    if _CLOCK.fullmatch(span):
        return "a time"
    if _ARGUMENT.fullmatch(span) and _USAGE.search(source) and "</" not in source:
        return "an argument"
    return span.replace("/>", ">")


def _is_punctuation(span: str) -> bool:
    """Whether it is an entity of a quotation mark or a space, which another language writes otherwise or not at all."""
    sign = unescape(span) if span[0] == "&" else ""
    return len(sign) == 1 and sign != "&" and unicodedata.category(sign)[0] in "PZ"


def _only(text: str, new: Collection[str]) -> str:
    """Replace the spans that are not among `new` by spaces."""
    parts: list[str] = []
    end = 0
    for start, stop in spans(text):
        if _WHITE_SPACE.sub("", text[start:stop]) not in new:
            parts.append(text[end:start])
            end = stop
    return " ".join([*parts, text[end:]])


def _place_of(span: str, text: str) -> re.Match[str] | None:
    """Find a span that stands by itself: neither within a longer word, name or path, nor within a longer number."""
    is_word, is_number = span[-1].isalpha(), span[-1].isdecimal()
    before = r"(?<![A-Za-z0-9-])" if span[0].isalnum() or span[0] == "-" else ""
    after = r"(?![./?#-][\w/])" if is_word or is_number or span[-1] == "/" else ""
    after += "(?![A-Za-z])" * is_word + r"(?!\d)" * is_number
    return re.search(f"{before}{re.escape(span)}{after}", text)


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


_FILE_PATTERN = re.compile(r"\*\.\w")
"""The names of files that a format has, behind the format's own name: `Enhanced Metafile (*.emf)`."""


class CopiedLetters:
    """Collects whether all segments were copied. Short texts and names may correctly be the same in both languages."""

    def __init__(self) -> None:
        self._differs = False
        self._letters = 0
        self._words = 0
        self._title = True

    def add(self, source: str, output: str) -> None:
        """Add a segment and its output."""
        if self._differs:
            return
        letters = _letters(source)
        self._differs = letters != _letters(output)
        self._letters += sum(map(len, letters))
        words = [word for word in source.split() if any(map(str.isalpha, word)) and not _FILE_PATTERN.search(word)]
        self._words += len(words)
        self._title = (
            self._title and all(any(map(str.isupper, word)) for word in words) and not _IDEOGRAPHS.search(source)
        )

    def all_of_it(self) -> bool:
        """Whether every segment that was added was copied."""
        is_name = self._words <= _MAX_WORDS_OF_A_NAME and self._title
        return self._letters >= _MIN_COPIED_LETTERS and not self._differs and not is_name


def _letters(text: str) -> list[str]:
    """Return the letters of each word; who writes `GEDCOM-import` for `GEDCOM import` has translated it."""
    words = ("".join(filter(str.isalpha, word)) for word in without_spans(text).casefold().split())
    return [*filter(None, words)]


@lru_cache(maxsize=4096)
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
"""Signs of a scaled number (1.5 million): zeros at its end are not compared."""

_MAX_WRITTEN_OUT = 12
"""Numbers up to this one are often written as a word ("three", 三) or as a month's name."""


def numbers_lost(source: str, output: str) -> tuple[str, ...]:
    """Return the numbers of the source, in ASCII digits, that the output does not have in any grouping or scale.

    1,000 may be 1000, 1.5 million 150万, 15:30 3:30 PM, 2024-03-05 5 March 2024, ３０ 30. Small whole numbers, which other
    languages often write as words, and digits of fixed spans are not compared.
    """
    numbers = _numbers(without_spans(source))
    if not numbers:
        return ()
    key = _significant if _SCALE.search(source) or _SCALE.search(output) else _value
    present = {key(digits) for number in _numbers(output) for digits in (number, *_DIGITS.findall(number))}
    centuries = _centuries(source, output) if "th" in source else ()
    return tuple(number for number in numbers if not _is_present(number, present, key) and number not in centuries)


def _centuries(source: str, output: str) -> Collection[str]:
    """Return the source's English ordinals of centuries that the output has in Roman numerals, or as years: XVI, the 1500s."""
    ordinals = {found[1] for found in _CENTURY.finditer(source)}
    words = set(_ROMAN.findall(output))
    return {one for one in ordinals if _roman(int(one)) in words or f"{int(one) - 1}00" in output}


_CENTURY = re.compile(r"(?<!\d)(\d\d)th\b", re.ASCII)
_ROMAN = re.compile(r"\b[IVX]+\b")


def _roman(number: int) -> str:
    tens, ones = divmod(number, 10)
    return "X" * tens + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[ones]


_AFTERNOON = re.compile(r"\bp\.?m\b|午後|下午|晚上|오후|저녁|밤", re.IGNORECASE)


def numbers_repeated(source: str, output: str) -> tuple[str, ...]:
    """Return the source's numbers that the output has more often; none if the source has an hour of the afternoon.

    Numbers that the source does not have, and small ones, are ignored: the source may write them as words.
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


def numbers_added(source: str, output: str, source_language: str | None) -> tuple[str, ...]:
    """Return the output's numbers, in ASCII digits, of which the source has nothing: neither the digits nor a part of them.

    Small whole numbers are ignored, as the source may have them as words; so are all where a number in English words, or in
    Chinese characters, is in it. Other languages may have words for any number of few digits.
    """
    least_digits = (
        1 if source_language is not None and languages.primary(source_language) == "en" else _WRITTEN_IN_DIGITS
    )
    ours, theirs = without_spans(source), _numbers(without_spans(output))
    if not theirs or _SCALE.search(ours) or _NUMBER_WORD.search(ours):
        return ()
    present = {_significant(digits) for number in _numbers(ours) for digits in (number, *_DIGITS.findall(number))}
    hours = {_significant(str(int(digits) + 12)) for digits in present if digits and len(digits) <= 2}
    present |= hours
    return tuple(one for one in theirs if len(_significant(one)) >= least_digits and _is_new(one, present))


_NUMBER_WORD = re.compile(
    r"\b(?:twelve|thirteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|dozen|half|double|teens?"
    r"|\w+teen|noon|midnight|century|decade|percent|zero|quarter|hexadecimal|octal|decimal)|[十百千万萬億亿零〇]|[십백천만억]",
    re.IGNORECASE,
)
"""A number in words, which a translation may write in digits."""

_WRITTEN_IN_DIGITS = 3
"""A number of so many digits that are not zeros at an end is seldom written in words."""


def _is_new(number: str, present: set[str]) -> bool:
    if number.isdecimal() and _is_small(number):
        return False
    return _significant(number) not in present and not any(
        _significant(part) in present for part in _DIGITS.findall(number) if _significant(part)
    )


def _is_present(number: str, present: set[str], key: Callable[[str], str]) -> bool:
    if key(number) in present:
        return True
    parts = _DIGITS.findall(number)
    if len(parts) == 1:
        return _is_small(number) or _twelve_hour(number) in present
    if _GROUPED.fullmatch(number):
        return False
    # Another language may split 2024.03.05 and 15.30, but has some of their parts.
    found = [key(part) in present or _twelve_hour(part) in present for part in parts]
    return any(found) and all(is_found or _is_small(part) for part, is_found in zip(parts, found, strict=True))


def number_spans(text: str, numbers: Collection[str]) -> Iterator[tuple[int, int]]:
    """Return the spans of these numbers, which are in the form that `numbers_lost` returns."""
    return (found.span() for found in _NUMBER.finditer(text) if _ascii_digits(found[0]) in numbers)


def _numbers(text: str) -> list[str]:
    """Return each number once, with all decimal digits (full-width, Arabic, Devanagari, ...) as ASCII."""
    return list(dict.fromkeys(map(_ascii_digits, _NUMBER.findall(text))))


def _ascii_digits(number: str) -> str:
    if number.isascii():
        return number
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in number)


def _significant(number: str) -> str:
    """Return the digits without zeros at either end: they are the same in every grouping and scale."""
    return "".join(_DIGITS.findall(number)).strip("0")


def _value(number: str) -> str:
    """Return the digits without leading zeros, and without zeros at the end of a fraction: they do not change the value."""
    parts = _DIGITS.findall(number)
    digits = "".join(parts).lstrip("0")
    return digits if len(parts) == 1 or _GROUPED.fullmatch(number) else digits.rstrip("0")


def _is_small(digits: str) -> bool:
    return len(digits) <= 2 and int(digits) <= _MAX_WRITTEN_OUT


def _twelve_hour(digits: str) -> str:
    """Return the hour on a twelve-hour clock: 3 for 15."""
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
"""A run of `_MIN_CHARACTERS` repeats at least this many n-grams; they are counted first, which is fast for short texts."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def repeats(source: str, output: str) -> bool:
    """Whether the output repeats a unit, short or long, many times in a row, and the source does not."""
    if _LAID_OUT.search(source):  # runs of spaces are as long as its lines need
        source, output = (re.sub(_SPACES, " ", text) for text in (source, output))
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
    """Return the characters of the longest run of a unit that is repeated `min_times` or more, 0 if there is none.

    Within a run the previous occurrence of each n-gram is one unit before it. So a run is a sequence of n-grams whose
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
