"""A paragraph of runs as text with marks, and back: what docx, pptx and xlsx have in common.

Programs cut a sentence into runs for spelling checks, languages and revisions. Here neighbouring runs that look alike are one
text; the look that most characters have carries no mark, each other look is a pair of marks. Links, insertions and content
controls are pairs too. Line breaks, notes, drawings, fields and formulas are single marks.

In a region's pieces, everything but characters is an atom: a reference (`\\x02 number \\x03`, which XML cannot contain) to
something of the source. `RunComposer` writes runs around the characters: as in the source where the text is the source's.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape, unescape

from wholetext.files.xmlpart import Element, Text
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import Piece, Writer
from wholetext.markup.notation import MOST_ITEMS, Place, decoded

Span: TypeAlias = tuple[int, int]

_ATOM = re.compile("\x02([0-9]+)\x03")
_SPACES = (b" ", "\N{NO-BREAK SPACE}".encode())
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…]['\"”’»)\]]*\s*\Z")
_DEEPEST_PAIR = 16
_LOOK_BYTES = 1_000
_XML = Place(xml=True)


@dataclass(frozen=True, slots=True)
class RunRules:
    """How a format writes paragraphs of runs. All names are of elements.

    `pairs` are elements around runs, each with the element that holds them if that is not itself. `breaks` are line breaks,
    `cuts` are between texts that are no sentence together. `invisible` may go from a translation. `ignored` do not show in
    a run's look, nor do the attributes `ignored_attributes`. `opaque` returns why a run of these properties is not translated.
    """

    run: str
    properties: str
    text: str
    pairs: Mapping[str, str] = field(default_factory=dict[str, str])
    breaks: Collection[str] = ()
    cuts: Collection[str] = ()
    invisible: Collection[str] = ()
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: Collection[str] = ()
    ignored_attributes: Collection[str] = ()
    opaque: Callable[[Element], str] = lambda _: ""
    escapes: re.Pattern[str] | None = (
        None  # what stands for single characters in texts, and neighbouring line feeds if they are shown
    )
    space_attribute: bool = True  # white space at the edges of a text needs xml:space


@dataclass(frozen=True, slots=True)
class TextRun:
    """A run of the source: its tags, its properties, and its look, which is equal for runs that look alike."""

    opening: Span
    properties: Span
    closing: Span
    look: Hashable = ()
    opaque: str = ""


Kind: TypeAlias = Literal["text", "single", "break", "cut", "invisible", "open", "close"]


@dataclass(slots=True)
class Leaf:
    """Something in a paragraph, in order: a text, the tag of a pair, or anything else, which is copied.

    `span` is its source with the white space before it; of a text it is that of its opening tag, `closing` of its closing
    tag. `run` is the one that it is in. `pair` is equal for the two tags of a pair. `depth` counts the pairs around it.
    """

    kind: Kind
    element: Element
    span: Span
    run: TextRun | None = None
    closing: Span = (0, 0)
    pair: str = ""
    depth: int = 0
    shown: str = ""
    parts: list[Leaf] = field(default_factory=lambda: list[Leaf]())  # instead of its own span


class Paragraph:
    """Reads the leaves of one paragraph. `looks` remembers the look of each notation of properties in a part."""

    def __init__(self, data: bytes, rules: RunRules, looks: dict[bytes, tuple[Hashable, str]]) -> None:
        self._data = data
        self._rules = rules
        self._looks = looks
        self._pairs = 0

    def leaves(self, element: Element, depth: int = 0, inside: Element | None = None) -> Iterator[Leaf]:
        """Yield the leaves of an element's content in order; without gaps, so that white space between tags is kept."""
        holder = inside or element
        at = holder.content
        for child in holder.elements:
            span = (at, child.end)
            if child.name == self._rules.run:
                yield from self._of_run(child, at, depth)
            elif child.name == self._rules.text:
                run = TextRun((at, at), (at, at), (child.end, child.end))
                yield self._text(child, at, run, depth)
            elif child.name in self._rules.pairs and depth < _DEEPEST_PAIR:
                yield from self._of_pair(child, at, depth)
            else:
                yield Leaf(self._kind(child), child, span, depth=depth, shown=self._rules.shown.get(child.name, ""))
            at = child.end

    def _of_pair(self, element: Element, at: int, depth: int) -> Iterator[Leaf]:
        name = self._rules.pairs[element.name]
        holder = element.child(name) if name else element
        if holder is None or holder.content == holder.end:
            yield Leaf("single", element, (at, element.end), depth=depth)
            return
        self._pairs += 1
        pair = f"pair{self._pairs}"
        yield Leaf("open", element, (at, holder.content), pair=pair, depth=depth)
        yield from self.leaves(element, depth + 1, holder)
        last = holder.elements[-1].end if holder.elements else holder.content
        yield Leaf("close", element, (last, element.end), pair=pair, depth=depth)

    def _of_run(self, element: Element, at: int, depth: int) -> Iterator[Leaf]:
        children = element.elements
        properties = children.pop(0) if children and children[0].name == self._rules.properties else None
        content = properties.end if properties else element.content
        last = children[-1].end if children else content
        if not children or element.content == element.end:
            yield Leaf("invisible", element, (at, element.end), depth=depth)
            return
        look, opaque = self._look(properties)
        run = TextRun((at, element.content), (element.content, content), (last, element.end), look, opaque)
        at = content
        for child in children:
            if child.name == self._rules.text:
                yield self._text(child, at, run, depth)
            elif child.name == "w:ruby":  # its base alone: the reading is that of the source
                for inner in ((base := child.child("w:rubyBase")) and base.elements) or ():
                    yield from self._of_run(inner, inner.start, depth) if inner.name == self._rules.run else ()
            else:
                shown = self._rules.shown.get(child.name, "")
                yield Leaf(self._kind(child), child, (at, child.end), run, depth=depth, shown=shown)
            at = child.end

    def _text(self, element: Element, at: int, run: TextRun, depth: int) -> Leaf:
        if element.content == element.close:
            return Leaf("invisible", element, (at, element.end), run, depth=depth)
        if run.opaque:
            return Leaf("single", element, (at, element.end), run, depth=depth)
        return Leaf("text", element, (at, element.content), run, (element.close, element.end), depth=depth)

    def _kind(self, element: Element) -> Kind:
        rules = self._rules
        if element.name in rules.cuts or (element.name in rules.breaks and element.get("w:type") in ("page", "column")):
            return "cut"
        return "break" if element.name in rules.breaks else "invisible" if element.name in rules.invisible else "single"

    def _look(self, properties: Element | None) -> tuple[Hashable, str]:
        if properties is None:
            return (), ""
        notation = self._data[properties.start : properties.end]
        if notation not in self._looks:
            look = self._canonical(properties)
            self._looks[notation] = (() if not any(look[1:]) else look), self._rules.opaque(properties)
        return self._looks[notation]

    def _canonical(self, element: Element, depth: int = 0) -> tuple[str, Hashable, Hashable]:
        rules = self._rules
        if depth > _DEEPEST_PAIR:
            return element.name, self._data[element.start : element.end], ()
        attributes = sorted(item for item in element.attributes.items() if item[0] not in rules.ignored_attributes)
        children = [self._canonical(child, depth + 1) for child in element.elements if child.name not in rules.ignored]
        if any(name in rules.ignored_attributes for name in element.attributes) and not attributes and not children:
            return ("", (), ())
        kept = sorted((child for child in children if child[0]), key=repr)
        return element.name, tuple(attributes), tuple(kept)


