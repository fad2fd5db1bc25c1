"""The packaged model: a small translation model for everyday messages in four languages.

It is a demonstration and a test instrument: with it a laptop runs the real engine on real translations, and a benchmark has
realistic messages to send. `tools/phrasebook` makes it. To servers and engines its weights are one more Hugging Face model
directory.
"""

from pathlib import Path

LANGUAGES: tuple[str, ...] = ("en", "ja", "ko", "zh")
"""Codes of the languages, in the order in which every tuple of texts holds them."""


def model_dir() -> Path:
    """The packaged weights, tokenizer and configuration, loadable as any Hugging Face causal language model."""
    return Path(__file__).parent / "weights"


def sentences_file() -> Path:
    """Sentences for load tests: gzip, one JSON array a line, one text for each of `LANGUAGES`."""
    return Path(__file__).parent / "sentences.jsonl.gz"


__all__ = ["LANGUAGES", "model_dir", "sentences_file"]
