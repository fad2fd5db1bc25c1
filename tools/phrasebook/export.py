"""Writes and reads the model directory: what transformers and vLLM expect of a Llama, in bfloat16.

Knows files and formats, not how the weights came to be.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from dragoman.errors import ConfigError
from tools.phrasebook.model import Phrasebook
from tools.phrasebook.shape import shape_of
from tools.phrasebook.tokenizer import BOS_ID, EOS_ID, PAD_ID, settings

WEIGHTS = "model.safetensors"


def export(model: Phrasebook, tokenizer: Tokenizer, directory: Path) -> None:
    """Writes config.json, model.safetensors (bfloat16), the tokenizer's two files and generation_config.json."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()
    }
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    tokenizer.save(str(directory / "tokenizer.json"))
    generation = {"do_sample": False, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID}
    for name, content in (
        ("config.json", model.shape.config()),
        ("tokenizer_config.json", settings()),
        ("generation_config.json", generation),
    ):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(directory: Path, dtype: torch.dtype = torch.bfloat16) -> Phrasebook:
    """The exported model, on the CPU, ready to evaluate. Raises ConfigError if the directory holds none."""
    if not (directory / WEIGHTS).is_file():
        raise ConfigError(f"{directory}: no {WEIGHTS} here; train one with `python -m tools.phrasebook.train`")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    model = Phrasebook(shape_of(config))
    model.load_state_dict(load_file(directory / WEIGHTS))
    return model.to(dtype).eval()
