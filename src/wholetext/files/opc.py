"""Packages of Office (OPC): content types, relationships, and what kind of document a package is.

Parts are found by relationships and known by their content types; their names mean nothing. External targets are not
followed.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

import langcodes

from wholetext.errors import InvalidFile
from wholetext.files.archive import Archive
from wholetext.files.content import Content, Part, Region
from wholetext.files.xmlpart import Element, Namespaces, attribute_spans, decoded, elements, tree, written_name
from wholetext.markup.marks import Verbatim

_OFFICE, _STRICT = "http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/"
_MICROSOFT = "http://schemas.microsoft.com/office/"
_NAMES = {"w": "wordprocessingml", "x": "spreadsheetml", "p": "presentationml", "a": "drawingml", "": "package"}

NAMESPACES: Mapping[str, str] = {
    **{f"{_OFFICE}{name}/2006/main": prefix for prefix, name in _NAMES.items()},
    **{f"{_STRICT}{name}/main": prefix for prefix, name in _NAMES.items()},
    **{
        f"{base}{name}": prefix
        for prefix, name in (("c", "chart"), ("dgm", "diagram"), ("wp", "wordprocessingDrawing"), ("pic", "picture"))
        for base in (f"{_OFFICE}drawingml/2006/", f"{_STRICT}drawingml/")
    },
    f"{_OFFICE}officeDocument/2006/relationships": "r",
    f"{_STRICT}officeDocument/relationships": "r",
    f"{_OFFICE}officeDocument/2006/math": "m",
    f"{_STRICT}officeDocument/math": "m",
    f"{_OFFICE}package/2006/content-types": "",
    f"{_OFFICE}package/2006/relationships": "",
    f"{_OFFICE}package/2006/metadata/core-properties": "cp",
    f"{_OFFICE}markup-compatibility/2006": "mc",
    f"{_OFFICE}drawingml/2006/spreadsheetDrawing": "xdr",
    f"{_STRICT}drawingml/spreadsheetDrawing": "xdr",
    f"{_MICROSOFT}drawing/2008/diagram": "dsp",
    f"{_MICROSOFT}word/2012/wordml": "w15",
    f"{_MICROSOFT}word/2010/wordprocessingShape": "wps",
    f"{_MICROSOFT}spreadsheetml/2018/threadedcomments": "tc",
    f"{_MICROSOFT}spreadsheetml/2009/9/main": "x14",
    f"{_MICROSOFT}excel/2006/main": "xm",
    f"{_MICROSOFT}powerpoint/2018/8/main": "p188",
    "urn:schemas-microsoft-com:vml": "v",
    "http://purl.org/dc/elements/1.1/": "dc",
}

_KINDS = {
    "wordprocessingml": "docx",
    "ms-word": "docx",
    "presentationml": "pptx",
    "ms-powerpoint": "pptx",
    "spreadsheetml": "xlsx",
    "ms-excel": "xlsx",
}
_NOT_FOLLOWED = ("glossaryDocument", "package", "oleObject", "externalLink", "pivotCacheDefinition", "customXml")
_REGIONS_OF_OFFICE = {"ar": "ar-SA", "fa": "fa-IR", "zh": "zh-CN"}


@dataclass(frozen=True, slots=True)
class Relationship:
    """`type` is the last part of the relationship's type, which strict and transitional packages have in common."""

    id: str
    type: str
    target: str  # the part's name in the package


