"""Fixed spans are found whole, and prose is not taken for them."""

from __future__ import annotations

import pytest

from dragoman.text import spans as module
from dragoman.text.spans import has_letters, spans, without_spans


def found(text: str) -> list[str]:
    return [text[start:stop] for start, stop in spans(text)]


@pytest.mark.parametrize(
    "span",
    [
        *("{0}", "{name}", "{user.name!r:>10}", "{{x}}", "{{ x }}", "${x}", "${a b}", "{}"),
        *("%s", "%d", "%1$s", "%(name)s", "%.2f", "%05d", "%@", "%ld"),
        *("<b0>", "</b0>", '<x id="9">', "<br/>", "<br />", "<ns:tag>", "<a href='x y'>"),
        *("https://example.com/a?b=c&d=%20#e", "http://a.b/c_(d)", "www.example.com", "ftp://h/x", "http://[::1]:80/"),
        *("first.last+tag@mail.example.co.uk",),
    ],
)
def test_a_fixed_span_is_found_whole(span: str) -> None:
    assert found(f"before {span} after") == [span]
    assert found(f"これ{span}です") == [span]
    assert without_spans(f"before {span} after") == "before   after"


@pytest.mark.parametrize(
    "text",
    [
        "100% sure",
        "50%d",
        "a < b and c > d",
        "I <3 you",
        "5 % sur",
        "{not a placeholder}",
        "{名前}",
        "@someone",
        "a@b",
        "%%",
        "x%",
        "<>",
    ],
)
def test_prose_is_not_taken_for_a_span(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("See https://a.com/b.", "https://a.com/b"),
        ("(see https://a.com/b)", "https://a.com/b"),
        ("https://a.com/b(c).", "https://a.com/b(c)"),
        ("https://a.com/bを見て", "https://a.com/b"),
        ('"https://a.com/b"', "https://a.com/b"),
        ("Really, https://a.com?!", "https://a.com"),
    ],
)
def test_a_url_ends_before_the_punctuation_of_its_sentence(text: str, url: str) -> None:
    assert found(text) == [url]


def test_brackets_in_a_long_url_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    excess = module._excess  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(module, "_excess", lambda text, *where: calls.append(where[0]) or excess(text, *where))
    assert found("https://a.com/(" + ")" * 2000) == ["https://a.com/()"]
    assert calls == ["()", "[]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("12 😀 !?", False),
        ("https://a.com/b {name} %s", False),
        ("<b>7</b>", False),
        ("<b>x</b>", True),
        ("三", True),
        ("1 é", True),
    ],
)
def test_letters_outside_of_spans_make_a_text_translatable(text: str, expected: bool) -> None:
    assert has_letters(text) is expected
