"""NVIDIA's GPUs through NVML (nvidia-ml-py, of the `cuda` extra): what they are, how busy they are, what memory they hold.

Reading blocks for up to some milliseconds. NVML counts every GPU of the machine, in the order of the PCI bus, whatever
CUDA_VISIBLE_DEVICES says; `visible` narrows that. Knows nothing of who uses a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from types import ModuleType

MIB = 2**20
FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    name: str
    memory_mib: float
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    gpu: int
    utilisation_percent: float
    memory_mib: float


def load() -> ModuleType | None:
    """NVML, initialised; None without nvidia-ml-py, without a driver, and without a GPU."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        return nvml if nvml.nvmlDeviceGetCount() else None
    except nvml.NVMLError:
        return None


class NvmlGpus:
    """All GPUs of the machine, or those of these indexes."""

    def __init__(self, nvml: ModuleType, indexes: Sequence[int] | None = None) -> None:
        self._nvml = nvml
        wanted = range(nvml.nvmlDeviceGetCount()) if indexes is None else indexes
        self._handles = [(index, nvml.nvmlDeviceGetHandleByIndex(index)) for index in wanted]

    def describe(self) -> tuple[Gpu, ...]:
        """The GPUs that answer. Raises nothing."""
        return tuple(self._descriptions())

    def _descriptions(self) -> Iterator[Gpu]:
        nvml = self._nvml
        for index, handle in self._handles:
            try:
                name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
                memory = nvml.nvmlDeviceGetMemoryInfo(handle).total / MIB
            except nvml.NVMLError:
                continue
            yield Gpu(index, _string(name), memory, _string(driver))

    def read(self) -> tuple[Reading, ...]:
        """One reading a GPU; those that do not answer are missed. Raises nothing."""
        return tuple(self._readings())

    def _readings(self) -> Iterator[Reading]:
        for index, handle in self._handles:
            try:
                used = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB
            except self._nvml.NVMLError:
                continue  # not available on this kind of GPU (a MIG slice), or lost
            yield Reading(index, float(used), memory)


def visible(nvml: ModuleType, setting: str | None) -> tuple[int, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves a process, by NVML's index; all of them where it is not set.

    Entries are indexes or the beginning of a UUID; as in CUDA, the first that names no GPU ends the list.
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
    """The same readings for a while, however many ask for them."""

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
