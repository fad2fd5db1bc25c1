"""The packaged model: transformers' Llama with these sizes, and its model directory, which transformers and vLLM load.

Heads are 64 wide, which every attention kernel of an engine supports.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from dragoman.errors import ConfigError
from tools.phrasebook import tokenizer
from tools.phrasebook.tokenizer import BOS_ID, EOS_ID, PAD_ID, VOCABULARY

WEIGHTS = "model.safetensors"
TRAINING = "training.json"
SIZES: Mapping[str, int] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "head_dim": 64,
    "intermediate_size": 1024,
    "max_position_embeddings": 1024,
}


def configuration(sizes: Mapping[str, int]) -> dict[str, Any]:
    """The `config.json` of a model of these sizes, readable by transformers 4 and 5."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "dragoman_profile": "phrasebook",  # the prompt profile that the server uses
        "model_type": "llama",
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        **sizes,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "initializer_range": 0.02,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
    }


def create(sizes: Mapping[str, int], seed: int) -> LlamaForCausalLM:
    """An untrained model in float32: normal weights of deviation 0.02, smaller where a layer writes to the residual stream
    (GPT-2's scheme)."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(**{name: value for name, value in configuration(sizes).items() if "dtype" not in name})
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weights.mul_((2 * sizes["num_hidden_layers"]) ** -0.5)
    return model.float()


def parameters_total(model: LlamaForCausalLM) -> int:
    """Tied embeddings count once."""
    return sum(weights.numel() for weights in model.parameters())


def export(model: LlamaForCausalLM, sizes: Mapping[str, int], fitted: Tokenizer, directory: Path) -> None:
    """Writes config.json, model.safetensors (bfloat16), the tokenizer's two files and generation_config.json."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"  # tied to the embeddings
    }
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    fitted.save(str(directory / "tokenizer.json"))
    generation = {"do_sample": False, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID}
    for name, content in (
        ("config.json", configuration(sizes)),
        ("tokenizer_config.json", tokenizer.settings()),
        ("generation_config.json", generation),
    ):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(directory: Path, dtype: torch.dtype = torch.bfloat16) -> LlamaForCausalLM:
    """The exported model, on the CPU, ready to evaluate. Raises ConfigError if the directory holds none."""
    if not (directory / WEIGHTS).is_file():
        raise ConfigError(f"{directory}: no {WEIGHTS} here; train a model with `python -m tools.phrasebook.train`")
    model = cast(Any, LlamaForCausalLM).from_pretrained(directory, dtype=dtype, local_files_only=True)
    return cast(LlamaForCausalLM, model.eval())


def training_record(directory: Path) -> dict[str, Any] | None:
    """How `train` made an exported model, if that is known."""
    path = directory / TRAINING
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
