"""Finds what an output has from an example of its prompt, and not from its source.

People, too, translate different texts equally: of 3,200 messages of desktop programs beside their three most similar ones
(60 to 97%), 4.0% have the very translation of one of these, as "Edit this bill" and "Edit this invoice" do. So an equal
translation is a copy only if the sources differ in most words of one of them, or in numbers. What an example has on both sides,
such as a name, is its own: an output has it from there unless the source has it, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rapidfuzz import fuzz

EQUAL = 97.0
"""Texts of which `fuzz.ratio` is no less are taken as equal."""
_UNLIKE = 60.0
"""Sources below this, in scripts without spaces, have little in common."""
_OTHER_WORDS = 0.5
"""If more of a source's words are not in the other, these are seldom only other words for the same."""
_STEM_CHARACTERS = 5
"""Words that begin equally are taken for forms of one word."""

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
        is_equal = not is_whole and fuzz.ratio(output, translation, score_cutoff=EQUAL) >= EQUAL
        is_whole = is_whole or (is_equal and _differ(source, example, alike))
        theirs |= dict.fromkeys(_only_theirs(source, output, example, translation))
    return tuple(theirs) if theirs or is_whole else None


def _differ(source: str, example: str, alike: float) -> bool:
    """Whether two texts differ in what a translation has to show: numbers, or most words of one of them."""
    if sorted(_DIGITS.findall(source)) != sorted(_DIGITS.findall(example)):
        return True
    ours, theirs = (
        Counter(word.casefold()[:_STEM_CHARACTERS] for word in _WORD.findall(text)) for text in (source, example)
    )
    if not ours or not theirs:
        return alike < _UNLIKE
    return any((a - b).total() > _OTHER_WORDS * a.total() for a, b in ((ours, theirs), (theirs, ours)))


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
