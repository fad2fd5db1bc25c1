"""Marks: blocks out of a parser's items, and the source's notation out of outputs with marks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wholetext.reading import written
from wholetext.markup.blocks import InlineItem, build
from wholetext.markup.marks import (
    Block,
    Mark,
    Verbatim,
    aligned,
    canonical,
    emptied,
    from_words,
    local,
    lost,
    normalised,
    parts,
    plain,
    renumber,
    with_words,
    without_invented,
)

TAGS = ("b", "i", "a")


def opening(name: str) -> InlineItem:
    return InlineItem("open", f"<{name}>", name=name)


def closing(name: str) -> InlineItem:
    return InlineItem("close", f"</{name}>", name=name)


def test_tags_within_a_sentence_are_marks_and_those_around_it_are_literals() -> None:
    items = [
        opening("b"),
        InlineItem.text(" Click "),
        opening("i"),
        opening("a"),
        InlineItem.text("here"),
        closing("a"),
    ]
    items += [closing("i"), InlineItem.text(" now "), closing("b"), InlineItem("single", "<br>")]
    assert build(items) == [
        *map(Verbatim, ("<b>", " ")),
        Block("Click <g1>here</g1> now", (Mark("<i><a>", "</a></i>"),)),
        *map(Verbatim, (" ", "</b>", "<br>")),
    ]


def test_tags_that_are_not_well_nested_stand_alone() -> None:
    items = [
        opening("b"),
        InlineItem.text("one"),
        opening("i"),
        InlineItem.text("two"),
        closing("b"),
        InlineItem.text("three"),
    ]
    [block, literal] = build([*items, closing("i")])
    assert block == Block("<g1>one<x2/>two</g1>three", (Mark("<b>", "</b>"), Mark("<i>")))
    assert literal == Verbatim("</i>")


def test_a_word_to_keep_stays_in_its_sentence_and_a_symbol_at_its_edge_does_not() -> None:
    text = "{name} is here 😀"
    pieces = build([InlineItem.text(text)], keep=lambda one: [(0, 6), (len(one) - 1, len(one))])
    assert pieces == [Block("<x1/> is here", (Mark("{name}", word=True),)), Verbatim(" "), Verbatim("😀")]


def test_what_looks_like_a_mark_in_a_text_is_kept_as_it_is() -> None:
    [block] = build([InlineItem.text("Write <g3>here</g3> and ＜ x 2 /＞ now")])
    assert isinstance(block, Block)
    assert block.text == "Write <g1>here</g1> and <x2/> now"
    assert written([block]) == "Write <g3>here</g3> and ＜ x 2 /＞ now"


def test_decoded_characters_come_back_in_the_notation_of_the_source() -> None:
    text = InlineItem.text("A &amp; B {x}", "A & B {x}", [0, 1, 2, 7, 8, 9, 10, 11, 12, 13])
    pieces = build([text], keep=lambda one: [(one.index("{"), len(one))], writer=lambda one: one.replace("&", "&amp;"))
    assert written(pieces) == "A &amp; B {x}"


def test_the_part_of_a_block_has_marks_of_its_own() -> None:
    marks = (Mark("{n}"), Mark("<b>", "</b>"), Mark("<i>", "</i>"))
    assert local("x <x1/></g2> <g3>y</g3>", marks) == (
        "x <x1/><x2/> <g3>y</g3>",
        (Mark("{n}"), Mark("</b>"), Mark("<i>", "</i>")),
    )


NESTED = "a <g1>b <g2>c</g2></g1> <g3>d</g3>"


@pytest.mark.parametrize(
    ("marked", "output", "numbers"),
    [
        ("<g1>a</g1> <x2/>", "<g1>a</g1> <x2/>", []),
        ("<g1>a</g1> <x2/>", "<x2/> <g1>a</g1>", []),
        ("<g1>a</g1> <x2/>", "<g1>a <x2/>", [1]),
        ("<g1>a</g1> <x2/>", "</g1>a<g1> <x2/>", [1]),
        ("<g1>a</g1> <x2/>", "<g1>a</g1> <x2/> <x2/>", [2]),
        ("<g1>a</g1> <x2/>", "<g1>a</g1> <x2/> <x3/>", [3]),
        ("<g1>a</g1> <x2/>", "a", [1, 2]),
        (NESTED, "<g3>d</g3> <g1><g2>c</g2> b</g1>", []),
        (NESTED, "<g1>b</g1> <g2>c</g2> <g3>d</g3>", [2]),
        (NESTED, "<g1>b <g2>c <g3>d</g3></g2></g1>", [3]),
        (NESTED, "<g2>c <g1>b</g1></g2> <g3>d</g3>", [1, 2]),
    ],
)
def test_marks_that_are_lost_or_nested_otherwise_are_named(marked: str, output: str, numbers: list[int]) -> None:
    assert lost(marked, output) == numbers


def test_variants_of_marks_are_understood() -> None:
    assert normalised("＜g1＞a< /g1 > <x2 /> <X3></X3>") == "<g1>a</g1> <x2/> <x3/>"


def test_words_to_keep_may_be_shown_and_are_found_again() -> None:
    marks = (Mark("{a}", word=True), Mark("<b>", "</b>"), Mark("{a}", word=True))
    shown = with_words("<x1/> and <g2>it</g2> <x3/>", marks)
    assert shown == "{a} and <g2>it</g2> {a}"
    assert from_words("{a} と {a} と {a} <g2>それ</g2>", marks) == "<x1/> と <x3/> と {a} <g2>それ</g2>"
    assert from_words("HB-157348と", (Mark("HB-1573", word=True),)) == "HB-157348と"
    assert from_words("コードHB-1573を", (Mark("HB-1573", word=True),)) == "コード<x1/>を"


def test_aligned_marks_are_all_there_and_between_words() -> None:
    found = aligned("Click <g1>here</g1> to pay.", "Hier klicken zum Zahlen.")
    assert not lost("Click <g1>here</g1> to pay.", found)
    assert plain(found) == "Hier klicken zum Zahlen."
    assert not any(before[-1:].isalpha() and after[:1].isalpha() for before, after in _around_marks(found))


@pytest.mark.parametrize(
    ("marked", "output", "expected"),
    [
        ("My husband is a <g1>teacher</g1>.", "제 남편은 교사예요.", "제 남편은 <g1>교사예요</g1>."),
        ("<g1>a <g2>b</g2></g1> c", "uno due tre", "<g1>uno <g2>due</g2></g1> tre"),
        ("<g1>a</g1> <g2>b</g2>", "uno due", "<g1>uno</g1> <g2>due</g2>"),
        ("Wait.<x1/> Go now.", "Warte. Geh jetzt.", "Warte.<x1/> Geh jetzt."),
        ("a <x1/> b", "eins zwei", "eins <x1/>zwei"),
        ("今天<g1>天气</g1>好", "날씨가 좋아요", "날씨가 <g1>좋아요</g1>"),
        ("<g1>a b c</g1>", "一", "<g1>一</g1>"),
        ("<g1>a</g1>", "!", "!<g1></g1>"),
    ],
)
def test_aligned_pairs_hold_words_and_touch_them(marked: str, output: str, expected: str) -> None:
    assert aligned(marked, output) == expected


def _around_marks(text: str) -> Iterable[tuple[str, str]]:
    found = parts(text)
    return [(found[n - 1][0], found[n + 1][0]) for n in range(1, len(found) - 1) if found[n][1]]


items = st.lists(
    st.one_of(
        st.text("ab {}<g1/x>&😀\n", min_size=1, max_size=8).map(InlineItem.text),
        st.sampled_from([*map(opening, TAGS), *map(closing, TAGS), InlineItem("single", "<br>")]),
    ),
    max_size=12,
)


@given(items, st.text("ab <g1x2/>", max_size=20))
@settings(max_examples=300)
def test_blocks_restore_to_their_source_and_aligned_marks_are_always_kept(found: list[InlineItem], output: str) -> None:
    pieces = build(found, keep=lambda text: [(at, at + 1) for at, one in enumerate(text) if one in "{😀"])
    assert written(pieces) == "".join(item.source for item in found)
    for piece in pieces:
        if isinstance(piece, Block):
            assert "".join(text for text, _ in parts(piece.text)) == piece.text
            assert not lost(piece.text, aligned(piece.text, output.replace("<", "")))


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("The <g1>way</g1>", "<g1>Weg</g1> <b1>x</b1> </7>", "<g1>Weg</g1> x "),
        ("The way", "Weg?</</a", "Weg?a"),
        ("5 < 7", "5 < 7 <i7>", "5 < 7 "),
        ("The way", "Der Weg", "Der Weg"),
        ("a <x1/> <b>", "<i>a</i> <x1/> <b><u>", "a <x1/> <b>"),
    ],
)
def test_tags_that_a_model_made_up_are_dropped(source: str, output: str, expected: str) -> None:
    assert without_invented(source, output) == expected


def test_many_tags_that_a_model_made_up_are_dropped_in_linear_work() -> None:
    source = "The <g1>old <x2/> town</g1> " * 100_000
    assert without_invented(source, "<b>a</b> " * 200_000) == "a " * 200_000


@pytest.mark.parametrize(
    ("source", "output", "numbers"),
    [
        ("a <g1>b</g1>", "ab <g1></g1>", [1]),
        ("a <g1>b</g1>", "ab <g1> </g1>", [1]),
        ("a <g1></g1> b", "a b<g1></g1>", []),
        ("a <g1>b</g1>", "<g1>b</g1> a", []),
        ("a <g1><x2/>b</g1>", "a b<g1><x2/></g1>", [1]),
        ("a <g1><x3/> b</g1>", "b a <g1><x3/></g1>", []),
        ("a <g1><g4>b</g4> c</g1>", "<g1><g4>b c</g4></g1> a", []),
    ],
)
def test_pairs_that_lost_their_text_are_named(source: str, output: str, numbers: list[int]) -> None:
    pair = Mark("<b>", "</b>")
    assert emptied(source, output, (pair, Mark("<br>"), Mark("{0}", word=True), pair)) == numbers


# ---- what translation memories compare


@pytest.mark.parametrize(
    ("text", "form", "numbers"),
    [
        ("Yes.", "Yes.", []),
        ("a < b", "a < b", []),
        ("<g4>A <x2/></g4><x9/>", "<g1>A <x2/></g1><x3/>", [4, 2, 9]),
        ("<g1>A</g1>", "<g1>A</g1>", [1]),
    ],
)
def test_marks_are_numbered_in_their_order(text: str, form: str, numbers: list[int]) -> None:
    assert canonical(text) == (form, numbers)
    assert renumber(form, numbers) == text


@pytest.mark.parametrize(
    "text", ["<g1>A", "A</g1>", "<g1><g2>A</g1></g2>", "<x1/>A<x1/>", "<g1>A</g1><g1>B</g1>", "< g1 >A"]
)
def test_a_text_whose_marks_are_ambiguous_has_no_form(text: str) -> None:
    assert canonical(text) is None


def test_words_to_keep_are_a_part_of_the_text() -> None:
    marks = (Mark("{name}", word=True), Mark("<b>", "</b>"), Mark("<br>"))
    assert canonical("Hi <x1/>, <g2>you</g2><x3/>", marks) == ("Hi {name}, <g1>you</g1><x2/>", [2, 3])
    assert canonical("Hi <x1/>", (Mark("<g1>", word=True),)) is None
