"""What people have edited in a document, as examples for what is translated in it afterwards. Functions block: they are for
threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dragoman.text.similar import most_like
from dragoman.types import MAX_EXAMPLE_CHARACTERS, MAX_EXAMPLES, Example

MOST_SIMILAR = 100
"""Segments that are translated again after an edit of a similar one."""
LEAST_SIMILARITY = 60.0
"""From which on two segments are similar, 0 to 100."""


def nearest_edits(text: str, edits: Sequence[tuple[str, str]]) -> tuple[Example, ...]:
    """Return sources with their translations as examples for a text, the most similar ones, of which the most similar is the
    last."""
    usable = [
        Example(source, translation)
        for source, translation in edits
        if translation.strip() and max(len(source), len(translation)) <= MAX_EXAMPLE_CHARACTERS
    ]
    nearest = most_like(text, (one.source for one in usable), MAX_EXAMPLES)
    return tuple(usable[place] for _, place in reversed(nearest))


def similar_segments(text: str, sources: Sequence[str], edited: Collection[str]) -> dict[int, str]:
    """Return the numbers and sources of the segments that are most similar to a text, without equal and edited ones."""
    others = [n for n, source in enumerate(sources) if source != text and source not in edited]
    found = most_like(text, (sources[n] for n in others), MOST_SIMILAR, LEAST_SIMILARITY)
    return {n: sources[n] for n in sorted(others[place] for _, place in found)}
