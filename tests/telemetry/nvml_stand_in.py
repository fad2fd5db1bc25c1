"""The part of nvidia-ml-py that is used, for machines without a GPU."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace


class NVMLError(Exception):
    pass


def stand_in(count: int = 2, silent: frozenset[int] = frozenset({1})) -> ModuleType:
    """`count` GPUs; those that are `silent` do not report their utilisation, nor their memory's clock."""

    def utilisation(handle: int) -> SimpleNamespace:
        if handle in silent:
            raise NVMLError
        return SimpleNamespace(gpu=93)

    def memory_clock_mhz(handle: int, clock: int) -> int:
        assert clock == 2
        if handle in silent:
            raise NVMLError
        return 2619

    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=NVMLError,
        NVML_CLOCK_MEM=2,
        nvmlInit=lambda: None,
        nvmlDeviceGetMaxClockInfo=memory_clock_mhz,
        nvmlDeviceGetMemoryBusWidth=lambda handle: 5120,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}abcdef0-0000-4000-8000-00000000000{handle}",
        nvmlSystemGetDriverVersion=lambda: b"570.1",
        nvmlDeviceGetName=lambda handle: "NVIDIA H200",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=2**31, used=2**30),
        nvmlDeviceGetUtilizationRates=utilisation,
    )
    return module
