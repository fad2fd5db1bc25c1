"""Reads EPUB 2 and 3: the documents of the book in reading order, its navigation, title and description.

Documents are found by `META-INF/container.xml` and the package document (OPF). XHTML goes through `text.html`, which reads the
entities of EPUB 2 (`&nbsp;`) and broken markup too. The book and its documents get the target's language. Nothing else in the
package changes: no identifier (fonts are obfuscated with it), no reference, no page list.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import escape, unescape
from urllib.parse import unquote

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.archive import Archive
from wholetext.files.content import Content, Part, ReadOptions, Region, RegionPiece, keep_nothing
from wholetext.files.encodings import decode
from wholetext.files.runs import xml_notation
from wholetext.files.webpage import in_language, leave_embedded
from wholetext.files.xmlpart import Element, Namespaces, attribute_spans, decoded, elements, tree
from wholetext.markup import html
from wholetext.markup.marks import Block, Mark, Piece, Verbatim, Writer, restore
from wholetext.markup.notation import BlockBuilder, Place
from wholetext.markup.notation import decoded as decoded_text
from wholetext.markup.spans import has_letters

_NAMES = {
    "urn:oasis:names:tc:opendocument:xmlns:container": "container",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
    "http://www.idpf.org/2007/opf": "opf",
    "http://openebook.org/namespaces/oeb-package/1.0/": "opf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
}
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_MEDIA_TYPE = b"application/epub+zip"
_PACKAGE_TYPE = "application/oebps-package+xml"
_XHTML_TYPES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_NCX_TYPE = "application/x-dtbncx+xml"
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_METADATA = ("dc:language", "dc:title", "dc:description")
_SIGNATURES = "META-INF/signatures.xml"
_PAGE_NUMBER = re.compile(r"[\W\d_]*(?:[ivxlcdm]+|[a-z])[\W\d_]*", re.IGNORECASE)
_XML = Place(xml=True)
_build = BlockBuilder(keep_nothing, xml_notation)


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the book. Raises `InvalidFile` for a file that is damaged, protected (DRM) or no EPUB."""
    archive = Archive(data)
    archive.check()
    if _CONTAINER not in archive.entries or (
        "mimetype" in archive.entries and archive.read("mimetype").strip() != _MEDIA_TYPE
    ):
        raise InvalidFile("Invalid file: it is no epub", param="file")
    _check_encryption(archive)
    content = Content()
    if _SIGNATURES in archive.entries:
        content.dropped.add(_SIGNATURES)
        content.warnings.append("the book was signed: the translation has no signature")
    roots = [one for one in _tree(archive, _CONTAINER).walk() if one.name == "container:rootfile"]
    paths = [one.get("full-path") for one in roots if one.get("media-type", _PACKAGE_TYPE) == _PACKAGE_TYPE]
    if not paths:
        raise InvalidFile(f"Invalid file: {_CONTAINER} names no package document", param="file")
    reader = _Reader(archive, content, options.target)
    for path in dict.fromkeys(paths):
        reader.read_package(path)
    return content


def _tree(archive: Archive, name: str) -> Element:
    data, _ = decoded(archive.read(name), name)
    return tree(data, name, Namespaces(_NAMES), doctype=True)


def _check_encryption(archive: Archive) -> None:
    """Raise `InvalidFile` if anything but fonts is encrypted."""
    if _ENCRYPTION not in archive.entries:
        return
    for method in _tree(archive, _ENCRYPTION).walk():
        if method.name == "enc:EncryptionMethod" and method.get("Algorithm") not in _OF_FONTS:
            raise InvalidFile("Invalid file: the book is protected (DRM), its text is encrypted", param="file")


