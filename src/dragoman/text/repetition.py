"""Degenerate loops: a model that says one thing over and over. Laughter and rulers that the source has are no loops."""

from __future__ import annotations

import re

_LEAST_TIMES = 4
_LEAST_CHARACTERS = 24
"""A shorter run is emphasis (nooooo), laughter or a row of dots."""

_ALLOWANCE = 3
"""A run of the output may be so many times as long as the source's: ㅋ is one character, "ha" is two."""

_GRAM_CHARACTERS = 8
_SOURCE_RUN = re.compile(r"(.{1,60}?)\1{2,}", re.DOTALL)
_SOURCE_CHARACTERS = 5000


def repeats(source: str, output: str) -> bool:
    """Whether the output repeats one stretch of text, long or short, at once and on and on, and the source does not."""
    longest = _longest_run(output)
    return longest > 0 and longest > _ALLOWANCE * _longest_source_run(source)


def _longest_run(text: str) -> int:
    """Characters in the longest run of one unit repeated, 0 when there is none; one pass over the text.

    Within a run each n-gram stands one unit after the same n-gram. So a run of one unit shows as a streak of n-grams that
    were all last seen at one and the same distance.
    """
    last_seen: dict[str, int] = {}
    longest = unit = streak = 0
    for at in range(len(text) - _GRAM_CHARACTERS + 1):
        gram = text[at : at + _GRAM_CHARACTERS]
        distance = at - last_seen.get(gram, at)
        last_seen[gram] = at
        streak = streak + 1 if distance == unit else 1
        unit = distance
        run = unit + streak + _GRAM_CHARACTERS - 1
        if unit and run >= max(_LEAST_TIMES * unit, _LEAST_CHARACTERS):
            longest = max(longest, run)
    return longest


def _longest_source_run(source: str) -> int:
    runs = _SOURCE_RUN.finditer(source[:_SOURCE_CHARACTERS])
    return max((found.end() - found.start() for found in runs), default=0)
