"""Splits plain text into literals and blocks: paragraphs, list items, table cells, and the texts in ICU messages.

The literals and the restored blocks, concatenated, equal the text. A paragraph of prose is one block that includes its line
breaks. List items, cells and other lines that are not prose are each a block; bullets, numbers, indentation, tabs and line
ends are literals. An ICU message is split at its plural and select arguments, and each of their branches is a block
(https://unicode-org.github.io/icu/userguide/format_parse/messages/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from wholetext import languages
from wholetext.markup.blocks import InlineItem, Spans, build
from wholetext.markup.marks import Piece, Verbatim, Writer
from wholetext.markup.plurals import plural_categories
from wholetext.markup.segments import MAX_SEGMENT_CHARACTERS, portions

_PAUSE_CHARACTERS = 8000
_PIECE_CHARACTERS = 50
"""The work of one piece, as a number of characters."""

Content = Callable[[str], tuple[list[InlineItem], Writer | None]]
"""Returns the items of a block for a text, and the writer of its characters."""


def pieces(text: str, keep: Spans) -> Iterator[Piece | None]:
    """Yield the text's pieces, and None after the work of about 8,000 characters, so that the caller can pause."""
    done = 0
    for piece in _message(text, keep) if is_message(text) else _split_lines(text, _as_it_is, keep):
        yield piece
        done += len(piece.text) + _PIECE_CHARACTERS
        if done >= _PAUSE_CHARACTERS:
            yield None
            done = 0


def _as_it_is(text: str) -> tuple[list[InlineItem], Writer | None]:
    return [InlineItem.text(text)], None


# ---- lines

_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_SPACE = rf"[^\S{_ENDS}]"
_LINE = re.compile(rf"(?P<blank>(?:{_SPACE}*(?:\r\n|[{_ENDS}])){{1,4000}})|[^{_ENDS}]*(?:\r\n|[{_ENDS}])|[^{_ENDS}]+")
_LEAD = re.compile(rf"(?:{_SPACE}|[\ufeff\u200b])*(?:(?:>{_SPACE}?)+{_SPACE}*)?")
_HEADING = rf"#{{1,6}}{_SPACE}+"
_BULLET = rf"(?:[-*+–—‣◦▪▫●○■□◆◇►▶➤※]{_SPACE}+|[•·・]{_SPACE}*)"
_CHECKBOX = rf"(?:\[[ xX✓]?\]{_SPACE}+|[☐☑☒✓✔✗✘]{_SPACE}*)"
_NUMBER = (
    rf"(?:\d{{1,4}}\){_SPACE}+|\(\d{{1,4}}\){_SPACE}+|（\d{{1,4}}）{_SPACE}*|\d{{1,3}}[、．）](?!\d){_SPACE}*"
    rf"|[①-⑳㉑-㉟㊱-㊿❶-❿➀-➓]{_SPACE}*|\(?[A-Za-z]\){_SPACE}+|\(?[ivxIVX]{{1,6}}\){_SPACE}+"
    rf"|[一二三四五六七八九十]{{1,3}}、(?![一二三四五六七八九十]){_SPACE}*|[（(][一二三四五六七八九十]{{1,3}}[）)]{_SPACE}*)"
)
_MARKER = re.compile(rf"{_HEADING}|{_BULLET}(?:{_CHECKBOX}|{_NUMBER})?|{_CHECKBOX}|{_NUMBER}")
_DOTTED = re.compile(
    rf"(?:\d{{1,3}}(?:\.\d{{1,3}}){{0,4}}\.|\d{{1,3}}(?:\.\d{{1,3}}){{1,4}}|[A-Za-z]\.|[ivxIVX]{{1,5}}\.){_SPACE}+"
)
_MONTH = re.compile(r"jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez", re.IGNORECASE)

