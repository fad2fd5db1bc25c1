"""Plain text comes back byte for byte, and what is translated of it are sentences, items and branches."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tests.wholetext import reading
from wholetext.markup import plain
from wholetext.markup.marks import Piece, restore
from wholetext.markup.spans import keep_spans


def read(text: str, *terms: str) -> list[Piece | None]:
    return list(plain.pieces(text, partial(keep_spans, terms=terms)))


def blocks(text: str, *terms: str) -> list[str]:
    pieces = read(text, *terms)
    assert reading.written(pieces) == text
    return reading.texts(pieces)


def translated(text: str) -> str:
    """The text with each block in capitals, but for its marks."""
    return reading.written(read(text), lambda one: re.sub(r"<[^<>]*>|[^<]+", _in_capitals, one))


def _in_capitals(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("<") else found[0].upper()


@pytest.mark.parametrize(
    "text",
    [
        "One sentence.",
        "Hello, world.\nHow are you?",
        "A paragraph that was wrapped by hand, in the middle of\nits only sentence, as e-mails are.",
        "Dear all,\nplease come.\nThanks,\nAnn",
        "3. Oktober ist ein Feiertag",
        "5. místo obsadil náš tým",
        "3.5 million people",
        "Q: who is it?",
        "A. Smith wrote this book",
        # what only looks like a message
        "See {n, plural, one {x} other {x} here",
        "See n, plural, one {x}} here",
        "See {n, plural, one {x} y} here",
    ],
)
def test_a_paragraph_of_prose_is_one_block(text: str) -> None:
    assert [re.sub("<x[12]/>", "{x}", one) for one in blocks(text)] == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- one thing\n- two things", ["one thing", "two things"]),
        ("* one\n\t* two\n  + three", ["one", "two", "three"]),
        ("• one\n‣ two\n◦ three\n– four\n・五つ", ["one", "two", "three", "four", "五つ"]),
        ("1. open it\n2. close it", ["open it", "close it"]),
        ("1. Open the lid", ["Open the lid"]),
        ("1) one\n(2) two\na) three\n(b) four\niv) five", ["one", "two", "three", "four", "five"]),
        ("a. one\nb. two", ["one", "two"]),
        ("①一つ目\n② 二つ目", ["一つ目", "二つ目"]),
        ("一、总则\n二、细则\n（三）其他", ["总则", "细则", "其他"]),
        ("1.1 Scope\n1.2 Terms", ["Scope", "Terms"]),
        ("- [ ] open\n- [x] done\n☑ ready", ["open", "done", "ready"]),
        ("# Title\nThe text of it.", ["Title", "The text of it."]),
        ("Name:\tAnn Lee\nCity:\tRome", ["Name:", "Ann Lee", "City:", "Rome"]),
        ("Soup     warm\nSalad    cold", ["Soup", "warm", "Salad", "cold"]),
        ("| Soup | warm |\n|---|---|\n| Salad | cold |", ["Soup", "warm", "Salad", "cold"]),
        ("Menu\nSoup of the day\nSalad\nCoffee", ["Menu", "Soup of the day", "Salad", "Coffee"]),
        ("You need:\n- salt\n- pepper", ["You need:", "salt", "pepper"]),
        ("One.\n\n\nTwo.", ["One.", "Two."]),
        ("-----\n12:30\n\t\n", []),
        ("Code\n    first\n  second", ["Code", "first", "second"]),
        (
            "{who, select, female {her {n, selectordinal, one {#st} other {#th}} try} other {their try}}",
            ["her", "<x1/>st", "<x1/>th", "try", "their try"],
        ),
        ("{n, plural, other {it's # of {x}}}", ["it's <x1/> of <x2/>"]),
    ],
)
def test_lines_that_stand_for_themselves_are_blocks_of_their_own(text: str, expected: list[str]) -> None:
    assert blocks(text) == expected
    assert blocks(text.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("separator", ["\r\n", "\n    ", "\n> ", " \n", "\n\t"])
def test_lines_of_one_sentence_are_one_block_whatever_is_between_them(separator: str) -> None:
    first = separator.lstrip("\r\n ") if separator.strip() else separator.lstrip("\r\n")
    text = first + separator.join(["this is a sentence that someone wrapped", "in the middle,", "as they did."])
    assert blocks(text) == ["this is a sentence that someone wrapped\nin the middle,\nas they did."]
    assert translated(text) == text.upper()


def test_spans_and_terms_are_marks() -> None:
    assert blocks("Buy C++ at https://a.com/b now", "C++") == ["Buy <x1/> at <x2/> now"]


def test_a_message_is_cut_around_its_plurals() -> None:
    text = "You have {n, plural, offset:1 =0 {no files} one {# file} other {# files in {folder}}} and {money, number}."
    assert blocks(text) == ["You have", "no files", "<x1/> file", "<x1/> files in <x2/>", "and <x1/>."]
    assert (
        translated(text)
        == "YOU HAVE {n, plural, offset:1 =0 {NO FILES} one {# FILE} other {# FILES IN {folder}}} AND {money, number}."
    )


def test_apostrophes_depth_and_lines_of_messages() -> None:
    assert blocks("{a, select, other {" * 50 + "x" + "}}" * 50)
    assert blocks("{n, plural, other {a}} and this\r\nis it") == ["a", "and this", "is it"]
    text = "{n, plural, other {it''s '{not}' # of {x}}}"
    assert blocks(text) == ["it's <x1/> <x2/> of <x3/>"]
    assert translated(text) == "{n, plural, other {IT''S '{not}' # OF {x}}}"
    # An apostrophe of the translation must not quote the brace after it.
    [block] = reading.blocks(read("{n, plural, other {of {x}}}"))
    assert restore("l'<x1/>", block.marks, block.writer) == "l''{x}"


@pytest.mark.parametrize(
    ("text", "target", "missing"),
    [
        ("{n, plural, one {a} other {b}}", "ru", ("few", "many")),
        ("{n, plural, one {a} few {b} many {c} other {d}}", "ru", ()),
        ("{n, plural, one {a} other {b}}", "de", ()),
        ("{n, plural, =0 {a} other {b}}", "ja", ()),
        ("{n, plural, =0 {a} other {b}}", "pt-BR", ("one",)),
        ("{n, selectordinal, one {#st} other {#th}}", "en-GB", ("two", "few")),
        ("{g, select, male {a} other {b}}", "ar", ()),
        ("{g, select, male {{n, plural, other {b}}} other {b}}", "lv", ("zero", "one")),
        ("{name}", "ru", ()),
    ],
)
def test_missing_plural_categories(text: str, target: str, missing: tuple[str, ...]) -> None:
    assert plain.icu_plural_categories_missing(text, target) == missing


def test_a_long_line_is_cut_between_sentences_and_never_in_a_span() -> None:
    sentence = "This is a sentence with {a placeholder} and `some code in it`, no more. "
    found = blocks(sentence * 500)
    assert max(map(len, found)) <= 8000
    assert all(one.endswith("more.") for one in found)
    assert all(len(one) > 3000 for one in blocks("漢字" * 10_000))
    blocks("x" * 7990 + "https://example.com/" + "y" * 500 + "z" * 9000)
