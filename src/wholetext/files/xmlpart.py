"""XML parts as a reader of documents needs them: small trees of chosen elements, each with its byte offsets.

`elements` yields one element after the other while it parses, so that the memory is that of a paragraph and not of a book.
Offsets are of the part's bytes in UTF-8 (`decoded`), so that a reader can name regions and everything else is copied.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from xml.parsers import expat

from wholetext.errors import InvalidFile
from wholetext.files.encodings import Encoding, decode

DEEPEST = 1_000
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have."""
_CHUNK = 1 << 16


class Element:
    """An element with its attributes, its children and its place: `start` to `end`, its content from `content` to `close`.

    Names are `prefix:local` with the prefix that the reader gave to the namespace, whatever the part itself writes. The
    name of a comment or a processing instruction is `#`. An empty tag (`<a/>`) has `content == close == end`.
    """

    __slots__ = ("attributes", "children", "close", "content", "end", "name", "start")

    def __init__(self, name: str, attributes: Mapping[str, str], start: int) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element | Text] = []
        self.start = start
        self.content = self.close = self.end = -1

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    @property
    def elements(self) -> list[Element]:
        return [child for child in self.children if isinstance(child, Element)]

    def child(self, name: str) -> Element | None:
        return next((child for child in self.children if isinstance(child, Element) and child.name == name), None)

    def walk(self, *without: str) -> Iterator[Element]:
        """Yield all elements below this one in document order, but not what is in elements of the names `without`."""
        waiting = self.elements[::-1]
        while waiting:
            element = waiting.pop()
            yield element
            if element.name not in without:
                waiting += element.elements[::-1]

    @property
    def text(self) -> str:
        """The characters of the element and of all below it."""
        shown: list[str] = []
        waiting: list[Element | Text] = self.children[::-1]
        while waiting:
            child = waiting.pop()
            if isinstance(child, Text):
                shown.append(child.shown)
            else:
                waiting += child.children[::-1]
        return "".join(shown)


