"""Judges a translated file with readers that are not the server's: whether all else is as it was, and all text is translated.

The server that is judged runs over the fake pipeline, whose translations are the source with its letters replaced by circled
ones. So a text and its translation have the same shape, and what still has its own letters was not translated.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import partial
from html import unescape
from importlib import import_module
from tempfile import NamedTemporaryFile
from typing import Any, cast

_LANGUAGE_ATTRIBUTES = frozenset({"lang", "val", "eastAsia", "bidi", "altLang", "dir"})
_WRITTEN_ANEW = frozenset(
    {"rsidR", "rsidRPr", "rsidRDefault", "rsidP", "rsidTr", "space", "dirty", "err", "hint", "fullCalcOnLoad"}
)
_RUN_LAYER = frozenset(
    {
        *(
            "r",
            "rPr",
            "t",
            "proofErr",
            "lastRenderedPageBreak",
            "lang",
            "themeFontLang",
            "language",
            "noProof",
            "rFonts",
        ),
        *("b", "bCs", "i", "iCs", "sz", "szCs", "color", "u", "latin", "ea", "cs", "sym", "solidFill"),
        *(
            "span",
            "s",
            "tab",
            "line-break",
            "rPh",
            "phoneticPr",
            "smartTag",
            "smartTagPr",
            "soft-page-break",
            "softHyphen",
            "normAutofit",
            "noAutofit",
            "dataBinding",
        ),
    }
)
"""Elements around texts, which may be joined or written anew."""

_PARAGRAPHS = frozenset({"p", "h", "si", "is", "text", "label", "title", "description"})
_PROSE = re.compile(
    r"word/(document|header\d*|footer\d*|footnotes|endnotes|diagrams/\w+|charts/chart\d*)\.xml"
    r"|ppt/(slides|notesSlides|diagrams|charts)/[a-z]+\d*\.xml|xl/(sharedStrings|charts/chart\d*|diagrams/\w+)\.xml"
    r"|(.*/)?content\.xml|styles\.xml|.*\.(xhtml|html?|ncx)",
    re.IGNORECASE,
)
"""Parts with text of people. In others a text may be translated or not."""
_NOT_SAID = frozenset(
    {
        *(
            "instrText",
            "delText",
            "delInstrText",
            "fldData",
            "f",
            "v",
            "pt",
            "align",
            "posOffset",
            "formatCode",
            "rPh",
            "oMath",
        ),
        *("author-name", "author-initials", "date", "creator", "docAuthor", "Style", "style", "script"),
    }
)
"""Elements whose text is not for people; they are to be as they were."""
_LANGUAGE = re.compile(r"\s*[a-z]{2,3}(-[A-Za-z0-9]+)*\s*")  # the text of `dc:language`, which becomes the target's


def shape(text: str) -> str:
    """Replace each letter, and each circled letter, by `x`, and each run of white space by a space."""
    return re.sub(r"\s+", " ", "".join("x" if c.isalpha() or "\u24b6" <= c <= "\u24e9" else c for c in text)).strip()


KEPT = re.compile(
    r"\{\s*\w+\s*,\s*(?:plural|select\w*)\s*,"
    r"|&\"[^\"]*\"|\w+://\S+|www\.\S+|[\w.+-]+@[\w.-]+|[$%@#&\\]?[{<\[(][^{}<>]{0,300}[}>\])]|%\S+|\\\S+|\S*[\w-][./_\\:]\w\S*|\.\w+"
    r"|`[^`]*`|(?:\w+|=\d+)\s*(?=\{)|&#?\w+;|[$@#:]\w+|[\w-]*\d[\w-]*|\S+\(\S*\)"
)
"""What may stand in a sentence as it is: addresses, placeholders, the syntax of ICU messages, tags, code, file names,
versions, names with digits."""


def untranslated(source: str, result: str) -> list[str]:
    """Return the words of three letters or more that are in both at the same place, and are not to be kept."""
    if source == result and not re.search(r"[^\W\d_]{3}", source):
        return []
    kept = {at for found in KEPT.finditer(source) for at in range(*found.span())}
    if len(source) != len(result):
        return []
    return [
        found[0]
        for found in re.finditer(r"[^\W\d_]{3,}", source)
        if result[found.start() : found.end()] == found[0] and not kept & set(range(*found.span()))
    ]


def judge(format: str, source: bytes, result: bytes, left: list[str], *, lenient: bool = False) -> tuple[str, ...]:
    """Return what is wrong with a result beside its source, one sentence each; none: it is whole.

    `left`: texts that the server reports as left on purpose.

    `lenient`: what other programs write otherwise without harm (methods of compression, notation of tags) is no finding.
    """
    findings: list[str] = []
    texts: list[tuple[str, str, str]] = []
    reader = _READERS.get(format, _text)
    if lenient and reader is _html:
        reader = _html_tree
    for item in reader(source, result):
        if isinstance(item, str):
            if not (lenient and item.endswith(_METHOD)):
                findings.append(item)
        else:
            texts.append(item)
    said = "\n".join(left)
    for place, before, after in texts:
        if shape(before) != shape(after):
            findings.append(f"{place}: {_short(before)} became {_short(after)}")
        elif (words := untranslated(before, after)) and not _is_left(before, words, said):
            findings.append(f"{place}: not translated: {_short(' '.join(words))}")
    findings += _opened(format, source, result)
    return tuple(findings)


def _is_left(before: str, words: list[str], said: str) -> bool:
    return " ".join(before[:200].split()) in said or all(word in said for word in words)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "…")


Item = str | tuple[str, str, str]
"""A finding; or a place, the source's text there and the result's."""

# ---- packages

_METHOD = ": another method of compression"


def _package(source: bytes, result: bytes) -> Iterator[Item]:
    try:
        old, new = zipfile.ZipFile(io.BytesIO(source)), zipfile.ZipFile(io.BytesIO(result))
        broken = new.testzip()
    except zipfile.BadZipFile as fault:
        yield f"not a ZIP file: {fault}"
        return
    if broken:
        yield f"{broken}: wrong CRC"
    names = [info.filename for info in old.infolist() if "_xmlsignatures" not in info.filename]
    if names != [info.filename for info in new.infolist()]:
        yield "the entries differ"
        return
    for name in names:
        before, after = old.read(name), new.read(name)
        if old.getinfo(name).compress_type != new.getinfo(name).compress_type:
            yield f"{name}{_METHOD}"
        if name.endswith((".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm", ".vml")):
            yield from _xml_part(name, before, after)
        elif before != after:
            yield f"{name}: other bytes"


def _parsed(data: bytes) -> Any:
    etree: Any = import_module("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    return etree.fromstring(data, parser)


def _xml_part(name: str, before: bytes, after: bytes) -> Iterator[Item]:
    try:
        old = _parsed(before)
    except Exception:  # noqa: BLE001 - the source's own fault
        if before != after:
            yield from _text(before, after)
        return
    try:
        new = _parsed(after)
    except Exception as fault:  # noqa: BLE001 - whatever lxml raises is the finding
        yield f"{name}: not well-formed: {fault}"
        return
    first, second = list(_skeleton(old)), list(_skeleton(new))
    if [tag for tag, _ in first] != [tag for tag, _ in second]:
        yield f"{name}: {_change([tag for tag, _ in first], [tag for tag, _ in second])}"
        return
    for (tag, attributes), (_, others) in zip(first, second, strict=True):
        for key in attributes.keys() | others.keys():
            a, b = attributes.get(key, ""), others.get(key, "")
            if a != b:
                yield (
                    (f"{name} {tag}@{key}", a, b)
                    if key in _SAID
                    else f"{name}: {tag}@{key}: {_short(a)} became {_short(b)}"
                )
    yield from _texts_of_part(name, old, new)


def _texts_of_part(name: str, old: Any, new: Any) -> Iterator[Item]:
    """Texts of people, in the same number; and those that are none, which are as they were."""
    paragraphs = frozenset({"p", "h"}) if name.endswith("styles.xml") else _PARAGRAPHS
    before, after = list(_texts(old, paragraphs)), list(_texts(new, paragraphs))
    if len(before) != len(after):
        yield f"{name}: {len(before)} texts became {len(after)}"
    for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
        if _PROSE.fullmatch(name) or (one != other and not _LANGUAGE.fullmatch(one)):
            yield f"{name} text {number}", one, other
    codes = [
        [(e.tag, e.text) for e in root.iter() if _local(e.tag) in _NOT_SAID and "}" in e.tag and not _is_computed(e)]
        for root in (old, new)
    ]
    yield from (
        f"{name}: {_local(a[0])} {_short(a[1] or '')} was changed" for a, b in zip(*codes, strict=False) if a != b
    )


def _change(before: list[str], after: list[str]) -> str:
    """Say where two lists of elements differ first."""
    for kind, a, b, c, d in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if kind != "equal":
            return f"elements {before[a:b][:9]} became {after[c:d][:9]}"
    return ""


_SAID = frozenset(
    {
        "descr",
        "tooltip",
        "displayText",
        "label",
        "abbr",
        "prompt",
        "promptTitle",
        "error",
        "errorTitle",
        "title",
        "alt",
        "string",
        "aria-label",
        "name",
        "placeholder",
    }
)
"""Attributes that people read."""


def _local(tag: object) -> str:
    return tag.rsplit("}", 1)[-1] if isinstance(tag, str) else "#"


def _skeleton(root: Any) -> Iterator[tuple[str, Mapping[str, str]]]:
    """All elements but those of runs, with the attributes that are not languages."""
    for element in root.iter():
        name = _local(element.tag)
        if (
            name in _RUN_LAYER
            or name == "#"
            or _is_computed(element)
            or any(_local(up.tag) == "rPr" for up in element.iterancestors())
        ):
            continue
        yield (
            name,
            {
                _local(key): value
                for key, value in element.attrib.items()
                if _local(key) not in _WRITTEN_ANEW and not _is_language(name, _local(key))
            },
        )


def _is_computed(element: Any) -> bool:
    """Whether it is a formula's result that is a text, which programs compute anew, or says that they do."""
    if _local(element.tag) == "calcPr":
        return element.keys() == ["fullCalcOnLoad"]
    return _local(element.tag) == "v" and element.getparent() is not None and element.getparent().get("t") == "str"


