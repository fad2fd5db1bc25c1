"""Finds the notations of `dialects` in Markdown, and writes tokens in their place; `masks` makes the tokens and puts back.

Each text is read once, from left to right; what ends a notation is looked up behind the last place where it was found, so that
the work is linear for any text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.dialects import NOTATIONS, RAW, TEXT_PARAMETERS, WITH_OLD_RULES, Notation, has_markdown, has_title
from wholetext.markup.marks import Block, Piece, Verbatim

QUOTE = "\u2016"  # punctuation that has no meaning in Markdown or HTML
FIRST, BASE = 0xF0000, 4096
_DIGIT = f"[{chr(FIRST)}-{chr(FIRST + BASE - 1)}]"
TOKEN = re.compile(f"{QUOTE}({_DIGIT}{{2}})w?\\[?{QUOTE}")

Kind = Literal["word", "single", "open", "close", "line", "item", "head", "end"]
"""Of a token. `line` and `item` are on lines of their own; `head` begins the line and the text of a title, `end` ends both."""


@dataclass(frozen=True, slots=True)
class NotationToken:
    kind: Kind
    source: str
    name: str = ""  # of a pair
    pieces: tuple[Piece, ...] = ()  # of `source`, if a value in it is translated
    mark: str = ""  # `[`: brackets around it are no label of a link


_SPACE_IN_ADDRESS = r"\([^()\n ]{1,300}+[ ]"
_PLACE = (
    r"\n(?=[ \t>]*+(?:[^\sA-Za-z>|#\"'_,.]|import\b|export\b|[A-Za-z]{1,6}[.)]\s|[A-Z]{3,20}:\s|[A-Za-z][\w-]{0,40}::[ \t]))"
    r"|`(?:[^`\n]++`(?!`))?+|\\(?=[!-/:-@\[-`{-~]|begin\{)|\{"
    r"|<(?=[A-Za-z/!%])"
    rf"|\[(?=[\[!@/-]|[a-z][\w-]*+ [\w-]++=|[^\[\]]{{1,300}}+\](?:\{{|[ ]?\r?\n?[ \t>]*+\[|{_SPACE_IN_ADDRESS}))"
    rf"|!(?=\[(?:\[|bg|[a-z-]{{1,20}}:[\w%]|[^\[\]\n]{{0,300}}+\]{_SPACE_IN_ADDRESS}))|:(?=[A-Za-z])"
    r"|@(?=[\[\w{])|\^(?=[\[^\w])"
    r"|\((?=@|\([0-9a-f]|\d{1,2}\)!|[A-Za-z][\w:.-]{0,80}\)[ \t]*+(?:\r?\n|\Z))|\+(?=\+\w)|==(?=[^\s=])|%(?=[%\[])|\$(?=t\()"
    r"|~(?=[^\s~])|\u2016"
)
"""Where a notation may begin: a line, or a sign. Each branch begins with a sign, so that other text is passed quickly."""
_PLACES = re.compile(_PLACE)
_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+)*[.,!?…]?")
_PLACES_OF_CJK = re.compile(rf"{_PLACE}|\*(?=\S)|~(?=~[^\s~])")


@dataclass(frozen=True, slots=True)
class _Finder:
    """The patterns of a dialect's notations, whose groups are named by their rows."""

    rows: dict[str, Notation]
    line: re.Pattern[str]  # behind a line's start
    inline: re.Pattern[str]

    def match(self, text: str, place: re.Match[str]) -> re.Match[str] | None:
        """The notation that begins at a place."""
        return self.line.match(text, place.end()) if place[0] == "\n" else self.inline.match(text, place.start())


@cache
def _finder(dialect: str, has_cjk: bool, has_markdown_in_html: bool) -> _Finder:
    """The notations of a dialect that a text may have."""
    without = {form for form, has in (("emphasis", has_cjk), ("enclosing", has_markdown_in_html)) if not has}
    rows = {
        f"n{number}": row
        for number, row in enumerate(NOTATIONS)
        if (not row.only or dialect in row.only) and row.form not in without
    }

    def either(first: bool) -> str:
        unnamed = ((name, row.pattern.replace("(?P<text>", "(?:")) for name, row in rows.items() if row.first is first)
        return "|".join(f"(?P<{name}>{pattern})" for name, pattern in unnamed)

    marker = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|:[ \t]{1,3})?"
    line = rf"[ \t>]*+{marker}(?:{either(True)})"
    inline = rf"(?P<token>{TOKEN.pattern.replace('(', '(?:')})|{either(False)}"
    return _Finder(rows, re.compile(line, re.MULTILINE), re.compile(inline, re.MULTILINE))


