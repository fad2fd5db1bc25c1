"""Marks: how inline tags and things to keep travel through a model, and how they come back.

A document is taken apart into literals, which are copied, and blocks, which are translated (`text.document`). In a block's
text, a pair of inline tags is `<g1>…</g1>` and whatever stands alone (an empty tag, a placeholder, a URL) is `<x1/>`,
numbered from 1 in the order of the source. `build` makes blocks out of what a parser found; `restore` puts the source's own
notation back. `kept` says whether an output has the marks of its source; the functions below it are for outputs that do not.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Literal as Choice
from typing import Protocol, TypeAlias, runtime_checkable

Writer = Callable[[str], str]
"""Writes translated characters in the notation of their place in the source, such as `&` as `&amp;`."""

Edge: TypeAlias = tuple[int, int, bool]
"""An opening or closing mark of a pair: its place in a list of written parts, its number, and whether it closes."""


@runtime_checkable
class ArrangingWriter(Protocol):
    """A writer that also changes what stands at the edges of pairs. Texts and marks alternate in `written`."""

    def __call__(self, text: str, /) -> str: ...

    def arrange(self, written: list[str], edges: Sequence[Edge]) -> None: ...


Notation = Callable[[Iterable[tuple[str, str]]], Writer]
"""Makes a block's writer from its texts between two marks, each as it is shown and as the source writes it."""

Spans = Callable[[str], Iterable[tuple[int, int]]]
"""Start and end of what is to be kept in a text, in order and not overlapping."""

MARK = re.compile(r"<(/?)g(\d{1,5})>|<x(\d{1,5})/>")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark stands for, as the source has it. `closing` is that of a pair; None: it stands alone.

    `word`: it is a part of the sentence (a placeholder, a URL) that a model may also read as it is.
    """

    opening: str
    closing: str | None = None
    word: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A part of a document that is copied."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document that is translated: text with marks, of which `marks[0]` has the number 1."""

    text: str
    marks: tuple[Mark, ...] = ()
    writer: Writer | None = None  # None: characters are written as they are


Piece: TypeAlias = Literal | Block


@dataclass(frozen=True, slots=True)
class Item:
    """What a parser found in a block, in the source's order.

    `source` is the item's own notation, byte for byte. Of a text, `shown` is what the model reads (entities decoded), and
    `offsets` has for each index of `shown`, and for its end, the index in `source`; empty where the two are equal.
    `open` and `close` are inline tags that form pairs by `name`. A `single` stands alone; `word` says that it is part of a
    sentence (a placeholder, a URL), which it therefore never leaves.
    """

    kind: Choice["text", "open", "close", "single"]
    source: str
    shown: str = ""
    name: str = ""
    offsets: Sequence[int] = ()
    word: bool = False

    def part(self, start: int, stop: int) -> Item:
        """Characters `start` to `stop` of a text."""
        if not self.offsets:
            return Item.text(self.shown[start:stop])
        offsets = self.offsets[start : stop + 1]
        source = self.source[offsets[0] : offsets[-1]]
        return Item.text(source, self.shown[start:stop], [offset - offsets[0] for offset in offsets])

    @classmethod
    def text(cls, source: str, shown: str | None = None, offsets: Sequence[int] = ()) -> Item:
        return cls("text", source, source if shown is None else shown, offsets=offsets)


# ---- from items to pieces


@dataclass(slots=True)
class _Node:
    """A text, a single, or a pair with its content."""

    item: Item
    closing: Item | None = None
    content: list[_Node] = field(default_factory=lambda: list[_Node]())


