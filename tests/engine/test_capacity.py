"""GPU memory: what a KV cache for the recorded traffic takes, and which models fit a card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.engine.capacity import MOST_SEQUENCES, WEIGHT_BYTES, KvNeed, memory_share, sequences
from dragoman.engine.checkpoint import has_block_fp8
from dragoman.engine.spec import resolve
from dragoman.settings import EngineSettings, load

GIB = 1 << 30
# Qwen3-4B's shape: 144 KiB of KV cache a token.
SHAPE = {
    "num_hidden_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    return str(tmp_path)


def test_a_kv_cache_has_room_for_all_slots_or_for_one_sequence_as_long_as_the_window() -> None:
    many = KvNeed(slots=256, sequence_tokens=300, window=8192, bytes_per_token=1)
    assert many.size_bytes >= 256 * 300
    assert many.size_bytes % 16 == 0
    assert KvNeed(slots=4, sequence_tokens=300, window=8192, bytes_per_token=1).size_bytes >= 8192


def test_recorded_traffic_decides_the_kv_cache_and_what_must_be_free(model: str) -> None:
    auto = load(flags={"engine.kv_cache_memory_bytes": "auto"}, environment={}).settings.engine
    spec = resolve(model, auto, "cuda", sequence_tokens=420, gpu_bytes=80 * GIB)
    assert spec.engine.kv_cache_memory_bytes == KvNeed(256, 420, 8192, 144 * 1024).size_bytes
    # 8 GB of weights, 15.6 GiB of KV cache and 2 GiB: not 0.9 of the card.
    assert 0.3 < spec.engine.gpu_memory_utilization < 0.34
    assert spec.warnings == ()
    fewer = resolve(model, EngineSettings(kv_cache_memory_bytes="auto", max_num_seqs=64), "cuda", sequence_tokens=420)
    assert fewer.engine.kv_cache_memory_bytes == KvNeed(64, 420, 8192, 144 * 1024).size_bytes
    assert fewer.engine.gpu_memory_utilization == 0.9


def test_a_text_of_many_segments_is_no_longer_than_the_window(model: str) -> None:
    engine = EngineSettings(kv_cache_memory_bytes="auto", max_model_len=1024, max_num_seqs=8)
    long = resolve(model, engine, "cuda", sequence_tokens=50_000, gpu_bytes=80 * GIB)
    assert long.engine.kv_cache_memory_bytes == KvNeed(8, 1024, 1024, 144 * 1024).size_bytes


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_without_recorded_traffic_the_kv_cache_is_as_by_default(model: str, device: str) -> None:
    on = "cuda" if device == "cuda" else "cpu"
    auto = resolve(model, EngineSettings(kv_cache_memory_bytes="auto", dtype="bfloat16"), on, gpu_bytes=80 * GIB)
    unset = resolve(model, EngineSettings(dtype="bfloat16"), on, gpu_bytes=80 * GIB)
    assert auto.engine.gpu_memory_utilization == unset.engine.gpu_memory_utilization == 0.9
    assert any("fewer than 200 texts were recorded" in warning for warning in auto.warnings)
    if on == "cuda":
        assert auto.engine.kv_cache_memory_bytes is unset.engine.kv_cache_memory_bytes is None
    else:
        assert isinstance(auto.engine.kv_cache_memory_bytes, int)


def test_a_share_is_never_more_than_the_card_and_never_more_than_the_setting(model: str) -> None:
    assert memory_share(100 * GIB, GIB, 80 * GIB) == 1
    engine = EngineSettings(kv_cache_memory_bytes=70 * GIB, gpu_memory_utilization=0.5)
    assert resolve(model, engine, "cuda", gpu_bytes=80 * GIB).engine.gpu_memory_utilization == 0.5


def test_more_memory_and_smaller_weights_never_have_fewer_sequences() -> None:
    for parameters_b in (0.6, 1.8, 4.0, 7.5, 13.0, 32.8):
        by_format = [
            [sequences(parameters_b, each, gib * GIB, 512) for gib in range(4, 160, 4)]
            for each in WEIGHT_BYTES.values()
        ]
        for counts in by_format:
            assert counts == sorted(counts)
            assert 0 <= counts[0] <= counts[-1] <= MOST_SEQUENCES
        for bf16, fp8, four_bit in zip(*by_format, strict=True):
            assert bf16 <= fp8 <= four_bit


def test_a_7b_fits_a_card_of_8_gib_in_4_bits_alone() -> None:
    fits = {name: sequences(7.5, each, 0.9 * 8 * GIB, 512) > 0 for name, each in WEIGHT_BYTES.items()}
    assert fits == {"bf16": False, "fp8": False, "4-bit": True}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, False),
        ({"quant_method": "fp8", "activation_scheme": "static"}, False),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, True),
        ("fp8", False),
    ],
)
def test_fp8_by_blocks_is_recognised(quantization: object, expected: bool) -> None:
    assert has_block_fp8({"quantization_config": quantization}) == expected
