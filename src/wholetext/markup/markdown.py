"""Splits Markdown into literals and blocks.

`pyromark` (CommonMark with tables, footnotes, strikethrough, task lists, math, alerts and heading attributes) reports the
source bytes of each event. Bytes between two events are copied, so that a document comes back unchanged however the parser
reads it. Paragraphs, headings, list items and table cells are blocks; a hard break ends a block. Emphasis and links are
pairs. A link whose text is its own label (`[text]`, `[text][]`) gets that label behind another text. Front
matter, code and definitions are copied; `text.html` reads HTML blocks, unless their lines have a prefix such as `> `.

`MarkdownNotation` escapes text that would become markup, and keeps emphasis valid beside other characters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, cast

import pyromark

from wholetext.markup import html
from wholetext.markup.blocks import InlineItem, Spans
from wholetext.markup.dialects import guessed
from wholetext.markup.html import TagRules
from wholetext.markup.marks import Block, Edge, Piece, Verbatim, Writer
from wholetext.markup.masks import LINES, Masks, cut_at_lines
from wholetext.markup.notation import MOST_ITEMS, BlockBuilder, SourceNotation, is_symbol
from wholetext.markup.scan import QUOTE, may_begin_formula, notations
from wholetext.markup.segments import MAX_SEGMENT_CHARACTERS
from wholetext.markup.spans import has_letters

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_TASKLISTS
    | pyromark.Options.ENABLE_MATH
    | pyromark.Options.ENABLE_GFM
    | pyromark.Options.ENABLE_HEADING_ATTRIBUTES
)
FRONT_MATTER = re.compile(
    r"(?:---|\+\+\+)[ \t]*\r?\n(?=#|[\w.\"'-]+[ \t]*[:=])(?:.*\n)*?(?:---|\.\.\.|\+\+\+)[ \t]*(?:\r?\n|\Z)"
)
_PAUSE_EVENTS = 200
_PAUSE_BYTES = 8_000

_DELIMITERS = {"Emphasis": 1, "Strong": 2, "Strikethrough": 2, "Superscript": 1, "Subscript": 1, "Link": 1, "Image": 2}
_SINGLES = frozenset({"Code", "InlineMath", "DisplayMath", "FootnoteReference"})
_SKIPPED = frozenset({"CodeBlock", "MetadataBlock"})
_TRANSLATED_LINKS = ("Inline", "Reference")
_OWN_LABELS = ("Collapsed", "Shortcut")
_OWN_LABEL = re.compile(r"!?\[(.*?)\](?:\[\])?", re.DOTALL)
_PREFIX = re.compile(rb"[ \t>]*")  # of a line that continues a block
_COMMENT = re.compile(r"<!--[^<>]*-->\s*")  # as notations become
_BLANK_LINE = re.compile(r"\n[ \t\r]*(?=\n)")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")


def pieces(text: str, keep: Spans, rules: TagRules | None = None, dialect: str = "") -> Iterator[Piece | None]:
    """Yield pieces whose source notations, concatenated, equal `text`, and None where the caller can pause.

    `dialect`: one of `dialects.DIALECTS`; empty: it is guessed.
    """
    front = FRONT_MATTER.match(text)
    if front:
        yield Verbatim(front[0])
        text = text[front.end() :]
    masks = Masks(text, dialect or guessed(text))
    yield from masks.restored(_Reader(masks, keep, rules or TagRules()).pieces())


@dataclass(slots=True)
class _Pair:
    name: str
    width: int  # bytes of its opening delimiter
    label: str = ""  # of a link whose text it is


class _Reader:
    """Turns the parser's events into pieces. `_at` is the byte up to which the source has been processed."""

    def __init__(self, masks: Masks, keep: Spans, rules: TagRules) -> None:
        self._masks = masks
        self._source = masks.text.encode("utf-8", "surrogatepass")
        parsed = re.sub("[\ud800-\udfff]", "\ufffd", masks.text)  # of the same length in bytes
        self._parsed = parsed.encode()
        self._events = cast("Iterator[tuple[Any, Any]]", pyromark.events_with_range(parsed, options=_OPTIONS))
        self._keep = keep
        self._rules = rules
        self._copied = frozenset(f"<{name}" for name in (*_COPIED, *rules.ignore))
        self._at = 0
        self._items: list[InlineItem] = []
        self._parts: list[tuple[str, str]] = []  # of the current text: as shown, and in the source
        self._characters = 0  # of the block's texts
        self._pairs: list[_Pair] = []
        self._container = ""  # the innermost that has inline content
        self._skipping = 0  # open elements within a skipped one, and that
        self._html: list[tuple[int, int]] | None = None  # the lines of the current HTML block
        self._has_lines = False  # some of the items end a text or begin one
        self._has_labels = re.search(r"^[ \t>]*\[(?:[^\[\]\\]|\\.)*+\]:", parsed, re.MULTILINE) is not None
        self._done: list[Piece] = []

    def pieces(self) -> Iterator[Piece | None]:
        paused = 0
        for number, (event, span) in enumerate(self._events, 1):
            kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
            start, end, at = span["start"], span["end"], self._at
            start, end = start if start > at else at, end if end > at else at
            if kind == "Text" and end - start > MAX_SEGMENT_CHARACTERS and not self._skipping:
                yield from self._long_text(start, end)
            elif kind == "End" and value == "HtmlBlock":
                yield from self._html_block()
            else:
                self._take(kind, value, start, end)
            if self._done:
                yield from self._flush()
            if number % _PAUSE_EVENTS == 0 or self._at - paused > _PAUSE_BYTES:
                paused = self._at
                yield None
        self._end_block()
        self._copy(len(self._source))
        yield from self._flush()

    def _flush(self) -> Iterator[Piece]:
        yield from self._done
        self._done.clear()

    def _take(self, kind: str, value: Any, start: int, end: int) -> None:
        if kind in ("Start", "End"):
            name, data = (value, None) if isinstance(value, str) else next(iter(value.items()))
            (self._start if kind == "Start" else self._end)(name, data, start, end)
        elif self._skipping:
            return
        elif kind == "Text":
            self._text(value, start, end)
        elif kind == "SoftBreak":
            self._soft_break(start, end)
        elif kind == "InlineMath" and self._source[max(start - 1, 0) : start].isalnum():  # of `%1$s and %2$s`
            self._text(self._slice(start, end), start, end)
        elif kind in _SINGLES:
            self._single(start, end, is_word=kind != "FootnoteReference")
        elif kind == "InlineHtml":
            self._inline_html(start, end)
        elif kind == "Html" and self._html is not None:
            self._html.append((start, end))
        elif kind in ("TaskListMarker", "Rule", "HardBreak"):
            self._end_block()
            self._copy(end)

    # -- elements

    def _start(self, name: str, data: Any, start: int, end: int) -> None:
        if self._skipping or name in _SKIPPED:
            self._skipping += 1
            self._end_block()
        elif name not in _DELIMITERS:
            self._end_block()
            self._container = name
            if name == "HtmlBlock":
                self._html = []
        elif name in ("Link", "Image") and data["link_type"] not in _TRANSLATED_LINKS and not self._label(start, end):
            self._single(start, end, is_word=True)
            self._skipping = 1
        else:
            self._place_gap(start)
            width = _DELIMITERS[name]
            if name == "Strikethrough" and self._source[start : start + 2] != b"~~":
                width = 1
            is_label = data is not None and data.get("link_type") in _OWN_LABELS
            self._pairs.append(_Pair(name, width, self._label(start, end) if is_label else ""))
            self._add(InlineItem("open", self._slice(start, start + width), name=name), start + width)

    def _end(self, name: str, data: Any, start: int, end: int) -> None:
        if self._skipping:
            self._skipping -= 1
        elif name not in _DELIMITERS:
            self._end_block()
        elif self._pairs and self._pairs[-1].name == name:
            pair = self._pairs.pop()
            closing = self._at if name in ("Link", "Image") else max(end - pair.width, self._at)
            if pair.label and self._source.startswith(b"[]", end):  # which no event covers
                end += 2
            self._place_gap(closing)
            self._add(InlineItem("close", self._slice(closing, end), name=name, label=pair.label), end)

    def _label(self, start: int, end: int) -> str:
        """The text of a link that is its own label; empty for a wiki link, and where it has no word."""
        found = _OWN_LABEL.fullmatch(self._slice(start, end))
        is_wiki_link = self._source[max(start - 1, 0) : start + 1] == b"[[" and self._source[end : end + 1] == b"]"
        return found[1] if found and not is_wiki_link and has_letters(found[1]) else ""

    def _html_block(self) -> Iterator[Piece | None]:
        """Parse an HTML block as an HTML document, unless its lines have a prefix."""
        lines, self._html = self._html or [], None
        if not lines or any(before[1] != after[0] for before, after in pairwise(lines)):
            return
        self._copy(lines[0][0])
        yield from self._flush()
        source = self._masks.as_html(self._slice(lines[0][0], lines[-1][1]))
        if _COMMENT.fullmatch(source):
            self._copy(lines[-1][1])
            return
        ends_with_blank_line = not _BLANK_LINE.search(source)
        for piece in html.pieces(source, self._masks.keep(self._keep), self._rules):
            if ends_with_blank_line and isinstance(piece, Block):
                yield replace(piece, writer=_WithoutBlankLines(piece.writer))
            else:
                yield piece
        self._at = lines[-1][1]

    # -- inline content

    def _text(self, shown: str, start: int, end: int) -> None:
        source = self._slice(start, end)
        gap = self._source[self._at : start]
        if shown == self._parsed[start:end].decode("utf-8", "replace"):
            shown = source
        if gap.endswith(b"\\") and source and source[0] == shown[:1]:  # an escaped character
            self._place_gap(start - 1)
            self._parts += (source[0], "\\" + source[0]), (source[1:], source[1:])
        else:
            self._place_gap(start)
            if shown != source and (len(shown) != 1 or is_symbol(shown)):
                self._single(start, end)
                return
            self._parts.append((shown, source))
        self._at = end
        self._characters += end - start
        if self._characters > MAX_SEGMENT_CHARACTERS:
            self._end_block()

    def _long_text(self, start: int, end: int) -> Iterator[Piece | None]:
        self._place_gap(start)
        text = self._slice(start, end)
        for begin, stop in self._masks.portions(text):
            self._parts.append((text[begin:stop], text[begin:stop]))
            self._end_block()
            yield from self._flush()
            yield None
        self._at = end

    def _soft_break(self, start: int, end: int) -> None:
        if self._source[self._at : start].strip():
            self._place_gap(start)
        if self._items or self._parts:
            self._parts.append(("\n", self._slice(self._at, end)))
            self._at = end
        else:
            self._copy(end)

    def _inline_html(self, start: int, end: int) -> None:
        self._place_gap(start)
        source = self._masks.as_html(self._slice(start, end))
        tag = _TAG.match(source)
        pieces = tuple(self._tag_pieces(source)) if "=" in source else ()
        if tag is None or source.endswith("/>"):
            self._add(InlineItem("single", source, pieces=pieces), end)
        else:
            kind = "close" if tag[1] else "open"
            self._add(InlineItem(kind, source, name=f"<{tag[2].lower()}", pieces=pieces), end)

    def _tag_pieces(self, tag: str) -> Iterator[Piece]:
        """Yield the pieces of a tag with a value that is text, such as its title; nothing of another one."""
        found = [piece for piece in html.pieces(tag, self._masks.keep(self._keep), self._rules) if piece is not None]
        if any(isinstance(piece, Block) for piece in found):
            yield from found

    def _single(self, start: int, end: int, *, is_word: bool = False) -> None:
        self._place_gap(start)
        self._add(InlineItem("single", self._slice(start, end), word=is_word), end)

    # -- what was found

    def _slice(self, start: int, end: int) -> str:
        return self._source[start:end].decode("utf-8", "surrogatepass")

    def _copy(self, end: int) -> None:
        """Copy everything up to `end` as a literal."""
        if end > self._at:
            self._done.append(Verbatim(self._slice(self._at, end)))
            self._at = end

    def _place_gap(self, start: int) -> None:
        """Place bytes that no event covers: before a block they are copied, after a soft break they are the line's prefix."""
        if start <= self._at:
            return
        if not self._items and not self._parts:
            self._copy(start)
            return
        if self._parts and self._parts[-1][0] == "\n":
            prefix = _PREFIX.match(self._source, self._at, start)
            stop = prefix.end() if prefix else self._at
            self._parts[-1] = ("\n", self._parts[-1][1] + self._slice(self._at, stop))
            self._at = stop
        if start > self._at:
            self._add(InlineItem("single", self._slice(self._at, start)), start)

    def _add(self, item: InlineItem, end: int) -> None:
        self._end_text()
        if item.source:
            self._items.append(item)
        self._at = max(end, self._at)
        if len(self._items) >= MOST_ITEMS:
            self._end_block()

    def _end_text(self) -> None:
        parts = [part for part in self._parts if part[1]]
        self._parts = []
        if not parts:
            return
        self._add_text(parts)

    def _add_text(self, parts: Sequence[tuple[str, str]]) -> None:
        shown, source = "".join(part[0] for part in parts), "".join(part[1] for part in parts)
        offsets: list[int] = []
        if shown == source:
            self._add_shown(InlineItem.text(source))
            return
        at = 0
        for one, written in parts:
            offsets.extend(range(at, at + len(written)) if one == written else (at,))
            at += len(written)
        self._add_shown(InlineItem.text(source, shown, [*offsets, at]))

    def _add_shown(self, item: InlineItem) -> None:
        if QUOTE not in item.source:
            self._items.append(item)
            return
        for one in self._masks.items(item):
            last = self._items[-1] if self._items else None
            self._has_lines |= one.kind == "single" and one.name in LINES
            if one.name == "single" and one.source[0] == "{" and not one.pieces and last and last.kind == "close":
                self._items[-1] = replace(
                    last, source=last.source + one.source
                )  # the attributes of what ends before them
            else:
                self._items.append(one)

    def _end_block(self) -> None:
        if self._masks.dialect == "quarto" and self._parts:
            self._end_with_backslash()
        self._end_text()
        items, self._items, self._characters = self._items, [], 0
        if items:
            for block in cut_at_lines(items) if self._has_lines else (items,):
                self._done += self._built(block)
            self._has_lines = False

    def _end_with_backslash(self) -> None:
        """Keep a backslash that ends a block, which CommonMark shows, and Pandoc reads as a line break."""
        text, source = self._parts[-1]
        if text == source and text.endswith("\\"):
            self._parts[-1] = (text[:-1], text[:-1])
            self._end_text()
            self._items.append(InlineItem("single", "\\"))

    def _built(self, items: list[InlineItem]) -> list[Piece]:
        context = _Context.of(items, self._container, self._has_labels, self._masks.dialect)
        build = BlockBuilder(self._keep, partial(MarkdownNotation, context))
        return build(list(_with_copied_elements(items, self._copied)))