def build(
    items: Iterable[Item], keep: Spans | None = None, writer: Writer | None = None, notation: Notation | None = None
) -> list[Piece]:
    """The pieces of one block's items; concatenated in their source notation they are the items' sources.

    What `keep` finds in texts stands alone. Tags that are not well nested, or nested too deeply, stand alone. White space,
    tags and symbols at the edges are literals, and a block without letters is one literal. `notation` makes the writer
    from how the block's texts are written.
    """
    head, nodes, tail = _without_edges(deque(_tree(_with_kept(items, keep))))
    marks: list[Mark] = []
    texts: list[_Node | str] = []
    _number(_merged(nodes), marks, texts)
    text = "".join(part if isinstance(part, str) else part.item.shown for part in texts)
    if not any(map(str.isalpha, MARK.sub("", text))):
        head += map(_source, nodes)
        text = ""
    pieces: list[Piece] = [Literal("".join(head))] if any(head) else []
    if text:
        pieces.append(Block(text, tuple(marks), notation(_written_texts(texts)) if notation else writer))
    ending = "".join(reversed(tail))
    return [*pieces, Literal(ending)] if ending else pieces


_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


def _stripped(text: str) -> str:
    """Without white space and characters that are not seen at its end: a model would drop them."""
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] in _INVISIBLE):
        end -= 1
    return text[:end]


def _without_edges(nodes: deque[_Node]) -> tuple[list[str], deque[_Node], list[str]]:
    """Sources of what comes before the block, the block's nodes, and the reversed sources of what comes after it."""
    head: list[str] = []
    tail: list[str] = []
    while True:
        while nodes and _is_edge(nodes[0]):
            head.append(_source(nodes.popleft()))
        while nodes and _is_edge(nodes[-1]):
            tail.append(_source(nodes.pop()))
        if len(nodes) != 1 or nodes[0].closing is None:
            break
        pair = nodes[0]
        head.append(pair.item.source)
        tail.append(pair.closing.source if pair.closing else "")
        nodes = deque(pair.content)
    if nodes and nodes[0].item.kind == "text":
        item = nodes.popleft().item
        at = len(item.shown) - len(_stripped(item.shown[::-1]))
        head.append(item.part(0, at).source)
        nodes.appendleft(_Node(item.part(at, len(item.shown))))
    if nodes and nodes[-1].item.kind == "text":
        item = nodes.pop().item
        at = len(_stripped(item.shown))
        tail.append(item.part(at, len(item.shown)).source)
        nodes.append(_Node(item.part(0, at)))
    return head, nodes, tail


def _written_texts(texts: Iterable[_Node | str]) -> Iterator[tuple[str, str]]:
    """What is shown between two marks, and how the source writes it."""
    for is_text, between in groupby(texts, key=lambda part: isinstance(part, _Node)):
        if is_text:
            nodes = [part.item for part in between if isinstance(part, _Node)]
            yield "".join(item.shown for item in nodes), "".join(item.source for item in nodes)


def _with_kept(items: Iterable[Item], keep: Spans | None) -> Iterator[Item]:
    """Texts cut at what is to be kept, and at what looks like a mark itself."""
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
            yield replace(kept, kind="single", word=word)
            at = stop
        if at < len(item.shown):
            yield item.part(at, len(item.shown)) if at else item


def _with_texts_joined(items: Iterable[Item]) -> Iterator[Item]:
    """Neighbouring texts as one, so that what they are together is seen."""
    for is_text, group in groupby(items, key=lambda item: item.kind == "text"):
        listed = list(group)
        if not is_text or len(listed) == 1:
            yield from listed
            continue
        source, shown = "".join(item.source for item in listed), "".join(item.shown for item in listed)
        offsets: list[int] = []
        begin = 0
        for item in listed:
            own = item.offsets or range(len(item.source) + 1)
            offsets.extend(begin + offset for offset in own[:-1])
            begin += len(item.source)
        yield Item.text(source, shown, [] if source == shown else [*offsets, begin])


def _spans(text: str, keep: Spans | None) -> Iterator[tuple[int, int]]:
    found = list(keep(text)) if keep else []
    if "<" not in text:
        yield from found
        return
    at = 0
    for start, stop in [*found, (len(text), len(text))]:
        yield from ((mark.start(), mark.end()) for mark in MARK.finditer(text, at, start))
        if start < stop:
            yield start, stop
        at = stop


