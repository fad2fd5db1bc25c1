"""GPUs of this machine: through NVML where nvidia-ml-py is installed, else through nvidia-smi, else none.

Reading blocks for up to some milliseconds: callers on an event loop use a thread. Knows nothing of who uses a GPU.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Protocol

from dragoman.bench.results import Gpu

_MIB = 2**20
_SMI_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Reading:
    gpu: int
    utilisation_percent: float
    memory_mib: float


class Gpus(Protocol):
    """`read` may miss a GPU that does not answer; it raises nothing."""

    def describe(self) -> tuple[Gpu, ...]: ...

    def read(self) -> tuple[Reading, ...]: ...


def find_gpus() -> Gpus | None:
    """NVML first: a reading costs a tenth of what starting nvidia-smi does."""
    nvml = _nvml()
    if nvml is not None:
        return NvmlGpus(nvml)
    return SmiGpus() if shutil.which("nvidia-smi") and _smi("index") else None


def chosen(gpus: Sequence[Reading], wanted: frozenset[int] | None) -> frozenset[int]:
    """The wanted ones; else those somebody has loaded something on (1 GiB and more), else all."""
    if wanted is not None:
        return wanted
    return frozenset(r.gpu for r in gpus if r.memory_mib >= 1024) or frozenset(r.gpu for r in gpus)


class NvmlGpus:
    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]

    def describe(self) -> tuple[Gpu, ...]:
        nvml = self._nvml
        driver = _string(nvml.nvmlSystemGetDriverVersion())
        return tuple(
            Gpu(i, _string(nvml.nvmlDeviceGetName(h)), nvml.nvmlDeviceGetMemoryInfo(h).total / _MIB, driver)
            for i, h in enumerate(self._handles)
        )

    def read(self) -> tuple[Reading, ...]:
        found: list[Reading] = []
        for index, handle in enumerate(self._handles):
            try:
                used = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle).used / _MIB
            except self._nvml.NVMLError:
                continue  # not told on this kind of GPU (a MIG slice), or lost
            found.append(Reading(index, float(used), memory))
        return tuple(found)


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


def _nvml() -> ModuleType | None:
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        return nvml if nvml.nvmlDeviceGetCount() else None
    except nvml.NVMLError:
        return None


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


def _string(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
