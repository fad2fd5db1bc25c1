"""Reads txt and Markdown (md, mdx, qmd), whose text `markup/` takes apart; `frontmatter` finds the texts of front matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from wholetext.files import frontmatter
from wholetext.files.content import Content, ReadOptions, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import LINE_END, Splice, add_by_lines
from wholetext.markup import markdown, plain
from wholetext.markup.dialects import guessed
from wholetext.markup.marks import Piece, Verbatim

_TITLE = re.compile(
    r"\]\((?:<[^<>\n]{0,2000}>|(?:[^\s()<>]|\([^\s()]{0,200}\))++)\s++"
    r"(?:\"(?P<double>[^\"]{1,1000})\"|'(?P<single>[^']{1,1000})'|\((?P<brackets>[^()]{1,1000})\))\s*+\)"
)


def _with_titles_left(content: Content, pieces: Iterable[Piece | None]) -> Iterator[Piece | None]:
    """Yield the pieces, and report the titles of links and images, which are copied with their addresses."""
    for piece in pieces:
        copied = (
            [piece.text]
            if isinstance(piece, Verbatim)
            else [mark.closing or "" for mark in piece.marks]
            if piece
            else []
        )
        for found in (one for text in copied for one in _TITLE.finditer(text)):
            content.leave("link", "link_title", found[found.lastgroup or 0])
        yield piece


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not text."""
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    if options.extension == "txt":
        splice.put(0, len(text), add_by_lines(content, plain.pieces(text, keep_nothing)))
    else:
        front = markdown.FRONT_MATTER.match(text)
        start = front.end() if front else 0
        for begin, stop, pieces in frontmatter.values(content, text[:start]):
            splice.put(begin, stop, pieces)
        line = 1 + len(LINE_END.findall(text, 0, start))
        body = text[start:]
        pieces = markdown.pieces(body, keep_nothing, dialect=options.dialect or guessed(body, options.extension))
        splice.put(start, len(text), add_by_lines(content, _with_titles_left(content, pieces), line))
    content.parts.append(splice.part(encoding))
    return content
