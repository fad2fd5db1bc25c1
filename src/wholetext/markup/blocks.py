"""Builds blocks: the inline tags and texts that a parser found become one text with marks (`text.marks`).

Readings (ruby) are no part of a text: see `_Readings`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from wholetext.markup.marks import MARK, MARK_VARIANT, Block, Edge, Mark, Piece, Verbatim, Writer, restore, source_of
from wholetext.markup.tool_notations import half_of_link

Notation = Callable[[Iterable[tuple[str, str]]], Writer]
"""Makes a block's writer from its texts between two marks, each as it is shown and as the source writes it."""

Spans = Callable[[str], Iterable[tuple[int, int]]]
"""Returns start and end of each span of a text that must be kept, in order and not overlapping."""


@dataclass(frozen=True, slots=True)
class InlineItem:
    """A tag, a text or another item that a parser found in a block.

    `source` is the item as the source writes it, byte for byte. `shown` is what the model reads of a text (entities
    decoded); `offsets` maps each index of `shown`, and its end, to an index of `source`, and is empty where the two are
    equal. `open` and `close` are inline tags that form pairs by `name`. A `single` has no partner; `word` says that it is
    part of a sentence (a placeholder, a URL), so that it never becomes a literal beside the block. `pieces` are those of
    `source` if a value in a tag is translated (its `title`), else empty. `label` (of what
    closes a link) and `look` are those of `Mark`.
    """

    kind: Literal["text", "open", "close", "single"]
    source: str
    shown: str = ""
    name: str = ""
    offsets: Sequence[int] = ()
    word: bool = False
    pieces: tuple[Piece, ...] = ()
    label: str = ""
    look: str = ""

    def part(self, start: int, stop: int) -> InlineItem:
        """Return characters `start` to `stop` of a text item."""
        if not self.offsets:
            return InlineItem.text(self.shown[start:stop])
        offsets = self.offsets[start : stop + 1]
        source = self.source[offsets[0] : offsets[-1]]
        return InlineItem.text(source, self.shown[start:stop], [offset - offsets[0] for offset in offsets])

    @classmethod
    def text(cls, source: str, shown: str | None = None, offsets: Sequence[int] = ()) -> InlineItem:
        return cls("text", source, source if shown is None else shown, offsets=offsets)


@dataclass(slots=True)
class _Node:
    """A text, a single, or a pair with its content."""

    item: InlineItem
    closing: InlineItem | None = None
    content: list[_Node] = field(default_factory=list["_Node"])


def build(
    items: Iterable[InlineItem],
    keep: Spans | None = None,
    writer: Writer | None = None,
    notation: Notation | None = None,
    *,
    readings: bool = False,
) -> list[Piece]:
    """Return the pieces of one block's items; concatenated in their source notation they are the items' sources.

    Spans that `keep` finds in texts become singles, and so do tags that are not well nested or nested too deeply. White
    space, tags and symbols at the edges become literals, which may follow each other; a block without letters is one literal.
    `notation` makes the block's writer from its texts. `readings`: those of the items are text, too.
    """
    listed = list(items)
    if not readings and any("ruby" in item.name or "<ruby" in item.shown for item in listed):
        pieces = _without_readings(listed, lambda bases: _built(bases, keep, writer, notation))
        if pieces is not None:
            return pieces
    before, block, after = _built(listed, keep, writer, notation)
    return [*before, block, *after] if block else _joined([*before, *after])


_Built: TypeAlias = tuple[list[Piece], Block | None, list[Piece]]
"""The pieces before a block, the block if there are letters, and those after it."""


