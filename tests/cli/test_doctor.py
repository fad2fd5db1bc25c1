"""`dragoman doctor`: what it reports of a CPU and of a compiler, without an engine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement

from dragoman.cli import doctor
from dragoman.engine import spec
from dragoman.errors import ConfigError
from dragoman.gpu import NvmlGpus
from dragoman.service import stack
from dragoman.settings import EngineSettings, ModelSettings, Settings
from tests.telemetry.nvml_stand_in import stand_in


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


def test_it_says_how_many_engines_share_a_gpu_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = NvmlGpus(stand_in(silent=frozenset()), (0,))
    monkeypatch.setattr(doctor, "find_gpus", lambda: gpus)
    monkeypatch.setattr(stack, "runs_on_gpu", lambda: True)
    small = doctor._replicas(Settings())
    assert (small.state, small.details) == (
        "ok",
        "--replicas auto: 1 on each GPU: 2 engines have 0.9 GiB of GPU memory each, and may need 8.0 GiB",
    )
    several = doctor._replicas(Settings(engine=EngineSettings(tensor_parallel_size=2)))
    assert several.details == "--replicas auto: 1 on each GPU: an engine has several GPUs"
    assert doctor._replicas(Settings(model=ModelSettings(path="/no/such/folder"))).state == "warn"
    monkeypatch.setattr(doctor, "find_gpus", lambda: None)
    assert doctor._replicas(Settings()).state == "warn"


def test_models_that_fit_a_card_are_listed_in_three_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(doctor.command, ["--models", "--gpu-gib", "10"], catch_exceptions=False)
    assert result.exit_code == 0
    rows = {cells[1]: cells[2:] for line in result.output.splitlines() if len(cells := line.split()) == 5}
    assert rows["model"] == ["bf16", "fp8", "4-bit"]
    assert rows["tencent/Hy-MT2-7B"][0] == "-"
    assert int(rows["tencent/Hy-MT2-7B"][2]) > 1
    assert rows["Qwen/Qwen3-32B"] == ["-"] * 3
    assert "Sequences of 512 tokens" in result.output


def test_models_are_listed_for_this_machine_s_gpu_or_for_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_gpus", lambda: None)
    with pytest.raises(ConfigError, match="--gpu-gib"):
        CliRunner().invoke(doctor.command, ["--models"], catch_exceptions=False)


def test_the_supported_versions_are_those_that_the_package_asks_for_and_the_docs_name() -> None:
    """An upper bound is raised in one place with the others, after the engine's tests have run with the release."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (least, most) = doctor.SUPPORTED_VLLM
    for name in ("cpu", "cuda"):
        (asked,) = [one for one in map(Requirement, extras[name]) if one.name.startswith("vllm")]
        for version, fits in (
            (least, True),
            (most, True),
            ((least[0], least[1] - 1), False),
            ((most[0], most[1] + 1), False),
        ):
            assert asked.specifier.contains(".".join(map(str, version))) == fits
    sentence = f"vLLM {least[0]}.{least[1]} to {most[0]}.{most[1]}"
    for page in ("docs/installing.md", "src/dragoman/engine/startup.py"):
        assert sentence in (root / page).read_text(encoding="utf-8")