class _Reader:
    """Reads the parts of one book; each once, though several package documents may name it."""

    def __init__(self, archive: Archive, content: Content, target: str) -> None:
        self._archive = archive
        self._content = content
        self._target = target
        self._names: set[str] = set()

    def read_package(self, path: str) -> None:
        if path not in self._archive.entries:
            raise InvalidFile(f"Invalid file: the package document {path[:200]!r} is missing", param="file")
        data, encoding = decoded(self._archive.read(path), path)
        package = tree(data, path, Namespaces(_NAMES), doctype=True)
        part = Part(path, data, encoding)
        for element in package.walk(*_METADATA):
            self._read_metadata(part, element)
        self._content.parts.append(part)
        manifest = {one.get("id"): one for one in package.walk() if one.name == "opf:item"}
        spine = [manifest.get(one.get("idref")) for one in package.walk() if one.name == "opf:itemref"]
        for item in [*(item for item in spine if item), *manifest.values()]:
            name = self._name(path, item.get("href"))
            if name in self._names or item.get("media-type") not in (*_XHTML_TYPES, _NCX_TYPE):
                continue
            self._names.add(name)
            if name not in self._archive.entries:
                self._content.warnings.append(f"{name[:200]} is missing in the book")
            elif item.get("media-type") == _NCX_TYPE:
                self._read_ncx(name)
            else:
                self._read_document(name)
        for one in package.walk():
            if one.name == "opf:reference" and has_letters(one.get("title")):
                self._content.leave("guide", "guide", one.get("title"))
            if one.get("property") == "rendition:layout" and one.text.strip() == "pre-paginated":
                self._content.warnings.append("the pages of this book have a fixed layout: longer text may not fit")

    def _name(self, package: str, reference: str) -> str:
        """Return the name of the entry that a reference of the package document means."""
        hrefs = (unquote(reference), reference)
        folder = posixpath.dirname(package)
        names = [posixpath.normpath(posixpath.join(folder, href.partition("#")[0])) for href in hrefs]
        return next((name for name in names if name in self._archive.entries), names[0])

    def _read_metadata(self, part: Part, element: Element) -> None:
        if element.name == "dc:language" and element.content < element.close:
            if not self._is_target(element.text):
                part.regions.append(Region(element.content, element.close, (Verbatim(self._target),)))
        elif element.name in ("dc:title", "dc:description") and element.content < element.close:
            self._put_text(part, element, f"book, {element.name[3:]}")

    def _read_ncx(self, name: str) -> None:
        data, encoding = decoded(self._archive.read(name), name)
        part = Part(name, data, encoding)
        names = Namespaces(_NAMES)
        labels = 0
        for element in elements(
            data,
            name,
            names,
            ("ncx:docTitle", "ncx:navInfo", "ncx:navLabel", "ncx:pageList"),
            opened=("ncx:ncx",),
            doctype=True,
        ):
            if element.name == "ncx:ncx":
                self._put_language(part, element)
                continue
            labels += 1
            text = element.child("ncx:text") if element.name != "ncx:pageList" else None
            if text and text.content < text.close:
                self._put_text(part, text, f"{posixpath.basename(name)}, label {labels}")
        self._content.parts.append(part)

    def _put_language(self, part: Part, element: Element) -> None:
        if element.get("xml:lang") and not self._is_target(element.get("xml:lang")):
            span = attribute_spans(part.data, element)["xml:lang"]
            part.regions.append(Region(span.value, span.stop, (Verbatim(self._target),)))

    def _put_text(self, part: Part, element: Element, place: str) -> None:
        source = part.data[element.content : element.close].decode("utf-8")
        pieces = list(_markup_pieces(source)) if element.name == "dc:description" and "&lt;" in source else []
        pieces = pieces or _build(list(decoded_text(source, _XML)))
        part.regions.append(Region(element.content, element.close, self._content.add(pieces, place)))

    def _read_document(self, name: str) -> None:
        data = self._archive.read(name)
        if not data.strip():
            return
        try:
            text, encoding, warnings = decode(data, "xml")
        except InvalidFile as error:
            raise InvalidFile(f"Invalid file: {name}: {error.message}", param="file") from None
        self._content.warnings += [f"{name}: {warning}" for warning in warnings]
        shown = posixpath.basename(name)
        leave_embedded(self._content, text, shown)
        pieces: list[RegionPiece] = []
        paragraphs = 0
        found = html.pieces(text, keep_nothing, xhtml=True)
        for piece in _without_page_lists(in_language(text, found, self._target, added="xml:lang")):
            paragraphs += isinstance(piece, Block)
            place = f"{shown}, paragraph {paragraphs}"
            pieces += self._content.add((piece,), place, follows=paragraphs > 1)
        source = text.encode("utf-8")
        self._content.parts.append(Part(name, source, encoding, [Region(0, len(source), tuple(pieces))]))

    def _is_target(self, tag: str) -> bool:
        found = languages.find(tag.strip())
        return found is not None and languages.primary(found) == languages.primary(self._target)


def _without_page_lists(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the pieces, with the numbers of a page list (`iv`) as they are."""
    within = False
    for piece in pieces:
        if isinstance(piece, Verbatim):
            for found in re.finditer(r"</nav\s*>|<nav\s[^<>]*page-list", piece.text):
                within = not found[0].startswith("</")
        elif within and _PAGE_NUMBER.fullmatch(piece.text):
            yield Verbatim(restore(piece.text, piece.marks, piece.writer))
            continue
        yield piece


def _markup_pieces(source: str) -> Iterator[Piece]:
    """Yield the pieces of a description that has escaped HTML; nothing if it could not be written again as it is."""
    text = unescape(source)
    if escape(text, quote=False) != source:
        return
    pieces = [piece for piece in html.pieces(text, keep_nothing) if piece is not None]
    blocks = [piece for piece in pieces if isinstance(piece, Block)]
    if any(hasattr(block.writer, "arrange") or any(mark.pieces for mark in block.marks) for block in blocks):
        return
    for piece in pieces:
        if isinstance(piece, Verbatim):
            yield Verbatim(_escaped(piece.text))
            continue
        closings = [None if mark.closing is None else _escaped(mark.closing) for mark in piece.marks]
        marks = (
            Mark(_escaped(mark.opening), one, mark.word, look=mark.look or mark.opening)
            for mark, one in zip(piece.marks, closings, strict=True)
        )
        yield Block(piece.text, tuple(marks), _escaping(piece.writer))


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _escaping(writer: Writer | None) -> Writer:
    return lambda text: _escaped(writer(text) if writer else text)