_CELLS = re.compile(rf"{_SPACE}*\t{_SPACE}*|{_SPACE}{{3,}}")
_OPTION = re.compile(
    r"(?:--?[A-Za-z?][\w?-]{0,63}|[/+][A-Za-z?][\w?-]{0,31})(?:(?:, ?| ?\| ?| )--?[A-Za-z?][\w?-]{0,63}){0,4}"
    rf"(?:[ =:]\[?<?[A-Z][A-Z0-9_.-]{{0,31}}>?\]?|\[=[\w-]{{1,31}}\]){{0,4}}(?={_CELLS.pattern})"
)
"""The first cell of a list of a command's options. With words behind one space (`-Yes, it is`) it is none."""
_ROW = re.compile(r"\|")
_FINISHED = re.compile(r"[.!?…。！？؟।:：][\"'”’»)\]」』）]*$")
_CONTINUED = re.compile(r"[,;，、；—–-]$")
_WIDE = re.compile(r"[\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]")
_MAX_RECORD_COLUMNS = 48
_MIN_PARAGRAPH_COLUMNS = 100
"""Longer lines are not wrapped prose: one that ends a sentence is a paragraph."""


@dataclass(slots=True)
class _Line:
    """The parts of a line. `marked`: it is an item or a heading. `dotted`: the length of a possible item number."""

    lead: str
    content: str
    end: str
    marked: bool
    dotted: int = 0

    @classmethod
    def of(cls, line: str) -> _Line:
        at = len(_LEAD.match(line)[0])  # type: ignore[index]
        marker = _MARKER.match(line, at)
        dotted = None if marker else _DOTTED.match(line, at)
        at = marker.end() if marker else at
        stop = max(len(line.rstrip()), at)
        return cls(line[:at], line[at:stop], line[stop:], marker is not None, dotted.end() - at if dotted else 0)

    def take_number(self) -> None:
        self.lead += self.content[: self.dotted]
        self.content = self.content[self.dotted :]
        self.marked = True

    @property
    def cells(self) -> re.Pattern[str] | None:
        """Return the separator of the line's cells, if it has any."""
        if self.content[:1] == "|" == self.content[-1:] and len(self.content) > 1:
            return _ROW
        return _CELLS if _CELLS.search(self.content) else None


def _split_lines(text: str, content: Content, keep: Spans, *, at_line_start: bool = True) -> Iterator[Piece]:
    """Yield the lines in groups between blank lines."""
    group: list[_Line] = []
    length = 0
    for found in _LINE.finditer(text):
        if found.lastgroup or found.end() - found.start() > MAX_SEGMENT_CHARACTERS:
            yield from _group(group, content, keep)
            group, length = [], 0
            if found.lastgroup:
                yield Verbatim(found[0])
                continue
            for start, stop in portions(text, *found.span()):
                yield from _block(text[start:stop], content, keep)
            continue
        is_whole = at_line_start or found.start() > 0
        line = (
            _Line.of(found[0]) if is_whole else _Line("", found[0].rstrip(), found[0][len(found[0].rstrip()) :], False)
        )
        length += len(found[0])
        has_words = any(map(str.isalnum, line.content))  # else a rule, such as ***
        if has_words and length <= MAX_SEGMENT_CHARACTERS:
            group.append(line)
            continue
        yield from _group(group, content, keep)
        group, length = ([line], len(found[0])) if has_words else ([], 0)
        if not has_words:
            yield Verbatim(found[0])
    yield from _group(group, content, keep)


def _group(lines: list[_Line], content: Content, keep: Spans) -> Iterator[Piece]:
    dotted = [line for line in lines if line.dotted]
    for line in dotted:
        if len(dotted) > 1 or _is_lone_item(line.content):
            line.take_number()
    at = 0
    while at < len(lines):
        run, separator = _run(lines, at, content)
        at += len(run)
        if len(run) == 1 or _are_records(run):
            for line in run:
                yield from _one_line(line, content, keep)
            continue
        items, writer = content("\n".join(line.content for line in run))
        if separator != "\n":
            items, writer = [_joined([line.content for line in run], separator)], partial(_with_separator, separator)
        yield Verbatim(run[0].lead)
        yield from build(items, keep, writer)
        yield Verbatim(run[-1].end)


