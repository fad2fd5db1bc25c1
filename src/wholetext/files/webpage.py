"""Reads html and xhtml. `text.html` finds the text; here the document gets the target's `lang` and `dir`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import cast

from wholetext import languages
from wholetext.files.content import Content, ReadOptions, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import Splice, add_by_lines
from wholetext.files.values import reason_to_leave
from wholetext.markup import html
from wholetext.markup.marks import Block, Piece, Verbatim, plain, restore
from wholetext.markup.spans import has_letters

_ROOT = re.compile(
    r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)|<html(?=[\s/>])(?P<attributes>(?:[^\"'>]++|\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))*+)"
    r"(?:>|\Z)|<body",
    re.IGNORECASE,
)
_DRAWN = re.compile(
    r"<(?P<slash>/?)(?:\w{1,20}:)?(?P<name>svg|text|tspan|textPath|title|desc|mtext)(?=[\s>/])[^<>]*+>?+(?P<text>[^<]*+)",
    re.IGNORECASE,
)
_EMBEDDED = re.compile(
    r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)"
    r"|<(?P<name>script|iframe)(?=[\s/>])(?P<attributes>(?:[^\"'>]++|\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))*+)(?:>|\Z)",
    re.IGNORECASE,
)
_SCRIPT_END = re.compile(r"</script(?=[\s/>])", re.IGNORECASE)
_LINKED_DATA = "application/ld+json"
_ATTRIBUTE = re.compile(r"([^\s=>\"'/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not text."""
    text, encoding, warnings = decode(data, "html")
    content = Content(warnings=warnings)
    xhtml = options.extension == "xhtml" or text.lstrip().startswith("<?xml")
    pieces = html.pieces(text, keep_nothing, xhtml=xhtml)
    leave_embedded(content, text, "page")
    splice = Splice(text)
    splice.put(0, len(text), add_by_lines(content, in_language(text, pieces, options.target)))
    content.parts.append(splice.part(encoding))
    return content


def in_language(text: str, pieces: Iterable[Piece | None], target: str, *, added: str = "lang") -> Iterator[Piece]:
    """Yield the pieces of an HTML document with the root's `lang`, `xml:lang` and `dir` as the target's language needs them.

    A root without a language gets the attribute `added`; XHTML 1.1 has `xml:lang` alone.
    """
    edits = list(_edits(text, target, added))
    at = 0
    for piece in pieces:
        if isinstance(piece, Verbatim):
            start, at = at, at + len(piece.text)
            while edits and edits[0][1] <= at:
                begin, end, value = edits.pop(0)
                yield Verbatim(text[start:begin] + value)
                start = end
            yield Verbatim(text[start:at])
        elif piece is not None:
            at += len(restore(piece.text, piece.marks, piece.writer))
            yield piece


def leave_embedded(content: Content, text: str, place: str) -> None:
    """Report the texts of what is copied: drawings, formulas, data for search engines, and pages in attributes."""
    _leave_drawn(content, text, place)
    at = 0
    while found := _EMBEDDED.search(text, at):
        at = found.end()
        name = (found["name"] or "").lower()
        if name == "script":
            end = _SCRIPT_END.search(text, at)
            content_end = end.start() if end else len(text)
            if _value(found["attributes"], "type").strip().lower().partition(";")[0] == _LINKED_DATA:
                for one in _linked_texts(text[at:content_end]):
                    content.leave(place, "json_ld", one)
            at = content_end
        elif name == "iframe":
            for piece in html.pieces(unescape(_value(found["attributes"], "srcdoc")), keep_nothing):
                if isinstance(piece, Block) and has_letters(shown := plain(piece.text)):
                    content.leave(place, "srcdoc", shown)


def _value(attributes: str, name: str) -> str:
    """The value of an attribute as it is written; empty: there is none."""
    for one in _ATTRIBUTE.finditer(attributes):
        if one[1].lower() == name:
            return one[2] or one[3] or one[4] or ""
    return ""


def _linked_texts(source: str) -> Iterator[str]:
    """Yield the strings of JSON-LD that are texts; the whole source where it is no JSON."""
    try:
        waiting: list[tuple[str, object]] = [("", json.loads(source))]
    except (ValueError, RecursionError):
        if has_letters(source):
            yield source
        return
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed(cast(dict[str, object], value).items())
        elif isinstance(value, list):
            waiting += ((key, one) for one in reversed(cast(list[object], value)))
        elif isinstance(value, str) and not key.startswith("@") and reason_to_leave(value, key) is None:
            yield value


def _leave_drawn(content: Content, text: str, place: str) -> None:
    depth = 0
    for found in _DRAWN.finditer(text):
        name = found["name"].lower()
        if name == "svg":
            depth += -1 if found["slash"] else 0 if found[0].rstrip("> \t\r\n")[-1:] == "/" else 1
        elif (depth > 0 or name in ("text", "mtext")) and has_letters(found["text"]):
            content.leave(place, "formula" if name == "mtext" else "svg", found["text"])


def _edits(text: str, target: str, attribute: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and replacement of what changes in the root's tag, in order."""
    root = next((found for found in _ROOT.finditer(text) if not found[0].startswith("<!--")), None)
    if root is None or root["attributes"] is None or root[0][-1] != ">":
        return
    is_rtl = languages.is_right_to_left(target)
    values = {
        found[1].lower(): found for found in _ATTRIBUTE.finditer(text, *root.span("attributes")) if found.lastindex != 1
    }
    start = root.start("attributes")
    added = "" if "lang" in values or "xml:lang" in values else f' {attribute}="{target}"'
    added += ' dir="rtl"' if is_rtl and "dir" not in values else ""
    if added:
        yield start, start, added
    for name in sorted(values.keys() & {"lang", "xml:lang", "dir"}, key=lambda name: values[name].start()):
        group = values[name].lastindex or 0
        value = values[name][group]
        if name == "dir":
            wanted = "rtl" if is_rtl else "ltr" if value.lower() == "rtl" else value
        else:
            wanted = value if _is_same(value, target) else target
        if wanted != value:
            yield *values[name].span(group), wanted


def _is_same(tag: str, target: str) -> bool:
    """Whether a document's tag names the target language, more exactly perhaps (`en-US` for `en`)."""
    found = languages.find(tag)
    return found is not None and languages.match(found, (target,)) is not None