def _is_language(element: str, attribute: str) -> bool:
    return attribute.startswith(("language", "country")) or (attribute in _LANGUAGE_ATTRIBUTES and element != "c")


def _texts(root: Any, paragraphs: frozenset[str]) -> Iterator[str]:
    """The text of each paragraph, and of each element outside of paragraphs; not what stands in another paragraph within."""
    for element in root.iter():
        name = _local(element.tag)
        if any(_local(up.tag) in _NOT_SAID for up in element.iterancestors()):
            continue
        outside = element.text and element.text.strip() and not _in_paragraph(element) and paragraphs is _PARAGRAPHS
        if name in paragraphs or outside:
            text = "".join(_own(element, first=True))
            if text.strip():
                yield text


def _in_paragraph(element: Any) -> bool:
    return any(_local(up.tag) in _PARAGRAPHS for up in element.iterancestors())


def _own(element: Any, *, first: bool = False) -> Iterator[str]:
    name = _local(element.tag)
    if (not first and name in _PARAGRAPHS) or name in _NOT_SAID or name == "#":
        return
    yield element.text or ""
    for child in element:
        yield from _own(child)
        yield child.tail or ""


# ---- other formats


def _decoded(data: bytes) -> str:
    """A text as UTF-8 or by its byte order mark, else as charset-normalizer finds."""
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        found: Any = import_module("charset_normalizer").from_bytes(data).best()
        return str(found) if found else data.decode("latin-1")


