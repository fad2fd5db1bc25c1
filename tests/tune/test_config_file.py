"""dragoman.toml from a tune: the settings load it, and every value stands under its reason."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.settings import load
from dragoman_bench.tune.config_file import as_settings, choices, config_text, toml, write_config
from dragoman_bench.tune.outcome import Choice, Tuning
from tests.tune.telling import RECOMMENDATION, WHOLE, stopped

FLAGS = {"model": "/models/x", "profile": "", "load-format": "dummy", "max-model-len": 2048}


def recommending(*chosen: Choice) -> Tuning:
    return replace(WHOLE, recommendation=replace(RECOMMENDATION, choices=chosen))


def test_the_settings_are_what_was_recommended_and_what_was_measured_with(tmp_path: Path) -> None:
    write_config(WHOLE, tmp_path / "dragoman.toml", as_settings(FLAGS))
    loaded = load(tmp_path / "dragoman.toml", environment={})
    engine = loaded.settings.engine
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (16, 8192)
    assert (engine.max_cudagraph_capture_size, engine.gpu_memory_utilization) == (512, 0.09)
    assert (loaded.settings.model.path, engine.load_format, engine.max_model_len) == ("/models/x", "dummy", 2048)
    assert {path for path, origin in loaded.origins.items() if origin != "default"} == {
        "model.path", "engine.load_format", "engine.max_model_len", *(choice.path for choice in RECOMMENDATION.choices),
    }  # fmt: skip


def test_every_value_stands_under_its_reason() -> None:
    lines = config_text(WHOLE, {}).splitlines()
    for choice in RECOMMENDATION.choices:
        at = next(n for n, line in enumerate(lines) if line.startswith(choice.path.removeprefix("engine.") + " ="))
        assert choice.why in " ".join(comment_above(lines, at))


def comment_above(lines: list[str], at: int) -> list[str]:
    first = at
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return [line.removeprefix("# ") for line in lines[first:at]]


def test_the_head_has_the_figures() -> None:
    head = " ".join(line.lstrip("#- ") for line in config_text(WHOLE, {}).split("\n\n")[0].splitlines())
    for told in (
        RECOMMENDATION.headline, "Qwen/Qwen3-4B on NVIDIA H200", "SLO: p95_s=2,itl_ms_p95=40.", "knee is at 16",
        "what the search found, 25 clients: goodput 34.1 (33.6..34.4) req/s, p95 1.21 s.".capitalize(),
        "no room for it beside the others", "saves 27.8 GiB",
    ):  # fmt: skip
        assert told in head
    assert max(map(len, config_text(WHOLE, {}).splitlines())) <= 100


def test_an_interrupted_tune_gives_the_best_so_far() -> None:
    text = config_text(stopped(), {})
    assert "Not finished (Ctrl-C)" in text
    assert tomllib.loads(text)["engine"] == {
        "max_num_seqs": 64, "max_num_batched_tokens": 2048, "kv_cache_memory_bytes": 2**29,
    }  # fmt: skip
    searched = choices(replace(WHOLE, recommendation=None))
    assert [(choice.path, choice.value) for choice in searched] == [
        ("engine.max_num_seqs", 16), ("engine.max_num_batched_tokens", 8192),
        ("engine.max_cudagraph_capture_size", 512), ("engine.gpu_memory_utilization", 0.09),
    ]  # fmt: skip
    assert searched[0].why == "the knee"


def test_nothing_measured_is_nothing_to_recommend(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was measured"):
        write_config(replace(stopped(), ladder=None), tmp_path / "dragoman.toml")
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_the_settings_do_not_take_is_not_written() -> None:
    with pytest.raises(ConfigError, match=r"engine\.gpu_memory_utilization = 1\.2"):
        config_text(recommending(Choice("engine.gpu_memory_utilization", 1.2, "too much")), {})
    with pytest.raises(ConfigError, match="is no setting"):
        config_text(recommending(Choice("engine.max_seqs", 4, "misspelt")), {})


def test_a_recommendation_overrules_what_servers_were_told() -> None:
    text = config_text(WHOLE, {"engine.max_num_seqs": 64, "engine.max_model_len": 2048})
    assert tomllib.loads(text)["engine"]["max_num_seqs"] == 16


def test_a_reason_cannot_leave_its_comment() -> None:
    reason = 'line\nmax_num_seqs = 999\n[engine]\r\n"""'
    text = config_text(recommending(Choice("engine.max_num_seqs", 4, reason)), {})
    assert tomllib.loads(text) == {"engine": {"max_num_seqs": 4}}


@pytest.mark.parametrize("value", ['a\\b "c" é 日本 \x7f\t', True, False, 3, 0.09, 2**40])
def test_values_are_written_as_toml_reads_them(value: Any) -> None:
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


def test_a_flag_that_is_no_setting_is_told() -> None:
    assert as_settings({"pipeline": "workers", "trust-remote-code": True}) == {
        "pipeline.name": "workers", "engine.trust_remote_code": True,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="--served-model-name"):
        as_settings({"served-model-name": "x"})
