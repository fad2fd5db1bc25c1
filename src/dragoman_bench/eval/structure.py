"""Finds differences between the structures of source and translation: tags, attributes, references, lines, lists.

Standard parsers (html.parser, xml.etree, pyromark) parse source and output, which are compared as sequences of blocks.
Blocks must keep their order. Within a block, inline elements may change their order, as words do, but not their nesting, their
attributes, nor whether they enclose text. This module shares no code with the server, which has its own parsers.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import zip_longest
from typing import Any, Literal, cast
from xml.etree import ElementTree

import pyromark

Format = Literal["text", "html", "xml", "markdown"]

BLOCK_TAGS = frozenset(
    re.findall(
        r"\w+",
        """address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset
        figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu
        meta nav noscript ol optgroup option p pre script section select style summary table tbody td template textarea
        tfoot th thead title tr ul""",
    )
)
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
_QUOTES = "\"'"
_RAW_TEXT = frozenset({"script", "style"})
_TRANSLATED_ATTRIBUTE = re.compile(
    r"""(\s(?:alt|title|placeholder|aria-label|label)\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE
)
_ESCAPED_TWICE = re.compile(r"&amp;#?\w+;")
_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")


def differences(kind: Format, source: str, output: str) -> list[str]:
    """Return a sentence for each difference; empty if the structure is kept. Readings (ruby) are aids to read the source's
    words: they and their tags are not compared."""
    return _COMPARE[kind](_RUBY.sub("", source), _RUBY.sub("", output))


_RUBY = re.compile(r"<(rt|rp|rtc)\b[^<>]*>[^<>]*</\1\s*>|</?(?:ruby|rbc?)\b[^<>]*>", re.IGNORECASE)


# ---- blocks and what is in them, for HTML and Markdown

Token = tuple[Literal["open", "close", "single"], str, str]
"""Kind, the name by which opening and closing belong together, and what must be the same in the output."""


@dataclass(slots=True)
class _Block:
    """What stands between two block-level tags. `edges`: its white space at both ends, or all of it without text."""

    tokens: list[Token | None] = field(default_factory=list[Token | None])  # None: text
    edges: tuple[str, str] = ("", "")

    def inline(self) -> Counter[Hashable]:
        """Elements with their path and whether they hold text; where tags are not well nested, the tags alone."""
        found: Counter[Hashable] = Counter()
        path: list[list[Any]] = []
        for token in self.tokens:
            if token is None:
                for level in path:
                    level[1] = True
                found["text"] = 1
            elif token[0] == "single":
                found["/".join([*(level[0][2] for level in path), token[2]])] += 1
            elif token[0] == "open":
                path.append([token, False])
            elif path and path[-1][0][1] == token[1]:
                opening, has_text = path.pop()
                found[("/".join([*(level[0][2] for level in path), opening[2]]), token[2], has_text)] += 1
            else:
                return self._flat()
        return self._flat() if path else found

    def _flat(self) -> Counter[Hashable]:
        found: Counter[Hashable] = Counter(token[2] for token in self.tokens if token is not None)
        found["text"] = int(None in self.tokens)
        return found


def _compare_blocks(source: list[_Block | str], output: list[_Block | str]) -> list[str]:
    """Block-level tags in order, and what is between them."""
    ours, theirs = ([one for one in side if isinstance(one, str)] for side in (source, output))
    if ours != theirs:
        at, (one, other) = next(pair for pair in enumerate(zip_longest(ours, theirs)) if pair[1][0] != pair[1][1])
        return [f"block {at}: {shown(one)} became {shown(other)}"]
    found: list[str] = []
    for at, (one, other) in enumerate(zip(source, output, strict=True)):
        if isinstance(one, str) or isinstance(other, str):
            continue
        if one.edges != other.edges:
            found.append(f"part {at}: white space {one.edges!r} became {other.edges!r}")
        wanted, got = one.inline(), other.inline()
        if wanted != got:
            missing, extra = wanted - got, got - wanted
            found.append(f"part {at}: lost {shown(list(missing))}, added {shown(list(extra))}")
    return found