def _built(items: Iterable[InlineItem], keep: Spans | None, writer: Writer | None, notation: Notation | None) -> _Built:
    before, nodes, after = _without_edges(deque(_tree(_with_kept(items, keep))))
    marks: list[Mark] = []
    texts: list[_Node | str] = []
    _number(_merged(nodes), marks, texts)
    text = "".join(part if isinstance(part, str) else part.item.shown for part in texts)
    if not any(map(str.isalpha, MARK.sub("", text))):
        return [*before, *(piece for node in nodes for piece in _pieces(node))], None, [*after]
    block = Block(text, tuple(marks), notation(_written_texts(texts)) if notation else writer)
    return before, block, [*after]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Join neighbouring literals, and drop empty ones."""
    joined: list[Piece] = []
    for is_literal, group in groupby(pieces, key=lambda piece: isinstance(piece, Verbatim)):
        listed = list(group)
        text = "".join(piece.text for piece in listed) if is_literal else ""
        joined += ([Verbatim(text)] if text else []) if is_literal else listed
    return joined


# ---- readings

RUBY, BASE, READING = "ruby", "rb", "rt"
"""Names of items: the element around a base and its reading, the base, and the reading, also as a single."""

_RUBY_TAGS = frozenset({RUBY, BASE, "rbc", READING, "rtc", "rp"})
_READINGS = frozenset({READING, "rtc", "rp"})
_RUBY_TAG = re.compile(r"<(?P<slash>/?)(?P<name>ruby|rbc?|rtc?|rp)(?:[ \t\r\n][^<>]{0,400})?>", re.IGNORECASE)


def _without_readings(items: Iterable[InlineItem], built: Callable[[list[InlineItem]], _Built]) -> list[Piece] | None:
    """Return the pieces of items with ruby, whose block has the bases alone; None if the readings cannot be told.

    The tags and the readings are written again where the text is the source's, and go with a text that is another one.
    """
    listed = [one for item in items for one in _with_ruby_tags(item)]
    bases = _bases(listed)
    if bases is None:
        return None
    source = "".join(item.source for item in listed)
    before, block, after = built(bases)
    if block is None:
        return None if any(item.pieces for item in listed) else [Verbatim(source)]
    before, head = _trimmed(_joined(before), source)
    backwards, tail = _trimmed(_joined(after), source, at_end=True)
    if not (source.startswith(head) and source.endswith(tail)):
        return None
    bare = restore(block.text, block.marks, block.writer)
    readings = _Readings(block.writer, bare, source[len(head) : len(source) - len(tail)])
    return [*before, replace(block, writer=readings), *backwards]


def _trimmed(pieces: list[Piece], source: str, *, at_end: bool = False) -> tuple[list[Piece], str]:
    """Return pieces at an edge of the source, and what they write, without white space that is behind a tag of ruby there."""
    written = "".join(map(source_of, pieces))
    last = pieces[0 if at_end else -1] if pieces else None
    while written and written[0 if at_end else -1].isspace() and isinstance(last, Verbatim):
        if source.endswith(written) if at_end else source.startswith(written):
            break
        last = Verbatim(last.text[1:] if at_end else last.text[:-1])
        written = written[1:] if at_end else written[:-1]
    if last is None:
        return pieces, written
    return ([last, *pieces[1:]] if at_end else [*pieces[:-1], last]), written


def _with_ruby_tags(item: InlineItem) -> Iterator[InlineItem]:
    """Yield a text's items, its tags of ruby among them, but for those that a reference (`&lt;`) makes text of a page."""
    at = 0
    for tag in _RUBY_TAG.finditer(item.shown) if item.kind == "text" else ():
        found = item.part(*tag.span())
        if found.source.startswith("&"):
            continue
        if tag.start() > at:
            yield item.part(at, tag.start())
        yield InlineItem("close" if tag["slash"] else "open", found.source, name=tag["name"])
        at = tag.end()
    if not at:
        yield item
    elif at < len(item.shown):
        yield item.part(at, len(item.shown))


def _bases(items: Iterable[InlineItem]) -> list[InlineItem] | None:
    """Return the items without readings and tags of ruby; None if a reading does not end. End tags of readings are optional."""
    bases: list[InlineItem] = []
    reading = ""
    for item in items:
        name = item.name.removeprefix("<").lower()
        is_tag = item.kind != "text" and name in _RUBY_TAGS
        if (is_tag or reading) and item.pieces:
            return None
        if not is_tag:
            if not reading:
                bases.append(item)
        elif item.kind == "close":
            reading = "" if name in (RUBY, reading) else reading
        elif item.kind == "open" and not (reading == "rtc" and name in (READING, "rp")):
            reading = name if name in _READINGS else ""
    return None if reading else bases


