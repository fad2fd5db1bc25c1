"""Splits a document into pieces, literals that are copied and blocks that are translated, by its format."""

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
    """Yield the document's pieces, and None after at most some 20,000 characters, so that the caller can pause.

    `keep_terms` are not translated. For any `text`, the concatenation of each `Verbatim.text` and of `restore` of each
    block's text, with its marks and writer, equals `text`. Two literals never follow each other.
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
