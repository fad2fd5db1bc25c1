"""Decides how many engines share each GPU, and what each of them gets: a share of the memory, and CPU cores of its own.

A small model leaves a GPU idle, because the engine's process, one Python core, is slower than the GPU: on an H100 (3.35 TB/s)
one engine of a model of 1.8B (1.1 ms to read its weights once) kept it busy 25 to 41% of the time, one of 4B (2.4 ms) 93 to
98%. All decisions are pure; only `core_groups` reads this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

CPU_FOLDER = Path("/sys/devices/system/cpu")
HOST_BOUND_READ_S = 0.0013
"""A model whose weights a GPU reads in less time is limited by the host. Measured at 0.0008 and 0.0011 (it is) and at 0.0024
(it is not)."""
ENGINES_OF_SMALL_MODEL = 2
"""Three were faster with 768 clients (466 requests/s instead of 393; one engine: 206), and slower with 256 (316 instead of
340), and with 25 slower than one (54 and 61)."""
BESIDE_WEIGHTS_BYTES = 8 << 30
"""Of an engine: CUDA's context, graphs, activations, and a KV cache for its slots."""
CORES_PER_ENGINE = 3
"""A server, an engine core, and what both have their other threads do: measured were 2.2, with streams 2.4."""
OTHER_CORES = 2
"""Of the command, Ray and HAProxy."""
BYTES_PER_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class SharedMachine:
    """The GPUs of a machine, and what engines on them share. `memory_bytes`: of the smallest GPU."""

    gpus: int
    memory_bytes: int
    bandwidth_bytes_s: float | None  # None: not reported
    cores: int
    no_mps: str = ""  # why there is no CUDA MPS; empty: there is


@dataclass(frozen=True, slots=True)
class SharingChoice:
    """The number of engines on each GPU, and why, as a sentence without a full stop."""

    engines: int
    reason: str


def choose(weights: int | None, machine: SharedMachine, memory_share: float) -> SharingChoice:
    """Choose the number of engines on each GPU for a model with so many weights (None: unknown).

    `memory_share`: of each GPU, for all of its engines together.
    """
    if weights is None or machine.bandwidth_bytes_s is None:
        what = "the model's size" if weights is None else "the bandwidth of the GPU's memory"
        return SharingChoice(1, f"{what} is unknown")
    weights_bytes = weights * BYTES_PER_WEIGHT
    read_s = weights_bytes / machine.bandwidth_bytes_s
    reads = f"this GPU reads the model's weights in {1000 * read_s:.1f} ms"
    if read_s > HOST_BOUND_READ_S:
        return SharingChoice(
            1, f"{reads}, which keeps it busy with one engine (from {1000 * HOST_BOUND_READ_S:.1f} ms on)"
        )
    engines = ENGINES_OF_SMALL_MODEL
    each_bytes = memory_share * machine.memory_bytes / engines
    need_bytes = weights_bytes + BESIDE_WEIGHTS_BYTES
    if each_bytes < need_bytes:
        return SharingChoice(
            1, f"{engines} engines have {_gib(each_bytes)} of GPU memory each, and may need {_gib(need_bytes)}"
        )
    need_cores = CORES_PER_ENGINE * engines * machine.gpus + OTHER_CORES
    if machine.cores < need_cores:
        return SharingChoice(1, f"{engines} engines on each GPU want {need_cores} cores, and there are {machine.cores}")
    if machine.no_mps:
        return SharingChoice(1, f"{engines} engines would compute in turn, which may be no faster: {machine.no_mps}")
    return SharingChoice(engines, f"{reads}, so that one engine, limited by its host, would leave it idle")


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


def memory_share(of_all: float, engines: int) -> float:
    """Return each engine's share of a GPU's memory, rounded down so that vLLM finds as much free for the last one."""
    return int(1000 * of_all / engines) / 1000


def gpu_fraction(engines: int) -> float:
    """Return the part of a GPU that Ray reserves for each of so many engines. Ray counts in ten-thousandths."""
    return 10_000 // engines / 10_000


def core_groups(allowed: frozenset[int], folder: Path = CPU_FOLDER) -> list[frozenset[int]]:
    """Return the cores of this machine that are `allowed`, as groups of hardware threads of one core.

    Groups of one processor come after each other; where the system does not say, each core is a group.
    """
    groups: dict[tuple[int, int], set[int]] = {}
    for core in sorted(allowed):
        topology = folder / f"cpu{core}" / "topology"
        try:
            package = int((topology / "physical_package_id").read_text())
            first = int((topology / "thread_siblings_list").read_text().replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            package, first = 0, core
        groups.setdefault((package, first), set()).add(core)
    return [frozenset(groups[key]) for key in sorted(groups)]


def split_cores(groups: Sequence[frozenset[int]], parts: int) -> list[frozenset[int]]:
    """Split groups of cores into so many parts, each with neighbouring groups and none with half of one.

    With fewer groups than parts nothing is split: each part has all cores.
    """
    every = frozenset[int]().union(*groups)
    if len(groups) < parts:
        return [every] * parts
    bounds = [len(groups) * part // parts for part in range(parts + 1)]
    return [frozenset[int]().union(*groups[first:end]) for first, end in pairwise(bounds)]
