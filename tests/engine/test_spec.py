"""Every value is decided before vLLM is started: slots, windows, graphs, and on a CPU the dtype and whether to compile."""

from __future__ import annotations

import json
from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from dragoman import phrasebook
from dragoman.engine import spec
from dragoman.engine.spec import NO_COMPILER, cpu_dtype, cpu_flags, resolve
from dragoman.errors import ConfigError
from dragoman.settings import GRAPH_CEILING, EngineSettings

PLAIN = EngineSettings()
MODEL = str(phrasebook.model_dir())
AVX2 = "processor\t: 0\nmodel name\t: a laptop\nflags\t\t: fpu sse4_2 avx avx2 fma f16c\n\nprocessor\t: 1\nflags\t\t: fpu\n"
AMX = "flags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n"
AVX512_BF16 = "flags\t\t: fpu avx2 avx512f avx512_bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\n"
OLD_ARM = "processor\t: 0\nFeatures\t: fp asimd\n"
GIB = 1 << 30


@pytest.fixture
def cpu_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What this machine's CPU is taken to be, from now on."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(spec, "CPU_INFO", file)
    return file


GIVEN = {
    "max_cudagraph_capture_size": 64,
    "cudagraph_mode": "FULL_AND_PIECEWISE",
    "max_num_seqs": 3,
    "dtype": "float16",
}
NO_GRAPHS = {"max_cudagraph_capture_size": None, "cudagraph_mode": None}


@pytest.mark.parametrize(
    ("device", "change", "resolved"),
    [
        ("cuda", {}, {"max_num_seqs": 256, "max_num_batched_tokens": 8192, "dtype": "auto", "cudagraph_mode": "FULL"}),
        ("cuda", {}, {"max_cudagraph_capture_size": GRAPH_CEILING}),
        ("cuda", {"max_num_seqs": 8}, {"max_cudagraph_capture_size": GRAPH_CEILING}),
        ("cuda", {"max_num_batched_tokens": 300}, {"max_cudagraph_capture_size": 300}),
        ("cuda", {"tensor_parallel_size": 2}, {"cudagraph_mode": "FULL_AND_PIECEWISE"}),
        ("cuda", {"enforce_eager": True}, NO_GRAPHS),
        ("cuda", {"max_cudagraph_capture_size": 0}, {"max_cudagraph_capture_size": 0, "cudagraph_mode": None}),
        ("cuda", GIVEN, GIVEN),
        ("cpu", {}, {"max_num_seqs": 64, "max_num_batched_tokens": 2048} | NO_GRAPHS),
        ("cpu", GIVEN, GIVEN),
    ],
)
def test_each_value_is_decided_or_stays(device: Any, change: dict[str, Any], resolved: dict[str, Any]) -> None:
    engine = resolve(MODEL, replace(PLAIN, **change), device).engine
    assert {name: getattr(engine, name) for name in resolved} == resolved


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({"num_attention_heads": 8, "use_sliding_window": False, "sliding_window": 4096}, "FULL"),
        ({"num_attention_heads": 8, "sliding_window": 4096}, "FULL_AND_PIECEWISE"),
        ({"num_attention_heads": 8, "layer_types": ["full_attention", "linear_attention"]}, "FULL_AND_PIECEWISE"),
        ({"num_attention_heads": 8, "kv_lora_rank": 512}, "FULL_AND_PIECEWISE"),
        ({"text_config": {"num_attention_heads": 8}}, "FULL_AND_PIECEWISE"),
        ({}, "FULL_AND_PIECEWISE"),
    ],
)
def test_other_attention_keeps_vllms_mode(config: dict[str, Any], mode: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert resolve(str(tmp_path), PLAIN, "cuda").engine.cudagraph_mode == mode


def test_whole_steps_run_with_the_attention_backend_that_replays_them_right() -> None:
    pytest.importorskip("vllm")
    from dragoman.engine.compat import engine_arguments

    whole = engine_arguments(resolve(MODEL, PLAIN, "cuda"))
    assert getattr(whole.attention_config.backend, "name", None) == "TRITON_ATTN"
    assert getattr(whole.compilation_config.cudagraph_mode, "name", None) == "FULL"
    for changed in (replace(PLAIN, cudagraph_mode="FULL_AND_PIECEWISE"), replace(PLAIN, enforce_eager=True)):
        assert engine_arguments(resolve(MODEL, changed, "cuda")).attention_config.backend is None
    assert engine_arguments(resolve(MODEL, PLAIN, "cpu")).attention_config.backend is None


def test_a_setting_that_this_vllm_does_not_know_is_an_error_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vllm")
    from dragoman.engine import compat

    old = ("shutdown_timeout", "quantization", "attention_config")
    members = [member for member in fields(compat.AsyncEngineArgs) if member.name not in old]
    older = make_dataclass("Older", [(member.name, Any, None) for member in members])
    monkeypatch.setattr(compat, "AsyncEngineArgs", older)
    compat.engine_arguments(resolve(MODEL, PLAIN, "cpu"), shutdown_timeout_s=5)
    for changed, device, named in (
        (replace(PLAIN, quantization="awq"), "cpu", "engine.quantization"),
        (PLAIN, "cuda", "attention_config"),
    ):
        with pytest.raises(ConfigError, match=named):
            compat.engine_arguments(resolve(MODEL, changed, device))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "dtype"),
    [(AVX2, "float32"), (AMX, "bfloat16"), (AVX512_BF16, "bfloat16"), (ARM, "bfloat16"), (OLD_ARM, "float32")],
)
def test_on_a_cpu_the_dtype_follows_its_instruction_sets(cpu_info: Path, content: str, dtype: str) -> None:
    cpu_info.write_text(content, encoding="utf-8")
    resolved = resolve(MODEL, PLAIN, "cpu")
    assert (resolved.engine.dtype, resolved.warnings) == (dtype, ())
    in_bfloat16 = resolve(MODEL, replace(PLAIN, dtype="bfloat16"), "cpu").kv_bytes_per_token or 0
    assert resolved.kv_bytes_per_token == in_bfloat16 * (2 if dtype == "float32" else 1)