_PLACEHOLDER = re.compile(r"__[A-Z]\w*[\d_]\w*__")
"""A placeholder in capitals, which is not emphasis."""

_COPIED = ("code", "kbd", "samp", "var", "svg", "math", "script", "style")


def _with_copied_elements(items: list[InlineItem], names: frozenset[str]) -> Iterator[InlineItem]:
    """Yield the items, with untranslated inline HTML elements, and names like `__PH0__`, as one single each."""
    closing = {item.name: at for at, item in enumerate(items) if item.kind == "close" and item.name in names}
    stop = -1
    for at, item in enumerate(items):
        if at < stop:
            continue
        emphasis = "".join(one.source for one in items[at : at + 3]) if item.source == "__" else ""
        if _PLACEHOLDER.fullmatch(emphasis):
            stop = at + 3
            yield InlineItem("single", emphasis, word=True)
        elif item.kind == "open" and closing.get(item.name, -1) > at:
            stop = next(n for n in range(at, len(items)) if items[n].kind == "close" and items[n].name == item.name) + 1
            yield InlineItem("single", "".join(one.source for one in items[at:stop]), word=True)
        else:
            yield item


# ---- writing


@dataclass(frozen=True, slots=True)
class _Context:
    """Properties of a block in the source: how it breaks lines, which signs it writes as entities or escapes, and which not."""

    container: str
    has_labels: bool
    line_break: str
    entities: dict[str, str]
    raw: str
    dialect: str

    @classmethod
    def of(cls, items: Iterable[InlineItem], container: str, has_labels: bool, dialect: str) -> _Context:
        breaks: dict[str, int] = {}
        entities: dict[str, str] = {}
        raw: list[str] = []
        for item in items:
            if item.kind != "text":
                continue
            if not item.offsets:
                raw.append(item.shown)
                continue
            for at, character in enumerate(item.shown):
                source = item.source[item.offsets[at] : item.offsets[at + 1]]
                if source == character:
                    raw.append(character)
                elif character == "\n":
                    breaks[source] = breaks.get(source, 0) + 1
                elif source[0] == "&" or (character in "{}\\" and source[0] == "\\"):
                    entities.setdefault(character, source)
        raw_text = "".join(raw)
        line_break = max(breaks, key=breaks.__getitem__) if breaks else "\n" if "\n" in raw_text else " "
        entities = {sign: form for sign, form in entities.items() if sign not in raw_text}
        signs = "".join(sign for sign in "~$" if sign in raw_text)
        return cls(container, has_labels, line_break, entities, signs, dialect)