def shown(value: object) -> str:
    """Shorten a value for a sentence."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


# ---- HTML


class _HtmlEvents(HTMLParser):
    """The parser's events with their own notation: kind, tag, and the source from this event to the next."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._starts = [0]
        for line in re.finditer("\n", text):
            self._starts.append(line.end())
        self._found: list[tuple[str, str, int]] = []
        self.feed(text)
        self.close()
        ends = [*(at for _, _, at in self._found), len(text)][1:]
        self.events = [(kind, tag, text[at:end]) for (kind, tag, at), end in zip(self._found, ends, strict=True)]

    def _note(self, kind: str, tag: str = "") -> None:
        line, column = self.getpos()
        at = self._starts[line - 1] + column
        if not self._found and at:
            self._found.append(("text", "", 0))
        if kind != "text" or not self._found or self._found[-1][0] != "text":
            self._found.append((kind, tag, at))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("start", tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("single", tag)

    def handle_endtag(self, tag: str) -> None:
        self._note("end", tag)

    def handle_data(self, data: str) -> None:
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("literal")

    def handle_decl(self, decl: str) -> None:
        self._note("literal")

    def handle_pi(self, data: str) -> None:
        self._note("literal")

    def unknown_decl(self, data: str) -> None:
        self._note("literal")


def _html_blocks(text: str) -> tuple[list[_Block | str], list[str]]:
    """The blocks, and the texts in which references count."""
    blocks: list[_Block | str] = []
    texts: list[str] = []
    block, parts = _Block(), list[str]()
    raw_text = ""
    for kind, tag, raw in [*_HtmlEvents(text).events, ("start", "p", "")]:
        if tag in BLOCK_TAGS:
            joined = "".join(parts)
            block.edges = _edges(joined)
            blocks += [block, f"{kind} {_masked(raw)}"]
            block, parts = _Block(), []
            raw_text = tag if tag in _RAW_TEXT and kind == "start" else ""
            continue
        parts.append(raw)
        if kind == "text":
            if raw.strip():
                block.tokens.append(None)
            if not raw_text:
                texts.append(raw)
        elif kind == "start" and tag not in _VOID:
            block.tokens.append(("open", tag, _masked(raw)))
        elif kind == "end":
            block.tokens.append(("close", tag, raw))
        else:
            block.tokens.append(("single", tag, _masked(raw)))
    return blocks, texts


def _edges(text: str) -> tuple[str, str]:
    stripped = text.strip()
    if not stripped:
        return text, ""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _masked(tag: str) -> str:
    """The tag without the values of attributes that are translated; that they had one remains."""
    return _TRANSLATED_ATTRIBUTE.sub(lambda found: found[1] + ("" if found[2] in ('""', "''") else "…"), tag)


def _compare_html(source: str, output: str) -> list[str]:
    (ours, our_texts), (theirs, their_texts) = _html_blocks(source), _html_blocks(output)
    return _compare_blocks(ours, theirs) + _compare_references("\n".join(our_texts), "\n".join(their_texts))


def _compare_references(source: str, output: str) -> list[str]:
    """Characters that were written as references stay so, and no others become references."""
    wanted, got = (Counter(filter(_is_reference, _REFERENCE.findall(text))) for text in (source, output))
    twice, twice_in_output = (Counter(_ESCAPED_TWICE.findall(text)) for text in (source, output))
    got += twice_in_output - twice
    added = [f"{one} was not a reference, or is there more often" for one in got - wanted]
    plain_source, plain_output = (_REFERENCE.sub(_without_reference, text) for text in (source, output))
    for one in wanted:
        character = html.unescape(one)
        if character not in plain_source and character in plain_output:
            added.append(f"{one} is written as {character!r}")
    return added


def _is_reference(found: str) -> bool:
    return html.unescape(found) != found


def _without_reference(found: re.Match[str]) -> str:
    return "" if _is_reference(found[0]) else found[0]


# ---- XML

_XML_TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>|<[^<>]*>", re.DOTALL
)
_PROLOGUE = re.compile(r"\A\s*(?:<\?xml.*?\?>\s*|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>\s*)*", re.DOTALL)
_PREFIX = re.compile(r"[<\s/]([A-Za-z_][\w.-]*):[A-Za-z_]")
_PREDEFINED = frozenset({"amp", "lt", "gt", "quot", "apos"})


