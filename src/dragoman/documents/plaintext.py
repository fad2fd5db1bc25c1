"""Reads txt and md, whose text `text/` takes apart."""

from __future__ import annotations

from dragoman.documents.content import Content, Part, ReadOptions, Region, keep_nothing
from dragoman.errors import InvalidFile
from dragoman.text import markdown, plain


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise InvalidFile(f"the file is not UTF-8 at byte {fault.start}", param="file") from None
    content = Content()
    pieces = (markdown.pieces if options.extension == "md" else plain.pieces)(text, keep_nothing)
    content.parts.append(Part("", data, regions=[Region(0, len(data), content.add(pieces, ""))]))
    return content
