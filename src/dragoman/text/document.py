"""A document as pieces: what is copied, and what is translated, by its format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal as Choice
from typing import TypeAlias

from dragoman.text import html, markdown
from dragoman.text.html import TagRules, chunks
from dragoman.text.marks import Item, Literal, Piece, build
from dragoman.text.spans import spans

Format: TypeAlias = Choice["text", "html", "xml", "markdown"]


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How a document is read: its format, terms that are not translated, and names of tags that are treated otherwise.

    `ignore_tags` are copied whole, `splitting_tags` end a block, `non_splitting_tags` are within one.
    """

    format: Format = "text"
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
            copied.append(piece.text)
            continue
        if copied and piece is not None:
            yield Literal("".join(copied))
            copied.clear()
        yield piece
    if copied:
        yield Literal("".join(copied))


def _pieces(text: str, options: DocumentOptions) -> Iterator[Piece | None]:
    def keep(part: str) -> Iterable[tuple[int, int]]:
        return spans(part)

    rules = TagRules(options.ignore_tags, options.splitting_tags, options.non_splitting_tags)
    match options.format:
        case "html":
            yield from html.pieces(text, keep, rules)
        case "xml":
            yield from html.pieces(text, keep, rules, xml=True)
        case "markdown":
            yield from markdown.pieces(text, keep, rules)
        case "text":
            for start, stop in chunks(text, 0, len(text)):
                yield from build([Item.text(text[start:stop])], keep)
                yield None