@cache
def _pattern(notation: Notation) -> re.Pattern[str]:
    return re.compile(notation.pattern, re.MULTILINE)


_CJK_LETTERS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_CJK = re.compile(f"[{_CJK_LETTERS}]")
_LINE_START = re.compile(r"(?:\A|\n)[ \t>]*+\Z")
_MOST_INDENTATION = 60
_REST_IS_BLANK = re.compile(r"[ \t]*+(?=\r?\n|\Z)")
_LINE_REST = re.compile(r"[^\r\n]*")
_BLANK_LINE = r"\n[ \t>]*+\r?(?=\n|\Z)"
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")
_LONGEST_FENCE = 20  # longer ones are as long
_MOST_FENCES = 16  # of one length that are looked at for an end
_FENCES = re.compile(r"^[ \t>]*+(?:\{%[^%{}\n]{1,40}%\})?+(`{3,}|~{3,}|:{3,})[ \t]*+\r?$", re.MULTILINE)


class _Ends:
    """Finds what ends a notation, from left to right: each search begins where the last one of its kind ended."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, re.Match[str] | None] = {}
        self._runs: dict[int, list[int]] | None = None
        self._fences: dict[tuple[str, int], list[tuple[int, int, int]]] | None = None
        self._environments: dict[int, int] | None = None

    def search(self, pattern: str, at: int) -> re.Match[str] | None:
        """The first match of the pattern at or behind `at`."""
        known = self._places.get(pattern)
        if pattern in self._places and (known is None or known.start() >= at):
            return known
        found = self._places[pattern] = re.compile(pattern).search(self._text, at)
        return found

    def in_paragraph(self, pattern: str, at: int) -> re.Match[str] | None:
        """The same, before a blank line."""
        found = self.search(pattern, at)
        if found is None:
            return None
        blank = self.search(_BLANK_LINE, at)
        return found if blank is None or found.start() <= blank.start() else None

    def code(self, start: int, stop: int) -> int:
        """The end of the code span that begins with the backticks from `start` to `stop`; `stop` if it has no end."""
        if self._runs is None:
            self._runs = {}
            for run in re.finditer("`+", self._text):
                self._runs.setdefault(len(run[0]), []).append(run.start())
        places = self._runs.get(stop - start, [])
        at = bisect_left(places, stop)
        if at == len(places):
            return stop
        blank = self.search(_BLANK_LINE, stop)
        return places[at] + stop - start if blank is None or places[at] < blank.start() else stop

    def fence(self, sign: str, length: int, column: int, at: int) -> tuple[int, int] | None:
        """Start and stop of the signs that end a fenced block whose own signs are at `column`: one that is indented by more
        than three columns is in the block."""
        if self._fences is None:
            self._fences = {}
            for found in _FENCES.finditer(self._text):
                places = self._fences.setdefault((found[1][0], min(len(found[1]), _LONGEST_FENCE)), [])
                places.append((found.start(1), found.end(1), _columns(found[0][: -len(found[0].lstrip(" \t>"))])))
        nearest: tuple[int, int] | None = None
        for own in range(min(length, _LONGEST_FENCE), _LONGEST_FENCE + 1):
            places = self._fences.get((sign, own), [])
            place = bisect_left(places, (at,))
            for start, stop, own_column in places[place : place + _MOST_FENCES]:
                if nearest is not None and start > nearest[0]:
                    break
                if own_column < column + 4:
                    nearest = (start, stop)
                    break
        return nearest

    def environment(self, start: int) -> int | None:
        """The end of the LaTeX environment that begins at `start`."""
        if self._environments is None:
            self._environments = {}
            opened: list[re.Match[str]] = []
            for found in _ENVIRONMENT.finditer(self._text):
                if found[1] == "begin":
                    opened.append(found)
                elif opened and opened[-1][2] == found[2]:
                    self._environments[opened.pop().start()] = found.end()
        return self._environments.get(start)


@dataclass(frozen=True, slots=True, order=True)
class _Pending:
    """What is written further on: the end of a pair, of a title's line."""

    start: int
    stop: int
    kind: Kind
    name: str = ""


