"""GPUs of this machine: through NVML where nvidia-ml-py is installed, else through nvidia-smi, else none.

Reading blocks for up to some milliseconds: callers on an event loop use a thread. Knows nothing of who uses a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Protocol

from dragoman.telemetry import gpu as nvml
from dragoman.telemetry.gpu import Gpu, NvmlGpus, Reading

_SMI_PATIENCE_S = 10.0


class Gpus(Protocol):
    """`read` may miss a GPU that does not answer; it raises nothing."""

    def describe(self) -> tuple[Gpu, ...]: ...

    def read(self) -> tuple[Reading, ...]: ...


def find_gpus() -> Gpus | None:
    """Those that CUDA_VISIBLE_DEVICES leaves. NVML first: a reading costs a tenth of what starting nvidia-smi does."""
    loaded = nvml.load()
    if loaded is not None:
        visible = nvml.visible(loaded, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return NvmlGpus(loaded, visible) if visible else None
    return SmiGpus() if shutil.which("nvidia-smi") and _smi("index") else None


def chosen(gpus: Sequence[Reading], wanted: frozenset[int] | None) -> frozenset[int]:
    """The wanted ones; else those somebody has loaded something on (1 GiB and more), else all."""
    if wanted is not None:
        return wanted
    return frozenset(r.gpu for r in gpus if r.memory_mib >= 1024) or frozenset(r.gpu for r in gpus)


class SmiGpus:
    def describe(self) -> tuple[Gpu, ...]:
        rows = _smi("index,name,memory.total,driver_version")
        return tuple(Gpu(int(row[0]), row[1], _number(row[2]) or 0.0, row[3]) for row in rows)

    def read(self) -> tuple[Reading, ...]:
        found: list[Reading] = []
        for row in _smi("index,utilization.gpu,memory.used"):
            used, memory = _number(row[1]), _number(row[2])
            if used is not None and memory is not None:
                found.append(Reading(int(row[0]), used, memory))
        return tuple(found)


def _smi(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == fields.count(",") + 1 and row[0].isdigit()]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None  # "[N/A]"