@dataclass(frozen=True, slots=True)
class _Readings:
    """Writes a block whose source has readings, which are aids to read the source's words: a text that is the source's
    (`bare`, in the source's notation) as the source, all others as `writer` does."""

    writer: Writer | None
    bare: str
    source: str

    @property
    def faithful(self) -> bool:
        return getattr(self.writer, "faithful", True)

    def __call__(self, text: str) -> str:
        return self.writer(text) if self.writer else text

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None:
        if arrange := getattr(self.writer, "arrange", None):
            arrange(written, edges)
        if "".join(written) == self.bare:
            written[:] = [self.source]


# ---- what a block is made of

_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


def _stripped(text: str) -> str:
    """Remove white space and invisible characters at the end, which a model would drop."""
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] in _INVISIBLE):
        end -= 1
    return text[:end]


def _without_edges(nodes: deque[_Node]) -> tuple[list[Piece], deque[_Node], deque[Piece]]:
    """Return the pieces before the block, the block's nodes, and the pieces after it."""
    head: list[Piece] = []
    tail = deque[Piece]()
    while True:
        while nodes and _is_edge(nodes[0]):
            head += _pieces(nodes.popleft())
        while nodes and _is_edge(nodes[-1]):
            tail.extendleft(reversed(_pieces(nodes.pop())))
        if len(nodes) != 1 or nodes[0].closing is None or nodes[0].closing.label:
            break
        pair = nodes[0]
        head += _item_pieces(pair.item)
        tail.appendleft(Verbatim(pair.closing.source if pair.closing else ""))
        nodes = deque(pair.content)
    if nodes and nodes[0].item.kind == "text":
        item = nodes[0].item
        if at := len(item.shown) - len(_stripped(item.shown[::-1])):
            head.append(Verbatim(item.part(0, at).source))
            nodes[0] = _Node(item.part(at, len(item.shown)))
    if nodes and nodes[-1].item.kind == "text":
        item = nodes[-1].item
        if (at := len(_stripped(item.shown))) < len(item.shown):
            tail.appendleft(Verbatim(item.part(at, len(item.shown)).source))
            nodes[-1] = _Node(item.part(0, at))
    return head, nodes, tail


def _written_texts(texts: Iterable[_Node | str]) -> Iterator[tuple[str, str]]:
    """Yield each text between two marks as the model reads it, and as the source writes it."""
    for is_text, between in groupby(texts, key=lambda part: isinstance(part, _Node)):
        if is_text:
            nodes = [part.item for part in between if isinstance(part, _Node)]
            yield "".join(item.shown for item in nodes), "".join(item.source for item in nodes)


_TAG = re.compile(r"(?P<bracket>[<\[{])(?P<slash>/?)(?P<name>\w[\w.:-]*)(?:[\s=][^<>]*)?(?<!/)[>\]}]")
"""A tag in a text that may be one of a pair, in the brackets of XML, of BBCode or of Ren'Py."""


def _half_of_pair(kept: str) -> tuple[Literal["open", "close", "single"], str]:
    """Which half of a pair a text that is kept may be, and the pair's name."""
    if tag := _TAG.fullmatch(kept):
        return "close" if tag["slash"] else "open", f"{tag['bracket']}{tag['name']}"
    return half_of_link(kept) or ("single", "")


def _with_kept(items: Iterable[InlineItem], keep: Spans | None) -> Iterator[InlineItem]:
    """Texts cut at what is to be kept, tags of any name and what looks like a mark among it."""
    for item in _with_texts_joined(items):
        if item.kind != "text":
            yield item
            continue
        at = 0
        for start, stop in _spans(item.shown, keep):
            if start > at:
                yield item.part(at, start)
            kept = item.part(start, stop)
            word = any(map(str.isalnum, kept.shown)) or kept.shown[0] in "{%<[$#"
            kind, name = _half_of_pair(kept.shown)
            yield replace(kept, kind=kind, word=word, name=name)
            at = stop
        if at < len(item.shown):
            yield item.part(at, len(item.shown)) if at else item