class Scan:
    """Finds the notations of a text, from left to right."""

    def __init__(self, text: str, dialect: str, add: Callable[[NotationToken], str]) -> None:
        self._text = text
        self._dialect = dialect
        self._add = add
        has_cjk = _CJK.search(text) is not None
        self._places = _PLACES_OF_CJK if has_cjk else _PLACES
        self._finder = _finder(dialect, has_cjk, "markdown" in text)
        self._ends = _Ends(text)
        self._labels = {label.casefold() for label in _LABEL.findall(text)}
        self._at = 0  # what is before is written
        self._next = 0  # from where the next notation is looked for
        self._written: list[str] = []
        self.starts: list[int] = []  # of what tokens were written for
        self._pending: list[_Pending] = []
        self._closing: set[int] = set()  # places of the fences that end Markdown
        self._no_emphasis_until = 0
        self._enclosed: list[str] = []  # open elements of HTML whose content is Markdown
        self._is_balanced = True  # no expression was left open so far
        self._forms: dict[str, Callable[[Notation, int, int], None]] = {
            "copied": self._skip,
            "word": self._word,
            "single": self._single,
            "line": self._line,
            "pair": self._pair,
            "title": self._title,
            "item": self._title,
            "until": self._until,
            "fence": self._fence,
            "code": self._code,
            "role": self._role,
            "formula": self._formula,
            "environment": self._environment,
            "emphasis": self._emphasis,
            "tag": self._tag,
            "expression": self._expression,
            "statement": self._statement,
            "enclosing": self._enclosing,
        }

    def parts(self) -> list[str]:
        """The text with tokens, in parts."""
        if found := self._finder.line.match(self._text):
            self._take(found)
        while place := self._places.search(self._text, self._next):
            self._next = place.end()
            if (
                found := None if len(place[0]) > 2 else self._finder.match(self._text, place)
            ):  # a span of code is longer
                self._take(found)
        self._flush(len(self._text))
        self._written.append(self._text[self._at :])
        return self._written

    def _take(self, found: re.Match[str]) -> None:
        """Write tokens for what was found. `_next` is where the next notation may be, also if this is none."""
        name = found.lastgroup or ""
        start, stop = found.span(name)
        if name == "token":  # a text that reads like a token becomes one
            self._put(start, stop, "word")
        elif not self._is_elsewhere(self._finder.rows[name], start):
            row = self._finder.rows[name]
            self._forms[row.form](row, start, stop)

    def _is_elsewhere(self, row: Notation, start: int) -> bool:
        """Whether a notation that needs a quote stands in none."""
        if not row.quoted:
            return False
        begin = max(start - _MOST_INDENTATION, 0)
        return ">" not in self._text[max(self._text.rfind("\n", begin, start), begin) : start]

    # -- writing

    def _flush(self, stop: int) -> None:
        while self._pending and self._pending[0].start <= stop:
            one = self._pending.pop(0)
            if one.kind == "end" or one.start >= self._at:  # a title ends where what began in it does
                one = replace(one, start=max(one.start, self._at), stop=max(one.stop, self._at))
                self._write(
                    one.start, one.stop, self._add(NotationToken(one.kind, self._text[one.start : one.stop], one.name))
                )

    def _write(self, start: int, stop: int, written: str) -> None:
        self._written += (self._text[self._at : start], written)
        self.starts.append(start)
        self._at = stop
        self._next = max(self._next, stop)

    def _put(self, start: int, stop: int, kind: Kind, name: str = "", *, marker: str = "") -> None:
        """Write a token for characters `start` to `stop`, with the values in it that are text."""
        self._flush(start)
        if start < self._at:
            return
        source = self._text[start:stop]
        pieces = () if kind == "head" else _with_values(source)
        kind = "single" if pieces and kind == "word" else kind
        if pieces and kind == "line":
            kind = "head"
            self._write(
                start, stop, self._add(NotationToken(kind, source, pieces=pieces)) + self._add(NotationToken("end", ""))
            )
        else:
            self._write(start, stop, marker + self._add(NotationToken(kind, source, name, pieces)))

    def _later(self, start: int, stop: int, kind: Kind, name: str = "") -> None:
        insort(self._pending, _Pending(start, stop, kind, name))

    def _is_alone(self, start: int, stop: int) -> bool:
        """Whether nothing else is on the lines of a notation."""
        if _REST_IS_BLANK.match(self._text, stop) is None:
            return False
        begin = max(start - _MOST_INDENTATION, 0)
        return _LINE_START.search(self._text[begin:start] if begin == 0 else "x" + self._text[begin:start]) is not None

    def _line_end(self, at: int) -> int:
        found = _LINE_REST.match(self._text, at)
        return found.end() if found else at

    # -- the forms

    def _skip(self, row: Notation, start: int, stop: int) -> None:
        self._next = stop

    def _word(self, row: Notation, start: int, stop: int) -> None:
        self._put(start, stop, "word")

    def _single(self, row: Notation, start: int, stop: int) -> None:
        self._put(start, stop, "line" if self._is_alone(start, stop) else "single")

    def _line(self, row: Notation, start: int, stop: int) -> None:
        self._put(start, stop, "line")

    def _text_group(self, row: Notation, start: int) -> tuple[int, int]:
        found = _pattern(row).match(self._text, start)
        return found.span("text") if found and "text" in found.re.groupindex else (-1, -1)

    def _pair(self, row: Notation, start: int, stop: int) -> None:
        begin, end = self._text_group(row, start)
        if row.name == "wiki link" and self._text[start + 2 : stop - 2].casefold() in self._labels:
            self._put(start, stop, "word")
        elif row.name.startswith("reference ") and not self._is_reference(row, start, stop):
            self._next = start + 1
        elif row.name == "span" and self._text[begin:end].casefold() in self._labels:
            self._next = begin
        elif begin < 0 and self._text.startswith("]:", stop):
            self._write(start, stop, self._add(NotationToken("word", self._text[start:stop], mark="[")))
        elif begin < 0:
            self._put(start, stop, "word")
        else:
            self._put(start, begin, "open", row.name)
            self._next = begin
            self._later(end, stop, "close", row.name)

    def _is_reference(self, row: Notation, start: int, stop: int) -> bool:
        """Whether `[text][label]` is a link that CommonMark does not read: by older rules, or by a label of another file."""
        end, last = self._text.index("]", start), self._text.rindex("[", start, stop)
        text, label = self._text[start + 1 : end].casefold(), self._text[last + 1 : stop - 1].casefold()
        is_defined = (label or text) in self._labels
        if last == end + 1:
            return not is_defined
        if row.only:
            return is_defined and text not in self._labels
        if self._dialect in WITH_OLD_RULES:
            return text not in self._labels
        return text not in self._labels and not is_defined and not _WORDS.fullmatch(label)  # which are of the text

    def _title(self, row: Notation, start: int, stop: int) -> None:
        begin, end = self._text_group(row, start)
        if begin < 0:
            begin = stop
        if end < 0:
            stop = end = self._line_end(stop)
        if row.name == "definition":
            self._put(start, begin, "item", marker="-" + self._text[start + 1 : begin])
        elif row.name in ("field", "numbered example", "lettered item"):
            self._put(start, begin, "item", marker="- ")
        else:
            is_item = row.form == "item"
            self._put(start, begin, "item" if is_item else "head", marker="-   " if is_item else "")
            self._later(end, stop, "end")
        self._next = begin

    def _until(self, row: Notation, start: int, stop: int) -> None:
        may_be_long = row.closer in ("*/}", "-->", "{:/") or (row.closer == "%%" and row.first)
        closer = re.escape(row.closer)
        found = self._ends.search(closer, stop) if may_be_long else self._ends.in_paragraph(closer, stop)
        if found is None:
            return
        end = self._end_of_raw(row, stop, found.end())
        if row.closer == "-->" and self._dialect in _HTML_ENDS_WITH_ITS_TAG and not self._is_alone(start, end):
            self._put(start, end, "single")
        elif row.closer == "-->":
            self._next = end
        else:
            self._put(start, end, self._kind(row, start, end))

    def _kind(self, row: Notation, start: int, stop: int) -> Kind:
        if row.name != "value" and self._is_alone(start, stop):
            return "line"
        return "single" if row.name == "comment" else "word"

    def _end_of_raw(self, row: Notation, start: int, end: int) -> int:
        """The end of a template, of one that encloses code its closing one's."""
        if row.closer == "{:/":
            found = self._ends.search(r"\{:/\w*\}", end - 3)
            return found.end() if found else end
        if row.closer == "}}" and self._text.startswith("}", end):  # of `{{ {"a": 1} }}` and `{{{ a }}}`
            left = self._text.count("{", start - 2, end) - self._text.count("}", start - 2, end)
            while left > 0 and self._text.startswith("}", end):
                left, end = left - 1, end + 1
        name = _TEMPLATE_NAME.match(self._text, start, end)
        if (
            row.closer not in (">}}", "%}}", "%}")
            or name is None
            or RAW.isdisjoint(re.split("[-_]", name[1]))
            or self._text[end - len(row.closer) - 1] == "/"
        ):
            return end
        closing = (
            rf"\{{%-?[ \t]*end{name[1]}[ \t]*-?%\}}"
            if row.closer == "%}"
            else rf"\{{\{{[<%][ \t]*/[ \t]*{name[1]}[ \t]*[>%]\}}\}}"
        )
        found = self._ends.search(closing, end)
        return found.end() if found else end

    def _fence(self, row: Notation, start: int, stop: int) -> None:
        signs = _FENCE_SIGNS.search(self._text, start, stop)
        if signs is None or signs.start() in self._closing:
            return
        is_directive = signs[0][0] == ":"
        line_end, ending = self._line_end(stop), None
        if not is_directive:
            line_start = self._text.rfind("\n", 0, start) + 1
            column = _columns(self._text[line_start : signs.start()])
            ending = self._ends.fence(signs[0][0], len(signs[0]), column, line_end)
        directive = _DIRECTIVE.match(self._text, stop, line_end)
        if directive is None or not has_markdown(directive[1].lower()) or (ending is None and not is_directive):
            self._next = ending[1] if ending else line_end if is_directive else len(self._text)
            if is_directive:
                self._put(start, line_end, "line")
                self._options(line_end)
            elif ending:
                self._code_block(start, line_end, ending, has_options=directive is not None)
            return
        if ending:
            self._closing.add(ending[0])
            self._later(*ending, "line")
        begin = directive.end() if has_title(directive[1].lower()) else line_end
        self._put(signs.start(), begin, "head")
        self._next = begin
        self._later(line_end, line_end, "end")
        self._options(line_end)

    def _code_block(self, start: int, line_end: int, ending: tuple[int, int], *, has_options: bool) -> None:
        """A block of code: what it is given as options may be text, and the tool may find it where CommonMark does not, under
        a line of HTML or with a tag of Liquid before the signs that end it."""
        if has_options and any(map(_is_text, self._options_at(line_end))):
            self._put(start, line_end, "line")
            self._next = ending[1]
            rest = _LINE_BREAK.match(self._text, self._options(line_end))
            if rest:
                self._later(rest.end(), ending[1], "line")
        elif self._dialect in _HTML_ENDS_WITH_ITS_TAG:
            before = max(start - _MOST_INDENTATION, 0)
            if self._text[ending[0] - 1] == "}" or _IS_BEHIND_TAG.search(self._text, before, start):
                self._put(start, ending[1], "line")

    def _options_at(self, at: int) -> Iterator[re.Match[str]]:
        while option := _OPTION.match(self._text, at):
            yield option
            at = option.end()

    def _options(self, at: int) -> int:
        """The lines of options under a directive of MyST, some of which are text. Returns their end."""
        if block := _OPTION_BLOCK.match(self._text, at):
            self._later(block.start(1), block.end(1), "line")
        for option in self._options_at(at):
            at = option.end()
            if _is_text(option):
                self._later(option.start(1), option.start(3), "head")
                self._later(at, at, "end")
            else:
                self._later(option.start(1), at, "line")
        return at

    def _code(self, row: Notation, start: int, stop: int) -> None:
        self._next = self._ends.code(start, stop)

    def _role(self, row: Notation, start: int, stop: int) -> None:
        signs = re.compile("`+").match(self._text, stop)
        end = self._ends.code(stop, signs.end()) if signs else stop
        if signs is None or end == signs.end():
            return
        text = _ABBREVIATION if self._text[start:stop] == "{abbr}" else _ROLE_TARGET
        found = text.match(self._text, signs.end(), end)
        if found and end - found.end() == len(signs[0]):
            self._put(start, found.start(1), "open", row.name)
            self._later(found.end(1), end, "close", row.name)
            self._next = end
        else:
            self._put(start, end, "word")

    def _formula(self, row: Notation, start: int, stop: int) -> None:
        self._next = stop
        opening = self._text[start:stop]
        found = self._ends.in_paragraph(re.escape(opening.replace("(", ")").replace("[", "]")), stop)
        if found is None or self._text[found.end() : found.end() + 1] == "(":
            return
        content = self._text[stop : found.start()]
        is_display = opening[-1] == "[" and self._is_alone(start, found.end())
        if _is_formula(content, display=is_display, in_brackets=opening[-1] == "["):
            self._put(start, found.end(), "line" if is_display else "word")

    def _environment(self, row: Notation, start: int, stop: int) -> None:
        end = self._ends.environment(start)
        if end is not None:
            self._put(start, end, "line" if self._is_alone(start, end) else "word")

    def _emphasis(self, row: Notation, start: int, stop: int) -> None:
        """Emphasis whose delimiters CommonMark does not read: punctuation is inside of one and a letter outside."""
        found = _EMPHASIS.match(self._text, start, stop)
        self._next = start + 1
        if found is None or found[1] != found[3] or start < self._no_emphasis_until:
            return
        self._next, self._no_emphasis_until = found.end(1), stop
        outer = self._text[start - 1 : start], self._text[stop : stop + 1]
        inner = found[2][0], found[2][-1]
        if any(_CJK.fullmatch(one) and _is_punctuation(other) for one, other in zip(outer, inner, strict=True)):
            self._put(start, found.end(1), "open", found[1])
            self._later(found.start(3), stop, "close", found[1])

    def _tag(self, row: Notation, start: int, stop: int) -> None:
        end = self._end_of_tag(stop)
        if end is None:
            self._next = stop
            return
        source = self._text[start:end]
        name = f"<{source.strip('</>').split(None, 1)[0].lower() if source.strip('</> ') else ''}"
        closes, is_empty = source.startswith("</"), source.endswith("/>")
        if self._is_alone(start, end):
            if closes or is_empty or "\n" in source:
                self._put(start, end, "line")
            else:
                self._put(start, end, "item", marker="- ")
        else:
            self._put(start, end, "single" if is_empty else "close" if closes else "open", name)

    def _enclosing(self, row: Notation, start: int, stop: int) -> None:
        """A tag of HTML around Markdown, or in it: what follows it is no HTML."""
        source = self._text[start:stop]
        closes = source[1] == "/"
        name = source[1 + closes : -1].split(None, 1)[0]
        self._next = start + 1
        if not closes and _MARKDOWN_INSIDE.search(source):
            self._enclosed.append(name)
        elif not self._enclosed:
            return
        elif closes and self._enclosed[-1] == name:
            self._enclosed.pop()
        if self._is_alone(start, stop):
            self._put(start, stop, "line")

    def _end_of_tag(self, at: int) -> int | None:
        while True:
            part = _TAG_PART.match(self._text, at)
            sign = part[1] if part else ""
            if part is None or not sign or sign == "<":
                return None
            if sign == ">":
                return part.end()
            if sign == "{":
                end = self._end_of_braces(part.end() - 1)
            else:
                closing = self._ends.search(sign, part.end())
                end = closing.end() if closing else None
            if end is None:
                return None
            at = end

    def _expression(self, row: Notation, start: int, stop: int) -> None:
        end = self._end_of_braces(start)
        if end is not None:
            self._put(start, end, "line" if self._is_alone(start, end) else "word")

    def _end_of_braces(self, at: int) -> int | None:
        """The end of the JavaScript whose first bracket is at `at`. One that is left open is the last that is looked for."""
        depth = 0
        if not self._is_balanced:
            return None
        for found in _JAVASCRIPT.finditer(self._text, at):
            depth += (found[0] in "{[(") - (found[0] in "}])")
            if depth <= 0 and found[0] in "}])":
                return found.end()
        self._is_balanced = False
        return None

    def _statement(self, row: Notation, start: int, stop: int) -> None:
        found = _IMPORT.match(self._text, start) or _EXPORT.match(self._text, start)
        if found is None:
            return
        end = found.end()
        if self._text.startswith("export", start):
            end = self._end_of_statement(found.end() - len(found[1]))
        if end is not None:
            self._put(start, end, "line")

    def _end_of_statement(self, at: int) -> int | None:
        """The end of the last line before a blank one, or before another statement, that no bracket encloses."""
        while True:
            line_end = self._line_end(at)
            opening = _BRACKET.search(self._text, at, line_end)
            if opening is None:
                following = _LINE_REST.match(
                    self._text, min(line_end + 1 + self._text.startswith("\r\n", line_end), len(self._text))
                )
                if (
                    line_end >= len(self._text)
                    or following is None
                    or not following[0].strip()
                    or _IMPORT_OR_EXPORT.match(following[0])
                ):
                    return line_end
                at = following.start()
            else:
                end = self._end_of_braces(opening.start())
                if end is None:
                    return None
                at = end


