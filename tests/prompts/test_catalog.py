"""Which profile a checkpoint gets, and what all packaged profiles have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.languages import normalise
from dragoman.prompts.catalog import profiles, select

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936}
HUNYUAN_7B = {"architectures": ["HunYuanDenseV1ForCausalLM"], "model_type": "hunyuan_v1_dense", "vocab_size": 128256}
GEMMA3 = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"vocab_size": 262208}}
LLAMA = {"architectures": ["LlamaForCausalLM"], "vocab_size": 128256}


def test_every_published_checkpoint_selects_its_own_profile() -> None:
    for profile in profiles().values():
        for model in profile.models:
            config = {"architectures": list(profile.match.architectures)}
            assert select(model.id, config).name == profile.name
            assert select(f"/models/{model.id.rpartition('/')[2]}", config).name == profile.name


@pytest.mark.parametrize(
    ("model", "config", "expected"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", QWEN3, "qwen3"),
        ("/models/ours", QWEN3, "qwen3"),
        ("NiuTrans/LMT-60-8B", QWEN3, "lmt-60"),
        ("/models/a", {**HUNYUAN_7B, "_name_or_path": "tencent/HY-MT1.5-7B"}, "hy-mt1.5-7b"),
        ("google/translategemma-4b-it", GEMMA3, "translategemma"),
        ("google/gemma-3-4b-it", GEMMA3, "chat"),
        ("meta-llama/Llama-3.1-8B-Instruct", LLAMA, "chat"),
        ("/models/small", {"dragoman_profile": "phrasebook", **LLAMA}, "phrasebook"),
        ("tencent/Hunyuan-7B-MT-lookalike-hunyuan-mt-7b", LLAMA, "chat"),  # the architecture says it is something else
    ],
)
def test_a_checkpoint_gets_its_profile(model: str, config: dict[str, Any], expected: str) -> None:
    assert select(model, config, has_chat_template=lambda: True).name == expected


def test_a_name_given_wins_over_the_checkpoint_and_a_users_file_over_everything(tmp_path: Path) -> None:
    assert select("Qwen/Qwen3-4B", QWEN3, "chat").name == "chat"
    path = tmp_path / "own.toml"
    path.write_text('extends = "chat"\nname = "own"\n')
    assert select("Qwen/Qwen3-4B", {"dragoman_profile": "phrasebook"}, "qwen3", path).name == "own"


def test_what_decides_for_no_profile_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        select("any", {}, "phrasbook")
    assert "no profile 'phrasbook'" in caught.value.message
    assert all(name in caught.value.message for name in profiles())
    with pytest.raises(ConfigError, match=r"dragoman_profile in config\.json"):
        select("any", {"dragoman_profile": "other"})
    with pytest.raises(ConfigError, match=r"hunyuan-mt, hy-mt1\.5-7b, hy-mt2-7b; chat for"):
        select("/models/ours", HUNYUAN_7B)  # models that cannot be distinguished
    with pytest.raises(ConfigError, match="--profile-file"):
        select("/models/base", LLAMA)


def test_profiles_are_named_as_their_files_and_have_a_licence() -> None:
    for name, profile in profiles().items():
        assert profile.name == name
        assert profile.licence or name == "chat"
        assert profile.models or name in ("chat", "phrasebook")


def test_languages_are_normalised_tags_and_pivots_are_served() -> None:
    for profile in profiles().values():
        assert {"en", "zh"} <= set(profile.languages)
        assert set(profile.pivots) <= set(profile.languages)
        for tag in profile.languages:
            assert normalise(tag) == tag
