"""Reads the translations of Qt Linguist (ts): each unfinished message without a translation gets one, and stays unfinished.

The context and the comments for translators are context. Messages that vanished from the code stay. TypeScript and videos,
which have the same extension, are refused.
"""

from __future__ import annotations

import re

from wholetext import languages
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files.content import Content, Part, ReadOptions, Region, RegionPiece
from wholetext.files.encodings import decode
from wholetext.files.strings import is_untranslatable, xml_pieces
from wholetext.files.xmlpart import Element, Namespaces, attribute_spans, tree
from wholetext.markup.marks import Verbatim

_PLACEHOLDER = re.compile(r"%(?:L?\d{1,2}|L?n)(?![A-Za-z0-9])|%(?:L?[1-9]\d?|L?n)")
_FORMS = {
    1: "bo fa hu id ja jv ko ms my su th tr tt vi yo yue zh",
    3: "be bs cs fil ga hr lt lv mk pl ro ru sk sr uk",
    4: "gd mt sl",
    5: "cy",
    6: "ar",
}
"""Numbers of plural forms by language, as Qt's `numerus.cpp` has them; of all others two."""


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not well-formed, or its translations are of another language,
    `UnsupportedFile` if it is no such file."""
    if data[:1] == b"G" or not data.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<"):
        raise UnsupportedFile(
            "Invalid file: of .ts files those of Qt Linguist are read, and this one has no XML (TypeScript, a video?)",
            param="file",
        )
    text, encoding, warnings = decode(data, "xml")
    content = Content(warnings=warnings)
    part = Part("", text.encode(), encoding)
    root = tree(part.data, "the file", Namespaces({}), doctype=True)
    if root.name != "TS":
        raise InvalidFile(f"the file is not of Qt Linguist: its root is {root.name[:100]!r}", param="file")
    forms = None if _set_language(part, root, options.target) else _count_of_forms(options.target)
    has_copies = False
    for context in (root, *(element for element in root.elements if element.name == "context")):
        name = context.child("name")
        for message in (element for element in context.elements if element.name == "message"):
            has_copies |= _add(content, part, message, name.text if name is not None else "", forms)
    if has_copies:
        content.warnings.append(
            f"plural forms of {languages.name(options.target)} have one translation: each needs its own"
        )
    content.parts.append(part)
    return content


def _set_language(part: Part, root: Element, target: str) -> bool:
    """Set the file's language if it has none, and return whether it had it. Raises `InvalidFile` if it has another one."""
    value = root.get("language")
    tag = languages.find(value.replace("_", "-")) if value else None
    if tag and languages.match(tag, (target,)):
        return True
    if tag and value != root.get("sourcelanguage"):
        raise InvalidFile(f"the file's translations are {value}: {target} needs a file of its own", param="file")
    written = target.replace("-", "_")
    if "language" in root.attributes:
        span = attribute_spans(part.data, root)["language"]
        part.regions.append(Region(span.value, span.stop, (Verbatim(written),)))
    else:
        at = root.start + len("<TS")
        part.regions.append(Region(at, at, (Verbatim(f' language="{written}"'),)))
    return False


def _count_of_forms(target: str) -> int:
    primary = languages.primary(target)
    return next((count for count, tags in _FORMS.items() if primary in tags.split()), 2)


def _add(content: Content, part: Part, message: Element, context: str, forms: int | None) -> bool:
    """Fill a message's translation if it has none. `forms`: of a plural; None: as many as it has. Returns whether more than
    one of them has this translation."""
    source, translation = message.child("source"), message.child("translation")
    if source is None or (translation is not None and translation.get("type") in ("vanished", "obsolete")):
        return False
    if translation is not None and (translation.get("type") != "unfinished" or translation.text.strip()):
        return False
    comments = [message.child(name) for name in ("comment", "extracomment", "translatorcomment")]
    notes = [one.text.strip() for one in comments if one is not None]
    place = message.get("id") or f"{context}: {' '.join(source.text[:40].split())}"
    if any(map(is_untranslatable, notes)):
        content.leave(place, "untranslatable", source.text)
        return False
    inner = part.data[source.content : source.close].decode()
    pieces = content.add(xml_pieces(inner, _PLACEHOLDER), place, "\n".join(filter(None, (context, *notes))))
    count = 0
    if message.get("numerus") == "yes":
        written = [one for one in translation.elements if one.name == "numerusform"] if translation is not None else []
        count = forms or len(written) or 1
        form = (Verbatim("<numerusform>"), *pieces, Verbatim("</numerusform>"))
        pieces = tuple(piece for _ in range(count) for piece in form)
    _write(part, source, translation, pieces)
    return count > 1


def _write(part: Part, source: Element, translation: Element | None, pieces: tuple[RegionPiece, ...]) -> None:
    closing = Verbatim("</translation>")
    if translation is None:
        opening = Verbatim('<translation type="unfinished">')
        part.regions.append(Region(source.end, source.end, (opening, *pieces, closing)))
    elif translation.content == translation.end:  # an empty tag
        tag = part.data[translation.start : translation.end].decode()
        part.regions.append(
            Region(translation.start, translation.end, (Verbatim(f"{tag[:-2].rstrip()}>"), *pieces, closing))
        )
    else:
        part.regions.append(Region(translation.content, translation.close, pieces))
