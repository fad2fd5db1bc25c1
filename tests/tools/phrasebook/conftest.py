"""A tiny corpus of its own, so that these tests say what broke even where the packaged data changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tools.phrasebook.corpus import Corpus, load
from tools.phrasebook.model import Phrasebook, initialise
from tools.phrasebook.shape import Shape

from tools.phrasebook import tokenizer

DATA = Path(__file__).parent / "data"
SMALL = Shape(vocabulary=1024, hidden=128, layers=2, heads=4, kv_heads=2, intermediate=192, positions=512)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors are tiny here: more threads only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def corpus(data: Path) -> Corpus:
    return load(data)


@pytest.fixture(scope="session")
def fitted(corpus: Corpus) -> Tokenizer:
    """A small tokenizer, of its 1024 ids only some are used."""
    return tokenizer.train(tokenizer.training_texts(corpus, 300, seed=1), vocabulary=SMALL.vocabulary)


@pytest.fixture
def model() -> Phrasebook:
    """An untrained model of two layers with grouped queries, so that no shape stands for another by chance."""
    model = Phrasebook(SMALL)
    initialise(model, seed=1)
    with torch.no_grad():
        # Fresh weights are so small that a model with tied embeddings only repeats its last token.
        for layer in model.model.layers.parameters():
            if layer.dim() == 2:
                layer.mul_(8)
    return model.eval()
