"""Reads xliff 1.2 and 2.x: each `source` without a translation gets one, in the `target` after it.

Copies of the source count as no translation, unless their state says that they are one. Inline elements are marks, and segments
units of their own: those of version 1.2 (`mrk`) are filled one by one. What must not be translated, other translations and
proposals (`alt-trans`, matches) stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.content import Content, Part, ReadOptions, Region, RegionPiece, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.strings import XML_COMMENT, XML_TAG, cdata, in_cdata
from wholetext.files.xmlpart import Element, Namespaces, attribute_spans, tree, written_name, written_prefix
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.notation import BlockBuilder, EntityNotation, Place, decoded

_NAMESPACES = {f"urn:oasis:names:tc:xliff:document:{version}": "" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")}
NOT_DONE = frozenset({"new", "needs-translation", "initial"})
"""States in which a copy of the source is no translation."""
_DONE = frozenset({"translated", "reviewed", "signed-off", "final"})
"""States by which a translation that equals its source is one."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A text with its translation: of version 1.2 a `trans-unit`, of 2.x a `segment`. `unit` has its id and notes."""

    unit: Element
    element: Element
    translated: bool

    @property
    def state(self) -> str:
        """What the file says of its translation."""
        holder = self.element if self.element.name == "segment" else self.element.child("target")
        return holder.get("state") if holder is not None else ""


_Add: TypeAlias = Callable[..., tuple[RegionPiece, ...]]
"""`Content.add` for one unit."""


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
            yield _Segment(element, element, translated)
        elif element.name == "unit" and is_2:
            for segment in element.elements:
                if segment.name == "segment":
                    yield _Segment(element, segment, translated)
        else:
            waiting += [(child, translated) for child in reversed(element.elements)]


def _add(content: Content, part: Part, segment: _Segment) -> None:
    """Add the segment if it is to be translated and is not yet."""
    element = segment.element
    source, target, segmented = (element.child(name) for name in ("source", "target", "seg-source"))
    if source is None:
        return
    place = segment.unit.get("id") or segment.unit.get("resname")
    if not segment.translated:
        content.leave(place, "untranslatable", source.text)
        return
    notes = [note.text.strip() for note in segment.unit.walk("alt-trans") if note.name == "note"]
    add = partial(content.add, place=place, context="\n".join(filter(None, notes)))
    is_filled = False
    if target is not None and segmented is not None and any(_marks(target)):
        is_filled = _fill_marks(part, segment, segmented, target, add)
    elif not _is_done(part.data, segment, source, target):
        is_filled = True
        pieces = _segmented(part.data, segmented, add) if segmented else add(_pieces(_inner(part.data, source)))
        _write_target(part, segmented or source, target, tuple(pieces))
    if is_filled:
        _set_state(part, element, target)


def _is_done(data: bytes, segment: _Segment, source: Element, target: Element | None) -> bool:
    """Whether an element has its translation: a target, or a `mrk` in one."""
    if target is None or not _inner(data, target).strip():
        return False
    state = segment.state
    if segment.unit.get("approved") == "yes" or state in ("final", "signed-off"):
        return True
    return state in _DONE if target.text.strip() == source.text.strip() else state not in NOT_DONE


def _inner(data: bytes, element: Element) -> str:
    return data[element.content : element.close].decode()


def _write_target(part: Part, before: Element, target: Element | None, pieces: tuple[RegionPiece, ...]) -> None:
    """Write the content of a target, of a new one behind the element `before` if there is none."""
    if target is not None:
        _write_content(part, target, pieces)
        return
    name = f"{written_prefix(part.data, before)}target"
    opening = f"{_space_before(part.data, before.start)}<{name}>"
    part.regions.append(Region(before.end, before.end, (Verbatim(opening), *pieces, Verbatim(f"</{name}>"))))


def _write_content(part: Part, element: Element, pieces: tuple[RegionPiece, ...]) -> None:
    if element.content == element.end:
        closing = f"</{written_name(part.data, element)}>"
        slash = part.data.rindex(b"/", element.start, element.end)
        end = len(part.data[:slash].rstrip())
        part.regions.append(Region(end, element.end, (Verbatim(">"), *pieces, Verbatim(closing))))
    else:
        part.regions.append(Region(element.content, element.close, pieces))


def _set_state(part: Part, element: Element, target: Element | None) -> None:
    """Write the state of a translation that nobody has looked at."""
    values = [(element, "state", {"initial": "translated"})] if element.name == "segment" else []
    if element.name == "trans-unit":
        values.append((element, "approved", {"yes": "no"}))
        if target is not None:
            values.append((target, "state", dict.fromkeys(("new", "needs-translation"), "needs-review-translation")))
    for one, name, changes in values:
        if one.get(name) in changes:
            span = attribute_spans(part.data, one)[name]
            part.regions.append(Region(span.value, span.stop, (Verbatim(changes[one.get(name)]),)))


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


# ---- segments of version 1.2


def _marks(element: Element) -> Iterator[Element]:
    """The segments of a `seg-source` or its target, in order."""
    return (mark for mark in element.walk("mrk") if mark.name == "mrk" and mark.get("mtype") == "seg")


def _segmented(data: bytes, segmented: Element, add: _Add) -> Iterator[RegionPiece]:
    """The pieces of a `seg-source`: each segment in it is translated by itself."""
    at = segmented.content
    for number, mark in enumerate(mark for mark in _marks(segmented) if mark.content < mark.end):
        yield Verbatim(data[at : mark.content].decode())
        yield from add(_pieces(_inner(data, mark)), follows=number > 0)
        at = mark.close
    yield Verbatim(data[at : segmented.close].decode())


def _fill_marks(part: Part, segment: _Segment, segmented: Element, target: Element, add: _Add) -> bool:
    """Fill each segment of a target that has none, or not its translation, from that of its `mid`. Returns whether one was."""
    written = {mark.get("mid"): mark for mark in _marks(target)}
    is_filled = False
    at, end = target.content, segmented.content  # behind the segment before it, in the target and in the source
    for mark in _marks(segmented):
        own = written.get(mark.get("mid"))
        if mark.content < mark.end and not _is_done(part.data, segment, mark, own):
            pieces = add(_pieces(_inner(part.data, mark)), follows=is_filled)
            is_filled = True
            if own is not None:
                _write_content(part, own, pieces)
            else:
                opening, closing = part.data[end : mark.content].decode(), part.data[mark.close : mark.end].decode()
                opening = (
                    opening
                    if opening.lstrip().startswith(part.data[mark.start : mark.content].decode())
                    else (part.data[mark.start : mark.content].decode())
                )
                part.regions.append(Region(at, at, (Verbatim(opening), *pieces, Verbatim(closing))))
        at, end = own.end if own is not None else at, mark.end
    return is_filled
