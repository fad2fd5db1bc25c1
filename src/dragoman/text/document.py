"""A document as pieces: what is copied, and what is translated, by its format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dragoman.text import html, markdown, plain
from dragoman.text.blocks import Spans
from dragoman.text.html import TagRules
from dragoman.text.marks import Piece, Verbatim
from dragoman.text.spans import keep_spans
from dragoman.types import TextFormat


def pieces(
    text: str, format: TextFormat, keep_terms: tuple[str, ...] = (), rules: TagRules | None = None
) -> Iterator[Piece | None]:
    """The document's pieces; None where the caller may pause, after work on some 20,000 characters at most.

    `keep_terms` are not translated. `Verbatim.text`, and `restore` of a block's text with its marks and writer, concatenated
    are `text`, whatever it is. Neighbouring literals are one.
    """
    copied: list[str] = []
    for piece in _pieces(text, format, partial(keep_spans, terms=keep_terms), rules):
        if isinstance(piece, Verbatim):
            copied += [piece.text] * bool(piece.text)
            continue
        if copied and piece is not None:
            yield Verbatim("".join(copied))
            copied.clear()
        yield piece
    if copied:
        yield Verbatim("".join(copied))


def _pieces(text: str, format: TextFormat, keep: Spans, rules: TagRules | None) -> Iterator[Piece | None]:
    match format:
        case "text":
            return plain.pieces(text, keep)
        case "html":
            return html.pieces(text, keep, rules)
        case "xml":
            return html.pieces(text, keep, rules, xml=True)
        case "markdown":
            return markdown.pieces(text, keep, rules)
