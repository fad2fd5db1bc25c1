"""Reads the NVIDIA GPUs of this machine through NVML (nvidia-ml-py): names, utilisation, memory.

NVML lists all GPUs of the machine, in the order of the PCI bus; `find_gpus` selects those of CUDA_VISIBLE_DEVICES. A
reading blocks for some milliseconds: use a thread on an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any

MIB = 2**20
FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, with NVML's index."""

    index: int
    name: str
    memory_mib: float
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of one GPU. `utilisation_percent`: the share of the last sampling period in which a kernel ran."""

    gpu: int
    utilisation_percent: float
    memory_mib: float


class NvmlGpus:
    """The GPUs with these indexes. `nvml` is the initialised module `pynvml`."""

    def __init__(self, nvml: Any, indexes: Sequence[int]) -> None:
        self._nvml = nvml
        self._handles = [(index, nvml.nvmlDeviceGetHandleByIndex(index)) for index in indexes]

    def describe(self) -> tuple[Gpu, ...]:
        """Return the GPUs that can be read. Does not raise."""
        found: list[Gpu] = []
        for index, handle in self._handles:
            try:
                name, driver = self._nvml.nvmlDeviceGetName(handle), self._nvml.nvmlSystemGetDriverVersion()
                memory_mib = self._nvml.nvmlDeviceGetMemoryInfo(handle).total / MIB
            except self._nvml.NVMLError:
                continue
            found.append(Gpu(index, _string(name), memory_mib, _string(driver)))
        return tuple(found)

    def bandwidth_bytes_s(self) -> float | None:
        """Return the memory's bandwidth, that of the slowest GPU, from its clock and the bus's width; None: not reported."""
        found: list[float] = []
        for _, handle in self._handles:
            try:
                clock_mhz = self._nvml.nvmlDeviceGetMaxClockInfo(handle, self._nvml.NVML_CLOCK_MEM)
                bits = self._nvml.nvmlDeviceGetMemoryBusWidth(handle)
            except self._nvml.NVMLError:
                return None
            found.append(2 * clock_mhz * 1e6 * bits / 8)  # two transfers in each clock
        return min(found, default=None)

    def read(self) -> tuple[Reading, ...]:
        """Return a reading for each GPU that can be read. Does not raise."""
        found: list[Reading] = []
        for index, handle in self._handles:
            try:
                used_percent = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
                memory_mib = self._nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB
            except self._nvml.NVMLError:
                continue  # not reported for this kind of GPU (a MIG slice), or lost
            found.append(Reading(index, float(used_percent), memory_mib))
        return tuple(found)


def find_gpus() -> NvmlGpus | None:
    """Return the GPUs of CUDA_VISIBLE_DEVICES; None if there are none, or without nvidia-ml-py or a driver."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        indexes = visible_indexes(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return NvmlGpus(nvml, indexes) if indexes else None
    except nvml.NVMLError:
        return None


def visible_indexes(nvml: Any, setting: str | None) -> tuple[int, ...]:
    """Return NVML's indexes of the GPUs of CUDA_VISIBLE_DEVICES; all of them if it is not set.

    Entries are indexes or beginnings of a UUID; as in CUDA, the first entry without a GPU ends the list.
    """
    count: int = nvml.nvmlDeviceGetCount()
    if setting is None:
        return tuple(range(count))
    uuids = [_string(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(count)]
    found: list[int] = []
    for entry in map(str.strip, setting.split(",")):
        named = [
            i for i, uuid in enumerate(uuids) if str(i) == entry or (entry[:4] == "GPU-" and uuid.startswith(entry))
        ]
        if not named:
            break
        found.append(named[0])
    return tuple(found)


class Fresh:
    """Caches readings for a short time, so that several callers cause one reading."""

    def __init__(
        self,
        read: Callable[[], tuple[Reading, ...]],
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._clock = clock
        self._kept: tuple[Reading, ...] = ()
        self._read_at_s = float("-inf")

    def __call__(self) -> tuple[Reading, ...]:
        if self._clock() - self._read_at_s >= self._fresh_s:
            self._kept, self._read_at_s = self._read(), self._clock()
        return self._kept


def _string(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
