"""Differences between a profile and its checkpoint's chat template or tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.prompts.conftest import CHATML
from tokenizers import AddedToken, Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles
from dragoman.prompts.check import compare
from dragoman.prompts.profile import Profile
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service.stack import Model, load_prompts

Build = Callable[[str, Iterable[str]], Tokenizer]
TRANSLATEGEMMA = (
    "<bos>{% set names = {'en': 'English', 'de': 'German', 'ja': 'Japanese', 'zh-Hans': 'Chinese'} %}"
    "{% for m in messages %}{% set c = m.content[0] %}{% set s = names[c.source_lang_code] %}"
    "{% set t = names[c.target_lang_code] %}<start_of_turn>user\n"
    "You are a professional {{ s }} ({{ c.source_lang_code }}) to {{ t }} ({{ c.target_lang_code }}) translator. Your goal is"
    " to accurately convey the meaning and nuances of the original {{ s }} text while adhering to {{ t }} grammar,"
    " vocabulary, and cultural sensitivities.\nProduce only the {{ t }} translation, without any additional explanations or"
    " commentary. Please translate the following {{ s }} text into {{ t }}:\n\n\n{{ c.text | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def checkpoint(build: Build, folder: Path, family: str, controls: Iterable[str], chat_template: str) -> TextTokenizer:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=build(family, controls), chat_template=chat_template)
    tokenizer.save_pretrained(folder)
    return TextTokenizer.load(folder)


def test_every_profile_agrees_with_a_tokenizer_of_its_own(profile: Profile, tokenizer: TextTokenizer) -> None:
    assert compare(profile, tokenizer) is None


CHAT_TOKENS = ("<|im_start|>", "<|im_end|>")


@pytest.mark.parametrize(
    ("name", "family", "tokens", "template"),
    [
        ("lmt-60", "byte-level", CHAT_TOKENS, CHATML),
        ("eurollm", "byte-level", CHAT_TOKENS, CHATML),
        (  # it opens the answer by itself
            "hunyuan-mt",
            "byte-level",
            ("<|startoftext|>", "<|extra_0|>", "<|eos|>"),
            "{% for m in messages %}<|startoftext|>{{ m.content }}<|extra_0|>{% endfor %}",
        ),
        ("translategemma", "gemma", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), TRANSLATEGEMMA),
    ],
)
def test_a_profile_agrees_with_the_template_it_was_written_from(
    name: str, family: str, tokens: tuple[str, ...], template: str, make_tokenizer: Build, tmp_path: Path
) -> None:
    assert compare(profiles()[name], checkpoint(make_tokenizer, tmp_path, family, tokens, template)) is None


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("qwen3", CHATML.replace("assistant\n", "assistant\n<think>\n"), "non-thinking"),
        ("tower-plus", "<|im_start|>{{ messages[0].content | upper }}<|im_end|>", "loses or repeats"),
    ],
)
def test_a_template_that_makes_the_model_think_or_loses_the_text_is_refused(
    name: str, template: str, message: str, make_tokenizer: Build, tmp_path: Path
) -> None:
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", [*CHAT_TOKENS, "<think>"], template)
    with pytest.raises(ConfigError, match=message):
        compare(profiles()[name], loaded)


def test_another_template_is_a_difference_with_both_renderings_and_the_place(
    make_tokenizer: Build, tmp_path: Path
) -> None:
    changed = CHATML.replace("assistant\n", "assistant\n<think>\n")
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", ["<|im_start|>", "<|im_end|>", "<think>"], changed)
    difference = compare(profiles()["lmt-60"], loaded)
    assert difference is not None
    assert (difference.profile, difference.what, difference.at) == ("lmt-60", "rendering", len(difference.ours))
    assert difference.theirs == difference.ours + "<think>\n"
    assert "differ in rendering" in str(difference)
    encoder, _ = load_prompts(Model(str(tmp_path), "own", profiles()["lmt-60"]))  # what the server reports
    assert encoder.difference == str(difference)


def test_a_template_that_fails_on_the_turn_is_a_difference(make_tokenizer: Build, tmp_path: Path) -> None:
    refusing = "{{ raise_exception('only tools') }}"
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", ["<|im_start|>", "<|im_end|>"], refusing)
    difference = compare(profiles()["lmt-60"], loaded)
    assert difference is not None
    assert "only tools" in difference.theirs


def test_a_tokenizer_that_encodes_templates_differently_is_a_difference(make_tokenizer: Build) -> None:
    raw = make_tokenizer("llama-legacy", [])
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    # Matched after normalisation, so the space before the text lands before the token instead of after it.
    raw.add_tokens([AddedToken(token, special=True, normalized=True) for token in ("<|im_start|>", "<|im_end|>")])
    profile = replace(profiles()["lmt-60"], optional_stop_tokens=())
    difference = compare(profile, TextTokenizer(raw))
    assert difference is not None
    assert difference.what == "tokens"