def _with_texts_joined(items: Iterable[InlineItem]) -> Iterator[InlineItem]:
    """Join neighbouring texts, so that a span that crosses two of them is found."""
    for kind, group in groupby(items, key=attrgetter("kind")):
        listed = list(group)
        if kind != "text" or len(listed) == 1:
            yield from listed
            continue
        source, shown = "".join(item.source for item in listed), "".join(item.shown for item in listed)
        offsets: list[int] = []
        begin = 0
        for item in listed:
            own = item.offsets or range(len(item.source) + 1)
            offsets.extend(begin + offset for offset in own[:-1])
            begin += len(item.source)
        yield InlineItem.text(source, shown, [] if source == shown else [*offsets, begin])


def _spans(text: str, keep: Spans | None) -> Iterator[tuple[int, int]]:
    found = list(keep(text)) if keep else []
    if "<" not in text and "＜" not in text:
        yield from found
        return
    at = 0
    for start, stop in [*found, (len(text), len(text))]:
        yield from ((mark.start(), mark.end()) for mark in MARK_VARIANT.finditer(text, at, start))
        if start < stop:
            yield start, stop
        at = stop


_DEEPEST = 20
"""The tags of pairs that are nested more deeply become singles: no model keeps so many pairs."""


def _tree(items: Iterable[InlineItem]) -> list[_Node]:
    """Nest the items in their pairs of tags. A tag without a partner in the same content becomes a single."""
    listed = list(items)
    partner = _partners(listed)
    closing: set[int] = set()
    stack: list[list[_Node]] = [[]]
    for index, item in enumerate(listed):
        if index in closing:
            stack.pop()
            stack[-1][-1].closing = item
        elif index in partner and len(stack) <= _DEEPEST:
            closing.add(partner[index])
            stack[-1].append(_Node(item))
            stack.append(stack[-1][-1].content)
        elif item.kind in ("text", "single"):
            stack[-1].append(_Node(item))
        else:
            stack[-1].append(_Node(replace(item, kind="single")))
    return stack[0]


def _partners(listed: Sequence[InlineItem]) -> dict[int, int]:
    """Map the index of each opening tag that is closed to the index of its closing tag."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    places: dict[str, list[int]] = {}  # indexes in `opened`, by name
    for index, item in enumerate(listed):
        if item.kind == "open":
            places.setdefault(item.name, []).append(len(opened))
            opened.append(index)
        elif item.kind == "close" and (open_places := places.get(item.name)):
            at = open_places[-1]
            partner[opened[at]] = index
            while len(opened) > at:  # tags that were opened inside and are not closed have no partner
                places[listed[opened.pop()].name].pop()
    return partner


def _item_pieces(item: InlineItem) -> tuple[Piece, ...]:
    return item.pieces or (Verbatim(item.source),)


def _pieces(node: _Node) -> tuple[Piece, ...]:
    """Return a node that is outside of the block's text as literals and translated attribute values."""
    closing = (Verbatim(node.closing.source),) if node.closing else ()
    return (*_item_pieces(node.item), *(piece for one in node.content for piece in _pieces(one)), *closing)


def _together(items: Iterable[InlineItem], *, word: bool) -> InlineItem:
    """Join neighbouring items into one single."""
    listed = list(items)
    source = "".join(item.source for item in listed)
    pieces = _joined(piece for item in listed for piece in _item_pieces(item)) if any(i.pieces for i in listed) else ()
    look = "".join(item.look or item.source for item in listed) if any(item.look for item in listed) else ""
    return InlineItem("single", source, word=word, pieces=tuple(pieces), look=look)


def _items(node: _Node) -> Iterator[InlineItem]:
    yield node.item
    for one in node.content:
        yield from _items(one)
    if node.closing is not None:
        yield node.closing


