"""Reads txt and md, whose text `text/` takes apart. Of a Markdown file's front matter, title and description are text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wholetext.files.content import Content, ReadOptions, RegionPiece, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import JSON_ESCAPE, LINE_END, Escapes, Splice, add_by_lines, c_escape, c_escaped
from wholetext.markup import markdown, plain
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Edge, Verbatim

_VALUE = re.compile(
    r"^(?:title|description)[ \t]*[:=][ \t]*(?P<value>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\n]|'')*+'"
    r"|[^\s\"'#|>&*!{\[%@`,?:-](?:(?! #|: )[^\r\n])*)(?=[ \t]*(?:#|\r?$))",
    re.MULTILINE,
)
_DOUBLE_QUOTED = Escapes(JSON_ESCAPE, c_escape, c_escaped)
_SINGLE_QUOTED = Escapes(re.compile("''"), lambda _: "'", lambda text: text.replace("'", "''"))


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
        for value in _VALUE.finditer(text, 0, start):
            splice.put(*value.span("value"), _front_matter_value(content, value["value"]))
        line = 1 + len(LINE_END.findall(text, 0, start))
        splice.put(start, len(text), add_by_lines(content, markdown.pieces(text[start:], keep_nothing), line))
    content.parts.append(splice.part(encoding))
    return content


def _front_matter_value(content: Content, value: str) -> Sequence[RegionPiece]:
    """The pieces of a YAML or TOML scalar."""
    if value[0] not in "\"'":
        return content.add(build([InlineItem.text(value)], writer=_PlainScalar(value)), "front matter")
    escapes = _DOUBLE_QUOTED if value[0] == '"' else _SINGLE_QUOTED
    return Verbatim(value[0]), *content.add(escapes.pieces(value[1:-1]), "front matter"), Verbatim(value[-1])


@dataclass(frozen=True, slots=True)
class _PlainScalar:
    """Writes a YAML scalar that has no quotes in the source with quotes where the translation needs them."""

    source: str

    def __call__(self, text: str) -> str:
        return text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        text = "".join(written)
        if text != self.source and not _NEEDS_NO_QUOTES.fullmatch(text):
            written[:] = [f'"{c_escaped(text)}"']


_NEEDS_NO_QUOTES = re.compile(
    r"(?!(?:y|n|yes|no|true|false|on|off|null)$)[^\W\d](?:[^:#\n]|(?<! )#|:(?!\s))*+(?<!:)", re.IGNORECASE
)