def _compare_xml(source: str, output: str) -> list[str]:
    ours, theirs = _xml_tree(source), _xml_tree(output)
    found = _compare_references(_XML_TOKEN.sub(" ", source), _XML_TOKEN.sub(" ", output))
    tags, tags_of_output = (Counter(_XML_TOKEN.findall(text)) for text in (source, output))
    if tags != tags_of_output:
        found.append(f"lost {shown(list(tags - tags_of_output))}, added {shown(list(tags_of_output - tags))}")
    if (ours is None) != (theirs is None):
        found.append("the output is not well-formed")
    elif ours is not None and ours != theirs:
        found.append("the tree of elements is another one")
    one, other = _PROLOGUE.match(source), _PROLOGUE.match(output)
    if (one and one[0]) != (other and other[0]):
        found.append("the prologue is another one")
    return found


def _xml_tree(text: str) -> Hashable | None:
    """The elements in canonical form; None where the text is not well-formed."""
    prologue = _PROLOGUE.match(text)
    body = text[prologue.end() if prologue else 0 :]
    prefixes = {name for name in _PREFIX.findall(body) if name not in ("xml", "xmlns")}
    spaces = "".join(f' xmlns:{name}="urn:{name}"' for name in sorted(prefixes))
    names = {one.strip("&;") for one in _REFERENCE.findall(body)} - _PREDEFINED
    entities = "".join(f'<!ENTITY {name} "x">' for name in sorted(names) if not name.startswith("#"))
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True, insert_pis=True))
    try:
        return _canonical(ElementTree.fromstring(f"<!DOCTYPE r [{entities}]><r{spaces}>{body}</r>", parser))
    except ElementTree.ParseError:
        return None


def _canonical(element: ElementTree.Element, *, inline: bool = False) -> Hashable:
    """`inline`: it stands among text, so that white space at its ends is the translator's."""
    children = list(element)
    between = [element.text or "", *((child.tail or "") for child in children)]
    mixed = any(any(map(str.isalpha, text)) for text in between)
    content = [_canonical(child, inline=mixed) for child in children]
    texts: Hashable
    if mixed:
        content.sort(key=repr)
        texts = "text" if children or inline else _edges("".join(between))
    else:
        texts = tuple(between)
    if callable(element.tag):  # a comment or a processing instruction
        return ("literal", element.text)
    return (element.tag, tuple(sorted(element.attrib.items())), texts, tuple(content))


# ---- Markdown

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_TASKLISTS
    | pyromark.Options.ENABLE_YAML_STYLE_METADATA_BLOCKS
)
_INLINE = frozenset({"Emphasis", "Strong", "Strikethrough", "Link", "Image"})
_LIST_MARKER = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$)", re.MULTILINE)
_BLANK = re.compile(r"(?:(?<=\n)|\A)(?:[ \t]*\r?\n)+")


def _markdown_events(text: str) -> Iterator[tuple[str, str, Any]]:
    """Kind (`Start`, `Text`, `Code`, ...), the element's name of a start or an end, and the event's value."""
    for event in cast("Iterable[str | dict[str, Any]]", pyromark.events(text, options=_OPTIONS)):
        if isinstance(event, str):
            yield event, "", ""
            continue
        [(kind, value)] = event.items()
        yield kind, str(next(iter(cast("dict[str, Any]", value))) if isinstance(value, dict) else value), value


def _markdown_blocks(text: str) -> list[_Block | str]:
    blocks: list[_Block | str] = []
    block = _Block()
    in_code = False
    for kind, name, value in _markdown_events(text):
        if kind in ("Start", "End") and name not in _INLINE:
            in_code = kind == "Start" and name == "CodeBlock"
            blocks += [block, f"{kind} {value}"]
            block = _Block()
        elif kind == "Text" and not in_code:
            if value.strip():
                block.tokens.append(None)
        elif kind == "Start":
            block.tokens.append(("open", name, _link(value)))
        elif kind == "End":
            block.tokens.append(("close", name, name))
        elif kind != "SoftBreak":
            block.tokens.append(("single", kind, f"{kind} {value}"))
    return [*blocks, block]


