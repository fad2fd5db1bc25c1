"""What readers of files of strings share: escapes, and the pieces of a file that is one part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wholetext.files.content import Content, Part, Region, RegionPiece, keep_nothing
from wholetext.files.encodings import Encoding
from wholetext.files.values import reason_to_leave
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Piece, Verbatim, source_of
from wholetext.markup.notation import BlockBuilder, EntityNotation, Place, SourceNotation, decoded

LINE_END = re.compile(r"\r\n?|\n")


@dataclass(slots=True)
class Splice:
    """Collects what a text file is written from: everything up to a region is copied."""

    text: str
    at: int = 0
    pieces: list[RegionPiece] = field(default_factory=lambda: list[RegionPiece]())

    def put(self, start: int, stop: int, pieces: Iterable[RegionPiece]) -> None:
        """Write `pieces` in the place of characters `start` to `stop`. Regions come in order."""
        self.pieces += (Verbatim(self.text[self.at : start]), *pieces)
        self.at = stop

    def part(self, encoding: Encoding) -> Part:
        data = self.text.encode()
        return Part("", data, encoding, [Region(0, len(data), (*self.pieces, Verbatim(self.text[self.at :])))])


def add_by_lines(content: Content, pieces: Iterable[Piece | None], line: int = 1) -> list[RegionPiece]:
    """Add the pieces of running text, whose places are line numbers, from `line` on."""
    found: list[RegionPiece] = []
    for piece in pieces:
        if piece is None:
            continue
        found += content.add((piece,), f"line {line}", follows=bool(content.units))
        line += len(LINE_END.findall(source_of(piece)))
    return found


# ---- escapes


class _EscapedNotation(SourceNotation):
    """Writes the source's texts as the source does, and others escaped."""

    def __init__(self, escaped: Callable[[str], str], texts: Iterable[tuple[str, str]]) -> None:
        super().__init__()
        self._escaped = escaped
        self.learn(texts)

    def write(self, text: str) -> str:
        return self._escaped(text)


@dataclass(frozen=True, slots=True)
class Escapes:
    """How a format's strings write characters. `read` returns the character of an escape, or the item that it is instead; None
    for a mark."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str | InlineItem | None]
    write: Callable[[str], str]

    def items(self, source: str) -> list[InlineItem]:
        """The items of a string, as the file has it."""
        items: list[InlineItem] = []
        shown: list[str] = []
        offsets: list[int] = []
        begin = at = 0

        def end_text(stop: int) -> None:
            if stop > begin:
                items.append(InlineItem.text(source[begin:stop], "".join(shown), (*offsets, stop - begin)))
            shown.clear()
            offsets.clear()

        for found in self.pattern.finditer(source):
            character = self.read(found)
            if found.start() > at:
                shown.append(source[at : found.start()])
                offsets.extend(range(at - begin, found.start() - begin))
            if not isinstance(character, str) or not (character or shown):
                end_text(found.start())
                items.append(character if isinstance(character, InlineItem) else InlineItem("single", found[0]))
                begin = found.end()
            else:
                shown.append(character)
                offsets += [found.start() - begin] * len(character)
            at = found.end()
        shown.append(source[at:])
        offsets.extend(range(at - begin, len(source) - begin))
        end_text(len(source))
        return items

    def shown(self, source: str) -> str:
        """The characters of a string."""
        return "".join(item.shown for item in self.items(source)) if self.pattern.search(source) else source

    def pieces(self, source: str) -> list[Piece]:
        """The pieces of a string; an ICU message's branches are blocks of their own."""
        return self.build(self.items(source))

    def build(self, items: Sequence[InlineItem]) -> list[Piece]:
        return BlockBuilder(keep_nothing, lambda texts: _EscapedNotation(self.write, texts))(items)


_C_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/", "'": "'"}
_C_WRITTEN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
JSON_ESCAPE = re.compile(
    r"\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|[0-9a-fA-F]{2})[0-9a-fA-F]{2}|\\.", re.DOTALL
)


