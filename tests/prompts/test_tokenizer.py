from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from dragoman.errors import ConfigError
from dragoman.prompts.tokenizer import TextTokenizer

Build = Callable[[str, Iterable[str]], Tokenizer]
CHAT = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def save(folder: Path, tokenizer: Tokenizer, chat_template: str | None = None) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=chat_template).save_pretrained(folder)
    return folder


def test_a_saved_checkpoint_loads_as_it_was(make_tokenizer: Build, family: str, tmp_path: Path) -> None:
    raw = make_tokenizer(family, ["<|im_start|>", "<|im_end|>", "<think>"])
    loaded = TextTokenizer.load(save(tmp_path, raw, CHAT))
    text = "Good morning! 早上好 <think>"
    assert loaded.encode_template(text) == raw.encode(text, add_special_tokens=False).ids
    assert loaded.control_id("<think>") in loaded.encode_template(text)
    assert loaded.control_id("<think>") not in loaded.encode_text(text)
    assert loaded.has_chat_template
    assert loaded.render_chat([{"role": "user", "content": "Hi"}], {}) == "<|im_start|>Hi<|im_end|>"


def test_a_folder_without_a_tokenizer_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tokenizer could be loaded from"):
        TextTokenizer.load(tmp_path)


def test_a_checkpoint_without_a_chat_template_says_what_to_do(make_tokenizer: Build, tmp_path: Path) -> None:
    loaded = TextTokenizer.load(save(tmp_path, make_tokenizer("byte-level", [])))
    assert not loaded.has_chat_template
    with pytest.raises(ConfigError, match="name a profile"):
        loaded.render_chat([{"role": "user", "content": "Hi"}], {})


def test_a_chat_template_that_refuses_is_a_config_error(make_tokenizer: Build, tmp_path: Path) -> None:
    refusing = "{{ raise_exception('no such role') }}"
    loaded = TextTokenizer.load(save(tmp_path, make_tokenizer("byte-level", []), refusing))
    with pytest.raises(ConfigError, match="no such role"):
        loaded.render_chat([{"role": "user", "content": "Hi"}], {})


def test_count_is_what_the_model_would_read(make_tokenizer: Build, family: str) -> None:
    tokenizer = TextTokenizer(make_tokenizer(family, ["<|im_end|>"]).to_str())
    assert tokenizer.count("") == 0
    assert tokenizer.count("<|im_end|>") > 1
    assert tokenizer.count("Good morning!") == len(tokenizer.encode_template("Good morning!"))


def test_a_template_is_cut_at_the_longest_token() -> None:
    raw = Tokenizer.from_str(LETTERS)
    raw.add_special_tokens(["<a", "<a>", "<a>b"])
    tokenizer = TextTokenizer(raw.to_str())
    assert tokenizer.split("x<a>by<a>z<a") == ["x", "<a>b", "y", "<a>", "z", "<a", ""]


def test_white_space_tokens_are_text(make_tokenizer: Build) -> None:
    tokenizer = TextTokenizer(make_tokenizer("gemma", []).to_str())
    assert not tokenizer.has("\n\n")
    assert tokenizer.encode_text("a\n\nb") == tokenizer.encode_template("a\n\nb")
    assert tokenizer.added_ids.isdisjoint(tokenizer.encode_text("a\n\nb"))


def test_unknown_characters_are_not_taken_for_control_tokens() -> None:
    raw = Tokenizer.from_str(LETTERS)
    raw.add_special_tokens(["<unk>"])
    tokenizer = TextTokenizer(raw.to_str())
    assert tokenizer.encode_text("é") == [0]
    assert 0 not in tokenizer.added_ids


def test_opening_ids_are_what_the_tokenizer_puts_first(make_tokenizer: Build) -> None:
    raw = make_tokenizer("llama-legacy", [])
    assert TextTokenizer(raw.to_str()).opening_ids == (raw.token_to_id("<s>"),)
    assert TextTokenizer(make_tokenizer("byte-level", []).to_str()).opening_ids == ()


def test_truncation_saved_with_a_tokenizer_does_not_cut_texts(make_tokenizer: Build) -> None:
    raw = make_tokenizer("byte-level", [])
    raw.enable_truncation(4)
    raw.enable_padding(length=8)
    tokenizer = TextTokenizer(raw.to_str())
    text = "A sentence of more than four tokens."
    assert tokenizer.encode_text(text) == tokenizer.encode_template(text)
    assert len(tokenizer.encode_text(text)) > 4
    assert len(tokenizer.encode_text("a")) == 1


LETTERS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
"pre_tokenizer": null, "post_processor": null, "decoder": null, "model": {"type": "BPE", "unk_token": "<unk>",
"vocab": {"<unk>": 0, "<": 1, "a": 2, ">": 3, "b": 4, "x": 5, "y": 6, "z": 7}, "merges": []}}"""
