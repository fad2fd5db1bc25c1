"""Cutting and joining: nothing is lost, nothing is over the budget, and cuts fall where they hurt least."""

from __future__ import annotations

import random

import pytest
import regex

from dragoman.text.segments import Piece, cut, join, lines


def words(text: str) -> int:
    return len(text.split())


def octets(text: str) -> int:
    """About what a byte-level tokenizer makes of a text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


def translatable(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.text for piece in pieces if piece.translatable]


def whole(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


HOSTILE = [
    "",
    "   ",
    "\n",
    "\r\n\r\n",
    "\ufeffHello",
    "\0a\0",
    "\ud800 lone \udfff",
    "a\u2028b\u2029c\x85d\x1ce",
    "A.\u3000B. C.\u2003D",
    "}{<>%s{{ {0}<a <b",
    "👨‍👩‍👧‍👦" * 40,
    "🇯🇵🇰🇷" * 40,
    "e\u0301" * 200,
    "a" + "\u0301" * 3000,
    "שלום עולם. \u202eabc\u202c مرحبا بالعالم؟ " * 10,
    "สวัสดีครับวันนี้อากาศดีมาก" * 30,
    "https://example.com/" + "a" * 5000,
    "「はい。」" * 100,
    '"' * 500 + "x",
    "x\t\ty\t" * 50,
    " \n a \n \n b \r\n\r\n c \n ",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("budget", [1, 7, 60])
def test_pieces_joined_are_the_text(text: str, budget: int) -> None:
    pieces = cut(text, "en", budget, octets)
    assert whole(pieces) == text
    assert all(piece.text for piece in pieces)
    assert all(octets(piece) <= budget for piece in translatable(pieces) if len(piece) > 1)


def test_pieces_of_random_text_joined_are_the_text() -> None:
    rng = random.Random(20)
    alphabet = [
        *"aB1 .,!?;:\n\r\t\"'()",
        "\r\n",
        "\n\n",
        "。",
        "、",
        "日本",
        "ไทย",
        "é",
        "e\u0301",
        "👩‍💻",
        "🇫🇷",
        "\u3000",
        "\ud83d",
        "\0",
    ]
    alphabet += [
        "https://a.co/x",
        "{0}",
        "<b>",
        "</b>",
        "\u200b",
        "\u2029",
        "Dr. ",
        "\x1c",
        "\u00a0",
        "-",
        "م",
        "“",
        "”",
    ]
    for _ in range(3000):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(120)))
        budget = rng.choice([1, 3, 10, 40])
        pieces = cut(text, rng.choice(["en", "ja", "th", "ar", "tlh", None]), budget, octets)
        assert whole(pieces) == text
        assert all(octets(piece) <= budget for piece in translatable(pieces) if len(piece) > 1)
        for piece in translatable(pieces):
            assert piece == piece.strip()
            assert any(map(str.isalpha, piece))
        assert join(pieces, translatable(pieces), "en", "de") == text


def test_a_text_that_fits_is_one_piece_with_its_line_breaks() -> None:
    assert cut("One.\nTwo. Three.", "en", 10, words) == (Piece("One.\nTwo. Three.", True),)


def test_a_short_ascii_text_fits_without_being_counted() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    assert cut("Nine char", "en", 10, count) == (Piece("Nine char", True),)
    assert counted == []
    # One that may be a token too long with the space before it, and one whose characters may be several tokens each.
    assert cut("Ten chars.", "en", 10, count) == (Piece("Ten chars.", True),)
    assert cut("Café", "en", 10, count) == (Piece("Café", True),)
    assert counted == ["Ten chars.", "Café"]


def test_white_space_at_the_edges_of_text_and_paragraphs_is_left_out() -> None:
    text = "\ufeff  Hello there \r\n \t \r\n\r\n  Bye\n now\u3000\n"
    assert cut(text, "en", 10, words) == (
        Piece("\ufeff  ", False),
        Piece("Hello there", True),
        Piece(" \r\n \t \r\n\r\n  ", False),
        Piece("Bye\n now", True),
        Piece("\u3000\n", False),
    )


def test_a_blank_line_always_separates() -> None:
    for gap in ("\n\n", "\r\n\r\n", "\r\r", "\n \t\n", "\u2029\n", "\n\n\n\n"):
        assert [piece.text for piece in cut(f"a{gap}b", "en", 100, words)] == ["a", gap, "b"]


@pytest.mark.parametrize(
    "text",
    ["123", "😀 👍🏽", "…?!", "12:30 - 13:45", "https://example.com/hello", "{name}: %s", "☎ 555-0100", "a@b.com"],
)
def test_what_has_no_words_is_not_translatable(text: str) -> None:
    assert cut(text, "en", 1, words) == (Piece(text, False),)


def test_an_overlong_paragraph_is_cut_into_lines_and_packed() -> None:
    text = "one two\nthree four\nfive six\nseven"
    assert translatable(cut(text, "en", 4, words)) == ["one two\nthree four", "five six\nseven"]


def test_an_overlong_line_is_cut_into_sentences_and_packed() -> None:
    text = "Dr. Who is here. He left. Why did he leave?  Nobody knows."
    pieces = cut(text, "en", 6, words)
    assert translatable(pieces) == ["Dr. Who is here. He left.", "Why did he leave?  Nobody knows."]
    assert [piece.text for piece in pieces if not piece.translatable] == [" "]


def test_sentences_without_spaces_between_are_cut() -> None:
    text = "今日は暑い。明日は雨です！本当？そうです。"
    assert translatable(cut(text, "ja", 12, len)) == ["今日は暑い。", "明日は雨です！本当？", "そうです。"]


def test_an_overlong_sentence_is_cut_after_a_clause_rather_than_at_any_space() -> None:
    text = "when the long night ended, all of the travellers went slowly home again"
    assert translatable(cut(text, "en", 8, words))[0] == "when the long night ended,"


def test_an_overlong_sentence_without_clauses_is_cut_at_spaces() -> None:
    text = " ".join(f"word{index}" for index in range(100))
    pieces = translatable(cut(text, "en", 12, words))
    assert " ".join(pieces) == text
    assert all(words(piece) <= 12 for piece in pieces)
    assert len(pieces) <= 12


@pytest.mark.parametrize("cluster", ["👨‍👩‍👧‍👦", "🇯🇵", "e\u0301", "한", "👍🏽", "กำ", "\u0e01\u0e49"])
def test_a_grapheme_is_never_cut_where_it_fits(cluster: str) -> None:
    text = "x" + cluster * 500 + "y"
    pieces = cut(text, "en", 40, octets)
    assert len(pieces) > 1
    edges = {found.end() for found in regex.finditer(r"\X", text)}
    at = 0
    for piece in pieces:
        at += len(piece.text)
        assert at in edges


@pytest.mark.parametrize(
    "span",
    [
        "https://example.com/a/long/path?with=query",
        "{placeholder}",
        '<a href="x y z" class="b">',
        "{{ a b c }}",
        "me@example.com",
    ],
)
def test_a_fixed_span_is_never_cut(span: str) -> None:
    for padding in range(30):
        text = "日" * padding + span + "語" * 30
        pieces = cut(text, "ja", 12, octets)
        assert whole(pieces) == text
        assert sum(span in piece.text for piece in pieces) == 1


def test_a_long_document_keeps_its_order_and_its_breaks() -> None:
    rng = random.Random(3)
    paragraphs = [
        " ".join(
            f"Sentence {number}-{index} says {rng.choice(['this', 'that'])} at length, more or less."
            for index in range(rng.randrange(1, 40))
        )
        for number in range(30)
    ]
    text = "\r\n\r\n".join(paragraphs)
    assert len(text) > 20_000
    pieces = cut(text, "en", 50, words)
    assert whole(pieces) == text
    assert all(words(piece) <= 50 for piece in translatable(pieces))
    shouted = join(pieces, [piece.upper() for piece in translatable(pieces)], "en", "de")
    assert shouted == text.upper()


def test_100_000_characters_without_a_space_are_cut_evenly() -> None:
    pieces = cut("สวัสดี" * 17_000, "th", 300, octets)
    assert all(octets(piece.text) <= 300 for piece in pieces)
    assert len(pieces) < 1.2 * octets("สวัสดี" * 17_000) / 300


def test_characters_are_counted_a_few_times_each_however_long_the_text() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return octets(text)

    texts = ["This is a sentence. " * 10_000, "これは文です。" * 20_000, "x" * 200_000, "a\n" * 50_000, "\n" * 100_000]
    for text in texts:
        counted = 0
        assert whole(cut(text, "en", 100, count)) == text
        assert counted <= 3 * len(text)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="budget"):
        cut("a", "en", 0, words)


def test_a_piece_is_cut_line_by_line() -> None:
    assert lines(Piece("one\n two\r\n\r\n3\nfour", True)) == (
        Piece("one", True),
        Piece("\n ", False),
        Piece("two", True),
        Piece("\r\n\r\n3\n", False),
        Piece("four", True),
    )


def test_joining_puts_one_space_where_the_source_writes_none_and_the_target_does() -> None:
    pieces = cut("今日は暑い。明日は雨です。", "ja", 7, len)
    assert len(pieces) == 2
    assert join(pieces, ["It is hot.", "Rain tomorrow."], "ja", "en") == "It is hot. Rain tomorrow."
    assert join(pieces, ["今天热。", "明天雨。"], "ja", "zh") == "今天热。明天雨。"
    assert join(pieces, ["It is hot. ", "Rain."], "ja", "en") == "It is hot. Rain."
    assert join(pieces, ["", "Rain."], "ja", "en") == "Rain."


def test_joining_puts_no_space_before_what_closes_or_after_what_opens() -> None:
    pieces = (Piece("「", False), Piece("はい", True), Piece("」 ", False), Piece("ええ", True), Piece("！", False))
    assert join(pieces, ["yes", "yeah"], "ja", "en") == "「yes」 yeah！"


def test_joining_keeps_the_white_space_of_the_source() -> None:
    pieces = cut("One here.  Two here.\n\nThree.\t", "en", 2, words)
    assert join(pieces, ["一。", "二。", "三。"], "en", "zh") == "一。  二。\n\n三。\t"


def test_a_translation_too_few_or_too_many_is_refused() -> None:
    pieces = cut("a\n\nb", "en", 5, words)
    for translations in (["x"], ["x", "y", "z"]):
        with pytest.raises(ValueError, match="2 translatable pieces"):
            join(pieces, translations, "en", "de")
