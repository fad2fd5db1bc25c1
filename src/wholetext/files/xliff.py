"""Reads xliff 1.2 and 2.x: each `source` without a translation gets one, in the `target` after it.

Copies of the source count as no translation. Inline elements are marks, and segments units of their own. What must not be
translated, other translations and proposals (`alt-trans`, matches) stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.content import Content, Part, ReadOptions, Region, RegionPiece, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import XML_COMMENT, XML_TAG, cdata, in_cdata
from wholetext.files.xmlpart import Element, Namespaces, attribute_spans, tree, written_prefix
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.notation import BlockBuilder, EntityNotation, Place, decoded

_NAMESPACES = {f"urn:oasis:names:tc:xliff:document:{version}": "" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")}
_NOT_DONE = frozenset({"new", "needs-translation", "initial"})


@dataclass(frozen=True, slots=True)
class _Segment:
    """A text with its translation: of version 1.2 a `trans-unit`, of 2.x a `segment`. `unit` has its id and notes."""

    unit: Element
    element: Element
    translated: bool


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not well-formed XLIFF, or is of another target language."""
    text, encoding, warnings = decode(data, "xml")
    content = Content(warnings=warnings)
    part = Part("", text.encode(), encoding)
    root = tree(part.data, "the file", Namespaces(_NAMESPACES))
    if root.name != "xliff":
        raise InvalidFile(f"the file is not XLIFF: its root is {root.name[:100]!r}", param="file")
    is_2 = root.get("version").startswith("2")
    languages_of = [root] if is_2 else [element for element in root.elements if element.name == "file"]
    for element in languages_of:
        _set_language(part, element, "srcLang" if is_2 else "source-language", options.target)
    for segment in _segments(root, is_2):
        _add(content, part, segment)
    content.parts.append(part)
    return content


def _set_language(part: Part, element: Element, source: str, target: str) -> None:
    """Set the file's target language if it has none. Raises `InvalidFile` if it has another one."""
    name = "trgLang" if source == "srcLang" else "target-language"
    value = element.get(name)
    tag = languages.find(value) if value else None
    if tag and languages.match(tag, (target,)):
        return
    if tag and value != element.get(source):
        raise InvalidFile(f"the file's translations are {value}: {target} needs a file of its own", param="file")
    span = attribute_spans(part.data, element).get(name)
    if span:
        part.regions.append(Region(span.value, span.stop, (Verbatim(target),)))
    else:
        tag_name = re.match(rb"<[^\s/>]+", part.data[element.start : element.content])
        at = element.start + (tag_name.end() if tag_name else 0)
        part.regions.append(Region(at, at, (Verbatim(f' {name}="{target}"'),)))


def _segments(root: Element, is_2: bool) -> Iterator[_Segment]:
    """Yield the segments in order. `translate` of an element holds for those inside that say nothing else."""
    waiting = [(root, True)]
    while waiting:
        element, translated = waiting.pop()
        translated = {"yes": True, "no": False}.get(element.get("translate"), translated)
        if element.name == "trans-unit":
            yield _Segment(element, element, translated and element.get("approved") != "yes")
        elif element.name == "unit" and is_2:
            for segment in element.elements:
                if segment.name == "segment":
                    yield _Segment(element, segment, translated)
        else:
            waiting += [(child, translated) for child in reversed(element.elements)]