def _text(source: bytes, result: bytes) -> Iterator[Item]:
    """Line by line: another number of lines, or of characters, is a finding."""
    before, after = _decoded(source).splitlines(), _decoded(result).splitlines()
    if len(before) != len(after):
        yield f"{len(before)} lines became {len(after)}"
        return
    for number, (one, other) in enumerate(zip(before, after, strict=True), 1):
        if one != other or re.search(r"[^\W\d_]{3}", one):
            yield f"line {number}", one, other


def _html(source: bytes, result: bytes) -> Iterator[Item]:
    before, after = _decoded(source), _decoded(result)
    language = re.compile(r'\s(?:xml:)?(?:lang|dir)\s*=\s*(?:"[^"]*"|\'[^\']*\'|[^\s>]+)', re.IGNORECASE)
    tag = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1\s*>|<[A-Za-z/!?][^>]*>", re.IGNORECASE | re.DOTALL)
    tags = [[language.sub("", found[0]) for found in tag.finditer(text)] for text in (before, after)]
    if len(tags[0]) != len(tags[1]):
        yield f"{len(tags[0])} tags became {len(tags[1])}"
        return
    for number, (one, other) in enumerate(zip(*tags, strict=True), 1):
        if one != other and shape(unescape(one)) != shape(unescape(other)) and "charset" not in one:
            yield f"tag {number}: {_short(one)} became {_short(other)}"
    texts = [tag.sub("\x00", text).split("\x00") for text in (before, after)]
    for number, (one, other) in enumerate(zip(*texts, strict=True), 1):
        yield f"text {number}", unescape(one), unescape(other)


