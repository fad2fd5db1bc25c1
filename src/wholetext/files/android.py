"""Reads Android's resources of strings (xml): `string`, the items of `plurals` and of `string-array`.

What is not to be translated (`translatable="false"`, references to other resources) stays. Inline tags are marks, the content
of `xliff:g` is kept. Apostrophes, quotes and backslashes are written as Android's build tools need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape

from wholetext import languages
from wholetext.errors import UnsupportedFile
from wholetext.files.content import Content, Part, ReadOptions, Region
from wholetext.files.encodings import decode
from wholetext.files.strings import (
    XML_COMMENT,
    XML_TAG,
    Escapes,
    c_escape,
    cdata,
    in_cdata,
    leave,
)
from wholetext.files.values import reason_to_leave
from wholetext.files.xmlpart import Element, Namespaces, tree
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.plurals import plural_categories


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not well-formed, `UnsupportedFile` for XML of another kind."""
    text, encoding, warnings = decode(data, "xml")
    content = Content(warnings=warnings)
    part = Part("", text.encode(), encoding)
    root = tree(part.data, "the file", Namespaces({}))
    if root.name != "resources":
        raise UnsupportedFile(
            f"Invalid file: of XML files only Android's resources are read, and this one has the root {root.name[:100]!r}",
            param="file",
        )
    for element, place, context in _strings(root, part.data):
        _add(content, part, element, place, context)
    needed = plural_categories(options.target)
    for plurals in (element for element in root.elements if element.name == "plurals"):
        missing = set(needed) - {item.get("quantity") for item in plurals.elements}
        if missing and plurals.elements:
            forms = ", ".join(one for one in needed if one in missing)
            content.warnings.append(
                f"{plurals.get('name')}: {languages.name(options.target)} has the plural forms {forms} too"
            )
    content.parts.append(part)
    return content


def _strings(root: Element, data: bytes) -> Iterator[tuple[Element, str, str]]:
    """Yield the elements that hold a text, their places, and the comments before them."""
    comment = ""
    for element in root.elements:
        source = data[element.start : element.end].decode() if element.name == "#" else ""
        if source:
            comment = source[4:-3].strip() if source.startswith("<!--") else comment
            continue
        name = element.get("name")
        if element.get("translatable") == "false":
            pass
        elif element.name == "string":
            yield element, name, comment
        elif element.name in ("plurals", "string-array"):
            items = [item for item in element.elements if item.name == "item"]
            for number, item in enumerate(items):
                yield item, f"{name}[{item.get('quantity') or number}]", comment
        comment = ""


def _add(content: Content, part: Part, element: Element, place: str, context: str) -> None:
    source = part.data[element.content : element.close].decode()
    before, inner, after = cdata(source)
    escapes = _IN_CDATA if inner else _IN_XML
    source = inner or source
    reason = "reference" if _REFERENCE.fullmatch(source) else reason_to_leave(escapes.shown(source))
    if reason:
        leave(content, place, reason, source)
        return
    pieces: list[Piece] = [Verbatim(before), *escapes.pieces(source), Verbatim(after)]
    part.regions.append(Region(element.content, element.close, content.add(pieces, place, context)))


_REFERENCE = re.compile(r"\s*[@?](?:\+?[\w.]+:)?(?:[a-z]+/)?[\w.]+\s*")
_ESCAPE = r"\\u[0-9a-fA-F]{4}|\\."
_CDATA = r"<!\[CDATA\[(?:[^\]]++|\](?!\]>))*+\]\]>"
_KEPT = r"<(?P<kept>[\w.-]+:g)(?:\s[^>]*)?(?<!/)>(?:[^<]++|<(?!/(?P=kept)\s*>))*+</(?P=kept)\s*>"
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_WRITTEN = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": ""}


def _read(found: re.Match[str]) -> str | InlineItem | None:
    source = found[0]
    if source[0] == "\\":
        return source[1] if source[1] in "@?#" else c_escape(found)
    if source[0] == "&":
        return _ENTITIES.get(source)
    if source.isspace():
        return " "
    groups = found.groupdict()
    if groups.get("kept") or source.startswith("<![CDATA["):
        return InlineItem("single", source, word=True)
    if not groups.get("tag") or source.endswith("/>"):
        return None  # a quote or a comment
    return InlineItem("close" if groups["slash"] else "open", source, name=groups["tag"])


def _escaped(text: str) -> str:
    text = re.sub(r"[\\'\"\n\t\r]", lambda found: _WRITTEN[found[0]], text)
    return f"\\{text}" if text[:1] in ("@", "?") else text


def _escaped_in_xml(text: str) -> str:
    return escape(_escaped(text))


_SPACES = r"[ \t\r\n]{2,}+|[\t\r\n]"
_IN_XML = Escapes(
    re.compile(rf"{_KEPT}|{_CDATA}|{XML_COMMENT}|{XML_TAG}|&[^;]{{1,40}};|{_ESCAPE}|\"|{_SPACES}", re.DOTALL),
    _read,
    _escaped_in_xml,
)
_HTML_TAG = r"<(?P<slash>/?)(?P<tag>[A-Za-z][\w.:-]{0,40})(?:\s[^<>]{0,1000})?/?>"
_IN_CDATA = Escapes(re.compile(rf"{_ESCAPE}|{_HTML_TAG}|\"", re.DOTALL), _read, lambda text: in_cdata(_escaped(text)))