def c_escape(found: re.Match[str]) -> str | None:
    """The character of an escape as in C and JSON; None for control characters and unknown escapes."""
    escape = found[0]
    if escape[1] != "u":
        return _C_ESCAPES.get(escape[1])
    code = int(escape[2:6], 16) if len(escape) > 5 else 0
    if len(escape) == 12:
        code = 0x10000 + ((code - 0xD800) << 10) + int(escape[8:], 16) - 0xDC00
    return None if code < 0x20 or 0xD800 <= code < 0xE000 else chr(code)


def c_escaped(text: str) -> str:
    """Escape what a string in double quotes cannot have."""
    return re.sub(r"[\x00-\x1f\"\\]", lambda found: _C_WRITTEN.get(found[0], f"\\u{ord(found[0]):04x}"), text)


# ---- XML

XML_COMMENT = r"<!--(?:[^-]++|-(?!->))*+-->|<\?(?:[^?]++|\?(?!>))*+\?>"
XML_TAG = r"<(?P<slash>/?)(?P<tag>[^\s/>]+)(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>"
"""A tag in a part that is well formed."""
_CDATA = re.compile(r"(\s*<!\[CDATA\[)((?:[^\]]++|\](?!\]>))*+)(\]\]>\s*)")


def cdata(source: str) -> tuple[str, str, str]:
    """The text of what is one CDATA section, between what is before and after it; all empty if it is none."""
    found = _CDATA.fullmatch(source)
    return (found[1], found[2], found[3]) if found else ("", "", "")


def in_cdata(text: str) -> str:
    return text.replace("]]>", "]]]]><![CDATA[>")


_XML_PLACE = Place(xml=True)
_XML_MARKUP = re.compile(rf"<!\[CDATA\[(?:[^\]]++|\](?!\]>))*+\]\]>|{XML_COMMENT}|{XML_TAG}")
_build_xml = BlockBuilder(keep_nothing, lambda texts: EntityNotation(_XML_PLACE, texts))


def xml_pieces(source: str, placeholder: re.Pattern[str] | None = None) -> list[Piece]:
    """The pieces of an element's content that is text without elements. What is markup nevertheless is a mark, as what
    `placeholder` finds is."""

    def items(text: str) -> Iterator[InlineItem]:
        at = 0
        for found in placeholder.finditer(text) if placeholder else ():
            yield from decoded(text[at : found.start()], _XML_PLACE)
            yield InlineItem("single", found[0], word=True)
            at = found.end()
        yield from decoded(text[at:], _XML_PLACE)

    before, inner, after = cdata(source)
    if inner:
        block = BlockBuilder(keep_nothing, lambda _: in_cdata)([InlineItem.text(inner)])
        return [Verbatim(before), *block, Verbatim(after)]
    made: list[InlineItem] = []
    at = 0
    for found in _XML_MARKUP.finditer(source):
        made += (*items(source[at : found.start()]), InlineItem("single", found[0]))
        at = found.end()
    return _build_xml([*made, *items(source[at:])])


# ---- what is not translated

_UNTRANSLATABLE = re.compile(
    r"\W*(?:NOI18N|NO_I18N|DNT|\{Locked\}|(?:please )?(?:do not|don['’]t|never) (?:translate|localize|localise)"
    r"(?: this)?(?: (?:string|text|key|value|message|entry|one))?)\W*",
    re.IGNORECASE,
)


def is_untranslatable(comment: str) -> bool:
    """Whether a comment on a text says that it is not to be translated, and nothing else."""
    return len(comment) < 200 and _UNTRANSLATABLE.fullmatch(comment) is not None


def reason_by_comments(value: str, key: str, comments: Iterable[str]) -> str | None:
    """Why a value with comments is not translated: one of them says so, or it does not look like text. None for text."""
    return "untranslatable" if any(map(is_untranslatable, comments)) else reason_to_leave(value, key)


def leave(content: Content, place: str, reason: str, value: str) -> None:
    """Report a string that is not translated, if it has letters."""
    if any(map(str.isalpha, value)):
        content.leave(place, reason, value)
