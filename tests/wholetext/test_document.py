"""Documents in each format: nothing is lost for any text, and a translation changes nothing but the texts of blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wholetext.reading import blocks, texts, written
from wholetext.markup import TextFormat, html, markdown
from wholetext.markup import plain as plain_text
from wholetext.markup.document import pieces
from wholetext.markup.html import TagRules
from wholetext.markup.marks import Mark, Piece, Verbatim, parts, plain
from wholetext.markup.spans import spans

FORMATS = get_args(TextFormat)
MANY = settings(max_examples=150)
FRAGMENTS = (
    "a|Word|word. |x9|日本。|す。|é|😀|12|\ud800|\0|\x0b|\x85|\ufeff|\u2028| |   |\u3000|\n|\n\n|\t|\r|\r\n|=|/|:|?",
    "'|\"|!|(|)|#|a) |(i) |① |・|{n}|{g, select, other {it''s {x}}}",
    "<b>|</b>|<i>|</i>|<p>|</p>|<br>|<br/>|<code>|</code>|<pre>|</pre>|<script>|</script>|<title>|</title>|<textarea>|<svg>",
    "</svg>|<img alt='a b'>|<img alt=x>|<input type=submit value=\"q&amp;r\">|<span translate=no>|<span translate=yes>|</span>",
    "<div class=notranslate>|</div>|<!-- c -->|<!--|-->|<!|<?|?>|<![CDATA[|]]>|<ul><li>|<li>|</ul>|<td>|<table>|<x id='9'/>",
    "<a href='x' title=\"t\">|</a>|<http://x.y>|<|>|&|&amp;|&lt;|&gt;|&nbsp;|&eacute;|&#39;|&quot;|&am|p;|&#|&#x41;|&notit;",
    "{a}|%s|http://a.b/?c=d&e|@me|<g1>|</g1>|<x1/>|<x2/>|{n, plural, one {|} other {#}}|}|{|''|'{'",
    "*|**|_|`|``|```\n|~~~\n|~|~~|$|$$|[|]|](|](u)|[^1]|[^1]: |[r]|[r]: /u\n|\n[r]: /u|![|# |## |\n# |> |\n> |- |\n- |\n  - ",
    "1. |\n1. |    |\n    |---|\n|\n---\n|===\n|\\|\\*|\\\n|  \n|+++\n|a: b\n|[!NOTE]\n|{#id}| - [ ] |\n\n- [x] ",
)
fragments = st.sampled_from([one for line in FRAGMENTS for one in line.split("|")] + ["|", "\n|a|b|\n|-|-|\n"])
documents = st.one_of(st.lists(fragments, max_size=25).map("".join), st.text(max_size=60))


def structure(found: Iterable[Piece | None]) -> list[object]:
    """Literals, and the marks of blocks, of which some have a structure themselves."""

    def tags(mark: Mark) -> object:
        return (structure(mark.pieces), mark.closing) if mark.pieces else mark

    return [piece.text if isinstance(piece, Verbatim) else [*map(tags, piece.marks)] for piece in found if piece]


@pytest.mark.parametrize("kind", FORMATS)
@given(documents, st.booleans())
@MANY
def test_any_document_comes_back(kind: TextFormat, document: str, by_name: bool) -> None:
    names = (frozenset({"x"}), frozenset({"b"}), frozenset({"p"})) if by_name else ()
    terms = ("Word", "x9") if by_name else ()
    found = [piece for piece in pieces(document, kind, terms, TagRules(*names)) if piece is not None]
    assert written(found) == document
    assert all(piece.text for piece in found)
    assert not any(isinstance(one, Verbatim) and isinstance(two, Verbatim) for one, two in pairwise(found))


# ---- translations


translations = st.text("AZbé日 &<>\"'/;#=|*_`[]()\\~$.-+!\n", max_size=12)


def replaced(text: str, translations: list[str]) -> str:
    """The block with its words replaced: marks, and what is at the edges of texts, stay."""
    left = iter(translations * (len(text) + 1))
    new: list[str] = []
    for part, is_mark in parts(text):
        edges = re.fullmatch(r"([^\w]*+)(.*?)([^\w]*)", part, re.DOTALL)
        assert edges
        new.append(part if is_mark or not edges[2] else f"{edges[1]}A{next(left)}Z{edges[3]}")
    return "".join(new)


def assert_structure_is_kept(document: str, read: Callable[[str], Iterable[Piece | None]], new: list[str]) -> None:
    found = list(read(document))
    again = read(written(found, lambda text: replaced(text, new)))
    assert structure(again) == structure(found)


INLINE = (
    [
        "word",
        "two words",
        "&amp;",
        "&eacute;",
        " - ",
        "<code>x</code>",
        "&nbsp;",
        ", ",
        "<br>",
        "1 > 2",
        "&lt;",
        "<!-- -->",
    ],
    [
        ("<b>", "</b>"),
        ("<a href='x?a=1&amp;b'>", "</a>"),
        ("<i translate=no>", "</i>"),
        ('<span title="t">', "</span>"),
    ],
    [
        ("<p>", "</p>\n"),
        ("<li>", ""),
        ("<div title='a \"b\" &amp;'>", "</div>"),
        ("<td>", "</td>"),
        ("<title>", "</title>"),
    ],
)


@st.composite
def html_documents(draw: st.DrawFn) -> str:
    words, pairs, blocks = INLINE

    def content(depth: int) -> str:
        found: list[str] = []
        for _ in range(draw(st.integers(1, 4))):
            if depth and draw(st.booleans()):
                opening, closing = draw(st.sampled_from(pairs))
                found += opening, content(depth - 1), closing
            else:
                found.append(draw(st.sampled_from(words)))
            found.append(draw(st.sampled_from([" ", "", "\n "])))
        return "".join(found)

    drawn = draw(st.lists(st.sampled_from(blocks), min_size=1, max_size=4))
    return "\n".join(f"{opening}{content(2)}{closing}" for opening, closing in drawn)


@pytest.mark.parametrize("xml", [False, True])
@given(html_documents(), st.lists(translations, min_size=1, max_size=6))
@MANY
def test_a_translation_of_html_has_the_structure_of_its_source(xml: bool, document: str, new: list[str]) -> None:
    assert_structure_is_kept(document, lambda text: html.pieces(text, lambda _: (), xml=xml), new)


SPANS = (
    "word",
    "two words",
    "`c d`",
    "<http://a.b>",
    "[^1]",
    "x \\* y",
    "&amp;",
    "<b>html</b>",
    "![alt](src)",
    "$a$",
    "1. ",
)
PAIRS = (("**", "**"), ("*", "*"), ("[", '](u "t")'), ("~~", "~~"), ("[", "][r]"))
TEMPLATES = (
    "{}", "# {}", "{}\n===", "- {}\n- {}", "1. {}\n   {}", "> {}\n> {}", "> - {}\n>   {}", "| {} | {} |\n|---|---|\n| {} | 1 |",
    "[^1]: {}", "```\ncode\n```", "<div>\nhtml &lt; {}\n</div>", "{}  \n{}", "- [ ] {}\n\n  {}",
)  # fmt: skip


@st.composite
def markdown_documents(draw: st.DrawFn) -> str:
    def content() -> str:
        found: list[str] = ["Start"]
        for _ in range(draw(st.integers(0, 4))):
            span = draw(st.sampled_from(SPANS))
            opening, closing = draw(st.sampled_from(PAIRS)) if span[0].isalpha() and draw(st.booleans()) else ("", "")
            found.append(f"{opening}{span}{closing}")
        return " ".join(found)

    templates = draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=4))
    blocks = [template.format(*(content() for _ in range(template.count("{}")))) for template in templates]
    return "\n\n".join([*blocks, "[r]: /u\n"])


@given(markdown_documents(), st.lists(translations, min_size=1, max_size=6))
@example("<div>\nhtml &lt; Start <b>html</b>\n</div>\n", [";*日"])
@example("<div>\nStart\n</div>\n\nStart <b title='Start'>html</b>\n", ["日==(b)==é", "日~~(b)~~日"])
@example("| Start `c d` | Start |\n|---|---|\n| Start | 1 |\n\n[r]: /u\n", ["]", "[_="])
@example("1. Start **word**\n   Start <b>html</b>\n\n[r]: /u\n", ["]", "["])
@example("Start **word** ![alt](src)\n\n[r]: /u\n", ["][\u00e9="])
@example("Start **word** word  \nStart\n\n[r]: /u\n", ["[=", "]"])
@MANY
def test_a_translation_of_markdown_has_the_structure_of_its_source(document: str, new: list[str]) -> None:
    assert_structure_is_kept(document, lambda text: markdown.pieces(text, lambda _: ()), new)


# ---- options


@pytest.mark.parametrize(("kind", "expected"), [("html", ["One"]), ("xml", ["One <x1/>"]), ("markdown", ["One"])])
def test_a_document_is_read_in_its_format(kind: TextFormat, expected: list[str]) -> None:
    assert texts(pieces("<P>One <![CDATA[*two*]]></P>", kind)) == expected


@pytest.mark.parametrize("kind", FORMATS)
def test_terms_to_keep_are_marks(kind: TextFormat) -> None:
    [block] = blocks(pieces("Open Blue Harbor now", kind, ("Blue Harbor",)))
    assert (block.text, block.marks[0].opening) == ("Open <x1/> now", "Blue Harbor")


@given(documents)
@MANY
def test_a_block_whose_marks_stand_for_those_of_another_comes_back_with_the_same_marks(document: str) -> None:
    """What a document's reader finds is translated as a text of its own, whatever becomes of its words."""
    for block in blocks(html.pieces(document, lambda _: ())):
        found = list(pieces(block.text, "marks"))
        assert written(found) == block.text
        again = written(found, lambda text: replaced(text, ["Q"]))
        assert [part for part, is_mark in parts(again) if is_mark] == [
            part for part, is_mark in parts(block.text) if is_mark
        ]


