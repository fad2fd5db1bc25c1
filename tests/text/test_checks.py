"""Checks of a translation: each has what it must find and what must pass."""

from __future__ import annotations

import random
from pathlib import Path
from typing import get_args

import pytest

from dragoman.text.checks import (
    WARNING_CODES,
    TextChecks,
    line_breaks_kept,
    numbers_lost,
    placeholders_lost,
    repeats,
    sentences_dropped,
)
from dragoman.types import WarningCode

GERMAN = "Ich komme heute etwas später nach Hause."


def warnings(
    source: str, output: str, source_language: str | None = "en", target_language: str = "de"
) -> dict[str, str]:
    """Code and message of what is found in a text of one segment."""
    checks = TextChecks(source_language, target_language)
    checks.add(source, output)
    return {one.code: one.message for one in checks.warnings()}


@pytest.mark.parametrize(
    ("source", "output", "kept"),
    [
        ("a\nb", "x\ny", True),
        ("a\nb", "x y", False),
        ("a\n\nb\nc", "x\n\ny\nz", True),
        ("a\n\nb\nc", "x\ny\n\nz", False),
        ("a\r\nb", "x\ny", True),
        ("a\n \nb", "x\n\ny", True),
        ("a\u2028b\x85c", "x\ny\nz", True),
        ("a b", "x", True),
        ("a", "x\n\nNote: y", False),
        ("a\n", "\n x", True),
    ],
)
def test_line_breaks(source: str, output: str, kept: bool) -> None:
    assert line_breaks_kept(source, output) is kept


@pytest.mark.parametrize(
    ("source", "output", "dropped"),
    [
        ("One. Two. Three. Four.", "Eins. Zwei.", True),
        ("One. Two. Three. Four.", "Eins, zwei. Drei. Vier!", False),
        ("一。二。三！四？", "One.", True),
        ("One. Two. Three.", "Eins.", False),
        ("v1.2.3.4 is out", "v1.2.3.4 ist da", False),
    ],
)
def test_dropped_sentences(source: str, output: str, dropped: bool) -> None:
    assert sentences_dropped(source, output) is dropped


@pytest.mark.parametrize(
    ("source", "output", "missing"),
    [
        ("Hi {name}", "{name}さん、こんにちは", ()),
        ("Hi {name}", "こんにちは", ("{name}",)),
        ("{0} and {0} and {1}", "{1}と{0}", ("{0}",)),
        ("%s of %d", "%d 中の %s", ()),
        ("%(count)d items in ${dir}", "${dir} に %(count) d 個", ("%(count)d",)),
        ("{{ user }} left", "{{user}} 走了", ()),
        ("{{ user }} left", "{{用户}} 走了", ("{{user}}",)),
        ('<b0>Hi</b0> <x id="9"></x>', '<b0>你好</b0><x id="9"></x>', ()),
        ('<b0>Hi</b0> <x id="9"></x>', "<b0>你好", ("</b0>", '<xid="9">', "</x>")),
        ("line<br />", "行<br/>", ()),
        ("see https://a.com/b.", "https://a.com/b をご覧ください", ()),
        ("see https://a.com/b.", "https://a.com をご覧ください", ("https://a.com/b",)),
        ("mail me@a.com", "メールは me@a.com まで", ()),
        ("mail me@a.com", "メールして", ("me@a.com",)),
        ("100% sure, a < b", "確実", ()),
    ],
)
def test_placeholders(source: str, output: str, missing: tuple[str, ...]) -> None:
    assert placeholders_lost(source, output) == missing


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("1,000 people", "1000人"),
        ("1.000 Leute", "1,000 people"),
        ("2 000 000", "200万"),
        ("1.5 million", "150万"),
        ("100万", "1 million"),
        ("$19.99", "19,99 $"),
        ("at 3:30 PM", "3時30分に"),
        ("at 15:30", "at 3:30 PM"),
        ("15.30 Uhr", "3:30 PM"),
        ("2024-03-05", "5 March 2024"),
        ("2024.03.05", "2024年3月5日"),
        ("２０２４年", "2024"),
        ("٣٥ كتابا", "35 books"),
        ("३५ किताबें", "35 books"),
        ("3 people", "three people"),
        ("12月", "December"),
        ("https://a.com/12345 {42}", "x"),
        ("+1 (555) 010-9999", "+1 (555) 010-9999"),
        ("no numbers", "none"),
    ],
)
def test_a_number_written_otherwise_is_not_lost(source: str, output: str) -> None:
    assert numbers_lost(source, output) == ()


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("invoice 4711", "Rechnung", ("4711",)),
        ("invoice 4711", "Rechnung 4712", ("4711",)),
        ("1,234 people", "234人", ("1,234",)),
        ("3.5 km", "three kilometres", ("3.5",)),
        ("from 37 to 42", "von 37", ("42",)),
        ("４２", "x", ("42",)),
        ("77 and 77", "x", ("77",)),
    ],
)
def test_a_number_that_is_in_no_form_there_is_lost(source: str, output: str, lost: tuple[str, ...]) -> None:
    assert numbers_lost(source, output) == lost