def _look_of(leaf: Leaf) -> Hashable:
    return leaf.run.look if leaf.run else ()


# ---- from leaves to blocks


@dataclass(slots=True)
class Atom:
    """What a reference stands for: leaves that are copied, the tag of a pair, or the beginning or end of a look."""

    kind: Literal["copy", "open", "close", "look", "end", "next"]
    leaf: Leaf | None = None
    texts: list[Leaf] = field(default_factory=lambda: list[Leaf]())  # of a look: the first text of each group


class Blocks:
    """Builds the pieces of one paragraph from its leaves, and the composer that writes them."""

    def __init__(self, data: bytes, rules: RunRules) -> None:
        self._data = data
        self._rules = rules
        self._atoms: list[Atom] = []
        self._base: Hashable = ()
        self._base_atom = Atom("look")
        self._look: Atom | None = None  # of the pair that is open
        self._waiting: list[InlineItem] = []  # what came since the last text
        self._invisible: list[str] = []  # the sources of what came since the last item
        self._before: Leaf | None = None  # the last text, if only invisible leaves came after it
        self._items: list[InlineItem] = []
        self._has_text = False  # in the items
        self._last: Kind = "cut"
        self._pieces: list[Piece] = []

    def pieces(self, leaves: Iterable[Leaf]) -> list[Piece]:
        """Return the paragraph's pieces: a block for each part between two cuts."""
        listed = list(leaves)
        lengths = Counter[Hashable]()
        for leaf in listed:
            if leaf.kind == "text" and self._raw(leaf) not in _SPACES:
                lengths[_look_of(leaf)] += leaf.closing[0] - leaf.span[1]
        self._base = lengths.most_common(1)[0][0] if lengths else ()
        self._join_spaces(listed)
        for leaf in listed:
            self._add(leaf)
        self._end_block()
        return self._pieces

    @property
    def composer(self) -> RunComposer:
        return RunComposer(self._data, self._atoms, self._base_atom, space_attribute=self._rules.space_attribute)

    def _join_spaces(self, leaves: list[Leaf]) -> None:
        """Make a space of another look than all text around it, such as a bold one between plain words, a character of that
        text: a mark without text would hide it from a model. Only the source's own text has it as a run."""
        texts = [at for at, leaf in enumerate(leaves) if leaf.kind == "text"]
        for before, at, after in zip([-1, *texts], texts, [*texts[1:], len(leaves)], strict=False):
            leaf = leaves[at]
            if self._raw(leaf) not in _SPACES:
                continue
            sides = [
                leaves[other]
                for other in (before, after)
                if 0 <= other < len(leaves)
                and all(one.kind == "invisible" for one in leaves[min(at, other) + 1 : max(at, other)])
            ]
            if sides and _look_of(leaf) not in (self._base, *map(_look_of, sides)):
                shown = self._raw(leaf).decode("utf-8")
                leaves[at] = replace(leaf, kind="single", span=(leaf.span[0], leaf.closing[1]), shown=shown)

    def _raw(self, text: Leaf) -> bytes:
        return self._data[text.span[1] : text.closing[0]]

    def _written(self, start: int, stop: int) -> str:
        """The source's notation, cut where it is long: that of a picture has no end."""
        return self._data[start : min(stop, start + _LOOK_BYTES)].decode("utf-8", "replace")

    def _reference(self, atom: Atom) -> str:
        self._atoms.append(atom)
        return f"\x02{len(self._atoms) - 1}\x03"

    def _add(self, leaf: Leaf) -> None:
        if leaf.kind == "invisible" and not leaf.shown:
            self._invisible.append(self._copy(leaf))
            self._last = leaf.kind
            return
        self._hide()
        if leaf.kind == "text":
            self._add_text(leaf)
        elif leaf.kind in ("open", "close"):
            self._end_look()
            kind = "open" if leaf.kind == "open" else "close"
            item = InlineItem(kind, self._copy(leaf), name=leaf.pair, look=self._written(*leaf.span))
            self._items.append(item)
            self._before = None
        elif leaf.shown:
            source = self._copy(leaf)
            self._waiting.append(InlineItem.text(source, leaf.shown, [0, len(source)]))
        elif leaf.depth == 0 and (leaf.kind == "cut" or (leaf.kind == "break" and self._ends_line(""))):
            self._end_block()
            self._waiting.append(InlineItem("single", self._copy(leaf)))
            self._end_block()
        else:
            self._waiting.append(InlineItem("single", self._copy(leaf), look=self._written(*leaf.span)))
            self._before = None
        self._last = leaf.kind
        if len(self._items) + len(self._waiting) > MOST_ITEMS and leaf.depth == 0:
            self._end_block()

    def _copy(self, leaf: Leaf) -> str:
        if leaf.parts:
            return "".join(map(self._copy, leaf.parts))
        return self._reference(Atom(leaf.kind if leaf.kind == "open" or leaf.kind == "close" else "copy", leaf))

    def _hide(self) -> None:
        """Put invisible leaves into the item before them: they are written again only where the text is the source's."""
        source, self._invisible = "".join(self._invisible), []
        items = self._waiting or self._items
        if not source:
            return
        if not items:
            items.append(InlineItem("single", source))
        elif items[-1].kind == "text":
            items.append(InlineItem.text(source, "", [0]))
        else:
            items[-1] = replace(items[-1], source=items[-1].source + source)

    def _add_text(self, leaf: Leaf) -> None:
        look = _look_of(leaf)
        if self._look is not None and _look_of(self._look.texts[-1]) != look:
            self._end_look()
        if self._before is not None and _look_of(self._before) == look and not self._waiting:
            source = self._reference(Atom("next", leaf))
            is_text = bool(self._items) and self._items[-1].kind == "text"
            self._items.append(InlineItem.text(source, "", [0]) if is_text else InlineItem("single", source))
        elif look == self._base:
            self._flush()
            self._base_atom.texts.append(leaf)
        elif self._look is None:
            self._flush()
            self._look = Atom("look", texts=[leaf])
            look_of_run = self._written(*leaf.run.properties) if leaf.run else ""
            self._items.append(InlineItem("open", self._reference(self._look), name="look", look=look_of_run))
        else:
            self._flush()
            self._look.texts.append(leaf)
        self._add_characters(leaf)
        self._before = leaf

    def _add_characters(self, leaf: Leaf) -> None:
        raw = self._raw(leaf).decode("utf-8")
        if "<" in raw:  # CDATA, or a comment
            shown = "".join(child.shown for child in leaf.element.children if isinstance(child, Text))
            raw = escape(shown)
        at = 0
        pattern = self._rules.escapes
        for found in pattern.finditer(raw) if pattern else ():
            self._add_text_items(raw[at : found.start()])
            self._items.append(InlineItem("single", found[0]))
            at = found.end()
            at_top = self._look is None and leaf.depth == 0
            lines = found[0].count("\n") + found[0].count("&#10;")
            ends = self._has_text if lines > 1 else lines == 1 and self._ends_line(raw[at : at + 100])
            if at_top and (ends or len(self._items) > MOST_ITEMS):
                self._end_block()
        self._add_text_items(raw[at:])

    def _add_text_items(self, raw: str) -> None:
        self._items += decoded(raw, _XML)
        self._has_text = self._has_text or not raw.isspace()

    def _ends_line(self, after: str) -> bool:
        """Whether the line that ends here is a sentence or an item of its own, and not one that is only broken to fit."""
        if not self._has_text:
            return False
        shown = "".join(item.shown[-40:] for item in (*self._items[-3:], *self._waiting[-3:]))
        following = after.partition("\n")[0].strip()
        is_own = after != "" and not (following[:1].isalpha() and (following[0].islower() or len(following) < 20))
        return is_own or self._last == "break" or _SENTENCE_END.search(shown) is not None

    def _flush(self) -> None:
        self._items += self._waiting
        self._waiting = []

    def _end_look(self) -> None:
        if self._look is not None:
            self._items.append(InlineItem("close", self._reference(Atom("end")), name="look"))
            self._look = None
        self._flush()

    def _end_block(self) -> None:
        self._hide()
        self._end_look()
        self._before = None
        if self._items:
            self._pieces += build(self._items, notation=xml_notation)
        self._items = []
        self._has_text = False


