"""Markdown: what is a block, what is a mark, what is copied, and how characters and line breaks are written."""

from __future__ import annotations

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from tests.wholetext import reading
from wholetext.files.content import keep_nothing
from wholetext.markup import markdown
from wholetext.markup.html import TagRules
from wholetext.markup.marks import Mark, Piece
from wholetext.markup.spans import spans


def read(text: str, rules: TagRules | None = None) -> list[Piece]:
    pieces = [piece for piece in markdown.pieces(text, spans, rules) if piece is not None]
    assert reading.written(pieces) == text
    return pieces


def blocks(text: str, rules: TagRules | None = None) -> list[str]:
    return reading.texts(read(text, rules))


def marks(text: str) -> list[Mark]:
    return reading.marks(read(text))


def translated(text: str, *translations: str) -> str:
    """The document with these translations of its blocks, in order."""
    left = iter(translations)
    return reading.written(read(text), lambda _: next(left))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n\nTwo\nthree\n\n## Four ##\n", ["One", "Two\nthree", "Four"]),
        ("Set\next\n---\n\n***\n\nTwo", ["Set\next", "Two"]),
        ("## One {#id .a}", ["One"]),
        ("- one\n- two\n\n  three\n  - four\n1. five", ["one", "two", "three", "four", "five"]),
        ("- [ ] one\n- [x] two", ["one", "two"]),
        ("> one\n> two\n>\n> > three", ["one\ntwo", "three"]),
        ("> [!NOTE]\n> one", ["one"]),
        ("| one | two \\| three |\n|---|:-:|\n| four | 5 |", ["one", "two | three", "four"]),
        ("one[^1]\n\n[^1]: two\n    three", ["one", "two\nthree"]),
        (":::note\none **two**\nthree\n:::\n\nfour ::: five", ["one <g1>two</g1>\nthree", "four ::: five"]),
        (":::tip[one]\n\ntwo\n\n:::\n\n::: warning three\n\n:::", ["one", "two", "three"]),
        ('!!! note "one"\n    two\n    three\n\n??? tip\n    four', ["one", "two\nthree", "four"]),
        ("* [[one]]\n* [[one|two]]\n* ![[one.png]]", ["two"]),
        ("one  \ntwo\\\nthree", ["one", "two", "three"]),
        ("a*b c", ["a*b c"]),
        ("\ufeffone", ["one"]),
        ("one\r\ntwo\r\n\r\nthree", ["one\ntwo", "three"]),
        ("one \ud800 *two\udfff* \x00 \x0b three", ["one \ud800 <g1>two\udfff</g1> \x00 \x0b three"]),
        ("---\ntitle: one\n---\n\ntwo", ["two"]),
        ("---\n\none\n\n---\n\ntwo", ["one", "two"]),  # front matter begins with a key
        ("+++\ntitle = 'one'\n+++\n", []),
        ("```\none\n```", []),
        ("~~~ one\n\ntwo", []),
        ("    one\n    two", []),
        ("[one]: /two 'three'\n", []),
        ("<!-- one -->\n\n<script>\none\n\ntwo\n</script>", []),
        ("$$\none\n$$", []),
        ("`one`", []),
        ("<https://example.com/one>", []),
        ("> <p>\n> one</p>\n", []),
        ("---\n\n***\n", []),
    ],
)
def test_blocks(text: str, expected: list[str]) -> None:
    assert [block.lstrip("\ufeff") for block in blocks(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected", "kept"),
    [
        ("a **b** *c* d", "a <g1>b</g1> <g2>c</g2> d", [("**", "**"), ("*", "*")]),
        ("a ***b*** ~~c~~ ~d~", "a <g1>b</g1> <g2>c</g2> <g3>d</g3>", [("***", "***"), ("~~", "~~"), ("~", "~")]),
        ('a [b](c "d") e', "a <g1>b</g1> e", [("[", '](c "d")')]),
        ("a [*b*][r] c\n\n[r]: u", "a <g1>b</g1> c", [("[*", "*][r]")]),
        ("a ![b](c) d", "a <g1>b</g1> d", [("![", "](c)")]),
        ("a ![](c) d", "a <x1/> d", [("![](c)", None)]),
        ("a `b c` d", "a <x1/> d", [("`b c`", None)]),
        ("a $b$ c", "a <x1/> c", [("$b$", None)]),
        ("a[^1] b\n\n[^1]: 1", "a<x1/> b", [("[^1]", None)]),
        ("a [r] b [r][] c\n\n[r]: u", "a <g1>r</g1> b <g2>r</g2> c", [("[", "]"), ("[", "][]")]),
        ("a <http://b.c> d", "a <x1/> d", [("<http://b.c>", None)]),
        ("a <b>b</b> <br> c", "a <g1>b</g1> <x2/> c", [("<b>", "</b>"), ("<br>", None)]),
        ("a <kbd>b *c*</kbd> d", "a <x1/> d", [("<kbd>b *c*</kbd>", None)]),
        ("a &nbsp; b", "a <x1/> b", [("&nbsp;", None)]),
        ("a {b} c", "a <x1/> c", [("{b}", None)]),
        ("a [[b]] [[c|d]] e", "a <x1/> <g2>d</g2> e", [("[[b]]", None), ("[[c|", "]]")]),
        ("a \\{b} c", "a <x1/> c", [("\\{b}", None)]),
    ],
)
def test_inline_notation_is_marks(text: str, expected: str, kept: list[tuple[str, str | None]]) -> None:
    assert blocks(text)[0] == expected
    assert [(mark.opening, mark.closing) for mark in marks(text)] == kept


def test_html_blocks_are_read_as_html() -> None:
    text = "<div title='one'>\n  two <b>three</b>\n</div>\n\nfour"
    assert blocks(text) == ["one", "two <g1>three</g1>", "four"]
    assert translated(text, "1 o'", "t\n\nw", "f") == "<div title='1 o&#39;'>\n  t\nw\n</div>\n\nf"
    assert blocks("<x>one</x> two\n", TagRules(ignore=frozenset({"x"}))) == ["<x1/> two"]


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("> one\n> two", "eins\nzwei\ndrei", "> eins\n> zwei\n> drei"),
        ("1. one\n   two", "eins\nzwei", "1. eins\n   zwei"),
        ("one\r\ntwo", "eins\n\nzwei", "eins\r\nzwei"),
        ("> one\nlazy", "eins\n# zwei", "> eins\n\\# zwei"),
        ("# one", "eins\nzwei #", "# eins zwei \\#"),
        ("## 1. one", "1. eins", "## 1. eins"),
        ("one\n===", "1. eins", "1\\. eins\n==="),
        ("**one**:", "<g1>eins</g1>:", "**eins**:"),
        ("one", "eins  \nzwei", "eins zwei"),
        ("| one |\n|---|", "eins | zwei\ndrei", "| eins \\| zwei drei |\n|---|"),
        ("a &amp; &eacute; b", "x & é", "x &amp; &eacute;"),
        ("a $5 b", "x $6 y", "x $6 y"),
        (":::note\na [[b]]\n:::", "x <x1/>", ":::note\nx [[b]]\n:::"),
        ("a \\* b * c", "x * y", "x * y"),
        ("[a] b\n\n[r]: u\n", "[c] d", "\\[c\\] d\n\n[r]: u\n"),
    ],
)
def test_line_breaks_and_characters_are_written_as_in_the_block(text: str, translation: str, expected: str) -> None:
    assert translated(text, translation) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("2 * 3 *x* a*b", "2 * 3 \\*x\\* a\\*b"),
        ("a_b _c_ d _ e", "a_b \\_c\\_ d _ e"),
        ("a `b", "a \\`b"),
        ("[1] and [a [b]] c", "[1] and [a [b]] c"),
        ("[a](b)", "\\[a\\](b)"),
        ("a] b", "a\\] b"),
        ("a[^1]", "a\\[^1\\]"),
        ("a <b c < d", "a \\<b c < d"),
        ("AT&T &amp; &copy x", "AT&T \\&amp; &copy x"),
        ("a\\b \\* c\\", "a\\b \\\\\\* c\\\\"),
        ("# one", "\\# one"),
        ("#one", "#one"),
        ("- one", "\\- one"),
        ("-5 or +5", "-5 or +5"),
        ("1. one", "1\\. one"),
        ("1.5 m", "1.5 m"),
        ("> one", "\\> one"),
        ("---", "\\---"),
        ("~~a~~ and $5-$6", "\\~\\~a\\~\\~ and \\$5-\\$6"),
    ],
)
def test_what_would_be_markup_is_escaped(translation: str, expected: str) -> None:
    assert translated("one", translation) == expected
    assert reading.texts(markdown.pieces(expected, lambda _: ())) == (
        [translation] if any(map(str.isalpha, translation)) else []
    )


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("This is **b** here", "これは<g1>「b」</g1>です", "これは **「b」** です"),
        ("This is **b** here", "これは<g1>b</g1>です", "これは**b**です"),
        ("This is _b_ here", "これは<g1>b</g1>です", "これは*b*です"),
        ("This is _b_ here", "See <g1> b </g1>now", "See  _b_ now"),
        ("This is **[b](u)** here", "これは<g1>b</g1>です", "これは **[b](u)** です"),
        ("This is [**b**](u) here", "これは<g1>b</g1>です", "これは[**b**](u)です"),
        ("This ~~is~~ here.", "Das<g1>ist!</g1>hier.", "Das~~ist!~~ hier."),
        ("a <b>b</b> c", "x<g1> y </g1>z", "x<b> y </b>z"),
    ],
)
def test_emphasis_stays_emphasis_beside_other_characters(text: str, translation: str, expected: str) -> None:
    assert translated(text, translation) == expected
    assert [mark.opening.strip("_*~") for mark in marks(expected)] == [
        mark.opening.strip("_*~") for mark in marks(text)
    ]


