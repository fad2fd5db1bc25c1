"""Reads Apple's string catalogs (xcstrings): each key that has no translation gets one, in the target's localization.

Its source is the source language's value, or the key itself. A new localization has the variations of the source's, with the
plural categories of the target, and the state `needs_review`. What is not to be translated (`shouldTranslate`) and keys that
are no longer in the code stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.apple import VARIABLE
from wholetext.files.content import Content, ReadOptions, RegionPiece
from wholetext.files.encodings import decode
from wholetext.files.jsonfile import tokens
from wholetext.files.strings import JSON_ESCAPE, Escapes, Splice, c_escape, c_escaped, is_untranslatable, leave
from wholetext.files.values import reason_to_leave
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Verbatim
from wholetext.markup.plurals import plural_categories


@dataclass(slots=True)
class _Node:
    """A value, from `start` to `stop`, with its key's place if it is in an object; `members` are those of an object."""

    start: int
    stop: int = -1
    key_start: int = -1
    members: dict[str, _Node] = field(default_factory=lambda: dict[str, "_Node"]())

    def find(self, *keys: str) -> _Node | None:
        """The value at a path, or None."""
        node: _Node | None = self
        for key in keys:
            node = node.members.get(key) if node else None
        return node


def _parsed(text: str) -> _Node:
    """The file's value. Items of lists are left out: a catalog has none."""
    root = _Node(0)
    opened: list[_Node] = []
    key, key_start = "", -1
    for token in tokens(text):
        if token.is_key:
            key, key_start = text[token.start + 1 : token.stop - 1], token.start
        elif token.kind in '"v{[':
            node = _Node(token.start, token.stop, key_start)
            if not opened:
                root = node
            elif text[opened[-1].start] == "{":
                opened[-1].members.pop(key, None)  # of two the last counts, in its place
                opened[-1].members[key] = node
            if token.kind in "{[":
                opened.append(node)
        elif token.kind in "}]":
            opened.pop().stop = token.stop
    return root


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the file writes an object: what ends a line, what indents it once, and what is between a key and its value."""

    line_end: str
    indent: str
    colon: str

    @classmethod
    def of(cls, text: str) -> _Layout:
        found = re.match(r"\s*\{(\r?\n?)([ \t]*)\"(?:[^\"\\]|\\.)*+\"(\s*:\s*)", text)
        return cls(found[1], found[2] if found[1] else "", found[3]) if found else cls("\n", "  ", " : ")

    def at(self, depth: int) -> str:
        return self.line_end + self.indent * depth if self.line_end else ""


_ESCAPES = Escapes(
    re.compile(rf"{JSON_ESCAPE.pattern}|{VARIABLE}", re.DOTALL),
    lambda found: InlineItem("single", found[0], word=True) if found[0][0] == "%" else c_escape(found),
    c_escaped,
)
_DEPTH = 4  # of a localization


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is no string catalog, or the target is its source language."""
    text, encoding, warnings = decode(data)
    root = _parsed(text)
    strings, source = root.find("strings"), root.find("sourceLanguage")
    if strings is None or source is None:
        raise InvalidFile("the file is not a string catalog: it has no strings and no sourceLanguage", param="file")
    language = text[source.start + 1 : source.stop - 1]
    if language == options.target:
        raise InvalidFile(f"the texts of the file are {language} already", param="file")
    content = Content(warnings=warnings)
    splice = Splice(text)
    reader = _Reader(content, splice, language, options.target, _Layout.of(text))
    for key, entry in strings.members.items():
        reader.add(key, entry)
    if reader.has_copies:
        content.warnings.append(
            f"plural forms of {languages.name(options.target)} that the source lacks have the translation of `other`"
        )
    content.parts.append(splice.part(encoding))
    return content