class Text:
    """Characters between two tags, as they are read (`shown`), and their place in the part."""

    __slots__ = ("end", "shown", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = -1
        self.shown = ""


@dataclass(frozen=True, slots=True)
class AttributeSpan:
    """Where an attribute is in its tag: from the white space before it to its last quote, and its value in the quotes."""

    start: int
    value: int
    stop: int

    @property
    def end(self) -> int:
        return self.stop + 1


class Namespaces(dict[str, str]):
    """Gives elements and attributes short names: `w:p` for the `p` of a namespace that the reader calls `w`.

    Names of other namespaces stay as expat writes them: the namespace, a space, the name.
    """

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        super().__init__()
        self._prefixes = {"http://www.w3.org/XML/1998/namespace": "xml", **prefixes}

    def __missing__(self, name: str) -> str:
        namespace, space, local = name.rpartition(" ")
        prefix = self._prefixes.get(namespace) if space else None
        short = name if prefix is None else f"{prefix}:{local}" if prefix else local
        if len(self) < 10_000:  # of a hostile part
            self[name] = short
        return short


_UTF_8 = re.compile(rb"\s*<(?!\?xml[^>]*?encoding)(?!\0)|<\?xml[^>]*?encoding\s*=\s*[\"'][uU][tT][fF]-8[\"']")


def decoded(data: bytes, name: str) -> tuple[bytes, Encoding]:
    """Return a part in UTF-8 without its byte order mark, and the encoding that it has. Raises `InvalidFile`."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if _UTF_8.match(data, len(mark)):
        return data[len(mark) :], Encoding("utf-8", mark, references=True, kind="xml")
    try:
        text, encoding, _ = decode(data, "xml")
    except InvalidFile as error:
        raise InvalidFile(f"Invalid file: {f'{name}: ' if name else ''}{error.message}", param="file") from None
    return text.encode("utf-8"), encoding


def elements(
    data: bytes,
    name: str,
    namespaces: Namespaces,
    collected: Collection[str],
    *,
    opened: Collection[str] = (),
    doctype: bool = False,
) -> Iterator[Element]:
    """Yield the outermost elements of the names `collected` with all below them, in order, as they are parsed.

    `data` is in UTF-8 (`decoded`); `name` is for errors. Elements of the names `opened` around them are yielded when they
    begin, without what is in them (`end` is -1). `doctype`: the format normally has a document type declaration;
    even then it has no declarations of its own. Raises `InvalidFile`, also for text after the last element that is taken.
    """
    builder = _TreeBuilder(data, name, namespaces, frozenset(collected), frozenset(opened), doctype)
    for start in range(0, max(len(data), 1), _CHUNK):
        builder.parse(start, min(start + _CHUNK, len(data)))
        yield from builder.taken()


def tree(data: bytes, name: str, namespaces: Namespaces, *, doctype: bool = False) -> Element:
    """Return the root element of a small part. Raises `InvalidFile`."""
    return next(elements(data, name, namespaces, ("*",), doctype=doctype))


class _TreeBuilder:
    """Builds trees from expat's events. A tag or text ends where the next event begins."""

    def __init__(
        self,
        data: bytes,
        name: str,
        namespaces: Namespaces,
        collected: frozenset[str],
        opened: frozenset[str],
        doctype: bool,
    ) -> None:
        self._data = data
        self._name = name or "the file"
        self._namespaces = namespaces
        self._collected = collected
        self._opened = opened
        self._doctype = doctype
        self._stack: list[Element] = []  # the elements around, from the collected one on
        self._depth = 0
        self._tag: Element | None = None  # whose start tag has not ended
        self._between: Element | Text | None = None  # a text or a comment that has not ended
        self._texts: list[str] = []  # of that text
        self._done: list[Element] = []
        parser = self._parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = self._other
        parser.ProcessingInstructionHandler = self._other
        parser.StartCdataSectionHandler = self._cdata
        parser.StartDoctypeDeclHandler = self._declared
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def parse(self, start: int, stop: int) -> None:
        try:
            self._parser.Parse(self._data[start:stop], stop == len(self._data))
        except expat.ExpatError as error:
            place = max(self._parser.ErrorByteIndex, 0)
            reason = expat.ErrorString(error.code)
            raise InvalidFile(
                f"Invalid file: {self._name} is not well-formed XML at byte {place}: {reason}", param="file"
            ) from None

    def taken(self) -> list[Element]:
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidFile(f"Invalid file: {self._name} has elements more than {DEEPEST} deep", param="file")
        short = self._namespaces[name]
        if not self._stack and short not in self._collected and "*" not in self._collected:
            if short in self._opened:
                self._done.append(self._opening(short, attributes))
            return
        at = self._parser.CurrentByteIndex
        if self._tag is not None or self._between is not None:
            self._settle(at)
        if attributes:
            names = self._namespaces
            attributes = {names[key]: value for key, value in attributes.items()}
        element = self._tag = Element(short, attributes, at)
        if self._stack:
            self._stack[-1].children.append(element)
        self._stack.append(element)

    def _opening(self, name: str, attributes: Mapping[str, str]) -> Element:
        """Return an element that begins here, without its content."""
        names = self._namespaces
        element = Element(name, {names[key]: value for key, value in attributes.items()}, self._parser.CurrentByteIndex)
        tag = _START_TAG.match(self._data, element.start)
        element.content = tag.end() if tag else element.start
        return element

    def _end(self, _: str) -> None:
        self._depth -= 1
        if not self._stack:
            return
        element = self._stack.pop()
        at = element.close = self._parser.CurrentByteIndex
        if self._tag is element:
            self._tag = None
            element.content = at
            element.end = at if self._data[at - 2 : at] == b"/>" else self._data.index(b">", at) + 1
        else:
            if self._between is not None:
                self._settle(at)
            element.end = self._data.index(b">", at) + 1
        if not self._stack:
            self._done.append(element)

    def _text(self, text: str) -> None:
        if self._stack:
            self._texts.append(text)
            if not isinstance(self._between, Text):
                self._begin(Text(self._parser.CurrentByteIndex))

    def _other(self, *_: str) -> None:
        if self._stack:
            self._begin(Element("#", {}, self._parser.CurrentByteIndex))

    def _cdata(self) -> None:
        self._text("")

    def _begin(self, between: Element | Text) -> None:
        self._settle(between.start)
        self._between = between
        self._stack[-1].children.append(between)

    def _settle(self, at: int) -> None:
        """End what was open before the event at `at`."""
        if self._tag is not None:
            self._tag.content = at
            self._tag = None
        between, self._between = self._between, None
        if isinstance(between, Text):
            between.end = at
            between.shown = "".join(self._texts)
            self._texts = []
        elif between is not None:
            between.content = between.close = between.end = at

    def _declared(self, _name: str, _system: str | None, _public: str | None, subset: int) -> None:
        if subset or not self._doctype:
            at = self._parser.CurrentByteIndex
            raise InvalidFile(f"Invalid file: {self._name} has a document type declaration at byte {at}", param="file")


_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE = re.compile(rb"""(?<!\s)\s++([^\s=/>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")

_TAG_NAME = re.compile(rb"<([^\s/>]+)")


def written_name(data: bytes, element: Element) -> str:
    """An element's name as its start tag has it, with the prefix of its part."""
    return _TAG_NAME.findall(data, element.start, element.content)[0].decode()


def written_prefix(data: bytes, element: Element) -> str:
    """The prefix of that name, with its colon, or nothing."""
    return "".join(written_name(data, element).rpartition(":")[:2])


def attribute_spans(data: bytes, element: Element) -> dict[str, AttributeSpan]:
    """Return the place of each attribute in the element's start tag, by its short name.

    Raises `InvalidFile` if two of them have one name, as in the two namespaces that Office has for one thing.
    """
    found = _ATTRIBUTE.finditer(data, element.start, element.content)
    own = [one for one in found if not (one[1] == b"xmlns" or one[1].startswith(b"xmlns:"))]
    if len(own) != len(element.attributes):
        raise InvalidFile(f"Invalid file: the tag at byte {element.start} has an attribute twice", param="file")
    return {
        name: AttributeSpan(one.start(), *one.span(2 if one[2] is not None else 3))
        for name, one in zip(element.attributes, own, strict=True)
    }
