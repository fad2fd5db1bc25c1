"""Reads Java's properties: the values that are text, with escapes and continued lines. A comment above a key is its context.

A file that is not UTF-8 is ISO-8859-1, as Java reads it. One in ASCII gets escapes (`\\u00e4`), which every Java reads.
A value with an argument (`{0}`) is one of `java.text.MessageFormat`, in which an apostrophe is doubled.
"""

from __future__ import annotations

import re
from functools import partial

from wholetext.files.content import Content, ReadOptions
from wholetext.files.encodings import Encoding, decode
from wholetext.files.strings import Escapes, Splice, leave, reason_by_comments
from wholetext.markup.blocks import InlineItem

_SPACE = r"[ \t\f]*+"
_LINE = re.compile(
    rf"{_SPACE}(?:[#!](?P<comment>[^\r\n]*+)|(?P<key>(?:[^\\=: \t\f\r\n]|\\(?:\r\n|[\s\S]))*+)"
    rf"(?P<separator>{_SPACE}(?:[=:]{_SPACE})?)(?P<value>(?:[^\\\r\n]++|\\(?:\r\n|[\s\S]))*+))\\?(?P<end>\r\n|[\r\n]|\Z)"
)
_ESCAPE = (
    r"\\(?:(?P<continued>(?:\r\n|[\r\n])[ \t\f]*+)"
    r"|u+(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\u+[dD][c-fC-F][0-9a-fA-F]{2})|u+(?P<code>[0-9a-fA-F]{4})|[\s\S])"
)
_CHOICE = r"\{\d{1,3}\s?,\s?choice\s?,(?:[^{}]|\{[^{}]*+\})*+\}"
_IN_MESSAGE = re.compile(rf"{_ESCAPE}|(?P<apostrophe>'')|'[^']{{0,200}}'|(?P<choice>{_CHOICE})")
_PLAIN = re.compile(_ESCAPE)
_ARGUMENT = re.compile(r"\{\d{1,3}\s?[,}]")
_QUOTED = re.compile(r"'[{}][^']*+'|''")
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_MOST_COMMENT_CHARACTERS = 500


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not text."""
    text, encoding, warnings = _decoded(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    in_latin_1 = encoding.name == "iso8859-1"
    last = "\xff" if in_latin_1 else "\x7f" if text.isascii() else "\U0010ffff"
    comments: list[str] = []
    at = 0
    while at < len(text) and (line := _LINE.match(text, at)):
        at = line.end()
        if line["comment"] is not None:
            comments.append(line["comment"].strip())
            continue
        if line["value"]:
            _add(content, splice, line, comments, last)
        comments.clear()
    content.parts.append(splice.part(encoding))
    return content


def _decoded(data: bytes) -> tuple[str, Encoding, list[str]]:
    try:
        data.decode()
    except UnicodeDecodeError:
        if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            text, _, _ = decode(data.decode("latin-1").encode())
            return text, Encoding("iso8859-1"), []
    return decode(data)


def _add(content: Content, splice: Splice, line: re.Match[str], comments: list[str], last: str) -> None:
    source, place = line["value"], _NAMES.shown(line["key"])
    is_message = _ARGUMENT.search(source) is not None and "'" not in _QUOTED.sub("", source)
    newline = re.search(r"\\n(\\(?:\r\n|[\r\n])[ \t\f]*)", source)
    write = partial(
        _escaped,
        last=last,
        apostrophe="''" if is_message else "'",
        newline=f"\\n{newline[1]}" if newline else "\\n",
        is_after_space=not line["separator"].strip(),
    )
    escapes = Escapes(_IN_MESSAGE if is_message else _PLAIN, _character, write)
    value = escapes.shown(source)
    comment = "\n".join(comments)
    key = re.split(r"[.\-]", place)[-1]
    reason = reason_by_comments(value, key, comments)
    if reason:
        leave(content, place, reason, value)
        return
    context = comment if len(comment) <= _MOST_COMMENT_CHARACTERS else ""
    splice.put(*line.span("value"), content.add(escapes.pieces(source), place, context))
    for choice in re.finditer(_CHOICE, source) if is_message else ():
        leave(content, place, "choice", choice[0])


def _character(found: re.Match[str]) -> str | InlineItem | None:
    groups = found.groupdict()
    if found[0][0] != "\\":
        return "'" if groups["apostrophe"] else InlineItem("single", found[0], word=True)
    if found["continued"] is not None:
        return ""
    if found["pair"]:
        high, low = (int(one, 16) for one in re.findall(r"[0-9a-fA-F]{4}(?=\\|\Z)", found["pair"]))
        return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
    if found["code"]:
        code = int(found["code"], 16)
        return None if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 else chr(code)
    escaped = found[0][1]
    return None if escaped == "u" else _CHARACTERS.get(escaped, escaped)


_NAMES = Escapes(_PLAIN, _character, str)


def _escaped(text: str, last: str, apostrophe: str, newline: str, *, is_after_space: bool) -> str:
    def written(found: re.Match[str]) -> str:
        sign = found[0]
        if sign in _WRITTEN:
            return newline if sign == "\n" else _WRITTEN[sign]
        units = sign.encode("utf-16-be").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    text = text.replace("'", apostrophe)
    text = re.sub(
        rf"[\x00-\x1f\\{chr(ord(last) + 1)}-\U0010ffff]" if last < "\U0010ffff" else r"[\x00-\x1f\\]", written, text
    )
    return f"\\{text}" if is_after_space and text[:1] in ("=", ":") else text