class _Reader:
    """Fills the catalog's entries, one after the other."""

    def __init__(self, content: Content, splice: Splice, source: str, target: str, layout: _Layout) -> None:
        self._content = content
        self._splice = splice
        self._source = source
        self._target = target
        self.layout = layout
        self._categories = sorted(plural_categories(target))
        self.has_copies = False

    def add(self, key: str, entry: _Node) -> None:
        """Fill an entry's translation if it has none."""
        place = _ESCAPES.shown(key)
        if any(one and self.source_of(one)[0] != "{" for one in (entry, entry.find("localizations"))):
            return
        localizations = entry.find("localizations")
        source = entry.find("localizations", self._source)
        known = [name for name in localizations.members if self._is_target(name)] if localizations else []
        target = localizations.members[known[0]] if localizations and known else None
        values = [self._text(unit.find("value")) for _, unit in _units(source)] if source else [key]
        todo = [unit for _, unit in _units(target) if not self._is_done(unit)] if target else []
        if not any(values) or (target and not todo and any(_units(target))):
            return
        comment = self._text(entry.find("comment"))
        reason = self._reason(entry, comment, values)
        if reason:
            leave(self._content, place, reason, place)
            return
        comment = _ESCAPES.shown(comment)
        if target and len(todo) < sum(1 for _ in _units(target)):
            self._fill(place, comment, key, source, target)
            return
        write = _Writer(self, place, comment)
        pieces = write.node(source, "", _DEPTH) if source else write.unit(key, _DEPTH)
        if target:
            self._splice.put(target.start, target.stop, pieces)
        elif localizations:
            self._insert(localizations, self._target, pieces, _DEPTH)
        else:
            inner = self.layout.at(_DEPTH)
            opening = Verbatim(f'{{{inner}"{self._target}"{self.layout.colon}')
            closing = Verbatim(f"{self.layout.at(_DEPTH - 1)}}}")
            self._insert(entry, "localizations", [opening, *pieces, closing], _DEPTH - 1)

    def _reason(self, entry: _Node, comment: str, values: Sequence[str]) -> str | None:
        """Why an entry is not translated."""
        if self.source_of(entry.find("shouldTranslate")) == "false" or is_untranslatable(_ESCAPES.shown(comment)):
            return "untranslatable"
        if self._text(entry.find("extractionState")) == "stale":
            return "obsolete"
        reasons = [reason_to_leave(_ESCAPES.shown(value)) for value in values]
        return reasons[0] if all(reasons) else None

    def _is_target(self, name: str) -> bool:
        tag = languages.find(name)
        return name == self._target or (tag is not None and tag == self._target)

    def source_of(self, node: _Node | None) -> str:
        return self._splice.text[node.start : node.stop] if node else ""

    def _text(self, node: _Node | None) -> str:
        """A string's characters, as the file has them."""
        source = self.source_of(node)
        return source[1:-1] if source.startswith('"') else ""

    def _is_done(self, unit: _Node) -> bool:
        return bool(self._text(unit.find("value"))) and self._text(unit.find("state")) != "new"

    def _fill(self, place: str, comment: str, key: str, source: _Node | None, target: _Node) -> None:
        """Fill the strings of a localization that are missing, while others are there."""
        for path, unit in _units(target):
            value, state = unit.find("value"), unit.find("state")
            if self._is_done(unit) or value is None or state is None:
                continue
            like = source.find(*path) or source.find(*path[:-1], "other") if source else None
            text = self._text(like.find("stringUnit", "value")) if like else "" if source else key
            pieces = (Verbatim('"'), *self.pieces(text, place, comment, path), Verbatim('"'))
            edits = [(state, (Verbatim('"needs_review"'),)), (value, pieces)] if text else []
            for node, written in sorted(edits, key=lambda edit: edit[0].start):
                self._splice.put(node.start, node.stop, written)

    def pieces(self, text: str, place: str, comment: str, path: Sequence[str]) -> Sequence[RegionPiece]:
        """The pieces of a string in the file."""
        named = ".".join(one for one in path if one != "variations")
        return self._content.add(_ESCAPES.pieces(text), f"{place}[{named}]" if named else place, comment)

    def _insert(self, into: _Node, key: str, pieces: Sequence[RegionPiece], depth: int) -> None:
        """Write a new member of an object, in the order of keys."""
        line, member = self.layout.at(depth), f'"{key}"{self.layout.colon}'
        following = next((node for name, node in into.members.items() if name > key), None)
        if following:
            self._splice.put(
                following.key_start, following.key_start, [Verbatim(member), *pieces, Verbatim(f",{line}")]
            )
        elif into.members:
            last = list(into.members.values())[-1].stop
            self._splice.put(last, last, [Verbatim(f",{line}{member}"), *pieces])
        else:
            closing = Verbatim(self.layout.at(depth - 1))
            self._splice.put(into.start + 1, into.stop - 1, [Verbatim(f"{line}{member}"), *pieces, closing])

    # ---- what a new localization is written with

    def plural(self, plural: _Node) -> Iterator[tuple[str, _Node]]:
        """The categories of the target, each with the node of the source that it is translated from."""
        members = plural.members
        other = members.get("other") or list(members.values())[-1]
        for category in [
            *self._categories,
            *(["zero"] if "zero" in members and "zero" not in self._categories else []),
        ]:
            self.has_copies |= category not in members
            yield category, members.get(category, other)


class _Writer:
    """Writes one new localization from the source's."""

    def __init__(self, reader: _Reader, place: str, comment: str) -> None:
        self._reader = reader
        self._place = place
        self._comment = comment
        self._written: dict[int, list[RegionPiece]] = {}  # by the place of what it is written from

    def node(self, node: _Node, key: str, depth: int, path: tuple[str, ...] = ()) -> list[RegionPiece]:
        """The pieces of a value that is `key` of its object."""
        if node.start in self._written:
            return self._written[node.start]
        if key == "stringUnit":
            value = node.find("value")
            pieces = self.string_unit(self._reader.source_of(value)[1:-1] if value else "", depth, path[:-1])
        elif not node.members:
            pieces: list[RegionPiece] = [Verbatim(self._reader.source_of(node))]
        else:
            is_plural = key == "plural" and path[-2:-1] == ("variations",)
            members = self._reader.plural(node) if is_plural else iter(node.members.items())
            pieces = self._object(
                [(name, self.node(one, name, depth + 1, (*path, name))) for name, one in members], depth
            )
        self._written[node.start] = pieces
        return pieces

    def unit(self, text: str, depth: int) -> list[RegionPiece]:
        """The pieces of a localization that has one string."""
        return self._object([("stringUnit", self.string_unit(text, depth + 1, ()))], depth)

    def string_unit(self, text: str, depth: int, path: Sequence[str]) -> list[RegionPiece]:
        pieces = self._reader.pieces(text, self._place, self._comment, path)
        return self._object(
            [("state", [Verbatim('"needs_review"')]), ("value", [Verbatim('"'), *pieces, Verbatim('"')])], depth
        )

    def _object(self, members: Sequence[tuple[str, Sequence[RegionPiece]]], depth: int) -> list[RegionPiece]:
        layout = self._reader.layout
        written: list[RegionPiece] = []
        for number, (name, pieces) in enumerate(members):
            opening = "," if number else "{"
            written += (Verbatim(f'{opening}{layout.at(depth + 1)}"{name}"{layout.colon}'), *pieces)
        return [*written, Verbatim(f"{layout.at(depth)}}}")]


def _units(node: _Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], _Node]]:
    """Yield the strings of a localization, each with the path of the object that it is in."""
    for key, member in node.members.items():
        if key == "stringUnit":
            yield path, member
        else:
            yield from _units(member, (*path, key))
