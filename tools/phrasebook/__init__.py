"""Makes the packaged phrasebook model: corpus, training, evaluation. Not installed with the server.

Aligned patterns (`data/`) generate the corpus, `train` fits the model, `evaluate` measures it on held-out messages. Importing
this package loads neither torch nor the data.
"""

from pathlib import Path


def data_dir() -> Path:
    """The patterns, lexicon and values."""
    return Path(__file__).parent / "data"
