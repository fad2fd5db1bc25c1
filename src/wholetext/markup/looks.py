"""What the marks of a text look like, for people who edit it: bold, a link, a line break, the words of what is kept.

That is read from the notation of the source: names of elements in HTML, OOXML, catalogues and subtitles, attributes of
DrawingML, CSS, the delimiters of Markdown. What is not known from these is not said; styles that a file defines at another
place are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from wholetext.markup.marks import Mark

KEPT = "="
"""Before the words of a mark that is kept as it is, such as code or a placeholder."""
MOST_CHARACTERS = 60
"""Of the words of a mark."""
_NOTATION_CHARACTERS = 2_000
_TAG = re.compile(r"<(?![/!?])(?:[\w.-]+:)?([\w.-]+)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"(?:[\w.-]+:)?([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_ANY_TAG = re.compile(r"<[^<>]*>|\x02[0-9]+\x03")
_OFF = frozenset(("0", "false", "none", "off", "noStrike"))
_ELEMENTS = {
    **dict.fromkeys(("b", "strong", "bCs"), "bold"),
    **dict.fromkeys(("i", "em", "iCs", "cite", "dfn", "var"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "del", "strike", "dstrike"), "strike"),
    **dict.fromkeys(("a", "hyperlink", "hlinkClick"), "link"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "code"),
    **dict.fromkeys(("br", "cr", "line-break"), "break"),
    "sup": "superscript",
    "sub": "subscript",
}
_VALUES = {
    ("vertAlign", "superscript"): "superscript",
    ("vertAlign", "subscript"): "subscript",
}
_RUN_ATTRIBUTES = {"b": "bold", "i": "italic", "u": "underline", "strike": "strike"}
"""Of the properties of a run in DrawingML (`a:rPr`)."""
_CSS = (
    (re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)"), "bold"),
    (re.compile(r"font-style\s*:\s*(?:italic|oblique)"), "italic"),
    (re.compile(r"text-decoration[\w-]*\s*:[^;]*underline"), "underline"),
    (re.compile(r"text-decoration[\w-]*\s*:[^;]*line-through"), "strike"),
)
_DELIMITERS = {
    **dict.fromkeys(("**", "__"), "bold"),
    **dict.fromkeys(("*", "_"), "italic"),
    **dict.fromkeys(("***", "___", "**_", "__*", "*__", "_**"), "bold italic"),
    "~~": "strike",
    "[": "link",
    "\\\n": "break",
    "  \n": "break",
}


def looks(marks: Sequence[Mark]) -> dict[str, str]:
    """Return what is known of marks by their numbers from 1 on: names separated by spaces, or `KEPT` and words."""
    found = ((number, _look(mark.look or mark.opening, mark.word)) for number, mark in enumerate(marks, 1))
    return {str(number): look for number, look in found if look}


@lru_cache(4096)
def _look(notation: str, is_word: bool) -> str:
    if is_word:
        return KEPT + shown if (shown := _ANY_TAG.sub("", notation).strip().strip("`")[:MOST_CHARACTERS]) else ""
    if notation in _DELIMITERS:
        return _DELIMITERS[notation]
    return " ".join(dict.fromkeys(_of_tags(notation[:_NOTATION_CHARACTERS])))


def _of_tags(notation: str) -> Iterator[str]:
    for tag in _TAG.finditer(notation):
        name = tag[1]
        attributes = {one[1]: one[2] or one[3] or "" for one in _ATTRIBUTE.finditer(tag[2])}
        value = attributes.get("val", "")
        look = _ELEMENTS.get(name) or _ELEMENTS.get(name.lower())  # HTML does not distinguish
        if look and value not in _OFF:
            yield look
        if (name, value) in _VALUES:
            yield _VALUES[name, value]
        if name == "rPr":
            yield from (look for key, look in _RUN_ATTRIBUTES.items() if attributes.get(key, "0") not in _OFF)
            yield from _of_baseline(attributes.get("baseline", "0"))
        yield from (look for pattern, look in _CSS if pattern.search(attributes.get("style", "")))


def _of_baseline(baseline: str) -> Iterator[str]:
    """DrawingML says by how much of their size letters are raised."""
    if baseline.strip("0%"):
        yield "subscript" if baseline.startswith("-") else "superscript"