def notations(text: str, dialect: str) -> list[int]:
    """Where the notations in a text begin. Most texts have none, which is seen at once."""
    if _PLACES_OF_CJK.search(f"\n{text}") is None:
        return []
    scan = Scan(text, dialect, lambda token: "")
    scan.parts()
    return scan.starts


_LABEL = re.compile(r"^ {0,3}\[([^\[\]\n]{1,200})\]:", re.MULTILINE)
_TEMPLATE_NAME = re.compile(r"-?[ \t]*([\w-]+)")
_MARKDOWN_INSIDE = re.compile(r"\smarkdown(?:=\"(?:1|block|span)\"|(?=[\s>]))")
_OPTION = re.compile(r"\r?\n[ \t>]*+(:([\w-]++):[ \t]*+([^\r\n]*))")
_OPTION_BLOCK = re.compile(
    r"\r?\n[ \t>]*+(---[ \t]*+\r?\n(?:[ \t>]*+(?!---)[^\n]*+\n){0,40}[ \t>]*+---[ \t]*+)(?=\r?\n)"
)
_LINE_BREAK = re.compile(r"\r?\n[ \t>]*+")
_IS_TEXT_PARAMETER = re.compile(rf"(?!label\Z)(?:{TEXT_PARAMETERS})")
"""Of a directive, whose label is a name."""


