"""Small real tokenizers of the kinds that models come with, each holding whatever control tokens a profile needs.

They are trained here on the parallel text and the profiles' own templates, so they have merges where template and text
meet. `byte-level`: Qwen, Hunyuan, phrasebook. `gemma`: spaces as metaspaces, control tokens inside the model's vocabulary,
runs of line breaks as added tokens. `llama-legacy` and `llama-first`: SentencePiece's space before the text, after every
control token or at the very start alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from dragoman.prompts.catalog import profiles
from dragoman.prompts.lengths import parallel_text
from dragoman.prompts.profile import Profile
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.prompts.vendor import ChatTemplate

FAMILIES = ("byte-level", "gemma", "llama-legacy", "llama-first")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
GEMMA_CHAT = (
    "<bos>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<start_of_turn>{{ m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
CHAT_TOKENS = ("<|im_start|>", "<|im_end|>", "<bos>", "<start_of_turn>", "<end_of_turn>")
NOT_SPECIAL = ("<think>", "</think>", "<tool_call>")  # added tokens with special=False, as Qwen has them


@cache
def corpus() -> tuple[str, ...]:
    templates = (template.text + template.system for profile in profiles().values() for template in profile.templates)
    return (*(line for lines in parallel_text().values() for line in lines), *templates, "\n\n", ": ", "}\n{")


def control_tokens(profile: Profile) -> tuple[str, ...]:
    """Every control token the profile's prompts and stops use, language tags included."""
    named = (*profile.control_tokens, *profile.stop_tokens)
    codes = [language.code for language in profile.languages.values()]
    tokens = [
        token.format(source_code=code, target_code=code)
        for token in named
        for code in (codes if "{" in token else [""])
    ]
    return tuple(dict.fromkeys((*tokens, *CHAT_TOKENS, "</s>", *NOT_SPECIAL)))


@cache
def _byte_level() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False, special_tokens=[])
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer.to_str()


@cache
def _metaspace() -> str:
    """A SentencePiece-like BPE that falls back to bytes; its normaliser and pre-tokeniser are the families' own."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=1800, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tables = json.loads(tokenizer.to_str())
    tables["added_tokens"] = tables["added_tokens"][:3]  # the byte pieces are vocabulary, not added tokens
    return json.dumps(tables)


def _spelt(tables: dict[str, Any], tokens: Iterable[str]) -> None:
    """Put control tokens in the model's vocabulary with merges that spell them, as conversions from SentencePiece do."""
    vocab, merges = tables["model"]["vocab"], tables["model"]["merges"]
    for token in tokens:
        for end in range(1, len(token) + 1):
            for piece in (token[end - 1], token[:end]):
                vocab.setdefault(piece, len(vocab))
            if end > 1:
                merges.append([token[: end - 1], token[end - 1]])


def build(family: str, controls: Iterable[str]) -> Tokenizer:
    controls = tuple(controls)
    if family == "byte-level":
        tokenizer = Tokenizer.from_str(_byte_level())
    else:
        tables = json.loads(_metaspace())
        _spelt(tables, ("</s>", *(token for token in controls if token not in NOT_SPECIAL)))
        tokenizer = Tokenizer.from_str(json.dumps(tables))
    if family == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        tokenizer.add_tokens(
            [AddedToken(text, special=False, normalized=False) for text in ("\n\n", "\n\n\n", "▁▁", "<b>")]
        )
    elif family == "llama-legacy":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.pre_tokenizer = None
    elif family == "llama-first":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    for token in controls:
        tokenizer.add_tokens([AddedToken(token, special=token not in NOT_SPECIAL, normalized=False)])
    if tokenizer.token_to_id("<s>") is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    return tokenizer


@cache
def toy(family: str, name: str) -> TextTokenizer:
    """A tokenizer of `family` for the profile `name`, with a chat template where the profile needs the checkpoint's."""
    tokenizer = build(family, control_tokens(profiles()[name]))
    chat = ChatTemplate(GEMMA_CHAT if family == "gemma" else CHATML)
    return TextTokenizer(tokenizer, chat if profiles()[name].wire is None else None, f"{family} toy")


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=sorted(profiles()))
def profile(request: pytest.FixtureRequest) -> Profile:
    return profiles()[request.param]


@pytest.fixture
def tokenizer(family: str, profile: Profile) -> TextTokenizer:
    return toy(family, profile.name)


@pytest.fixture
def make_toy() -> Callable[[str, str], TextTokenizer]:
    return toy


@pytest.fixture
def make_tokenizer() -> Callable[[str, Iterable[str]], Tokenizer]:
    return build
