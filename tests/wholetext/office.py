"""Minimal packages of Office, and a model that changes every letter, for the tests of their readers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping

from wholetext.files import formats
from wholetext.files.archive import Archive
from wholetext.files.content import Content, ReadOptions, replaced_parts
from wholetext.markup.marks import MARK

_TYPES = "application/vnd.openxmlformats-officedocument."
_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OF_PACKAGES = "http://schemas.openxmlformats.org/package/2006"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
X = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
R = f'xmlns:r="{_RELATIONSHIPS}"'


def office(
    parts: Mapping[str, tuple[str, str | bytes]], relationships: Mapping[str, Mapping[str, str]] | None = None
) -> bytes:
    """Return a package. `parts` have content type (behind the common beginning) and XML by name, the first is the main one.

    `relationships` of a part are its targets by id; the type is the id without its digits.
    """
    main = next(iter(parts))
    known = {"": {"officeDocument": main}, **(relationships or {})}
    entries: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_OF_PACKAGES}/content-types"><Default Extension="rels" ContentType="x"/>'
        + "".join(
            f'<Override PartName="/{name}" ContentType="{kind if "/" in kind else _TYPES + kind}+xml"/>'
            for name, (kind, _) in parts.items()
        )
        + "</Types>"
    }
    for name, targets in known.items():
        folder, _, base = name.rpartition("/")
        entries[f"{folder}/_rels/{base}.rels".lstrip("/")] = (
            f'<Relationships xmlns="{_OF_PACKAGES}/relationships">'
            + "".join(
                f'<Relationship Id="{id}" Type="{_RELATIONSHIPS}/{id.rstrip("0123456789")}" Target="/{target}"/>'
                for id, target in targets.items()
            )
            + "</Relationships>"
        )
    entries |= {name: xml for name, (_, xml) in parts.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in entries.items():
            out.writestr(name, data)
    return buffer.getvalue()


def docx(body: str, **others: str) -> bytes:
    """A docx whose main part has an unusual name. `others` are parts by their kind (`header`, `styles`), as content."""
    known = {
        "styles": "w:styles",
        "header": "w:hdr",
        "footnotes": "w:footnotes",
        "comments": "w:comments",
        "numbering": "w:numbering",
    }
    parts = {
        "odd/name.xml": (_WORD + "document.main", f"<w:document {W} {A} {_MORE}><w:body>{body}</w:body></w:document>")
    }
    parts |= {
        f"odd/{kind}.xml": (_WORD + kind, f"<{known[kind]} {W}>{xml}</{known[kind]}>") for kind, xml in others.items()
    }
    return office(parts, {"odd/name.xml": {f"{kind}1": f"odd/{kind}.xml" for kind in others}})


_WORD = "wordprocessingml."
_MORE = (
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" xmlns:x="urn:x" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)


def run(text: str, properties: str = "") -> str:
    """A run of Word."""
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def changed(text: str) -> str:
    """Translate a unit: each letter becomes a Greek one, marks stay."""
    pieces: list[str] = []
    at = 0
    for found in (*MARK.finditer(text), None):
        end = found.start() if found else len(text)
        pieces.append("".join("λ" if letter.isalpha() else letter for letter in text[at:end]))
        pieces.append(found[0] if found else "")
        at = found.end() if found else end
    return "".join(pieces)


def read(data: bytes, extension: str, target: str = "el", *, comments: bool = False) -> Content:
    return formats.read(data, ReadOptions(extension, target, comments=comments))


def translated(data: bytes, content: Content, model: Callable[[str], str] = changed) -> Archive:
    """Write a file anew, each unit translated by `model`."""
    parts, _ = replaced_parts(content, [model(unit.block.text) for unit in content.units])
    return Archive(Archive(data).rewrite(parts, content.dropped))


def texts(content: Content) -> list[str]:
    return [unit.block.text for unit in content.units]
