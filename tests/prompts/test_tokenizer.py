"""Tokenizers as they are loaded, and what no text can make them do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dragoman.errors import ConfigError
from dragoman.prompts.tokenizer import TextTokenizer, unknown_id, without_control_tokens, without_prefix

Build = Callable[[str, Iterable[str]], Tokenizer]
LETTERS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
"pre_tokenizer": null, "post_processor": null, "decoder": null, "model": {"type": "BPE", "unk_token": "<unk>",
"vocab": {"<unk>": 0, "<": 1, "a": 2, ">": 3, "b": 4, "x": 5, "y": 6, "z": 7}, "merges": []}}"""
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
    with pytest.raises(ConfigError, match="cannot load a tokenizer"):
        TextTokenizer.load(tmp_path)


def test_the_packaged_tokenizer_is_loaded_without_torch() -> None:
    program = "import sys; from dragoman import phrasebook; from dragoman.prompts.tokenizer import TextTokenizer; "
    program += "print(TextTokenizer.load(phrasebook.model_dir()).count('Hello'), 'torch' in sys.modules)"
    count, has_torch = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert (int(count) > 0, has_torch) == (True, "False")


@pytest.mark.parametrize(
    ("template", "message"), [(None, "has no chat template"), ("{{ raise_exception('no such role') }}", "no such role")]
)
def test_without_a_chat_template_that_renders_a_chat_is_a_config_error(
    template: str | None, message: str, make_tokenizer: Build, tmp_path: Path
) -> None:
    loaded = TextTokenizer.load(save(tmp_path, make_tokenizer("byte-level", []), template))
    assert loaded.has_chat_template is (template is not None)
    with pytest.raises(ConfigError, match=message):
        loaded.render_chat([{"role": "user", "content": "Hi"}], {})


def test_count_is_what_the_model_would_read(make_tokenizer: Build, family: str) -> None:
    tokenizer = TextTokenizer(make_tokenizer(family, ["<|im_end|>"]))
    assert tokenizer.count("") == 0
    assert tokenizer.count("<|im_end|>") > 1
    assert tokenizer.count("Good morning!") == len(tokenizer.encode_template("Good morning!"))


def test_a_template_is_split_at_the_longest_token() -> None:
    raw = Tokenizer.from_str(LETTERS)
    raw.add_special_tokens(["<a", "<a>", "<a>b"])
    tokenizer = TextTokenizer(raw)
    assert tokenizer.split("x<a>by<a>z<a") == ["x", "<a>b", "y", "<a>", "z", "<a", ""]


def test_white_space_tokens_are_text(make_tokenizer: Build) -> None:
    tokenizer = TextTokenizer(make_tokenizer("gemma", []))
    assert not tokenizer.has("\n\n")
    assert tokenizer.encode_text("a\n\nb") == tokenizer.encode_template("a\n\nb")
    assert tokenizer.added_ids.isdisjoint(tokenizer.encode_text("a\n\nb"))


def test_unknown_characters_are_not_taken_for_control_tokens() -> None:
    raw = Tokenizer.from_str(LETTERS)
    raw.add_special_tokens(["<unk>"])
    tokenizer = TextTokenizer(raw)
    assert tokenizer.encode_text("é") == [0]
    assert 0 not in tokenizer.added_ids


def test_opening_ids_are_what_the_tokenizer_puts_first(make_tokenizer: Build) -> None:
    raw = make_tokenizer("llama-legacy", [])
    assert TextTokenizer(raw).opening_ids == (raw.token_to_id("<s>"),)
    assert TextTokenizer(make_tokenizer("byte-level", [])).opening_ids == ()


def test_truncation_saved_with_a_tokenizer_does_not_cut_texts(make_tokenizer: Build) -> None:
    raw = make_tokenizer("byte-level", [])
    raw.enable_truncation(4)
    raw.enable_padding(length=8)
    tokenizer = TextTokenizer(raw)
    text = "A sentence of more than four tokens."
    assert tokenizer.encode_text(text) == tokenizer.encode_template(text)
    assert len(tokenizer.encode_text(text)) > 4
    assert len(tokenizer.encode_text("a")) == 1


def spelling_model(**options: Any) -> Tokenizer:
    """A BPE that can make `</s>` by merges, as models converted from SentencePiece can."""
    vocab = {"<unk>": 0, "</s>": 1, "<": 2, "/": 3, "s": 4, ">": 5, "</": 6, "s>": 7, "a": 8}
    return Tokenizer(models.BPE(vocab, [("<", "/"), ("s", ">"), ("</", "s>")], unk_token="<unk>", **options))


def plain(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(without_control_tokens(json.loads(tokenizer.to_str()))))


def unigram_model() -> Tokenizer:
    return Tokenizer(
        models.Unigram([("<unk>", 0.0), ("</s>", -0.1), ("</", -5.0), ("s>", -5.0), ("a", -5.0)], unk_id=0)
    )


def word_model() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "a": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@pytest.mark.parametrize(
    ("raw", "text", "unguarded", "ids"),
    [
        (spelling_model(ignore_merges=True), "</s>", [1], [6, 7]),
        (spelling_model(), "</s>a", [1, 8], [6, 7, 8]),
        (unigram_model(), "a</s>", [4, 1], [4, 2, 3]),
        (word_model(), "a </s>", [2, 1], [2, 0]),
    ],
    ids=["whole words", "merges", "unigram", "no merges"],
)
def test_no_kind_of_model_spells_a_control_token(
    raw: Tokenizer, text: str, unguarded: list[int], ids: list[int]
) -> None:
    raw.add_special_tokens(["</s>"])
    assert raw.encode(text).ids == unguarded
    assert plain(raw).encode(text).ids == ids


def test_runs_of_white_space_stay_with_their_ids() -> None:
    raw = spelling_model()
    raw.add_special_tokens([f"<extra_{number}>" for number in range(5)])
    raw.add_tokens([AddedToken("\n\n", special=False, normalized=False)])
    assert plain(raw).encode("a\n\na").ids == raw.encode("a\n\na").ids == [8, 14, 8]


def test_every_kind_of_leading_space_can_be_removed() -> None:
    raw = Tokenizer(models.BPE({"a": 0, "▁": 1, "▁a": 2, "Ġ": 3, "Ġa": 4}, [("▁", "a"), ("Ġ", "a")]))
    cases = (
        (normalizers.Sequence([normalizers.Prepend("▁")]), None),
        (normalizers.Prepend("▁"), None),
        (None, pre_tokenizers.Metaspace(prepend_scheme="first")),
        (None, pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="always")])),
        (None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    )
    for normalizer, pre_tokenizer in cases:
        raw.normalizer, raw.pre_tokenizer = normalizer, pre_tokenizer
        assert raw.encode("a").ids in ([2], [4])
        unprefixed = without_prefix(json.loads(raw.to_str()))
        assert Tokenizer.from_str(json.dumps(unprefixed)).encode("a").ids == [0]
    raw.normalizer, raw.pre_tokenizer = None, pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert without_prefix(json.loads(raw.to_str())) is None


def test_the_id_for_unknown_characters_is_known_for_every_kind_of_model() -> None:
    assert unknown_id(json.loads(spelling_model().to_str())["model"]) == 0
    unigram = Tokenizer(models.Unigram([("a", 0.0), ("<unk>", 0.0)], unk_id=1))
    assert unknown_id(json.loads(unigram.to_str())["model"]) == 1
    assert unknown_id(json.loads(Tokenizer(models.BPE()).to_str())["model"]) is None
