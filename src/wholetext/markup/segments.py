"""Splits a text into segments that fit a model, and joins their translations with the source's white space.

A text is split into paragraphs, then lines, then sentences, then parts of a sentence where this changes the meaning least.
The work is linear in the text's length and done in portions of `MAX_SEGMENT_CHARACTERS`, so that for any text a caller can
give control back to the event loop between two segments.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import cast

import regex
import sentencex  # pyright: ignore[reportMissingTypeStubs]

from wholetext import languages
from wholetext.markup.marks import Mark, Writer, local, restore
from wholetext.markup.spans import MAX_SPAN_CHARACTERS, has_letters, spans

MAX_SEGMENT_CHARACTERS = 8000
"""The longest segment for any token budget. It bounds the work between two segments, and that of encoding one.

Parsers cut longer texts of a document at the same bound, so that no block is longer."""

Count = Callable[[str], int]
"""The number of tokens in a text."""

LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""The line ends of `str.splitlines`."""

# Control characters, zero-width spaces and the byte order mark mean no more than white space: models drop them, too.
_GAP = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff]+")

_MAX_CHARACTERS_PER_TOKEN = 16
"""A text of more characters per token of the budget is over the budget, and is not counted."""

_OPENING = frozenset("([{<（［｛「『【《〈“‘«¿¡")
_CLOSING = frozenset(")]}>）］｝」』】》〉”’».,;:!?。、，．；：！？…،؛؟")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text. If it is not translatable (white space, digits, emoji, a bare URL), it is copied.

    `marks` are those of `text` (`text.marks`), and `writer` writes its characters in the document's notation. `before` is
    the source text before it, which a model may get as context. A `structural` segment is not part of a sentence. One that
    is `known` seems to be in a translation memory, and is as the document has it: longer than the model takes, perhaps.
    """

    text: str
    translatable: bool
    marks: tuple[Mark, ...] = ()
    writer: Writer | None = None
    before: str = ""
    structural: bool = False
    known: bool = False

    @property
    def written(self) -> str:
        """Return the text in the document's notation."""
        return self.text if self.structural else restore(self.text, self.marks, self.writer)

    def part(self, text: str, *, translatable: bool) -> Segment:
        """Return a part of this segment, with the marks in it."""
        own, marks = local(text, self.marks)
        return Segment(own, translatable, marks, self.writer)


def cut(text: str, language: str | None, budget_tokens: int, count: Count) -> Iterator[Segment]:
    """Yield segments that concatenated are `text`; translatable ones are within the token budget.

    A single fixed span (`wholetext.markup.spans`) or code point that is over the budget is one segment.
    White space at the edges of the text and of paragraphs (separated by blank lines) is never in a translatable segment.
    A paragraph that fits is not split. A longer one is split, and its parts are packed into segments up to the budget.
    `count` is never called with more than `MAX_SEGMENT_CHARACTERS`. Raises ValueError immediately for a budget under one
    token.
    """
    if budget_tokens < 1:
        raise ValueError(f"a budget of {budget_tokens} tokens; at least 1 is needed")
    return _merge_literals(_segments(text, language, budget_tokens, count))


def lines(segment: Segment) -> tuple[Segment, ...]:
    """Split the segment at every line break, to translate it again after an output that lost line breaks."""
    found = _merge_literals(part for line in segment.text.splitlines(keepends=True) for part in _trimmed(line))
    return tuple(segment.part(part.text, translatable=part.translatable) for part in found)


def sentences_with_marks_apart(segment: Segment, language: str | None) -> tuple[Segment, ...]:
    """Split the segment so that each sentence with marks is alone, for translating again what lost its marks."""
    parts: list[str] = []
    may_join = False
    for sentence in sentences(segment.text, language):
        has_marks = "<" in sentence
        if may_join and not has_marks:
            parts[-1] += sentence
        else:
            parts.append(sentence)
        may_join = not has_marks
    pieces = _merge_literals(piece for part in parts for piece in _trimmed(part))
    return tuple(segment.part(piece.text, translatable=piece.translatable) for piece in pieces)