def _add(content: Content, part: Part, segment: _Segment) -> None:
    """Add the segment if it is to be translated and is not yet."""
    element, data = segment.element, part.data
    source, target = element.child("source"), element.child("target")
    if source is None:
        return
    place = segment.unit.get("id") or segment.unit.get("resname")
    inner = data[source.content : source.close].decode()
    if not segment.translated:
        content.leave(place, "untranslatable", source.text)
        return
    state = (element if element.name == "segment" else target).get("state") if target is not None else ""
    done = data[target.content : target.close].decode() if target is not None else ""
    if done.strip() and target is not None and target.text.strip() != source.text.strip() and state not in _NOT_DONE:
        return
    if done.strip() and state in ("final", "signed-off"):
        return
    notes = [note.text.strip() for note in segment.unit.walk("alt-trans") if note.name == "note"]
    context = "\n".join(filter(None, notes))
    segmented = element.child("seg-source")
    if segmented is not None:
        pieces = list(_segmented(content, data, segmented, place, context))
    else:
        pieces = list(content.add(_pieces(inner), place, context))
    if target is None:
        before = (segmented or source).end
        name = f"{written_prefix(data, source)}target"
        opening = f"{_space_before(data, source.start)}<{name}>"
        part.regions.append(Region(before, before, (Verbatim(opening), *pieces, Verbatim(f"</{name}>"))))
    else:
        tag = data[target.start : target.content].decode()
        tag = _STATE.sub(r"\1needs-review-translation\3", tag)
        closing = ""
        if target.content == target.end:
            tag, closing = f"{tag[:-2].rstrip()}>", f"</{written_prefix(data, target)}target>"
        part.regions.append(Region(target.start, target.close, (Verbatim(tag), *pieces, Verbatim(closing))))
    if element.name == "segment" and element.get("state") == "initial":
        span = attribute_spans(data, element)["state"]
        part.regions.append(Region(span.value, span.stop, (Verbatim("translated"),)))


_STATE = re.compile(r"(\sstate\s*=\s*[\"'])(new|needs-translation)([\"'])")


def _space_before(data: bytes, at: int) -> str:
    """The line end and indentation before a tag."""
    found = re.search(rb"\r?\n?[ \t]*\Z", data[max(at - 200, 0) : at])
    return found[0].decode() if found else ""


# ---- inline elements

_ATTRIBUTES = r"(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+"
_INLINE = re.compile(
    rf"(?P<code><(?P<name>(?:[\w.-]+:)?(?:ph|bpt|ept|it|mrk(?=[^>]*\s(?:mtype=.protected|translate=.no)\b)))"
    rf"(?=[\s>]){_ATTRIBUTES}(?<!/)>(?:[^<]++|<(?!/(?P=name)\s*>))*+</(?P=name)\s*>)"
    rf"|<!\[CDATA\[(?:[^\]]++|\](?!\]>))*+\]\]>|{XML_COMMENT}|{XML_TAG}"
)
_WORD = re.compile(r"<(?:[\w.-]+:)?(?:x|ph|mrk)\b|<!\[")
_XML = Place(xml=True)


_build = BlockBuilder(keep_nothing, lambda texts: EntityNotation(_XML, texts))


def _pieces(source: str) -> list[Piece]:
    """The pieces of the content of a `source`."""
    before, inner, after = cdata(source)
    if inner:
        block = BlockBuilder(keep_nothing, lambda _: in_cdata)([InlineItem.text(inner)])
        return [Verbatim(before), *block, Verbatim(after)]
    return _build(list(_items(source)))


def _items(source: str) -> Iterator[InlineItem]:
    at = 0
    for found in _INLINE.finditer(source):
        yield from decoded(source[at : found.start()], _XML)
        at = found.end()
        if found["code"] or not found["tag"] or found[0].endswith("/>"):
            yield InlineItem("single", found[0], word=_WORD.match(found[0]) is not None)
        else:
            yield InlineItem("close" if found["slash"] else "open", found[0], name=found["tag"])
    yield from decoded(source[at:], _XML)


def _segmented(content: Content, data: bytes, segmented: Element, place: str, context: str) -> Iterator[RegionPiece]:
    """The pieces of a `seg-source`: each segment in it is translated by itself."""
    at = segmented.content
    number = 0
    for mark in segmented.walk("mrk"):
        if mark.name != "mrk" or mark.get("mtype") != "seg" or mark.content == mark.end:
            continue
        yield Verbatim(data[at : mark.content].decode())
        inner = data[mark.content : mark.close].decode()
        yield from content.add(_pieces(inner), place, context, follows=number > 0)
        at = mark.close
        number += 1
    yield Verbatim(data[at : segmented.close].decode())
