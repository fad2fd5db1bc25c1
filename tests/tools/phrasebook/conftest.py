"""A tiny corpus of its own, so that these tests show what broke even where the packaged data changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tools.phrasebook.corpus import Corpus, load
from tools.phrasebook.model import create
from transformers import LlamaForCausalLM

from tools.phrasebook import lines, tokenizer

DATA = Path(__file__).parent / "data"
SMALL = {
    "vocab_size": 1024,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
}


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
    """A small tokenizer; of its 1024 ids only some are used."""
    return tokenizer.train(
        tokenizer.training_texts(corpus, lines.load(DATA), 300, seed=1), vocabulary=SMALL["vocab_size"]
    )


@pytest.fixture
def model() -> LlamaForCausalLM:
    """An untrained model whose layers have an effect: fresh weights are so small that tied embeddings repeat the last token."""
    model = create(SMALL, seed=1)
    with torch.no_grad():
        for layer in model.model.layers.parameters():
            if layer.dim() == 2:
                layer.mul_(8)
    return model.eval()