def _is_text(option: re.Match[str]) -> bool:
    return _IS_TEXT_PARAMETER.fullmatch(option[2]) is not None and any(map(str.isalpha, option[3]))


_FENCE_SIGNS = re.compile("`{3,}|~{3,}|:{3,}")
_HTML_ENDS_WITH_ITS_TAG = frozenset({"jekyll", "mkdocs"})
"""Dialects in which a block of HTML does not go on up to a blank line."""
_IS_BEHIND_TAG = re.compile(r">[ \t]*+\r?\n[ \t]*+\Z")
_DIRECTIVE = re.compile(r"[ \t]*\{([\w:-]+)\}[ \t]*")
_ABBREVIATION = re.compile(r"[^`()]*\(([^`()]*)\)")
_ROLE_TARGET = re.compile(r"([^<>`]*[^\s<>`])\s*<[^<>`]+>")
_EMPHASIS = re.compile(r"(\*{1,3}|~~)([^*~\n]+)(\*{1,3}|~~)")
_TAG_PART = re.compile(r"[^{\"'<>]*+([{\"'<>]?)")
_JAVASCRIPT = re.compile(
    r"[{}()\[\]]|\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|`(?:[^`\\]|\\.)*+`|/\*(?:[^*]|\*(?!/))*+\*/|(?<![:\w])//[^\n]*+"
)
"""What matters for the end of JavaScript in brackets: these, and what may hold brackets that do not count."""
_BRACKET = re.compile(r"[{(\[]")
_IMPORT = re.compile(
    r"import\b(?:\s*(?:type\s+)?(?:[\w$*, ]{1,200}|[\w$, ]{0,80}\{[^{}]{0,3000}\})\s*from)?"
    r"\s*(?:\"[^\"\n]+\"|'[^'\n]+')[ \t]*;?(?=[ \t]*\r?$)",
    re.MULTILINE,
)
_EXPORT = re.compile(
    r"export[ \t]+(?:(?:const|let|var)[ \t]+(?:[\w$]+[ \t]*[=:]|[{\[])|(?:async[ \t]+)?function\b[^\n(]{0,80}\("
    r"|class[ \t]+\w|(?:type|interface)[ \t]+\w+|\{|\*[ \t]*from"
    r"|default[ \t]+(?:function|class|async|[({\[]|[\w$.]+[ \t]*(?:;|\(|=>|\r?$)))()",
    re.MULTILINE,
)
_IMPORT_OR_EXPORT = re.compile(r"(?:import|export)\b")


