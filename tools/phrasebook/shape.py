"""Sizes of the phrasebook model, and the `config.json` that tells them to transformers and vLLM.

A plain description: no torch here, and no weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.phrasebook.tokenizer import BOS_ID, EOS_ID, PAD_ID, VOCABULARY


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the model. Heads are 64 wide, which every attention kernel of an engine supports."""

    vocabulary: int = VOCABULARY
    hidden: int = 320
    layers: int = 6
    heads: int = 5
    kv_heads: int = 5
    intermediate: int = 704
    positions: int = 1024
    head_dim: int = 64
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-5

    def config(self) -> dict[str, Any]:
        """The `config.json` of this shape."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "dragoman_profile": "phrasebook",  # by which the server knows how to prompt it
            "model_type": "llama",
            "dtype": "bfloat16",
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "max_position_embeddings": self.positions,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.norm_epsilon,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "initializer_range": 0.02,
            "bos_token_id": BOS_ID,
            "eos_token_id": EOS_ID,
            "pad_token_id": PAD_ID,
        }


def shape_of(config: Mapping[str, Any]) -> Shape:
    """The shape that a `config.json` describes."""
    rope = config.get("rope_parameters") or config
    return Shape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        intermediate=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        head_dim=config["head_dim"],
        rope_theta=rope["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )
