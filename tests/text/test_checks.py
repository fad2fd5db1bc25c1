"""Guards on a translation: each has what it must catch and what it must let pass."""

from __future__ import annotations

import pytest

from dragoman.text import checks


@pytest.mark.parametrize(
    ("source", "output", "kept"),
    [
        ("a\nb", "x\ny", True),
        ("a\nb", "x y", False),
        ("a\n\nb\nc", "x\n\ny\nz", True),
        ("a\n\nb\nc", "x\ny\n\nz", False),
        ("a\r\nb", "x\ny", True),
        ("a\n \nb", "x\n\ny", True),
        ("a b", "x", True),
        ("a", "x\n\nNote: y", False),
        ("a\n", "x", True),
    ],
)
def test_line_breaks(source: str, output: str, kept: bool) -> None:
    assert checks.line_breaks_kept(source, output) is kept


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
def test_what_must_be_copied(source: str, output: str, missing: tuple[str, ...]) -> None:
    assert checks.lost(source, output) == missing


def test_laughter_is_no_echo_and_no_loop() -> None:
    assert checks.warnings("ㅋㅋㅋㅋㅋㅋㅋㅋ", "hahahahahahaha", "ko", "en") == ()


GERMAN = "Ich komme heute etwas später nach Hause."


@pytest.mark.parametrize(
    ("source", "output", "languages", "echo"),
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
def test_untranslated_copies(source: str, output: str, languages: tuple[str | None, str], echo: bool) -> None:
    assert checks.echoes(source, output, *languages) is echo


def test_a_good_translation_has_no_warnings() -> None:
    source = "Hi {name},\n\nmeet me at 3:30 PM: https://a.com/b (1,000 people)."
    output = "{name}さん、\n\n3時30分に会いましょう：https://a.com/b （1000人）。"
    assert checks.warnings(source, output, "en", "ja") == ()


def test_each_fault_is_a_sentence() -> None:
    source = "Hi {name},\nthe invoice 4711 is due."
    assert checks.warnings(source, "Rechnung fällig. " * 20, "en", "de") == (
        "The line breaks of the source were not kept.",
        "The translation lacks what should be copied from the source: {name}.",
        "The translation lacks numbers of the source: 4711.",
        "The translation repeats itself and may be incomplete.",
    )
    assert checks.warnings(GERMAN, GERMAN, "de", "en") == (
        "The translation is the same as the source; it may not have been translated.",
    )


def test_a_long_list_is_cut_short() -> None:
    (warning,) = checks.warnings(" ".join(f"{{p{index}}}" for index in range(9)), "x", "en", "de")
    assert warning.endswith("{p0}, {p1}, {p2}, {p3}, {p4} and 4 more.")


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "{", "<", "%", "\n" * 1000, "9" * 5000])
def test_no_text_raises(text: str) -> None:
    for other in ("", "x", text):
        checks.warnings(text, other, "en", "ja")
        checks.warnings(other, text, None, "ja")
