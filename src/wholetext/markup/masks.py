"""Replaces the notations of `dialects` in Markdown by tokens before it is parsed, and puts them back afterwards.

A token reads as a word between punctuation wherever it stands: in a text, in a link's address, in an attribute's value. So a
parser that knows CommonMark alone finds the blocks, the emphasis and the links that the tool finds. A notation on lines of its
own becomes an HTML comment, which is a block. One under which Markdown is indented becomes an item of a list, as wide as its
indentation, so that its content is read like any other. In code a token does no harm: what is copied is put back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from wholetext.markup.blocks import InlineItem, Spans
from wholetext.markup.marks import Block, Mark, Piece, Verbatim
from wholetext.markup.scan import BASE, FIRST, QUOTE, TOKEN, NotationToken, Scan
from wholetext.markup.segments import portions

_WRITTEN = re.compile(rf"(<!--|-[ \t]{{1,3}})?{TOKEN.pattern}(-->)?")


class Masks:
    """A text whose notations are tokens. `text` is what a parser reads."""

    def __init__(self, text: str, dialect: str) -> None:
        self._tokens: list[NotationToken] = []
        self.dialect = dialect
        self.text = text if dialect == "commonmark" else "".join(Scan(text, dialect, self._add).parts())

    def _add(self, token: NotationToken) -> str:
        number = len(self._tokens)
        self._tokens.append(token)
        digits = chr(FIRST + number // BASE) + chr(FIRST + number % BASE)  # a file of 10 MB has fewer than 5 million
        written = f"{QUOTE}{digits}{'w' if token.kind == 'word' else ''}{token.mark}{QUOTE}"
        return f"<!--{written}-->" if token.kind == "line" else written

    def _token(self, digits: str) -> NotationToken | None:
        number = (ord(digits[0]) - FIRST) * BASE + ord(digits[1]) - FIRST
        return self._tokens[number] if number < len(self._tokens) else None

    # -- what is read

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def items(self, item: InlineItem) -> Iterator[InlineItem]:
        """Cut a text at its tokens, and yield what they stand for."""
        at = 0
        for found in TOKEN.finditer(item.shown):
            token = self._token(found[1])
            if token is None:
                continue
            if found.start() > at:
                yield item.part(at, found.start())
            yield self._item(token, found[0])
            at = found.end()
        if at < len(item.shown):
            yield item.part(at, len(item.shown)) if at else item

    def _item(self, token: NotationToken, written: str) -> InlineItem:
        if token.kind in ("open", "close"):
            kind = "open" if token.kind == "open" else "close"
            return InlineItem(kind, token.source, name=token.name, pieces=token.pieces)
        if token.kind in ("line", "item"):  # put back together with what is before it
            pieces = (Verbatim(written), *token.pieces[1:]) if token.pieces else ()
            return InlineItem("single", written, name=token.kind, pieces=pieces)
        return InlineItem("single", token.source, name=token.kind, word=token.kind == "word", pieces=token.pieces)

    def as_html(self, text: str) -> str:
        """What a parser of HTML reads of a part of `text`: delimiters of pairs, such as those of emphasis, are text there.
        Other notations are none in HTML either: templates, and links, whose targets are not translated."""
        return TOKEN.sub(self._delimiter, text) if QUOTE in text else text

    def _delimiter(self, found: re.Match[str]) -> str:
        token = self._token(found[1])
        is_delimiter = token and token.kind in ("open", "close") and not any(map(str.isalnum, token.source))
        return token.source if token and is_delimiter else found[0]

    def keep(self, keep: Spans) -> Spans:
        """What `keep` finds, and the tokens, for a parser that does not know them."""
        if not self._tokens:
            return keep

        def spans(text: str) -> Iterator[tuple[int, int]]:
            tokens = [found.span() for found in TOKEN.finditer(text)] if QUOTE in text else []
            end = 0
            for start, stop in sorted((*tokens, *keep(text))):
                if start >= end:
                    yield start, stop
                    end = stop

        return spans

    def portions(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and stop of the parts of a long text, none of which ends within a token."""
        begin = 0
        for _, end in portions(text, 0, len(text)):
            stop = end
            if self._tokens and (found := TOKEN.search(text, max(end - 4, begin), end + 4)) and found.start() < end:
                stop = max(found.end(), end)
            if stop > begin:
                yield begin, stop
                begin = stop

    # -- what is put back

    def restored(self, pieces: Iterator[Piece | None]) -> Iterator[Piece | None]:
        """The pieces with the source in place of each token, and literals that follow each other as one."""
        literal: list[str] = []
        for piece in pieces:
            if isinstance(piece, Verbatim):
                literal.append(piece.text)
                continue
            if piece is not None and literal:
                yield Verbatim(self._source("".join(literal)))
                literal.clear()
            yield None if piece is None else self._restored_block(piece)
        if literal:
            yield Verbatim(self._source("".join(literal)))

    def _source(self, text: str) -> str:
        return _WRITTEN.sub(self._written, text) if QUOTE in text else text

    def _written(self, found: re.Match[str]) -> str:
        token = self._token(found[2])
        before, after = found[1] or "", found[3] or ""
        if token is None:
            return found[0]
        if token.kind == "line":
            return token.source
        source = token.pieces[0].text if token.kind == "item" and token.pieces else token.source
        return source + after if token.kind == "item" else before + source + after

    def _restored_block(self, block: Block) -> Block:
        if not any(QUOTE in f"{mark.opening}{mark.closing or ''}{mark.label}" for mark in block.marks):
            return block
        return replace(block, marks=tuple(map(self._restored_mark, block.marks)))

    def _restored_mark(self, mark: Mark) -> Mark:
        closing = None if mark.closing is None else self._source(mark.closing)
        pieces = tuple(piece for piece in self.restored(iter(mark.pieces)) if piece is not None)
        label = self._source(mark.label)
        return replace(mark, opening=self._source(mark.opening), closing=closing, pieces=pieces, label=label)


LINES = frozenset({"line", "item", "head", "end"})
"""Kinds of tokens at which `cut_at_lines` cuts."""


def cut_at_lines(items: Iterable[InlineItem]) -> Iterator[list[InlineItem]]:
    """The items of a paragraph, cut where a notation stands on lines of its own and where a title begins and ends."""
    block: list[InlineItem] = []
    for item in items:
        if item.kind == "single" and item.name in ("line", "item", "head"):
            yield block
            block = []
        block.append(item)
        if item.kind == "single" and item.name in ("line", "end"):
            yield block
            block = []
    yield block
