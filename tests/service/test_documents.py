"""Documents through the translator, over the fake pipeline: marks kept, and what is done when a model loses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dragoman.prompts.encoder import PromptEncoder
from dragoman.service.alternatives import Alternatives
from dragoman.text import checks
from dragoman.types import EngineSequence, TextDone, TextFormat, Translation, TranslationRequest
from tests.service.test_translator import AnsweringPipeline, codes, stream, translate, translator
from tests.serving import prompts, request_of, source_of

HTML = '<p class="a">Can I pay by <b id=1>credit card</b>?</p>\n<!-- note --><p>Can I <i>pay</i></p>'


async def translated(
    answer: Callable[[str], str], text: str, target: str = "ja", **options: object
) -> tuple[Translation, AnsweringPipeline]:
    pipeline = AnsweringPipeline(lambda sequence: answer(source_of(sequence)))
    source = str(options.pop("source", "en"))
    request = request_of((text,), target, source, **options)
    [translation] = await translate(translator(pipeline), request)
    return translation, pipeline


async def streamed(text: str, answer: Callable[[str], str] | None = None, **options: Any) -> list[str]:
    """The deltas of a text, which together are its translation."""
    pipeline = AnsweringPipeline(lambda sequence: (answer or japanese)(source_of(sequence)))
    deltas: list[str] = []
    async for event in stream(translator(pipeline), request_of((text,), "ja", "en", **options)):
        if isinstance(event, TextDone):
            assert event.translation.text == "".join(deltas)
        else:
            deltas.append(event.text)
    return deltas


def japanese(text: str) -> str:
    """An answer in kana with the marks of the text, so that checks of script and length pass."""
    words = iter(re.findall("..", "あさいぬうみえきおかかさきたくつけさこめさらしますしせきそらたね") * 9)
    return re.sub(r"[A-Za-z]+(?![^<]*>)", lambda _: next(words), text)


def outline(text: str) -> str:
    """With each word of `japanese` as x."""
    return re.sub("[ぁ-ん]{2}", "x", text)


async def test_html_keeps_everything_but_its_text() -> None:
    translation, pipeline = await translated(japanese, HTML, format="html")
    assert outline(translation.text) == ('<p class="a">x x x x <b id=1>x x</b>?</p>\n<!-- note --><p>x x <i>x</i></p>')
    assert (codes(translation), translation.retries) == ([], ())
    assert [source_of(sequence) for sequence in pipeline.given] == [
        "Can I pay by <g1>credit card</g1>?",
        "Can I <g1>pay</g1>",
    ]


async def test_a_model_that_drops_tags_is_asked_again_and_then_only_for_the_text_between_them() -> None:
    translation, pipeline = await translated(
        lambda text: japanese(re.sub(r"<[^>]*>", "", text)),
        "<p>Can I pay by <b>credit card</b> here?</p>",
        format="html",
    )
    assert outline(translation.text) == "<p>x x x x <b>x x</b> x?</p>"
    assert translation.retries == (checks.PLACEHOLDERS_LOST, "cut_around")
    assert codes(translation) == []
    assert [source_of(sequence) for sequence in pipeline.given][2:] == ["Can I pay by", "credit card", "here?"]


async def test_where_the_text_between_tags_alone_fails_they_are_put_at_aligned_positions() -> None:
    def answer(text: str) -> str:
        if "<" in text:
            return japanese(re.sub(r"<[^>]*>", "", text))
        return japanese(text) if text.startswith("Please") and text.endswith("today.") else text  # echoes fragments

    text = "<p>Please send the letter to the old <b>central railway station</b> before noon today.</p>"
    translation, _ = await translated(answer, text, format="html")
    assert translation.retries[-1] == "aligned"
    assert checks.MARKS_MOVED in codes(translation)
    assert outline(translation.text) == "<p>x x x x x x <b>x x x x</b> x x x.</p>"


async def test_a_block_of_a_file_comes_back_with_its_marks_whatever_the_model_does_with_them() -> None:
    text = "<x1/>Please <g2>pay <g3>{amount}</g3> now</g2>, not<x4/> later.<x5/>"
    translation, pipeline = await translated(japanese, text, format="marks")
    assert outline(translation.text) == "<x1/>x <g2>x <g3>{amount}</g3> x</g2>, x<x4/> x.<x5/>"
    assert source_of(pipeline.given[0]) == "Please <g1>pay <x2/> now</g1>, not<x3/> later."
    translation, _ = await translated(lambda shown: japanese(re.sub(r"<[^>]*>", "", shown)), text, format="marks")
    assert outline(translation.text) == "<x1/>x <g2>x <g3>{amount}</g3> x</g2>, x<x4/> x.<x5/>"
    assert translation.retries[-1] == "cut_around"


async def test_what_looks_like_a_mark_in_a_part_that_is_copied_is_copied() -> None:
    translation, _ = await translated(japanese, "<!-- <x1/> --><p>Can I <i>pay</i></p><pre><g1></pre>", format="html")
    assert outline(translation.text) == "<!-- <x1/> --><p>x x <i>x</i></p><pre><g1></pre>"


async def test_a_placeholder_is_shown_as_it_is_and_then_as_a_mark() -> None:
    def answer(text: str) -> str:
        return japanese(text) if "<x1/>" in text else "かな かな"

    translation, pipeline = await translated(answer, "Please pay {amount} today.")
    assert outline(translation.text) == "x x {amount} x."
    assert [source_of(sequence) for sequence in pipeline.given] == [
        "Please pay {amount} today.",
        "Please pay <x1/> today.",
    ]
    assert translation.retries == (checks.PLACEHOLDERS_LOST,)


async def test_terms_to_keep_are_in_the_translation() -> None:
    translation, _ = await translated(
        lambda text: japanese(text.replace("Acme Cloud", "")), "Try Acme Cloud today.", keep=("Acme Cloud",)
    )
    assert "Acme Cloud" in translation.text


async def test_a_glossary_term_is_in_the_translation_of_a_model_without_a_prompt_for_terms() -> None:
    translation, pipeline = await translated(
        japanese, "The server is down.", glossary={"server": "サーバー", "absent": "なし"}
    )
    assert outline(translation.text) == "x サーバー x x."
    assert [source_of(sequence) for sequence in pipeline.given] == ["The サーバー is down."]


async def test_a_glossary_does_not_make_a_short_text_a_very_long_one() -> None:
    text = "ab " * 500
    for translation, is_put_in in (("y" * 20, True), ("y" * 1_000, False)):
        result, _ = await translated(japanese, text, glossary={"ab": translation})
        assert (translation in result.text) == is_put_in
        assert len(result.text) < 30 * len(text)


# ---- texts that follow each other


async def given(*texts: str, **options: Any) -> list[str]:
    """What a model that takes a context is given for each text: the context, `==` and the text."""
    base, _ = prompts()
    template = replace(
        base.profile.templates[0], text="<|bos|><|{source_code}|><|{target_code}|>{context}=={text}<|sep|>"
    )
    encoder = PromptEncoder(replace(base.profile, templates=(template, *base.profile.templates)), base.tokenizer)
    pipeline = AnsweringPipeline(lambda sequence: japanese(source_of(sequence).rpartition("==")[2]))
    await translate(translator(pipeline, encoder=encoder), request_of(texts, "ja", "en", **options))
    in_order = sorted(pipeline.given, key=lambda sequence: int(sequence.id.split(".")[1]))  # not as they ran
    return [source_of(sequence) for sequence in in_order]


def follows(texts: int) -> tuple[bool, ...]:
    return (False, *(True,) * (texts - 1))


async def test_texts_that_follow_each_other_have_the_sources_before_them_as_context() -> None:
    texts = ("The old man came in.", "He was tired of it.", "He sat down there.", "Then he left us.")
    assert await given(*texts) == list(texts)
    assert await given(*texts, follows=follows(4)) == [
        texts[0],
        f"{texts[0]}=={texts[1]}",
        f"{texts[0]}\n{texts[1]}=={texts[2]}",
        f"{texts[1]}\n{texts[2]}=={texts[3]}",
    ]
    assert await given(*texts, follows=(False, True, False, True)) == [
        texts[0],
        f"{texts[0]}=={texts[1]}",
        texts[2],
        f"{texts[2]}=={texts[3]}",
    ]


async def test_a_short_text_and_one_that_is_repeated_have_no_neighbours_and_are_those_of_others() -> None:
    texts = ("Where is the train station?", "Over there.", "Can I pay by card?", "Where is the train station?")
    assert await given(*texts, follows=follows(4)) == [
        texts[0],
        texts[1],
        f"{texts[0]}\n{texts[1]}=={texts[2]}",
        texts[3],
    ]


async def test_samples_of_texts_that_follow_each_other_have_the_context_of_the_texts() -> None:
    texts = ("The old man came in.", "He was tired of it.", "He sat down there.")
    request = TranslationRequest(texts, "ja", "en", follows=follows(3), alternatives=1)
    work = Alternatives(request).request
    found = await given(*work.texts, follows=work.follows, sampled_from=work.sampled_from)
    assert found[:2] == [texts[0], f"{texts[0]}=={texts[1]}"]
    assert found == found[:3] * (len(work.texts) // 3)
    assert len(found) > 3


async def test_a_text_can_have_a_context_of_its_own() -> None:
    texts = ("Open", "The station is open.", "Open")
    contexts = ("Status", "Notes", "Action")
    assert await given(*texts, follows=follows(3), contexts=contexts) == [
        "Status==Open",
        "Notes\nOpen==The station is open.",
        "Action==Open",
    ]


async def test_options_that_the_profile_cannot_express_are_warned_of() -> None:
    translation, _ = await translated(
        japanese, "Hello there.", formality="more", instructions=("Be brief.",), context="A letter."
    )
    assert set(codes(translation)) == {
        checks.FORMALITY_IGNORED,
        checks.INSTRUCTIONS_IGNORED,
        checks.CONTEXT_IGNORED,
    }
    translation, _ = await translated(japanese, "Hello there.", formality="prefer_more")
    assert codes(translation) == []


@pytest.mark.parametrize("strict", [True, False])
async def test_under_strict_a_text_that_fails_a_check_has_failed(strict: bool) -> None:
    text = "Please send the letter to the station."
    translation, _ = await translated(lambda source: source, text, strict=strict)
    assert (translation.failed, translation.text) == (strict, text)
    assert checks.SOURCE_COPIED in codes(translation)


async def test_lines_that_the_model_makes_of_one_are_joined() -> None:
    translation, _ = await translated(
        lambda text: japanese(text).replace(" ", "\n\n", 1), "# Can I *pay*?\n\nHi", format="markdown"
    )
    assert outline(translation.text) == "# x x *x*?\n\nx"


async def test_lists_come_back_as_they_were() -> None:
    text = "Shopping:\r\n  - two apples\r\n  - one  pear \r\n\r\n1. first\r\n\t2. second\r\n"
    translation, _ = await translated(japanese, text)
    assert outline(translation.text) == re.sub("[A-Za-z]+", "x", text)


async def test_a_streamed_segment_with_marks_is_whole() -> None:
    deltas = await streamed(HTML, format="html")
    assert "<b id=1>x x</b>" in outline("".join(deltas))


async def test_a_segment_is_not_changed_by_its_retry_when_the_first_was_better() -> None:
    def answer(sequence: EngineSequence) -> str:
        return "かな かな 7" if sequence.id.endswith("again") else "かな かな"

    pipeline = AnsweringPipeline(answer)
    [translation] = await translate(translator(pipeline), TranslationRequest(("It costs 42 and 1985.",), "ja", "en"))
    assert translation.text == "かな かな"
    assert codes(translation) == [checks.NUMBERS_CHANGED]


async def test_plain_text_with_things_to_keep_is_streamed_word_by_word() -> None:
    text = "Please pay 😀 the bill to the\r\nold shop near the large\r\nstation before noon."
    deltas = await streamed(text)
    assert len(deltas) > 5
    assert outline("".join(deltas)).count("\r\n") == 2
    assert " 😀 " in "".join(deltas)


def with_controls(text: str) -> str:
    return f"\x1b[31m{japanese(text)}\x00\x9b\x0bかな\ufffe"


@pytest.mark.parametrize("format", ["text", "html", "xml", "markdown"])
async def test_controls_that_a_model_invents_are_in_no_translation(format: TextFormat) -> None:
    translation, _ = await translated(with_controls, "Can I pay?", format=format)
    opening = "&#91;31m" if format == "markdown" else "[31m"  # a formula of LaTeX might begin with a backslash
    assert outline(translation.text) == f"{opening}x x x? x"


async def test_controls_that_a_model_invents_are_in_no_stream() -> None:
    deltas = await streamed("Can I pay?", answer=with_controls)
    assert outline("".join(deltas)) == "[31mx x x? x"


async def test_controls_of_the_source_stay() -> None:
    translation, _ = await translated(lambda text: f"{japanese(text)}\x1b\x07", "Can I \x1b[1;4\x1b pay it?")
    assert outline(translation.text) == "x x \x1b[1;4\x1b x x?\x1b"


async def test_attributes_of_tags_in_a_sentence_are_translated_as_segments_of_their_own() -> None:
    text = '<p>Can I see <a href="x" title="The old map of it">our <img src=a alt="A big dog"></a> here, please?</p>'
    translation, pipeline = await translated(japanese, text, format="html")
    assert outline(translation.text) == (
        '<p>x x x <a href="x" title="x x x x x">x <img src=a alt="x x x"></a> x, x?</p>'
    )
    assert (codes(translation), translation.retries) == ([], ())
    assert {source_of(sequence) for sequence in pipeline.given} == {
        "Can I see <g1>our <x2/></g1> here, please?",
        "The old map of it",
        "A big dog",
    }
    assert translation.usage.prompt_tokens == 10 * 3


async def test_segments_that_wait_for_their_attributes_hold_no_slots() -> None:
    pipeline = AnsweringPipeline(lambda sequence: japanese(source_of(sequence)))
    text = "".join(f"<p>Please see <a title='The map of it'>page {one}</a> of it</p>" for one in "abcdefgh")
    request = TranslationRequest((text,), "ja", "en", format="html")
    [translation] = await translate(translator(pipeline, slots=1, queued=0), request)
    assert translation.text.count("<a title='") == 8
    assert "map" not in translation.text
    assert (pipeline.most_at_once, len(pipeline.given)) == (1, 16)


@pytest.mark.parametrize(
    ("word", "second", "retry"),
    [
        ("it", "The price of it is <x1/> today.", checks.NUMBERS_CHANGED),
        ("{name}", "The price of <x1/> is <x2/> today.", checks.PLACEHOLDERS_LOST),
    ],
)
async def test_a_number_that_the_model_dropped_is_a_mark_in_the_second_attempt(
    word: str, second: str, retry: str
) -> None:
    """Also beside a placeholder."""

    def answer(source: str) -> str:
        return japanese(re.sub(r"\d+|\{\w+\}", "", source) if "<x" not in source else source)

    translation, pipeline = await translated(answer, f"The price of {word} is 1985 today.")
    assert outline(translation.text) == f"x x x {word.replace('it', 'x')} x 1985 x."
    assert (codes(translation), translation.retries) == ([], (retry,))
    assert source_of(pipeline.given[-1]) == second


async def test_a_number_that_the_model_drops_from_several_sentences_is_translated_in_smaller_segments() -> None:
    def answer(text: str) -> str:
        return japanese(re.sub(r" [^ ]*(\d|<x)[^ ]*", "", text) if ". " in text else text)

    translation, _ = await translated(answer, "The price of it is 1985 today. Please see the map of it.")
    assert outline(translation.text) == "x x x x x 1985 x. x x x x x x."
    assert (codes(translation), set(translation.retries)) == ([], {checks.NUMBERS_CHANGED})


async def test_emphasis_that_was_cut_around_is_still_emphasis() -> None:
    words = {"これは": "This is", "大事な手紙": "an old letter", "です。": "for you."}
    translation, _ = await translated(
        lambda text: words.get(text, "This is a letter."),
        "これは**大事な手紙**です。",
        "en",
        source="ja",
        format="markdown",
    )
    assert translation.text == "This is **an old letter** for you."
    assert "cut_around" in translation.retries


async def test_a_text_is_cut_around_a_dropped_number_too_where_it_is_cut_around_placeholders() -> None:
    translation, _ = await translated(
        lambda text: japanese(re.sub(r"<[^>]*>|\d+|\{\w+\}", "", text)), "The price of {name} is 1985 today."
    )
    assert outline(translation.text) == "x x x {name} x 1985 x."
    assert (codes(translation), translation.retries) == ([], (checks.PLACEHOLDERS_LOST, "cut_around"))


async def test_what_is_kept_is_a_mark_where_it_does_not_fit_the_window() -> None:
    kept = "<div>" * 400
    translation, pipeline = await translated(japanese, f"The price of it {kept} is good.")
    assert outline(translation.text) == f"x x x x {kept} x x."
    assert all(len(one.prompt_token_ids) < pipeline.max_model_len // 2 for one in pipeline.given)
    assert (codes(translation), translation.retries) == ([], ())


async def test_words_are_shown_where_they_fit_the_window_though_not_the_size_of_a_segment() -> None:
    address = "https://status.example/archive/tickets?id=64378"
    text = f"You can see all of it at {address} today. " * 5
    translation, pipeline = await translated(japanese, text.strip())
    assert address in source_of(pipeline.given[0])
    assert translation.text.count(address) == 5


async def test_a_streamed_segment_whose_words_do_not_fit_is_whole() -> None:
    kept = "<div>" * 400
    deltas = await streamed(f"The price of it {kept} is good.")
    assert outline("".join(deltas)) == f"x x x x {kept} x x."