class Package:
    """An Office package whose directory passed all checks. Raises `InvalidFile`."""

    def __init__(self, data: bytes, kind: str) -> None:
        self.archive = Archive(data, folded=True)
        self.archive.check()
        self.namespaces = Namespaces(NAMESPACES)
        self._names = {name.lower(): name for name in self.archive.names}
        self._parts: dict[str, Part] = {}
        self._relationships: dict[str, list[Relationship]] = {}
        types = self.root("[Content_Types].xml")
        self._defaults = {
            one.get("Extension").lower(): one.get("ContentType") for one in types.elements if one.get("Extension")
        }
        self._types = {one.get("PartName").lower().lstrip("/"): one.get("ContentType") for one in types.elements}
        main = next((one for one in self.relationships("") if one.type == "officeDocument"), None)
        if main is None:
            raise InvalidFile("Invalid file: it is a ZIP package, but no document of Office", param="file")
        self.main = main.target
        head = self.part(self.main).data[:10_000]
        if not any(f'="{namespace}"'.encode() in head.replace(b"'", b'"') for namespace in NAMESPACES):
            raise InvalidFile(
                "Invalid file: it is of a version of Office that is not read; save it again", param="file"
            )
        found = next((own for part, own in _KINDS.items() if part in self.content_type(self.main)), "")
        if found != kind:
            what = f"a {found} file" if found else f"of the type {self.content_type(self.main)[:80]!r}"
            raise InvalidFile(f"Invalid file: it is named as a {kind} file, but it is {what}", param="file")

    def content_type(self, name: str) -> str:
        extension = name.rpartition(".")[2].lower()
        return self._types.get(name.lower()) or self._defaults.get(extension or "-", "")

    def part(self, name: str) -> Part:
        """Return an XML part, decoded; the same one each time."""
        if name not in self._parts:
            self._parts[name] = Part(name, *decoded(self.archive.read(name), name))
        return self._parts[name]

    def root(self, name: str) -> Element:
        """Return the tree of a small XML part."""
        if name.lower() not in self._names:
            raise InvalidFile(f"Invalid file: it is a ZIP package without {name}", param="file")
        return tree(self.part(self._names[name.lower()]).data, name, self.namespaces)

    def elements(self, name: str, *collected: str) -> Iterator[Element]:
        return elements(self.part(name).data, name, self.namespaces, collected)

    def relationships(self, name: str) -> list[Relationship]:
        """Return a part's relationships to parts that the package has; those of the package if `name` is empty."""
        if name not in self._relationships:
            self._relationships[name] = list(self._read_relationships(name))
        return self._relationships[name]

    def _read_relationships(self, name: str) -> Iterator[Relationship]:
        folder, base = posixpath.split(name)
        own = self._names.get(posixpath.join(folder, "_rels", f"{base}.rels").lower())
        for one in self.root(own).elements if own else ():
            if one.get("TargetMode") == "External":
                continue
            path = posixpath.normpath(posixpath.join("/", folder, unquote(one.get("Target")))).lstrip("/")
            target = self._names.get(path.lower())
            if target is not None:
                yield Relationship(one.get("Id"), one.get("Type").rpartition("/")[2], target)

    @cached_property
    def reachable(self) -> list[str]:
        """The names of all parts that belong to the document, the main part first, each after one that refers to it."""
        seen = {self.main: None}
        waiting = deque([self.main])
        while waiting:
            for one in self.relationships(waiting.popleft()):
                if one.target not in seen and one.type not in _NOT_FOLLOWED:
                    seen[one.target] = None
                    waiting.append(one.target)
        return list(seen)

    def typed(self, ending: str) -> list[str]:
        """Return the names of the document's parts whose content type ends so (`.styles+xml`)."""
        return [name for name in self.reachable if self.content_type(name).lower().endswith(ending.lower())]

    def finish(self, content: Content) -> Content:
        """Drop signatures, which a translation breaks, and name the parts that change."""
        self._drop_signatures(content)
        for part in self._parts.values():
            part.regions = list(_apart(part.regions))
        content.parts += [part for part in self._parts.values() if part.regions]
        return content

    def _drop_signatures(self, content: Content) -> None:
        origins = [one.target for one in self.relationships("") if one.type == "origin"]
        if not origins:
            return
        signatures = [one.target for origin in origins for one in self.relationships(origin)]
        folders = {f"{posixpath.dirname(origin)}/".lower() for origin in origins} - {"/"}
        content.dropped |= {name for name in self.archive.names if name.lower().startswith(tuple(folders))}
        content.dropped |= {*origins, *signatures}
        content.warnings.append(
            "the signature was removed: a translation has other bytes than the file that was signed"
        )
        for name in ("[Content_Types].xml", "_rels/.rels"):
            for one in self.root(name).elements:
                target = self._names.get(one.get("PartName", one.get("Target")).lower().lstrip("/"))
                if target in content.dropped:
                    self.part(self._names[name.lower()]).regions.append(Region(one.start, one.end, ()))


def _apart(regions: Iterable[Region]) -> Iterator[Region]:
    """Yield the regions but those that overlap another one: a damaged package may have a part in two places."""
    around: list[Region] = []
    for region in sorted(regions, key=lambda one: (one.start, -one.stop)):
        while around and around[-1].stop <= region.start:
            around.pop()
        if around and (
            around[-1].compose is None
            or region.stop > around[-1].stop
            or (region.start, region.stop) == (around[-1].start, around[-1].stop)
        ):
            continue
        around.append(region)
        yield region


def office_tag(tag: str) -> str:
    """Return a language's tag as Office writes it, with a region: `de-DE` for `de`, `zh-TW` for `zh-Hant`."""
    language = langcodes.Language.get(tag)
    full = language.maximize()
    known = _REGIONS_OF_OFFICE.get(tag) or f"{full.language}-{full.territory or 'US'}"
    return f"{full.language}-{full.script}-{full.territory}" if language.script and full.language != "zh" else known


def insert_attribute(part: Part, element: Element, name: str, value: str) -> None:
    """Write an attribute that the element does not have; `name` with the prefix of its part."""
    at = element.start + 1 + len(written_name(part.data, element).encode())
    part.regions.append(Region(at, at + 1, (Verbatim(f' {name}="{value}"{chr(part.data[at])}'),)))


def replace_attribute(part: Part, element: Element, name: str, value: str) -> None:
    """Replace the value of an attribute if the element has it with another one."""
    if element.get(name, value) != value:
        span = attribute_spans(part.data, element)[name]
        part.regions.append(Region(span.value, span.stop, (Verbatim(value),)))
