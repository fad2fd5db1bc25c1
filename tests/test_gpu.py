"""GPUs through NVML, of which a stand-in is used where there is none."""

from __future__ import annotations

import sys

import pytest

from dragoman.gpu import Fresh, Gpu, NvmlGpus, Reading, find_gpus, visible_indexes
from tests.telemetry.nvml_stand_in import stand_in


@pytest.mark.parametrize("nvml", [None, stand_in(count=0)], ids=["no library", "no GPU"])
def test_a_machine_without_nvidia_ml_py_or_without_gpus_has_none(nvml: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert find_gpus() is None


def test_gpus_that_do_not_answer_are_left_out() -> None:
    gpus = NvmlGpus(stand_in(count=3, silent=frozenset({0, 2})), (0, 1, 2))
    assert gpus.read() == (Reading(1, 93.0, 1024.0),)
    assert [gpu.index for gpu in gpus.describe()] == [0, 1, 2]


def test_the_bandwidth_of_the_memory_comes_from_its_clock_and_width() -> None:
    nvml = stand_in(count=3, silent=frozenset({2}))
    assert NvmlGpus(nvml, (0, 1)).bandwidth_bytes_s() == pytest.approx(3.35e12, rel=0.001)  # an H100's
    assert NvmlGpus(nvml, (0, 2)).bandwidth_bytes_s() is None
    assert NvmlGpus(nvml, ()).bandwidth_bytes_s() is None


def test_only_the_visible_gpus_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in(count=4, silent=frozenset()))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    gpus = find_gpus()
    assert gpus is not None
    assert [reading.gpu for reading in gpus.read()] == [3, 1]
    assert gpus.describe()[0] == Gpu(3, "NVIDIA H200", 2048.0, "570.1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert find_gpus() is None


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, (0, 1, 2, 3)),
        ("2", (2,)),
        ("3, 0", (3, 0)),
        ("GPU-1abc", (1,)),
        ("GPU-3abcdef0-0000-4000-8000-000000000003,0", (3, 0)),
        ("1,9,2", (1,)),  # as in CUDA, what follows a GPU that is not there is not seen
        ("", ()),
        ("-1", ()),
        ("GPU-ffff", ()),
    ],
)
def test_cuda_visible_devices_narrows_the_gpus(setting: str | None, expected: tuple[int, ...]) -> None:
    assert visible_indexes(stand_in(count=4), setting) == expected


def test_a_reading_stays_fresh_for_a_while() -> None:
    now = [100.0]
    readings = iter([(Reading(0, 10.0, 1.0),), (Reading(0, 90.0, 2.0),)])
    read = Fresh(lambda: next(readings), fresh_s=1.0, clock=lambda: now[0])
    first = read()
    now[0] = 100.9
    assert read() is first
    now[0] = 101.0
    assert read() == (Reading(0, 90.0, 2.0),)


@pytest.mark.gpu
@pytest.mark.skipif(find_gpus() is None, reason="no NVIDIA GPU, or no nvidia-ml-py, here")
def test_this_machine_s_gpus_are_read() -> None:
    gpus = find_gpus()
    assert gpus is not None
    total = {gpu.index: gpu.memory_mib for gpu in gpus.describe()}
    assert gpus.read()
    for reading in gpus.read():
        assert 0 <= reading.utilisation_percent <= 100
        assert 0 < reading.memory_mib <= total[reading.gpu]