def _html_tree(source: bytes, result: bytes) -> Iterator[Item]:
    """As a browser reads both."""
    html: Any = import_module("lxml.html")
    texts = (re.sub(r"^\s*<\?xml[^>]*>", "", _decoded(data)) for data in (source, result))
    old, new = (html.document_fromstring(text) for text in texts)
    first, second = list(_skeleton(old)), list(_skeleton(new))
    if [tag for tag, _ in first] != [tag for tag, _ in second]:
        yield _change([tag for tag, _ in first], [tag for tag, _ in second])
    raw = ("script", "style")
    texts = [
        [t for e in root.iter() if e.tag not in raw for t in (e.text, e.tail) if t and t.strip()] for root in (old, new)
    ]
    if len(texts[0]) != len(texts[1]):
        yield f"{len(texts[0])} texts became {len(texts[1])}"
    for number, (one, other) in enumerate(zip(*texts, strict=False), 1):
        yield f"text {number}", one, other


def _markdown(source: bytes, result: bytes) -> Iterator[Item]:
    """Line by line; blocks of code are copied."""
    before, after = (_CODE.sub(lambda found: "\n" * found[0].count("\n"), _decoded(data)) for data in (source, result))
    code = [[found[0] for found in _CODE.finditer(_decoded(data)) if "`" in found[0]] for data in (source, result)]
    if code[0] != code[1]:
        yield "code was changed"
    yield from _text(before.encode(), after.encode())


_CODE = re.compile(
    r"^(?P<fence>```+|~~~+).*?^(?P=fence)|^(?: {4}|\t).*?$|``[^`]+``|`[^`\n]+`", re.MULTILINE | re.DOTALL
)


def _subtitles(source: bytes, result: bytes) -> Iterator[Item]:
    pysubs2: Any = import_module("pysubs2")
    old, new = (list(pysubs2.SSAFile.from_string(_decoded(data))) for data in (source, result))
    if len(old) != len(new):
        yield f"{len(old)} cues became {len(new)}"
        return
    for number, (one, other) in enumerate(zip(old, new, strict=True), 1):
        if (one.start, one.end, one.style, one.type) != (other.start, other.end, other.style, other.type):
            yield f"cue {number}: another time or style"
        if one.type == "Dialogue":
            yield f"cue {number}", one.text.replace("\\N", " "), other.text.replace("\\N", " ")  # wrapped again
        elif one.text != other.text:
            yield f"comment {number} was changed"


