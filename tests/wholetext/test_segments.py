"""Cutting and joining: nothing is lost, nothing is over the budget, work is bounded, and cuts fall at good places."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
import regex

from wholetext.markup import segments as module
from wholetext.markup.segments import MAX_SEGMENT_CHARACTERS, Joiner, Segment, cut, join, lines, sentences


def words(text: str) -> int:
    return len(text.split())


def byte_tokens(text: str) -> int:
    """About the tokens of a byte-level tokenizer."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


def translatable(segments: Iterable[Segment]) -> list[str]:
    return [segment.text for segment in segments if segment.translatable]


def whole(segments: Iterable[Segment]) -> str:
    return "".join(segment.text for segment in segments)


HOSTILE = (
    *(
        "",
        "   ",
        "\n",
        "\r\n\r\n",
        "\ufeffHello",
        "\0a\0",
        "\ud800 lone \udfff",
        "a\u2028b\u2029c\x85d\x1ce",
        '"' * 500 + "x",
    ),
    *(
        "A.\u3000B. C.\u2003D",
        "}{<>%s{{ {0}<a <b",
        "👨‍👩‍👧‍👦" * 40,
        "🇯🇵🇰🇷" * 40,
        "e\u0301" * 200,
        "a" + "\u0301" * 3000,
    ),
    *(
        "שלום עולם. \u202eabc\u202c مرحبا بالعالم؟ " * 10,
        "สวัสดีครับวันนี้อากาศดีมาก" * 30,
        "https://example.com/" + "a" * 5000,
    ),
    *("「はい。」" * 100, "x\t\ty\t" * 50, " \n a \n \n b \r\n\r\n c \n "),
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("budget", [1, 7, 60])
def test_segments_joined_are_the_text(text: str, budget: int) -> None:
    segments = list(cut(text, "en", budget, byte_tokens))
    assert whole(segments) == text
    assert all(segment.text for segment in segments)
    assert all(byte_tokens(segment) <= budget for segment in translatable(segments) if len(segment) > 1)


def test_segments_of_random_text_joined_are_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SEGMENT_CHARACTERS", 60)  # so that texts have several portions
    monkeypatch.setattr(module, "MAX_SPAN_CHARACTERS", 20)
    monkeypatch.setattr(module, "_WINDOW_CHARACTERS", 15)
    rng = random.Random(20)
    alphabet = [
        *("aB1 .,!?;:\n\r\t\"'()-م“”。、é\u200b\u3000\u2029\x1c\u00a0\ud83d\0"),
        *("\r\n", "\n\n", "日本", "ไทย", "e\u0301", "👩‍💻", "🇫🇷", "https://a.co/x", "{0}", "<b>", "</b>", "Dr. "),
    ]
    for _ in range(1000):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(250)))
        budget = rng.choice([1, 3, 10, 40])
        segments = list(cut(text, rng.choice(["en", "ja", "th", "ar", "tlh", None]), budget, byte_tokens))
        assert whole(segments) == text
        assert all(byte_tokens(segment) <= budget for segment in translatable(segments) if len(segment) > 1)
        for segment in translatable(segments):
            assert segment == segment.strip()
            assert any(map(str.isalpha, segment))
        assert join(segments, translatable(segments), "en", "de") == text