@pytest.mark.parametrize(
    "output",
    [
        "!" * 40,
        "ha" * 20,
        "the same thing " * 6,
        "Well, this began well. " + "and then it did not, " * 5,
        "This is quite a long sentence that says something at some length. " * 4,
        "before " + "哈" * 50 + " after, and on it goes",
        "a\n" * 30,
        "word " * 200_000,
    ],
)
def test_a_loop_is_a_repetition(output: str) -> None:
    assert repeats("An ordinary sentence.", output)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("いいえええええ", "Nooooooooooooo"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋ", "hahahahahahahahahahahaha"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ", "ha" * 16),
        ("-" * 60, "-" * 60),
        ("let it be, " * 8, "lass es sein, " * 8),
        ("No, no, no!", "Nein, nein, nein!"),
        ("x", ""),
        ("wait", "wait..............."),
    ],
)
def test_laughter_emphasis_rulers_and_choruses_are_no_repetition(source: str, output: str) -> None:
    assert not repeats(source, output)


def test_ordinary_long_text_is_no_repetition() -> None:
    rng = random.Random(1)
    vocabulary = ["the", "of", "and", "light", "river", "walked", "slowly", "a", "to", "garden", "again", "never"]
    assert not repeats("x", " ".join(rng.choice(vocabulary) for _ in range(5000)))
    assert not repeats("x", " ".join(str(number) for number in range(3000)))
    assert not repeats("x", "\n".join(f"Item {number}: done, with remarks" for number in range(500)))


@pytest.mark.parametrize("unit", [1, 2, 5, 8, 9, 30, 200])
def test_a_unit_of_any_length_is_found(unit: int) -> None:
    text = "".join(chr(ord("a") + index % 26) + str(index) for index in range(unit))[:unit]
    assert repeats("x", text * max(4, 24 // unit + 1))
    assert not repeats("x", text * 2)


@pytest.mark.parametrize(
    ("source", "output", "languages", "copied"),
    [
        (GERMAN, GERMAN, ("de", "en"), True),
        (GERMAN, "ich komme heute etwas später nach hause", ("de", "en"), True),
        (GERMAN, GERMAN, (None, "en"), True),
        (GERMAN, "I will be home a little later.", ("de", "en"), False),
        (GERMAN, GERMAN, ("de", "de-AT"), False),
        ("haha serio?", "haha serio?", ("pl", "en"), False),
        ("Johann Sebastian Bach", "Johann Sebastian Bach", ("de", "en"), False),
        ("https://example.com/a/b/c/d 123 😀", "https://example.com/a/b/c/d 123 😀", ("de", "en"), False),
        ("Selamat pagi semua orang", "Selamat pagi semua orang", ("id", "ms"), False),
        ("明天下午三点我们在公司门口见面吧", "明天下午三点我们在公司门口见面吧", ("zh", "ja"), True),
        ("明天下午三点我们在公司门口见面吧", "明天下午三点我们在公司门口见面吧", ("zh", "zh-Hant"), False),
    ],
)
def test_copies_of_the_source(source: str, output: str, languages: tuple[str | None, str], copied: bool) -> None:
    assert ("source_copied" in warnings(source, output, *languages)) is copied


def test_a_good_translation_has_no_warnings() -> None:
    source = "Hi {name},\n\nmeet me at 3:30 PM: https://a.com/b (1,000 people)."
    output = "{name}さん、\n\n3時30分に会いましょう：https://a.com/b （1000人）。"
    assert warnings(source, output, "en", "ja") == {}
    assert warnings("ㅋㅋㅋㅋㅋㅋㅋㅋ", "hahahahahahaha", "ko", "en") == {}


def test_warnings_have_known_codes_and_name_what_is_missing() -> None:
    found = warnings("Hi {name},\nthe invoice 4711 is due.", "Rechnung fällig. " * 20)
    assert set(found) == {"line_breaks_lost", "repetition", "placeholders_lost", "numbers_changed"}
    assert "{name}" in found["placeholders_lost"]
    assert "4711" in found["numbers_changed"]
    assert set(WARNING_CODES) == set(get_args(WarningCode))
    assert all(message.endswith(".") for message in found.values())


def test_the_api_page_lists_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` | {meaning} |" in page for code, meaning in WARNING_CODES.items())


def test_a_text_is_checked_over_all_of_its_segments() -> None:
    checks = TextChecks("en", "de")
    for number in range(4):
        checks.add(f"Sentence one of item {number}77. And a second one.", f"Erster Satz zu Punkt {number}77.")
    checks.add("Invoice 4711 for {name}.", "Rechnung.")
    checks.add("Invoice 4711 for {name}.", "Rechnung.")
    found = {one.code: one.message for one in checks.warnings()}
    assert set(found) == {"sentences_dropped", "placeholders_lost", "numbers_changed"}
    assert found["placeholders_lost"].count("{name}") == 2
    assert found["numbers_changed"].count("4711") == 1


def test_a_text_is_copied_only_if_all_of_its_segments_are() -> None:
    for last, copied in ((GERMAN, True), ("I will be late.", False)):
        checks = TextChecks("de", "en")
        checks.add("Guten Morgen!", "Guten Morgen!")
        checks.add(GERMAN, last)
        assert [one.code for one in checks.warnings()] == ["source_copied"] * copied


def test_a_long_list_is_cut_short() -> None:
    message = warnings(" ".join(f"{{p{index}}}" for index in range(9)), "x")["placeholders_lost"]
    assert message.endswith("{p0}, {p1}, {p2}, {p3}, {p4} and 4 more.")


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "{", "<", "%", "\n" * 1000, "9" * 5000])
def test_no_text_raises(text: str) -> None:
    for other in ("", "x", text):
        warnings(text, other, "en", "ja")
        warnings(other, text, None, "ja")