_RISKY = r"\\*_`\[\]<&~$|"
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*)(?:;|$)|&#?$")
_TAG_START = re.compile(r"<(?:[A-Za-z/!?]|$)")
_LINE_START = re.compile(
    r"(?P<number>[0-9]{1,9})(?=[.)](?:\s|$))|[-+](?=\s|$)|#{1,6}(?=\s|$)|>|=+\s*$|(?:[-_]\s*+){2,}$|(?=[:|\s]*-)[-:|][-:|\s]*$"
)
_DELIMITERS_FIRST = re.compile(r"[*_~]")
_DELIMITERS_LAST = re.compile(r"[*_~]$")
_LINE_BREAK = re.compile(r"[ \t]*(?:\r\n?|\n)\s*")


class MarkdownNotation(SourceNotation):
    """Writes text so that no Markdown parser reads markup in it; begins each line with the block's prefix."""

    def __init__(self, context: _Context, texts: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__()
        self._context = context
        more = "{}" if context.dialect == "mdx" else ""
        self._risky = re.compile(f"[{_RISKY}{more}{re.escape(''.join(context.entities))}]")
        pairs = list(texts)
        self._sources = [source for _, source in pairs]
        is_within = context.container in (
            "Heading",
            "TableCell",
        )  # a line: what begins it is no markup if the source has it
        self._begins_within = is_within and _LINE_START.match("".join(self._sources[:1])) is not None
        self.learn(pairs)

    def write(self, text: str) -> str:
        begins = text[: len(text) - len(text.lstrip("\r\n"))]
        has_brackets = "[" in text or "]" in text
        escaped = has_brackets and (self._context.has_labels or not _brackets_are_text(text))
        lines = [self._line(line, escaped) for line in _LINE_BREAK.split(text[len(begins) :])]
        return (self._context.line_break if begins else "") + self._context.line_break.join(lines)

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        """Keep delimiters of emphasis valid, which they are only beside certain characters (CommonMark 6.2).

        White space at the inner edges moves outside; `_` within a word becomes `*`; a space separates a letter from a
        delimiter that has punctuation on its other side. What reads as a tool's notation is escaped. The source's own texts,
        whose delimiters are valid, do not change.
        """
        if [text for text in written[::2] if text] == self._sources:
            return
        for place, _, closes in edges:
            if closes and _DELIMITERS_FIRST.match(written[place]):
                inner = written[place - 1]
                written[place - 1] = inner.rstrip()
                written[place + 1] = inner[len(written[place - 1]) :] + written[place + 1]
            elif not closes and _DELIMITERS_LAST.search(written[place]):
                inner = written[place + 1]
                written[place + 1] = inner.lstrip()
                written[place - 1] += inner[: len(inner) - len(written[place + 1])]
        in_words = {number for place, number, closes in edges if _neighbour(written, place, after=closes).isalnum()}
        for place, number, closes in edges:
            delimiters = (_DELIMITERS_LAST.search if closes else _DELIMITERS_FIRST.match)(written[place])
            if number not in in_words or delimiters is None:
                continue
            if set(written[place]) == {"_"}:
                written[place] = "*" * len(written[place])
            outer = _neighbour(written, place, after=closes)
            if outer.isalnum() and _is_punctuation(_neighbour(written, place, after=not closes, own=True)):
                at = place + 1 if closes else place - 1
                written[at] = " " + written[at] if closes else written[at] + " "
        if self._context.dialect != "commonmark":
            _escape_notations(written, self._context.dialect)
            _escape_brackets(written)

    def _line(self, line: str, brackets: bool) -> str:
        raw = {sign for sign in self._context.raw if line.count(sign) == 1}
        line = self._risky.sub(lambda found: self._sign(line, found.start(), brackets, raw), line)
        start = None if self._begins_within else _LINE_START.match(line)
        if start and start["number"]:
            return f"{start['number']}\\{line[start.end() :]}"
        if start:
            return "\\" + line
        if self._context.container == "Heading" and line.endswith("#"):
            return line[:-1] + "\\#"
        return line

    def _sign(self, line: str, at: int, brackets: bool, raw: set[str]) -> str:
        sign = line[at]
        if sign in self._context.entities:  # which is no markup, and reads as such behind a backslash
            return self._context.entities[sign]
        if sign in "[]":
            is_markup = brackets
        elif sign in "~$":
            is_markup = sign not in raw
        elif sign in "{}" or (sign == "<" and self._context.dialect == "mdx"):
            is_markup = sign != "<" or not line[at + 1 : at + 2].isspace()
        elif sign == "|":
            is_markup = self._context.container == "TableCell"
        else:
            is_markup = _is_markup(line, at)
        return "\\" + sign if is_markup else sign


def _neighbour(written: Sequence[str], place: int, *, after: bool, own: bool = False) -> str:
    """Return the character before or after a mark and equal delimiters; with `own` also look inside the mark."""
    step = 1 if after else -1
    at = place if own else place + step
    kind = written[place][:1] if after == own else written[place][-1:]
    while 0 <= at < len(written):
        rest = written[at].lstrip(kind) if after else written[at].rstrip(kind)
        if rest:
            return rest[0] if after else rest[-1]
        at += step
    return " "


def _is_punctuation(character: str) -> bool:
    return character in _PUNCTUATION or unicodedata.category(character)[0] == "P"


def _is_markup(line: str, at: int) -> bool:
    """Whether the sign at `at` could be markup, for any text before and after the line."""
    sign, before, after = line[at], line[at - 1 : at] if at else "", line[at + 1 : at + 2]
    match sign:
        case "\\":
            return not after or after in _PUNCTUATION
        case "*":
            return not (before.isspace() and after.isspace())
        case "_":
            return not ((before.isspace() and after.isspace()) or (before.isalnum() and after.isalnum()))
        case "<":
            return _TAG_START.match(line, at) is not None
        case "&":
            return _REFERENCE.match(line, at) is not None
        case _:
            return True


def _brackets_are_text(text: str) -> bool:
    """Whether brackets are balanced, and none begins a footnote or a task or is followed by a link's target."""
    depth = 0
    for found in re.finditer(r"[\[\]]", text):
        depth += 1 if found[0] == "[" else -1
        if depth < 0:
            return False
    return depth == 0 and not re.search(r"\[\^|\][(\[:]|\]$|^\[[ xX]?\]", text)


_MOST_ESCAPES = 8


def _escape_notations(written: list[str], dialect: str) -> None:
    """Escape the first signs of what would be read as a tool's notation in texts: the source's own notations are marks."""
    for _ in range(_MOST_ESCAPES):
        ends = list(accumulate(map(len, written)))
        places = [(bisect_right(ends, start), start) for start in reversed(notations("".join(written), dialect))]
        found = [(part, start - (ends[part - 1] if part else 0)) for part, start in places if part % 2 == 0]
        if not found:
            break
        for part, at in found:
            text = written[part]
            written[part] = text[:at] + _NOTATION_START.sub(_escaped, text[at : at + 2], count=1) + text[at + 2 :]


def _escape_brackets(written: list[str]) -> None:
    """Write opening brackets as references where the block has such a one, and where it does not close one: behind a backslash
    it may begin a formula of LaTeX, which a bracket of another block would end. A block has all of them in one way: else a
    reader would not know in which to write them."""
    opened: list[tuple[int, int]] = []
    for part in range(0, len(written), 2):
        for found in _ESCAPED_SIGN.finditer(written[part]):
            if found[0][1] == "[":
                opened.append((part, found.end()))
            elif found[0][1] == "]" and opened:
                opened.pop()
    # Behind the first one is every command; behind the last one is a word only if one is behind all.
    ends = (*opened[:1], *opened[-1:])
    if any(_BRACKET_REFERENCE in text for text in written[::2]) or any(
        may_begin_formula("".join((written[part][at:], *written[part + 1 :]))) for part, at in ends
    ):
        for part in range(0, len(written), 2):
            written[part] = _ESCAPED_SIGN.sub(_as_reference, written[part])


_BRACKET_REFERENCE = f"&#{ord('[')};"


def _as_reference(found: re.Match[str]) -> str:
    return _BRACKET_REFERENCE if found[0][1] == "[" else found[0]


_ESCAPED_SIGN = re.compile(r"\\[\s\S]")
_NOTATION_START = re.compile(r"\\(?P<bracket>[\[(])|[!-/:-@\[-`{-~]")


def _escaped(found: re.Match[str]) -> str:
    if found["bracket"]:
        return f"&#{ord(found['bracket'])};"
    return f"\\{found[0]}"


@dataclass(frozen=True, slots=True)
class _WithoutBlankLines:
    """Writes the texts of an HTML block, which a blank line would end."""

    writer: Writer | None

    def __call__(self, text: str) -> str:
        return _BLANK_LINE.sub("", self.writer(text) if self.writer else text)

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        if arrange := getattr(self.writer, "arrange", None):
            arrange(written, edges)