def _columns(indentation: str) -> int:
    return len(indentation) if "\t" not in indentation else len(indentation.expandtabs(4))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")


def _is_formula(content: str, *, display: bool, in_brackets: bool) -> bool:
    """Whether the text between brackets behind backslashes is a formula, and not words with brackets that are escaped.

    Square brackets are escaped often, so that a formula in them has a command, or an operator and either lines of its own or no
    word.
    """
    if len(content) > _MOST_FORMULA or not any(map(str.isalnum, content)) or _NO_FORMULA.search(content):
        return False
    if in_brackets and not display:
        is_operation = _OPERATION.search(content) is not None and _PROSE.search(content) is None
        return is_operation or ("\n" not in content and _COMMAND.search(content) is not None)
    if in_brackets:
        return _OPERATION.search(content) is not None
    return bool(_OPERATION.search(content)) or not _PROSE.search(content)


def may_begin_formula(text: str) -> bool:
    """Whether a text behind `\\[` could be the beginning of what `_is_formula` finds."""
    return _PROSE.search(text) is None or _COMMAND.search(text) is not None


_NO_FORMULA = re.compile(r"\\[\[(]|^[ \t]*(?:[-=]{2,}|[-*+][ \t]|\d+[.)][ \t]|[#>|])", re.MULTILINE)
"""Another one that begins, or a block."""
_MOST_FORMULA = 10_000
_COMMAND = re.compile(r"(?<!\\)\\[A-Za-z]{2,}")
_OPERATION = re.compile(rf"{_COMMAND.pattern}|\w ?[=^] ?[\w\\{{(-]")

