"""Splits a document into pieces, literals that are copied and blocks that are translated, by its format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from wholetext.markup import TextFormat, html, markdown, plain
from wholetext.markup.blocks import InlineItem, Spans, build
from wholetext.markup.html import TagRules
from wholetext.markup.marks import MARK, Block, Piece, Verbatim, parts
from wholetext.markup.segments import portions
from wholetext.markup.spans import keep_spans, spans


def pieces(
    text: str, format: TextFormat, keep_terms: tuple[str, ...] = (), rules: TagRules | None = None
) -> Iterator[Piece | None]:
    """Yield the document's pieces, and None after at most some 20,000 characters, so that the caller can pause.

    `keep_terms` are not translated. For any `text`, the concatenation of each `Verbatim.text` and of `restore` of each
    block's text, with its marks and writer, equals `text`. Two literals never follow each other.
    """
    keep = partial(keep_spans, terms=keep_terms) if keep_terms else spans
    match format:
        case "text":
            found = plain.pieces(text, keep)
        case "html" | "xml":
            found = html.pieces(text, keep, rules, xml=format == "xml")
        case "markdown":
            found = markdown.pieces(text, keep, rules)
        case "marks":
            found = _marked(text, keep)
    copied: list[str] = []
    for piece in found:
        if isinstance(piece, Verbatim):
            copied += [piece.text] * bool(piece.text)
            continue
        if copied and piece is not None:
            yield Verbatim("".join(copied))
            copied.clear()
        yield piece
    if copied:
        yield Verbatim("".join(copied))


def _marked(text: str, keep: Spans) -> Iterator[Piece | None]:
    """Yield the pieces of one block, whose marks are opaque; halves of pairs that are not well nested become singles.

    A word to keep that was joined with a mark is shown to the model as a mark: it would read as another one of the text.
    Tags of ruby are text here: who took the block out of its document has taken the readings out, too.
    """
    for start, stop in portions(text, 0, len(text)):
        for piece in build(map(_mark_item, parts(text[start:stop])), keep, readings=True):
            if isinstance(piece, Block):
                own = (replace(mark, word=mark.word and not MARK.search(mark.opening)) for mark in piece.marks)
                yield replace(piece, marks=tuple(own))
            else:
                yield piece
        yield None


def _mark_item(part: tuple[str, bool]) -> InlineItem:
    text, is_mark = part
    if not is_mark:
        return InlineItem.text(text)
    mark = MARK.fullmatch(text)
    if mark is None or mark[3]:
        return InlineItem("single", text)
    return InlineItem("close" if mark[1] else "open", text, name=mark[2])
