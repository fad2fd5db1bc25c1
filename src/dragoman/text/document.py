"""A document as pieces: what is copied, and what is translated, by its format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from dragoman.text import html, markdown, plain
from dragoman.text.html import TagRules
from dragoman.text.marks import Literal, Piece
from dragoman.text.spans import keep_spans
from dragoman.types import TextFormat


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How a document is read: its format, terms that are not translated, and names of tags that are treated otherwise.

    `ignore_tags` are copied whole, `splitting_tags` end a block, `non_splitting_tags` are within one.
    """

    format: TextFormat = "text"
    keep_terms: tuple[str, ...] = ()
    ignore_tags: frozenset[str] = frozenset()
    splitting_tags: frozenset[str] = frozenset()
    non_splitting_tags: frozenset[str] = frozenset()


def pieces(text: str, options: DocumentOptions) -> Iterator[Piece | None]:
    """The document's pieces; None where the caller may pause, after work on some 20,000 characters at most.

    `Literal.text`, and `restore` of a block's text with its marks and writer, concatenated are `text`, whatever it is.
    Neighbouring literals are one.
    """
    copied: list[str] = []
    for piece in _pieces(text, options):
        if isinstance(piece, Literal):
            copied += [piece.text] * bool(piece.text)
            continue
        if copied and piece is not None:
            yield Literal("".join(copied))
            copied.clear()
        yield piece
    if copied:
        yield Literal("".join(copied))


def _pieces(text: str, options: DocumentOptions) -> Iterator[Piece | None]:
    keep = partial(keep_spans, terms=options.keep_terms)
    rules = TagRules(options.ignore_tags, options.splitting_tags, options.non_splitting_tags)
    match options.format:
        case "text":
            return plain.pieces(text, keep)
        case "html":
            return html.pieces(text, keep, rules)
        case "xml":
            return html.pieces(text, keep, rules, xml=True)
        case "markdown":
            return markdown.pieces(text, keep, rules)