LONG = {
    "one word": "x" * 200_000,
    "one sentence": "word " * 40_000,
    "no spaces": "สวัสดี" * 32_000,
    "chinese": "这是一句话。" * 32_000,
    "line breaks": "\n" * 500_000,
    "spaces": "a" + " " * 500_000 + "b",
    "lines": "a\n" * 100_000,
    "numbers": "1 " * 100_000,
    "paragraphs": "a\n\n" * 30_000,
    "urls": ("https://" + ")" * 2000 + " ") * 100,
    "combining": "a" + "\u0301" * 200_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_work_between_two_segments_is_bounded_for_any_text(text: str) -> None:
    counted = calls = longest = total = 0

    def count(part: str) -> int:
        nonlocal counted, calls, longest
        counted += len(part)
        calls += 1
        longest = max(longest, len(part))
        return byte_tokens(part)

    length = 0
    for segment in cut(text, "en", 300, count):
        assert counted <= 4 * MAX_SEGMENT_CHARACTERS
        assert calls <= 2 * MAX_SEGMENT_CHARACTERS
        total += counted
        counted = calls = 0
        length += len(segment.text)
        assert 0 < len(segment.text) <= MAX_SEGMENT_CHARACTERS
    assert length == len(text)
    assert longest <= MAX_SEGMENT_CHARACTERS
    assert total <= 3 * len(text)


def test_the_first_segments_need_only_the_beginning_of_the_text() -> None:
    counted: list[int] = []
    segments = cut("A sentence. " * 100_000, "en", 50, lambda text: counted.append(len(text)) or words(text))
    assert counted == []
    assert next(segments).translatable
    assert sum(counted) <= 4 * MAX_SEGMENT_CHARACTERS


def test_a_short_ascii_text_fits_without_being_counted() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    assert list(cut("Nine char", "en", 10, count)) == [Segment("Nine char", True)]
    assert counted == []
    # One that may be a token too long with the space before it, and one whose characters may be several tokens each.
    assert list(cut("Ten chars.", "en", 10, count)) == [Segment("Ten chars.", True)]
    assert list(cut("Café", "en", 10, count)) == [Segment("Café", True)]
    assert counted == ["Ten chars.", "Café"]


def test_white_space_around_paragraphs_and_what_has_no_words_is_not_translated() -> None:
    text = "\ufeff  Hello there \r\n \t \r\n\r\n  Bye\n now\u3000\n"
    assert list(cut(text, "en", 10, words)) == [
        Segment("\ufeff  ", False),
        Segment("Hello there", True),
        Segment(" \r\n \t \r\n\r\n  ", False),
        Segment("Bye\n now", True),
        Segment("\u3000\n", False),
    ]
    for gap in ("\n\n", "\r\n\r\n", "\r\r", "\n \t\n", "\u2029\n", "\n\n\n\n"):
        assert [segment.text for segment in cut(f"a{gap}b", "en", 100, words)] == ["a", gap, "b"]
    for text in (
        "123",
        "😀 👍🏽",
        "…?!",
        "12:30 - 13:45",
        "https://example.com/hello",
        "{name}: %s",
        "☎ 555-0100",
        "a@b.com",
    ):
        assert list(cut(text, "en", 1, words)) == [Segment(text, False)]


WORDS = [f"word{index}" for index in range(30)]
SENTENCE = "This is a sentence that is repeated. "


@pytest.mark.parametrize(
    ("text", "budget", "expected"),
    [
        ("One.\nTwo. Three.", 10, ["One.\nTwo. Three."]),
        ("one two\nthree four\nfive six\nseven", 4, ["one two\nthree four", "five six\nseven"]),
        ("Dr. Who is here. He left. Why did he?  So.", 6, ["Dr. Who is here. He left.", "Why did he?  So."]),
        ("When the rain had stopped, all of us went home", 6, ["When the rain had stopped,", "all of us went home"]),
        (" ".join(WORDS), 12, [" ".join(WORDS[:11]), " ".join(WORDS[11:20]), " ".join(WORDS[20:])]),
        (SENTENCE * 400, 10**6, [SENTENCE * 216, SENTENCE * 184]),  # 8,000 characters at most
    ],
)
def test_what_is_over_the_budget_is_cut_and_packed(text: str, budget: int, expected: list[str]) -> None:
    assert translatable(cut(text, "en", budget, words)) == [one.strip() for one in expected]


def test_without_spaces_texts_are_cut_at_sentences_and_evenly() -> None:
    text = "今日は暑い。明日は雨です！本当？そうです。"
    assert translatable(cut(text, "ja", 12, len)) == ["今日は暑い。", "明日は雨です！本当？", "そうです。"]
    text = "สวัสดี" * 17_000
    segments = list(cut(text, "th", 300, byte_tokens))
    assert all(byte_tokens(segment.text) <= 300 for segment in segments)
    assert len(segments) < 1.2 * byte_tokens(text) / 300


@pytest.mark.parametrize("cluster", ["👨‍👩‍👧‍👦", "🇯🇵", "e\u0301", "한", "👍🏽", "กำ", "\u0e01\u0e49"])
def test_a_grapheme_is_never_cut_where_it_fits(cluster: str) -> None:
    text = "x" + cluster * 5000 + "y"
    segments = list(cut(text, "en", 40, byte_tokens))
    assert len(segments) > 1
    edges = {found.end() for found in regex.finditer(r"\X", text)}
    at = 0
    for segment in segments:
        at += len(segment.text)
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
@pytest.mark.parametrize("before", [0, MAX_SEGMENT_CHARACTERS - 2120, MAX_SEGMENT_CHARACTERS - 20])
def test_a_fixed_span_is_never_cut(span: str, before: int) -> None:
    for padding in range(0, 30, 1 if before == 0 else 7):
        text = "日" * (before + padding) + span + "語" * 30
        segments = list(cut(text, "ja", 12, byte_tokens))
        assert whole(segments) == text
        assert sum(span in segment.text for segment in segments) == 1


def test_a_budget_of_nothing_is_refused_immediately() -> None:
    with pytest.raises(ValueError, match="budget"):
        cut("a", "en", 0, words)


def test_a_segment_is_cut_line_by_line() -> None:
    assert lines(Segment("one\n two\r\n\r\n3\nfour", True)) == (
        Segment("one", True),
        Segment("\n ", False),
        Segment("two", True),
        Segment("\r\n\r\n3\n", False),
        Segment("four", True),
    )


@pytest.mark.parametrize(
    ("translations", "target", "expected"),
    [
        (["It is hot.", "Rain tomorrow."], "en", "It is hot. Rain tomorrow."),
        (["今天热。", "明天雨。"], "zh", "今天热。明天雨。"),
        (["It is hot. ", "Rain."], "en", "It is hot. Rain."),
        (["", "Rain."], "en", "Rain."),
    ],
)
def test_one_space_comes_where_the_source_writes_none_and_the_target_does(
    translations: list[str], target: str, expected: str
) -> None:
    segments = list(cut("今日は暑い。明日は雨です。", "ja", 7, len))
    assert join(segments, translations, "ja", target) == expected
    spaced = list(cut("One here.  Two here.\n\nThree.\t", "en", 2, words))
    assert join(spaced, ["一。", "二。", "三。"], "en", "zh") == "一。  二。\n\n三。\t"


def test_no_space_comes_before_what_closes_or_after_what_opens() -> None:
    segments = (
        Segment("「", False),
        Segment("はい", True),
        Segment("」 ", False),
        Segment("ええ", True),
        Segment("！", False),
    )
    assert join(segments, ["yes", "yeah"], "ja", "en") == "「yes」 yeah！"


def test_a_segment_may_be_joined_part_by_part() -> None:
    joiner = Joiner("ja", "en")
    joined = joiner.add("It ") + joiner.add("") + joiner.add("is hot.")
    joiner.next_segment()
    assert joined + joiner.add("Rain.") + joiner.add("y") == "It is hot. Rain.y"


@pytest.mark.parametrize("translations", [["x"], ["x", "y", "z"]])
def test_too_few_or_too_many_translations_are_refused(translations: list[str]) -> None:
    with pytest.raises(ValueError, match="2 translatable segments"):
        join(list(cut("a\n\nb", "en", 5, words)), translations, "en", "de")


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Dr. Smith left.  Why? ", "en", ["Dr. Smith left.  ", "Why? "]),
        ("今日は暑い。明日は雨です。", "ja", ["今日は暑い。", "明日は雨です。"]),
        ("你好！你在哪里？", "zh", ["你好！", "你在哪里？"]),
        ("Wir sind z. B. am 3. Mai da. Gut.", "de", ["Wir sind z. B. am 3. Mai da. ", "Gut."]),
        ("A b. C d.", "tlh", ["A b. C d."]),
    ],
)
def test_languages_have_their_own_rules_for_sentences(text: str, language: str, expected: list[str]) -> None:
    assert sentences(text, language) == expected