def _is_lone_item(content: str) -> bool:
    """Whether a number with a point begins a list item. In "3. Oktober" and "5. místo" it is an ordinal number."""
    number, *words = content.split(None, 2)
    return number[:-1].isdigit() and len(words) > 1 and not words[0][0].islower() and not _MONTH.match(words[0])


def _run(lines: Sequence[_Line], at: int, content: Content) -> tuple[list[_Line], str]:
    """Return the lines from `at` on that may be one paragraph, and the separator between them."""
    run = [lines[at]]
    separator = ""
    for before, line in pairwise(lines[at:]):
        between = before.end + line.lead
        if line.marked or line.cells or before.cells or (separator and between != separator):
            break
        if line.lead != before.lead and not before.marked and (separator or line.lead):
            break
        if before.lead.rstrip().endswith("#") or before.end.strip(" ") not in _JOINED_ENDS:
            break
        if content is not _as_it_is and between != "\n":
            break
        finished = _FINISHED.search(before.content) and not line.content[:1].islower()
        if finished and (before.marked or _columns(before.content) >= _MIN_PARAGRAPH_COLUMNS):
            break
        run.append(line)
        separator = between
    return run, separator


_JOINED_ENDS = frozenset({"\n", "\r\n", "\r", "\u2028", "\x85"})


def _are_records(run: Sequence[_Line]) -> bool:
    """Whether short lines are records, not prose: most end neither a sentence nor a clause, and none continues another."""
    if any(line.content[:1].islower() for line in run[1:]):
        return False
    before_last = [line.content for line in run[:-1]]
    if max(map(_columns, before_last)) > _MAX_RECORD_COLUMNS:
        return False
    open_ended = sum(not (_FINISHED.search(one) or _CONTINUED.search(one)) for one in before_last)
    return 2 * open_ended >= len(before_last)