def _po(source: bytes, result: bytes) -> Iterator[Item]:
    polib: Any = import_module("polib")
    with NamedTemporaryFile(suffix=".po") as a, NamedTemporaryFile(suffix=".po") as b:
        a.write(source)
        b.write(result)
        a.flush()
        b.flush()
        old, new = polib.pofile(a.name), polib.pofile(b.name)
    key: Callable[[Any], tuple[str, str | None]] = lambda entry: (entry.msgid, entry.msgctxt)  # noqa: E731
    if list(map(key, old)) != list(map(key, new)):
        yield "other messages"
        return
    for one, other in zip(old, new, strict=True):
        if one.obsolete:
            continue
        if other.msgid_plural:
            yield from ((f"message {_short(one.msgid)}", "", "") for text in other.msgstr_plural.values() if text)
            if not all(other.msgstr_plural.values()):
                yield f"message {_short(one.msgid)}: a plural form is empty"
        elif one.msgstr and not one.fuzzy:
            if one.msgstr != other.msgstr:
                yield f"message {_short(one.msgid)}: its translation was changed"
        elif not other.msgstr:
            yield f"message {_short(one.msgid)}: not translated"
        else:
            yield f"message {_short(one.msgid)}", one.msgid, other.msgstr


def _xliff(source: bytes, result: bytes) -> Iterator[Item]:
    old, new = _parsed(source), _parsed(result)

    def units(root: Any) -> list[Any]:
        return [one for one in root.iter() if _local(one.tag) in ("trans-unit", "segment")]

    first, second = units(old), units(new)
    if len(first) != len(second):
        yield f"{len(first)} units became {len(second)}"
        return
    for number, (one, other) in enumerate(zip(first, second, strict=True), 1):
        sources: list[Any] = [next((e for e in unit if _local(e.tag) == "source"), None) for unit in (one, other)]
        target: Any = next((e for e in other if _local(e.tag) == "target"), None)
        if sources[0] is None or sources[1] is None:
            continue
        texts = ["".join(e.itertext()) for e in sources]
        if texts[0] != texts[1]:
            yield f"unit {number}: its source was changed"
        if not re.search(r"[^\W\d_]{2}", texts[0]) or any(
            up.get("translate") == "no" for up in (one, *one.iterancestors())
        ):
            continue
        before: Any = next((e for e in one if _local(e.tag) == "target"), None)
        if target is None or not "".join(target.itertext()).strip():
            yield f"unit {number}: not translated"
        elif before is None or "".join(before.itertext()).strip() in ("", texts[0].strip()):
            yield f"unit {number}", texts[0], "".join(target.itertext())


def _json(source: bytes, result: bytes) -> Iterator[Item]:
    yield from _values("", json.loads(_decoded(source)), json.loads(_decoded(result)))


def _values(place: str, one: Any, other: Any) -> Iterator[Item]:
    if isinstance(one, dict) and isinstance(other, dict):
        old, new = cast(dict[str, Any], one), cast(dict[str, Any], other)
        if list(old) == list(new):
            for key in (key for key in old if not key.startswith("@")):  # which ARB files say about a message
                yield from _values(f"{place}.{key}", old[key], new[key])
            return
    elif isinstance(one, list) and isinstance(other, list):
        first, second = cast(list[Any], one), cast(list[Any], other)
        if len(first) == len(second):
            for number, pair in enumerate(zip(first, second, strict=True)):
                yield from _values(f"{place}[{number}]", *pair)
            return
    elif isinstance(one, str) and isinstance(other, str):
        yield from [(place, one, other)] * (one != other or " " in one)
        return
    elif one == other:
        return
    yield f"{place}: another value"


def _csv(source: bytes, result: bytes, delimiters: str = ",;\t|") -> Iterator[Item]:
    before, after = _decoded(source), _decoded(result)
    try:
        dialect: Any = csv.Sniffer().sniff(before[:4096], delimiters)
    except csv.Error:
        dialect = csv.excel_tab if delimiters == "\t" else csv.excel
    dialect.doublequote = True
    dialect.escapechar = "\\" if '\\"' in before else None
    old, new = (list(csv.reader(io.StringIO(text), dialect)) for text in (before, after))
    if list(map(len, old)) != list(map(len, new)):
        yield "other rows or columns"
        return
    for row, (one, other) in enumerate(zip(old, new, strict=True), 1):
        for column, (a, b) in enumerate(zip(one, other, strict=True), 1):
            if a != b or (" " in a and not _is_json(a)):
                yield f"row {row} column {column}", a, b