# ---- values in notations

_VALUE = re.compile(
    rf"(?<![\w-])(?:{TEXT_PARAMETERS})[ \t]*=[ \t]*(?:\"(?P<double>[^\"\\\n{{}}<>]+)\"|'(?P<single>[^'\\\n{{}}<>]+)')"
    r"|(?<=[\w>%<] )\"(?P<words>[^\"\\\n{}<>/=]+ [^\"\\\n{}<>/=]+)\"(?=[ >%])"
)
_IS_NO_TEXT = re.compile(r"[\w.-]*[/\\_=][^ ]*|[a-z0-9-]+\.[a-z0-9.]+|[^A-Za-z\u00c0-\U0003ffff]*")


def _with_values(source: str) -> tuple[Piece, ...]:
    """The pieces of a notation: the values in it that are text are blocks. Empty if none is."""
    if '"' not in source and "'" not in source:
        return ()
    pieces: list[Piece] = []
    at = 0
    for found in _VALUE.finditer(source):
        group = found.lastgroup or "double"
        value = found[group]
        if (group == "words" and not source.startswith("{{")) or _IS_NO_TEXT.fullmatch(value):
            continue
        quote = "'" if group == "single" else '"'
        built = build([InlineItem.text(value)], writer=partial(_without_quote, quote))
        if any(isinstance(piece, Block) for piece in built):
            pieces += (Verbatim(source[at : found.start(group)]), *built)
            at = found.end(group)
    return (*pieces, Verbatim(source[at:])) if pieces else ()


def _without_quote(quote: str, text: str) -> str:
    """Write a value between quotes, which no tool lets one escape in the same way: another one is in their place."""
    return " ".join(text.replace(quote, "'" if quote == '"' else "\u2019").split("\n"))
