"""A checkpoint's files, in a local folder or on the Hugging Face hub, and what they say of it: configuration, window, sizes.

A hub id is read through `huggingface_hub`: from its local cache where there is no network (or HF_HUB_OFFLINE is set).
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, cast

from dragoman.errors import ConfigError

LONGEST_DEFAULT_WINDOW = 8192  # tokens; a longer window costs KV cache that translation rarely uses
BYTES_PER_VALUE = {"float32": 4, "float16": 2, "bfloat16": 2, "auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
HUB_TIMEOUT_S = 10.0
_OTHER_ATTENTION = (
    "attn_logit_softcapping", "attn_type_list", "is_encoder_decoder", "kv_lora_rank", "linear_num_value_heads",
    "mamba_d_state", "q_lora_rank", "ssm_state_size", "state_size",
)  # fmt: skip
_PROMPT_FILES = ("*.json", "*.jinja", "*.model", "*.py", "*.txt", "*.tiktoken")
"""In the folder of a checkpoint: its tokenizer in every form, with the code that some have, and its chat template."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def read_config(model: str) -> dict[str, Any]:
    """The checkpoint's config.json.

    `model` is a folder or a hub id. Raises `ConfigError` where it is neither, the folder has no model that can be served, or
    the hub cannot be read.
    """
    path = Path(model)
    if path.is_dir():
        _check_is_model(path)
        return _read_json(path / "config.json")
    if path.is_file():
        kind = "a GGUF file, which is not supported" if path.suffix.lower() == ".gguf" else "a file"
        raise ConfigError(
            f"model {model} is {kind}: name a folder with config.json, a tokenizer and weights as safetensors",
            param="model.path",
        )
    return _read_json(_hub_config(model))


def _check_is_model(folder: Path) -> None:
    """Raises `ConfigError` for a folder without config.json, with what it has instead."""
    if (folder / "config.json").is_file():
        return
    if (folder / "adapter_config.json").is_file():
        reason = (
            "it has an adapter (LoRA), which cannot be served alone: merge it into its base model, and name that folder"
        )
    elif any(folder.glob("*.gguf")):
        reason = "it has GGUF files, which are not supported: name a folder with config.json and weights as safetensors"
    elif nested := next(folder.glob("*/config.json"), None):
        reason = f"it has no config.json; {nested.parent} has one"
    else:
        reason = "it has no config.json, so it is not a model's folder"
    raise ConfigError(f"model {folder}: {reason}", param="model.path")


def revision(model: str) -> str:
    """What changes when the checkpoint does: the hub's commit, or a folder's files with their sizes and times.

    Raises `ConfigError` as `read_config` does.
    """
    folder = Path(model)
    if not folder.is_dir():
        return _hub_config(model).parent.name
    files = sorted((file.name, file.stat()) for file in folder.iterdir() if file.is_file())
    return json.dumps([(name, stat.st_size, stat.st_mtime_ns) for name, stat in files])


@cache
def prompt_files(model: str) -> Path:
    """Return the folder of a checkpoint's tokenizer and chat template; from the hub they are downloaded to its local cache.

    Raises `ConfigError` as `read_config` does.
    """
    folder = Path(model)
    if folder.is_dir():
        return folder
    import huggingface_hub

    hub: Any = huggingface_hub  # its functions are typed in part
    of_commit = _hub_config(model).parent
    try:
        return Path(hub.snapshot_download(model, revision=of_commit.name, allow_patterns=list(_PROMPT_FILES)))
    except Exception as error:  # noqa: BLE001  # of the HTTP client, which differs between versions
        raise ConfigError(
            f"model {model}: its tokenizer cannot be read from the hub: {error}", param="model.path"
        ) from None


def window(config: dict[str, Any]) -> int:
    """Tokens that a prompt and its output share: the model's own, at most `LONGEST_DEFAULT_WINDOW`."""
    own = _text_config(config).get("max_position_embeddings") or LONGEST_DEFAULT_WINDOW
    return min(int(own), LONGEST_DEFAULT_WINDOW)


def kv_bytes_per_token(config: dict[str, Any], dtype: str, kv_cache_dtype: str = "auto") -> int | None:
    """Bytes of KV cache that one token takes, for plain attention; None when the config does not say.

    `dtype`: of the activations, in which the cache is unless `kv_cache_dtype` is another.
    """
    text = _text_config(config)
    try:
        heads = text["num_attention_heads"]
        head_dim = text.get("head_dim") or text["hidden_size"] // heads
        values = 2 * text["num_hidden_layers"] * (text.get("num_key_value_heads") or heads) * head_dim
    except (KeyError, TypeError):
        return None
    return values * BYTES_PER_VALUE[dtype if kv_cache_dtype == "auto" else kv_cache_dtype]


