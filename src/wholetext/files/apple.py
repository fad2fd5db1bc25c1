"""Reads Apple's strings: the values of `"key" = "value";`. A comment before a pair is its context.

Those without quotes, and files that are a property list in XML, are no text: tools write them.
"""

from __future__ import annotations

import re
from functools import partial

from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files.content import Content, ReadOptions
from wholetext.files.encodings import decode
from wholetext.files.strings import Escapes, Splice, c_escape, leave, reason_by_comments
from wholetext.markup.blocks import InlineItem

_STRING = r"\"(?:[^\"\\]++|\\[\s\S])*+\""
_SPACE_OR_COMMENT = re.compile(r"\s++|/\*(?P<block>(?:[^*]++|\*(?!/))*+)\*/|//(?P<line>[^\r\n]*+)")
_WORD = r"[\w$/:.-]++"
_PAIR = re.compile(
    rf"(?P<key>{_STRING}|{_WORD})(?:\s*+=\s*+(?:(?P<value>{_STRING})|{_WORD}))?(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/)*+;"
)
VARIABLE = r"%(?:\d{1,2}\$)?#@[^@\s\"\\]{1,64}@|%arg\b"
"""Names of plural rules in formats, as in `%#@files@`."""
_ESCAPE = re.compile(rf"\\(?:[uU][0-9a-fA-F]{{4}}|[0-7]{{1,3}}|[\s\S])|\r\n|{VARIABLE}")


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` with the line of what is no pair, `UnsupportedFile` for a property list in XML."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:6] in (b"<?xml ", b"<plist") or data.startswith(b"bplist"):
        raise UnsupportedFile("Invalid file: convert it to text (plutil -convert strings) and send that", param="file")
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    comments: list[str] = []
    at = 0
    while at < len(text):
        space = _SPACE_OR_COMMENT.match(text, at)
        if space:
            at = space.end()
            comments += [one.strip() for one in (space["block"], space["line"]) if one]
            continue
        pair = _PAIR.match(text, at)
        if pair is None:
            line = text.count("\n", 0, at) + 1
            raise InvalidFile(f'line {line} is not a line of a strings file ("key" = "value";)', param="file")
        at = pair.end()
        if pair["value"]:
            _add(content, splice, pair, comments)
        comments.clear()
    content.parts.append(splice.part(encoding))
    return content


def _add(content: Content, splice: Splice, pair: re.Match[str], comments: list[str]) -> None:
    start, stop = pair.start("value") + 1, pair.end("value") - 1
    source = splice.text[start:stop]
    line_end = "\r\n" if "\r\n" in source else "\n" if "\n" in source else "\\n"
    escapes = Escapes(_ESCAPE, _character, partial(_escaped, line_end=line_end))
    value, place = escapes.shown(source), pair["key"].strip('"')
    reason = reason_by_comments(value, place, comments)
    if reason:
        leave(content, place, reason, value)
    else:
        splice.put(start, stop, content.add(escapes.pieces(source), place, "\n".join(comments)))


def _character(found: re.Match[str]) -> str | InlineItem | None:
    """The character of an escape, or the mark of a variable."""
    if found[0][0] == "%":
        return InlineItem("single", found[0], word=True)
    if found[0][0] == "\r":
        return "\n"
    if found[0][1] in "uU" and len(found[0]) == 6:
        code = int(found[0][2:], 16)
        return None if code < 0x20 or 0xD800 <= code < 0xE000 else chr(code)
    return c_escape(found) if found[0][1] in "nrt\"\\'" else None


def _escaped(text: str, line_end: str) -> str:
    """Escape a text, whose line breaks are written as its source has them."""
    written = {"\n": line_end, "\r": "\\r", "\t": "\\t"}
    return re.sub(r"[\"\\\n\r\t]", lambda found: written.get(found[0], f"\\{found[0]}"), text)
