"""A document's segments as files that translators' tools read: TMX 1.4 and XLIFF 1.2, with doubtful segments marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from secrets import token_hex
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from wholetext.files.xmlpart import NOT_XML
from wholetext.markup.marks import MARK

ExportFormat = Literal["tmx", "xliff"]
Tool: TypeAlias = tuple[str, str]
"""Name and version of the program that writes a file."""
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
TMX_TAIL = "</body>\n</tmx>\n"
MEDIA_TYPES: dict[ExportFormat, str] = {"tmx": "application/x-tmx+xml", "xliff": "application/xliff+xml"}


@dataclass(frozen=True, slots=True)
class BilingualSegment:
    """A segment to export. `notes` say why it is doubtful."""

    number: int
    place: str
    source: str
    target: str
    doubtful: bool = False
    edited: bool = False
    notes: tuple[str, ...] = ()


def export(
    segments: Iterable[BilingualSegment], format: ExportFormat, name: str, source: str, target: str, tool: Tool
) -> Iterator[str]:
    """Yield the file, piece by piece. `name`: of the document."""
    yield DECLARATION
    if format == "tmx":
        yield from _tmx(segments, name, source, target, tool)
    else:
        yield from _xliff(segments, name, source, target)


def _tmx(segments: Iterable[BilingualSegment], name: str, source: str, target: str, tool: Tool) -> Iterator[str]:
    yield tmx_head(source, tool, f' creationdate="{tmx_time(datetime.now(UTC))}"')
    for one in segments:
        state = "doubtful" if one.doubtful else "edited" if one.edited else "translated"
        yield f'<tu tuid="{one.number}">'
        yield "".join(f"<note>{characters(note)}</note>" for note in one.notes)
        yield f'<prop type="x-document">{characters(name)}</prop><prop type="x-place">{characters(one.place)}</prop>'
        yield f'<prop type="x-state">{state}</prop>'
        for language, text in ((source, one.source), (target, one.target)):
            yield f"<tuv xml:lang={attribute(language)}><seg>{inline(text, TMX_MARKS)}</seg></tuv>"
        yield "</tu>\n"
    yield TMX_TAIL


def _xliff(segments: Iterable[BilingualSegment], name: str, source: str, target: str) -> Iterator[str]:
    export_id = token_hex(4)
    yield (
        f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n<file original={attribute(name)} '
        f'source-language={attribute(source)} target-language={attribute(target)} datatype="x-unknown">\n<body>\n'
    )
    for one in segments:
        state = "needs-review-translation" if one.doubtful else "final" if one.edited else "translated"
        approved = ' approved="yes"' if one.edited else ""
        base = f"{export_id}-{digest(one.target)}"
        yield f'<trans-unit id="{one.number}" resname={attribute(one.place)} extradata="{base}" xml:space="preserve"{approved}>'
        yield f"<source>{inline(one.source, _XLIFF_MARKS)}</source>"
        yield f'<target state="{state}">{inline(one.target, _XLIFF_MARKS)}</target>'
        yield "".join(f"<note>{characters(note)}</note>" for note in one.notes)
        yield "</trans-unit>\n"
    yield "</body>\n</file>\n</xliff>\n"


def tmx_head(source: str, tool: Tool, more: str = "") -> str:
    """Return the beginning of a TMX file, after its declaration. `more`: attributes of its header."""
    name, version = tool
    return (
        f'<tmx version="1.4">\n<header creationtool={attribute(name)} creationtoolversion={attribute(version)} '
        f'segtype="paragraph" o-tmf={attribute(name)} adminlang="en" srclang={attribute(source)} datatype="unknown"{more}/>\n'
        "<body>\n"
    )


def tmx_time(time: datetime) -> str:
    """Return a time in UTC as TMX has it."""
    return time.strftime("%Y%m%dT%H%M%SZ")


_XLIFF_MARKS = ('<g id="{}">', "</g>", '<x id="{}"/>')
TMX_MARKS = ('<bpt i="{0}" x="{0}"/>', '<ept i="{0}"/>', '<ph x="{0}"/>')
"""How an opening, a closing and a single mark are written."""


def inline(text: str, written: tuple[str, str, str]) -> str:
    pieces: list[str] = []
    at = 0
    for mark in MARK.finditer(text):
        pieces.append(characters(text[at : mark.start()]))
        pieces.append(written[2 if mark[3] else 1 if mark[1] else 0].format(mark[2] or mark[3]))
        at = mark.end()
    return "".join((*pieces, characters(text[at:])))


def characters(text: str) -> str:
    return escape(NOT_XML.sub("", text))


def read_again(text: str) -> str:
    """Return a text as it is read from a file that it was written to: XML has no control characters, and one line break."""
    return NOT_XML.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def digest(text: str) -> str:
    """Return 12 characters by which a translation is known again in a file that has it."""
    return blake2b(read_again(text).encode(errors="surrogatepass"), digest_size=6).hexdigest()


def attribute(text: str) -> str:
    return quoteattr(NOT_XML.sub("", text))
