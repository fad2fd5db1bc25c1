"""Notations of games and frameworks: what the table lists is kept wherever it stands, tags are pairs, and text stays text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.wholetext.reading import texts, written
from wholetext.markup import document
from wholetext.markup.spans import spans
from wholetext.markup.tool_notations import NOTATIONS, ToolNotation

DOCUMENTS = Path(__file__).parents[2] / "docs" / "documents.md"


def kept(text: str) -> list[str]:
    return [text[start:stop] for start, stop in spans(text)]


@pytest.mark.parametrize("notation", NOTATIONS, ids=[one.tool for one in NOTATIONS])
def test_each_example_is_kept_in_a_sentence(notation: ToolNotation) -> None:
    for example in notation.examples:
        text = f"Say {example} here."
        covered = {at for start, stop in spans(text) for at in range(start, stop)}
        found = re.search(notation.pattern, text)
        assert found is not None and covered >= set(range(*found.span())), example
        assert texts(document.pieces(text, "text"))[0].startswith("Say <x1/>")


def test_the_docs_list_each_tool() -> None:
    page = DOCUMENTS.read_text("utf-8")
    for notation in NOTATIONS:
        assert f"| {notation.tool} |" in page
        assert notation.source.startswith("https://")


@pytest.mark.parametrize(
    "source, text",
    [
        ("Near <color=#BB0000><size=30>its end</size></color>, she said.", "Near <g1>its end</g1>, she said."),
        (
            "Press [b]the button[/b] and [url=https://a.com/b]the page[/url].",
            "Press <g1>the button</g1> and <g2>the page</g2>.",
        ),
        ('A [wave amp="5"]wave [i]here[/i] too[/wave]!', "A <g1>wave <g2>here</g2> too</g1>!"),
        ('Take [thing:part kind="iron"][/thing:part] now', "Take <x1/> now"),
        (
            "A {size=10}big one{/size} for [hero]!{w=0.5} {b}Go{/b}{nw}",
            "A <g1>big one</g1> for <x2/>!<x3/> <g4>Go</g4><x5/>",
        ),
        ("Got \\C[2]the sword\\C[0], \\N[1]!", "Got <x1/>the sword<x2/>, <x3/>!"),
        ("|cffff0000Red words|r and more", "<x1/>Red words<x2/> and more"),
        (
            "See [[Help:Links|how links work]] or [[File:a.png|thumb|200px|the old pier]].",
            "See <g1>how links work</g1> or <g2>the old pier</g2>.",
        ),
        ("Read [[https://example.org/a_b|our page]] first.", "Read <g1>our page</g1> first."),
        ("See :doc:`the guide <guide/x>` and :ref:`tab`.", "See <g1>the guide</g1> and <x2/>."),
        (
            "See {doc}`the guide <x>`, `the site <https://a.org/b_c>`_ too",
            "See <g1>the guide</g1>, <g2>the site</g2> too",
        ),
        ("&cYou lost &l3&7 coins, &eclick here", "<x1/>You lost <x2/>3<x3/> coins, <x4/>click here"),
        ("Hot &#ff8800words &7and &bmore", "Hot <x1/>words <x2/>and <x3/>more"),
        ("&e你好，世界", "<x1/>你好，世界"),
        ("A [c/FF0000:red word] here", "A <g1>red word</g1> here"),
        ("Took {n:plural:one apple|{} apples} of {n}", "Took <x1/>one apple<x2/> apples<x3/> of <x4/>"),
        ("{Count}|plural(one=apple, other={Count} apples) left", "<x1/>apple<x2/> apples<x3/> left"),
        ("{User}|gender(le,la) chat", "<x1/>le<x2/>la<x3/> chat"),
        ('Run <code>let it = "be";</code> and <b>go</b>', "Run <x1/> and <g2>go</g2>"),
        ("|cFFCC00gold|r from |t16:16:a/b.dds|t", "<x1/>gold<x2/> from <x3/>"),
        ("It was\\pgreat\\lAnd fun", "It was\\pgreat<x1/>And fun"),
        ("-Wall   all warnings", "all warnings"),
        ("  --level N   how deep\n", "how deep"),
        ("{0,choice,0#no files|1#one file|1<{0} files} here", "<x1/>no files<x2/>one file<x3/> files<x4/> here"),
        ("See {article 12}the page{/article} {see below}", "See <g1>the page</g1> {see below}"),
        ("From [your-name] to [your-mail]", "From <x1/> to <x2/>"),
        ("Hail, %PCName and %Faction", "Hail, <x1/> and <x2/>"),
        ("%XError: %d bytes", "%XError: <x1/> bytes"),
        ("[[+name]] in $PATH:/opt/bin.", "<x1/> in <x2/>."),
        ("Use std::vector here:: now", "Use <x1/> here:: now"),
        ("The find_by_name of branch.autoSetup, --[no-]track and \\gset", "The <x1/> of <x2/>, <x3/> and <x4/>"),
        ("compiled as %sversion %s", "compiled as <x1/>version <x2/>"),
        ("Error.~%Unable to open~%file", "Error.~%Unable to open~%file"),  # a line break of Lisp's
    ],
)
def test_tags_are_pairs(source: str, text: str) -> None:
    assert texts(document.pieces(source, "text")) == [text]
    assert written(document.pieces(source, "text")) == source


@pytest.mark.parametrize(
    "text",
    [
        "[door opens]", "[Music]", "[laughs] Hello [in English]", "Usage: tool [options] [FILE]...", "see [note] below",
        "Press [i] to go", "a well-known e-mail - not here", "--More--", "[NAME=VALUE]", "100% of it", "50% off", "Wait! stop",
        "&from", "Sa&ve as", "&copy", "Do &not copy it", "Bed&breakfast, Q&a", "Go to ?a=1&b=2&c=3", "[default=N]",
        "Save &changes and &discard rest", "Vino tarde -y se fue.", "He left -I think so.",
        "[[One page]]", "Such -a --you know-- moment", "-a --you know-- …",
        "He said: Yes, :( and so on", "either | or", "1 < 2 is [true]", "Thirty-one -- or so", "§ 3 BGB", "the £5 note",
        "-Oui, je sais", "-NUM   lines", "this|that|both", "50%%of it%% here", "##Heading words##", "a (b|c|d) e",
        "{a|b}(one=two)", "an [% sign", "|two words|",
        "[high-pitched] scream", "50 %Rabatt", "R&D&I", "!Hola! you", "{see below}",
        "For_ward", "E_xit", "\\nplease", "the end.The start", "_very_important_",
    ],
)  # fmt: skip
def test_text_is_not_kept(text: str) -> None:
    for one in kept(text):
        assert not re.search(r"[A-Za-z]{2}", one)


def test_options_are_kept_before_a_word_that_ends_with_a_hyphen() -> None:
    assert kept("-v --verbose  Ein- und Ausgabe") == ["-v --verbose"]


@pytest.mark.parametrize(
    "part",
    [
        "[b]",
        "[/b]",
        "[b][/b]",
        "<a=",
        "[a=",
        "[a b=",
        "{w}[n]",
        "\\C[",
        "[a[",
        "|H",
        "--a-",
        "[a.",
        "%'",
        "[[a|",
        "&c",
        "w -a",
        "-a --b ",
        "-a --b",
        "{a}`b <",
        ":a:`",
        "%d%da ",
        "{a:p:",
        "{a:p:|",
        "{a}|plural(",
        "*|a",
        "{a}{/a",
        "{a,choice,0#",
        "[a-b",
        "a_",
        "a.",
        "@a(",
        "<#a ",
        "&A",
        "$a:/",
        "%%a",
        "%a.",
        "|a.",
        "<code>",
        "-ab ",
    ],
)
def test_hostile_texts_are_scanned_in_linear_work(part: str) -> None:
    for text in (part * 20_000, f"x {part} " * 10_000):
        assert written(document.pieces(text, "text")) == text
