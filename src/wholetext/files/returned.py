"""Reads the XLIFF 1.2 file that `exports` has written of a document's segments, after a translator's tool has changed it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wholetext.errors import InvalidFile
from wholetext.files.xliff import NOT_DONE
from wholetext.files.xmlpart import Element, Namespaces, Text, decoded, elements

_NAME = "the XLIFF file"
_MARKS = {"g": ("<g{}>", "</g{}>"), "x": ("<x{}/>", "")}
_BASE = re.compile("[0-9a-f]{8}-[0-9a-f]{12}")
_KEPT = frozenset(("mrk", "#"))
"""Elements of tools, whose text is that of the segment, and comments, which have none."""
MAX_PARTS = 10_000
"""Inline elements, and texts between them, of a segment."""


@dataclass(frozen=True, slots=True)
class ReturnedSegment:
    """Segment `n` with marks. `target` None: it has none, or none that can be read. `is_open`: it is to be worked on again;
    `is_approved`: somebody has approved it. `base`: what `exports` has written of the export and of the translation in it,
    whose digest is `base_digest`; empty: a tool has dropped it, or an older version has written the file."""

    n: int
    source: str
    target: str | None
    is_open: bool = False
    is_approved: bool = False
    base: str = ""

    @property
    def base_digest(self) -> str:
        """The `exports.digest` of the translation that was exported; empty: it is not known."""
        return self.base.rpartition("-")[2]


def read(data: bytes) -> Iterator[ReturnedSegment]:
    """Yield the segments in the file's order. Raises `InvalidFile`."""
    data, _ = decoded(data, _NAME)
    is_xliff = False
    namespaces = Namespaces({"urn:oasis:names:tc:xliff:document:1.2": ""})
    for element in elements(data, _NAME, namespaces, ("trans-unit",), opened=("xliff",)):
        if element.name == "xliff":
            is_xliff = True
        elif is_xliff:
            yield _segment(element)
    if not is_xliff:
        raise InvalidFile("Invalid file: it is no XLIFF 1.2: there is no element xliff", param="file")


def _segment(unit: Element) -> ReturnedSegment:
    number, source, target = unit.get("id"), unit.child("source"), unit.child("target")
    text = None if source is None else _with_marks(source)
    if not number.isdecimal() or len(number) > 9 or text is None:
        raise InvalidFile("Invalid file: it has a unit that is not of a document of this server", param="file")
    if target is None:
        return ReturnedSegment(int(number), text, None)
    base = unit.get("extradata")
    state, translation = target.get("state"), _with_marks(target)
    if translation is not None and (not translation.strip() or (state in NOT_DONE and translation == text)):
        translation = None  # so tools write what is not translated
    return ReturnedSegment(
        int(number),
        text,
        translation,
        is_open=state.startswith("needs-") or state == "new",
        is_approved=unit.get("approved") == "yes" or state in ("final", "signed-off"),
        base=base if _BASE.fullmatch(base) else "",
    )


def _with_marks(element: Element) -> str | None:
    """The text with marks; None: it has an element that is no mark, or very many."""
    written, seen = list[str](), 0
    waiting: list[Element | Text | str] = [*element.children[::-1]]
    while waiting:
        child = waiting.pop()
        seen += 1
        if isinstance(child, str):
            written.append(child)
        elif isinstance(child, Text):
            written.append(child.shown)
        elif child.name in _MARKS and child.get("id").isdecimal():
            opening, closing = (part.format(child.get("id")) for part in _MARKS[child.name])
            written.append(opening)
            waiting += [closing, *child.children[::-1]]
        elif child.name in _KEPT:
            waiting += child.children[::-1]
        else:
            return None
        if seen > MAX_PARTS:
            return None
    return "".join(written)
