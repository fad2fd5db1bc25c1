"""Reads json and arb: the strings that are values and look like text. Everything else stays as written.

Keys are places. Of an ARB file `@key` describes `key`, and `@@locale` becomes the target; in lists of messages with a
description (Chrome's, FormatJS's) that is context too. Of the documents of rich-text editors the text is read (`richtext.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.content import Content, ReadOptions
from wholetext.files.encodings import decode
from wholetext.files.records import Records
from wholetext.files.richtext import TYPES, Path, RichTexts, Values, rich_texts
from wholetext.files.strings import JSON_ESCAPE, Escapes, Splice, c_escape, c_escaped, leave
from wholetext.files.values import reason_to_leave
from wholetext.markup.marks import Verbatim
from wholetext.markup.plain import icu_plural_categories_missing, is_message
from wholetext.markup.plurals import plural_categories

_SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_TOKEN = re.compile(
    rf"{_SPACE.pattern}(?:(?P<string>\"(?:[^\"\\\x00-\x1f]|\\[^\x00-\x1f])*+\")|(?P<sign>[{{}}\[\],:])"
    r"|(?P<scalar>-?\d[\d.eE+-]*+|true|false|null))"
)
_VALUE = '"[{v'
_DEEPEST = 40
_SCALARS = ("code", "format")
"""Keys of editors' documents whose values may be no strings."""
_MESSAGES = ("message", "defaultMessage")


