"""Finds the values of a Markdown file's front matter (YAML or TOML) that are text, and writes their translations as it does.

It is read by lines: keys with their indentation, items of lists, scalars with or without quotes, over several lines, folded or
literal. What is in brackets (`[a, b]`, `{a: b}`) stays, and so do anchors, tags and what else begins with a sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from wholetext.files.content import Content, RegionPiece
from wholetext.files.strings import JSON_ESCAPE, Escapes, c_escape, c_escaped
from wholetext.files.values import reason_to_leave
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Edge, Verbatim

_PLACE = "front matter"
_LINE = re.compile(
    r"(?P<indentation>[ \t]*+)(?P<items>(?:-[ \t]++)*+)"
    r"(?:(?P<key>[\w.$@-]++(?:[ /][\w.$@-]++)*+|\"[^\"\\\n]*+\"|'[^'\n]*+')[ \t]*+(?::(?=[ \t\r\n]|\Z)|=)[ \t]*+)?"
    r"(?P<value>[^\r\n]*)(?:\r?\n|\Z)"
)
_QUOTED = re.compile(r"(\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\n]|'')*+')[ \t]*+(?:#.*)?")
_PLAIN = re.compile(r"([^\s\"'#|>&*!{\[%@`,?:-](?:(?! #|: )[^\r\n])*?)(?:[ \t]+#.*)?[ \t]*")
_BLOCK = re.compile(r"[|>][-+0-9]{0,2}[ \t]*+(?:#.*)?")
_CONTINUATION = re.compile(r"(?:[ \t]+(?!-[ \t]|#|[\w.$@-]+:(?:[ \t\r\n]|\Z))[^\s](?:(?! #|: )[^\r\n])*(?:\r?\n|\Z))+")
_DEEPER = re.compile(r"[ \t]++(?=[^\s#])")
_BLOCK_LINE = re.compile(r"([ \t]*+)([^\r\n]*)(?:\r?\n|\Z)")
_KEY_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_MAIN_KEYS = ("title", "description")  # of the file itself: always text
_TEXT_KEYS = _words(
    "title subtitle description summary abstract excerpt caption alt label tagline text details heading headline lead intro"
    " question answer message note quote button placeholder"
)
"""The last words of keys whose values are text, unless they look like something else."""
_OTHER_KEYS = _words(
    "id slug url urls path paths permalink layout author authors date image icon class theme type lang locale template version"
    " license category categories tag tags alias aliases file href src link code css js script target redirect email"
)
"""The last words of keys whose values are none, whatever they look like."""
_NO_TEXT = re.compile(r"(?i:true|false|yes|no|on|off|null|none|~)|[\d.,:/+-]+")
_PROSE = re.compile(r"\w\S*(?: \S+)* [a-z]{2,}\b(?:[^/=<>{}]*)")
_FEWEST_WORDS = 4

_DOUBLE_QUOTED = Escapes(JSON_ESCAPE, c_escape, c_escaped)
_SINGLE_QUOTED = Escapes(re.compile("''"), lambda _: "'", lambda text: text.replace("'", "''"))


def values(content: Content, text: str) -> Iterator[tuple[int, int, Sequence[RegionPiece]]]:
    """Yield start, stop and pieces of each value of the front matter `text` that is text, in order."""
    at = 0
    keys: list[tuple[int, str]] = []  # of the lines around, with their indentation
    while at < len(text) and (line := _LINE.match(text, at)):
        at = line.end()
        indentation = len(line["indentation"]) + len(line["items"])
        if line["key"]:
            while keys and keys[-1][0] >= indentation:
                keys.pop()
            keys.append((indentation, line["key"]))
        key = keys[-1][1] if keys and (line["key"] or line["items"]) else ""
        is_main = key in _MAIN_KEYS and indentation == 0
        for start, stop, kind in _scalars(text, line):
            at = max(at, stop)
            value = text[start:stop]
            if key and (is_main or _is_text(key, _shown(value, kind))):
                yield start, stop, _pieces(content, value, kind)


def _scalars(text: str, line: re.Match[str]) -> Iterator[tuple[int, int, str]]:
    """Start, stop and kind of what begins in a line: `quoted`, `plain`, or of each paragraph of a block its indentation."""
    start = line.start("value")
    if _BLOCK.fullmatch(line["value"]):
        yield from _paragraphs(text, line.end(), len(line["indentation"]) + 1)
    elif quoted := _QUOTED.fullmatch(line["value"]):
        yield start, start + len(quoted[1]), "quoted"
    elif plain := _PLAIN.fullmatch(line["value"]):
        stop = start + len(plain[1])
        has_comment = "#" in line["value"][len(plain[1]) :]
        more = _CONTINUATION.match(text, line.end()) if line["key"] and not has_comment else None
        deeper = _DEEPER.match(text, more.end() if more else line.end())
        if deeper and len(deeper[0]) > len(line["indentation"]) + len(line["items"]):
            return  # it goes on in a way that is not understood
        yield start, start + len(text[start : more.end()].rstrip()) if more else stop, "plain"


def _shown(value: str, kind: str) -> str:
    if kind != "quoted":
        return value
    return (_DOUBLE_QUOTED if value[0] == '"' else _SINGLE_QUOTED).shown(value[1:-1])


def _pieces(content: Content, value: str, kind: str) -> Sequence[RegionPiece]:
    if kind == "quoted":
        escapes = _DOUBLE_QUOTED if value[0] == '"' else _SINGLE_QUOTED
        return Verbatim(value[0]), *content.add(escapes.pieces(value[1:-1]), _PLACE), Verbatim(value[-1])
    writer = _Scalar(value, _plain if kind == "plain" else partial(_in_block, kind))
    return content.add(build([_unfolded(value)], writer=writer), _PLACE)


def _paragraphs(text: str, at: int, least: int) -> Iterator[tuple[int, int, str]]:
    """Start, stop and indentation of each paragraph of a block scalar, whose lines have at least `least` characters of it."""
    start = stop = 0
    indent = ""
    while line := _BLOCK_LINE.match(text, at) if at < len(text) else None:
        if line[2] and len(line[1]) < least:
            break
        if line[2]:
            start, indent = (start, indent) if start else (line.start(2), line[1])
            stop = line.end(2)
        elif start:
            yield start, stop, indent
            start = 0
        at = line.end()
    if start:
        yield start, stop, indent


def _is_text(key: str, value: str) -> bool:
    """Whether the value of a key is text: by the key's last word, or since it reads like a sentence."""
    value = " ".join(value.split())
    words = _KEY_WORDS.findall(key)
    last = words[-1].lower() if words else ""
    if last in _OTHER_KEYS or _NO_TEXT.fullmatch(value) or reason_to_leave(value, last) is not None:
        return False
    return last in _TEXT_KEYS or (value.count(" ") >= _FEWEST_WORDS - 1 and _PROSE.fullmatch(value) is not None)