def xml_notation(texts: Iterable[tuple[str, str]], entities: Mapping[str, str] | None = None) -> Writer:
    """Return a writer of characters in XML: as the source writes them where it has the same text, else escaped.

    A text that the source has several times is written in each of its ways in turn. `entities` are more that are needed.
    """
    forms: dict[str, deque[str]] = {}
    for shown, source in texts:
        forms.setdefault(shown, deque()).append(source)

    def write(text: str) -> str:
        known = forms.get(text)
        if known is None:
            return escape(text, dict(entities or {}))
        known.rotate(-1)
        return known[-1]

    return write


# ---- writing


class RunComposer:
    """Writes runs around the text of a region. Whatever a model does with the marks, the result is well nested.

    `limit`: most characters of the whole text, of a cell; 0: none.
    """

    def __init__(self, data: bytes, atoms: list[Atom], base: Atom, *, space_attribute: bool, limit: int = 0) -> None:
        self.data = data
        self.atoms = atoms
        self.base = base
        self.space_attribute = space_attribute
        self.limit = limit
        self.closings = {atom.leaf.pair: atom.leaf for atom in atoms if atom.kind == "close" and atom.leaf}
        self.starts: set[tuple[str, str]] = set()  # of ranges that end in this paragraph or after it
        ended: set[tuple[str, str]] = set()
        for leaf in (atom.leaf for atom in atoms if atom.leaf):
            if leaf.element.name.endswith("End"):
                ended.add(_range_of(leaf))
            elif leaf.element.name.endswith("Start"):
                self.starts |= {_range_of(leaf)} - ended

    def __call__(self, text: str, source: Callable[[int, int], str], warn: Callable[[str], None]) -> str:
        characters = len(unescape(_ATOM.sub("", text)))
        if 0 < self.limit < characters:
            warn(f"a translation of {characters} characters was cut to the {self.limit} that a cell can have")
        return _Composition(self, source).written(_ATOM.split(text))


