"""Reads YAML (Rails, Symfony, Hugo and others): the scalars that are values and look like text. All else stays as written.

A scalar keeps its style; one without quotes, or in single ones, gets double quotes where its translation needs them. A file
whose one key is a language, as Rails has it, gets the target's. What is rarely used is refused with its line: complex keys,
tabs as indentation, pairs in lists of the flow style.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NoReturn, TypeAlias

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.content import Content, Part, ReadOptions, Region, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.records import Records
from wholetext.files.richtext import Path
from wholetext.files.strings import is_untranslatable, leave
from wholetext.files.values import reason_to_leave
from wholetext.markup import plain
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.notation import BlockBuilder
from wholetext.markup.plurals import plural_categories

Style: TypeAlias = Literal["double", "single", "plain", "flow", "block"]

_DEEPEST = 40
_END = r"(?=(?:[ \t]++(?:#[^\r\n]*+)?)?(?:\r?\n|\Z))"
_DOUBLE = r"\"(?:[^\"\\]++|\\[\s\S])*+\""
_SINGLE = r"'(?:[^']++|'')*+'"
_PLAIN_START = r"(?![-?:](?:\s|\Z)|[,\[\]{}#&*!|>'\"%@`\s])"
_PLAIN_REST = r"(?:[^:#\s]|:(?=\S)|(?<=\S)#|[ \t]++(?!:(?:\s|\Z)|[#\r\n]|\Z))++"
_PLAIN = f"{_PLAIN_START}{_PLAIN_REST}"
_FLOW_PLAIN = (
    rf"{_PLAIN_START}(?:[^:#\s,\[\]{{}}]|:(?![\s,\[\]{{}}]|\Z)|(?<=\S)#"
    r"|[ \t]++(?!:[\s,\[\]{}]|[#\r\n,\[\]{}]|\Z))++"
)
_PROPERTIES = r"(?:(?:&[^\s,\[\]{}]++|(?P<tag>![^\s,\[\]{}]*+))[ \t]*+)*+"
_FLOW_STYLES: Mapping[str, Style] = {"double": "double", "single": "single", "plain": "flow"}
_TAGS_OF_STRINGS = (None, "!", "!!str")
_KEY = re.compile(rf"{_PROPERTIES}(?P<key>{_DOUBLE}|{_SINGLE}|{_PLAIN})[ \t]*+:(?=\s|\Z)", re.ASCII)
_DASH = re.compile(r"-(?=\s|\Z)[ \t]*+", re.ASCII)
_SPACE = re.compile(r"[ \t]*+")
_LINE = re.compile(r"( *+)([^\r\n]*+)(?:\r?\n|\Z)")
_REST = re.compile(r"[ \t]*+(?:(?<!\S)#(?P<comment>[^\r\n]*+))?(?:\r?\n|\Z)", re.ASCII)
_MARKER = re.compile(r"(?:---|\.\.\.)(?=\s|\Z)|%[^\r\n]*+", re.ASCII)
_VALUE = re.compile(
    rf"{_PROPERTIES}(?:(?P<double>{_DOUBLE})|(?P<single>{_SINGLE})|(?P<block>[|>](?P<indicators>[1-9+-]{{0,2}}){_END})"
    rf"|(?P<alias>\*[^\s,\[\]{{}}]++)|(?P<flow>[\[{{])|(?P<plain>{_PLAIN}))?",
    re.ASCII,
)
_CONTINUED = re.compile(rf"(?:[ \t]*+\r?\n)++(?P<indent> *+)(?!#|(?:---|\.\.\.)(?:\s|\Z)){_PLAIN_REST}", re.ASCII)
_FLOW = re.compile(
    rf"(?:\s++|(?<=\s)#[^\r\n]*+)|(?P<sign>[\[\]{{}},]|:(?=[\s,\[\]{{}}\"']))"
    rf"|{_PROPERTIES}(?:(?P<double>{_DOUBLE})|(?P<single>{_SINGLE})|(?P<alias>\*[^\s,\[\]{{}}]++)|(?P<plain>{_FLOW_PLAIN}))",
    re.ASCII,
)
_NO_STRING = re.compile(r"(?i:y|n|yes|no|true|false|on|off|null|~)|[-+]?[\d.][\d_.,:eE+-]*|0[xo][0-9a-fA-F]+")
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<line>\r?\n)[ \t]*|(?P<sign>[\s\S]))"
    r"|(?<![ \t])[ \t]*+(?P<lines>(?:\r?\n[ \t]*+)++)"
)
_SIGNS = dict(zip("0abtnvfreN_LP\t", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029\t", strict=True))
_WRITTEN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_RISKY = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff"
_NO_WORD = r"(?!(?:y|n|yes|no|true|false|on|off|null|nan)\Z)[^\W\d]"
_WITHOUT_QUOTES: Mapping[Style, re.Pattern[str]] = {
    "plain": re.compile(rf"{_NO_WORD}(?:[^:#\n\t\r{_RISKY}]|(?<! )#|:(?!\s|\Z))*+(?<!\s)", re.IGNORECASE),
    "flow": re.compile(rf"{_NO_WORD}[^:#\n\t\r,?\[\]{{}}{_RISKY}]*+(?<!\s)", re.IGNORECASE),
}
_build = BlockBuilder(keep_nothing, lambda _: str)


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A scalar, from `start` to `stop` with its quotes. Of a block it begins behind the header; `indent` begins its lines."""

    path: tuple[str, ...]
    style: Style
    start: int
    stop: int
    comment: str = ""
    is_tagged: bool = False
    indent: str = ""


