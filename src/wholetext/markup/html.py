"""Splits HTML and XML into literals and blocks.

`pieces` reads the source once, from left to right, and never fails: it finds each tag where the HTML standard's tokenizer
finds it, also in broken input. Everything is copied, except the text of blocks and the values of some attributes. XML has
CDATA, processing instructions and case-sensitive names, and its inline elements are those beside text (`_Outline`).

In a block's text entities are decoded, and white space is collapsed as in a browser; entities of symbols (`&nbsp;`,
`&copy;`) become marks. A tag that a missing quote leaves open ends at its first `>`; a browser would show nothing.

Each attribute value that is translated is a block of its own. An inline tag with such a value is a mark with pieces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from wholetext.markup.blocks import InlineItem, Spans
from wholetext.markup.marks import Piece, Verbatim
from wholetext.markup.notation import MOST_ITEMS, BlockBuilder, EntityNotation, Place, decoded
from wholetext.markup.segments import MAX_SEGMENT_CHARACTERS, portions

_PAUSE_CHARACTERS = 8_000
_PAUSE_TAGS = 200

_SPACE = r"\t\n\f\r "
_NAME = rf"[^{_SPACE}/>]*+"
_ATTRIBUTES = (
    rf"(?:[{_SPACE}/]++|(?:=[^{_SPACE}/>=]*+|[^{_SPACE}/>=]++)"
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^{_SPACE}>]*+))?+)*+"
)
_BOGUS = r"<[!?/][^>]*+(?:>|\Z)"
_CDATA = r"<!\[CDATA\[(?:[^\]]++|\](?!\]>))*+(?:\]\]>|\Z)"
_COMMENT = r"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>|\Z))"
_XML_COMMENT = r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)"
_INSTRUCTION = r"<\?(?:[^?]++|\?(?!>))*+(?:\?>|\Z)"
_QUOTED = r"\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)"
_SUBSET = rf"\[(?:{_XML_COMMENT}|{_INSTRUCTION}|{_QUOTED}|[^\"'\]])*+(?:\]|\Z)"
_DOCTYPE = rf"<!DOCTYPE\b(?:{_QUOTED}|{_SUBSET}|[^\"'\[>])*+(?:>|\Z)"


def _markup(first: str, *others: str) -> re.Pattern[str]:
    """A tag (`slash`, `name`, `attributes`) whose name begins with `first`, or something else in angle brackets."""
    tag = rf"<(?P<slash>/?)(?P<name>{first}{_NAME})(?P<attributes>{_ATTRIBUTES})(?:>|\Z)"
    return re.compile("|".join((tag, *others, _BOGUS)))


_HTML_NAME, _XML_NAME = "[A-Za-z]", "[A-Za-z_:\u0080-\U0010ffff]"
_HTML_MARKUP = _markup(_HTML_NAME, _COMMENT)
_FOREIGN_MARKUP = _markup(_HTML_NAME, _COMMENT, _CDATA)  # within svg and math
_XML_MARKUP = _markup(_XML_NAME, _XML_COMMENT, _CDATA, _INSTRUCTION, _DOCTYPE)
_BROKEN_TAG = re.compile(rf"<(?P<slash>/?)(?P<name>{_NAME})(?P<attributes>[^>]*+)>")
_MOST_REPAIRS = 8  # each reads the rest of the document
_END = rf"/(?!\d{{1,5}}[{_SPACE}]*>)[\s\S]"  # a numbered tag, such as `</0>`, is text: a pair of `text.blocks`
_HTML_START = re.compile(rf"<(?={_HTML_NAME}|[!?]|{_END})")
_XML_START = re.compile(rf"<(?={_XML_NAME}|[!?]|{_END})")
_ATTRIBUTE = re.compile(
    rf"(?P<name>=[^{_SPACE}/>=]*+|[^{_SPACE}/>=]++)(?:[{_SPACE}]*+=[{_SPACE}]*+"
    rf"(?:\"(?P<double>[^\"]*+)(?:\"|\Z)|'(?P<single>[^']*+)(?:'|\Z)|(?P<bare>[^{_SPACE}>]*+)))?+"
)


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_VOID = _names(
    "area base basefont bgsound br col command embed frame hr img input keygen link meta param source track wbr"
)
_RAW = _names("iframe noembed noframes plaintext script style xmp")
_TEXT_ONLY = frozenset({"textarea", "title"})
_UNTRANSLATED = _names("code kbd math pre samp svg var")
_BLOCKS = _names(
    "address article aside base basefont bgsound blockquote body br caption center col colgroup dd details dialog dir div dl dt"
    " fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link listing"
    " main marquee menu menuitem meta nav noscript optgroup option p param plaintext pre search section select summary table"
    " tbody td template textarea tfoot th thead title tr track ul ol xmp"
)
"""All other elements are inline, as in a browser, except custom elements, most of which are not."""

_CELL = frozenset({"td", "th"})
_ROW = _CELL | {"tr"}
_IMPLIED = {
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "td": _CELL | {"p"},
    "th": _CELL | {"p"},
    "tr": _ROW | {"p"},
    "tbody": _ROW | {"tbody", "thead", "tfoot", "caption", "colgroup"},
    "tfoot": _ROW | {"tbody", "thead", "tfoot", "caption", "colgroup"},
    "option": frozenset({"option"}),
    "optgroup": frozenset({"option", "optgroup"}),
}
_ENDS_PARAGRAPH = _BLOCKS - {"br", "option", "optgroup", "textarea", "title", "link", "meta", "base", "param", "track"}
_PARAGRAPH = frozenset({"p"})
"""Elements that a start tag closes when they are the innermost open ones."""

_TRANSLATED_ATTRIBUTES = _names(
    "alt title placeholder aria-label aria-description aria-placeholder aria-roledescription aria-valuetext"
)
_ATTRIBUTES_OF = {**dict.fromkeys(("optgroup", "option", "track", "menu", "menuitem"), "label"), "th": "abbr"}
"""Attributes that people read, of all elements and of some (https://html.spec.whatwg.org/#the-translate-attribute)."""
_BUTTONS = frozenset({"submit", "button", "reset"})
_DESCRIPTIONS = _names(
    "description keywords headline og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt"
    " dc.title dc.description dcterms.title dcterms.description"
)
"""Names of `meta` whose content is text."""
_MAY_TRANSLATE = re.compile("alt|title|placeholder|aria-|label|abbr|value|content", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TagRules:
    """Names of elements to copy with their content, to end a block, and to treat as inline, instead of the defaults."""

    ignore: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()


def pieces(
    text: str, keep: Spans, rules: TagRules | None = None, *, xml: bool = False, xhtml: bool = False
) -> Iterator[Piece | None]:
    """Yield pieces whose source notations, concatenated, equal `text`, and None where the caller can pause.

    `xhtml`: elements are those of HTML, and a `/` at the end of a tag closes any of them.
    """
    rules = rules or TagRules()
    if not xml:
        yield from _Parser(text, keep, rules, xhtml=xhtml).pieces()
        return
    outline = _Outline(text)
    yield from outline.read()
    yield from _Parser(text, keep, rules, outline.inline()).pieces()


# ---- elements


class _Scanner:
    """Matches markup. A tag that a missing quote leaves open until the end of the document ends at its first `>`."""

    def __init__(self, text: str, *, xml: bool) -> None:
        self._text = text
        self._xml = xml
        self._start = _XML_START if xml else _HTML_START
        self._repairs_left = _MOST_REPAIRS

    def start(self, at: int) -> int:
        """Return where the next markup begins; the end of the text if there is none."""
        found = self._start.search(self._text, at)
        return found.start() if found else len(self._text)

    def match(self, at: int, *, foreign: bool = False) -> re.Match[str] | None:
        """Return the markup at `at`; not None if `start` returned this place."""
        found = (_XML_MARKUP if self._xml else _FOREIGN_MARKUP if foreign else _HTML_MARKUP).match(self._text, at)
        if found and found["name"] and found[0][-1] != ">" and self._repairs_left:
            self._repairs_left -= 1
            return _BROKEN_TAG.match(self._text, at) or found
        return found


@dataclass(frozen=True, slots=True)
class _Element:
    name: str
    translated: bool
    inline: bool


class _Parser:
    """Reads tags and texts, and collects the items of the current block."""

    def __init__(
        self, text: str, keep: Spans, rules: TagRules, inline: Iterator[bool] | None = None, *, xhtml: bool = False
    ) -> None:
        self._text = text
        self._xhtml = xhtml
        self._rules = rules
        self._inline = inline  # of each start tag in XML
        self._xml = inline is not None
        self._scanner = _Scanner(text, xml=self._xml)
        self._place = Place(xml=self._xml, xhtml=xhtml)
        self._keep = keep
        default = EntityNotation(self._place)
        self._build = BlockBuilder(keep, lambda texts: self._notation(default, texts))
        self._stack: list[_Element] = []
        self._open = Counter[str]()  # names in the stack
        self._items: list[InlineItem] = []
        self._characters = 0  # of the block's texts
        self._run: tuple[int, int] | None = None  # what is not translated, from its first tag to its last
        self._run_is_block = self._run_is_word = False
        self._done: list[Piece] = []

    def _notation(self, default: EntityNotation, texts: Iterable[tuple[str, str]]) -> EntityNotation:
        pairs = list(texts)
        is_plain = all(shown == source and not re.search("[&<>]", source) for shown, source in pairs)
        return default if is_plain else EntityNotation(self._place, pairs)

    def pieces(self) -> Iterator[Piece | None]:
        at = tags = paused = 0
        while at < len(self._text):
            stop = self._scanner.start(at)
            for begin, end in portions(self._text, at, stop):
                self._add_text(begin, end)
                if end - begin > _PAUSE_CHARACTERS // 4:
                    yield from self._flush()
                    yield None
            at = stop
            if stop < len(self._text):
                tags += 1
                at = yield from self._markup(stop)
            yield from self._flush()
            if at - paused > _PAUSE_CHARACTERS or tags >= _PAUSE_TAGS:
                paused, tags = at, 0
                yield None
        self._end_block()
        yield from self._flush()

    def _flush(self) -> Iterator[Piece]:
        yield from self._done
        self._done.clear()

    def _markup(self, at: int) -> Generator[Piece | None, None, int]:
        """Process the markup that begins at `at`, and return where it ends."""
        is_foreign = self._open["svg"] or self._open["math"]
        found = self._scanner.match(at, foreign=bool(is_foreign))
        if found is None:
            return at + 1
        if not found["name"]:
            self._other(at, found.end(), is_word=self._xml and found[0].startswith("<![CDATA["))
            return found.end()
        name = found["name"] if self._xml else found["name"].lower()
        if found["slash"]:
            self._end_tag(name, found)
            return found.end()
        has_text = not (self._xml or is_foreign or (self._xhtml and found["attributes"].endswith("/")))
        if has_text and name in _RAW:
            stop = self._end_of_raw(name, found.end())
            self._other(at, stop)
            return stop
        self._start_tag(name, found)
        if not has_text or name not in _TEXT_ONLY:
            return found.end()
        end = _end_tag(name).search(self._text, found.end())
        stop = end.start() if end else len(self._text)
        for begin, end_of_portion in portions(self._text, found.end(), stop):
            self._add_text(begin, end_of_portion, collapse=name == "title")
            yield from self._flush()
            yield None
        return stop

    def _end_of_raw(self, name: str, at: int) -> int:
        """Return where an element whose content is not markup ends."""
        end = _end_tag(name).search(self._text, at) if name != "plaintext" else None
        tag = _HTML_MARKUP.match(self._text, end.start()) if end else None
        return tag.end() if tag else len(self._text)

    # -- tags

    def _start_tag(self, name: str, found: re.Match[str]) -> None:
        self._close_implied(name)
        parent = self._stack[-1].translated if self._stack else True
        inline = self._is_inline(name) if self._inline is None else self._by_rules(name, next(self._inline, False))
        attributes = dict[str, re.Match[str]]()
        if "translate" in found["attributes"].lower():
            attributes = self._attributes(found)
        element = _Element(name, self._is_translated(name, attributes, parent), inline)
        self_closing = found["attributes"].endswith("/")
        if self._xml or self._open["svg"] or self._open["math"] or name in ("svg", "math"):
            is_void = self_closing
        elif self._xhtml and self_closing:
            is_void = True
        else:
            is_void = name in _VOID or (self_closing and name not in _BLOCKS and name not in _PHRASING)
        if not is_void:
            self._stack.append(element)
            self._open[name] += 1
        self._add_tag("single" if is_void else "open", element, found)

    def _end_tag(self, name: str, found: re.Match[str]) -> None:
        if not self._open[name]:
            translated = self._stack[-1].translated if self._stack else True
            element = _Element(name, translated, self._by_rules(name, True) if self._xml else self._is_inline(name))
        else:
            element = self._pop()
            while element.name != name:
                element = self._pop()
        self._add_tag("close", element, found)

    def _pop(self) -> _Element:
        element = self._stack.pop()
        self._open[element.name] -= 1
        return element

    def _close_implied(self, name: str) -> None:
        if self._xml:
            return
        closed = _IMPLIED.get(name) or (_PARAGRAPH if name in _ENDS_PARAGRAPH else None)
        while closed and self._stack and self._stack[-1].name in closed:
            self._pop()

    def _by_rules(self, name: str, default: bool) -> bool:
        if name in self._rules.splitting:
            return False
        return default or name in self._rules.non_splitting

    def _is_inline(self, name: str) -> bool:
        return self._by_rules(name, name not in _BLOCKS and "-" not in name)

    def _is_translated(self, name: str, attributes: dict[str, re.Match[str]], parent: bool) -> bool:
        if name in self._rules.ignore:
            return False
        translate = attributes.get("translate")
        value = _value(translate).strip().lower() if translate else None
        if value in ("no", "yes", ""):
            return value != "no"
        if "class" in attributes and "notranslate" in _value(attributes["class"]).split():
            return False
        return parent and (self._xml or name not in _UNTRANSLATED)

    def _attributes(self, found: re.Match[str]) -> dict[str, re.Match[str]]:
        """Return the tag's attributes by name; the first one of several with the same name."""
        attributes: dict[str, re.Match[str]] = {}
        for one in _ATTRIBUTE.finditer(self._text, *found.span("attributes")):
            attributes.setdefault(one["name"] if self._xml else one["name"].lower(), one)
        return attributes

    def _translated_values(self, name: str, found: re.Match[str]) -> list[tuple[int, int, str]]:
        """Return start, end and quote of each attribute value that is translated, in order."""
        if self._xml or found[0][-1] != ">" or not _MAY_TRANSLATE.search(found["attributes"]):
            return []
        attributes = self._attributes(found)
        names = (_TRANSLATED_ATTRIBUTES | {_ATTRIBUTES_OF.get(name, "alt")}) & attributes.keys()
        if name == "input" and "type" in attributes and _value(attributes["type"]).lower() in _BUTTONS:
            names |= {"value"} & attributes.keys()
        described = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
        if name == "meta" and described and _value(described).lower() in _DESCRIPTIONS:
            names |= {"content"} & attributes.keys()
        groups = (("double", '"'), ("single", "'"), ("bare", ""))
        return sorted(
            (*attributes[one].span(group), quote) for one in names for group, quote in groups if attributes[one][group]
        )

    # -- items of the block

    def _add_tag(self, kind: Literal["open", "close", "single"], element: _Element, found: re.Match[str]) -> None:
        start, stop = found.span()
        if not element.translated:
            self._add_untranslated(start, stop, is_block=not element.inline, is_word=element.name in self._rules.ignore)
            return
        self._end_run()
        values = self._translated_values(element.name, found) if kind != "close" else []
        pieces = tuple(self._tag_pieces(start, stop, values)) if values else ()
        if element.inline:
            name = element.name if kind != "single" else ""
            self._add(InlineItem(kind, self._text[start:stop], name=name, pieces=pieces))
            if self._xml and kind == "close":
                self._keep_without_letters(name)
            return
        self._end_block()
        self._done += pieces or (Verbatim(self._text[start:stop]),)

    def _keep_without_letters(self, name: str) -> None:
        """Make a word of the XML element that was just closed if it has no letters, as a time has none."""
        items = self._items[-3:]
        if [item.kind for item in items] != ["open", "text", "close"] or items[0].name != name:
            return
        shown = items[1].shown
        if any(map(str.isdigit, shown)) and not any(map(str.isalpha, shown)):
            self._items[-3:] = [InlineItem("single", "".join(item.source for item in items), word=True)]

    def _tag_pieces(self, start: int, stop: int, values: Iterable[tuple[int, int, str]]) -> Iterator[Piece]:
        """Return the pieces of a tag with translated values."""
        at = start
        for begin, end, quote in values:
            yield Verbatim(self._text[at:begin])
            place = replace(self._place, quote=quote)
            build_value = BlockBuilder(self._keep, lambda texts, place=place: EntityNotation(place, texts))
            yield from build_value(list(decoded(self._text[begin:end], place)))
            at = end
        yield Verbatim(self._text[at:stop])

    def _add_text(self, start: int, stop: int, *, collapse: bool = True) -> None:
        if self._stack and not self._stack[-1].translated:
            is_word = not self._open["svg"] and any(map(str.isalnum, self._text[start:stop]))
            self._add_untranslated(start, stop, is_word=is_word)
            return
        self._end_run()
        for item in decoded(self._text[start:stop], self._place, collapse=collapse and not self._xml):
            self._add(item)
        self._characters += stop - start
        if self._characters > self._within_ruby(MAX_SEGMENT_CHARACTERS * 3 // 4):
            self._end_block()

    def _other(self, start: int, stop: int, *, is_word: bool = False) -> None:
        """Process a comment, a declaration or a script."""
        if self._stack and not self._stack[-1].translated:
            self._add_untranslated(start, stop)
            return
        self._end_run()
        self._add(InlineItem("single", self._text[start:stop], word=is_word))

    def _add(self, item: InlineItem) -> None:
        self._items.append(item)
        if len(self._items) >= self._within_ruby(MOST_ITEMS):
            self._end_block()

    def _within_ruby(self, most: int) -> int:
        """A bound on a block, which is not cut between a word and its reading if that ends soon."""
        return most + most // 4 if self._open["ruby"] else most

    def _add_untranslated(self, start: int, stop: int, *, is_block: bool = False, is_word: bool = False) -> None:
        self._run = (self._run[0] if self._run else start, stop)
        self._run_is_block |= is_block
        self._run_is_word |= is_word

    def _end_run(self) -> None:
        """End an untranslated part: it becomes one mark, or a literal if it has a block-level element."""
        if self._run is None:
            return
        source = self._text[slice(*self._run)]
        is_block, is_word = self._run_is_block, self._run_is_word
        self._run, self._run_is_block, self._run_is_word = None, False, False
        if not is_block:
            self._add(InlineItem("single", source, word=is_word))
            return
        self._end_block()
        self._done.append(Verbatim(source))

    def _end_block(self) -> None:
        self._end_run()
        self._done += self._build(self._items)
        self._items = []
        self._characters = 0


def _value(attribute: re.Match[str]) -> str:
    return attribute["double"] or attribute["single"] or attribute["bare"] or ""


_PHRASING = _names(
    "a abbr acronym applet audio b bdi bdo big blink button canvas cite code data datalist del dfn em font i ins kbd label map"
    " mark math meter nobr object output picture progress q rb rp rt rtc ruby s samp slot small span strike strong sub"
    " sup svg time tt u var video"
)
"""Elements of HTML that a `/` at the end of their tag does not close."""

_END_TAGS: dict[str, re.Pattern[str]] = {}


def _end_tag(name: str) -> re.Pattern[str]:
    """Return a pattern for the end tag of an element whose content is not markup."""
    if name not in _END_TAGS:
        _END_TAGS[name] = re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE)
    return _END_TAGS[name]


class _Outline:
    """Decides which elements of an XML document are inline: those beside text, and the only child of an inline element."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parents = [0]
        self._children = [0]
        self._has_text = [False]

    def read(self) -> Iterator[None]:
        stack = [(0, "")]
        names = Counter[str]()
        at = 0
        scanner = _Scanner(self._text, xml=True)
        while (start := scanner.start(at)) < len(self._text):
            if not self._has_text[stack[-1][0]]:
                self._has_text[stack[-1][0]] = re.compile(r"\S").search(self._text, at, start) is not None
            markup = scanner.match(start)
            if markup is None:
                break
            at = markup.end()
            self._take(markup, stack, names)
            if len(self._parents) % _PAUSE_TAGS == 0:
                yield None
        self._has_text[stack[-1][0]] |= bool(self._text[at:].strip())

    def _take(self, markup: re.Match[str], stack: list[tuple[int, str]], names: Counter[str]) -> None:
        name = markup["name"]
        if markup["slash"]:
            while names[name]:
                _, popped = stack.pop()
                names[popped] -= 1
                if popped == name:
                    break
        elif name:
            parent = stack[-1][0]
            self._children[parent] += 1
            if not markup["attributes"].endswith("/"):
                stack.append((len(self._parents), name))
                names[name] += 1
            self._parents.append(parent)
            self._children.append(0)
            self._has_text.append(False)

    def inline(self) -> Iterator[bool]:
        """Return whether each element is inline, in the order of the start tags."""
        inline = [False]
        for parent in self._parents[1:]:
            inline.append(self._has_text[parent] or (inline[parent] and self._children[parent] == 1))
            yield inline[-1]
