"""Searches the segments of a document, and replaces what is found in their translations, with the marks kept.

What a reader sees is searched: a text without its marks, in the folded form of `storage.folding` unless case matters. Functions
that are not coroutines block: they are for threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from dragoman.storage.document_files import DocumentFiles
from dragoman.storage.folding import composed, folded, matching
from dragoman.threads import SEGMENTS
from wholetext.files.segmentfile import SegmentKind, SegmentTexts
from wholetext.markup.marks import MARK

Where = Literal["both", "source", "translation"]
MOST_FOUND = 10_000
"""Numbers of segments in one answer."""
SCAN_CHARACTERS = 2_000_000
"""Looked at for one answer, or as many bytes."""
_BATCH_CHARACTERS = 200_000
"""Looked at in a thread at once, so that others have their turns."""
_SCAN_ROWS = 200_000
_LETTER = re.compile(r"(?s).[\u0300-\u036f\u3099\u309a\uff9e\uff9f]*")
"""A character with the marks behind it that are composed with it most often."""


@dataclass(frozen=True, slots=True)
class SegmentQuery:
    """What is looked for: segments of a `kind`, with `find` in their texts. Empty or None: any."""

    find: str = ""
    where: Where = "both"
    match_case: bool = False
    kind: SegmentKind | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Numbers of segments, ascending, and the number from which to go on; None: all were looked at."""

    numbers: list[int]
    next: int | None


async def search(files: DocumentFiles, id: str, total: int, query: SegmentQuery, first: int, limit: int) -> Found:
    """Return up to `limit` segments that are wanted, from number `first` on, of a document with `total` of them; fewer, with
    the number to go on from, where many were looked at."""
    if not query.find:
        stop = min(first + _SCAN_ROWS, total)
        numbers = await files.numbers(id, first, stop, query.kind, limit)
        after = numbers[-1] + 1 if len(numbers) == limit else stop
        return Found(numbers, after if after < total else None)
    found, seen = list[int](), 0
    while seen < SCAN_CHARACTERS and len(found) < limit:
        rows = await files.texts(id, first, query.kind, _BATCH_CHARACTERS)
        if not rows:
            return Found(found, None)
        found += await SEGMENTS.run(_matching, rows, query)
        seen += sum(len(row.source) + len(row.translation) for row in rows)
        first = rows[-1].n + 1
    after = found[limit] if len(found) > limit else first
    return Found(found[:limit], after if after < total else None)


def _matching(rows: Sequence[SegmentTexts], query: SegmentQuery) -> list[int]:
    form = composed if query.match_case else folded
    columns = {"both": ("source", "translation"), "source": ("source",), "translation": ("translation",)}[query.where]
    texts = [form(MARK.sub("", getattr(row, column))) for row in rows for column in columns]
    return list(dict.fromkeys(rows[place // len(columns)].n for place in matching(texts, form(query.find))))


def replaced(text: str, find: str, replacement: str, match_case: bool, most_characters: int) -> str | None:
    """Return a text with each occurrence of `find` replaced. Marks within one stay, after the replacement.

    None: there is no occurrence, it is not certain where it is, or the text would have more than `most_characters`.
    """
    form = composed if match_case else folded
    places = list(_occurrences(MARK.sub("", text), form(find), form))
    if not places or len(text) + len(places) * len(replacement) > most_characters:
        return None
    letters, at = list[int](), 0  # the places of all characters but those of marks
    for mark in MARK.finditer(text):
        letters += range(at, mark.start())
        at = mark.end()
    letters += range(at, len(text))
    written, at = list[str](), 0
    for begin, end in places:
        first, after = letters[begin], letters[end - 1] + 1
        kept = (mark[0] for mark in MARK.finditer(text, first, after))
        written += (text[at:first], replacement, *kept)
        at = after
    return "".join((*written, text[at:]))


def _occurrences(text: str, wanted: str, form: Callable[[str], str]) -> Iterator[tuple[int, int]]:
    """Begin and end of each occurrence, in the text as it is, of what its form has; none where letters of the text do not have
    that form one by one."""
    letters = _LETTER.findall(text)
    forms = [form(letter) for letter in letters]
    whole = form(text)
    if not wanted or "".join(forms) != whole:
        return
    begins = dict(zip(accumulate(map(len, forms), initial=0), accumulate(map(len, letters), initial=0), strict=True))
    at = whole.find(wanted)
    while at >= 0:
        if at in begins and at + len(wanted) in begins:
            yield begins[at], begins[at + len(wanted)]
        at = whole.find(wanted, at + len(wanted))
