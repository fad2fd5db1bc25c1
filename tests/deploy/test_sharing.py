"""How many engines share a GPU, and what each gets: pure decisions, on machines that are described."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from dragoman.deploy.sharing import (
    BESIDE_WEIGHTS_BYTES,
    SharedMachine,
    choose,
    core_groups,
    gpu_fraction,
    memory_share,
    split_cores,
)

H100 = SharedMachine(gpus=1, memory_bytes=80 << 30, bandwidth_bytes_s=3.35e12, cores=16)
H200 = replace(H100, memory_bytes=141 << 30, bandwidth_bytes_s=4.9e12)
L4 = replace(H100, memory_bytes=24 << 30, bandwidth_bytes_s=0.3e12)
SMALL, MIDDLE = 1_800_000_000, 4_000_000_000


@pytest.mark.parametrize(
    ("weights", "machine", "engines", "reason"),
    [
        (SMALL, H100, 2, "leave it idle"),
        (SMALL, H200, 2, "leave it idle"),
        (MIDDLE, H100, 1, "keeps it busy"),
        (MIDDLE, H200, 1, "keeps it busy"),
        (SMALL, L4, 1, "keeps it busy"),  # a slow GPU is busy with a small model
        (None, H100, 1, "size is unknown"),
        (SMALL, replace(H100, bandwidth_bytes_s=None), 1, "bandwidth of the GPU's memory is unknown"),
        (SMALL, replace(H100, memory_bytes=24 << 30), 1, "10.8 GiB of GPU memory each, and may need 11.4 GiB"),
        (SMALL, replace(H100, cores=8), 2, "leave it idle"),
        (SMALL, replace(H100, cores=7), 1, "want 8 cores, and there are 7"),
        (SMALL, replace(H100, gpus=4, cores=16), 1, "want 26 cores"),
        (SMALL, replace(H100, gpus=4, cores=64), 2, "leave it idle"),
        (SMALL, replace(H100, no_mps="it is off"), 1, "compute in turn, which may be no faster: it is off"),
    ],
)
def test_a_model_that_leaves_the_gpu_idle_has_two_engines(
    weights: int | None, machine: SharedMachine, engines: int, reason: str
) -> None:
    choice = choose(weights, machine, memory_share=0.9)
    assert choice.engines == engines
    assert reason in choice.reason


def test_what_the_engines_of_a_gpu_get_fits_into_it() -> None:
    for engines in range(1, 8):
        for of_all in (0.3, 0.9, 0.95, 1.0):
            assert 0 < of_all - engines * memory_share(of_all, engines) + 1e-9 <= 0.001 * engines + 1e-9
        assert 0.999 < engines * gpu_fraction(engines) <= 1


def test_each_engine_of_the_choice_has_room_for_its_weights() -> None:
    for gib in range(16, 144, 8):
        machine = replace(H100, memory_bytes=gib << 30)
        choice = choose(SMALL, machine, memory_share=0.9)
        if choice.engines > 1:
            share = memory_share(0.9, choice.engines)
            assert share * machine.memory_bytes > 2 * SMALL + 0.99 * BESIDE_WEIGHTS_BYTES


def topology(folder: Path, siblings: dict[int, tuple[int, str]]) -> Path:
    """A folder as /sys/devices/system/cpu: of each core its processor, and the hardware threads of its core."""
    for core, (package, threads) in siblings.items():
        described = folder / f"cpu{core}" / "topology"
        described.mkdir(parents=True)
        (described / "physical_package_id").write_text(f"{package}\n")
        (described / "thread_siblings_list").write_text(f"{threads}\n")
    return folder


def test_engines_share_no_core_and_no_hardware_thread_of_one(tmp_path: Path) -> None:
    # Two processors of two cores with two threads each, numbered as Linux does.
    cores = {core: (core % 4 // 2, f"{core % 4},{core % 4 + 4}") for core in range(8)}
    groups = core_groups(frozenset(range(8)), topology(tmp_path, cores))
    assert groups == [{0, 4}, {1, 5}, {2, 6}, {3, 7}]
    assert split_cores(groups, 2) == [{0, 1, 4, 5}, {2, 3, 6, 7}]  # one processor each
    for parts in (1, 2, 3, 4):
        split = split_cores(groups, parts)
        assert len(split) == parts
        assert frozenset().union(*split) == frozenset(range(8))
        assert all(not one & other for one, other in combinations(split, 2))
    assert split_cores(groups, 5) == [frozenset(range(8))] * 5


def test_cores_are_those_that_the_process_may_use(tmp_path: Path) -> None:
    adjacent = topology(tmp_path, {core: (0, f"{core & ~1}-{core | 1}") for core in range(8)})
    assert core_groups(frozenset({2, 3, 5}), adjacent) == [{2, 3}, {5}]
    assert core_groups(frozenset({1, 0}), tmp_path / "none") == [{0}, {1}]
