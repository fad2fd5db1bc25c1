"""The packaged model: a small translation model for everyday messages in four languages.

It is for demonstrations and tests: it runs on a laptop with the same engine as other models, and benchmarks send its
messages. `tools/phrasebook` trains it. For servers and engines it is an ordinary Hugging Face model directory.
"""

from pathlib import Path

LANGUAGES: tuple[str, ...] = ("en", "ja", "ko", "zh")
"""Codes of the languages, in the order in which every tuple of texts holds them."""


def model_dir() -> Path:
    """Return the folder of the packaged weights, tokenizer and configuration, a Hugging Face causal language model."""
    return Path(__file__).parent / "weights"


def sentences_file() -> Path:
    """Return the file of sentences for load tests: gzip, a JSON array in each line, a text for each of `LANGUAGES`."""
    return Path(__file__).parent / "sentences.jsonl.gz"


__all__ = ["LANGUAGES", "model_dir", "sentences_file"]
