"""A small translation model for everyday messages in four languages, made here from nothing but this package.

It is a demonstration and a test instrument: with it a laptop runs the real engine on real translations, and a
benchmark has realistic messages to send. Aligned patterns (`data/`) generate the corpus, `train` fits the model,
`evaluate` measures it on held-out messages. Importing this package loads neither torch nor the data.

It knows nothing of servers and engines: to them the packaged weights are one more Hugging Face model directory.
"""

from pathlib import Path

LANGUAGES: tuple[str, ...] = ("en", "ja", "ko", "zh")
"""Codes of the languages, in the order in which every tuple of texts in this package holds them."""

_PACKAGE = Path(__file__).parent


def data_dir() -> Path:
    """The packaged patterns, lexicon and values."""
    return _PACKAGE / "data"


def model_dir() -> Path:
    """The packaged weights, tokenizer and configuration, loadable as any Hugging Face causal language model."""
    return _PACKAGE / "weights"


__all__ = ["LANGUAGES", "data_dir", "model_dir"]
