"""Degenerate loops: a model that says the same thing over and over. Laughter and rulers that the source has are no loops."""

from __future__ import annotations

import re
from functools import lru_cache

_LONGEST_UNIT = 120
_LEAST_TIMES = 4
_LEAST_CHARACTERS = 24
"""A shorter run is emphasis (nooooo), laughter or a row of dots."""

_ALLOWANCE = 3
"""An output's run may be so many times as long as the source's: ㅋ is one character, "ha" is two or three."""

_MOST_CHARACTERS = 20_000
"""The check costs time by length times unit; loops run to the end of an output, so its end is what is looked at."""


def repeats(source: str, output: str) -> bool:
    """Whether the output has a run of one unit (up to 120 characters) repeated on and on that the source does not excuse."""
    longest = _longest_run(output[-_MOST_CHARACTERS:], _LEAST_CHARACTERS)
    if not longest:
        return False
    return longest > _ALLOWANCE * _longest_run(source[:_MOST_CHARACTERS], longest // _ALLOWANCE)


def _longest_run(text: str, least: int) -> int:
    raise NotImplementedError
