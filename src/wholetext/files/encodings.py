"""Encodings of files: what bytes are decoded with, and how a translation is written where the encoding cannot hold it.

`decode` takes the byte order mark, then what the file declares (an XML declaration, `meta charset`, a PO file's header), then
UTF-8, then what `charset-normalizer` finds for languages that are not written in Latin letters, and else the encoding in which
the letters are those of one language.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import charset_normalizer

from wholetext.errors import InvalidFile

Kind: TypeAlias = Literal["text", "html", "xml", "po"]

_XML = r"<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})"
_META = r"<meta\s[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w.:-]{1,40})"
_DECLARATIONS: Mapping[Kind, tuple[str, ...]] = {
    "html": (_XML, _META),
    "xml": (_XML,),
    "po": (r"^\"Content-Type:[^\"\n]{0,80}?charset=([\w.:-]{1,40})",),
}
_DECLARED_WITHIN = 1024  # bytes; in a PO file anywhere


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a part is encoded, with its byte order mark if it has one. `references`: the part is XML or HTML, which can write
    any character as a reference."""

    name: str = "utf-8"
    mark: bytes = b""
    references: bool = False
    kind: Kind = "text"

    def encode(self, data: bytes) -> tuple[bytes, list[str]]:
        """Return a part, which is given in UTF-8 without its mark, in its own encoding, and warnings.

        Where characters are missing in the encoding they become references, or else the part becomes UTF-8, with a warning.
        """
        if codecs.lookup(self.name).name == "utf-8":
            return self.mark + data, []
        text = data.decode("utf-8")
        try:
            return self.mark + _encoded(text, self.name, "strict"), []
        except UnicodeEncodeError:
            if self.references and "<![CDATA[" not in text:  # where references are text
                return self.mark + _encoded(text, self.name, "xmlcharrefreplace"), []
            for pattern in _DECLARATIONS.get(self.kind, ()):
                found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
                text = f"{text[: found.start(1)]}UTF-8{text[found.end(1) :]}" if found else text
            return text.encode(), [f"the translation has characters that {self.name} lacks: the file is UTF-8 now"]


UTF_8 = Encoding()

