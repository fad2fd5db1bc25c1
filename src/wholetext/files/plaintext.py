"""Reads txt and Markdown (md, mdx, qmd), whose text `markup/` takes apart; `frontmatter` finds the texts of front matter."""

from __future__ import annotations

from wholetext.files import frontmatter
from wholetext.files.content import Content, ReadOptions, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import LINE_END, Splice, add_by_lines
from wholetext.markup import markdown, plain
from wholetext.markup.dialects import guessed


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
        splice.put(start, len(text), add_by_lines(content, pieces, line))
    content.parts.append(splice.part(encoding))
    return content
