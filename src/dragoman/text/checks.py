"""Checks on a translation against its source, each a fact that can be told without knowing either language.

A check that fails makes a warning for the caller's user, or a reason to try again; what becomes of it is not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from dragoman import languages
from dragoman.text.numbers import numbers_lost
from dragoman.text.repetition import repeats
from dragoman.text.segments import LINE_BREAK
from dragoman.text.spans import spans, without_spans
from dragoman.types import TranslationWarning

__all__ = [
    "echoes",
    "findings",
    "line_breaks_kept",
    "lost",
    "numbers_lost",
    "repeats",
    "sentences_dropped",
    "warnings",
]

LINE_BREAKS: Final = "line_breaks"
SENTENCES: Final = "sentences"
COPIES: Final = "copies"
NUMBERS: Final = "numbers"
REPETITION: Final = "repetition"
ECHO: Final = "echo"

_GAP = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?…؟।](?=[\s\"'”’)\]]|$)|[。！？]")
_LEAST_SENTENCES = 4
_SENTENCES_KEPT = 0.75
_LEAST_ECHO_LETTERS = 12
_NAME_MOST_WORDS = 4
_MOST_LISTED = 5

_SIBLINGS = (
    frozenset({"id", "ms"}),
    frozenset({"bs", "hr", "sr", "cnr"}),
    frozenset({"da", "nb", "nn", "no"}),
    frozenset({"cs", "sk"}),
    frozenset({"zh", "yue", "wuu", "hak", "nan", "lzh"}),
)
"""Languages in which one and the same sentence is often right in both."""


def line_breaks_kept(source: str, output: str) -> bool:
    """Whether the lines and blank lines between the first and the last word are those of the source."""
    return _line_breaks(source) == _line_breaks(output)


def sentences_dropped(source: str, output: str) -> bool:
    """Whether so many of the source's sentences have no counterpart that some were skipped.

    Ends of sentences are counted, not understood: texts of few sentences are never judged, and a quarter may be merged.
    """
    ends = len(_SENTENCE_END.findall(source))
    return ends >= _LEAST_SENTENCES and len(_SENTENCE_END.findall(output)) < _SENTENCES_KEPT * ends


def lost(source: str, output: str) -> tuple[str, ...]:
    """Placeholders, tags, URLs and e-mail addresses that the output has fewer times than the source, in its order."""
    left = Counter(_fixed(output))
    missing: list[str] = []
    for span in _fixed(source):
        if left[span] > 0:
            left[span] -= 1
        else:
            missing.append(span)
    return tuple(missing)


def echoes(source: str, output: str, source_language: str | None, target_language: str) -> bool:
    """Whether the output is the source again, by its letters. Short texts, names, and sibling languages may be so."""
    letters = _letters(source)
    if len(letters) < _LEAST_ECHO_LETTERS or letters != _letters(output) or _is_name(source):
        return False
    return source_language is None or not _siblings(source_language, target_language)


def warnings(source: str, output: str, source_language: str | None, target_language: str) -> tuple[str, ...]:
    """What a user should know of this translation, a sentence each; none when nothing seems wrong."""
    return tuple(one.message for one in findings(source, output, source_language, target_language))


def findings(
    source: str, output: str, source_language: str | None, target_language: str
) -> Iterator[TranslationWarning]:
    """The checks that failed."""
    if not line_breaks_kept(source, output):
        yield TranslationWarning(LINE_BREAKS, "The line breaks of the source were not kept.")
    if sentences_dropped(source, output):
        told = "The translation has markedly fewer sentences than the source; some may be missing."
        yield TranslationWarning(SENTENCES, told)
    if missing := lost(source, output):
        told = f"The translation lacks what should be copied from the source: {_listed(missing)}."
        yield TranslationWarning(COPIES, told, missing)
    if numbers := numbers_lost(source, output):
        told = f"The translation lacks numbers of the source: {_listed(numbers)}."
        yield TranslationWarning(NUMBERS, told, numbers)
    if repeats(source, output):
        yield TranslationWarning(REPETITION, "The translation repeats itself and may be incomplete.")
    if echoes(source, output, source_language, target_language):
        yield TranslationWarning(ECHO, "The translation is the same as the source; it may not have been translated.")


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _line_breaks(text: str) -> list[int]:
    text = text.strip()
    if LINE_BREAK.search(text) is None:  # most texts: every call pays for this check
        return []
    breaks = (sum(1 for _ in LINE_BREAK.finditer(gap.group())) for gap in _GAP.finditer(text))
    return [number for number in breaks if number]


def _fixed(text: str) -> list[str]:
    """Fixed spans in their order; white space within one does not tell it from another (`<br />`, `{{ name }}`)."""
    return [_GAP.sub("", text[start:stop]) for start, stop in spans(text)]


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, without_spans(text).casefold()))


def _is_name(text: str) -> bool:
    words = text.split()
    return len(words) <= _NAME_MOST_WORDS and all(word.istitle() for word in words)


def _siblings(one: str, other: str) -> bool:
    pair = {languages.primary(one), languages.primary(other)}
    return len(pair) == 1 or any(pair <= family for family in _SIBLINGS)