def _columns(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


def _joined(contents: Sequence[str], separator: str) -> InlineItem:
    """Yield one block of several lines, whose separators in the text the model reads as line breaks."""
    shown = "\n".join(contents)
    offsets: list[int] = []
    at = 0
    for one in contents:
        offsets += range(at, at + len(one) + 1)
        at += len(one) + len(separator)
    return InlineItem.text(separator.join(contents), shown, offsets)


def _with_separator(separator: str, text: str) -> str:
    return text.replace("\n", separator)


def _one_line(line: _Line, content: Content, keep: Spans) -> Iterator[Piece]:
    yield Verbatim(line.lead)
    separators = line.cells
    option = _OPTION.match(line.content) if separators is _CELLS else None
    at = option.end() if option else 0
    if option:
        yield Verbatim(option[0])
    for found in separators.finditer(line.content, at) if separators else ():
        yield from _block(line.content[at : found.start()], content, keep)
        yield Verbatim(found[0])
        at = found.end()
    yield from _block(line.content[at:], content, keep)
    yield Verbatim(line.end)


def _block(text: str, content: Content, keep: Spans) -> list[Piece]:
    items, writer = content(text)
    return build(items, keep, writer)


# ---- ICU MessageFormat

MAX_MESSAGE_CHARACTERS = 32_000
"""Longer texts are not parsed as messages: all braces are matched before the first piece."""

_MAX_DEPTH = 16
_COMPLEX = re.compile(
    r"\{\s{0,9}[\w.-]{1,64}\s{0,9},\s{0,9}(plural|selectordinal|select)\s{0,9},\s{0,99}(?:offset\s?:\s?\d+)?"
)
_SELECTOR = re.compile(r"\s{0,999}(=\d+|[\w-]+)\s{0,99}(?=\{)")
_QUOTED = r"'[{}](?:[^']|'')*+'"
_BRACES = re.compile(rf"''|{_QUOTED}|[{{}}]")
_KEPT = re.compile(rf"(?P<apostrophe>'')|{_QUOTED}|\{{[^{{}}]*+\}}")
_KEPT_IN_PLURAL = re.compile(rf"{_KEPT.pattern}|#")


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A text in a message, from `start` to `stop`; everything between two parts is syntax.

    `nested`: it is in a branch. `plural`: `#` in it stands for the number.
    """

    start: int
    stop: int
    nested: bool = False
    plural: bool = False


@dataclass(frozen=True, slots=True)
class _Argument:
    """A plural, selectordinal or select argument. Each branch has a keyword, and start and end of its text."""

    kind: str
    start: int
    stop: int
    branches: tuple[tuple[str, int, int], ...]


def is_message(text: str) -> bool:
    """Whether the text seems to have a plural or select argument."""
    return "{" in text and len(text) <= MAX_MESSAGE_CHARACTERS and _COMPLEX.search(text) is not None


def message_parts(text: str) -> list[MessagePart]:
    """Return the texts in a message and in its nested messages, in order. Text that is not a message is one part."""
    pairs = _pairs(text)
    parts: list[MessagePart] = []
    pending = [(0, len(text), 0, False)]
    while pending:
        start, stop, depth, plural = pending.pop()
        argument = _next_argument(text, start, stop, pairs) if depth < _MAX_DEPTH else None
        end = argument.start if argument else stop
        if end > start:
            parts.append(MessagePart(start, end, nested=depth > 0, plural=plural))
        if argument:
            is_plural = argument.kind != "select"
            pending.append((argument.stop, stop, depth, plural))
            pending += [(one, other, depth + 1, is_plural or plural) for _, one, other in reversed(argument.branches)]
    return parts


_BOUND = r"\s?(?:-?\d{1,9}|[+-]?[Ii]nf|\*)\s?"
_CONDITION = re.compile(rf"\s{{0,9}}(?:\{{{_BOUND}(?:,{_BOUND}){{0,9}}\}}|[\[\]]{_BOUND},{_BOUND}[\[\]])\s{{0,9}}")
_CHOICE = re.compile(r"\s{0,9}\((?:\d{1,9}|inf)?-?(?:\d{1,9}|inf)?\)\[(?P<text>[^\[\]]*+)\](?:;|\s{0,9}\Z)")


def choice_parts(text: str) -> list[MessagePart]:
    """Return the texts of a choice by intervals, in order; none if the text is no choice.

    It is one of i18next (`(0)[none];(1-inf)[some];`) or of Symfony and Laravel (`{0} none|[1,Inf] some`).
    """
    parts: list[MessagePart] = []
    at = 0
    if found := _CHOICE.match(text):
        while found := _CHOICE.match(text, at):
            parts.append(MessagePart(*found.span("text")))
            at = found.end()
        return parts if not text[at:].strip() else []
    if "|" not in text or not _CONDITION.match(text):
        return []
    for one in text.split("|"):
        condition = _CONDITION.match(one)
        parts.append(MessagePart(at + condition.end() if condition else at, at + len(one)))
        at += len(one) + 1
    return parts


def message_items(text: str, *, plural: bool = False) -> tuple[list[InlineItem], Writer | None]:
    """Return the items of a part of a message; arguments, quoted syntax and `#` in a plural's branch are singles.

    A doubled apostrophe is read as one, and written as two if the part has only doubled ones.
    """
    kept = list((_KEPT_IN_PLURAL if plural else _KEPT).finditer(text))
    doubled = sum(found.lastgroup == "apostrophe" for found in kept)
    quotes = sum(found[0].count("'") for found in kept)
    single = text.count("'") > quotes
    items: list[InlineItem] = []
    run = 0

    def close_text(stop: int) -> None:
        if stop > run:
            source = text[run:stop]
            items.append(_without_doubled(source) if doubled and not single else InlineItem.text(source))

    for found in kept:
        if found.lastgroup == "apostrophe" and not single:
            continue
        close_text(found.start())
        items.append(InlineItem("single", found[0], word=True))
        run = found.end()
    close_text(len(text))
    if single:
        return items, None
    return items, _with_doubled if doubled else _with_last_doubled


def _without_doubled(source: str) -> InlineItem:
    offsets: list[int] = []
    at = 0
    for part in source.split("''"):
        offsets += range(at, at + len(part) + 1)
        at += len(part) + 2
    return InlineItem.text(source, source.replace("''", "'"), offsets)


def _with_doubled(text: str) -> str:
    return text.replace("'", "''")


def _with_last_doubled(text: str) -> str:
    """Double an apostrophe before an argument or the end of a branch, where it would quote the brace."""
    return f"{text}'" if text.endswith("'") else text


def _message(text: str, keep: Spans) -> Iterator[Piece]:
    at = 0
    for part in message_parts(text):
        yield Verbatim(text[at : part.start])
        inner = text[part.start : part.stop]
        if part.nested:
            yield from _block(inner, partial(message_items, plural=part.plural), keep)
        else:
            at_line_start = part.start == 0 or text[part.start - 1] == "\n"
            yield from _split_lines(inner, message_items, keep, at_line_start=at_line_start)
        at = part.stop
    yield Verbatim(text[at:])


def _pairs(text: str) -> dict[int, int]:
    """Map each brace that is not quoted to its closing brace, in the order of the opening ones."""
    closed: dict[int, int] = {}
    opened: list[int] = []
    for found in _BRACES.finditer(text):
        if found[0] == "{":
            opened.append(found.start())
        elif found[0] == "}" and opened:
            closed[opened.pop()] = found.start()
    return dict(sorted(closed.items()))


def _next_argument(text: str, start: int, stop: int, pairs: Mapping[int, int]) -> _Argument | None:
    for found in _COMPLEX.finditer(text, start, stop):
        if found.start() in pairs and (argument := _argument(text, found, pairs)):
            return argument
    return None


def _argument(text: str, head: re.Match[str], pairs: Mapping[int, int]) -> _Argument | None:
    stop = pairs[head.start()]
    branches: list[tuple[str, int, int]] = []
    at = head.end()
    while keyword := _SELECTOR.match(text, at, stop + 1):
        opening = keyword.end()
        if opening not in pairs:
            return None
        at = pairs[opening] + 1
        branches.append((keyword[1], opening + 1, pairs[opening]))
    if not branches or text[at:stop].strip():
        return None
    return _Argument(head[1], head.start(), stop + 1, tuple(branches))


# The categories of ordinal numbers by CLDR 47's rules, for the languages of the catalogue, as babel 2.18 gives them:
# {form(n) for n in range(1001)} | {"other"}, form being babel.Locale.parse(tag).ordinal_form.
_ORDINAL_CATEGORIES = {
    "one few many other": "az",
    "few other": "be uk",
    "one two few many other": "bn gu hi",
    "one two few other": "ca en mr",
    "zero one two few many other": "cy",
    "one other": "fil fr ga hu hy lo ms ne ro sv vi",
    "many other": "it kk",
    "one many other": "ka sq",
    "one two many other": "mk",
}


_ORDINALS = {tag: tuple(names.split()) for names, tags in _ORDINAL_CATEGORIES.items() for tag in tags.split()}
_CATEGORIES: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "plural": plural_categories,
    "selectordinal": lambda target: _ORDINALS.get(languages.primary(target), ("other",)),
}


def icu_plural_categories_missing(text: str, target: str) -> tuple[str, ...]:
    """Return the target language's plural categories for whole numbers that a plural of the message lacks."""
    if not is_message(text):
        return ()
    pairs = _pairs(text)
    missing: dict[str, None] = {}
    for head in _COMPLEX.finditer(text):
        argument = _argument(text, head, pairs) if head.start() in pairs else None
        if argument and argument.kind in _CATEGORIES:
            present = {keyword for keyword, _, _ in argument.branches}
            needed = _CATEGORIES[argument.kind](target)
            missing |= dict.fromkeys(category for category in needed if category not in present)
    return tuple(missing)
