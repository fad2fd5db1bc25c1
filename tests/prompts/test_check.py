"""Differences between a profile and its checkpoint's chat template or tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles
from dragoman.prompts.check import compare
from dragoman.prompts.profile import Profile
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service.stack import Model, load_prompts

Build = Callable[[str, Iterable[str]], Tokenizer]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
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


@pytest.mark.parametrize("name", ["lmt-60", "eurollm"])
def test_a_chat_profile_agrees_with_the_template_it_was_written_from(
    name: str, make_tokenizer: Build, tmp_path: Path
) -> None:
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", ["<|im_start|>", "<|im_end|>"], CHATML)
    assert compare(profiles()[name], loaded) is None


def test_hunyuan_agrees_with_a_template_that_opens_the_answer_by_itself(make_tokenizer: Build, tmp_path: Path) -> None:
    own = "{% for m in messages %}<|startoftext|>{{ m.content }}<|extra_0|>{% endfor %}"
    tokens = ["<|startoftext|>", "<|extra_0|>", "<|eos|>"]
    assert compare(profiles()["hunyuan-mt"], checkpoint(make_tokenizer, tmp_path, "byte-level", tokens, own)) is None


def test_translategemma_agrees_with_its_structured_template(make_tokenizer: Build, tmp_path: Path) -> None:
    tokens = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
    loaded = checkpoint(make_tokenizer, tmp_path, "gemma", tokens, TRANSLATEGEMMA)
    assert compare(profiles()["translategemma"], loaded) is None


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
    difference = compare(profile, TextTokenizer(raw.to_str()))
    assert difference is not None
    assert difference.what == "tokens"


def test_a_thinking_model_is_refused_for_chat(make_tokenizer: Build, tmp_path: Path) -> None:
    thinking = CHATML.replace("assistant\n", "assistant\n<think>\n")
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", ["<|im_start|>", "<|im_end|>", "<think>"], thinking)
    with pytest.raises(ConfigError, match="non-thinking"):
        compare(profiles()["qwen3"], loaded)


def test_a_template_that_loses_the_text_is_refused(make_tokenizer: Build, tmp_path: Path) -> None:
    losing = "<|im_start|>{{ messages[0].content | upper }}<|im_end|>"
    loaded = checkpoint(make_tokenizer, tmp_path, "byte-level", ["<|im_start|>", "<|im_end|>"], losing)
    with pytest.raises(ConfigError, match="loses or repeats"):
        compare(profiles()["tower-plus"], loaded)
