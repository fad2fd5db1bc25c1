"""Cuts one sentence that is over the budget where it hurts least: at a clause's end, a space, a grapheme's edge.

Never inside a fixed span (`dragoman.text.spans`). Knows nothing of paragraphs and of what becomes of the parts.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import ceil

import regex

from dragoman.text.spans import spans

_SPACE = re.compile(r"(?<!\s)\s")
_CLAUSE_END = re.compile(r"[、，；：。！？…،؛][」』）】》”’]*|[,;:)\]](?=\s)|[—–](?!\s)")
_GRAPHEME = regex.compile(r"\X")

_LONGEST_GRAPHEME = 256
"""Code points. What is longer, such as a letter under a tower of accents, is cut like anything else."""

_AIM = 0.95
"""The part of the budget that a cut aims at: tokens are not spread evenly over the characters."""


def fit(text: str, budget_tokens: int, count: Callable[[str], int]) -> Iterator[tuple[str, int]]:
    """Parts, with their token counts, that joined are `text`; each within the budget unless it is one fixed span or one
    code point. Counts disjoint parts only: the text once as a whole, and then again what is cut further."""
    places = _Places(text)
    waiting = [(0, len(text))]
    while waiting:
        start, stop = waiting.pop()
        tokens = count(text[start:stop])
        cuts: list[int] = []
        if tokens > budget_tokens:
            cuts = places.cuts(start, stop, max(1, int((stop - start) * _AIM * budget_tokens / tokens)))
        if cuts:
            waiting += reversed([*pairwise((start, *cuts, stop))])
        else:
            yield text[start:stop], tokens


class _Places:
    """Where a text may be cut, found once for the whole text."""

    def __init__(self, text: str) -> None:
        self._text = text
        fixed = list(spans(text))
        self._starts = [start for start, _ in fixed]
        self._stops = [stop for _, stop in fixed]
        self._clauses = [found.end() for found in _CLAUSE_END.finditer(text)]
        self._spaces = [found.start() for found in _SPACE.finditer(text)]

    def cuts(self, start: int, stop: int, most: int) -> list[int]:
        """Places between start and stop that make about even parts of at most so many characters where that can be."""
        found: list[int] = []
        at = start
        while (parts := ceil((stop - at) / most)) > 1:
            place = self._best(at, at + ceil((stop - at) / parts), stop)
            if place is None:
                break
            found.append(place)
            at = place
        return found

    def _best(self, start: int, ideal: int, stop: int) -> int | None:
        """The best place after start and up to the ideal, or else the next after it; None where that is the stop."""
        for places, floor in ((self._clauses, (start + ideal) // 2), (self._spaces, start)):
            at = bisect_right(places, ideal) - 1
            if at >= 0 and places[at] > floor and self._span_at(places[at]) is None:
                return places[at]
        span = self._span_at(ideal)
        if span is None:
            return self._grapheme_edge(start, ideal, stop)
        place = span[0] if span[0] > start else span[1]
        return place if place < stop else None

    def _span_at(self, place: int) -> tuple[int, int] | None:
        """The fixed span that a cut here would break."""
        at = bisect_left(self._starts, place) - 1
        return (self._starts[at], self._stops[at]) if at >= 0 and place < self._stops[at] else None

    def _grapheme_edge(self, start: int, ideal: int, stop: int) -> int:
        """The last edge up to the ideal, or the first after it; the ideal itself where one grapheme is all there is.

        `start` is an edge, and each cut starts at the one before it, so the text is scanned once.
        """
        limit = min(stop, ideal + _LONGEST_GRAPHEME)
        edge = start
        for found in _GRAPHEME.finditer(self._text, start, limit):
            if found.end() > ideal:
                break
            edge = found.end()
        if edge > start:
            return edge
        after = _GRAPHEME.match(self._text, start, limit)
        return after.end() if after and after.end() < limit else ideal
