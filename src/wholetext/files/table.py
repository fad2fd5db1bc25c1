"""Reads csv and tsv: the cells that hold text. Quotes, delimiters and line ends stay as written.

In a file of tabs, few cells need quotes: one that begins with a quote gets them, unless its source begins with a bare one, too.

A cell's context is its column's header. The first row is translated like the others, unless a column is named by its header:
who names it has a program that looks for it. A cell that begins as a formula stays, and no translation becomes one. Programs
read a row differently where a quoted cell goes on behind its closing quote, or its quote is not closed: such a row stays as it
is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from wholetext.errors import InvalidFile
from wholetext.files.content import Content, ReadOptions
from wholetext.files.encodings import decode
from wholetext.files.strings import Escapes, Splice, leave
from wholetext.files.values import reason_to_leave
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Block, Edge

_DELIMITERS = ",;\t|"
_SAMPLE_CHARACTERS = 20_000
_LONGEST_HEADER = 60
_ROWS_NAMED = 20
_QUOTED = r"\"(?:[^\"]++|\"\")*+\""
_QUOTES = Escapes(re.compile('""'), lambda _: '"', lambda text: text.replace('"', '""'))
_JSON = re.compile(r"\s*[\[{]\s*[\[{\"]")
_FORMULA = re.compile(r"\s*(?:[=@]|[+-](?![\s\d]))")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell, from `start` to `stop`, with its quotes if it has some. Rows and columns count from 0."""

    row: int
    column: int
    start: int
    stop: int
    malformed: bool  # its quotes


def read(data: bytes, options: ReadOptions) -> Content:
    """Read the file. Raises `InvalidFile` if it is not text, or has no column that `options.columns` names."""
    text, encoding, warnings = decode(data)
    content = Content(warnings=warnings)
    splice = Splice(text)
    hint = re.match(r"sep=(.)\r?\n", text)
    delimiter = hint[1] if hint else "\t" if options.extension == "tsv" else _delimiter(text)
    start = hint.end() if hint else 0
    first_row = takewhile(lambda cell: cell.row == 0, _cells(text, delimiter, start))
    headers = {cell.column: value for cell in first_row if (value := _value(text, cell).strip())}
    columns = _columns(options.columns, headers)
    is_named = any(not name.isdigit() for name in options.columns)
    rows: list[int] = []  # that stay
    for row, in_row in groupby(_cells(text, delimiter, start), key=lambda cell: cell.row):
        cells = list(in_row)
        malformed = any(cell.malformed for cell in cells)
        if malformed:
            rows.append(row + 1 + bool(hint))
        for cell in cells:
            if cell.start == cell.stop or (columns and (cell.column not in columns or (is_named and cell.row == 0))):
                continue
            value = _value(text, cell)
            place = f"{_letters(cell.column)}{cell.row + 1 + bool(hint)}"
            header = headers.get(cell.column, "") if cell.row else ""
            reason = "quotes" if malformed else "formula" if _FORMULA.match(value) else _reason_to_leave(value, header)
            block = None if reason else _block(text[cell.start : cell.stop], delimiter)
            if block is None:
                leave(content, place, reason or "code", value)
                continue
            context = header if len(header) <= _LONGEST_HEADER else ""
            splice.put(cell.start, cell.stop, content.add((block,), place, context))
    if rows:
        more = f" and {len(rows) - _ROWS_NAMED} more" if len(rows) > _ROWS_NAMED else ""
        named = ", ".join(map(str, rows[:_ROWS_NAMED]))
        content.warnings.append(f"rows that are not translated because their quotes are malformed: {named}{more}")
    content.parts.append(splice.part(encoding))
    return content


def _reason_to_leave(value: str, header: str) -> str | None:
    """Why a cell is not translated: it has a truth value or JSON, or looks like a key or a code. None for text."""
    if value.strip().casefold() in ("true", "false", "null"):
        return "code"
    if _JSON.match(value):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            pass
        else:
            return "code"
    return reason_to_leave(value, header)


