from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.telemetry.gpu import Gpu, NvmlGpus, Reading
from dragoman_bench.bench.gpu import SmiGpus, find_gpus
from tests.telemetry.nvml_stand_in import stand_in

SMI = """#!/bin/sh
case "$1" in
  --query-gpu=index) echo "0"; echo "1";;
  --query-gpu=index,name*) echo "0, NVIDIA H200, 143771, 570.1"; echo "1, NVIDIA H200, 143771, 570.1";;
  *) echo "0, 93, 20000"; echo "1, [N/A], 5";;
esac
"""


@pytest.fixture
def without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nvidia-smi of our own, the only one on the path."""
    path = tmp_path / "nvidia-smi"
    path.write_text(SMI)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return path


def test_nvml_is_preferred(monkeypatch: pytest.MonkeyPatch, smi: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in())

    gpus = find_gpus()

    assert isinstance(gpus, NvmlGpus)
    assert gpus.describe()[0] == Gpu(0, "NVIDIA H200", 2048.0, "570.1")
    assert gpus.read() == (Reading(0, 93.0, 1024.0),)


def test_nvidia_smi_is_read_where_nvml_is_not(without_nvml: None, smi: Path) -> None:
    gpus = find_gpus()

    assert isinstance(gpus, SmiGpus)
    assert gpus.describe() == (Gpu(0, "NVIDIA H200", 143771.0, "570.1"), Gpu(1, "NVIDIA H200", 143771.0, "570.1"))
    assert gpus.read() == (Reading(0, 93.0, 20000.0),)


def test_a_nvidia_smi_that_fails_finds_no_gpus(without_nvml: None, smi: Path) -> None:
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")

    assert find_gpus() is None


def test_a_machine_without_either_has_no_gpus(
    without_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_gpus() is None


@pytest.mark.gpu
@pytest.mark.skipif(find_gpus() is None, reason="no NVIDIA GPU here")
def test_this_machine_s_gpus_are_found_and_read() -> None:
    gpus = find_gpus()

    assert gpus is not None
    assert len(gpus.read()) == len(gpus.describe()) > 0
    assert all(0 <= reading.utilisation_percent <= 100 for reading in gpus.read())
