"""Where made-up texts come from: the phrasebook's generator, measured with a tokenizer.

The one place of the bench that knows the phrasebook. Knows nothing of loads and servers.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol

from dragoman import phrasebook
from dragoman.errors import ConfigError

TokensOf = Callable[[str], int]


class Texts(Protocol):
    """Makes texts of about a wanted length, in `languages`."""

    languages: tuple[str, ...]

    def make(self, language: str, tokens: int) -> str: ...


class PhrasebookTexts:
    """Messages that the phrasebook's model was not trained on; the same seed makes the same ones."""

    languages = phrasebook.LANGUAGES

    def __init__(self, seed: int, tokens_of: TokensOf) -> None:
        # Imported here: the generator loads its lexicon, which a file workload has no use for.
        corpus = import_module("dragoman.phrasebook.corpus")
        self._generator = corpus.Generator(split="heldout", seed=seed)
        self._tokens_of = tokens_of

    def make(self, language: str, tokens: int) -> str:
        return self._generator.message_of_tokens(language, tokens, self._tokens_of).texts[language]


def estimated_tokens(text: str) -> int:
    """Without a tokenizer: one token for four narrow characters, two for three wide ones (CJK, kana, hangul)."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return max(1, round((len(text) - wide) / 4 + wide * 2 / 3))


def token_counter(tokenizer: Path | None = None) -> tuple[TokensOf, str]:
    """A counter and its name, for the conditions: of the tokenizer.json given, else the phrasebook's, else an estimate.

    Raises ConfigError where the file given is not a tokenizer.
    """
    packaged = phrasebook.model_dir() / "tokenizer.json"
    path = tokenizer or (packaged if packaged.is_file() else None)
    if path is None:
        return estimated_tokens, "estimated from characters"
    library = import_module("tokenizers")
    try:
        loaded = library.Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001: the library raises bare Exception for every fault of the file
        raise ConfigError(f"cannot load the tokenizer {path}: {error}", param="tokenizer") from error
    name = "phrasebook tokenizer" if tokenizer is None else path.name

    def tokens_of(text: str) -> int:
        return len(loaded.encode(text, add_special_tokens=False).ids)

    return tokens_of, name
