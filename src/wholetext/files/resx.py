"""Reads .NET's resources (resx, resw): the values of `data` that are strings, with their comments as context.

Values of a type (pictures, sizes, fonts) stay, and so do names that the designer of forms writes for itself (`>>button.Name`).
"""

from __future__ import annotations

from wholetext.errors import InvalidFile
from wholetext.files.content import Content, Part, ReadOptions, Region
from wholetext.files.encodings import decode
from wholetext.files.strings import leave, reason_by_comments, xml_pieces
from wholetext.files.xmlpart import Element, Namespaces, tree


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not well-formed, or has another root."""
    text, encoding, warnings = decode(data, "xml")
    content = Content(warnings=warnings)
    part = Part("", text.encode(), encoding)
    root = tree(part.data, "the file", Namespaces({}))
    if root.name != "root":
        raise InvalidFile(f"the file has no resources: its root is {root.name[:100]!r}", param="file")
    for element in root.elements:
        value = element.child("value")
        is_string = element.name == "data" and not element.get("type") and not element.get("mimetype")
        if is_string and value is not None and not element.get("name").startswith((">>", "$this.Name")):
            _add(content, part, element, value)
    content.parts.append(part)
    return content


def _add(content: Content, part: Part, element: Element, value: Element) -> None:
    name, comment = element.get("name"), element.child("comment")
    note = comment.text.strip() if comment is not None else ""
    reason = reason_by_comments(value.text, name.rpartition(".")[2], [note])
    if reason:
        leave(content, name, reason, value.text)
        return
    source = part.data[value.content : value.close].decode()
    part.regions.append(Region(value.content, value.close, content.add(xml_pieces(source), name, note)))