@pytest.mark.parametrize(
    "text", ["A.\u3000B. C.\u2003D", "\ud800A b. C \udfff.", "a\r\n\r\nb. C", "", "\0. \0", "é\u2029. \x85B. \x1cC"]
)
@pytest.mark.parametrize("language", ["en", "ja", "th", None])
def test_sentences_lose_nothing_where_the_library_does(text: str, language: str | None) -> None:
    assert "".join(sentences(text, language)) == text


def test_windows_add_no_ends_of_sentences() -> None:
    assert len(sentences("".join(f"This is sentence {number}. " for number in range(2000)), "en")) == 2000
    long = "word " * 2000 + "end. "
    assert sentences(long + "Next one. " + long + "Last.", "en") == [long, "Next one. ", long, "Last."]


def test_a_panic_of_the_library_leaves_the_text_whole_and_an_interrupt_is_no_panic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class PanicException(BaseException):
        """As pyo3 raises it."""

    def panic(language: str, text: str) -> list[str]:
        raise PanicException("end byte index 19 is not a char boundary")

    def interrupt(language: str, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_segment_sentences", panic)
    assert sentences("A b. C d.", "en") == ["A b. C d."]
    monkeypatch.setattr(module, "_segment_sentences", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sentences("A b. C d.", "en")