def _link(value: Any) -> str:
    """An inline opening tag without the link's title, which is translated."""
    if not isinstance(value, dict):
        return str(value)
    [(name, fields)] = cast("dict[str, dict[str, Any]]", value).items()
    link_type = _LINK_TYPES.get(fields["link_type"], fields["link_type"])
    return f"{name} {link_type} {fields['dest_url']} {bool(fields['title'])}"


_LINK_TYPES = {"Collapsed": "Reference", "Shortcut": "Reference"}
"""The notations of a link whose text is its own label, which needs the label behind another text."""


def _compare_markdown(source: str, output: str) -> list[str]:
    found = _compare_blocks(_markdown_blocks(source), _markdown_blocks(output))
    for what, pattern in (("list markers", _LIST_MARKER), ("blank lines", _BLANK)):
        if pattern.findall(source) != pattern.findall(output):
            found.append(f"{what} differ")
    if _edges(source) != _edges(output):
        found.append("white space at the start or the end differs")
    return found


# ---- plain text

_LINE_END = re.compile("(\r\n|\n|\r|\u2028|\u2029)")
_MARKER = re.compile(
    r"\s*(?:(?:[-*+•◦▪‣·・>#]+|\d{1,3}[.)](?=\s)|\d{1,3}[）、]|[A-Za-z][.)](?=\s)|[①-⑳]|\[[ xX]\])\s*)*"
)


def _compare_text(source: str, output: str) -> list[str]:
    """Lines and their ends, indentation, bullets, trailing white space; lines without letters as they were."""
    ours, theirs = _LINE_END.split(source), _LINE_END.split(output)
    if ours[1::2] != theirs[1::2]:
        return [f"{len(ours) // 2} line ends became {len(theirs) // 2}, or others"]
    found: list[str] = []
    for number, (one, other) in enumerate(zip(ours[::2], theirs[::2], strict=True), 1):
        if not any(map(str.isalpha, one)):
            if one != other:
                found.append(f"line {number}: {shown(one)!r} became {shown(other)!r}")
        elif _frame(one) != _frame(other):
            found.append(f"line {number}: {_frame(one)!r} around the text became {_frame(other)!r}")
        elif not other.strip():
            found.append(f"line {number}: empty")
    return found


def _frame(line: str) -> tuple[str, str]:
    marker = _MARKER.match(line)
    return marker[0] if marker else "", line[len(line.rstrip()) :]


_COMPARE: dict[Format, Callable[[str, str], list[str]]] = {
    "text": _compare_text,
    "html": _compare_html,
    "xml": _compare_xml,
    "markdown": _compare_markdown,
}


def visible(kind: Format, text: str) -> str:
    """Return the visible text: without tags, comments, code, scripts and link targets, with decoded references."""
    return "".join(_visible(kind, text))


def _visible(kind: Format, text: str) -> Iterator[str]:
    """In parts, with a space between blocks; an inline tag within a word does not divide it."""
    if kind == "text":
        yield text
    elif kind == "xml":
        yield html.unescape(_XML_TOKEN.sub("", text))
    elif kind == "html":
        yield from _visible_html(text)
    else:
        in_code = False
        for event, name, value in _markdown_events(text):
            if event in ("Start", "End") and name not in _INLINE:
                in_code = event == "Start" and name in ("CodeBlock", "MetadataBlock")
                yield " "
            elif event == "Text" and not in_code:
                yield value


def _visible_html(text: str) -> Iterator[str]:
    hidden = ""
    attributes: list[str] = []
    for event, tag, raw in _HtmlEvents(text).events:
        if tag in ("script", "style", "code", "pre"):
            hidden = tag if event == "start" else "" if tag == hidden else hidden
        elif event == "text" and not hidden:
            yield html.unescape(raw)
        else:
            yield " " * (tag in BLOCK_TAGS or tag == "br")
            attributes += (html.unescape(found[2]).strip(_QUOTES) for found in _TRANSLATED_ATTRIBUTE.finditer(raw))
    yield from (f" {attribute}" for attribute in attributes)