def _is_blank(node: _Node) -> bool:
    """Whether the node is a text of white space only."""
    return node.item.kind == "text" and not _stripped(node.item.shown)


def _is_edge(node: _Node) -> bool:
    """Whether a node at the beginning or end of a block can be left out of its text."""
    if node.closing is not None:
        return all(map(_is_edge, node.content))
    return _is_blank(node) or (node.item.kind == "single" and not node.item.word)


@dataclass(slots=True)
class _Singles:
    """Singles beside each other, which become one mark."""

    items: list[InlineItem] = field(default_factory=list[InlineItem])
    has_word: bool = False
    has_tag: bool = False

    def add(self, *items: InlineItem) -> None:
        self.items += items
        self.has_word |= any(item.word for item in items)
        self.has_tag |= any("<" in item.source for item in items)

    def take(self, item: InlineItem) -> bool:
        """Whether a single with only white space before it becomes one with these: two tags, or a symbol and its neighbour."""
        if not (self.has_word or item.word):
            return True
        return not (self.has_tag or "<" in item.source) and any(
            one.source.endswith(";") for one in (self.items[-1], item)
        )

    def node(self) -> _Node:
        return _Node(self.items[0] if len(self.items) == 1 else _together(self.items, word=self.has_word))


def _merged(nodes: Iterable[_Node]) -> list[_Node]:
    """Reduce the number of marks: join neighbouring singles and directly nested pairs; pairs without text become singles."""
    merged: list[_Node] = []
    singles = _Singles()
    blank: list[_Node] = []  # the white space after them
    for found in nodes:
        node = found
        if node.closing is not None:
            node = _Node(node.item, node.closing, _merged(node.content))
            inner = node.content[0] if len(node.content) == 1 else None
            if not any(map(_has_text, node.content)):
                node = _Node(_together(_items(node), word=any(map(_is_word, node.content))))
            elif inner is not None and (closing := _closing_of_both(node, inner)):
                both = _together((node.item, inner.item), word=False)
                node = _Node(
                    replace(node.item, source=both.source, pieces=both.pieces, look=both.look), closing, inner.content
                )
        if singles.items and not blank and _is_blank(node):
            blank = [node]
            continue
        is_single = node.item.kind == "single"
        if singles.items and not (is_single and (not blank or singles.take(node.item))):
            merged += (singles.node(), *blank)
            singles, blank = _Singles(), []
        if is_single:
            singles.add(*(one.item for one in blank), node.item)
            blank = []
        else:
            merged.append(node)
    return [*merged, *([singles.node(), *blank] if singles.items else [])]


def _closing_of_both(node: _Node, inner: _Node) -> InlineItem | None:
    """Return what closes a pair and the only one in it; None unless both are pairs that no label tells apart."""
    if node.closing is None or inner.closing is None or node.closing.label or inner.closing.label:
        return None
    return replace(node.closing, source=inner.closing.source + node.closing.source)


def _is_word(node: _Node) -> bool:
    return node.item.word or any(map(_is_word, node.content))


def _has_text(node: _Node) -> bool:
    return (node.item.kind == "text" and not _is_blank(node)) or any(map(_has_text, node.content))


def _number(nodes: Iterable[_Node], marks: list[Mark], texts: list[_Node | str]) -> None:
    """Appends the nodes' marks to `marks`, and to `texts` the nodes of texts and the written marks."""
    for node in nodes:
        if node.item.kind == "text":
            texts.append(node)
            continue
        number = len(marks) + 1
        if node.closing is None:
            marks.append(Mark(node.item.source, word=node.item.word, pieces=node.item.pieces, look=node.item.look))
            texts.append(f"<x{number}/>")
            continue
        item, closing = node.item, node.closing
        marks.append(Mark(item.source, closing.source, pieces=item.pieces, label=closing.label, look=item.look))
        texts.append(f"<g{number}>")
        _number(node.content, marks, texts)
        texts.append(f"</g{number}>")
