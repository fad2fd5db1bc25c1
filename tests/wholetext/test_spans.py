"""Fixed spans are found whole, and prose is not taken for them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wholetext.markup import spans as module
from wholetext.markup.spans import has_letters, keep_spans, spans, without_spans


def found(text: str) -> list[str]:
    return [text[start:stop] for start, stop in spans(text)]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "usage: x [-v] FILE\n  -v, --verbose  say more\n  -h, --help     show this help",
            ["[-v]", "-v, --verbose", "-h, --help"],
        ),
        ("use '-x' with --dry-run=no, then (--force)", ["-x", "--dry-run", "--force"]),
        ("--no-color at the start\n--all  show all\n--file=FILE", ["--no-color", "--all", "--file"]),
        ("[-a|-b] [--foo|--bar] -q --quiet", ["[-a|-b]", "[--foo|--bar]", "-q --quiet"]),
        ("--I don't know. -- What? --But you said--no. -I know", []),
        ("--what is it", []),
        ("die Datei(-en), e -mail, Haupt- und -neben, x -y", []),
        ("Use -v to see more, or the -r flag.", ["-v", "-r"]),
        ("Then she came -y eso es todo- and left", []),
        ("Usage: tool [-a|--all] [FILE] -v", ["[-a|--all]", "-v"]),
        ("Usage: tool [-o FILE] [--color=WHEN] [-oops] [-]", ["[-o FILE]", "[--color=WHEN]"]),
        ("Send /start or (/help) first, and/or his/her", ["/start", "/help"]),
        ("I went --you know-- home, well --mind you, home--", []),
        ("Try --force, then -- after that -- more", ["--force"]),
    ],
)
def test_options_of_commands_are_kept_and_dashes_are_not(text: str, options: list[str]) -> None:
    assert found(text) == options


@pytest.mark.parametrize(
    "span",
    [
        *("{0}", "{name}", "{user.name!r:>10}", "{{x}}", "{{ x }}", "${x}", "${a b}", "{}"),
        *("%s", "%d", "%1$s", "%(name)s", "%.2f", "%05d", "%@", "%ld", "%(n)d", "%Y-%m-%d", "%APPDATA%"),
        *(
            "%{x}",
            "#{x}",
            "$HOME",
            "{名前}",
            "{n, number}",
            "{d, date, short}",
            "{% if x %}",
            "&nbsp;",
            "&#39;",
            "&frac12;",
            "&rArr;",
        ),
        *("<b0>", "</b0>", '<x id="9">', '<x id="9"/>', "<br/>", "<br />", "<ns:tag>", "<a href='x y'>"),
        "<input disabled>",
        *("<0>", "</0>", "<1/>", "<12 />", "<bold>", "<<name>>", "<3", "a < b", "5 <= x", "i<n", "[X6X]", "[1]"),
        *("[[0]]", "⟦1⟧", "__PH0__", "__name__"),
        *("$t(a.b)", '$t(a, {"count": {{n}} })', "@:a.b", "@.lower:a.b", "@:{'a b'}", "@:(a.b)", "{ $name }"),
        *("<!-- x -->", "<https://a.com/b>", "<@U123>", "<:party:12345>", "<t:1700000000:R>"),
        *("https://example.com/a?b=c&d=%20#e", "http://a.b/c_(d)", "www.example.com", "ftp://h/x", "http://[::1]:80/"),
        *("mailto:a@b.de", "tel:+491234", "git+ssh://a.b/c", "example.com", "github.com/a/b?c=d"),
        *("first.last+tag@mail.example.co.uk", "@john_doe", "@user@mastodon.social", "@scope/package"),
        *("owner/repo#12", "my-org/a.b_c#4711"),
        *(":smile:", ":+1:", "😀", "👩‍👩‍👧", "🇩🇪", "1️⃣", "👍🏽", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "ℹ️", "©", "®", "™"),
        *("`code`", "`a b`", "``a`b``", "```\na\nb\n```"),
        *("/usr/bin/env", "~/docs", "./run.sh", "../a/b", "src/app/main.py", "README.md", "Node.js", ".gitignore"),
        *("C:\\Users\\me\\x.txt", "C:\\Program Files\\x\\y.exe", "\\\\server\\share"),
        *("v1.2.3", "v2", "2.0.0-rc1", "1.2.3", "1.0b2", "2.0-rc1", "192.168.0.1", "192.168.0.1:8080"),
        *("AT&T", "R&D", "H&M", "AT&amp;T", "5 < 7 && 9 > 3", "17 + 25", "1+1=2", "/no_think", "&#xZZ;"),
        *("123e4567-e89b-12d3-a456-426614174000", "d41d8cd98f00b204e9800998ecf8427e", "0xdeadbeef"),
    ],
)
def test_a_fixed_span_is_found_whole(span: str) -> None:
    assert found(f"before {span} after") == [span]
    assert found(f"これ{span}です") == [span]
    assert without_spans(f"before {span} after") == "before   after"


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        (r"I thought\Nthat you\hKnew", [r"\N", r"\h"]),
        (r"Hello\n\nWorld, hello\nworld", [r"\n", r"\n", r"\n"]),
        (r"a\r\nB\tC", [r"\r", r"\n", r"\t"]),
        (r"\textbf \ref \newline \noindent \nu \neq", []),
    ],
)
def test_line_breaks_that_are_written_out_are_found_and_commands_of_latex_are_not(text: str, breaks: list[str]) -> None:
    assert found(text) == breaks


@pytest.mark.parametrize("tag", ["#hashtag", "#2024election", "#東京", "#हिन्दी", "#ff0000", "#000000", "#双十一#"])
def test_a_tag_of_a_post_is_found(tag: str) -> None:
    assert found(f"before {tag} after") == [tag]
    assert found(f"{tag}, after") == [tag]


@pytest.mark.parametrize(
    "text",
    [
        *("100% sure", "50%d", "5 % sur", "%%", "x%", "c > d", "x <b, <30", "[note]", "a __b c__ d", "<>"),
        "<your name>",
        *("as shown in [2-4]", "[note]", "a __b c__ d"),
        *("{not a placeholder}", "a@b", "@ 5", "meet @7pm", "#1", "#1位", "We're #1!", "C#", "# Title", "№ 5", "§ 5"),
        *("and/or", "he/she/they", "24/7", "km/h", "w/o", "p.m./a.m.", "A/B", "1/2", "Lehrer/innen"),
        "Nutzer:innen: alle",
        *("e.g.", "P.S.", "Ph.D.", "z.B.", "S. 5", "Mr.Smith", "fin.El", "it`s fun, don`t", "Tom & Jerry", "Q&A"),
        *("a 5 + b", "5 + 3.5"),
        *("3.5", "10:30:15", "1.000.000", "1.234.567,89", "5.3.2024", "05.03.24", "2024.03.05", "10.30.15"),
        "2024-03-05",
        *("7:30", "12:30–14:00", "+49 30 1234567", "01.23.45.67.89", "$100", "US$", "1000000", "deadbeef", "face"),
        *("a: b: c", "Ja :) nein :(", "Re: x", "->", "→ hier", "「はい」", "„Hallo“", "❝x❞", "①", "•", "…", "½", "50°"),
        "Die Straße ist 3,5 km lang, d.h. u.a. für Rad-/Fußverkehr geeignet (ca. 10 Min.); s. Abb. 3.2.",  # words: example
        "L'été, c'est bien : « Oui ! » – dit-il à 18 h 30, no 5, p. 12 et/ou M. Dupont.",
        "Él dijo: «¿Qué?», a las 10:30 h., EE. UU., 1.º, 2.ª, n.º 3.",
        "Он сказал: «Да», т. е. 5 км/ч, г. Москва, и/или 3,5 %.",
        "今日は3.5kmを10:30に歩いた。（約2時間）「はい」・『本』〜5％",
        "他说：“好的！”——大约3.5公里/小时，2024年3月5日。",
        "오늘은 3.5km를 10:30에 걸었다. '네' 그리고/또는 5%.",
        "قال: «نعم»، ٣٫٥ كم/س، و/أو ٥٪.",
        "वह 3.5 किमी/घंटा चला। और/या 5%",
        "เขาเดิน 3.5 กม./ชม. และ/หรือ 5%",
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
        ("auf https://öbb.at/züge, hier", "https://öbb.at/züge"),
        ("на https://ru.wikipedia.org/wiki/Москва, да", "https://ru.wikipedia.org/wiki/Москва"),
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


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Google Chrome and Google", ("Google", "Google Chrome"), ["Google Chrome", "Google"]),
        ("Googles Google's Googlé", ("Google",), ["Google"]),
        ("google", ("Google",), []),
        ("Chromeを使う、Chrome은", ("Chrome",), ["Chrome", "Chrome"]),
        ("東京都に住む", ("東京",), ["東京"]),
        ("서울은 서울에", ("서울",), ["서울", "서울"]),
        ("C++ and C++17, .NET", ("C++", ".NET"), ["C++", "C++", ".NET"]),
        ("राम और रामा", ("राम",), ["राम"]),
        ("see https://a.com/Google or {Google}", ("Google",), ["https://a.com/Google", "{Google}"]),
        ("the aab", ("a", "aa", "aab"), ["aab"]),
        ("Node.js rocks", ("js rocks",), ["Node.js rocks"]),
        ("nothing", (), []),
        ("nothing", ("",), []),
    ],
)
def test_terms_are_kept_as_whole_words(text: str, terms: tuple[str, ...], expected: list[str]) -> None:
    assert [text[start:stop] for start, stop in keep_spans(text, terms)] == expected


SIGNS = st.sampled_from(
    [
        *"aB7é漢です{}<>%@#$&`~\\:/.-_'() \n",
        *("😀", "\u200d", "\ufe0f", "v1", "www.", "://", ".py", "<x1/>", "think", "/no_think", "0x", "2.0-rc1", "AB-1"),
        *("(1)", "mailto:", "tel:+", ":+1:", "[[", "[INST]", "::1", "5 < 7", "1\ufe0f\u20e3"),
    ]
)


@settings(max_examples=300)
@given(st.lists(SIGNS, max_size=60).map("".join) | st.text(), st.lists(st.text(min_size=1, max_size=3), max_size=4))
@example("by Google", ["Google", "Google Chrome"])
def test_spans_are_in_order_and_do_not_overlap(text: str, terms: list[str]) -> None:
    for listed in (list(spans(text)), list(keep_spans(text, tuple(terms)))):
        edges = [0, *(edge for span in listed for edge in span), len(text)]
        assert edges == sorted(edges)
        assert all(start < stop for start, stop in listed)


@settings(max_examples=300)
@given(st.lists(SIGNS, max_size=40).map("".join))
@example("(see above)/no_think")
@example("(x)/think now")
def test_the_check_for_signs_misses_no_span(text: str) -> None:
    """Each span has a sign of its own: the check must not depend on what else is in the text."""
    sign = module._SIGN_ASCII if text.isascii() else module._SIGN  # pyright: ignore[reportPrivateUsage]
    signs = [one.start() for one in sign.finditer(text)]
    for span in module._SPAN.finditer(text):  # pyright: ignore[reportPrivateUsage]
        assert any(span.start() <= at < span.end() for at in signs), span[0]
