"""The hard inputs are a valid set, and the judge accepts right translations of every format and finds each damage."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman_bench.eval.icu import compare_messages
from dragoman_bench.eval.judge import KINDS, HardInput, Word, judge, read_inputs
from dragoman_bench.eval.structure import Format, differences

INPUTS = read_inputs()
FORMATS: tuple[Format, ...] = ("text", "html", "xml", "markdown")


def test_there_are_enough_inputs_of_every_kind() -> None:
    counts = Counter(one.kind for one in INPUTS)
    assert set(counts) == set(KINDS)
    assert len(INPUTS) >= 620
    assert min(counts.values()) >= 20
    assert len({one.id for one in INPUTS}) == len({one.text for one in INPUTS}) == len(INPUTS)
    assert {(one.source, one.target) for one in INPUTS} == {
        (one, other) for one in ("en", "ja", "ko", "zh") for other in ("en", "ja", "ko", "zh") if one != other
    }


@pytest.mark.parametrize("one", INPUTS, ids=lambda one: one.id)
def test_each_input_agrees_with_itself_and_is_no_translation_of_itself(one: HardInput) -> None:
    verdict = judge(one, one.text)
    assert verdict.structure, verdict.reasons
    assert verdict.kept
    assert verdict.clean is (one.identical or not (one.content or any(text in one.text for text in one.forbid)))
    if one.content and one.kind != "mixed languages" and {one.source, one.target} != {"ja", "zh"}:
        assert verdict.content is False


def case(format: Format, text: str, *, kind: str = "inline tags", target: str = "ja", **more: object) -> HardInput:
    words = (Word(("薬局",)), Word(("病院",)))
    return HardInput("x", kind, format, "en", target, text, content=words, **more)  # type: ignore[arg-type]


PHARMACY = {
    "text": ("- The pharmacy is near the hospital.  \r\n\r\n  1. Next", "- 薬局は病院の近くです。  \r\n\r\n  1. 次"),
    "html": (
        '<div>\n<p>The <a href="/p?a=1&b=2">pharmacy</a> is <b>near</b> the hospital &amp; <br>Tom &lt;3</p>\n</div>',
        '<div>\n<p><a href="/p?a=1&b=2">薬局</a>は病院の<b>近く</b>です &amp; <br>トム &lt;3</p>\n</div>',
    ),
    "xml": (
        '<?xml version="1.0"?>\n<d>\n <s n="1">The <g id="1">pharmacy</g> is <b/>near the hospital &amp; it</s>\n</d>',
        '<?xml version="1.0"?>\n<d>\n <s n="1"><g id="1">薬局</g>は病院の<b/>近くです &amp; それ</s>\n</d>',
    ),
    "markdown": (
        "# The *pharmacy*\n\n- is [near](u) the `code` hospital  \n  **x** y\n\n> | a |\n\n```\nz\n```\n",
        "# *薬局*\n\n- 病院の `code` [近く](u)  \n  **か** わ\n\n> | あ |\n\n```\nz\n```\n",
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_right_translation_is_whole(format: Format) -> None:
    source, translation = PHARMACY[format]
    verdict = judge(case(format, source), translation)
    assert verdict.whole and verdict.content, verdict.reasons


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        ("text", "\r\n\r\n", "\r\n"),
        ("text", "\r\n\r\n", "\n\n"),
        ("text", "- 薬局", "薬局"),
        ("text", "  1. ", "1. "),
        ("text", "です。  ", "です。"),
        ("html", '<a href="/p?a=1&b=2">', '<a href="/p?a=1&amp;b=2">'),
        ("html", "<b>近く</b>", "近く"),
        ("html", "<b>近く</b>", "<b></b>近く"),
        ("html", "病院の<b>近く</b>", "<b><br>近く</b>"),
        ("html", "</p>\n</div>", "</p></div>"),
        ("html", "&lt;3", "<3"),
        ("html", "&amp; <br>", "&amp;amp; <br>"),
        ("html", "<p>", ""),
        ("xml", "<b/>", "<b></b>"),
        ("xml", "<b/>", ""),
        ("xml", "</g>", ""),
        ("xml", "&amp;", "&"),
        ("xml", '<s n="1">', '<s n="2">'),
        ("xml", '<?xml version="1.0"?>', ""),
        ("markdown", "*薬局*", "薬局"),
        ("markdown", "*薬局*", "**薬局**"),
        ("markdown", "(u)", "(v)"),
        ("markdown", "- 病院", "* 病院"),
        ("markdown", "  \n", "\n"),
        ("markdown", "\n\n>", "\n>"),
        ("markdown", "`code`", "`コード`"),
        ("markdown", "\nz\n", "\nx\n"),
    ],
)
def test_damage_to_the_structure_is_found(format: Format, right: str, wrong: str) -> None:
    source, translation = PHARMACY[format]
    assert right in translation
    verdict = judge(case(format, source), translation.replace(right, wrong, 1))
    assert not verdict.structure


def test_translated_attributes_may_change_and_others_not() -> None:
    source = '<p><img src="a.png" alt="The pharmacy"> and <input placeholder=name></p>'
    assert not differences("html", source, '<p><img src="a.png" alt="薬局">と<input placeholder="名前"></p>')
    assert differences("html", source, '<p><img src="a.png" alt="">と<input placeholder=name></p>')
    assert differences("html", source, '<p><img src="薬.png" alt="薬局">と<input placeholder=name></p>')


def test_broken_html_keeps_its_tags() -> None:
    source = "<p>The <b>pharmacy <i>is</b> near</i> the <hospital"
    assert not differences("html", source, "<p><b>薬局<i>は</b>近く</i><hospital")
    assert differences("html", source, "<p><b>薬局<i>は</i></b>近く<hospital")


SOURCE_MESSAGE = "{n, plural, =0 {No dogs} one {# dog of {name}} other {# dogs}} it''s '{'"


@pytest.mark.parametrize(
    ("output", "fits"),
    [
        ("いぬ{n, plural, =0 {犬なし} one {{name}の犬が#匹} other {犬が#匹}} '{'", True),
        ("{n, plural, =0 {犬なし} other {犬が#匹}}", False),
        ("{n, plural, =0 {犬なし} one {{name}の犬} other {犬が#匹}}", False),
        ("{n, plural, =0 {犬なし} one {{名前}の犬が#匹} other {犬が#匹}}", False),
        ("{n, plural, =0 {犬なし} one {{name}の犬が#匹} other {}}", False),
        ("{n, 複数, =0 {犬なし} one {{name}の犬が#匹} other {犬が#匹}}", False),
        ("{n, plural, =0 {犬なし} one {{name}の犬が#匹} other {犬が#匹}", False),
    ],
)
def test_messages_are_compared_by_their_arguments_and_branches(output: str, fits: bool) -> None:
    assert (not compare_messages(SOURCE_MESSAGE, output)) is fits


@pytest.mark.parametrize(
    ("output", "kept", "content", "clean"),
    [
        ("{name}の薬局は病院の近くにあります。", True, True, True),
        ("{名前}の薬局は病院の近くにあります。", False, True, True),
        ("{name}の{name}薬局は病院の近くにあります。", False, True, True),
        ("{name}の店は病院の近くにあります。", True, False, True),
        ("Here is the translation: {name}の薬局は病院の近くにあります。", True, True, False),
        ("{name}の薬局は病院の近くにあります。" * 9, False, True, False),
        ("The pharmacy of {name} is near the hospital.", True, False, False),
        ("申し訳ありませんが、{name}は翻訳できません。", True, False, False),
        ("La pharmacie de {name} est à côté de la 病院薬局", True, True, False),
        ("パリの{name}の薬局は病院の近くです。", True, True, False),
    ],
)
def test_what_is_kept_the_words_and_what_is_added(output: str, kept: bool, content: bool, clean: bool) -> None:
    one = case("text", "The pharmacy of {name} is near the hospital.", keep=(("{name}", 1),), forbid=("パリ",))
    verdict = judge(one, output)
    assert (verdict.kept, verdict.content, verdict.clean) == (kept, content, clean), verdict.reasons


def test_a_word_counts_as_often_as_it_must_occur() -> None:
    one = HardInput("x", "repeated", "text", "en", "ja", "A dog, a dog.", content=(Word(("犬", "いぬ"), 2),))
    assert judge(one, "犬、いぬ。").content
    assert judge(one, "犬。").content is False


def test_what_has_nothing_to_translate_must_be_identical() -> None:
    one = HardInput("x", "degenerate", "text", "en", "ja", "12 \t😀", identical=True)
    assert judge(one, "12 \t😀").whole
    assert not judge(one, "12 😀").whole


@settings(max_examples=60)
@given(st.sampled_from(FORMATS), st.text("<>/a&;b#* \n-`[](){}|!\"'x=1\r\u3000薬", max_size=60), st.text(max_size=30))
def test_any_text_agrees_with_itself_and_any_output_is_compared(format: Format, source: str, output: str) -> None:
    assert differences(format, source, source) == []
    differences(format, source, output)


def test_another_file_of_inputs_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(json.dumps({"id": "a", "kind": "ICU"}) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1"):
        read_inputs(file)