_MARKS = (  # UTF-32's begins as UTF-16's does
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARABLE = re.compile(
    r"(?:iso[-_]?8859|latin|l\d|windows|cp\d|x-cp|koi8|gb|big5|euc|ks_c|shift|s?jis|ms_kanji|x-sjis|tis|mac|us-ascii|ascii)",
    re.IGNORECASE,
)
"""Not those of codecs that are no character sets (`zlib`), or that have states."""
_ON_THE_WEB = {
    "iso8859-1": "windows-1252",
    "ascii": "windows-1252",
    "cp1252": "windows-1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gbk",
}
"""The encodings that browsers read under the names of others (https://encoding.spec.whatwg.org/#names-and-labels)."""
_DETECTED = frozenset(
    [
        "big5",
        "cp874",
        "cp932",
        "cp949",
        "cp1251",
        "cp1253",
        "cp1255",
        "cp1256",
        "euc_jp",
        "euc_kr",
        "gb18030",
        "gbk",
        "koi8_r",
        "koi8_u",
        "shift_jis",
        "tis_620",
    ]
)
_CENTRAL_EUROPEAN = "áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž ąćęłńóśźż áéíóöőúüű ăâîşţ čćđšž"
_LATIN = {
    "windows-1252": "àâæçéèêëîïôœùûüÿ äöüß áéíñóúü¡¿ªº àèéìîòóùúí ãáàâçéêíóôõúü åäöé æøåéòôóü áðéíóúýþæö àçèéíïòóúü ëéïóöü",
    "cp1250": _CENTRAL_EUROPEAN,
    "iso8859-2": _CENTRAL_EUROPEAN,
    "cp1254": "âçğıîöşüûi\u0307",
    "cp1257": "ąčęėįšųūž āčēģīķļņšūž äöõüšž",
}
"""The letters beyond ASCII of languages, by their encodings."""
_NO_LETTERS = frozenset("\xa0–—‘’‚“”„†•…‹›«»€£§©®°´·×™²³½")
_LEAST_LETTERS = 0.02
"""Of all letters, those beyond ASCII in a text of the languages that are not of windows-1252; names of many languages in a list
are fewer."""
_WINDOWS_1252 = "".join(
    chr(byte) if shown == "\ufffd" else shown
    for byte in range(256)
    for shown in (bytes([byte]).decode("cp1252", "replace"),)
)
"""Characters of all bytes: also of the five that are undefined in Python's codec, as browsers read them."""


def decode(data: bytes, kind: Kind = "text") -> tuple[str, Encoding, list[str]]:
    """Return a file's text, its encoding, and warnings.

    Raises `InvalidFile` for an empty file, one that has NUL characters (a binary file), or bytes that its encoding lacks.
    """
    text, encoding, warnings = _decode(data, kind)
    if not text.strip():
        raise InvalidFile("the file is empty", param="file")
    if "\0" in text:
        raise InvalidFile(f"the file is not text: it has a NUL character at {text.index(chr(0))}", param="file")
    return text, encoding, warnings


def _decode(data: bytes, kind: Kind) -> tuple[str, Encoding, list[str]]:
    references = kind in ("xml", "html")
    mark, name = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", ""))
    data = data[len(mark) :]
    if not mark and references and data[:2] in (b"<\0", b"\0<"):
        name = "utf-16-le" if data[0] else "utf-16-be"
    name = name or _declared(data, kind)
    tried = name or "utf-8"
    try:
        return _decoded(data, tried), Encoding(tried, mark, references, kind), []
    except UnicodeDecodeError as fault:
        if (mark or references or kind == "po" or _is_almost_utf_8(data)) and not (kind == "html" and not name):
            raise InvalidFile(f"the file is not {tried} at byte {len(mark) + fault.start}", param="file") from None
    name = _detected(data)
    warning = f"the file is not UTF-8 and was read as {name}: save it as UTF-8 if letters are wrong"
    try:
        return _decoded(data, name), Encoding(name, b"", references, kind), [warning]
    except UnicodeDecodeError as fault:
        raise InvalidFile(f"the file is not {name} at byte {fault.start}", param="file") from None


def _declared(data: bytes, kind: Kind) -> str:
    """The encoding that the file declares, if it can be; empty where there is none."""
    head = (data if kind == "po" else data[:_DECLARED_WITHIN]).decode("latin-1")
    for pattern in _DECLARATIONS.get(kind, ()):
        found = re.search(pattern, head, re.IGNORECASE | re.MULTILINE)
        if found and _DECLARABLE.match(found[1]):
            try:
                name = codecs.lookup(found[1]).name
            except LookupError:
                continue
            if b"<".decode(name) != "<":  # EBCDIC, in which this would be no declaration
                continue
            return _ON_THE_WEB.get(name, name) if kind == "html" else name
    return ""


def _is_almost_utf_8(data: bytes) -> bool:
    """Whether most characters outside of ASCII are UTF-8: a broken file of it."""
    text = data.decode("utf-8", "replace")
    return 4 * text.count("\ufffd") < sum(not character.isascii() for character in text)


def _detected(data: bytes) -> str:
    """The encoding of a text without a declaration that is not UTF-8."""
    lines = [line for line in data.splitlines(keepends=True) if not line.isascii()]
    best = charset_normalizer.from_bytes(b"".join(lines)[:50_000]).best()
    if best is None or best.encoding not in _DETECTED:
        return _latin(data)
    letters = [character for character in str(best) if character.isalpha()]
    others = sum(character > "\u02ff" for character in letters)
    return best.encoding if 3 * others > len(letters) else _latin(data)


def _latin(data: bytes) -> str:
    """The encoding of a text in Latin letters: windows-1252, unless nearly all letters beyond ASCII are of a language that has
    another one, and fewer of each language of that."""
    beyond = re.sub(rb"[\x00-\x7f]+", b"", data)
    if len(beyond) < _LEAST_LETTERS * (len(beyond) + len(re.findall(rb"[A-Za-z]", data))):
        return "windows-1252"
    share = {encoding: _share(beyond, encoding, languages) for encoding, languages in _LATIN.items()}
    best = max(share, key=lambda encoding: share[encoding])
    return best if share[best] > max(0.95, share["windows-1252"] + 0.02) else "windows-1252"


def _share(data: bytes, encoding: str, languages: str) -> float:
    """The largest share of characters that are letters of one of the languages, or no letters; 0 if the encoding lacks one."""
    try:
        counts = Counter(_decoded(data, encoding).lower())
    except UnicodeDecodeError:
        return 0.0
    return max(sum(counts[one] for one in {*letters, *_NO_LETTERS}) for letters in languages.split(" ")) / len(data)


def _decoded(data: bytes, name: str) -> str:
    if name == "windows-1252":
        return codecs.charmap_decode(data, "strict", dict(enumerate(map(ord, _WINDOWS_1252))))[0]
    return data.decode(name)


def _encoded(text: str, name: str, errors: str) -> bytes:
    if name == "windows-1252":
        return codecs.charmap_encode(text, errors, codecs.charmap_build(_WINDOWS_1252))[0]
    return text.encode(name, errors)