@dataclass(slots=True)
class _Level:
    """A collection that is open: its column, and the key or the number of the item that is read."""

    column: int
    is_list: bool
    label: str


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` with the line of what is not YAML, or is not read."""
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    part = Part("", text.encode(), encoding)
    scanner = _Scanner(text)
    scalars = list(scanner.scalars())
    offsets = _ByteOffsets(text)
    key = scanner.only_key
    if key and _is_language(text[key[0] : key[1]], scalars):
        written = options.target if not _NO_STRING.fullmatch(options.target) else f'"{options.target}"'
        part.regions.append(Region(*offsets.of(*key), (Verbatim(written),)))
    values: dict[Path, dict[str, str]] = {}
    for scalar in scalars:
        if scalar.path:
            values.setdefault(scalar.path[:-1], {})[scalar.path[-1]] = text[scalar.start : scalar.stop].strip("\"'")
    records = Records(values)
    parents = {scalar.path[:-1] for scalar in scalars if scalar.path[-1:] == ("translation",)}  # of Hugo
    for scalar in scalars:
        is_id = scalar.path[-1:] == ("id",) and scalar.path[:-1] in parents
        parent, name = scalar.path[:-1], "".join(scalar.path[-1:])
        is_name = bool(name) and records.names(parent, name, values[parent][name])
        _add(content, part, scalar, text, offsets, is_code=is_id or is_name)
    content.warnings += _missing_plurals(scalars, options.target)
    content.parts.append(part)
    return content


class _ByteOffsets:
    """Gives the places of characters in UTF-8; they are asked for in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._bytes = 0

    def of(self, start: int, stop: int) -> tuple[int, int]:
        return self._of(start), self._of(stop)

    def _of(self, at: int) -> int:
        self._bytes += len(self._text[self._at : at].encode())
        self._at = at
        return self._bytes


def _add(content: Content, part: Part, scalar: _Scalar, text: str, offsets: _ByteOffsets, *, is_code: bool) -> None:
    source = text[scalar.start : scalar.stop]
    value, place = _shown(scalar, source), ".".join(scalar.path)
    names = [one for one in scalar.path if not one.startswith("[")]
    is_no_string = (
        scalar.is_tagged or is_code or (scalar.style in ("plain", "flow") and _NO_STRING.fullmatch(value) is not None)
    )
    reason = "code" if is_no_string else reason_to_leave(value, names[-1] if names else "")
    reason = "untranslatable" if is_untranslatable(scalar.comment) else reason
    if reason:
        leave(content, place, reason, value)
        return
    line_end = "\r\n" if "\r\n" in text[:2000] else "\n"
    made: list[Piece] = _build([InlineItem.text(value)])
    if scalar.style == "block":
        made = [piece for piece in plain.pieces(value, keep_nothing) if piece is not None]
    pieces = content.add(made, place, scalar.comment)

    def compose(written: str, _part: object, _warn: object) -> str:
        return source if written == value else _WRITERS[scalar.style](written, scalar.indent).replace("\n", line_end)

    part.regions.append(Region(*offsets.of(scalar.start, scalar.stop), pieces, compose))


def _is_language(key: str, scalars: list[_Scalar]) -> bool:
    """Whether the one key of a file is a language, whose texts are below it."""
    name = key.strip("\"'")
    tag = languages.find(name.replace("_", "-")) if re.fullmatch(r"[a-z]{2,3}(?:[-_]\w{2,8}){0,2}", name) else None
    return tag is not None and bool(scalars) and all(len(scalar.path) > 1 for scalar in scalars)


def _missing_plurals(scalars: list[_Scalar], target: str) -> Iterator[str]:
    """A warning of the plural keys of Rails that the target needs and the file lacks."""
    found: dict[tuple[str, ...], set[str]] = {}
    for scalar in scalars:
        found.setdefault(scalar.path[:-1], set()).update(scalar.path[-1:])
    known = {"zero", "one", "two", "few", "many", "other"}
    missing = [
        ".".join((*path, category))
        for path, keys in found.items()
        if "other" in keys and len(keys) > 1 and keys <= known
        for category in plural_categories(target)
        if category not in keys
    ]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield f"keys that plurals of {languages.name(target)} need are missing: {', '.join(missing[:5])}{more}"


# ---- scalars


def _shown(scalar: _Scalar, source: str) -> str:
    """The characters of a scalar. Those of a block have its line breaks, also where they are folded."""
    if scalar.style == "block":
        lines = source.replace("\r\n", "\n").split("\n")
        return "\n".join(line.removeprefix(scalar.indent) if line.strip() else "" for line in lines)
    if scalar.style == "double":
        return _ESCAPE.sub(_character, source[1:-1])
    folded = re.sub(r"(?<![ \t])[ \t]*+((?:\r?\n[ \t]*+)++)", _folded, source)
    return folded[1:-1].replace("''", "'") if scalar.style == "single" else folded


def _folded(found: re.Match[str]) -> str:
    return "\n" * (found[1].count("\n") - 1) or " "


def _character(found: re.Match[str]) -> str:
    if found["lines"]:
        return "\n" * (found["lines"].count("\n") - 1) or " "
    if found["line"]:
        return ""
    code = found["x"] or found["u"] or found["U"]
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return _SIGNS.get(found["sign"], found["sign"])


def _in_double_quotes(text: str, _indent: str) -> str:
    def written(found: re.Match[str]) -> str:
        return _WRITTEN.get(found[0], f"\\u{ord(found[0]):04x}")

    return '"' + re.sub(rf"[\\\"\n\t\r{_RISKY}]", written, text) + '"'


def _in_single_quotes(text: str, indent: str) -> str:
    if re.search(rf"[\n\t\r{_RISKY}]", text):
        return _in_double_quotes(text, indent)
    return "'" + text.replace("'", "''") + "'"


def _without_quotes(style: Style, text: str, indent: str) -> str:
    return text if _WITHOUT_QUOTES[style].fullmatch(text) else _in_double_quotes(text, indent)


def _in_block(text: str, indent: str) -> str:
    text = re.sub(f"[{_RISKY}]", " ", text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    lines = [line if line.strip() else "" for line in text.lstrip(" \t").split("\n")]
    return "\n".join(f"{indent}{line}" if line else "" for line in lines)


_WRITERS: Mapping[Style, Callable[[str, str], str]] = {
    "double": _in_double_quotes,
    "single": _in_single_quotes,
    "plain": partial(_without_quotes, "plain"),
    "flow": partial(_without_quotes, "flow"),
    "block": _in_block,
}


# ---- scanning


class _Scanner:
    """Goes through a file line by line, and finds its scalars."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._levels: list[_Level] = []
        self._comments: list[str] = []
        self._awaits_value = True  # of the key or item that was the last
        self._root_keys = 0
        self.only_key: tuple[int, int] | None = None
        """Of the file's mapping, if it has one key alone."""

    def scalars(self) -> Iterator[_Scalar]:
        """Yield the scalars that are values, in order. Raises `InvalidFile`."""
        while self._at < len(self._text):
            line_start = self._at
            if rest := _REST.match(self._text, self._at):
                self._at = rest.end()
                if rest["comment"] is not None:
                    self._comments.append(rest["comment"].strip())
                elif rest[0].strip("\r") == "\n":
                    self._comments.clear()
                continue
            if marker := _MARKER.match(self._text, self._at):
                self._at = marker.end()
                self._levels.clear()
                self._awaits_value = True
                if self._root_keys and marker[0] == "---":
                    self._root_keys, self.only_key = 2, None
                if self._ends_line():
                    continue
            yield from self._line(line_start)
            self._comments.clear()

    def _line(self, line_start: int) -> Iterator[_Scalar]:
        indent = _SPACE.match(self._text, self._at)
        self._at = indent.end() if indent else self._at
        if indent and "\t" in indent[0]:
            self._refuse()
        while True:
            column = self._at - line_start
            if dash := _DASH.match(self._text, self._at):
                self._open(column, is_list=True)
                self._at = dash.end()
            elif key := _KEY.match(self._text, self._at):
                self._open(column, is_list=False, key=key["key"])
                if column == 0:
                    self._root_keys += 1
                    self.only_key = key.span("key") if self._root_keys == 1 else None
                self._at = key.end()
                break
            else:
                if not self._awaits_value:
                    self._refuse()
                while self._levels and self._levels[-1].column >= column:
                    self._levels.pop()
                break
            if self._ends_line():
                return
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        if self._ends_line():
            return
        yield from self._value()

    def _open(self, column: int, *, is_list: bool, key: str = "") -> None:
        """Begin an item or a key, of the collection at `column` or a new one."""
        levels = self._levels
        while levels and (levels[-1].column > column or (levels[-1].column == column and levels[-1].is_list > is_list)):
            levels.pop()
        self._awaits_value = True
        if levels and levels[-1].column == column and levels[-1].is_list == is_list:
            label = f"[{int(levels[-1].label[1:-1]) + 1}]" if is_list else key
            levels[-1].label = label
            return
        if len(levels) >= _DEEPEST:
            raise InvalidFile(f"the file has values more than {_DEEPEST} deep {self._where()}", param="file")
        levels.append(_Level(column, is_list, "[0]" if is_list else key))

    def _ends_line(self) -> bool:
        """Whether the line has nothing more, and go on to the next one then."""
        rest = _REST.match(self._text, self._at)
        if rest:
            self._at = rest.end()
        return rest is not None

    def _value(self) -> Iterator[_Scalar]:
        found = _VALUE.match(self._text, self._at)
        if found is None or not found[0]:
            self._refuse()
        path = tuple(level.label.strip("\"'") for level in self._levels)
        scalar = partial(
            _Scalar,
            path,
            comment="\n".join(self._comments),
            is_tagged=found["tag"] not in _TAGS_OF_STRINGS,
        )
        self._at = found.end()
        style = found.lastgroup
        self._awaits_value = style in (None, "tag")
        if style == "flow":
            self._at = found.start("flow")
            yield from self._flow(path)
        elif found["block"]:
            yield from self._block(found, scalar)
            return
        elif style == "plain":
            parent = self._levels[-1].column if self._levels else -1
            while (more := _CONTINUED.match(self._text, self._at)) and len(more["indent"]) > parent:
                self._at = more.end()
            yield scalar("plain", found.start("plain"), self._at)
        elif style in ("double", "single"):
            yield scalar(style, *found.span(style))
        if not self._ends_line():
            self._refuse()

    def _block(self, header: re.Match[str], scalar: partial[_Scalar]) -> Iterator[_Scalar]:
        """A literal or folded block: the lines that are indented deeper than its parent."""
        if not self._levels:
            self._refuse()
        self._ends_line()
        parent = self._levels[-1].column
        given = re.search("[1-9]", header["indicators"])
        indent = " " * (parent + int(given[0])) if given else ""
        start, stop = -1, self._at
        while self._at < len(self._text) and (line := _LINE.match(self._text, self._at)):
            if line[2].strip():
                if len(line[1]) <= parent or not line[1].startswith(indent):
                    break
                indent = indent or line[1]
                start = line.start() if start < 0 else start
                stop = line.end(2)
            self._at = line.end()
        if start >= 0:
            yield scalar(
                "block", start, stop, indent=indent, is_tagged=scalar.keywords["is_tagged"] or given is not None
            )

    def _flow(self, path: tuple[str, ...]) -> Iterator[_Scalar]:
        """A collection in brackets."""
        opened: list[_Level] = []
        while (found := _FLOW.match(self._text, self._at)) and not (found["sign"] in ("]", "}") and len(opened) == 1):
            self._at = found.end()
            if found["sign"]:
                self._flow_sign(found["sign"], opened)
                continue
            style = next((name for name in _FLOW_STYLES if found[name]), None)
            level = opened[-1]
            if style and not level.is_list and not level.label:
                level.label = found[style].strip("\"'") or " "
            elif style:
                labels = (*path, *(one.label for one in opened))
                is_tagged = found["tag"] not in _TAGS_OF_STRINGS
                yield _Scalar(labels, _FLOW_STYLES[style], *found.span(style), is_tagged=is_tagged)
        if found is None or opened[-1].is_list != (found["sign"] == "]"):
            self._refuse()
        self._at = found.end()

    def _flow_sign(self, sign: str, opened: list[_Level]) -> None:
        if sign in "[{":
            if len(opened) + len(self._levels) >= _DEEPEST:
                raise InvalidFile(f"the file has values more than {_DEEPEST} deep {self._where()}", param="file")
            opened.append(_Level(0, sign == "[", "[0]" if sign == "[" else ""))
            return
        level = opened[-1]
        if sign in "]}":
            if opened.pop().is_list != (sign == "]"):
                self._refuse()
        elif sign == ",":
            level.label = f"[{int(level.label[1:-1]) + 1}]" if level.is_list else ""
        elif level.is_list or not level.label:
            self._refuse()

    def _where(self) -> str:
        return f"at line {self._text.count(chr(10), 0, self._at) + 1}"

    def _refuse(self) -> NoReturn:
        raise InvalidFile(f"the file is not YAML that is read {self._where()}", param="file")