@dataclass(frozen=True, slots=True)
class _String:
    """A string that is a value; `start` and `stop` are within its quotes. Those of one list have one `parent`.

    `scalar`: it is no string. Of those of one object, the first is read, and those that tell how a string is shown.
    """

    parent: Path
    key: str
    start: int
    stop: int
    scalar: bool = False

    @property
    def path(self) -> Path:
        return *self.parent, self.key


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` with line and column if it is not JSON."""
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    strings, values, with_scalars = _with_values(text)
    documents, records = rich_texts(values), Records(values, with_scalars)
    notes = _notes(text, strings)
    ascii_only = text.isascii() and re.search(r"\\u(?!00[0-7])[0-9a-fA-F]{4}", text) is not None
    escapes = Escapes(JSON_ESCAPE, c_escape, _in_ascii if ascii_only else c_escaped)
    before: Path = ()  # the node whose text was the last
    for string in strings:
        if string.path == ("@@locale",):
            splice.put(string.start, string.stop, (Verbatim(options.target.replace("-", "_")),))
        if _describes(string.path, notes):
            continue
        source, place = text[string.start : string.stop], _place(string.path)
        value = escapes.shown(source)
        reason = _reason_to_leave(string, value, documents, records)
        if reason:
            if reason != "structure" or string.key not in TYPES:
                leave(content, place, reason, value)
            continue
        context = notes.get(string.path) or notes.get(string.path[:-1], "")
        follows, before = string.parent[:-1] == before, string.parent[:-1] if string.parent in documents.leaves else ()
        splice.put(string.start, string.stop, content.add(escapes.pieces(source), place, context, follows=follows))
        missing = icu_plural_categories_missing(value, options.target) if is_message(value) else ()
        if missing:
            content.warnings.append(f"{place}: {options.target} has the plural forms {', '.join(missing)} too")
    content.warnings += _plural_keys(strings, options.target)
    content.parts.append(splice.part(encoding))
    return content


def _with_values(text: str) -> tuple[list[_String], Values, set[Path]]:
    """The strings that are values, in order, and as they are in their objects and lists; which of these have other values."""
    strings: list[_String] = []
    values: dict[Path, dict[str, str]] = {}
    with_scalars: set[Path] = set()
    for string in _strings(text):
        if string.scalar:
            with_scalars.add(string.parent)
        if string.scalar and string.key not in _SCALARS:
            continue
        values.setdefault(string.parent, {})[string.key] = text[string.start : string.stop]
        if not string.scalar:
            strings.append(string)
    return strings, values, with_scalars


def _reason_to_leave(string: _String, value: str, documents: RichTexts, records: Records) -> str | None:
    role = documents.role(string.parent, string.key)
    if role in ("code", "structure"):
        return role
    if role is None and records.names(string.parent, string.key, value):
        return "structure" if string.key in TYPES else "code"
    keys = (one for one in reversed(string.path) if not one.startswith("["))
    return reason_to_leave(value, next(keys, ""))


def _in_ascii(text: str) -> str:
    units = c_escaped(text).encode("utf-16-be")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x80 else f"\\u{code:04x}" for code in codes)


def _place(path: Path) -> str:
    return "".join(key if key.startswith("[") or not at else f".{key}" for at, key in enumerate(path))


# ---- what is said of other strings


def _notes(text: str, strings: list[_String]) -> dict[Path, str]:
    """Descriptions, by the path of the string that they describe, or of the object that it is in."""
    notes: dict[Path, str] = {}
    messages = {string.path[:-1] for string in strings if string.path[-1:] and string.path[-1] in _MESSAGES}
    for string in strings:
        path = string.path
        if not path or path[-1] not in ("description", "context"):
            continue
        if len(path) > 1 and path[-2].startswith("@"):
            described = (*path[:-2], path[-2][1:])
        elif path[:-1] in messages:
            described = path[:-1]
        else:
            continue
        before = f"{notes[described]}\n" if described in notes else ""
        notes[described] = before + text[string.start : string.stop]
    return notes


def _describes(path: Path, notes: dict[Path, str]) -> bool:
    """Whether a string tells of another one."""
    if any(key.startswith("@") for key in path):
        return True
    return (path[-1:] != () and path[:-1] in notes and path[-1] not in _MESSAGES) or "placeholders" in path[:-1]


_PLURAL_KEY = re.compile(r"(.+)_(zero|one|two|few|many|other)")


def _plural_keys(strings: list[_String], target: str) -> Iterator[str]:
    """A warning of the plural keys of i18next that the target needs and the file lacks."""
    found: dict[str, set[str]] = {}
    for string in strings:
        key = _PLURAL_KEY.fullmatch(_place(string.path))
        if key:
            found.setdefault(key[1], set()).add(key[2])
    needed = plural_categories(target)
    missing = [f"{key}_{one}" for key, has in found.items() if "other" in has for one in needed if one not in has]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield f"keys that plurals of {languages.name(target)} need are missing: {', '.join(missing[:5])}{more}"


# ---- parsing


@dataclass(frozen=True, slots=True)
class Token:
    """A sign, a string with its quotes, or another value. `kind` is the sign, `"` or `v`."""

    kind: str
    start: int
    stop: int
    is_key: bool


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a file. Raises `InvalidFile` with line and column where it is not JSON."""
    open_at: list[str] = []  # the brackets that are open
    allowed = _VALUE
    at = 0
    while found := _TOKEN.match(text, at):
        kind = found["sign"] or ("v" if found["scalar"] else '"')
        if kind not in allowed:
            break
        if len(open_at) > _DEEPEST:
            raise InvalidFile(f"the file has values more than {_DEEPEST} deep {_where(text, at)}", param="file")
        at = found.end()
        is_key = kind == '"' and allowed in _KEYS
        yield Token(kind, found.start(found.lastgroup or 0), at, is_key)
        if kind in "{[":
            open_at.append(kind)
        elif kind in "}]":
            del open_at[-1]
        allowed = _allowed(kind, open_at, is_key)
    at = _SPACE.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]
    if at < len(text) or allowed:
        raise InvalidFile(f"the file is not JSON {_where(text, at)}", param="file")


def _strings(text: str) -> Iterator[_String]:
    """Yield the strings that are values, in order. Raises `InvalidFile`."""
    parents: list[Path] = [()]
    keys = [""]  # in each of `parents`, the one that is read
    last: Path | None = None  # whose scalar was the last
    numbers = [-1]  # in each that is a list, that of the item that is read
    for token in tokens(text):
        if token.is_key:
            keys[-1] = text[token.start + 1 : token.stop - 1]
        elif token.kind == '"':
            yield _String(parents[-1], keys[-1], token.start + 1, token.stop - 1)
        elif token.kind == "v" and (keys[-1] in _SCALARS or parents[-1] is not last):
            last = parents[-1]
            yield _String(parents[-1], keys[-1], token.start, token.stop, scalar=True)
        elif token.kind == "," and numbers[-1] >= 0:
            numbers[-1] += 1
            keys[-1] = f"[{numbers[-1]}]"
        elif token.kind in "{[":
            parents.append((*parents[-1], keys[-1]) if len(parents) > 1 else ())
            keys.append("[0]")
            numbers.append(0 if token.kind == "[" else -1)
        elif token.kind in "}]":
            del parents[-1], keys[-1], numbers[-1]


_KEYS = ('"', '"}')


def _allowed(kind: str, open_at: list[str], is_key: bool) -> str:
    """The kinds of token that may follow."""
    in_object = open_at[-1:] == ["{"]
    if is_key:
        return ":"
    if kind == ":":
        return _VALUE
    if kind == ",":  # one after the last value is allowed, as comments are
        return '"}' if in_object else _VALUE + "]"
    if kind in "{[":
        return '"}' if kind == "{" else _VALUE + "]"
    return "" if not open_at else ",}" if in_object else ",]"


def _where(text: str, at: int) -> str:
    return f"at line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"