def _columns(wanted: Sequence[str], headers: dict[int, str]) -> set[int]:
    """The columns of these names or numbers, which count from 1."""
    found: set[int] = set()
    for name in wanted:
        columns = {column for column, header in headers.items() if header.casefold() == name.strip().casefold()}
        if not columns and name.isdecimal() and len(name) < 8:
            columns = {int(name) - 1}
        if not columns:
            known = ", ".join(list(headers.values())[:20])
            raise InvalidFile(f"the file has no column {name[:100]!r}; its columns are {known[:500]}", param="columns")
        found |= columns
    return found


def _letters(column: int) -> str:
    """The column as spreadsheets name it."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


# ---- parsing


def _cells(text: str, delimiter: str, start: int) -> Iterator[_Cell]:
    """Yield the cells in order. A quote in a file of tabs is a sign like others, unless it is closed where the cell ends."""
    sign = re.escape(delimiter)
    malformed = rf"|(?P<malformed>{_QUOTED}[^{sign}\r\n]*|\"[^{sign}\r\n]*)" if delimiter != "\t" else ""
    token = re.compile(rf"({_QUOTED}(?=[{sign}\r\n]|\Z){malformed}|[^{sign}\r\n]*)(?P<end>{sign}|\r\n?|\n|\Z)")
    row = column = 0
    at = start
    while at < len(text) and (found := token.match(text, at)):
        yield _Cell(row, column, *found.span(1), malformed=bool(malformed and found["malformed"]))
        at = found.end()
        row, column = (row, column + 1) if found["end"] == delimiter else (row + 1, 0)


def _delimiter(text: str) -> str:
    """The delimiter that most rows of the file's beginning have equally often."""
    rows = re.sub(_QUOTED, "", text[:_SAMPLE_CHARACTERS]).splitlines()[:200] or [""]

    def score(delimiter: str) -> tuple[bool, int, int]:
        counts = Counter(filter(None, (row.count(delimiter) for row in rows)))
        times, count = max(((times, count) for count, times in counts.items()), default=(0, 0))
        return delimiter in rows[0], times, count

    return max(_DELIMITERS, key=score)


def _is_quoted(written: str) -> bool:
    return re.fullmatch(_QUOTED, written) is not None


def _value(text: str, cell: _Cell) -> str:
    written = text[cell.start : cell.stop]
    return written[1:-1].replace('""', '"') if _is_quoted(written) else written


# ---- writing


def _block(written: str, delimiter: str) -> Block | None:
    """The block of a cell, which writes the whole cell; None if it has no text."""
    items = _QUOTES.items(written[1:-1]) if _is_quoted(written) else [InlineItem.text(written)]
    texts: list[tuple[str, str]] = []
    pieces = build(items, notation=lambda found: texts.extend(found) or str)
    at = next((at for at, piece in enumerate(pieces) if isinstance(piece, Block)), None)
    if at is None:
        return None
    before, after = ("".join(piece.text for piece in some) for some in (pieces[:at], pieces[at + 1 :]))
    return Block(
        pieces[at].text, getattr(pieces[at], "marks", ()), _CellWriter(written, texts, before, after, delimiter)
    )


@dataclass(frozen=True, slots=True)
class _CellWriter:
    """Writes a cell: quoted if the source is or the translation needs it, and never as a formula."""

    source: str
    texts: Sequence[tuple[str, str]]
    before: str
    after: str
    delimiter: str

    def __call__(self, text: str) -> str:
        return text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        if [text for text in written[::2] if text] == [shown for shown, _ in self.texts]:
            written[:] = [self.source]
            return
        is_quoted = _is_quoted(self.source)
        if is_quoted:
            written[::2] = [text.replace('"', '""') for text in written[::2]]
        cell = "".join((self.before, *written, self.after))
        if _FORMULA.match(cell) and not _FORMULA.match(self.source[is_quoted:]):
            cell = f"'{cell}"
        if is_quoted:
            cell = f'"{cell}"'
        elif self.delimiter == "\t" and (self.source.startswith('"') or not cell.startswith('"')):
            cell = re.sub(r"[\t\r\n]+", " ", cell)
        elif cell.startswith('"') or re.search(f"[{re.escape(self.delimiter)}\r\n]", cell):
            cell = '"{}"'.format(cell.replace('"', '""'))
        written[:] = [cell]
