"""Reads po and pot: empty and fuzzy `msgstr` are filled from `msgid`, with as many plural forms as the target has.

An entry's `msgctxt` and comments for translators are context. A fuzzy entry stays marked so, and is to be looked at. Obsolete
entries are comments, and are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wholetext import languages
from wholetext.errors import InvalidFile
from wholetext.files.content import Content, ReadOptions, RegionPiece
from wholetext.files.encodings import decode
from wholetext.files.strings import Escapes, Splice, c_escape, c_escaped
from wholetext.markup.blocks import InlineItem
from wholetext.markup.marks import Verbatim

_STRING = r"\"(?:[^\"\\\n]|\\.)*+\""
_TOKEN = re.compile(
    rf"[ \t]*(?:(?P<comment>#[^\n]*)|domain[ \t][^\n]*"
    rf"|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr)(?:\[(?P<form>\d{{1,2}})\])?(?:[ \t\r]*\n)?[ \t]*"
    rf"(?P<strings>{_STRING}(?:[ \t\r]*\n?[ \t]*{_STRING})*+))?[ \t\r]*(?:\n|\Z)"
)
_BETWEEN = r"\"[ \t\r\n]*\""  # two strings of one value
_SOURCE = re.compile(rf"{_BETWEEN}|\\(?:[0-7]{{1,3}}|x[0-9a-fA-F]{{1,8}}|.)")
_WITH_DIRECTIVES = re.compile(
    rf"{_SOURCE.pattern}|%(?:\d{{1,2}}\$)?[-+ 0'#I]{{0,5}}(?:\*|\d{{1,3}})?(?:\.(?:\*|\d{{1,3}})?)?"
    r"(?:hh?|ll?|[Lqjzt])?(?:[diouxXeEfFgGaAcspnmCS%]|<PRI\w{1,10}>)"
)
_CREDITS = frozenset({"translator-credits", "translator_credits", "translation-credits", "Your names", "Your emails"})


@dataclass(slots=True)
class _Entry:
    """An entry. Spans are those of its strings, from the first quote to the last; of `forms` also those of the whole lines."""

    line: int
    comments: list[str] = field(default_factory=lambda: list[str]())
    values: dict[str, tuple[int, int]] = field(default_factory=lambda: dict[str, tuple[int, int]]())
    forms: list[tuple[tuple[int, int], tuple[int, int]]] = field(
        default_factory=lambda: list[tuple[tuple[int, int], tuple[int, int]]]()
    )

    def has_flag(self, flag: str) -> bool:
        return any(flag in re.split(r"[#,\s]+", comment) for comment in self.comments if comment.startswith("#,"))


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` for a line that is not of the format, or translations into another language."""
    text, encoding, warnings = decode(data, "po")
    entries = list(_entries(text))
    if not entries:
        raise InvalidFile("the file has no msgid", param="file")
    content = Content(warnings=warnings)
    splice = Splice(text)
    header = entries.pop(0) if _value(text, entries[0].values["msgid"]) == "" else None
    is_started = any(_value(text, span) for entry in entries if not entry.has_flag("fuzzy") for span, _ in entry.forms)
    forms = _write_header(splice, header, options.target, is_started) if header else 2
    for entry in entries:
        _add(content, splice, entry, forms)
    if forms > 2 and any("msgid_plural" in entry.values for entry in entries):
        content.warnings.append(f"plural forms 1 to {forms - 1} have one translation: the language has a form for each")
    content.parts.append(splice.part(encoding))
    return content


def _entries(text: str) -> Iterator[_Entry]:
    entry = _Entry(1)
    at = 0
    line = 1
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token["form"] and token["keyword"] != "msgstr"):
            raise InvalidFile(f"line {line} is not a line of a PO file", param="file")
        keyword = token["keyword"]
        if entry.forms and (token["comment"] or keyword in ("msgctxt", "msgid")):
            yield entry
            entry = _Entry(line)
        if token["comment"]:
            entry.comments.append(token["comment"].rstrip())
        elif keyword == "msgstr" and "msgid" in entry.values:
            entry.forms.append((token.span("strings"), token.span()))
        elif keyword:
            if keyword in entry.values or keyword == "msgstr":
                raise InvalidFile(f"line {line} has a {keyword} that belongs to no entry", param="file")
            entry.line = line if keyword == "msgid" else entry.line
            entry.values[keyword] = token.span("strings")
        line += text.count("\n", at, token.end())
        at = token.end()
    if entry.forms:
        yield entry


def _value(text: str, span: tuple[int, int]) -> str:
    """The strings between two places as one, with the escapes of the file."""
    return re.sub(_BETWEEN, "", text[span[0] + 1 : span[1] - 1])


def _add(content: Content, splice: Splice, entry: _Entry, forms: int) -> None:
    """Fill the entry's empty translations."""
    text, place = splice.text, f"line {entry.line}"
    missing = [entry.has_flag("fuzzy") or not _value(text, span) for span, _ in entry.forms]
    if not any(missing):
        return
    if _value(text, entry.values["msgid"]) in _CREDITS:
        content.leave(place, "credits", _value(text, entry.values["msgid"]))
        return
    notes = [comment[2:].strip() for comment in entry.comments if comment.startswith("#.")]
    if "msgctxt" in entry.values:
        notes.insert(0, _value(text, entry.values["msgctxt"]))
    is_plural = "msgid_plural" in entry.values
    written: list[Sequence[RegionPiece]] = []
    for source in _sources(text, entry, forms):
        start, stop = entry.values[source]
        escapes = _escapes(text[start:stop], has_directives=entry.has_flag("c-format"))
        pieces = content.add(escapes.pieces(text[start + 1 : stop - 1]), place, "\n".join(notes))
        written.append((Verbatim('"'), *pieces, Verbatim('"')))
    count = forms if is_plural else 1
    for form, (span, line) in enumerate(entry.forms):
        if form >= count:
            splice.put(*line, ())
        elif missing[form]:
            splice.put(*span, written[min(form, len(written) - 1)])
    for form in range(len(entry.forms), count):
        at = entry.forms[-1][0][1]
        splice.put(at, at, (Verbatim(f"{_line_end(text)}msgstr[{form}] "), *written[-1]))