def _is_json(cell: str) -> bool:
    try:
        return isinstance(json.loads(cell), dict | list)
    except ValueError:
        return False


def _android(source: bytes, result: bytes) -> Iterator[Item]:
    old, new = _parsed(source), _parsed(result)
    first, second = list(_skeleton(old)), list(_skeleton(new))
    if first != second:
        yield "other elements or attributes"
    for one, other in zip(old.iter("string", "item"), new.iter("string", "item"), strict=False):
        place = str(one.get("name") or one.getparent().get("name"))
        if any(up.get("translatable") == "false" for up in (one, *one.iterancestors())):
            if "".join(one.itertext()) != "".join(other.itertext()):
                yield f"{place}: not to be translated"
            continue
        before, after = (re.sub(r"\\([?@'\"])", r"\1", "".join(string.itertext())) for string in (one, other))
        yield place, before, after


def _pdf(source: bytes, result: bytes) -> Iterator[Item]:
    """The result is a docx with the text of the pages: it opens, and has nearly as many letters."""
    pdfium: Any = import_module("pypdfium2")
    docx: Any = import_module("docx")
    pages = pdfium.PdfDocument(source)
    wanted = sum(c.isalpha() for page in pages for c in page.get_textpage().get_text_bounded())
    found = sum(shape(p.text).count("x") for p in docx.Document(io.BytesIO(result)).paragraphs)
    if not 0.9 * wanted <= found <= 1.02 * wanted:
        yield f"{wanted} letters became {found}"


_READERS: Mapping[str, Callable[[bytes, bytes], Iterator[Item]]] = {
    **dict.fromkeys(("docx", "docm", "pptx", "pptm", "xlsx", "xlsm", "odt", "ods", "odp", "epub"), _package),
    **dict.fromkeys(("srt", "vtt", "ass", "ssa"), _subtitles),
    **dict.fromkeys(("xlf", "xliff2"), _xliff),
    **dict.fromkeys(("json", "arb"), _json),
    "csv": _csv,
    "tsv": partial(_csv, delimiters="\t"),
    **dict.fromkeys(("html", "htm"), _html),
    "md": _markdown,
    "po": _po,
    "android": _android,
    "pdf": _pdf,
}

# ---- other programs


def _opened(format: str, source: bytes, result: bytes) -> Iterator[str]:
    """Libraries that read the source read the result, and a validator finds no error that the source did not have."""
    opener = {
        "docx": ("docx", "Document"),
        "pptx": ("pptx", "Presentation"),
        "xlsx": ("openpyxl", "load_workbook"),
        "xlsm": ("openpyxl", "load_workbook"),
        "odt": ("odf.opendocument", "load"),
        "ods": ("odf.opendocument", "load"),
        "odp": ("odf.opendocument", "load"),
    }.get(format)
    if opener is not None:
        load: Any = getattr(import_module(opener[0]), opener[1])
        if _fails(load, source) is None and (fault := _fails(load, result)) is not None:
            yield f"{opener[0]} cannot read it: {fault}"
    if format in ("docx", "docm", "pptx", "pptm", "xlsx", "xlsm"):
        before, after = _audit(source, format), _audit(result, format)
        yield from (f"openxml-audit: {error}" for error in sorted(after - before)[:5])


def _fails(load: Callable[[Any], Any], data: bytes) -> str | None:
    try:
        load(io.BytesIO(data))
    except Exception as fault:  # noqa: BLE001 - readers raise what they like
        return f"{type(fault).__name__}: {fault}"
    return None


def _audit(data: bytes, format: str) -> set[str]:
    audit: Any = import_module("openxml_audit")
    with NamedTemporaryFile(suffix=f".{format}") as file:
        file.write(data)
        file.flush()
        found = audit.OpenXmlValidator().validate(file.name)
    return {re.sub(r"\d+|'[^']*'", "…", f"{error.part_uri}: {error.description}") for error in found.errors}