def has_plain_attention(config: dict[str, Any]) -> bool:
    """Whether each layer attends to all tokens before, with keys and values as they are (Llama, Qwen3, Mistral, Hunyuan): no
    latent attention, sliding windows, soft caps, state-space or linear layers, and no other modality."""
    kinds: list[str] = config.get("layer_types") or []
    return (
        "num_attention_heads" in config
        and "text_config" not in config
        and not any(config.get(name) for name in _OTHER_ATTENTION)
        and not (config.get("sliding_window") and config.get("use_sliding_window", True))
        and set(kinds) <= {"full_attention"}
    )


def has_block_fp8(config: dict[str, Any]) -> bool:
    """Whether the weights are in fp8 with one scale for each block of a matrix."""
    quantization: object = config.get("quantization_config")
    return isinstance(quantization, dict) and bool(cast("dict[str, object]", quantization).get("weight_block_size"))


def parameters(model: str, config: dict[str, Any]) -> int | None:
    """The number of weights: from the sizes of a folder's weight files, else from the config's shapes; None: unknown.

    The shapes are those of a dense decoder with a gated feed-forward (Llama, Qwen, Gemma, Mistral), near enough to decide
    whether it fits the memory; a mixture of experts counts all its experts.
    """
    folder = Path(model)
    sizes = [file.stat().st_size for file in folder.glob("*.safetensors")] if folder.is_dir() else []
    text = _text_config(config)
    if sizes:
        saved_as = str(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or "bfloat16")
        return sum(sizes) // BYTES_PER_VALUE.get(saved_as, 2)
    try:
        hidden, layers, vocabulary = text["hidden_size"], text["num_hidden_layers"], text["vocab_size"]
        heads = text["num_attention_heads"]
        head_dim = text.get("head_dim") or hidden // heads
        attention = 2 * hidden * head_dim * (heads + (text.get("num_key_value_heads") or heads))
        experts = text.get("num_experts") or text.get("num_local_experts") or 1
        feed_forward = 3 * hidden * (text.get("moe_intermediate_size") or text["intermediate_size"]) * experts
        embeddings = (
            vocabulary * hidden * (1 if text.get("tie_word_embeddings", config.get("tie_word_embeddings")) else 2)
        )
        return int(embeddings + layers * (attention + feed_forward))
    except (KeyError, TypeError):
        return None


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Multimodal checkpoints keep their language model's configuration apart."""
    return config.get("text_config") or config


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", param="model.path") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file} is not a JSON object", param="model.path")
    return cast("dict[str, Any]", content)


@cache
def _hub_config(model: str) -> Path:
    if not _HUB_ID.fullmatch(model):
        raise ConfigError(
            f"model {model!r}: there is no such folder, and it is not a hub id (name/name)", param="model.path"
        )
    import huggingface_hub
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    hub: Any = huggingface_hub  # its functions are typed in part
    local_only = {} if _hub_answers(hub, model) else {"local_files_only": True}
    try:
        return Path(hub.hf_hub_download(model, "config.json", **local_only))
    except GatedRepoError:
        reason = "access to it must be granted on its page; then log in with `hf auth login` or set HF_TOKEN"
    except RepositoryNotFoundError:
        reason = "there is no such folder, and no such model on the hub (or HF_TOKEN does not give access to it)"
    except LocalEntryNotFoundError:  # a subclass of EntryNotFoundError
        reason = (
            "the Hugging Face hub cannot be reached, and its config.json is not in the local cache: "
            f"check the network, or download it elsewhere (`hf download {model}`) and name the folder"
        )
    except EntryNotFoundError:
        reason = "it has no config.json on the hub"
    except Exception as error:  # noqa: BLE001  # of the HTTP client, which differs between versions
        reason = f"the hub cannot be read: {error}"
    raise ConfigError(f"model {model}: {reason}", param="model.path") from None


def _hub_answers(hub: Any, model: str) -> bool:
    """Ask the hub once. Where it does not answer, `hf_hub_download` would try again for up to two minutes before it says so."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(model, "config.json"), token=hub.get_token(), timeout=HUB_TIMEOUT_S)
    except HfHubHTTPError as error:  # such as that there is no such model, which the download reports
        return error.response.status_code < 500
    except Exception:  # noqa: BLE001  # of the HTTP client, which differs between versions; or HF_HUB_OFFLINE is set
        return False
    return True