_DEEPEST = 20
"""Pairs nested more deeply stand alone; none of a model's outputs would keep them."""


def _tree(items: Iterable[Item]) -> list[_Node]:
    """Opening tags and what they enclose. A tag without its partner in the same content stands alone."""
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
        elif item.kind == "text":
            stack[-1].append(_Node(item))
        else:
            stack[-1].append(_Node(replace(item, kind="single")))
    return stack[0]


def _partners(listed: Sequence[Item]) -> dict[int, int]:
    """For each opening tag that is closed, the index of its closing tag."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    places: dict[str, list[int]] = {}  # by name, where in `opened`
    for index, item in enumerate(listed):
        if item.kind == "open":
            places.setdefault(item.name, []).append(len(opened))
            opened.append(index)
        elif item.kind == "close" and (open_places := places.get(item.name)):
            at = open_places[-1]
            partner[opened[at]] = index
            while len(opened) > at:  # what was opened inside and is not closed stands alone
                places[listed[opened.pop()].name].pop()
    return partner


def _source(node: _Node) -> str:
    return node.item.source + "".join(map(_source, node.content)) + (node.closing.source if node.closing else "")


def _is_blank(node: _Node) -> bool:
    """White space only."""
    return node.item.kind == "text" and not _stripped(node.item.shown)


def _is_edge(node: _Node) -> bool:
    """Whether it need not be in a block that begins or ends with it."""
    if node.closing is not None:
        return all(map(_is_edge, node.content))
    return _is_blank(node) or (node.item.kind == "single" and not node.item.word)


def _merged(nodes: Iterable[_Node]) -> list[_Node]:
    """Neighbouring singles as one, pairs without text as singles, a pair directly in a pair as one: fewer marks to keep."""
    merged: list[_Node] = []
    for found in nodes:
        node = found
        if node.closing is not None:
            node = _Node(node.item, node.closing, _merged(node.content))
            inner = node.content[0] if len(node.content) == 1 else None
            if not any(map(_has_text, node.content)):
                node = _Node(Item("single", _source(node), word=any(map(_is_word, node.content))))
            elif inner is not None and inner.closing is not None and node.closing is not None:
                opening = replace(node.item, source=node.item.source + inner.item.source)
                closing = replace(node.closing, source=inner.closing.source + node.closing.source)
                node = _Node(opening, closing, inner.content)
        between = merged.pop() if len(merged) > 1 and _is_blank(merged[-1]) and _is_single(node) else None
        if between is not None and not (_is_single(merged[-1]) and not (_is_word(merged[-1]) or _is_word(node))):
            merged.append(between)
            between = None
        if merged and _is_single(merged[-1]) and _is_single(node):
            before = merged.pop()
            space = between.item.source if between else ""
            word = before.item.word or node.item.word
            node = _Node(Item("single", before.item.source + space + node.item.source, word=word))
        merged.append(node)
    return merged


def _is_single(node: _Node) -> bool:
    return node.item.kind == "single"


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
            marks.append(Mark(node.item.source, word=node.item.word))
            texts.append(f"<x{number}/>")
            continue
        marks.append(Mark(node.item.source, node.closing.source))
        texts.append(f"<g{number}>")
        _number(node.content, marks, texts)
        texts.append(f"</g{number}>")


# ---- segments of a block


def local(text: str, marks: Sequence[Mark]) -> tuple[str, tuple[Mark, ...]]:
    """A part of a block with its own marks, numbered from 1. A pair of which it has one half becomes a single."""
    if "<" not in text or not marks:
        return text, ()
    halves = Counter(int(found[2]) for found in MARK.finditer(text) if found[2])
    numbers: dict[int, int] = {}
    own: list[Mark] = []

    def renumbered(found: re.Match[str]) -> str:
        old = int(found[2] or found[3])
        mark = marks[old - 1]
        if found[2] and halves[old] == 1:
            own.append(Mark((mark.closing or "") if found[1] else mark.opening))
            return f"<x{len(own)}/>"
        if old not in numbers:
            own.append(mark)
            numbers[old] = len(own)
        return f"<x{numbers[old]}/>" if found[3] else f"<{found[1]}g{numbers[old]}>"

    return MARK.sub(renumbered, text), tuple(own)


# ---- outputs

_VARIANT = re.compile(r"[<＜]\s{0,2}([/／]?)\s{0,2}([gGxXｇｘ])\s{0,2}(\d{1,5})\s{0,2}([/／]?)\s{0,2}[>＞]")


_EMPTY_PAIR = re.compile(r"<x(\d{1,5})/></x\1>|</x(\d{1,5})>")


def normalised(output: str) -> str:
    """The output with marks as they are to be written: models add spaces, close singles, or use full-width characters."""

    def written(found: re.Match[str]) -> str:
        number = int(found[3])
        if found[2] in "xXｘ":
            return f"</x{number}>" if found[1] else f"<x{number}/>"
        return f"</g{number}>" if found[1] else f"<g{number}>"

    if "<" not in output and "＜" not in output:
        return output
    return _EMPTY_PAIR.sub(lambda pair: f"<x{pair[1] or pair[2]}/>", _VARIANT.sub(written, output))


_INVENTED = re.compile(r"<\s?/?\s?[A-Za-z0-9]{1,16}\s?/?\s?>")


def without_invented(source: str, output: str) -> str:
    """The output without tags that a model made up: those of the source are marks. Both have marks as they are written.

    Where the source has no other angle brackets, none are left.
    """
    if "<" not in output and ">" not in output:
        return output
    others = MARK.sub("", source)
    has_brackets = "<" in others or ">" in others

    def cleaned(text: str) -> str:
        text = _INVENTED.sub("", text)
        return text if has_brackets else text.replace("</", "").replace("<", "").replace(">", "")

    return "".join(part if is_mark else cleaned(part) for part, is_mark in parts(output))


def with_words(text: str, marks: Sequence[Mark]) -> str:
    """The text with the words that marks stand for, where they are words: a model may know what to do with them."""
    words = {f"<x{number}/>": mark.opening for number, mark in enumerate(marks, 1) if mark.word}
    return MARK.sub(lambda found: words.get(found[0], found[0]), text) if words else text


def from_words(output: str, marks: Sequence[Mark]) -> str:
    """An output of `with_words`, with the marks again: the first occurrences of each word, in the marks' order.

    A word that the output lacks leaves its mark lost, and one that it has more often stays where it is too much.
    """
    numbers: dict[str, list[int]] = {}
    for number, mark in enumerate(marks, 1):
        if mark.word:
            numbers.setdefault(mark.opening, []).append(number)
    if not numbers:
        return output
    words = re.compile("|".join(re.escape(word) for word in sorted(numbers, key=len, reverse=True)))

    def marked(found: re.Match[str]) -> str:
        left = numbers[found[0]]
        return f"<x{left.pop(0)}/>" if left else found[0]

    return words.sub(marked, output)


def lost(source: str, output: str) -> list[int]:
    """Numbers of marks that the output lacks, has too often or in the wrong order of a pair, ascending."""
    wanted, found = _counted(source), _counted(output)
    wrong = {number for number, _ in (wanted - found) + (found - wanted)}
    opened: list[int] = []
    for mark in MARK.finditer(output):
        if not mark[2]:
            continue
        number = int(mark[2])
        if not mark[1]:
            opened.append(number)
        elif opened and opened[-1] == number:
            opened.pop()
        else:
            wrong.add(number)
    return sorted(wrong | set(opened))


def kept(source: str, output: str) -> bool:
    """Whether the output has each mark of the source once, and pairs well nested."""
    return not lost(source, output) if "<" in source or "<" in output else True


def _counted(text: str) -> Counter[tuple[int, str]]:
    return Counter((int(found[2] or found[3]), found[0]) for found in MARK.finditer(text))


def restore(text: str, marks: Sequence[Mark], writer: Writer | None = None) -> str:
    """The text in the source's notation: marks replaced by what they stand for, characters written by `writer`.

    A mark that the source does not have is dropped.
    """
    if "<" not in text:
        return _written(text, writer)
    written: list[str] = []
    edges: list[Edge] = []
    at = 0
    for found in MARK.finditer(text):
        written.append(_written(text[at : found.start()], writer))
        number = int(found[2] or found[3])
        mark = marks[number - 1] if 0 < number <= len(marks) else Mark("")
        if found[2] and mark.closing is not None:
            edges.append((len(written), number, bool(found[1])))
        written.append((mark.closing or "") if found[1] else mark.opening)
        at = found.end()
    written.append(_written(text[at:], writer))
    if edges and isinstance(writer, ArrangingWriter):
        writer.arrange(written, edges)
    return "".join(written)


def _written(text: str, writer: Writer | None) -> str:
    return writer(text) if writer and text else text


_PAIR_OR_SPACED_SINGLE = re.compile(r"</?g\d{1,5}>| ?<x\d{1,5}/>(?=[\s.,;:!?)]|$)|<x\d{1,5}/>")


def plain(text: str) -> str:
    """The text without marks, for what is checked or shown. A single between two words leaves one space."""
    return _PAIR_OR_SPACED_SINGLE.sub("", text) if "<" in text else text


def parts(text: str) -> list[tuple[str, bool]]:
    """What is between marks, and the marks (True), in order; concatenated they are the text."""
    ends = [0, *(edge for found in MARK.finditer(text) for edge in found.span()), len(text)]
    return [(text[start:stop], bool(number % 2)) for number, (start, stop) in enumerate(pairwise(ends)) if start < stop]


_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+(?:['’]\w+)*")
"""A word; in scripts without spaces, a character."""
_PUNCTUATION = re.compile(r"[^\w\s]*")


def aligned(source: str, output: str) -> str:
    """The output, which has no marks, with those of the source where its length says that they belong.

    What is between two marks gets a part of the output's words, in proportion to its length and one at least where there
    are enough. An opening mark stands directly before a word, a closing one directly after one.
    """
    words = [found.span() for found in _WORD.finditer(output)]
    found = parts(source)
    written: list[str] = []
    at, before = 0, ""
    boundaries = _boundaries(found, len(words))
    for text, is_mark in found:
        if not is_mark:
            before = text
            continue
        boundary = next(boundaries)
        place = at
        if text.startswith("</") or (text.startswith("<x") and before[-1:].strip()):
            if boundary and before:
                place = words[boundary - 1][1]
                if not (before[-1].isalnum() or before[-1].isspace()):
                    punctuation = _PUNCTUATION.match(output, place)
                    place = punctuation.end() if punctuation else place
        elif text.startswith("<g") or before:
            place = words[boundary][0] if boundary < len(words) else len(output)
        place = max(place, at)
        written += [output[at:place], text]
        at, before = place, ""
    return "".join([*written, output[at:]])


def _boundaries(found: Sequence[tuple[str, bool]], words: int) -> Iterator[int]:
    """Of an output with so many words, how many stand before each mark of the source."""
    length = max(sum(len(text) for text, is_mark in found if not is_mark), 1)
    filled = [not is_mark and any(map(str.isalnum, text)) for text, is_mark in found]
    least = int(sum(filled) <= words)  # words for a part that has some
    after = sum(filled)
    passed = boundary = 0
    between = False
    for (text, is_mark), is_filled in zip(found, filled, strict=True):
        if not is_mark:
            passed += len(text)
            after -= is_filled
            between = is_filled
            continue
        if between:
            wanted = round(passed / length * words)
            boundary = max(boundary + least, min(wanted, words - after * least))
        between = False
        yield boundary