def _unfolded(value: str) -> InlineItem:
    """A scalar over several lines, without their indentation."""
    shown: list[str] = []
    offsets: list[int] = []
    at = 0
    for found in re.finditer(r"[ \t]*\r?\n[ \t]*", value):
        shown += value[at : found.start()], "\n"
        offsets += range(at, found.start() + 1)
        at = found.end()
    if not at:
        return InlineItem.text(value)
    return InlineItem.text(value, "".join((*shown, value[at:])), [*offsets, *range(at, len(value) + 1)])


@dataclass(frozen=True, slots=True)
class _Scalar:
    """Writes a scalar without quotes as the source has it, and another text as `write` does."""

    source: str
    write: Callable[[str], str]

    def __call__(self, text: str) -> str:
        return text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        text = "".join(written)
        written[:] = [self.source if text == _unfolded(self.source).shown else self.write(text)]


def _plain(text: str) -> str:
    """A YAML scalar, with quotes where it needs them."""
    text = " ".join(text.split("\n"))
    return text if _NEEDS_NO_QUOTES.fullmatch(text) else f'"{c_escaped(text)}"'


def _in_block(indent: str, text: str) -> str:
    """A paragraph of a folded or literal scalar, with the indentation of its first line."""
    lines = [line.strip() for line in re.split(r"\r?\n|\r", text)]
    return f"\n{indent}".join(line for line in lines if line)


_NEEDS_NO_QUOTES = re.compile(
    r"(?!(?:y|n|yes|no|true|false|on|off|null)$)[^\W\d](?:[^:#\n]|(?<! )#|:(?!\s))*+(?<!:)", re.IGNORECASE
)