def join(segments: Sequence[Segment], translations: Sequence[str], source: str | None, target: str) -> str:
    """Return the text with each translatable segment replaced by its translation, joined by `Joiner`.

    Raises ValueError unless each translatable segment has a translation.
    """
    expected = sum(segment.translatable for segment in segments)
    if len(translations) != expected:
        raise ValueError(f"{expected} translatable segments, {len(translations)} translations")
    joiner = Joiner(source, target)
    remaining = iter(translations)
    joined: list[str] = []
    for segment in segments:
        joiner.next_segment()
        joined.append(joiner.add(next(remaining) if segment.translatable else segment.text))
    return "".join(joined)


class Joiner:
    """Joins translated segments and the literals between them, one part at a time.

    White space between segments stays as in the source, also if the target language has none: a space between two English
    sentences stays between two Chinese ones. From a source language without spaces (Chinese, Japanese, Thai) to a target
    language with spaces, one space is added between segments that have none.
    """

    def __init__(self, source: str | None, target: str) -> None:
        self._spaced = adds_spaces(source, target)
        self._last = ""
        self._at_start = True  # of a segment
        self._structural = False

    def next_segment(self, *, structural: bool = False) -> None:
        """Begin the next segment. No space is added around a structural one."""
        self._at_start = True
        if structural or self._structural:
            self._last = ""
        self._structural = structural

    def add(self, text: str) -> str:
        """Return `text` as it must be appended: after a space if two segments need one between them."""
        if not text:
            return ""
        space = self._spaced and self._at_start and self._last and needs_space(self._last, text[0])
        self._last, self._at_start = text[-1], False
        return f" {text}" if space else text


@lru_cache(maxsize=1024)
def adds_spaces(source: str | None, target: str) -> bool:
    """Whether the target language has spaces between words and sentences, and the source language has none."""
    return source is not None and not languages.uses_spaces(source) and languages.uses_spaces(target)


def needs_space(before: str, after: str) -> bool:
    """Whether a space belongs between two characters at the edges of sentences, in a language with spaces."""
    blank = _GAP.match(before) or _GAP.match(after)
    return not blank and before not in _OPENING and after not in _CLOSING


# ---- paragraphs and portions


def _segments(text: str, language: str | None, budget_tokens: int, count: Count) -> Iterator[Segment]:
    for portion, is_gap in _portions(text, language):
        if is_gap or not has_letters(portion):
            yield Segment(portion, False)
        elif _fits(portion, budget_tokens, count):
            yield from _trimmed(portion)
        else:
            for packed in _packed(_parts(portion, language, budget_tokens, count), budget_tokens):
                yield from _trimmed(packed)


def _portions(text: str, language: str | None) -> Iterator[tuple[str, bool]]:
    """Yield paragraphs, or parts of long ones, and gaps (True), each of at most `MAX_SEGMENT_CHARACTERS`."""
    start = 0
    while start < len(text):
        if gap := _separator(text, start):
            if gap.start() > start:
                yield text[start : gap.start()], False
            yield gap.group(), True
            start = gap.end()
            continue
        end = len(text)
        if end - start > MAX_SEGMENT_CHARACTERS:
            end = _portion_end(text, start, end, language)
        yield text[start:end], False
        start = end


def _separator(text: str, start: int) -> re.Match[str] | None:
    """Return the first gap that begins in this portion and is at an edge of the text, has two line breaks or is very long."""
    limit = start + MAX_SEGMENT_CHARACTERS
    for found in _GAP.finditer(text, start, limit):
        gap = found
        if found.end() == limit:  # it may go on
            gap = cast("re.Match[str]", _GAP.match(text, found.start(), found.start() + MAX_SEGMENT_CHARACTERS))
        length = gap.end() - gap.start()
        at_edge = gap.start() == 0 or gap.end() == len(text)
        if at_edge or length == MAX_SEGMENT_CHARACTERS or (length > 1 and len(LINE_BREAK.findall(gap.group())) > 1):
            return gap
    return None


