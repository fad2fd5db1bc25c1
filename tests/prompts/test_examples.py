"""Examples in prompts: where they stand, what they are written in, and what no example can put in a prompt."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.prompts.test_encoder import BENIGN, HOSTILE, controls_of, decode, hostile_texts, opening, runs_of, same
from tokenizers import Tokenizer

from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles
from dragoman.prompts.check import compare
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.options import FormalityWords, MarkForm
from dragoman.prompts.profile import ExampleForm, Language, Profile, ProfileTemplate
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.prompts.vendor import ChatTemplate
from dragoman.types import Example, PromptOptions

TAKING = ("chat", "eurollm", "qwen3", "tower-plus")
PAIRS = (Example("Good morning.", "Guten Morgen."), Example("We wait.", "Wir warten."))
MakeToy = Callable[[str, str], TextTokenizer]
MakeTokenizer = Callable[[str, Iterable[str]], Tokenizer]
WIRE = "[{system}]\n{examples}<|user|>{user}<|model|>"
TURN = "<|user|>{user}<|model|>{answer}<|end|>"


def shown(*examples: Example, **options: Any) -> PromptOptions:
    return PromptOptions(examples=examples, **options)


def wired(make_tokenizer: MakeTokenizer, *templates: ProfileTemplate, **values: Any) -> PromptEncoder:
    """An encoder of a profile with a wire, whose prompts have examples."""
    controls = ("<|user|>", "<|model|>", "<|end|>")
    languages = {tag: Language(tag.upper(), tag) for tag in ("en", "de")}
    given: dict[str, Any] = {"wire": WIRE, "examples": ExampleForm(TURN), "control_tokens": controls} | values
    profile = Profile("p", "P", "chat", templates, languages, **given)
    return PromptEncoder(profile, TextTokenizer(make_tokenizer("byte-level", controls)))


def test_the_profiles_of_instruct_models_take_examples_and_no_other(make_toy: MakeToy) -> None:
    taking = [
        name for name in profiles() if PromptEncoder(profiles()[name], make_toy("byte-level", name)).takes_examples
    ]
    assert tuple(taking) == TAKING == tuple(name for name, one in profiles().items() if one.follows_instructions)


@pytest.mark.parametrize("name", TAKING)
def test_examples_are_earlier_turns_and_the_last_stands_next_to_the_text(name: str, make_toy: MakeToy) -> None:
    encoder = PromptEncoder(profiles()[name], make_toy("byte-level", name))
    rendered = encoder.render("Hi", "en", "de", shown(*PAIRS))
    alone = encoder.render("Hi", "en", "de")
    texts = [one for pair in PAIRS for one in (pair.source, pair.translation)]
    places = [rendered.index(one) for one in (*texts, "Hi")]
    assert places == sorted(places)
    assert rendered.count("<|im_start|>") == alone.count("<|im_start|>") + 4
    turn = alone[alone.index("<|im_start|>user") : alone.index("<|im_start|>assistant")]
    assert rendered.count(turn) == 1  # the text's own
    for pair in PAIRS:  # the same turn as the text's
        said = turn.replace("Hi", pair.source)
        assert f"{said}<|im_start|>assistant\n{pair.translation}<|im_end|>\n" in rendered
    common = alone.index("<|im_start|>user")
    assert rendered[:common] == alone[:common]


@pytest.mark.parametrize("name", TAKING)
def test_ordinary_examples_have_the_ids_of_the_vendors_own_rendering(name: str, family: str, make_toy: MakeToy) -> None:
    encoder = PromptEncoder(profiles()[name], make_toy(family, name))
    for options in (shown(*PAIRS), shown(PAIRS[0], context="Said before."), shown(*PAIRS, formality="less")):
        for text in ("Where is it?", "One line.\nAnother line."):
            ids = list(encoder.encode(text, "en", "de", options).token_ids)
            rendered = encoder.render(text, "en", "de", options)
            assert ids == opening(encoder) + encoder.tokenizer.encode_template(rendered)
    assert compare(encoder.profile, encoder.tokenizer) is None


@pytest.mark.parametrize("name", TAKING)
def test_no_half_of_an_example_becomes_a_control_token_and_all_of_it_is_kept(
    name: str, family: str, make_toy: MakeToy
) -> None:
    encoder = PromptEncoder(profiles()[name], make_toy(family, name))
    tokenizer = encoder.tokenizer
    for place in range(4):  # each half of each of two examples

        def options(text: str, place: int = place) -> PromptOptions:
            halves = ["One", "Eins", "Two", "Zwei"]
            halves[place] = text
            return shown(Example(halves[0], halves[1]), Example(halves[2], halves[3]))

        rendered = encoder.render("Text", "en", "de", options(BENIGN))
        expected = opening(encoder) + controls_of(tokenizer.encode_template(rendered), tokenizer)
        runs = tokenizer.split(rendered)[::2]
        for text in (*HOSTILE, *hostile_texts(place, 25)):
            ids = encoder.encode("Text", "en", "de", options(text)).token_ids
            assert controls_of(ids, tokenizer) == expected, (place, text)
            got = [decode(tokenizer, run) for run in runs_of(ids, tokenizer)[len(opening(encoder)) :]]
            assert got == [same(run.replace(BENIGN, text), tokenizer) for run in runs], (place, text)


@pytest.mark.parametrize("name", TAKING)
def test_the_number_of_an_examples_tokens_is_known_before_it_is_in_a_prompt(
    name: str, family: str, make_toy: MakeToy
) -> None:
    encoder = PromptEncoder(profiles()[name], make_toy(family, name))
    chosen = random.Random(name + family)
    text = "Where is the station?"
    for number in range(1, 9):
        texts = hostile_texts(number, 2 * number)
        examples = [Example(texts[place], texts[place + 1]) for place in range(0, 2 * number, 2)]
        options = PromptOptions(formality=chosen.choice(("default", "more")), context=chosen.choice((None, "Said.")))
        without = len(encoder.encode(text, "en", "de", options).token_ids)
        prompt = encoder.encode(text, "en", "de", replace(options, examples=tuple(examples)))
        estimate = encoder.example_tokens(examples, "en", "de", options)
        assert abs(len(prompt.token_ids) - without - estimate) <= 4 * number
        assert abs(prompt.source_tokens - encoder.tokenizer.count(text)) <= 3


def test_an_example_joins_with_what_else_a_prompt_has(make_tokenizer: MakeTokenizer) -> None:
    """Its turn has what is said of all texts, and neither the terms nor the context of this one."""
    style = FormalityWords("high", "low")
    encoder = wired(
        make_tokenizer,
        ProfileTemplate("{formality}: {text}", formality=style),
        ProfileTemplate("{terms}|{formality}: {text}", "S", term="{term}={translation}", formality=style),
        ProfileTemplate("{context}|{text}", "S"),
        ProfileTemplate("in {target}: {text}"),
    )
    pair = Example("One", "Eins")
    said = f"<|model|>{pair.translation}<|end|>"
    for options, own, text in (
        (shown(pair), "in DE: One", "in DE: Hi"),
        (shown(pair, formality="more"), "high: One", "high: Hi"),
        (shown(pair, formality="more", terms=(("a", "b"),)), "high: One", "a=b|high: Hi"),
        (shown(pair, context="before"), "in DE: One", "before|Hi"),
    ):
        assert encoder.render("Hi", "en", "de", options).endswith(f"\n<|user|>{own}{said}<|user|>{text}<|model|>")


def test_the_halves_of_an_example_have_the_escapes_the_answer_tags_and_the_marks_of_the_text(
    make_tokenizer: MakeTokenizer,
) -> None:
    tagged = ProfileTemplate("Keep tags: <a>{text}</a>", answer="<b>{text}</b>", marks=True)
    form = MarkForm("<s{n}>", "</s{n}>", "<s{n}/>")
    encoder = wired(make_tokenizer, tagged, ProfileTemplate("Plain: {text}"), marks=form)
    marked, plain = Example("<g1>One</g1></a>", "<g1>Eins</g1></b>"), Example("Two </a>", "Zwei </b>")
    rendered = encoder.render("<g1>Hi</g1>", "en", "de", shown(marked, plain, marks=True))
    assert "<|user|>Keep tags: <a><s1>One</s1>＜/a＞</a><|model|><b><s1>Eins</s1>＜/b＞</b><|end|>" in rendered
    assert "<|user|>Plain: Two </a><|model|>Zwei </b><|end|>" in rendered
    assert rendered.endswith("<|user|>Keep tags: <a><s1>Hi</s1></a><|model|>")


def chat_of(make_tokenizer: MakeTokenizer, template: str) -> PromptEncoder:
    tokenizer = make_tokenizer("byte-level", ())
    return PromptEncoder(profiles()["chat"], TextTokenizer(tokenizer, ChatTemplate(template)))


@pytest.mark.parametrize(
    ("template", "takes"),
    [
        ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", True),
        (
            "{% for m in messages %}{{ raise_exception('no') if m.role == 'assistant' }}{{ m.content }}{% endfor %}",
            False,
        ),
        ("{% for m in messages %}{% if loop.first or loop.last %}{{ m.content }}{% endif %}{% endfor %}", False),
        ("{% for m in messages | reverse %}{{ m.content }}{% endfor %}", False),
    ],
)
def test_a_chat_template_that_refuses_loses_or_reorders_turns_takes_no_examples(
    template: str, takes: bool, make_tokenizer: MakeTokenizer
) -> None:
    encoder = chat_of(make_tokenizer, template)
    assert encoder.takes_examples is takes
    assert "Hi" in encoder.render("Hi", "en", "de")


def test_the_system_prompt_of_a_template_without_that_role_begins_the_first_turn(make_toy: MakeToy) -> None:
    encoder = PromptEncoder(profiles()["chat"], make_toy("gemma", "chat"))
    rendered = encoder.render("Hi", "en", "ko", shown(*PAIRS))
    assert rendered.count("You are a translation engine.") == 1
    assert rendered.index("You are a translation engine.") < rendered.index(PAIRS[0].source)


def test_a_checkpoint_whose_turns_differ_from_the_profiles_is_a_difference(make_toy: MakeToy) -> None:
    tokenizer = make_toy("byte-level", "qwen3")
    wire = (
        "<|im_start|>system\n{system}<|im_end|>\n{examples}<|im_start|>user\n{user}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    turn = "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
    right = replace(profiles()["qwen3"], wire=wire, examples=ExampleForm(turn))
    wrong = replace(right, examples=ExampleForm(turn.replace("assistant", "model")))
    assert compare(right, tokenizer) is None
    difference = compare(wrong, tokenizer)
    assert difference is not None and "<|im_start|>model" in difference.ours


@pytest.mark.parametrize("turn", ["", "{user}", "{answer}", "{user}{user}{answer}"])
def test_a_wire_with_a_place_for_examples_needs_their_turn(turn: str, make_tokenizer: MakeTokenizer) -> None:
    with pytest.raises(ConfigError, match="turn"):
        wired(make_tokenizer, ProfileTemplate("{text}"), examples=ExampleForm(turn), control_tokens=())


def test_a_profile_that_replaces_the_wire_of_another_takes_no_examples(make_tokenizer: MakeTokenizer) -> None:
    encoder = wired(make_tokenizer, ProfileTemplate("{text}"), wire="<|user|>{user}<|model|><|end|>")
    assert not encoder.takes_examples


def test_values_of_an_example_are_never_slots(make_toy: MakeToy) -> None:
    encoder = PromptEncoder(profiles()["eurollm"], make_toy("byte-level", "eurollm"))
    braces: Sequence[str] = ("{text}", "{answer1}", "{text2} {source}", "DragomanText1GoesHereQx7")
    for name in ("eurollm", "chat"):
        encoder = PromptEncoder(profiles()[name], make_toy("byte-level", name))
        for text in braces:
            rendered = encoder.render(text, "en", "de", shown(Example(text, text), Example(text, text)))
            assert rendered.count(text) == 5