REFERENCES = (
    *(
        "&lt;",
        "&gt;",
        "&amp;",
        "&quot;",
        "&copy;",
        "&nbsp;",
        "&eacute;",
        "&lbrack;",
        "&ast;",
        "&lowbar;",
        "&vert;",
        "&grave;",
    ),
    *(
        "&#60;",
        "&#62;",
        "&#38;",
        "&#42;",
        "&#95;",
        "&#91;",
        "&#93;",
        "&#96;",
        "&#92;",
        "&#124;",
        "&#35;",
        "&#45;",
        "&#x3C;",
    ),
    *(
        "&#X3e;",
        "&#x26;",
        "&#126;",
        "&#36;",
        "&#65;",
        "&amp;lt;",
        "&amp;#60;",
        "&lt",
        "&copy",
        "&unknown;",
        "&;",
        "&#;",
        "R&D",
    ),
)
PLACES = (
    *("Use {0}script{0} tags.", "{0} begins it", "it ends with {0}", "a{0}b", "one {0} of\ntwo {0} lines", "a < b {0} c & d"),
    *("# A heading {0} x", "# {0}b{0} #", "A heading {0}\n===", "- an item {0}\n- {0} too", "> a quote {0}\n> {0} of it"),
    *("| a {0} b | {0} |\n|---|---|\n| {0}c | d{0} |", "see [a {0} link](x.html) {0}", "**bold {0}** and *{0}*"),
    *("a`code`{0}`b` c", "a <b>{0}</b> c", "![an {0} image](a.png)", "a \\{0} b", "a \\* {0} * b"),
    *("~~no {0}~~ more", "1. {0}. one"),
)  # fmt: skip


def rendered(text: str) -> str:
    """The text that a second reader shows."""
    html = MarkdownIt("gfm-like", {"linkify": False}).enable("table").render(text)
    shown = unescape(re.sub(r"<[^>]*>", "", re.sub(r'<[^<>]*alt="([^"]*)"[^>]*>', r"\1", html)))
    return " ".join(shown.split())


@pytest.mark.parametrize("place", PLACES)
def test_references_show_what_they_show_in_the_source(place: str) -> None:
    """Whatever the translation of a block is: here it is the block with a word before it and one behind it."""
    for reference in REFERENCES:
        text = place.format(reference)
        for keep in (keep_nothing, spans):
            pieces = [piece for piece in markdown.pieces(text, keep) if piece is not None]
            result = reading.written(pieces, lambda block: f"Qzq {block} qzQ")
            assert re.sub("Qzq ?| ?qzQ", "", rendered(result)).split() == rendered(text).split(), (text, result)