def portions(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of parts of `text[start:stop]` of at most `MAX_SEGMENT_CHARACTERS`, cut after sentences."""
    while stop - start > MAX_SEGMENT_CHARACTERS:
        end = _portion_end(text, start, stop, None)
        yield start, end
        start = end
    if start < stop:
        yield start, stop


def _portion_end(text: str, start: int, stop: int, language: str | None) -> int:
    """Return where to end a portion: after a sentence near its end, a line in its second half, or as `_Places.best`.

    The end is never within a span, unless the span is longer than a portion.
    """
    limit = start + MAX_SEGMENT_CHARACTERS
    places = _Places(text[start : min(limit + MAX_SPAN_CHARACTERS, stop)])
    line_ends = (found.end() for found in LINE_BREAK.finditer(text, limit - MAX_SEGMENT_CHARACTERS // 2, limit))
    for ends in (_sentence_ends(text, max(limit - 2 * _WINDOW_CHARACTERS, start), limit, language), line_ends):
        allowed = [end for end in ends if places.span_at(end - start) is None]
        if allowed:
            return allowed[-1]
    place = places.best(0, MAX_SEGMENT_CHARACTERS, stop - start)
    return limit if place is None else min(start + place, limit)


def _sentence_ends(text: str, start: int, stop: int, language: str | None) -> Iterator[int]:
    """Return the sentence ends between start and stop, except the last one and those after the number of a list item."""
    for sentence in sentences(text[start:stop], language)[:-1]:
        start += len(sentence)
        if not _ITEM_NUMBER.fullmatch(sentence.splitlines()[-1].strip()):
            yield start


def _fits(text: str, budget_tokens: int, count: Count) -> bool:
    if len(text) < budget_tokens and text.isascii():
        return True  # no need to count: a token has a character or more, except for a space that may be put first
    return len(text) <= budget_tokens * _MAX_CHARACTERS_PER_TOKEN and count(text) <= budget_tokens


def _parts(portion: str, language: str | None, budget_tokens: int, count: Count) -> Iterator[tuple[str, int]]:
    """Yield lines with their token counts; lines over the budget as sentences or parts of them. White space trails."""
    longest = budget_tokens * _MAX_CHARACTERS_PER_TOKEN
    all_lines = portion.splitlines(keepends=True)
    for line in all_lines:
        if len(all_lines) > 1 and len(line) <= longest and (tokens := count(line)) <= budget_tokens:
            yield line, tokens
            continue
        for sentence in sentences(line, language):
            yield from fit(sentence, budget_tokens, count)


def _packed(parts: Iterable[tuple[str, int]], budget_tokens: int) -> Iterator[str]:
    """Join neighbours while they fit the budget: fewer sequences, and more context in each."""
    together: list[str] = []
    total = 0
    for text, tokens in parts:
        if together and total + tokens > budget_tokens:
            yield "".join(together)
            together, total = [], 0
        together.append(text)
        total += tokens
    yield "".join(together)


def _trimmed(text: str) -> Iterator[Segment]:
    head = _GAP.match(text)
    start = head.end() if head else 0
    stop = len(text)
    while stop > start and _GAP.match(text[stop - 1]):
        stop -= 1
    yield Segment(text[:start], False)
    yield Segment(text[start:stop], has_letters(text[start:stop]))
    yield Segment(text[stop:], False)


def _merge_literals(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Drop empty segments, and join neighbours that are not translatable up to the longest segment."""
    literals: list[str] = []
    length = 0
    for segment in segments:
        if literals and (segment.translatable or length + len(segment.text) > MAX_SEGMENT_CHARACTERS):
            yield Segment("".join(literals), False)
            literals, length = [], 0
        if segment.translatable:
            yield segment
        elif segment.text:
            literals.append(segment.text)
            length += len(segment.text)
    if literals:
        yield Segment("".join(literals), False)


# ---- sentences

_WINDOW_CHARACTERS = 1024
_ITEM_NUMBER = re.compile(r"\(?\w{1,3}[.)]")
_ODD_SPACE = re.compile(r"[^\S ]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_segment_sentences = cast(
    "Callable[[str, str], list[str]]",
    sentencex.segment,  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
)


def sentences(text: str, language: str | None) -> list[str]:
    """Return the sentences, each with the white space after it. Without a language, English's rules apply.

    sentencex 1.0 raises for lone surrogates, panics at some white space after an initial, loses characters around line
    breaks, and takes quadratic time for text in Chinese, in Japanese or with many quotation marks. Therefore it gets a copy
    of equal length without the first three, in windows.
    """
    plain = _SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", text))
    tag = languages.primary(language) if language else "en"
    ends = [0]
    at = 0
    while at < len(plain):
        window = plain[at : at + _WINDOW_CHARACTERS]
        parts = _sentences_of_window(tag, window)
        if at + len(window) < len(plain):
            parts.pop()  # its end may lie beyond the window
        start = at
        for part in parts:
            at += len(part)
            ends.append(at)
        if at == start:
            at += len(window)  # a sentence longer than the window goes on in the next one
    if ends[-1] < len(text):
        ends.append(len(text))
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def _sentences_of_window(tag: str, window: str) -> list[str]:
    try:
        parts = _segment_sentences(tag, window)
    except BaseException as error:
        # A panic in Rust is a BaseException in Python, which a server's handlers of Exception would not catch.
        if type(error).__name__ != "PanicException":
            raise
        return [window]
    return parts if "".join(parts) == window else [window]


# ---- parts of a sentence

_SPACE = re.compile(r"(?<!\s)\s")
_CLAUSE_END = re.compile(r"[、，；：。！？…،؛][」』）】》”’]*|[,;:)\]](?=\s)|[—–](?!\s)")
_GRAPHEME = regex.compile(r"\X")

_MAX_GRAPHEME_CODE_POINTS = 256
"""A longer grapheme, such as a letter with hundreds of accents, may be cut."""

_AIM = 0.95
"""The share of the budget that a part should have: tokens are not evenly distributed over the characters."""


def fit(text: str, budget_tokens: int, count: Count) -> Iterator[tuple[str, int]]:
    """Yield parts of `text` with their token counts, cut after a clause, at a space or between graphemes.

    Each part is within the budget unless it is one fixed span or one code point. Tokens of a part are counted again only
    when it is cut further.
    """
    places = _Places(text)
    pending = [(0, len(text))]
    while pending:
        start, stop = pending.pop()
        tokens = count(text[start:stop])
        cuts: list[int] = []
        if tokens > budget_tokens:
            cuts = places.cuts(start, stop, max(1, int((stop - start) * _AIM * budget_tokens / tokens)))
        if cuts:
            pending += reversed([*pairwise((start, *cuts, stop))])
        else:
            yield text[start:stop], tokens


class _Places:
    """Places where a text may be cut, computed once for the whole text."""

    def __init__(self, text: str) -> None:
        self._text = text
        fixed = list(spans(text))
        self._starts = [start for start, _ in fixed]
        self._stops = [stop for _, stop in fixed]
        self._clauses = [found.end() for found in _CLAUSE_END.finditer(text)]
        self._spaces = [found.start() for found in _SPACE.finditer(text)]

    def cuts(self, start: int, stop: int, longest: int) -> list[int]:
        """Return places between start and stop that make roughly equal parts of at most `longest` characters if possible."""
        found: list[int] = []
        at = start
        while (parts := ceil((stop - at) / longest)) > 1:
            place = self.best(at, at + ceil((stop - at) / parts), stop)
            if place is None:
                break
            found.append(place)
            at = place
        return found

    def best(self, start: int, ideal: int, stop: int) -> int | None:
        """Return the best place after start and up to the ideal, else the next one; None if that is the stop."""
        for places, floor in ((self._clauses, (start + ideal) // 2), (self._spaces, start)):
            at = bisect_right(places, ideal) - 1
            if at >= 0 and places[at] > floor and self.span_at(places[at]) is None:
                return places[at]
        span = self.span_at(ideal)
        if span is None:
            return self._grapheme_edge(start, ideal, stop)
        place = span[0] if span[0] > start else span[1]
        return place if place < stop else None

    def span_at(self, place: int) -> tuple[int, int] | None:
        """Return the fixed span that a cut at this place would split."""
        at = bisect_left(self._starts, place) - 1
        return (self._starts[at], self._stops[at]) if at >= 0 and place < self._stops[at] else None

    def _grapheme_edge(self, start: int, ideal: int, stop: int) -> int:
        """Return the last grapheme edge up to the ideal, or the first after it; the ideal within one very long grapheme.

        `start` is an edge, and each cut starts at the previous one, so that the text is scanned once.
        """
        limit = min(stop, ideal + _MAX_GRAPHEME_CODE_POINTS)
        edge = start
        for found in _GRAPHEME.finditer(self._text, start, limit):
            if found.end() > ideal:
                break
            edge = found.end()
        if edge > start:
            return edge
        after = _GRAPHEME.match(self._text, start, limit)
        return after.end() if after and after.end() < limit else ideal