def test_unknown_flags_count_as_none_of_them(cpu_info: Path) -> None:
    assert cpu_flags() is None
    assert resolve(MODEL, PLAIN, "cpu").engine.dtype == "float32"


def test_a_model_that_does_not_fit_in_float32_runs_in_bfloat16_with_a_warning(
    cpu_info: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu_info.write_text(AVX2, encoding="utf-8")
    config = {
        "hidden_size": 2048,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 8192,
        "vocab_size": 32000,
    }
    assert cpu_dtype("m", config, cpu_flags(), 16 * GIB) == ("float32", None)
    dtype, warning = cpu_dtype("m", config, cpu_flags(), 6 * GIB)
    assert (dtype, bool(warning)) == ("bfloat16", True)
    dtype, warning = cpu_dtype("m", {}, cpu_flags(), 1000 * GIB)
    assert (dtype, bool(warning)) == ("bfloat16", True)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=GIB))
    resolved = resolve(MODEL, PLAIN, "cpu")
    assert (resolved.engine.dtype, len(resolved.warnings)) == ("bfloat16", 1)


def test_the_dtype_of_a_quantised_model_is_left_to_vllm(cpu_info: Path, tmp_path: Path) -> None:
    cpu_info.write_text(AVX2, encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "awq"}}))
    assert resolve(str(tmp_path), PLAIN, "cpu").engine.dtype == "auto"


@pytest.mark.parametrize(
    ("change", "param"),
    [({"quantization": "fp8"}, "engine.quantization"), ({"kv_cache_dtype": "fp8"}, "engine.kv_cache_dtype")],
)
def test_fp8_that_the_cpu_has_no_kernels_for_is_refused(cpu_info: Path, change: dict[str, Any], param: str) -> None:
    cpu_info.write_text(AVX2, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        resolve(MODEL, replace(PLAIN, **change), "cpu")
    assert refused.value.param == param
    on_gpu = resolve(MODEL, replace(PLAIN, **change), "cuda").engine
    assert on_gpu == replace(resolve(MODEL, PLAIN, "cuda").engine, **change)


def test_an_fp8_cache_holds_twice_the_tokens(cpu_info: Path) -> None:
    cpu_info.write_text(AMX, encoding="utf-8")
    in_bfloat16 = resolve(MODEL, PLAIN, "cpu").kv_bytes_per_token or 0
    assert resolve(MODEL, replace(PLAIN, kv_cache_dtype="fp8_e5m2"), "cpu").kv_bytes_per_token == in_bfloat16 // 2


def test_without_a_compiler_the_engine_runs_uncompiled_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    resolved = resolve(MODEL, PLAIN, "cpu")
    assert resolved.engine.enforce_eager
    assert NO_COMPILER in resolved.warnings
    assert not resolve(MODEL, PLAIN, "cuda").engine.enforce_eager
    asked_for = resolve(MODEL, replace(PLAIN, enforce_eager=True), "cpu")
    assert NO_COMPILER not in asked_for.warnings
