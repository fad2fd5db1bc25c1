"""What people have edited in a document, as examples for what is translated in it afterwards. Functions block: they are for
threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nlargest

from rapidfuzz import fuzz

from dragoman.types import MAX_EXAMPLE_CHARACTERS, MAX_EXAMPLES, Example
from wholetext.markup import marks

MOST_SIMILAR = 100
"""Segments that are translated again after an edit of a similar one."""
LEAST_SIMILARITY = 60.0
"""From which on (`fuzz.ratio`, 0 to 100) two segments are similar."""


def nearest_edits(text: str, edits: Sequence[tuple[str, str]]) -> tuple[Example, ...]:
    """Return sources with their translations as examples for a text, the most similar ones, of which the most similar is the
    last; none of the text itself."""
    plain = marks.plain(text)
    found = [
        (fuzz.ratio(plain, marks.plain(source)), source, translation)
        for source, translation in edits
        if source != text and translation.strip() and max(len(source), len(translation)) <= MAX_EXAMPLE_CHARACTERS
    ]
    return tuple(Example(source, translation) for _, source, translation in sorted(nlargest(MAX_EXAMPLES, found)))


def similar_segments(text: str, sources: Sequence[str], edited: Collection[str]) -> dict[int, str]:
    """Return the numbers and sources of the segments that are most similar to a text, without equal and edited ones."""
    plain = marks.plain(text)
    scored = (
        (fuzz.ratio(plain, marks.plain(source), score_cutoff=LEAST_SIMILARITY), n)
        for n, source in enumerate(sources)
        if source != text and source not in edited
    )
    found = nlargest(MOST_SIMILAR, (one for one in scored if one[0]))
    return {n: sources[n] for n in sorted(n for _, n in found)}
