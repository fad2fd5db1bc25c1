"""Numbers that a translation lost. Knows that one number is written in many ways, but of none that is written in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from dragoman.text.spans import without_spans

_GROUP = r"[.,'’·\u00a0\u202f ]\d{3}(?!\d)"
_NUMBER = re.compile(rf"\d+(?:{_GROUP}|[.,]\d+)*")
_GROUPED = re.compile(rf"\d{{1,3}}(?:{_GROUP})+(?:[.,]\d+)?")
_RUN = re.compile(r"\d+")
_MOST_SPELT_OUT = 12
"""Up to here a number is as often a word ("three", 三) or a month's name as it is digits."""


def numbers_lost(source: str, output: str) -> tuple[str, ...]:
    """Numbers of the source, in ASCII digits, of which the output has no trace however it may group or scale them.

    1,000 may be 1000, 1.5 million 150万, 15:30 3:30 PM, 2024-03-05 5 March 2024, ３０ 30. Small whole numbers, often words
    in another language, are not looked for, nor are the digits of URLs, tags and placeholders.
    """
    there = {
        trace for number in _numbers(output) for trace in (_significant(number), *map(_significant, _runs(number)))
    }
    missing = (number for number in _numbers(without_spans(source)) if not _found(number, there))
    return tuple(dict.fromkeys(missing))


def _found(number: str, there: set[str]) -> bool:
    if _significant(number) in there:
        return True
    runs = _runs(number)
    if len(runs) == 1:
        return _is_small(number) or _on_the_clock(number) in there
    if _GROUPED.fullmatch(number):
        return False
    # 2024.03.05 and 15.30 may come apart in another language, but some of it is there.
    held = [_significant(run) in there or _on_the_clock(run) in there for run in runs]
    return any(held) and all(is_held or _is_small(run) for run, is_held in zip(runs, held, strict=True))


def _numbers(text: str) -> Iterator[str]:
    return (found.group() for found in _NUMBER.finditer(_ascii_digits(text)))


def _runs(number: str) -> list[str]:
    return _RUN.findall(number)


def _significant(number: str) -> str:
    """What stays of a number when it is grouped or scaled otherwise: its digits less the zeros at its ends."""
    return "".join(_runs(number)).strip("0")


def _is_small(run: str) -> bool:
    return len(run) <= 2 and int(run) <= _MOST_SPELT_OUT


def _on_the_clock(run: str) -> str:
    """15 is 3 where the afternoon has its own hours."""
    hour = int(run) if len(run) == 2 else 0
    return _significant(str(hour - 12)) if 12 < hour < 24 else run


def _ascii_digits(text: str) -> str:
    """Full-width, Arabic, Devanagari and other decimal digits as ASCII; all else as it is."""
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)