def test_marks_that_form_no_pair_are_singles() -> None:
    [block] = blocks(pieces("a</g2> b<g9>c <g1>d</g1> e<x7/>f", "marks"))
    assert block.text == "a<x1/> b<x2/>c <g3>d</g3> e<x4/>f"


# ---- size

READ: dict[TextFormat, Callable[[str], Iterator[Piece | None]]] = {
    "text": lambda text: plain_text.pieces(text, spans),
    "html": lambda text: html.pieces(text, spans),
    "xml": lambda text: html.pieces(text, spans, xml=True),
    "markdown": lambda text: markdown.pieces(text, spans),
    "marks": lambda text: pieces(text, "marks"),
}
LONG = {
    "text": ("word ", "\n", "a\tb\n", "- x\n", "{a} "),
    "html": ("a ", "<", "<b>a", "<b>", "<a ", "&", "&amp;", "<!--", "<!---->", "<div>", "<p>a</p>", "</b>", '<a b="'),
    "markdown": (
        *("word ", "word\n", "a  \n", "*a* ", "*a*", "`a", "$a ", "\\*", "&amp;", "<", "[", "![", "[a](", "> ", "- ", "- a\n"),
        *("<b>a", "<div>\n", "<p>a</p>\n\n", "|a|b|\n|-|-|\n", "#\n"),
    ),
    "marks": ("word ", "<g1>", "</g1>", "<x1/>", "<g1>a", "<g1>a</g1>", "a<x2/>b "),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fragment"), [(kind, one) for kind in FORMATS for one in LONG[kind.replace("xml", "html")]]
)
def test_a_long_document_comes_back_and_the_caller_may_pause_within_it(kind: TextFormat, fragment: str) -> None:
    document = fragment * (60_000 // len(fragment))
    found = list(READ[kind](document))
    assert written(found) == document
    if len(found) - found.count(None) == 1:  # what is one piece comes after the pauses within it
        assert found.count(None) >= len(document) // 40_000
        return
    between = [0]
    for piece in found:
        if piece is None:
            between.append(0)
        else:
            between[-1] += len(written([piece]))
    assert max(between) < 40_000


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        ("Dr. Smith read {a b} and left. ", "left."),  # the point after a title ends no sentence
        ("彼は{{一。 二}}を読んだ。", "読んだ。"),  # nor does one within a span that is kept
    ],
)
def test_long_text_is_cut_between_sentences_in_every_format(form: TextFormat, sentence: str, end: str) -> None:
    for padding in range(len(sentence)):  # so that the bound is at each place of a sentence
        text = "x" * padding + sentence * 1000
        found = [plain(one) for one in texts(pieces(text, form))]
        assert len(found) > 1
        assert all(len(one) <= 8000 and one.endswith(end) for one in found)
