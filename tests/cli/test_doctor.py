"""`dragoman doctor`: what it reports of a CPU and of a compiler, without an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import doctor
from dragoman.engine import spec
from dragoman.settings import Settings


@pytest.mark.parametrize(("flags", "dtype"), [("fpu avx2", "float32"), ("fpu avx2 amx_bf16", "bfloat16")])
def test_the_dtype_that_the_cpu_s_flags_decide_is_reported(
    flags: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "CPU_INFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(doctor, "device", lambda: "cpu")
    assert f"dtype {dtype}" in doctor._model(Settings()).details
    assert "avx2" in doctor._cpu().details


def test_a_missing_compiler_is_a_warning_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    finding = doctor._compiler()
    assert (finding.state, finding.details) == ("warn", spec.NO_COMPILER)


def test_a_model_that_cannot_be_read_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no dragoman.toml
    result = CliRunner().invoke(doctor.command, ["--port", "0", "--model", "/no/such/folder"])
    assert result.exit_code == 1
