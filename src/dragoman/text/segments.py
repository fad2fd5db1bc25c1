"""Cuts a text into pieces that fit a model, and puts the translations back with every white-space character in place.

Knows nothing of tokens but how to have them counted, and nothing of what translates the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dragoman import languages
from dragoman.text.fit import fit
from dragoman.text.sentences import sentences
from dragoman.text.spans import has_letters

LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What `str.splitlines` takes for the end of a line."""

# Control characters, zero-width spaces and the byte order mark say no more than white space, so models drop them alike.
_GAP = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff]+")

_MOST_CHARACTERS_A_TOKEN = 16
"""A text of more characters a token of the budget does not fit, and need not be counted to know it."""

_OPENING = frozenset("([{<（［｛「『【《〈“‘«¿¡")
_CLOSING = frozenset(")]}>）］｝」』】》〉”’».,;:!?。、，．；：！？…،؛؟")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text. What is not translatable (white space, digits, emoji, a bare URL) stays as it is."""

    text: str
    translatable: bool


def cut(text: str, language: str | None, budget_tokens: int, count: Callable[[str], int]) -> tuple[Piece, ...]:
    """Pieces that joined are `text`, the translatable ones within the budget of tokens as `count` counts them.

    White space at the edges of the text and of paragraphs (set apart by blank lines) is never in a translatable piece.
    A paragraph that fits stays whole, line breaks and all. One that does not is cut into lines, those into sentences,
    those where it hurts least, and packed again up to the budget. A paragraph, a line and a sentence are each counted
    once at most. Raises ValueError when the budget is under one token.
    """
    if budget_tokens < 1:
        raise ValueError(f"a budget of {budget_tokens} tokens holds no text")
    pieces: list[Piece] = []
    for paragraph, is_gap in _paragraphs(text):
        if is_gap or not has_letters(paragraph):
            pieces.append(Piece(paragraph, False))
        elif _fits(paragraph, budget_tokens, count):
            pieces.append(Piece(paragraph, True))
        else:
            for packed in _packed(_atoms(paragraph, language, budget_tokens, count), budget_tokens):
                pieces += _trimmed(packed)
    return _merged(pieces)


def lines(piece: Piece) -> tuple[Piece, ...]:
    """The piece cut at every line break, for translating again what came back with its lines run together."""
    return _merged(part for line in piece.text.splitlines(keepends=True) for part in _trimmed(line))


def join(pieces: Sequence[Piece], translations: Sequence[str], source: str | None, target: str) -> str:
    """The text again, each translatable piece replaced by its translation, in order.

    White space between pieces stays as the source has it, also where the target would have none: a space between two
    English sentences stays between two Chinese ones. Where a source that writes none (Chinese, Japanese, Thai) has
    none, a target that does gets one space. Raises ValueError unless each translatable piece has a translation.
    """
    wanted = sum(piece.translatable for piece in pieces)
    if len(translations) != wanted:
        raise ValueError(f"{wanted} translatable pieces, {len(translations)} translations")
    joiner = Joiner(source, target)
    given = iter(translations)
    joined: list[str] = []
    for piece in pieces:
        joiner.next_piece()
        joined.append(joiner.add(next(given) if piece.translatable else piece.text))
    return "".join(joined)


class Joiner:
    """What `join` does, a part at a time, for texts that are said while they are still being translated."""

    def __init__(self, source: str | None, target: str) -> None:
        self._spaced = source is not None and not languages.uses_spaces(source) and languages.uses_spaces(target)
        self._last = ""
        self._at_border = True

    def next_piece(self) -> None:
        """What is added next begins a new piece."""
        self._at_border = True

    def add(self, text: str) -> str:
        """What to say for `text`: itself, and before it the space that the border between two pieces may need."""
        if not text:
            return ""
        space = self._spaced and self._at_border and self._last and _needs_space(self._last, text[0])
        self._last, self._at_border = text[-1], False
        return f" {text}" if space else text


def _needs_space(before: str, after: str) -> bool:
    blank = _GAP.match(before) or _GAP.match(after)
    return not blank and before not in _OPENING and after not in _CLOSING


def _paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """Paragraphs, and the gaps around them: white space at the text's edges, and any with two line breaks or more."""
    end = 0
    for gap in _GAP.finditer(text):
        at_edge = gap.start() == 0 or gap.end() == len(text)
        if at_edge or sum(1 for _ in LINE_BREAK.finditer(gap.group())) > 1:
            if gap.start() > end:
                yield text[end : gap.start()], False
            yield gap.group(), True
            end = gap.end()
    if end < len(text):
        yield text[end:], False


def _fits(text: str, budget_tokens: int, count: Callable[[str], int]) -> bool:
    if len(text) < budget_tokens and text.isascii():
        return True  # no need to count: a token holds a character or more, but for a space that may be put before all
    return len(text) <= budget_tokens * _MOST_CHARACTERS_A_TOKEN and count(text) <= budget_tokens


def _atoms(
    paragraph: str, language: str | None, budget_tokens: int, count: Callable[[str], int]
) -> Iterator[tuple[str, int]]:
    """Lines, or for want of room sentences or parts of them, each with its trailing white space and its tokens."""
    longest = budget_tokens * _MOST_CHARACTERS_A_TOKEN
    for line in paragraph.splitlines(keepends=True):
        if len(line) <= longest and (tokens := count(line)) <= budget_tokens:
            yield line, tokens
            continue
        for sentence in sentences(line, language):
            yield from fit(sentence, budget_tokens, count)


def _packed(atoms: Iterable[tuple[str, int]], budget_tokens: int) -> Iterator[str]:
    """Neighbours together while they fit: fewer sequences, and more context in each."""
    together: list[str] = []
    spent = 0
    for text, tokens in atoms:
        if together and spent + tokens > budget_tokens:
            yield "".join(together)
            together, spent = [], 0
        together.append(text)
        spent += tokens
    yield "".join(together)


def _trimmed(text: str) -> Iterator[Piece]:
    head = _GAP.match(text)
    start = head.end() if head else 0
    stop = len(text)
    while stop > start and _GAP.match(text[stop - 1]):
        stop -= 1
    yield Piece(text[:start], False)
    yield Piece(text[start:stop], has_letters(text[start:stop]))
    yield Piece(text[stop:], False)


def _merged(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Without empty pieces, and with neighbours that are not translatable as one."""
    merged: list[Piece] = []
    fixed: list[str] = []
    for piece in (*pieces, Piece("", True)):
        if not piece.translatable:
            fixed.append(piece.text)
            continue
        if kept := "".join(fixed):
            merged.append(Piece(kept, False))
        fixed.clear()
        if piece.text:
            merged.append(piece)
    return tuple(merged)