class _Composition:
    """The runs of one region while they are written."""

    def __init__(self, composer: RunComposer, source: Callable[[int, int], str]) -> None:
        self._composer = composer
        self._source = source
        self._out: list[str] = []
        self._run: TextRun | None = None  # that is open
        self._text: Leaf | None = None  # whose tag is open
        self._characters: list[str] = []  # of the open text
        self._next: Leaf | None = None  # the text that a following one is written as
        self._looks: list[Atom] = []
        self._used = Counter[int]()  # texts of a look, by its id
        self._pairs: list[str] = []
        self._once: set[int] = set()  # atoms that were written, and are not again
        self._started: set[tuple[str, str]] = set()
        self._ends: dict[tuple[str, str], Leaf] = {}  # of ranges that have not started
        self._left = composer.limit

    def written(self, tokens: list[str]) -> str:
        """Write texts, which alternate with the numbers of atoms."""
        for number, token in enumerate(tokens):
            if number % 2:
                self._write_atom(int(token))
            elif token:
                self._write_text(self._within_limit(token))
        self._end_run()
        self._close_pairs(0)
        return "".join(self._out)

    def _within_limit(self, text: str) -> str:
        if not self._composer.limit:
            return text
        shown = unescape(text)
        kept, self._left = shown[: self._left], max(self._left - len(shown), 0)
        return text if kept == shown else escape(kept)

    def _write_text(self, text: str) -> None:
        look = self._looks[-1] if self._looks else self._composer.base
        wanted = look.texts[0].run
        following, self._next = self._next, None
        if following is None and self._text and self._text.run and wanted and self._text.run.look == wanted.look:
            self._characters.append(text)
            return
        self._end_text()
        leaf = look.texts[min(self._used[id(look)], len(look.texts) - 1)]
        if following and following.run and wanted and following.run.look == wanted.look:
            leaf = following
        else:
            self._used[id(look)] += 1
        self._start_run(leaf.run)
        self._text = leaf
        self._characters = [text]

    def _write_atom(self, number: int) -> None:
        atom = self._composer.atoms[number]
        leaf = atom.leaf
        if atom.kind == "look":
            self._looks.append(atom)
        elif atom.kind == "end":
            self._looks = self._looks[:-1]
        elif atom.kind == "next":
            self._next = leaf
        elif leaf is not None and atom.kind == "close":
            if leaf.pair in self._pairs:
                self._close_pairs(self._pairs.index(leaf.pair))
        elif leaf is not None and (leaf.shown or number not in self._once):
            self._once.add(number)
            if atom.kind == "open":
                self._end_run()
                self._pairs.append(leaf.pair)
                self._out.append(self._source(*leaf.span))
            else:
                self._copy(leaf)

    def _copy(self, leaf: Leaf) -> None:
        """Copy a leaf; the end of a bookmark or of another range comes after its start."""
        place = _range_of(leaf)
        if leaf.element.name.endswith("End") and place in self._composer.starts and place not in self._started:
            self._ends[place] = leaf
            return
        self._start_run(leaf.run)
        self._out.append(self._source(*leaf.span))
        if leaf.element.name.endswith("Start"):
            self._started.add(place)
            if place in self._ends:
                self._copy(self._ends.pop(place))

    def _start_run(self, run: TextRun | None) -> None:
        self._end_text()
        if run is self._run:
            return
        self._end_run()
        self._run = run
        if run is not None:
            self._out += self._source(*run.opening), self._source(*run.properties)

    def _end_run(self) -> None:
        self._end_text()
        if self._run is not None:
            self._out.append(self._source(*self._run.closing))
            self._run = None

    def _end_text(self) -> None:
        leaf, self._text = self._text, None
        if leaf is None:
            return
        text = "".join(self._characters)
        tag = self._source(*leaf.span)
        needs_space = self._composer.space_attribute and text.strip(" \t\r\n") != text and "preserve" not in tag
        if needs_space and text.encode("utf-8") != self._composer.data[leaf.span[1] : leaf.closing[0]]:
            tag = _SPACE.sub("", tag)[:-1] + ' xml:space="preserve">'
        self._out += tag, text, self._source(*leaf.closing)

    def _close_pairs(self, kept: int) -> None:
        self._end_run()
        while len(self._pairs) > kept:
            self._out.append(self._source(*self._composer.closings[self._pairs.pop()].span))


_SPACE = re.compile(r"""(?<!\s)\s++xml:space\s*=\s*(?:"[^"]*"|'[^']*')""")


def _range_of(leaf: Leaf) -> tuple[str, str]:
    """Return what the start and the end of a range (`w:bookmarkStart`) have in common."""
    return leaf.element.name.removesuffix("Start").removesuffix("End"), leaf.element.get("w:id")
