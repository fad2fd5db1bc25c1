"""What to start: a model and the engine's settings, with nothing left to vLLM's embedder defaults.

`AsyncLLM.from_engine_args` falls back to 128 sequences and 2048 batched tokens where `vllm serve` would take 1024 and 8192
on the same GPU; so both numbers are always decided here. Imports no vllm.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from dragoman.errors import ConfigError
from dragoman.settings import GRAPH_CEILING, PREFILL_INTERVAL, EngineSettings

Device = Literal["cuda", "cpu"]

LONGEST_DEFAULT_WINDOW = 8192  # tokens; a longer window costs KV cache that translation rarely uses
_BYTES_PER_VALUE = {"float32": 4}


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A model and engine settings with every number resolved for a device."""

    model: str
    device: Device
    engine: EngineSettings
    kv_bytes_per_token: int | None = None  # of KV cache; None: the checkpoint's config does not say


def read_config(model: str) -> dict[str, Any]:
    """The checkpoint's config.json; empty when `model` is a hub id that is not on disk."""
    file = Path(model) / "config.json"
    if not file.is_file():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", param="model.path") from None


def kv_bytes_per_token(config: dict[str, Any], dtype: str) -> int | None:
    """Bytes of KV cache that one token takes, for plain attention; None when the config does not say."""
    text = config.get("text_config", config)
    try:
        heads = text["num_attention_heads"]
        head_dim = text.get("head_dim") or text["hidden_size"] // heads
        values = 2 * text["num_hidden_layers"] * text.get("num_key_value_heads", heads) * head_dim
    except KeyError:
        return None
    return values * _BYTES_PER_VALUE.get(dtype, 2)


def _window(config: dict[str, Any]) -> int:
    text = config.get("text_config", config)
    return min(int(text.get("max_position_embeddings", LONGEST_DEFAULT_WINDOW)), LONGEST_DEFAULT_WINDOW)


def _cpu_kv_cache_bytes(config: dict[str, Any], engine: EngineSettings) -> int:
    """What the slots need, at most a quarter of the memory that is free: a CPU's memory is shared with everything else."""
    per_token = kv_bytes_per_token(config, engine.dtype) or 131_072
    need = per_token * (engine.max_model_len or LONGEST_DEFAULT_WINDOW) * (engine.max_num_seqs or 1)
    return max(min(need, psutil.virtual_memory().available // 4), 256 << 20)


def resolve(model: str, engine: EngineSettings, device: Device) -> EngineSpec:
    """Decide every number that the settings leave open."""
    config = read_config(model)
    on_gpu = device == "cuda"
    graphs = on_gpu and not engine.enforce_eager and engine.max_cudagraph_capture_size != 0
    engine = replace(
        engine,
        max_num_seqs=engine.max_num_seqs or (256 if on_gpu else 64),
        max_num_batched_tokens=engine.max_num_batched_tokens or (8192 if on_gpu else 2048),
        max_model_len=engine.max_model_len or _window(config),
        prefill_schedule_interval=engine.prefill_schedule_interval or (PREFILL_INTERVAL if graphs else 1),
    )
    if graphs and engine.max_cudagraph_capture_size is None:
        engine = replace(engine, max_cudagraph_capture_size=min(GRAPH_CEILING, engine.max_num_batched_tokens or 0))
    if not on_gpu and engine.kv_cache_memory_bytes is None:
        engine = replace(engine, kv_cache_memory_bytes=_cpu_kv_cache_bytes(config, engine))
    return EngineSpec(model, device, engine, kv_bytes_per_token(config, engine.dtype))
