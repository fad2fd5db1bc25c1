from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from dragoman.errors import ConfigError
from dragoman_bench.bench.texts import PhrasebookTexts, estimated_tokens, token_counter


@pytest.mark.parametrize("language", ["en", "ja", "ko", "zh"])
@pytest.mark.parametrize("tokens", [12, 60, 200])
def test_texts_have_about_the_wanted_length(language: str, tokens: int) -> None:
    texts = PhrasebookTexts(3, estimated_tokens)

    lengths = [estimated_tokens(texts.make(language, tokens)) for _ in range(5)]

    assert all(abs(length - tokens) <= max(4, 0.15 * tokens) for length in lengths)


def test_the_same_seed_makes_the_same_texts_and_another_seed_others() -> None:
    def made(seed: int) -> list[str]:
        texts = PhrasebookTexts(seed, estimated_tokens)
        return [texts.make(language, tokens) for language, tokens in [("en", 30), ("ja", 80), ("en", 12)]]

    assert made(7) == made(7)
    assert not set(made(7)) & set(made(8))


def test_texts_of_one_run_do_not_repeat() -> None:
    texts = PhrasebookTexts(1, estimated_tokens)
    made = [texts.make("en", 12) for _ in range(300)]

    assert len(set(made)) == len(made)


def test_an_estimate_counts_wide_characters_as_more() -> None:
    assert estimated_tokens("abcdefgh") == 2
    assert estimated_tokens("図書館") == 2
    assert estimated_tokens("x") == 1


def test_a_tokenizer_file_counts_its_own_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    tokenizer.save(str(path))

    tokens_of, name = token_counter(path)

    assert tokens_of("a b c d") == 4
    assert name == "tokenizer.json"


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")

    with pytest.raises(ConfigError, match="cannot load the tokenizer"):
        token_counter(path)
