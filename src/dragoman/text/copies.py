"""Finds what an output has from an example of its prompt, and not from its source.

People, too, translate different texts equally: of 3,200 messages of desktop programs beside their three most similar ones
(60 to 97%), 4.0% have the translation of one of these within 3%. Some of these translations differ where the sources do, in a
number or a word; others are equal, as of "Edit this bill" and "Edit this invoice". So what counts is in how much the sources
differ that a translation has to show, and what of it the output shows: numbers, several words, and a word of the example that
the output has in a similar form. What an example has on both sides, such as a name, is its own: an output has it from there
unless the source has it, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rapidfuzz import fuzz
from rapidfuzz.distance import Prefix

EQUAL = 97.0
"""Texts of which `fuzz.ratio` is no less are taken as equal."""
_UNLIKE = 60.0
"""Sources below this, in scripts without spaces, have little in common."""
_OTHER_WORDS = 0.5
"""If more of a source's words are not in the other, these are seldom only other words for the same."""
_STEM_CHARACTERS = 5
"""Words that begin equally are taken for forms of one word."""
_DIFFERENT_WORDS, _DIFFERENT_SHARES = 3, 0.4
"""Of two sources with an equal translation: so many long words are in one alone, and are so much of both together."""
_MOST_WORDS = 60
"""Of a source whose words are compared with those of others one by one, in about a millisecond."""
_LONG, _FORM_CHARACTERS, _ALIKE_FORMS = 4, 4, 80.0
"""Letters of a word that says something, letters that forms of one word have in common, and the similarity of others."""
_KIN_CHARACTERS, _LEAST_KIN_CHARACTERS, _ALIKE_KIN = 5, 3, 75.0
"""The same of words of two languages: equal letters at the beginning are enough, or fewer of words that are similar."""

_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_LETTER = rf"(?:(?![{_UNSPACED}])[^\W_])"
_WORD = re.compile(rf"{_LETTER}+(?:[./:@_'’&?=#+-]+{_LETTER}+)*")
"""A word, a number, or an address. Scripts without spaces have none: what they keep of another script is one."""
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(r"[./:@_]")
_MIN_LETTERS = 3
_MAX_WRITTEN_OUT = 12
"""Numbers up to this one are often written as a word."""


def copied(source: str, output: str, examples: Sequence[tuple[str, str]]) -> tuple[str, ...] | None:
    """Return what an output has from examples alone: names, numbers and addresses; nothing if it is a translation of one as
    a whole; None: it is no copy. All texts are without marks; an example is a text and its translation.
    """
    theirs: dict[str, None] = {}
    is_whole = False
    for example, translation in examples:
        alike = fuzz.ratio(source, example)
        if alike >= EQUAL:
            continue
        is_near = not is_whole and fuzz.ratio(output, translation, score_cutoff=EQUAL) >= EQUAL
        is_whole = is_whole or (is_near and _shows_other(source, output, example, translation, alike))
        theirs |= dict.fromkeys(_only_theirs(source, output, example, translation))
    return tuple(theirs) if theirs or is_whole else None


def _shows_other(source: str, output: str, example: str, translation: str, alike: float) -> bool:
    """Whether two texts differ in what their translations, which are equal or nearly so, have to show."""
    if _numbers(source) != _numbers(example) and _numbers(output) == _numbers(translation):
        return True
    ours, theirs = _words(source), _words(example)
    if not ours or not theirs:
        return alike < _UNLIKE
    a, b = (Counter(word[:_STEM_CHARACTERS] for word in words) for words in (ours, theirs))
    if any((one - other).total() > _OTHER_WORDS * one.total() for one, other in ((a, b), (b, a))):
        return True
    if (
        _letters(output) != _letters(translation) or max(len(ours), len(theirs)) > _MOST_WORDS
    ):  # it may show what differs
        return False
    only_ours, only_theirs = _only(ours, theirs), _only(theirs, ours)
    shares = len(only_ours) / len(ours) + len(only_theirs) / len(theirs)
    if len(only_ours) + len(only_theirs) >= _DIFFERENT_WORDS and shares >= _DIFFERENT_SHARES:
        return True
    shown = _words(output)
    return _has_kin(only_theirs, shown) and not _has_kin(only_ours, shown)


def _numbers(text: str) -> list[str]:
    return sorted(_DIGITS.findall(text))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _only(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Long words and numbers of one text of which the other has no form."""
    left, only = [*theirs], list[str]()
    for word in ours:
        form = next((other for other in left if _is_form(word, other)), None)
        if form is not None:
            left.remove(form)
        elif len(word) >= _LONG or word.isdecimal():
            only.append(word)
    return only


def _is_form(word: str, other: str) -> bool:
    common = Prefix.similarity(word, other)
    is_beginning = common == min(len(word), len(other)) >= _FORM_CHARACTERS - 1
    return (
        word == other
        or common >= _FORM_CHARACTERS
        or is_beginning
        or (common > 0 and fuzz.ratio(word, other) >= _ALIKE_FORMS)
    )


def _has_kin(words: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether one of some words stands in a translation as a word of the same origin."""
    return any(_is_kin(word, other) for word in words if len(word) >= _LONG for other in shown)


def _is_kin(word: str, other: str) -> bool:
    common = Prefix.similarity(word, other)
    is_like = common >= _LEAST_KIN_CHARACTERS and fuzz.ratio(word, other) >= _ALIKE_KIN
    return common >= _KIN_CHARACTERS or is_like


def _only_theirs(source: str, output: str, example: str, translation: str) -> Iterator[str]:
    """What stands in both halves of an example and in the output, but not in the source, and is kept by translators."""
    both = set(_WORD.findall(example)) & set(_WORD.findall(translation))
    if not both:
        return
    own, has_digits = source.casefold(), _DIGITS.search(source) is not None
    names = _names(example)
    for word in _WORD.findall(output):
        if word not in both or word.casefold() in own:
            continue
        if word.isdecimal():
            if has_digits or int(word) > _MAX_WRITTEN_OUT:
                yield word
        elif word in names or _DIGITS.search(word) or _ADDRESS.search(word):
            yield word


def _names(text: str) -> set[str]:
    """Words with a capital that no sentence and no title explains."""
    words = _WORD.findall(text)
    capitals = [word for word in words if len(word) >= _MIN_LETTERS and word != word.lower()]
    if 2 * sum(word[:1].isupper() for word in words) > len(words):  # a title
        return {word for word in capitals if word[1:] != word[1:].lower() and word != word.upper()}
    first = next(iter(words), "")
    return {word for word in capitals if word != first or word[1:] != word[1:].lower()}
