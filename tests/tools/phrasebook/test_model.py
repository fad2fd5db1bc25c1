"""The model and its export, held to transformers' Llama."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tools.phrasebook.export import export, load
from tools.phrasebook.model import Cache, Phrasebook
from tools.phrasebook.shape import Shape, shape_of
from transformers import AutoModelForCausalLM, AutoTokenizer

from dragoman.errors import ConfigError


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(0, 1024, (3, 40), generator=torch.Generator().manual_seed(1))


def test_the_packaged_shape_is_under_eight_million_parameters_and_sixteen_megabytes() -> None:
    parameters = Phrasebook(Shape()).parameters_total()
    assert parameters < 8_000_000
    assert 2 * parameters < 16_000_000


def test_transformers_loads_the_export_and_computes_the_same_logits(
    model: Phrasebook, fitted: Tokenizer, ids: torch.Tensor, tmp_path: Path
) -> None:
    export(model, fitted, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ours = load(tmp_path, torch.float32)
    assert type(theirs).__name__ == "LlamaForCausalLM"
    with torch.inference_mode():
        expected = theirs(ids).logits
        assert expected.std() > 0.05
        torch.testing.assert_close(ours.logits(ours(ids)), expected, rtol=1e-4, atol=1e-5)


def test_transformers_loads_the_same_tokenizer(model: Phrasebook, fitted: Tokenizer, tmp_path: Path) -> None:
    export(model, fitted, tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = "Where is Zorvina's <b0>train station</b0>? 駅はどこ？"
    assert theirs.encode(text, add_special_tokens=False) == fitted.encode(text, add_special_tokens=False).ids
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2)


def test_the_config_tells_the_shape(model: Phrasebook) -> None:
    assert shape_of(model.shape.config()) == model.shape


def test_a_cache_changes_nothing(model: Phrasebook, ids: torch.Tensor) -> None:
    with torch.inference_mode():
        whole = model(ids)
        cache = Cache.empty(model.shape, 3, 40, whole)
        parts = [model(ids[:, :25], cache), *(model(ids[:, at : at + 1], cache) for at in range(25, 40))]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-5)


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="train one with"):
        load(tmp_path)