def _sources(text: str, entry: _Entry, forms: int) -> list[str]:
    """The values that the entry's forms are translated from: the last one for all that follow."""
    if "msgid_plural" not in entry.values:
        return ["msgid"]
    one, more = (_value(text, entry.values[name]).count("%") for name in ("msgid", "msgid_plural"))
    if forms == 2 or (forms > 2 and one == more):  # "one file" is no form for 1, 21 and 31
        return ["msgid", "msgid_plural"]
    return ["msgid_plural"]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text[:2000] else "\n"


def _escapes(source: str, *, has_directives: bool) -> Escapes:
    """How a `msgstr` is written: in one string, or, as its `msgid` is, with one for each line of the text.

    Directives of C's printf must be in it as in the `msgid`: they are marks.
    """
    line_end = f'\\n"{_line_end(source)}"' if "\n" in source else "\\n"
    return Escapes(
        _WITH_DIRECTIVES if has_directives else _SOURCE,
        _character,
        lambda text: c_escaped(text).replace("\\n", line_end),
    )


def _character(found: re.Match[str]) -> str | InlineItem | None:
    if found[0][0] == "%":
        return InlineItem("single", found[0], word=True)
    return "" if found[0][0] == '"' else c_escape(found) if found[0][1] not in "0123456789x" else None


# ---- header

_SLAVIC = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20)"
_PLURALS = {
    "nplurals=1; plural=0;": "ja ko zh yue vi th lo my km id ms jv bo",
    "nplurals=2; plural=(n > 1);": "fr pt hi bn gu kn fa am zu hy tr fil",
    "nplurals=2; plural=(n%10==1 && n%100!=11 ? 0 : 1);": "is mk",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_SLAVIC} ? 1 : 2);": "ru uk be sr hr bs",
    f"nplurals=3; plural=(n==1 ? 0 : {_SLAVIC} ? 1 : 2);": "pl",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=4; plural=(n==1 ? 0 : n==2 ? 1 : n!=8 && n!=11 ? 2 : 3);": "cy",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : n%100>10 && n%100<20 ? 2 : 3);": "mt",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
}
"""`Plural-Forms` by language, as the manual of GNU gettext gives them; of all others two, for one and for more."""


def _plural_forms(target: str) -> str:
    primary = languages.primary(target)
    forms = next((forms for forms, tags in _PLURALS.items() if primary in tags.split()), "")
    return "nplurals=2; plural=(n != 1);" if not forms or target == "pt-PT" else forms


def _write_header(splice: Splice, header: _Entry, target: str, is_started: bool) -> int:
    """Set the header's language, plural forms and character set where they are missing, and return the number of forms."""
    start, stop = header.forms[0][0]
    text = splice.text[start:stop]
    language, plural = _header_field(text, "Language"), _header_field(text, "Plural-Forms")
    tag = re.sub(r"@latin$", "-Latn", language[1])
    known = languages.find(tag) if tag else None
    is_other = known is not None and languages.primary(known) != languages.primary(target)
    if is_other and is_started:
        raise InvalidFile(
            f"the translations in the file are {language[1]}: {target} needs a file of its own", param="file"
        )
    counted = re.match(r"nplurals\s*=\s*([1-9])\s*;", plural[1])
    edits: list[tuple[tuple[int, int], str]] = []
    if known is None or is_other:
        edits.append((language[0], f"Language: {_locale(target)}\\n"))
    if counted is None or is_other:
        edits.append((plural[0], f"Plural-Forms: {_plural_forms(target)}\\n"))
    kind = _header_field(text, "Content-Type")
    if kind[1].endswith("charset=CHARSET"):
        edits.append((kind[0], "Content-Type: text/plain; charset=UTF-8\\n"))
    line_end = _line_end(splice.text)
    fuzzy = re.search(r"^#, fuzzy[ \t\r]*\n", splice.text[:start], re.MULTILINE)
    if edits and fuzzy:  # of a template, whose header nobody has filled in
        splice.put(*fuzzy.span(), ())
    for (begin, end), written in sorted(edits):
        as_line = begin == end and not text[: begin + 1].endswith(f'{line_end}"')
        value = f'"{line_end}"{written}' if as_line else written
        splice.put(start + begin, start + end, (Verbatim(value),))
    return int(_plural_forms(target)[9] if counted is None or is_other else counted[1])


def _header_field(text: str, name: str) -> tuple[tuple[int, int], str]:
    """Where a field of the header is, or would be, and its value."""
    found = re.search(rf"(?:(?<=\")|(?<=\\n)){name}:((?:[^\\\n\"]|\"[ \t\r]*\n[ \t]*\")*)\\n", text)
    return (found.span(), found[1].strip()) if found else ((len(text) - 1, len(text) - 1), "")


def _locale(target: str) -> str:
    """The language as gettext names it."""
    names = {"zh": "zh_CN", "zh-Hans": "zh_CN", "zh-Hant": "zh_TW", "sr-Latn": "sr@latin"}
    return names.get(target, target.replace("-", "_"))
