"""The folded form of texts, in which they are searched: equal for texts that differ in case, width or encoding alone.

The form is NFKC, full case folding (`str.casefold`), and NFKC again, so that `ß` is `ss`, `ς` is `σ`, `Ａ` and `ﬁ` are `a` and
`fi`, `ｶﾞ` is `ガ`. The letters i of Turkish are one letter here: case folding keeps `ı`, and makes of `İ` an i with a dot, while
`I` becomes `i`. Accents and white space stay.

Normalisation sorts the marks that follow a letter, in a time that grows with the square of their number. After each 30 marks a
grapheme joiner is put, as in Unicode's Stream-Safe Text Format, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from unicodedata import combining, normalize

_MARKS_IN_A_ROW = 30
_LAST_MARK = 0x1E94A  # no code point above has a combining class
_BECOME_MARKS = frozenset("\u0f73\u0f75\u0f81\uff9e\uff9f")  # letters whose decomposition begins with a mark
_JOINER = "\u034f"
_BETWEEN = "\x00"  # which nobody looks for


def folded(text: str) -> str:
    """Return the folded form of a text."""
    if text.isascii():
        return text.lower()
    cased = normalize("NFKC", _stream_safe(text)).casefold()
    return normalize("NFKC", cased.replace("i\u0307", "i").replace("ı", "i"))


def composed(text: str) -> str:
    """Return the text's NFC: in this form texts are searched by case."""
    return text if text.isascii() else normalize("NFC", _stream_safe(text))


def matching(texts: Sequence[str], wanted: str) -> Iterator[int]:
    """Yield the places of the texts that have `wanted`, all in one form.

    All texts are searched as one: a search takes a time that is linear in a long text, and not in a short one.
    """
    if not wanted or _BETWEEN in wanted:
        return
    joined = _BETWEEN.join(texts)
    ends = list(accumulate(len(text) + 1 for text in texts))
    at = joined.find(wanted)
    while at >= 0:
        place = bisect_right(ends, at)
        yield place
        at = joined.find(wanted, ends[place])


def _stream_safe(text: str) -> str:
    """Return the text with a joiner after each `_MARKS_IN_A_ROW` marks, where that many follow each other."""
    marks = _marks()
    sampled = text[_MARKS_IN_A_ROW - 1 :: _MARKS_IN_A_ROW]  # of a longer run at least one is in it
    if marks.isdisjoint(sampled) or not any(
        _run_at(text, place, marks) > _MARKS_IN_A_ROW
        for place in range(_MARKS_IN_A_ROW - 1, len(text), _MARKS_IN_A_ROW)
        if text[place] in marks
    ):
        return text
    return _too_many_marks().sub(rf"\g<0>{_JOINER}", text)


def _run_at(text: str, place: int, marks: frozenset[str]) -> int:
    """The number of marks around a place, counted to a little over `_MARKS_IN_A_ROW`."""
    begin = end = place
    while begin > 0 and end - begin <= _MARKS_IN_A_ROW and text[begin - 1] in marks:
        begin -= 1
    while end < len(text) and end - begin <= _MARKS_IN_A_ROW and text[end] in marks:
        end += 1
    return end - begin


@cache
def _marks() -> frozenset[str]:
    """Characters that normalisation sorts, and those that it makes into such."""
    return frozenset(chr(point) for point in range(0x300, _LAST_MARK + 1) if combining(chr(point))) | _BECOME_MARKS


@cache
def _too_many_marks() -> re.Pattern[str]:
    """Matches marks after which there are more."""
    one = f"[{re.escape(''.join(_marks()))}]"
    return re.compile(f"{one}{{{_MARKS_IN_A_ROW}}}(?={one})")
