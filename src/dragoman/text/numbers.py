"""Numbers that a translation lost. Knows that languages write one number in many ways, and is told of none in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from dragoman.text.spans import without_spans

_NUMBER = re.compile(r"\d+(?:[.,'’·\u00a0\u202f ]\d{3}(?!\d)|[.,]\d+)*")
_RUN = re.compile(r"\d+")
_MOST_SPELT_OUT = 12
"""Up to here a number is as often a word ("three", 三) or a month as it is digits."""


def numbers_lost(source: str, output: str) -> tuple[str, ...]:
    """Numbers of the source, in ASCII digits, of which the output has no trace however it may group or scale them.

    1,000 may be 1000, 1.5 million 150万, 15:30 3:30 PM, 2024-03-05 5 March 2024, ３ 3. Small numbers, often words in
    another language, are not looked for, nor are the digits of URLs and placeholders.
    """
    there = {trace for number in _numbers(output) for trace in _traces(number)}
    missing = (number for number in _numbers(without_spans(source)) if not _found(number, there))
    return tuple(dict.fromkeys(missing))


def _found(number: str, there: set[str]) -> bool:
    whole, *runs = _traces(number)
    return whole in there or all(run in there or _is_small(run) or _on_the_clock(run) in there for run in runs)


def _numbers(text: str) -> Iterator[str]:
    return (found.group() for found in _NUMBER.finditer(_ascii_digits(text)))


def _traces(number: str) -> tuple[str, ...]:
    """What stays of a number in any writing: its digits, without separators and the zeros at its ends; so for each run."""
    runs: list[str] = _RUN.findall(number)
    return ("".join(runs).strip("0"), *(run.strip("0") for run in runs))


def _is_small(run: str) -> bool:
    return len(run) <= 2 and int(run or "0") <= _MOST_SPELT_OUT


def _on_the_clock(run: str) -> str:
    """15 is 3 where the afternoon has its own hours."""
    hour = int(run) if len(run) <= 2 and run else 0
    return str(hour - 12).strip("0") if 12 < hour < 24 else run


def _ascii_digits(text: str) -> str:
    """Full-width, Arabic, Devanagari and other decimal digits as ASCII; all else as it is."""
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)
